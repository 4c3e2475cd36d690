"""Write docs/benchmarks.md, and the figures in README.md and README.ko.md, from the results in docs/results.

    python tools/benchmarks.py            # write
    python tools/benchmarks.py --check    # exit code 1 if a page is not what would be written

A result is one JSON file: title, command, date, machine, setup, columns, rows, notes and the page of the log that
describes the measurement.  Results with a `headline` also appear in the READMEs.  tests/house/test_documents.py runs
the check, so that a figure is changed in one place.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MARKS = ("<!-- figures: written by tools/benchmarks.py -->", "<!-- end of figures -->")
HEADS = {"en": ("what", "result", "command", "date"), "ko": ("무엇을", "결과", "명령", "날짜")}


def read_results(folder: Path) -> list[dict[str, Any]]:
    """Every result, in the order of the file names."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]


def table(columns: list[str] | tuple[str, ...], rows: list[list[str]]) -> list[str]:
    """Render rows as a Markdown table."""
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"a row has {len(row)} cells for {len(columns)} columns: {row}")
    lines = [list(columns), ["---"] * len(columns), *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def render(result: dict[str, Any]) -> list[str]:
    """Render one result as a section."""
    lines = [f"## {result['title']}", "", result["setup"], ""]
    if "picture" in result:
        lines += [f"![{result['caption']}]({result['picture']})", ""]
    lines += [*table(result["columns"], result["rows"]), ""]
    lines += [f"- {note}" for note in result["notes"]]
    lines += [f"- Measured {result['date']} with `{result['command']}` on {result['machine']}."]
    lines += [f"- Details: [log](log/{result['log']}).", ""]
    return lines


def render_page(results: list[dict[str, Any]]) -> str:
    """The whole of docs/benchmarks.md."""
    lines = [
        "# Benchmarks",
        "",
        "Every figure was measured by the command beside it. How speed is measured, and what counts as disturbed, is",
        "described in [bench/README.md](../bench/README.md); `jumok bench train` and `jumok bench decode` measure your",
        "own machine. `tools/benchmarks.py` writes this page from `docs/results`; change the results, not the page.",
        "",
    ]
    for result in results:
        lines += render(result)
    return "\n".join(lines).rstrip("\n") + "\n"


def shorten(result: dict[str, Any]) -> str:
    """The command of a result without its options."""
    return str(result.get("short", result["command"].split(" --")[0]))


def render_headlines(results: list[dict[str, Any]], language: str) -> str:
    """The table of figures in a README."""
    short = [result for result in results if "headline" in result]
    rows = [[*result["headline"][language], f"`{shorten(result)}`", result["date"]] for result in short]
    return "\n".join([MARKS[0], "", *table(HEADS[language], rows), "", MARKS[1]])


def replace_headlines(text: str, headlines: str) -> str:
    """A README with its table of figures exchanged."""
    changed, count = re.subn(f"{re.escape(MARKS[0])}.*?{re.escape(MARKS[1])}", lambda _: headlines, text, flags=re.S)
    if count != 1:
        raise ValueError(f"expected one table of figures between the marks, found {count}")
    return changed


def render_all(root: Path) -> dict[Path, str]:
    """Every page that is written, with its content."""
    results = read_results(root / "docs" / "results")
    pages = {root / "docs" / "benchmarks.md": render_page(results)}
    for name, language in (("README.md", "en"), ("README.ko.md", "ko")):
        text = (root / name).read_text(encoding="utf-8")
        pages[root / name] = replace_headlines(text, render_headlines(results, language))
    return pages


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a page is out of date")
    check = parser.parse_args().check
    stale = [
        (path, text)
        for path, text in render_all(ROOT).items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    for path, text in stale:
        if not check:
            path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {'is out of date' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
