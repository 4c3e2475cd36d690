"""Findings as one Markdown file with a folder of pictures, for a repository or for printing."""

import re
from collections.abc import Sequence
from pathlib import Path

from jumok.lab.claim import Finding, tell_checks, tell_verdict
from jumok.lab.judging import count_equal
from jumok.lab.pages import count_verdicts
from jumok.lab.remarks import tell_judging, tell_standing, tell_version
from jumok.lab.verdicts import MARKS
from jumok.lab.wording import Words, korean_machine
from jumok.reports.terms import read_terms
from jumok.storage.bundle import write_file

WORDS = Words.read("pages")


def write(findings: Sequence[Finding], path: Path, language: str = "en") -> Path:
    """Write the file and the folder of pictures that it shows: docs/lab.md has docs/lab/en/."""
    pictures = path.parent / path.stem.partition(".")[0] / language
    pictures.mkdir(parents=True, exist_ok=True)
    parts = [overview(findings, language)]
    for finding in findings:
        for picture in finding.claim.draw(finding.numbers, language):
            write_file(pictures / f"{picture.name}.svg", picture.svg.encode())
        parts.append(chapter(finding, language, pictures.relative_to(path.parent).as_posix()))
    write_file(path, ("\n\n".join(parts) + "\n").encode())
    return path


def overview(findings: Sequence[Finding], language: str) -> str:
    """The title, the list of terms, a table of all verdicts, and the machines they were measured on."""
    lines = [f"# {WORDS('title').of(language)}", "", WORDS("told", **count_verdicts(findings)).of(language), ""]
    titles = ["", *(WORDS(name).of(language) for name in ("claim", "verdict", "judging", "seconds"))]
    lines += [row_of(titles), "|---|---|---|---:|---:|"]
    for finding in findings:
        words, name = finding.claim.words, finding.claim.name
        link, (equal, count) = f"[{name}](#{anchor(finding, language)})", count_equal(finding)
        seeds = f"{equal}/{count}" if count else "–"
        verdict, seconds = tell_verdict(finding, language), f"{finding.seconds:.0f}"
        lines.append(row_of([link, words("claim").of(language), verdict, seeds, seconds]))
    machines = {(finding.machine, finding.date, finding.scale) for finding in findings}
    lines += ["", WORDS("times").of(language), "", WORDS("about").of(language), ""]
    for machine, date, scale in sorted(machines):
        lines.append(f"- {korean_machine(machine) if language == 'ko' else machine} · {date} · `--scale {scale}`")
    return "\n".join([*lines, "", *glossary(language)])


def glossary(language: str) -> list[str]:
    """The list of terms (reports/terms.toml) as a table."""
    columns = WORDS("term_columns").of(language).split(", ")
    lines = [f"## {WORDS('terms').of(language)}", "", row_of(columns), "|---|---|---|---|"]
    for term in read_terms().values():
        names = (term.ko, term.en) if language == "ko" else (term.en, term.ko)
        lines.append(row_of([*names, term.section, term.explain(language)]))
    return lines


def anchor(finding: Finding, language: str) -> str:
    """The anchor that GitHub gives to the heading of a chapter."""
    title = f"{finding.claim.name} {finding.claim.words('title').of(language)}".lower()
    return "".join(c for c in title if c.isalnum() or c in " -_").replace(" ", "-")


def chapter(finding: Finding, language: str, folder: str) -> str:
    """The chapter of one claim."""
    claim = finding.claim

    def text(key: str) -> str:
        return claim.words(key).of(language)

    title = text("title")
    lines = [f"## {claim.name}: {title}", "", f"**{text('claim')}** {tell_verdict(finding, language)}.", ""]
    lines += [f"*{' · '.join(claim.words.source(language))}* · `{finding.command}`", "", text("setup"), ""]
    lines += [tell_standing(finding, language), ""]
    for picture in claim.draw(finding.numbers, language):
        caption = picture.caption.of(language)
        lines += [f"![{title}: {first_sentence(caption)}]({folder}/{picture.name}.svg)", "", f"*{caption}*", ""]
    lines += [f"- {MARKS[verdict]} {line}" for verdict, line in tell_checks(finding, language)]
    titles, *rows = claim.tabulate(finding.numbers).cells(language)
    lines += ["", row_of(titles), "|---" + "|---:" * (len(titles) - 1) + "|", *map(row_of, rows)]
    if finding.shown is not None:
        titles, *rows = finding.shown.cells(language)
        lines += ["", row_of(titles), "|---" * len(titles) + "|", *map(row_of, rows)]
    for line in (*tell_judging(finding, language), *tell_version(finding, language)):
        lines += ["", line]
    lines += ["", text("meaning"), "", f"**{WORDS('next').of(language)}**: {text('next')}"]
    return "\n".join(lines)


def row_of(cells: Sequence[str]) -> str:
    """A row of a table."""
    return f"| {' | '.join(map(escape, cells))} |"


def escape(cell: str) -> str:
    """A cell of a table: a bar would begin the next one."""
    return cell.replace("|", "\\|")


def first_sentence(caption: str) -> str:
    """The beginning of a caption, for readers who do not see the picture.

    >>> first_sentence("Loss by length (n = 0.5). Lower is better.")
    'Loss by length (n = 0.5)'
    """
    return re.split(r"\.(?:\s|$)", caption, maxsplit=1)[0].replace("[", "(").replace("]", ")")
