"""Findings as one Markdown file with its pictures beside it: what a repository shows, or a teacher prints."""

from collections.abc import Sequence
from pathlib import Path

from jumok.lab.claim import VERDICTS, Finding
from jumok.lab.wording import Words
from jumok.storage.bundle import write_file

WORDS = Words.read("pages")


def write(findings: Sequence[Finding], path: Path, language: str = "en") -> Path:
    """The file, and the folder of pictures that it shows: docs/lab.md has docs/lab/en/."""
    pictures = path.parent / path.stem.partition(".")[0] / language
    pictures.mkdir(parents=True, exist_ok=True)
    parts = [beginning(findings, language)]
    for finding in findings:
        for picture in finding.claim.draw(finding.numbers, language):
            write_file(pictures / f"{picture.name}.svg", picture.svg.encode())
        parts.append(chapter(finding, language, pictures.relative_to(path.parent).as_posix()))
    write_file(path, ("\n\n".join(parts) + "\n").encode())
    return path


def beginning(findings: Sequence[Finding], language: str) -> str:
    """Title, verdicts at a glance, and how it was made."""
    count, holds = len(findings), sum(one.holds for one in findings)
    lines = [f"# {WORDS('title').of(language)}", "", WORDS("told", count=count, holds=holds).of(language), ""]
    lines += [f"| | {WORDS('claim').of(language)} | {WORDS('verdict').of(language)} | s |", "|---|---|---|---:|"]
    for one in findings:
        words, name = one.claim.words, one.claim.name
        verdict = VERDICTS[one.holds].of(language)
        lines.append(
            f"| [{name}](#{anchor(one, language)}) | {words('claim').of(language)} | {verdict} | {one.seconds:.0f} |"
        )
    made = {(one.machine, one.date, one.scale) for one in findings}
    lines += ["", WORDS("times").of(language)]
    lines += ["", *(f"- {machine} · {date} · `--scale {scale}`" for machine, date, scale in sorted(made))]
    return "\n".join(lines)


def anchor(finding: Finding, language: str) -> str:
    """Where a chapter is, as GitHub names it."""
    title = f"{finding.claim.name} {finding.claim.words('title').of(language)}".lower()
    return "".join(c for c in title if c.isalnum() or c in " -_").replace(" ", "-")


def chapter(finding: Finding, language: str, folder: str) -> str:
    """All about one claim."""
    claim = finding.claim

    def said(key: str) -> str:
        return claim.words(key).of(language)

    title = said("title")
    lines = [f"## {claim.name}: {title}", "", f"**{said('claim')}** {VERDICTS[finding.holds].of(language)}.", ""]
    lines += [f"*{' · '.join(claim.words.source(language))}* · `{finding.command}`", "", said("setup"), ""]
    for picture in claim.draw(finding.numbers, language):
        lines += [f"![{title}]({folder}/{picture.name}.svg)", "", f"*{picture.caption.of(language)}*", ""]
    lines += [f"- {'✓' if check.holds else '✗'} {check.told.of(language)}" for check in finding.checks]
    titles, *rows = claim.tabulate(finding.numbers).cells(language)
    lines += ["", f"| {' | '.join(titles)} |", "|---" + "|---:" * (len(titles) - 1) + "|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    lines += ["", said("meaning"), "", f"**{WORDS('next').of(language)}**: {said('next')}"]
    return "\n".join(lines)
