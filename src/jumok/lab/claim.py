"""A claim of the paper or of the notes as a value: its text, how it is measured, and which checks must hold.

    CLAIM = Claim(name="mask", words=WORDS, measure=measure, check=check, draw=draw, tabulate=tabulate)

`measure` does the work and returns plain numbers (JSON); `check` decides from these numbers alone which checks hold,
and `draw` makes pictures of them.  A finding on disk can therefore be checked, drawn and reported again without being
measured again, and a test can pass `check` the numbers of a world in which the claim is false.

Not here how a claim gets its models (laboratory.py) and its texts (wording.py), pages (pages.py), claims (claims/).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jumok.lab.wording import Text, Words
from jumok.reports.drawing import display_width

Numbers = Mapping[str, Any]


class Check(NamedTuple):
    """A condition of the claim, described with its numbers, and whether it holds."""

    text: Text
    holds: bool


class Table(NamedTuple):
    """Numbers as rows under titles; the first column names the row."""

    titles: Sequence[Text]
    rows: Sequence[Sequence[str | Text]]

    def cells(self, language: str) -> list[list[str]]:
        """All cells in one language, titles first."""
        return [
            [cell.of(language) if isinstance(cell, Text) else str(cell) for cell in row]
            for row in (self.titles, *self.rows)
        ]


class Picture(NamedTuple):
    """A figure and its caption."""

    name: str  # its file name without extension
    svg: str
    caption: Text


Draw = Callable[[Numbers, str], Sequence[Picture]]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The text of a claim and the functions that test it."""

    name: str
    words: Words  # title, claim (one sentence), setup, meaning (why), next (what to try), and more
    measure: Callable[..., dict[str, Any]]  # (lab, **settings) -> numbers; all settings have defaults
    check: Callable[[Numbers], Sequence[Check]]
    draw: Draw  # (numbers, language) -> pictures
    tabulate: Callable[[Numbers], Table]
    version: int = 1  # findings on disk of another version are measured again


@dataclass(frozen=True)
class Finding:
    """The result of testing a claim on this machine."""

    claim: Claim
    numbers: Numbers
    scale: str
    seconds: float
    machine: str = ""
    date: str = ""
    command: str = ""
    checks: Sequence[Check] = field(default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "checks", tuple(self.claim.check(self.numbers)))

    @property
    def holds(self) -> bool:
        """The verdict: whether all checks hold."""
        return bool(self.checks) and all(check.holds for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """The finding as it is saved; verdict and checks are for other programs, and not read back."""
        return {
            "claim": self.claim.name, "version": self.claim.version, "scale": self.scale, "holds": self.holds,
            "checks": [{"told": check.text.en, "holds": check.holds} for check in self.checks],
            "seconds": round(self.seconds, 1), "machine": self.machine, "date": self.date, "command": self.command,
            "numbers": self.numbers,
        }  # fmt: skip


VERDICTS = {
    True: Text("holds here", "이 실험에서는 성립합니다"),
    False: Text("does not hold here", "이 실험에서는 성립하지 않습니다"),
}


def lines(finding: Finding, language: str = "en") -> list[str]:
    """A finding for the terminal: verdict, checks, numbers."""
    claim = finding.claim
    mark = {True: "✓", False: "✗"}
    text = [f"{claim.words('title').of(language)}: {VERDICTS[finding.holds].of(language)}", ""]
    text += [f"  {mark[check.holds]} {check.text.of(language)}" for check in finding.checks]
    cells = claim.tabulate(finding.numbers).cells(language)
    widths = [max(display_width(row[column]) for row in cells) for column in range(len(cells[0]))]

    def align(row: Sequence[str]) -> str:
        padded = [
            " " * (width - display_width(cell)) + cell if column else cell + " " * (width - display_width(cell))
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  " + "  ".join(padded).rstrip()

    return [*text, "", *map(align, cells)]
