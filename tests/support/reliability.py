"""Promises and how often they were tried: what tests say of the contract, as a table and as docs/RELIABILITY.md.

    def test_…(tries, kept):
        for n in range(tries(5, 100)):      # on every push 5, with ./test --long 100
            …
        kept("T1", "killed with SIGKILL at a random moment, then continued", figures="0 bytes differ")

A test that fails keeps nothing, and the page says so.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

PROMISES = {
    "T1": "Killed at any instant, training resumes and ends with the same bytes",
    "T2": "At most one checkpoint interval, of at most 15 minutes, is repeated; "
    "in an epoch each pair is seen as often as its corpus's share says",
    "T3": "A checkpoint on disk is whole or ignored; a full disk never destroys the last good one",
    "T4": "A loss or gradient that is not finite is skipped, counted and shown",
    "T5": "SIGTERM or Ctrl-C in any phase: saved and gone within 10 seconds",
    "M1": "Loading a model never runs code, never reads the network, never takes more memory than its recipe implies",
    "D1": "Nothing in a text file is silently re-aligned or dropped",
    "S0": "Nothing is cut in silence: what is too long is refused",
    "S1": "Any bytes sent to the server give 2xx, 4xx, 429 or 503: never 500, never a dead process, never a hang",
    "S2": "Overload is refused early with 429 and Retry-After; accepted requests meet their deadline",
    "S3": "A client that leaves frees its place within one decoding step",
    "S4": "SIGTERM: readiness turns 503 at once, accepted requests finish, exit within the drain time",
    "S5": "The same text gives the same translation, whatever else is in the batch",
}


@dataclass(frozen=True)
class Kept:
    """One promise, tried so many times."""

    promise: str
    what: str
    tries: int
    quick: int  # tries on every push
    figures: str = ""
    test: str = ""

    def cells(self, date: str) -> Sequence[str]:
        counts = f"{self.tries:,}" if self.tries == self.quick else f"{self.tries:,} (every push {self.quick:,})"
        return (self.what, counts, self.figures or "0 failed", f"`{self.test}`", date)


def read(reports: Iterable[object]) -> tuple[list[Kept], list[str]]:
    """What tests kept, by promise, and the names of those that should have and failed."""
    found, failed = [], []
    for report in reports:
        told = [value for name, value in getattr(report, "user_properties", []) if name == "kept"]
        if getattr(report, "outcome", "") == "passed":
            found += [Kept(**one) for one in told]
        elif getattr(report, "outcome", "") == "failed":
            failed.append(getattr(report, "nodeid", ""))
    merged: dict[tuple[str, ...], Kept] = {}  # what a test with several parameters says several times
    for one in found:
        same = (one.promise, one.what, one.figures, one.test)
        before = merged.get(same, replace(one, tries=0, quick=0))
        merged[same] = replace(one, tries=before.tries + one.tries, quick=before.quick + one.quick)
    order = list(PROMISES)
    return sorted(merged.values(), key=lambda one: (order.index(one.promise), one.test, one.what)), failed


def to_property(kept: Kept) -> tuple[str, dict[str, object]]:
    return ("kept", asdict(kept))


def page(found: Sequence[tuple[Kept, str]], failed: Sequence[str], machine: str) -> str:
    """docs/RELIABILITY.md."""
    lines = [
        "# What is promised, and how often it was tried",
        "",
        "Written by the tests: `./test --long` writes this page (and reliability.json), `./test` tries the same with",
        f"the smaller counts and prints them. A row is as old as its date. {machine}.",
    ]
    if failed:
        lines += ["", f"**{len(failed)} tests failed in this run**: " + ", ".join(f"`{name}`" for name in failed)]
    for promise, text in PROMISES.items():
        rows = [(one, date) for one, date in found if one.promise == promise]
        if rows:
            lines += [
                "",
                f"## {promise}: {text}",
                "",
                "| what is done | tries | result | test | date |",
                "|---" * 5 + "|",
            ]
            lines += ["| " + " | ".join(row.cells(date)) + " |" for row, date in rows]
    return "\n".join(lines) + "\n"


def remembered(path: Path, found: Sequence[Kept], date: str) -> list[tuple[Kept, str]]:
    """What this run kept, and what an earlier one did in tests that this one has not run, each with its date."""
    earlier = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    tests = {one.test for one in found}
    old = [(Kept(**one["kept"]), one["date"]) for one in earlier if one["kept"]["test"] not in tests]
    order = list(PROMISES)
    rows = sorted(
        [*old, *((one, date) for one in found)], key=lambda row: (order.index(row[0].promise), row[0].test, row[0].what)
    )
    content = [{"kept": asdict(one), "date": day} for one, day in rows]
    write(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return rows


def table(found: Sequence[Kept]) -> list[str]:
    """The same for a terminal."""
    return [f"{one.promise}  {one.tries:>7,}  {one.what}: {one.figures or '0 failed'}" for one in found]


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
