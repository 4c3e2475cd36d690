"""Write docs/notes.md and docs/notes.ko.md, and the numbers that the package has of them, from the findings on disk.

    python tools/notes.py            # write
    python tools/notes.py --check    # exit code 1 if a file is not what would be written

Statements and verdicts are in src/jumok/lab/notes; the numbers come from docs/notes (written by
`jumok example all --out docs/notes`), docs/lab and docs/results.  tests/lab/test_notes.py runs the check.
"""

import argparse
import json
import sys
from pathlib import Path

from jumok.lab.notes import numbers, page

ROOT = Path(__file__).resolve().parent.parent


def render_all(root: Path = ROOT) -> dict[Path, str]:
    """Every file that is written, and its text."""
    collected = numbers.collect(page.read_texts()[2], root / "docs")
    whole = page.read_page(collected)
    return {
        root / "src" / "jumok" / "lab" / "notes" / "numbers.json": json.dumps(collected, ensure_ascii=False, indent=1)
        + "\n",
        root / "docs" / "notes.md": page.to_markdown(whole, "en"),
        root / "docs" / "notes.ko.md": page.to_markdown(whole, "ko"),
    }


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
                path.write_text(text, encoding="utf-8")
    return int(check and stale > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
