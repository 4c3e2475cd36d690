"""Judging: the verdicts of seeds that were used for nothing else, and whether they agree with a finding.

`conduct.run_judging` runs the seeds and saves the record beside the findings of the claim and scale.  The thresholds
were fixed before these seeds were run; the record names them by their digest, and is part of a published finding.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jumok.lab.claim import Finding
from jumok.lab.thresholds import Limits

SEEDS = (11, 12, 13, 14, 15)


def list_verdicts(finding: Finding) -> list[str]:
    """The verdicts of the parts of a finding."""
    return [part.verdict.value for part in finding.parts]


def make_record(findings: dict[int, Finding]) -> dict[str, Any]:
    """The record of a judging: the verdicts of every seed, and the thresholds that they were found with."""
    first = next(iter(findings.values()))
    return {
        "seeds": {str(seed): list_verdicts(finding) for seed, finding in findings.items()},
        "thresholds": Limits.read(first.claim.name).digest,
        "version": first.version,
        "scale": first.scale,
    }


def read_record(path: Path) -> dict[str, Any] | None:
    """The record of a judging; None if there is none."""
    try:
        record: dict[str, Any] = json.loads(path.read_bytes())
        return record if isinstance(record["seeds"], dict) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def count_equal(finding: Finding) -> tuple[int, int]:
    """How many judging seeds came to the verdicts of this finding, and how many there are."""
    seeds = (finding.record or {}).get("seeds", {})
    return sum(verdicts == list_verdicts(finding) for verdicts in seeds.values()), len(seeds)


def is_current(finding: Finding) -> bool:
    """Whether the judging used today's thresholds and version of the claim."""
    record = finding.record or {}
    return (record.get("thresholds"), record.get("version")) == (
        Limits.read(finding.claim.name).digest, finding.claim.version,
    )  # fmt: skip
