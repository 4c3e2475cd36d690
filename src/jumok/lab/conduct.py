"""Claims are tried, and what came out is kept: numbers as JSON, pictures as SVG, a page for each, an index.

    finding = find("mask", Lab("runs/lab"))
    write(finding, Path("report"), language="ko")

A finding is kept in the lab's folder under its claim and scale, so a report that was stopped goes on with the claim
that was under way, and another language costs nothing.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jumok import lab as table
from jumok import machine
from jumok.errors import Resumable, Stopped, UnknownName, UsageError
from jumok.lab import pages
from jumok.lab.claim import Claim, Finding
from jumok.lab.laboratory import Absent, Lab
from jumok.storage.bundle import write_file


def find(
    name: str, lab: Lab, *, again: bool = False, command: str = "", settings: Mapping[str, Any] | None = None
) -> Finding:
    """The finding of a claim: kept from before, or made now; `settings` turn its knobs (arguments of `measure`)."""
    claim, settings = table.get(name), knobs(table.get(name), settings or {})
    words = json.dumps(settings, sort_keys=True)
    other = f"-{hashlib.sha256(words.encode()).hexdigest()[:8]}" if settings else ""
    kept = lab.folder / "findings" / f"{name}-{lab.scale.name}-{lab.seed}{other}.json"
    old = None if again else read(kept)
    if old is not None and stands(old, lab):
        lab.say(f"{name}: found in {kept}")
        return old
    began = time.monotonic()
    try:
        numbers = claim.measure(lab, **settings)
    except Stopped:
        raise Resumable("lab.stopped", claim=name, folder=lab.folder) from None
    numbers = json.loads(json.dumps(numbers))  # what is judged is what is kept
    finding = Finding(
        claim, numbers, lab.scale.name, time.monotonic() - began, machine=str(machine.describe()),
        date=f"{datetime.now(UTC):%Y-%m-%d}", command=command or f"jumok lab {name}",
    )  # fmt: skip
    kept.parent.mkdir(parents=True, exist_ok=True)
    write_file(kept, json.dumps(finding.to_json(), ensure_ascii=False).encode())
    return finding


def stands(old: Finding, lab: Lab) -> bool:
    """Whether a finding need not be made again: it is `complete`, and had real text (`data`) if there is some now."""
    real = lab.data is not None
    return bool(old.numbers.get("complete", True)) and old.numbers.get("data", real) == real


def knobs(claim: Claim, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, if the claim has such knobs."""
    known = list(inspect.signature(claim.measure).parameters)[1:]
    for name in settings:
        if name not in known:
            raise UnknownName("lab.unknown_setting", name, known, claim=claim.name)
    return dict(settings)


def read(path: Path) -> Finding | None:
    """A finding from disk, judged anew; None where there is none of this version."""
    try:
        values = json.loads(path.read_bytes())
        claim = table.get(values["claim"])
        if values["version"] != claim.version:
            return None
        told = {name: values[name] for name in ("numbers", "scale", "seconds", "machine", "date", "command")}
        return Finding(claim, **told)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def collect(folder: Path) -> list[Finding]:
    """The findings that a report left in a folder, in the order of the lab's table."""
    kept = [read(folder / f"{name}.json") for name in (*table.NAMES, *table.PAPER)]
    found = [finding for finding in kept if finding is not None]
    if not found:
        raise UsageError("lab.no_findings", folder=folder)
    return found


def write(finding: Finding, out: Path, *, language: str = "en", index: bool = False) -> list[Path]:
    """The page, the pictures and the numbers of a finding, as files in a folder."""
    out.mkdir(parents=True, exist_ok=True)
    name = finding.claim.name
    files = {f"{name}.html": pages.page(finding, language, index="index.html" if index else None)}
    for picture in finding.claim.draw(finding.numbers, language):
        files[f"{picture.name}.svg"] = picture.svg
    files[f"{name}.json"] = json.dumps(finding.to_json(), ensure_ascii=False, indent=1)
    for path, content in files.items():
        write_file(out / path, content.encode())
    return [out / path for path in files]


def report(
    names: Sequence[str],
    lab: Lab,
    out: Path,
    *,
    language: str = "en",
    again: bool = False,
    options: str = "",
    follow: Callable[[int, str, Finding | None], None] = lambda number, name, finding: None,
) -> list[Finding]:
    """Try all, write all, and an index of all; `follow` hears when each begins (None) and what came out.

    `options` are those of the command line, as each page names the command that made it.  A claim whose text is not
    here is left out, and it is said.
    """
    findings: list[Finding] = []
    for number, name in enumerate(names):
        follow(number, name, None)
        try:
            findings.append(find(name, lab, again=again, command=f"jumok lab {name}{options}"))
        except Absent as error:
            lab.say(f"{name} is left out: {error}")
            continue
        write(findings[-1], out, language=language, index=True)
        write_index(findings, out, language)
        follow(number, name, findings[-1])
    return findings


def write_index(findings: Sequence[Finding], out: Path, language: str) -> Path:
    """The page from which one comes to those of all findings."""
    path = out / "index.html"
    write_file(path, pages.contents(findings, language).encode())
    return path


def publish(findings: Sequence[Finding], out: Path, language: str) -> Path:
    """The pages of findings that are there already, and their index."""
    for finding in findings:
        write(finding, out, language=language, index=True)
    return write_index(findings, out, language)
