"""The verb `jumok lab`: lists the claims, tests one, or tests all of them for a report."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from jumok import lab as table
from jumok import messages
from jumok.cli.terminal import dumps, print_aside, watching
from jumok.cli.translate import forbid
from jumok.config.recipe import parse_assignment
from jumok.errors import UnknownName, UsageError
from jumok.lab.book import write as write_book
from jumok.lab.claim import Finding, lines, tell_part, tell_verdict
from jumok.lab.conduct import collect, find, publish, report, run_judging, write
from jumok.lab.laboratory import Lab
from jumok.lab.remarks import tell_judging
from jumok.lab.verdicts import MARKS
from jumok.lab.wording import LANGUAGES, Words
from jumok.messages import Message
from jumok.reports.drawing import fit


def list_claims(language: str) -> list[str]:
    """Return all claims, one per line, by name."""
    check_language(language)
    return [f"{fit(name, 12)} {Words.read(name)('claim').of(language)}" for name in (*table.NAMES, *table.PAPER)]


def check_language(language: str) -> None:
    """Refuse a language that the lab does not speak."""
    if language not in LANGUAGES:
        raise UnknownName("cli.unknown_language", language, LANGUAGES)


@dataclass(frozen=True)
class Request:
    """The options of `jumok lab`, as they were given."""

    language: str
    scale: str
    out: Path | None
    runs: Path
    data: Path | None
    seed: int
    again: bool
    changes: Sequence[str]
    book: Path | None
    as_json: bool
    judging: bool = False

    @property
    def options(self) -> str:
        """The options that change what is measured, for the command on each page."""
        words = "".join(f" --set {change}" for change in self.changes)
        words += f" --scale {self.scale}" * (self.scale != "quick")
        return words + f" --seed {self.seed}" * (self.seed != 1) + " --data FOLDER" * bool(self.data)


def conduct(name: str, request: Request) -> None:
    """Test and report; `name` is a claim, `all`, `paper`, or a folder of findings to report again."""
    language, book, again = request.language, request.book, request.again
    check_language(language)
    if name not in (*table.NAMES, *table.PAPER) and Path(name).is_dir():
        ignored = {"set": request.changes or None, "again": again or None, "data": request.data}
        forbid(Message("cli.findings_are_printed"), ignored)
        print_again(Path(name), language=language, out=request.out, book=book, as_json=request.as_json)
        return
    several = {"all": table.NAMES, "paper": table.PAPER}.get(name)
    settings = dict(map(parse_assignment, request.changes))
    if several and settings:
        raise UsageError("cli.setting_of_several_claims", claim=several[0])
    if request.judging and (several or settings or request.seed != 1):
        raise UsageError("cli.judging_takes_one_claim")
    data = request.data or (Path(folder) if (folder := os.environ.get("JUMOK_DATA")) else None)
    out, more = request.out or request.runs / "report", request.options
    with watching() as (_, stop):
        say = lambda text: print_aside(f"  {text}")  # noqa: E731
        lab = Lab(request.runs, scale=request.scale, seed=request.seed, data=data, say=say, stop=stop)
        if several:
            follow = Follower(several, language)
            findings = report(several, lab, out, language=language, again=again, options=more, follow=follow)
        elif request.judging:
            findings = [run_judging(name, lab, again=again, follow=follow_judging(language))]
        else:
            findings = [find(name, lab, again=again, command=f"jumok lab {name}{more}", settings=settings)]
    pages = [out / "index.html"] if several else write(findings[0], out, language=language)
    pages += [write_book(findings, book, language)] if book is not None else []
    if request.as_json:
        print("\n".join(dumps(finding.to_json()) for finding in findings))
        return
    result = [summarize(finding, language) for finding in findings] if several else lines(findings[0], language)
    result += [] if several else ["", *tell_judging(findings[0], language)] if findings[0].record else []
    print("\n".join([*result, "", *map(str, pages)]))


def print_again(folder: Path, *, language: str, out: Path | None, book: Path | None, as_json: bool) -> None:
    """Write pages or a book of existing findings, also of other machines, in any language."""
    findings = collect(folder)
    pages = [publish(findings, out, language)] if out is not None else []
    pages += [write_book(findings, book, language)] if book is not None else []
    print("\n".join(dumps(finding.to_json()) if as_json else summarize(finding, language) for finding in findings))
    print("\n".join(map(str, pages)), end="\n" * bool(pages))


class Follower:
    """Prints which claim is being tested, and its verdict."""

    def __init__(self, names: Sequence[str], language: str) -> None:
        self.names, self.language, self.began = names, language, time.monotonic()

    def __call__(self, number: int, name: str, finding: Finding | None) -> None:
        progress = f"[{number + 1}/{len(self.names)}] {name}"
        if finding is None:
            print_aside(f"{progress} …")
            return
        minutes = (time.monotonic() - self.began) / 60
        verdict = tell_verdict(finding, self.language)
        times = messages.text("cli.claim_times", seconds=finding.seconds, minutes=minutes)
        print_aside(f"{progress}: {verdict} ({times})")


def follow_judging(language: str) -> Callable[[int, Finding], None]:
    """Return what prints the verdict of each judging seed."""

    def follow(seed: int, finding: Finding) -> None:
        print_aside(messages.text("cli.judging_seed", seed=seed, verdict=tell_verdict(finding, language)))

    return follow


def summarize(finding: Finding, language: str) -> str:
    """Return a finding on one line; if the parts of the claim differ, with the verdict of each."""
    title = finding.claim.words("title").of(language)
    line = f"{MARKS[finding.verdict]} {fit(finding.claim.name, 12)} {title}"
    if len({part.verdict for part in finding.parts}) < 2:
        return line
    return f"{line} ({'; '.join(tell_part(part, language) for part in finding.parts)})"
