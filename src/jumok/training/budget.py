"""How a run divides its time: which update is the last, when to validate, on how many pairs, what the end takes.

A run limited by steps, epochs or tokens (`ByCount`) never looks at the clock: what it may spend on validating is a
share of its work, counted in target tokens.  A run limited by minutes (`ByClock`) looks at it at few updates, each
named by the look before, and at the end; what it decides is kept in `Progress` and told as a `plan` event.  The clock
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

SHARE = 0.06  # of the minutes, or of the counted work, for all that is not an update: validating, choosing the model
JUDGING = 0.6  # of this share, at most, for choosing the finished model on the whole validation set
FEW = (5, 2)  # validations that a short run wants before its last; their number of pairs follows from it
LEAST_PAIRS, LEAST_SHARE = 50, 0.2  # even a run too short for it validates on so many, if that is no more of its time
FIRST_LOOKS = (2, 4, 8)  # updates after the start at which the pace is looked at; then by the time left
FEWEST = 4  # updates that the pace is the mean of, at least
LOOKS = 30  # about so many looks in a run
MARGIN, LEAVING = 1.2, 1.0  # the end may take a fifth longer than thought; seconds for the process to leave


@dataclass(frozen=True)
class Limits:
    """When a run ends; the first limit reached counts.  `expected`: where epochs or tokens will end, if they do."""

    steps: int
    expected: int | None = None
    epochs: int | None = None
    tokens: int | None = None
    bleu: float | None = None
    patience: int = 0
    validations: int = 20
    validate_every: int | None = None
    pairs: int = 1  # of a whole validation
    candidates: int = 1  # for the finished model
    compared: int = 1  # of them, however little time there is: the last weights, and the model that is to be replaced

    @property
    def last(self) -> int:
        """The update after which there is none, as far as it is known."""
        return self.steps if self.expected is None else min(self.steps, self.expected)


def limits_of(recipe: Recipe) -> Limits:
    """The recipe's limits, apart from time."""
    training = recipe.training
    return Limits(
        steps=training.steps, epochs=training.epochs, tokens=training.tokens, bleu=training.until_bleu,
        patience=training.patience, validations=training.validations, validate_every=training.validate_every,
    )  # fmt: skip


class Pace(Protocol):
    """All that the loop may know about time: it asks and tells, and never decides."""

    schedule: Schedule
    limits: Limits

    def start(self, progress: Progress) -> None: ...
    def over(self, progress: Progress) -> bool: ...  # time is up
    def updated(self, progress: Progress, seconds: float) -> None: ...
    def due(self, progress: Progress) -> bool: ...  # validate now
    def judged(self, progress: Progress, validating: float, saving: float) -> None: ...
    def affords(self, pairs: int) -> bool: ...  # at the end: another validation of so many pairs
    def final(self, progress: Progress) -> int: ...  # pairs to judge candidates for the finished model on


def validate_on(pairs: int, progress: Progress) -> None:
    """Scores on another number of pairs do not compare with those before: what was best is open again."""
    if progress.plan.pairs not in (0, pairs):
        progress.best = Best()
    progress.plan.pairs = pairs


@dataclass
class Costs:
    """Seconds, as measured last; guessed or probed before that.  `ByCount` has target tokens in place of seconds."""

    pair: float  # to validate on one pair
    checkpoint: float = 0.0  # to save one, or to export the model
    update: float = 0.0


@dataclass(frozen=True)
class Ration:
    """What a run limited by count does besides updates."""

    every: int  # updates between validations; there is always one at the end
    pairs: int  # of each validation
    final: int  # pairs on which candidates for the finished model are judged


