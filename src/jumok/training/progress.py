"""How far a run has come: all that it knows of itself besides tensors, saved with every checkpoint.

Each part has one owner, who alone writes to it.
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
    """Updates made and what went into them; the loop writes it."""

    step: int = 0
    epoch: int = 0
    index: int = 0  # next batch of the epoch
    tokens: int = 0  # of the target
    seconds: float = 0.0  # in the training loop, over all attempts
    wall: float = 0.0  # since the beginning of the process, over all attempts
    skipped: int = 0  # updates without a finite loss, in all
    skipped_in_row: int = 0


@dataclass
class Best:
    """The best validation so far; the loop writes it after each validation."""

    loss: float = math.inf
    quality: float = -1.0  # BLEU, or the share of right answers where there are answers
    step: int = 0
    waited: int = 0  # validations since something got better

    def beaten(self, scores: Mapping[str, float]) -> bool:
        """Whether these scores are better than all before: by quality where they have one, else by loss."""
        worth = quality(scores)
        return scores["loss"] < self.loss if worth is None else worth > self.quality

    def judge(self, scores: Mapping[str, float], step: int) -> None:
        """Remember whether the validation after this update was better than all before."""
        worth = quality(scores)
        best = self.beaten(scores)
        better = best or scores["loss"] < self.loss
        self.step = step if best else self.step
        self.loss = min(self.loss, scores["loss"])
        self.quality = self.quality if worth is None else max(self.quality, worth)
        self.waited = 0 if better else self.waited + 1


@dataclass
class Plan:
    """When to validate, on what, and the course of the learning rate; the pace writes it."""

    course: Course = field(default_factory=Course)
    every: int = 0  # updates between validations, where they are counted
    batches: int = 0  # in the first epoch, where that was counted
    pairs: int = 0  # of a validation; 0 until it is decided
    validated: int = 0  # the update of the last validation
    due: int = 0  # the update of the next one, where the clock decides; 0 is the last
    look: int = 0  # the update after which the clock is looked at next


@dataclass
class Minutes:
    """The minutes that limit a run; written where they are promised, and by the loop as they are spent."""

    began: float = 0.0  # `wall` when the minutes that now run began
    until: float = 0.0  # `wall` when they end; 0 without them
    judged: int = 0  # validations in these minutes
    spent: float = 0.0  # seconds of these minutes on validating and saving


PARTS: dict[str, type] = {"counts": Counts, "best": Best, "plan": Plan, "minutes": Minutes}
SAVED = {"loss": "best", "quality": "best_bleu", "step": "best_step"}  # fields of `Best` under their names in files


@dataclass
class Progress:
    counts: Counts = field(default_factory=Counts)
    best: Best = field(default_factory=Best)
    plan: Plan = field(default_factory=Plan)
    minutes: Minutes = field(default_factory=Minutes)

    def to_json(self) -> dict[str, Any]:
        """All parts as one flat dictionary."""
        best = {SAVED.get(name, name): value for name, value in asdict(self.best).items()}
        best["best"] = None if math.isinf(self.best.loss) else self.best.loss
        return {**asdict(self.counts), **best, **asdict(self.plan), **asdict(self.minutes)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Progress:
        """From a flat dictionary; names that it does not know are left out."""
        parts = {}
        for part, kind in PARTS.items():
            saved = {one.name: SAVED.get(one.name, one.name) if part == "best" else one.name for one in fields(kind)}
            given = {name: values[key] for name, key in saved.items() if values.get(key) is not None}
            if "course" in given:
                given["course"] = Course(**given["course"])
            parts[part] = kind(**given)
        return cls(**parts)

    @classmethod
    def of(cls, **values: Any) -> Progress:
        """From the flat names of `to_json`."""
        return cls.from_json(values)

    def follow(self, other: Progress) -> None:
        """Become like another."""
        self.counts, self.best, self.plan, self.minutes = other.counts, other.best, other.plan, other.minutes
