"""The thresholds of all claims, from one file (thresholds.toml) that was fixed before the judging seeds were run.

    LIMITS = Limits.read("mask")
    LIMITS["loss"]              # 0.5

`digest` names the thresholds of a claim: the record of a judging (judging.py) holds it, and a page says so if they were
changed since.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from functools import cache
from importlib import resources
from typing import Any


class Limits:
    """The thresholds of one claim by name."""

    def __init__(self, values: dict[str, dict[str, Any]]) -> None:
        self.values = {name: float(each["value"]) for name, each in values.items()}
        self.reasons = {name: str(each["why"]) for name, each in values.items()}

    @classmethod
    def read(cls, claim: str) -> Limits:
        """The thresholds of a claim; none if it needs none."""
        return cls(read_all().get(claim, {}))

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    @property
    def digest(self) -> str:
        """Eight digits that change with any value."""
        return hashlib.sha256(json.dumps(self.values, sort_keys=True).encode()).hexdigest()[:8]


@cache
def read_all() -> dict[str, dict[str, dict[str, Any]]]:
    """All thresholds by claim and name, each with its value and the reason for it."""
    return tomllib.loads(resources.files("jumok").joinpath("lab/thresholds.toml").read_text(encoding="utf-8"))
