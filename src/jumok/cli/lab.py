"""`jumok lab` in a terminal: claims listed, one tried, or all of them into a report."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from jumok import lab as table
from jumok.cli.terminal import aside, dumps, forbid, watching
from jumok.config.recipe import parse_assignment
from jumok.errors import UnknownName, UsageError
from jumok.lab.book import write as bound
from jumok.lab.claim import VERDICTS, Finding, lines
from jumok.lab.conduct import collect, find, publish, report, write
from jumok.lab.laboratory import Lab
from jumok.lab.wording import LANGUAGES, Words
from jumok.reports.drawing import fit


def listing(language: str) -> list[str]:
    """Every claim with what it says."""
    known(language)
    return [f"{fit(name, 12)} {Words.read(name)('claim').of(language)}" for name in (*table.NAMES, *table.PAPER)]


def known(language: str) -> None:
    if language not in LANGUAGES:
        raise UnknownName("language", language, LANGUAGES, where="in --lang")


def conduct(
    name: str,
    *,
    language: str,
    scale: str,
    out: Path | None,
    runs: Path,
    data: Path | None,
    seed: int,
    again: bool,
    changes: Sequence[str],
    book: Path | None,
    as_json: bool,
) -> None:
    """What the verb does; `name` is a claim, `all`, `paper`, or a folder of findings to be told again."""
    known(language)
    if name not in (*table.NAMES, *table.PAPER) and Path(name).is_dir():
        ignored = {"set": changes or None, "again": again or None, "data": data}
        forbid("what is in a folder is told, not measured", ignored)
        retell(Path(name), language=language, out=out, book=book, as_json=as_json)
        return
    several = {"all": table.NAMES, "paper": table.PAPER}.get(name)
    settings = dict(map(parse_assignment, changes))
    if several and settings:
        raise UsageError("a knob belongs to one claim", where="in --set", hint=f"try: jumok lab {several[0]} --set …")
    given = data or (Path(folder) if (folder := os.environ.get("JUMOK_DATA")) else None)
    out = out or runs / "report"
    more = "".join(f" --set {one}" for one in changes)
    more += f" --scale {scale}" * (scale != "quick") + f" --seed {seed}" * (seed != 1) + " --data FOLDER" * bool(data)
    with watching() as (_, stop):
        lab = Lab(runs, scale=scale, seed=seed, data=given, say=lambda text: aside(f"  {text}"), stop=stop)
        if several:
            follow = Follower(several, language)
            findings = report(several, lab, out, language=language, again=again, options=more, follow=follow)
        else:
            findings = [find(name, lab, again=again, command=f"jumok lab {name}{more}", settings=settings)]
    made = [out / "index.html"] if several else write(findings[0], out, language=language)
    made += [bound(findings, book, language)] if book is not None else []
    if as_json:
        print("\n".join(dumps(one.to_json()) for one in findings))
        return
    told = list(map(summary, findings)) if several else lines(findings[0], language)
    print("\n".join([*told, "", *map(str, made)]))


def retell(folder: Path, *, language: str, out: Path | None, book: Path | None, as_json: bool) -> None:
    """Pages or a book of findings that were made before, perhaps elsewhere, perhaps in another language."""
    findings = collect(folder)
    made = [publish(findings, out, language)] if out is not None else []
    made += [bound(findings, book, language)] if book is not None else []
    print("\n".join(dumps(one.to_json()) if as_json else summary(one) for one in findings))
    print("\n".join(map(str, made)), end="\n" * bool(made))


class Follower:
    """Tells which claim is under way, and what came out."""

    def __init__(self, names: Sequence[str], language: str) -> None:
        self.names, self.language, self.began = names, language, time.monotonic()

    def __call__(self, number: int, name: str, finding: Finding | None) -> None:
        place = f"[{number + 1}/{len(self.names)}] {name}"
        if finding is None:
            aside(f"{place} …")
            return
        gone = (time.monotonic() - self.began) / 60
        aside(f"{place}: {VERDICTS[finding.holds].of(self.language)} ({finding.seconds:.0f} s; {gone:.1f} min)")


def summary(finding: Finding) -> str:
    """A finding in a line."""
    return f"{'✓' if finding.holds else '✗'} {fit(finding.claim.name, 12)} {finding.claim.words('title').en}"
