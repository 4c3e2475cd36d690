"""Test claims and save the findings: numbers as JSON, pictures as SVG, a page for each claim, an index.

    finding = find("mask", Lab("runs/lab"))
    write(finding, Path("report"), language="ko")

A finding is saved in the lab's folder under its claim and scale, so a report that was stopped continues with the claim
that was interrupted, and another language needs no measurement.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jumok import lab as table
from jumok import machine, messages
from jumok.errors import Resumable, UnknownName, UsageError
from jumok.lab import judging, pages
from jumok.lab.claim import Claim, Finding
from jumok.lab.laboratory import Absent, Lab
from jumok.stopping import Stopped
from jumok.storage.bundle import write_file


def find(
    name: str, lab: Lab, *, again: bool = False, command: str = "", settings: Mapping[str, Any] | None = None
) -> Finding:
    """The finding of a claim, from disk or measured now; `settings` are keyword arguments of its `measure`."""
    claim, settings = table.get(name), check_settings(table.get(name), settings or {})
    given = json.dumps(settings, sort_keys=True)
    suffix = f"-{hashlib.sha256(given.encode()).hexdigest()[:8]}" if settings else ""
    path = lab.folder / "findings" / f"{name}-{lab.scale.name}-{lab.seed}{suffix}.json"
    old = None if again else read(path)
    record = judging.read_record(path_of_record(name, lab)) if not settings and lab.seed not in judging.SEEDS else None
    if old is not None and is_current(old, lab):
        lab.say(messages.text("lab.found", claim=name, file=path))
        return replace(old, record=record)
    began = time.monotonic()
    lab.count_seconds(0.0)
    try:
        numbers = claim.measure(lab, **settings)
    except Stopped:
        raise Resumable("lab.stopped", claim=name, folder=lab.folder) from None
    numbers = json.loads(json.dumps(numbers))  # check exactly what is saved
    finding = Finding(
        claim, numbers, lab.scale.name, lab.count_seconds(time.monotonic() - began), machine=str(machine.describe()),
        date=f"{datetime.now(UTC):%Y-%m-%d}", command=command or f"jumok lab {name}", record=record,
    )  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, json.dumps(finding.to_json(), ensure_ascii=False).encode())
    return finding


def run_judging(
    name: str, lab: Lab, *, again: bool = False, follow: Callable[[int, Finding], None] = lambda seed, finding: None
) -> Finding:
    """The finding of a claim with the verdicts of all judging seeds, which are measured now or read from disk."""
    findings: dict[int, Finding] = {}
    for seed in judging.SEEDS:
        findings[seed] = find(name, lab.reseed(seed), again=again, command=f"jumok lab {name} --seed {seed}")
        follow(seed, findings[seed])
    record = json.dumps(judging.make_record(findings))
    write_file(path_of_record(name, lab), record.encode())
    return find(name, lab, again=again)


def path_of_record(name: str, lab: Lab) -> Path:
    """Where the record of a judging is saved."""
    return lab.folder / "findings" / f"{name}-{lab.scale.name}-judged.json"


def is_current(old: Finding, lab: Lab) -> bool:
    """Whether a finding can be reused: of this version and complete, with real text (`data`) if there is some now."""
    real = lab.data is not None
    return (
        old.version == old.claim.version
        and bool(old.numbers.get("complete", True))
        and old.numbers.get("data", real) == real
    )


def check_settings(claim: Claim, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, if the claim has all of them."""
    known = list(inspect.signature(claim.measure).parameters)[1:]
    for name in settings:
        if name not in known:
            raise UnknownName("lab.unknown_setting", name, known, claim=claim.name)
    return dict(settings)


def read(path: Path) -> Finding | None:
    """A finding from disk, checked again; None if there is none that the claim of today understands."""
    try:
        values = json.loads(path.read_bytes())
        claim = table.get(values["claim"])
        if values["version"] not in (claim.version, *claim.understands):
            return None
        names = ("numbers", "scale", "seconds", "machine", "date", "command", "version")
        return Finding(claim, **{name: values[name] for name in names}, record=values.get("judged"))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def collect(folder: Path) -> list[Finding]:
    """The findings that a report wrote into a folder, in the order of the lab's table."""
    read_back = [read(folder / f"{name}.json") for name in (*table.NAMES, *table.PAPER)]
    findings = [finding for finding in read_back if finding is not None]
    if not findings:
        raise UsageError("lab.no_findings", folder=folder)
    return findings


def write(finding: Finding, out: Path, *, language: str = "en", index: bool = False) -> list[Path]:
    """Write the page, the pictures and the numbers of a finding into a folder."""
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
    """Test all claims, write pages and an index; `follow` is called before each (with None) and with each finding.

    `options` are those of the command line, because each page names the command that produced it.  A claim whose
    corpus is missing is left out and reported.
    """
    findings: list[Finding] = []
    for number, name in enumerate(names):
        follow(number, name, None)
        try:
            findings.append(find(name, lab, again=again, command=f"jumok lab {name}{options}"))
        except Absent as error:
            lab.say(messages.text("lab.left_out", claim=name, reason=error))
            continue
        write(findings[-1], out, language=language, index=True)
        write_index(findings, out, language)
        follow(number, name, findings[-1])
    return findings


def write_index(findings: Sequence[Finding], out: Path, language: str) -> Path:
    """Write the index page, which links to all findings."""
    path = out / "index.html"
    write_file(path, pages.contents(findings, language).encode())
    return path


def publish(findings: Sequence[Finding], out: Path, language: str) -> Path:
    """Write the pages of existing findings, and their index."""
    for finding in findings:
        write(finding, out, language=language, index=True)
    return write_index(findings, out, language)
