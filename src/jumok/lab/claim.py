"""A claim of the paper or of the notes as a value: its text, how it is measured, and which checks must hold.

    CLAIM = Claim(name="mask", words=WORDS, measure=measure, check=check, stand=stand, draw=draw, tabulate=tabulate)

`measure` does the work and returns plain numbers (JSON); `check` decides from these numbers alone which checks
hold, `stand` says how good the models were, and `draw` makes pictures.  A finding on disk can therefore be checked,
drawn and reported again without being measured again, and a test can pass `check` the numbers of a world in which the
claim is false.

A check holds, does not hold, or cannot be decided by what was measured (`holds` is None).  Checks belong to parts of
the claim: a part fails if one of its checks fails, and is not testable here if one of the others is not.  The verdict
of the claim is made of its parts in the same way, so a claim that holds only in part does not hold.

Not here how a claim gets its models (laboratory.py), its texts (wording.py) and its thresholds (thresholds.py), how
good models are (standing.py), pages (pages.py), claims (claims/).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jumok.lab.standing import Standing
from jumok.lab.verdicts import MARKS, VERDICTS, Verdict
from jumok.lab.wording import Text, Words
from jumok.reports.drawing import display_width

Numbers = Mapping[str, Any]
WORDS = Words.read("pages")
EXPECTED = Text("expected", "예상")  # in checks that say themselves what was expected


class Check(NamedTuple):
    """A condition of the claim, described with its numbers, and whether it holds."""

    text: Text
    holds: bool | None  # None: not testable here
    part: str = ""  # the part of the claim that it belongs to, a key of words("parts.…")
    decide: Text | None = None  # if it is not testable here: the size that would decide it, and what that costs

    @property
    def verdict(self) -> Verdict:
        return Verdict.of(self.holds)


class Part(NamedTuple):
    """A part of a claim and its verdict; a claim that is not divided has one without a name."""

    name: Text | None
    verdict: Verdict


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
    stand: Callable[[Numbers], Standing]  # how good the models are, of how many seeds
    draw: Draw  # (numbers, language) -> pictures
    tabulate: Callable[[Numbers], Table]
    show: Callable[[Numbers], Table] | None = None  # sentences, as a second table
    version: int = 1  # findings on disk of another version are measured again
    understands: tuple[int, ...] = ()  # older versions whose findings can still be judged and shown


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
    version: int = 0  # of the claim when it was measured; 0: today's
    record: Mapping[str, Any] | None = None  # the verdicts of other seeds, see judging.py
    checks: Sequence[Check] = field(default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "checks", tuple(self.claim.check(self.numbers)))
        object.__setattr__(self, "version", self.version or self.claim.version)

    @property
    def parts(self) -> list[Part]:
        """The parts of the claim in the order of their checks, each with its verdict."""
        names = dict.fromkeys(check.part for check in self.checks)
        return [
            Part(
                self.claim.words(f"parts.{name}") if name else None,
                combine(check.verdict for check in self.checks if check.part == name),
            )
            for name in names
        ]

    @property
    def verdict(self) -> Verdict:
        """The verdict on the whole claim."""
        return combine(part.verdict for part in self.parts)

    @property
    def shown(self) -> Table | None:
        """The sentences that the page shows."""
        return self.claim.show(self.numbers) if self.claim.show is not None else None

    @property
    def holds(self) -> bool:
        """Whether all checks hold."""
        return self.verdict is Verdict.HOLDS

    def to_json(self) -> dict[str, Any]:
        """The finding as it is saved; verdicts and checks are for other programs, and not read back."""
        return {
            "format": FORMAT, "claim": self.claim.name, "version": self.version, "scale": self.scale,
            "verdict": self.verdict.value, "holds": self.holds,
            "parts": [{"part": name.en if name else "", "verdict": verdict.value} for name, verdict in self.parts],
            "checks": [{"told": check.text.en, "holds": check.holds} for check in self.checks],
            "seconds": round(self.seconds, 1), "machine": self.machine, "date": self.date, "command": self.command,
            **({} if self.record is None else {"judged": self.record}), "numbers": self.numbers,
        }  # fmt: skip


FORMAT = 2  # of findings on disk; those of format 1 have no verdicts of parts, and are still read


def combine(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of a whole: it fails with any of its parts, and holds only if all of them hold."""
    present = set(verdicts)
    for verdict in (Verdict.FAILS, Verdict.UNTESTABLE):
        if verdict in present:
            return verdict
    return Verdict.HOLDS if present else Verdict.FAILS


def tell_verdict(finding: Finding, language: str = "en") -> str:
    """The verdict in words; if the parts of a claim differ, that of each."""
    if len({part.verdict for part in finding.parts}) < 2:
        return VERDICTS[finding.verdict].of(language)
    return " · ".join(tell_part(part, language) for part in finding.parts)


def tell_part(part: Part, language: str) -> str:
    """A part of a claim and its verdict, such as "does: does not hold here"."""
    verdict = VERDICTS[part.verdict].of(language)
    return f"{part.name.of(language)}: {verdict}" if part.name else verdict


def tell_checks(finding: Finding, language: str) -> list[tuple[Verdict, str]]:
    """The checks as sentences; one that fails says that it was expected otherwise, an open one what would decide it."""
    texts = []
    for check in finding.checks:
        text = check.text.of(language)
        if check.holds is False and EXPECTED.of(language) not in text:
            text = WORDS("failed", told=text).of(language)
        texts.append((check.verdict, f"{text}. {check.decide.of(language)}" if check.decide else text))
    return texts


def lines(finding: Finding, language: str = "en") -> list[str]:
    """A finding for the terminal: verdict, checks, numbers, and how good the models are."""
    claim = finding.claim
    text = [f"{claim.words('title').of(language)}: {tell_verdict(finding, language)}", ""]
    text += [f"  {MARKS[verdict]} {line}" for verdict, line in tell_checks(finding, language)]
    standing = [f"  {line}" for line in claim.stand(finding.numbers).tell(finding.scale, language)]
    text += ["", *standing, "", *align(claim.tabulate(finding.numbers).cells(language))]
    shown = finding.shown
    return text if shown is None else [*text, "", *align(shown.cells(language), left=len(shown.titles))]


def align(cells: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """The rows of a table for the terminal; the first columns, `left` of them, are aligned to the left."""
    widths = [max(display_width(row[column]) for row in cells) for column in range(len(cells[0]))]

    def pad(row: Sequence[str]) -> str:
        padded = [
            cell + " " * (width - display_width(cell)) if column < left else " " * (width - display_width(cell)) + cell
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  " + "  ".join(padded).rstrip()

    return list(map(pad, cells))
