"""Write docs/class: worksheets and their keys, the quiz and figures for slides, in Korean and English.

    python tools/course.py            # write
    python tools/course.py --check    # exit code 1 if a file is not what would be written

Texts are in src/jumok/lab/course; the numbers come from docs/notes (written by `jumok example all --out docs/notes`)
and docs/lab.  tests/lab/test_course.py runs the check.
"""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from jumok.lab.course import quiz, slides, worksheets
from jumok.lab.course.sheet import LANGUAGES

ROOT = Path(__file__).resolve().parent.parent


def render_all(root: Path = ROOT) -> dict[Path, str]:
    """Every file that is written, and its text."""
    docs = root / "docs"
    folder, files = docs / "class", {}
    questions = quiz.read_questions(docs)
    for language in LANGUAGES:
        for sheet in worksheets.read_sheets(docs):
            files[folder / language / f"{sheet.id}.html"] = worksheets.render(sheet, language)
            files[folder / language / f"{sheet.id}-key.html"] = worksheets.render_key(sheet, language)
        files[folder / language / "quiz.html"] = quiz.to_html(questions, language)
        files[folder / f"quiz{'.ko' if language == 'ko' else ''}.md"] = quiz.to_markdown(questions, language)
        for name, picture in slides.draw_all(docs, language).items():
            files[folder / language / f"{name}.svg"] = picture
    return files


def main(arguments: list[str]) -> int:
    """Write the files, or only say which are not up to date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true")
    check, stale = parser.parse_args(arguments).check, 0
    for path, text in render_all().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale += 1
            print(f"{'stale' if check else 'written'}: {path.relative_to(ROOT)}")
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    return int(check and stale > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