def ration(limits: Limits, work: Costs | None = None) -> Ration:
    """Everything the limits ask for, or as much of it as `SHARE` of the work of all updates pays for.

    What does not fit is cut in this order: validations down to a few, their pairs down to `LEAST_PAIRS`, then the rest
    of the validations but the last.  Without `work`, or with `validate_every`, nothing is cut.
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
    final = max(least, min(limits.pairs, int(JUDGING * budget / candidates)))
    rest = max(0.0, budget - final * candidates)
    affordable = [int(rest / (min(wanted, few) + 1)) for few in FEW]
    pairs = next((min(count, final) for count in affordable if count >= least), final)
    count = min(wanted, int(rest / pairs) - (pairs < final))  # the last one is paid for if it judges a candidate
    return Ration(-(-limits.last // (max(0, count) + 1)), pairs, final)


class ByCount:
    """Steps, epochs or tokens limit the run: everything follows from the limits and from `work`, the counted work of an
    update and of validating on one pair; nothing follows from the clock."""

    def __init__(self, limits: Limits, schedule: Schedule, work: Costs | None = None) -> None:
        self.limits, self.schedule, self.work = limits, schedule, work

    def start(self, progress: Progress) -> None:
        """Decide when to validate; a run that goes on to the same end goes on as it was decided when it began."""
        begun = progress.plan.every > 0 and progress.plan.pairs > 0 and progress.plan.course.horizon == self.limits.last
        chosen = ration(self.limits, self.work)
        progress.plan.course, progress.minutes.until = self.schedule.course(self.limits.last), 0.0
        progress.plan.every = progress.plan.every if begun and self.limits.validate_every is None else chosen.every
        validate_on(min(progress.plan.pairs, self.limits.pairs) if begun else chosen.pairs, progress)

    def over(self, progress: Progress) -> bool:
        return False

    def updated(self, progress: Progress, seconds: float) -> None: ...

    def due(self, progress: Progress) -> bool:
        return progress.counts.step % progress.plan.every == 0

    def judged(self, progress: Progress, validating: float, saving: float) -> None: ...

    def affords(self, pairs: int) -> bool:
        return True

    def final(self, progress: Progress) -> int:
        """All pairs where validations see all of them, else what was rationed."""
        return self.limits.pairs if progress.plan.pairs == self.limits.pairs else ration(self.limits, self.work).final


@dataclass(frozen=True)
class Allotment:
    """What a run limited by minutes does besides updates."""

    pairs: int  # of each validation
    final: int  # pairs on which candidates for the finished model are judged
    candidates: int  # how many of them
    compared: int = 1  # how many at least, on the pairs of a validation
    most: float = math.inf  # seconds that judging them may take: if it goes slower, fewer pairs must do

    def end(self, costs: Costs) -> float:
        """Seconds of work after the last update."""
        known = 1 if self.final == self.pairs else 0  # the last validation has judged the last weights
        judging = min(self.most, costs.pair * self.final * (self.candidates - known))
        files = costs.checkpoint * (2 + self.candidates)  # the last checkpoint, the model, those that are read again
        return costs.pair * self.pairs * self.compared + judging + files

    def ending(self, costs: Costs) -> float:
        """Seconds to keep for the end."""
        return MARGIN * self.end(costs) + LEAVING

    def validations(self, budget: float, costs: Costs, most: int) -> int:
        """How many validations before the last fit into what the end leaves of `budget` seconds."""
        rest = budget - self.end(costs)
        return max(0, min(most, int(rest / (costs.pair * self.pairs + costs.checkpoint))))


def allot(seconds: float, costs: Costs, limits: Limits, pairs: int = 0) -> Allotment:
    """Divide a share of `seconds`: everything on all pairs if that fits, else first the end, then few validations.

    `pairs`, if given, is what earlier validations of the run were made on, and stays unless it is too much.
    """
    budget = SHARE * seconds - costs.checkpoint * (2 + limits.candidates)
    whole, wanted = costs.pair * limits.pairs, limits.validations - 1
    pairs = pairs if costs.pair * pairs <= JUDGING * budget else 0
    if whole * limits.candidates + wanted * (whole + costs.checkpoint) <= budget:
        pairs, judging = pairs or limits.pairs, whole * limits.candidates
        return Allotment(pairs, limits.pairs, limits.candidates, limits.compared, judging)
    judged = [count for count in (limits.candidates, 1) if whole * count <= JUDGING * budget]
    candidates = judged[0] if judged else 1
    least = max(1, min(LEAST_PAIRS, limits.pairs, int(LEAST_SHARE * seconds / costs.pair)))
    final = limits.pairs if judged else max(least, int(JUDGING * budget / costs.pair))
    rest = budget - costs.pair * final * candidates
    affordable = [int((rest / (min(wanted, few) + 1) - costs.checkpoint) / costs.pair) for few in FEW]
    chosen = next((min(count, final) for count in affordable if count >= least), final)
    judging = costs.pair * final * candidates
    return Allotment(pairs or chosen, final, candidates, limits.compared, judging)


class ByClock:
    """Minutes limit the run: it must be over at `progress.minutes.until`, finished model and all."""

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
        """Decide on how many pairs to validate; the course of an earlier attempt stays until the first look."""
        if progress.counts.step == 0:
            progress.plan.course = self.schedule.course(0)
        self.until, self.total = progress.minutes.until, progress.minutes.until - progress.minutes.began
        self.allotment = allot(self.total, self.costs, self.limits, min(progress.plan.pairs, self.limits.pairs))
        validate_on(self.allotment.pairs, progress)
        progress.plan.look = progress.counts.step + FIRST_LOOKS[0]

    def over(self, progress: Progress) -> bool:
        """Whether the planned last update is done, or another one would be too late."""
        if progress.counts.step == 0:
            return False
        if 0 < progress.plan.course.horizon <= progress.counts.step:
            return True
        late = self.clock() + (self.pace if self.recent else 0.0) > self.until - self.allotment.ending(self.costs)
        if late:
            progress.plan.course = self.schedule.turn(progress.plan.course, progress.counts.step, progress.counts.step)
            told = {"horizon": progress.counts.step, "course": asdict(progress.plan.course)}
            self.report(step=progress.counts.step, reason="time is up", **told)
        return late

    @property
    def pace(self) -> float:
        """Seconds an update of late; the first of a process is slow and counts only while there are few others."""
        return max(1e-9, sum(self.recent) / len(self.recent))

    def updated(self, progress: Progress, seconds: float) -> None:
        self.updates += 1
        if self.updates == FIRST_LOOKS[-1]:
            self.recent.popleft()
        self.recent.append(seconds)
        left = self.until - progress.counts.wall
        window = min(max(10.0, self.total / 10), left)  # near the end, only what was just now
        while len(self.recent) > FEWEST and sum(self.recent) > window:
            self.recent.popleft()
        if progress.counts.step >= progress.plan.look:
            self.plan(progress)

    def plan(self, progress: Progress) -> None:
        """See how far the time left will carry the run, and choose the next validation and the next look."""
        self.costs.update = self.pace
        ending = self.allotment.ending(self.costs)
        left = self.until - self.clock() - ending
        each = self.costs.pair * progress.plan.pairs + self.costs.checkpoint
        if self.limits.validate_every is not None:
            every = self.limits.validate_every
            count = int(max(0.0, left) / (every * self.pace + each))
            progress.plan.due = (progress.counts.step // every + 1) * every
        else:
            most = self.limits.validations - 1 - progress.minutes.judged
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
        """Updates until the next look: ever fewer as the end comes near."""
        for early, later in pairwise(FIRST_LOOKS):
            if self.updates == early:
                return later - early
        return max(1, int(min(self.total / LOOKS, left / 2) / self.pace))

    def due(self, progress: Progress) -> bool:
        return progress.plan.validated < progress.plan.due <= progress.counts.step

    def judged(self, progress: Progress, validating: float, saving: float) -> None:
        """Learn what a validation costs; the next update plans with it."""
        self.costs.pair, self.costs.checkpoint = max(1e-9, validating / progress.plan.pairs), saving
        progress.plan.look = progress.counts.step + 1

    def affords(self, pairs: int) -> bool:
        return pairs <= self.affordable()

    def affordable(self) -> int:
        """Pairs that can still be judged before the model is written and the process leaves."""
        left = (self.until - self.clock() - LEAVING) / MARGIN - self.costs.checkpoint
        return int(left / self.costs.pair)

    def final(self, progress: Progress) -> int:
        """All pairs, or as many as there is time for, or those of the last validation."""
        return max(progress.plan.pairs, min(self.limits.pairs, self.affordable() // self.limits.compared))
