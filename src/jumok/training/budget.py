"""How a run divides its time: which update is the last, when to validate, on how many pairs, how long the end takes.

A run limited by steps, epochs or tokens (`ByCount`) never checks the clock: it may spend a share of its work, counted
in target tokens, on validating.  A run limited by minutes (`ByClock`) checks the clock after a few updates, each chosen
by the check before, and at the end; its decisions are saved in `Progress` and reported as `plan` events.  The clock
counts seconds since the run began, over all of its attempts.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Protocol

from jumok.config.recipe import Recipe
from jumok.training.progress import Best, Progress
from jumok.training.schedule import Schedule

SHARE = 0.06  # share of the minutes, or of the counted work, for validating, saving and choosing the finished model
CHOOSING = 0.6  # largest part of this share for choosing the finished model on the whole validation set
FEW = (5, 2)  # validations before the last one that a short run tries to afford by taking fewer pairs
LEAST_PAIRS, LEAST_SHARE = 50, 0.2  # a very short run validates on 50 pairs, or on what a fifth of its time allows
FIRST_CHECKS = (2, 4, 8)  # the clock is checked after these updates, then depending on the time left
FEWEST = 4  # fewest updates whose mean is the pace
CHECKS = 30  # approximate number of times that a run checks the clock
MARGIN, EXITING = 1.2, 1.0  # the end may take a fifth longer than expected; seconds for the process to exit


@dataclass(frozen=True)
class Limits:
    """When a run ends; the first limit reached counts.  `expected` is the update at which epochs or tokens end."""

    steps: int
    expected: int | None = None
    epochs: int | None = None
    tokens: int | None = None
    bleu: float | None = None
    patience: int = 0
    validations: int = 20
    validate_every: int | None = None
    pairs: int = 1  # pairs of the validation set
    candidates: int = 1  # candidates for the finished model
    compared: int = 1  # candidates that are always scored: the last weights, and the model that they may replace

    @property
    def last(self) -> int:
        """The last update, as far as it is known."""
        return self.steps if self.expected is None else min(self.steps, self.expected)


def limits_of(recipe: Recipe) -> Limits:
    """The recipe's limits, apart from time."""
    training = recipe.training
    return Limits(
        steps=training.steps, epochs=training.epochs, tokens=training.tokens, bleu=training.until_bleu,
        patience=training.patience, validations=training.validations, validate_every=training.validate_every,
    )  # fmt: skip


class Pace(Protocol):
    """All that the loop knows about time: it reports durations and asks what is due."""

    schedule: Schedule
    limits: Limits

    def start(self, progress: Progress) -> None: ...
    def is_over(self, progress: Progress) -> bool: ...  # time is up
    def record_update(self, progress: Progress, seconds: float) -> None: ...
    def is_due(self, progress: Progress) -> bool: ...  # a validation is due
    def record_validation(self, progress: Progress, validating: float, saving: float) -> None: ...
    def can_afford(self, pairs: int) -> bool: ...  # at the end: another validation on this many pairs
    def final_pairs(self, progress: Progress) -> int: ...  # pairs on which candidates are scored


def validate_on(pairs: int, progress: Progress) -> None:
    """Validate on this number of pairs; after a change the best so far is forgotten, since scores do not compare."""
    if progress.plan.pairs not in (0, pairs):
        progress.best = Best()
    progress.plan.pairs = pairs


@dataclass
class Costs:
    """Seconds, as last measured; estimated before the first measurement.  `ByCount` counts target tokens instead."""

    pair: float  # validating on one pair
    checkpoint: float = 0.0  # saving a checkpoint, or exporting the model
    update: float = 0.0


@dataclass(frozen=True)
class Ration:
    """The validations of a run limited by count."""

    every: int  # updates between validations; there is always one at the end
    pairs: int  # pairs of each validation
    final: int  # pairs on which candidates for the finished model are scored


