"""How a run divides its time: which update is the last, when to validate, on how many pairs, what the end takes.

A run limited by steps, epochs or tokens (`ByCount`) never looks at the clock: what it may spend on validating is a
share of its work, counted in target tokens.  A run limited by minutes (`ByClock`) looks at it at few updates, each
named by the look before, and at the end; what it decides is kept in `Progress` and told as a `plan` event.  The clock
counts seconds since the run began, over all of its attempts.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from itertools import pairwise
from typing import Any, Protocol

from jumok.training.schedule import Course, Schedule

SHARE = 0.06  # of the minutes, or of the counted work, for all that is not an update: validating, choosing the model
JUDGING = 0.6  # of this share, at most, for choosing the finished model on the whole validation set
FEW = (5, 2)  # validations that a short run wants before its last; their number of pairs follows from it
LEAST_PAIRS, LEAST_SHARE = 50, 0.2  # even a run too short for it validates on so many, if that is no more of its time
FIRST_LOOKS = (2, 4, 8)  # updates after the start at which the pace is looked at; then by the time left
FEWEST = 4  # updates that the pace is the mean of, at least
LOOKS = 30  # about so many looks in a run
MARGIN, LEAVING = 1.2, 1.0  # the end may take a fifth longer than thought; seconds for the process to leave


@dataclass
class Progress:
    """All that a run knows of itself besides tensors; saved with every checkpoint."""

    step: int = 0
    epoch: int = 0
    index: int = 0  # next batch of the epoch
    tokens: int = 0
    seconds: float = 0.0  # in the training loop, over all attempts
    wall: float = 0.0  # since the beginning of the process, over all attempts
    skipped: int = 0  # updates without a finite loss, in all
    skipped_in_row: int = 0
    best: float = math.inf  # lowest validation loss
    best_bleu: float = -1.0  # or share of right answers, where there are answers
    best_step: int = 0
    waited: int = 0  # validations since something got better
    course: Course = field(default_factory=Course)
    every: int = 0  # updates between validations, where they are counted
    batches: int = 0  # in the first epoch, where that was counted
    pairs: int = 0  # of a validation; 0 until it is decided
    validated: int = 0  # the update of the last validation
    due: int = 0  # the update of the next one, where the clock decides; 0 is the last
    look: int = 0  # the update after which the clock is looked at next
    began: float = 0.0  # `wall` when the minutes that now run began
    until: float = 0.0  # `wall` when they end; 0 without them
    judged: int = 0  # validations in these minutes
    spent: float = 0.0  # seconds of these minutes on validating and saving

    def to_json(self) -> dict[str, Any]:
        values = asdict(self)
        return values | {"best": None if math.isinf(self.best) else self.best}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Progress":
        known = {one.name for one in fields(cls)}
        kept = {name: value for name, value in values.items() if name in known}
        course = Course(**kept.get("course") or {})
        return cls(**kept | {"best": math.inf if kept.get("best") is None else kept["best"], "course": course})


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
    if progress.pairs not in (0, pairs):
        progress.best, progress.best_bleu, progress.best_step, progress.waited = math.inf, -1.0, 0, 0
    progress.pairs = pairs


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
        begun = progress.every > 0 and progress.pairs > 0 and progress.course.horizon == self.limits.last
        chosen = ration(self.limits, self.work)
        progress.course, progress.until = self.schedule.course(self.limits.last), 0.0
        progress.every = progress.every if begun and self.limits.validate_every is None else chosen.every
        validate_on(min(progress.pairs, self.limits.pairs) if begun else chosen.pairs, progress)

    def over(self, progress: Progress) -> bool:
        return False

    def updated(self, progress: Progress, seconds: float) -> None: ...

    def due(self, progress: Progress) -> bool:
        return progress.step % progress.every == 0

    def judged(self, progress: Progress, validating: float, saving: float) -> None: ...

    def affords(self, pairs: int) -> bool:
        return True

    def final(self, progress: Progress) -> int:
        """All pairs where validations see all of them, else what was rationed."""
        return self.limits.pairs if progress.pairs == self.limits.pairs else ration(self.limits, self.work).final


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
    """Minutes limit the run: it must be over at `progress.until`, finished model and all."""

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
        if progress.step == 0:
            progress.course = self.schedule.course(0)
        self.until, self.total = progress.until, progress.until - progress.began
        self.allotment = allot(self.total, self.costs, self.limits, min(progress.pairs, self.limits.pairs))
        validate_on(self.allotment.pairs, progress)
        progress.look = progress.step + FIRST_LOOKS[0]

    def over(self, progress: Progress) -> bool:
        """Whether the planned last update is done, or another one would be too late."""
        if progress.step == 0:
            return False
        if 0 < progress.course.horizon <= progress.step:
            return True
        late = self.clock() + (self.pace if self.recent else 0.0) > self.until - self.allotment.ending(self.costs)
        if late:
            progress.course = self.schedule.turn(progress.course, progress.step, progress.step)
            told = {"horizon": progress.step, "course": asdict(progress.course)}
            self.report(step=progress.step, reason="time is up", **told)
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
        window = min(max(10.0, self.total / 10), self.until - progress.wall)  # near the end, only what was just now
        while len(self.recent) > FEWEST and sum(self.recent) > window:
            self.recent.popleft()
        if progress.step >= progress.look:
            self.plan(progress)

    def plan(self, progress: Progress) -> None:
        """See how far the time left will carry the run, and choose the next validation and the next look."""
        self.costs.update = self.pace
        ending = self.allotment.ending(self.costs)
        left = self.until - self.clock() - ending
        each = self.costs.pair * progress.pairs + self.costs.checkpoint
        if self.limits.validate_every is not None:
            every = self.limits.validate_every
            count = int(max(0.0, left) / (every * self.pace + each))
            progress.due = (progress.step // every + 1) * every
        else:
            most = self.limits.validations - 1 - progress.judged
            count = self.allotment.validations(SHARE * self.total - progress.spent, self.costs, most)
        updates = max(0, int((left - count * each) / self.pace))
        horizon = min(self.limits.last, progress.step + updates)
        progress.course = self.schedule.turn(progress.course, progress.step, horizon)
        if self.limits.validate_every is None:
            spacing = (horizon - progress.validated) // (count + 1)
            progress.due = max(progress.step + 1, progress.validated + spacing) if count else 0
        progress.look = progress.step + self._wait(max(0.0, left))
        self.report(
            step=progress.step, horizon=horizon, due=progress.due, look=progress.look, pairs=progress.pairs,
            validations=count, left=left, ending=ending, until=self.until, course=asdict(progress.course),
            **asdict(self.costs),
        )  # fmt: skip

    def _wait(self, left: float) -> int:
        """Updates until the next look: ever fewer as the end comes near."""
        for early, later in pairwise(FIRST_LOOKS):
            if self.updates == early:
                return later - early
        return max(1, int(min(self.total / LOOKS, left / 2) / self.pace))

    def due(self, progress: Progress) -> bool:
        return progress.validated < progress.due <= progress.step

    def judged(self, progress: Progress, validating: float, saving: float) -> None:
        """Learn what a validation costs; the next update plans with it."""
        self.costs.pair, self.costs.checkpoint = max(1e-9, validating / progress.pairs), saving
        progress.look = progress.step + 1

    def affords(self, pairs: int) -> bool:
        return pairs <= self.affordable()

    def affordable(self) -> int:
        """Pairs that can still be judged before the model is written and the process leaves."""
        left = (self.until - self.clock() - LEAVING) / MARGIN - self.costs.checkpoint
        return int(left / self.costs.pair)

    def final(self, progress: Progress) -> int:
        """All pairs, or as many as there is time for, or those of the last validation."""
        return max(progress.pairs, min(self.limits.pairs, self.affordable() // self.limits.compared))
