"""How far a run has come: its state besides tensors, saved with every checkpoint.

Each part is written by one owner.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from jumok.evaluation.metrics import quality
from jumok.training.schedule import Course


@dataclass
class Counts:
    """Counters of updates, data and time; written by the loop."""

    step: int = 0
    epoch: int = 0
    index: int = 0  # next batch of the epoch
    tokens: int = 0  # target tokens
    seconds: float = 0.0  # in the training loop, over all attempts
    wall: float = 0.0  # since the beginning of the process, over all attempts
    skipped: int = 0  # updates without a finite loss, in total
    skipped_in_row: int = 0


@dataclass
class Best:
    """The best validation so far; written by the loop after each validation."""

    loss: float = math.inf
    quality: float = -1.0  # BLEU, or the percentage of right answers
    step: int = 0
    waited: int = 0  # validations since a score improved

    def is_beaten(self, scores: Mapping[str, float]) -> bool:
        """Whether these scores are better than all before: by quality where they have one, else by loss."""
        worth = quality(scores)
        return scores["loss"] < self.loss if worth is None else worth > self.quality

    def record(self, scores: Mapping[str, float], step: int) -> None:
        """Record the validation after this update, and whether it was better than all before."""
        worth = quality(scores)
        best = self.is_beaten(scores)
        better = best or scores["loss"] < self.loss
        self.step = step if best else self.step
        self.loss = min(self.loss, scores["loss"])
        self.quality = self.quality if worth is None else max(self.quality, worth)
        self.waited = 0 if better else self.waited + 1


@dataclass
class Plan:
    """When to validate, on how many pairs, and the course of the learning rate; written by the pace."""

    course: Course = field(default_factory=Course)
    every: int = 0  # updates between validations of a run limited by count
    batches: int = 0  # batches of the first epoch, if they were counted
    pairs: int = 0  # pairs of a validation; 0 until they are decided
    validated: int = 0  # update of the last validation
    due: int = 0  # update of the next validation of a run limited by minutes; 0 if only the last remains
    look: int = 0  # update after which the clock is checked next


@dataclass
class Minutes:
    """The minutes that limit a run; set by `runs.pacing.promise`, counted by the loop."""

    began: float = 0.0  # `wall` when the present minutes began
    until: float = 0.0  # `wall` when they end; 0 without a limit
    validations: int = 0  # validations in these minutes
    spent: float = 0.0  # seconds of these minutes for validating and saving


PARTS: dict[str, type] = {"counts": Counts, "best": Best, "plan": Plan, "minutes": Minutes}
SAVED = {  # names in files, where they differ from those of the fields
    "best": {"loss": "best", "quality": "best_bleu", "step": "best_step"},
    "minutes": {"validations": "judged"},
}


@dataclass
class Progress:
    """How far a run has come, in four parts."""

    counts: Counts = field(default_factory=Counts)
    best: Best = field(default_factory=Best)
    plan: Plan = field(default_factory=Plan)
    minutes: Minutes = field(default_factory=Minutes)

    @property
    def unvalidated(self) -> bool:
        """Whether there were updates after the last validation."""
        return self.plan.validated < self.counts.step

    def to_json(self) -> dict[str, Any]:
        """All parts as one flat dictionary."""
        values: dict[str, Any] = {}
        for part in PARTS:
            names = SAVED.get(part, {})
            values |= {names.get(name, name): value for name, value in asdict(getattr(self, part)).items()}
        values["best"] = None if math.isinf(self.best.loss) else self.best.loss  # JSON has no infinity
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Progress:
        """From a flat dictionary; unknown names are ignored, missing ones have their defaults."""
        parts = {}
        for part, kind in PARTS.items():
            names = {field.name: SAVED.get(part, {}).get(field.name, field.name) for field in fields(kind)}
            given = {name: values[saved] for name, saved in names.items() if values.get(saved) is not None}
            if "course" in given:
                given["course"] = Course(**given["course"])
            parts[part] = kind(**given)
        return cls(**parts)

    @classmethod
    def of(cls, **values: Any) -> Progress:
        """From the flat names of `to_json`."""
        return cls.from_json(values)

    def follow(self, other: Progress) -> None:
        """Take over all parts of another progress."""
        self.counts, self.best, self.plan, self.minutes = other.counts, other.best, other.plan, other.minutes
