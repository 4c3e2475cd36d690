"""A claim of the paper or of the notes as a value: what is said, how it is tried, what must hold for it to stand.

    CLAIM = Claim(name="mask", words=WORDS, measure=measure, judge=judge, draw=draw, tabulate=tabulate)

`measure` does the work and gives plain numbers (JSON), `judge` reads them alone and says what holds, `draw` makes
pictures of them.  So a finding that was kept on disk is judged, drawn and told anew without any work, and a test can
hand `judge` the numbers of a world in which the claim is false.

Not here how a claim gets its models (laboratory.py), its words (wording.py), pages (pages.py), claims (claims/).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jumok.lab.wording import Text, Words
from jumok.reports.attention import display_width

Numbers = Mapping[str, Any]


class Check(NamedTuple):
    """One thing that must hold for the claim to stand, told with its numbers, and whether it does."""

    told: Text
    holds: bool


class Table(NamedTuple):
    """Numbers as rows under titles; the first column names the row."""

    titles: Sequence[Text]
    rows: Sequence[Sequence[str | Text]]

    def cells(self, language: str) -> list[list[str]]:
        """All of it in one language, titles first."""
        return [
            [cell.of(language) if isinstance(cell, Text) else str(cell) for cell in row]
            for row in (self.titles, *self.rows)
        ]


class Picture(NamedTuple):
    """A figure and what one sees in it."""

    name: str  # of its file, without ending
    svg: str
    caption: Text


Draw = Callable[[Numbers, str], Sequence[Picture]]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What is claimed, where, and how one finds out."""

    name: str
    words: Words  # title, claim (one sentence), setup, meaning (why), next (what to try), and the claim's own
    measure: Callable[..., dict[str, Any]]  # (lab, **settings) -> numbers; settings are knobs with defaults
    judge: Callable[[Numbers], Sequence[Check]]
    draw: Draw  # (numbers, language) -> pictures
    tabulate: Callable[[Numbers], Table]
    version: int = 1  # another one makes findings on disk old


@dataclass(frozen=True)
class Finding:
    """What came out of a claim, here."""

    claim: Claim
    numbers: Numbers
    scale: str
    seconds: float
    machine: str = ""
    date: str = ""
    command: str = ""
    checks: Sequence[Check] = field(default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "checks", tuple(self.claim.judge(self.numbers)))

    @property
    def holds(self) -> bool:
        """The verdict: everything that must hold does."""
        return bool(self.checks) and all(check.holds for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """All that is kept on disk; the verdict beside it is for programs that read it."""
        return {
            "claim": self.claim.name, "version": self.claim.version, "scale": self.scale, "holds": self.holds,
            "checks": [{"told": check.told.en, "holds": check.holds} for check in self.checks],
            "seconds": round(self.seconds, 1), "machine": self.machine, "date": self.date, "command": self.command,
            "numbers": self.numbers,
        }  # fmt: skip


VERDICTS = {True: Text("holds here", "성립합니다"), False: Text("does not hold here", "성립하지 않습니다")}


def lines(finding: Finding, language: str = "en") -> list[str]:
    """A finding for the terminal: verdict, what was checked, numbers."""
    claim = finding.claim
    mark = {True: "✓", False: "✗"}
    told = [f"{claim.words('title').of(language)}: {VERDICTS[finding.holds].of(language)}", ""]
    told += [f"  {mark[check.holds]} {check.told.of(language)}" for check in finding.checks]
    cells = claim.tabulate(finding.numbers).cells(language)
    widths = [max(display_width(row[column]) for row in cells) for column in range(len(cells[0]))]

    def aligned(row: Sequence[str]) -> str:
        padded = [
            " " * (width - display_width(cell)) + cell if column else cell + " " * (width - display_width(cell))
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  " + "  ".join(padded).rstrip()

    return [*told, "", *map(aligned, cells)]