def ration(limits: Limits, work: Costs | None = None) -> Ration:
    """All validations that the limits ask for, or as many as fit into `SHARE` of the work of all updates.

    Where they do not fit, their number is reduced to a few, then their pairs to `LEAST_PAIRS`, then all validations but
    the last are dropped.  Without `work`, or with `validate_every`, nothing is reduced.
    """
    even = max(1, round(limits.last / limits.validations))
    whole = Ration(limits.validate_every or even, limits.pairs, limits.pairs)
    if work is None or limits.validate_every is not None:
        return whole
    total, wanted, candidates = limits.last * work.update, limits.validations - 1, limits.candidates
    budget = SHARE * total / work.pair  # in pairs
    if limits.pairs * ((limits.last - 1) // even + candidates) <= budget:
        return whole
    least = max(1, min(LEAST_PAIRS, limits.pairs, int(LEAST_SHARE * total / work.pair / candidates)))
    final = max(least, min(limits.pairs, int(CHOOSING * budget / candidates)))
    rest = max(0.0, budget - final * candidates)
    affordable = [int(rest / (min(wanted, few) + 1)) for few in FEW]
    pairs = next((min(count, final) for count in affordable if count >= least), final)
    count = min(wanted, int(rest / pairs) - (pairs < final))  # the last one is free if it scores a candidate
    return Ration(-(-limits.last // (max(0, count) + 1)), pairs, final)


class ByCount:
    """The pace of a run limited by steps, epochs or tokens.

    Everything follows from the limits and from `work`, the counted work of an update and of validating on one pair;
    nothing depends on the clock.
    """

    def __init__(self, limits: Limits, schedule: Schedule, work: Costs | None = None) -> None:
        self.limits, self.schedule, self.work = limits, schedule, work

    def start(self, progress: Progress) -> None:
        """Decide when to validate; a run resumed with the same limits keeps the decision of its beginning."""
        begun = progress.plan.every > 0 and progress.plan.pairs > 0 and progress.plan.course.horizon == self.limits.last
        chosen = ration(self.limits, self.work)
        progress.plan.course, progress.minutes.until = self.schedule.course(self.limits.last), 0.0
        progress.plan.every = progress.plan.every if begun and self.limits.validate_every is None else chosen.every
        validate_on(min(progress.plan.pairs, self.limits.pairs) if begun else chosen.pairs, progress)

    def is_over(self, progress: Progress) -> bool:
        return False

    def record_update(self, progress: Progress, seconds: float) -> None: ...

    def is_due(self, progress: Progress) -> bool:
        return progress.counts.step % progress.plan.every == 0

    def record_validation(self, progress: Progress, validating: float, saving: float) -> None: ...

    def can_afford(self, pairs: int) -> bool:
        return True

    def final_pairs(self, progress: Progress) -> int:
        """All pairs if validations use all of them, else those of the ration."""
        return self.limits.pairs if progress.plan.pairs == self.limits.pairs else ration(self.limits, self.work).final


@dataclass(frozen=True)
class Allotment:
    """The validations of a run limited by minutes, and its end."""

    pairs: int  # pairs of each validation
    final: int  # pairs on which candidates for the finished model are scored
    candidates: int  # candidates that are scored
    compared: int = 1  # candidates that are scored in any case, at least on the pairs of a validation
    most: float = math.inf  # most seconds for scoring them; if it takes longer, fewer pairs are used

    def end(self, costs: Costs) -> float:
        """Seconds of work after the last update."""
        known = 1 if self.final == self.pairs else 0  # the last validation has scored the last weights
        scoring = min(self.most, costs.pair * self.final * (self.candidates - known))
        files = costs.checkpoint * (2 + self.candidates)  # writing a checkpoint and the model, reading candidates
        return costs.pair * self.pairs * self.compared + scoring + files

    def ending(self, costs: Costs) -> float:
        """Seconds to reserve for the end."""
        return MARGIN * self.end(costs) + EXITING

    def validations(self, budget: float, costs: Costs, most: int) -> int:
        """How many validations before the last fit into `budget` seconds less those of the end."""
        rest = budget - self.end(costs)
        return max(0, min(most, int(rest / (costs.pair * self.pairs + costs.checkpoint))))


def allot(seconds: float, costs: Costs, limits: Limits, pairs: int = 0) -> Allotment:
    """Divide a share of `seconds`: everything on all pairs if that fits, else first the end, then a few validations.

    `pairs`, if given, is the number of pairs of earlier validations, which stays unless it takes too long.
    """
    budget = SHARE * seconds - costs.checkpoint * (2 + limits.candidates)
    whole, wanted = costs.pair * limits.pairs, limits.validations - 1
    pairs = pairs if costs.pair * pairs <= CHOOSING * budget else 0
    if whole * limits.candidates + wanted * (whole + costs.checkpoint) <= budget:
        pairs, scoring = pairs or limits.pairs, whole * limits.candidates
        return Allotment(pairs, limits.pairs, limits.candidates, limits.compared, scoring)
    possible = [count for count in (limits.candidates, 1) if whole * count <= CHOOSING * budget]
    candidates = possible[0] if possible else 1
    least = max(1, min(LEAST_PAIRS, limits.pairs, int(LEAST_SHARE * seconds / costs.pair)))
    final = limits.pairs if possible else max(least, int(CHOOSING * budget / costs.pair))
    rest = budget - costs.pair * final * candidates
    affordable = [int((rest / (min(wanted, few) + 1) - costs.checkpoint) / costs.pair) for few in FEW]
    chosen = next((min(count, final) for count in affordable if count >= least), final)
    scoring = costs.pair * final * candidates
    return Allotment(pairs or chosen, final, candidates, limits.compared, scoring)


class ByClock:
    """The pace of a run limited by minutes: the finished model is written by `progress.minutes.until`."""

    def __init__(
        self,
        limits: Limits,
        schedule: Schedule,
        costs: Costs,
        *,
        clock: Callable[[], float],
        report: Callable[..., None] = lambda **values: None,
    ) -> None:
        self.limits, self.schedule, self.costs = limits, schedule, costs
        self.clock, self.report = clock, report
        self.recent: deque[float] = deque()  # seconds of the latest updates
        self.updates = 0  # in this process
        self.until = math.inf

    def start(self, progress: Progress) -> None:
        """Decide on how many pairs to validate; the course of an earlier attempt stays until the first check."""
        if progress.counts.step == 0:
            progress.plan.course = self.schedule.course(0)
        self.until, self.total = progress.minutes.until, progress.minutes.until - progress.minutes.began
        self.allotment = allot(self.total, self.costs, self.limits, min(progress.plan.pairs, self.limits.pairs))
        validate_on(self.allotment.pairs, progress)
        progress.plan.look = progress.counts.step + FIRST_CHECKS[0]

    def is_over(self, progress: Progress) -> bool:
        """Whether the planned last update is done, or another one would be too late."""
        if progress.counts.step == 0:
            return False
        if 0 < progress.plan.course.horizon <= progress.counts.step:
            return True
        late = self.clock() + (self.pace if self.recent else 0.0) > self.until - self.allotment.ending(self.costs)
        if late:
            progress.plan.course = self.schedule.turn(progress.plan.course, progress.counts.step, progress.counts.step)
            course = asdict(progress.plan.course)
            self.report(step=progress.counts.step, reason="time is up", horizon=progress.counts.step, course=course)
        return late

    @property
    def pace(self) -> float:
        """Seconds per update of late; the first of a process is slow and counts only while there are few others."""
        return max(1e-9, sum(self.recent) / len(self.recent))

    def record_update(self, progress: Progress, seconds: float) -> None:
        self.updates += 1
        if self.updates == FIRST_CHECKS[-1]:
            self.recent.popleft()
        self.recent.append(seconds)
        left = self.until - progress.counts.wall
        window = min(max(10.0, self.total / 10), left)  # near the end, only the latest
        while len(self.recent) > FEWEST and sum(self.recent) > window:
            self.recent.popleft()
        if progress.counts.step >= progress.plan.look:
            self.plan(progress)

    def plan(self, progress: Progress) -> None:
        """Estimate how many updates the time left allows; choose the next validation and the next check."""
        self.costs.update = self.pace
        ending = self.allotment.ending(self.costs)
        left = self.until - self.clock() - ending
        each = self.costs.pair * progress.plan.pairs + self.costs.checkpoint
        if self.limits.validate_every is not None:
            every = self.limits.validate_every
            count = int(max(0.0, left) / (every * self.pace + each))
            progress.plan.due = (progress.counts.step // every + 1) * every
        else:
            most = self.limits.validations - 1 - progress.minutes.validations
            count = self.allotment.validations(SHARE * self.total - progress.minutes.spent, self.costs, most)
        updates = max(0, int((left - count * each) / self.pace))
        horizon = min(self.limits.last, progress.counts.step + updates)
        progress.plan.course = self.schedule.turn(progress.plan.course, progress.counts.step, horizon)
        if self.limits.validate_every is None:
            spacing = (horizon - progress.plan.validated) // (count + 1)
            progress.plan.due = max(progress.counts.step + 1, progress.plan.validated + spacing) if count else 0
        progress.plan.look = progress.counts.step + self._wait(max(0.0, left))
        self.report(
            step=progress.counts.step, horizon=horizon, due=progress.plan.due, look=progress.plan.look,
            pairs=progress.plan.pairs, validations=count, left=left, ending=ending, until=self.until,
            course=asdict(progress.plan.course), **asdict(self.costs),
        )  # fmt: skip

    def _wait(self, left: float) -> int:
        """Updates until the next check: ever fewer towards the end."""
        for early, later in pairwise(FIRST_CHECKS):
            if self.updates == early:
                return later - early
        return max(1, int(min(self.total / CHECKS, left / 2) / self.pace))

    def is_due(self, progress: Progress) -> bool:
        return progress.plan.validated < progress.plan.due <= progress.counts.step

    def record_validation(self, progress: Progress, validating: float, saving: float) -> None:
        """Remember how long a validation takes; the next update plans with it."""
        self.costs.pair, self.costs.checkpoint = max(1e-9, validating / progress.plan.pairs), saving
        progress.plan.look = progress.counts.step + 1

    def can_afford(self, pairs: int) -> bool:
        return pairs <= self.affordable()

    def affordable(self) -> int:
        """Pairs that can still be scored before the model is written and the process exits."""
        left = (self.until - self.clock() - EXITING) / MARGIN - self.costs.checkpoint
        return int(left / self.costs.pair)

    def final_pairs(self, progress: Progress) -> int:
        """All pairs, or as many as there is time for, but no fewer than the last validation used."""
        return max(progress.plan.pairs, min(self.limits.pairs, self.affordable() // self.limits.compared))
