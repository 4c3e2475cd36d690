"""The training loop: everything that varies comes in as an argument, nothing is looked up.

An update is a number of micro-batches whose gradients add up.  What a resumed run must know is `Progress`; what is
random at step n is drawn from a key made of (seed, "dropout", n, number of the micro-batch).
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jumok.data.batches import Batch, Position
from jumok.errors import JumokError
from jumok.keys import key
from jumok.stopping import Stopped
from jumok.training.budget import Limits, Pace
from jumok.training.optim import RunningMean
from jumok.training.progress import Progress
from jumok.training.schedule import Schedule
from jumok.training.update import Team

PATIENCE_FOR_NUMBERS = 10  # updates in a row without a finite loss before the run stops


class NotFinite(JumokError):
    """Update after update without a finite loss; `rows` are stored pairs of the last batch."""

    def __init__(self, loss: float, norm: float, step: int, rows: Sequence[int]) -> None:
        self.rows = rows
        some = ", ".join(map(str, rows))
        super().__init__(
            f"the loss was not a finite number for {PATIENCE_FOR_NUMBERS} updates in a row (loss {loss}, norm {norm})",
            where=f"at step {step}, in the batch of stored pairs {some}, …",
            hint="try: a lower rate, --set training.peak=0.0005, or --set training.clip=1.0",
        )


@dataclass(frozen=True)
class Outcome:
    """Why the loop ended: one of steps, epochs, tokens, minutes, bleu, patience, stopped."""

    reason: str
    progress: Progress


@dataclass(frozen=True)
class Setup:
    """How an update is made."""

    team: Team[Any]
    seed: int
    accumulate: int = 1  # micro-batches
    largest_gradient: float = 0.0  # norm above which gradients are scaled down; 0 does not
    mean: RunningMean | None = None
    dropout: Callable[[int], float] = lambda epoch: 1.0  # share of the dropout in a pass over the data


@dataclass(frozen=True)
class Hooks:
    """What the loop calls besides updates: it knows neither files nor scores nor signals.

    Checkpoints are made with every validation, and once `save_seconds` have passed without one.  The latter depend on
    the clock, so nothing may depend on them.
    """

    report: Callable[..., None]
    validate: Callable[[Progress], dict[str, float]]
    save: Callable[[Progress], None]
    stop: Callable[[], bool] = lambda: False
    clock: Callable[[], float] = time.monotonic
    save_seconds: float = math.inf


def train(
    setup: Setup, batches: Iterator[tuple[Position, Batch]], pace: Pace, progress: Progress, hooks: Hooks
) -> Outcome:
    """Update until a limit is reached or somebody asks to stop; the last state is always saved.

    What `stop` cuts short counts as never begun: an update, or a validation, which the resumed run begins with.
    """
    clock = hooks.clock
    outside = clock() - progress.counts.seconds
    saved, last = progress.counts.step, clock()  # the update and the time of the newest checkpoint
    taken = 0.0  # seconds of the last update: a checkpoint must not wait for another one that would be too long
    pace.start(progress)
    try:
        while True:
            if progress.plan.validated < progress.counts.step and pace.due(progress):
                check(progress, pace, hooks)
                saved, last = progress.counts.step, progress.counts.wall
            if (reason := ended(pace, progress, hooks.stop)) is not None:
                break
            if saved != progress.counts.step and clock() + taken - last >= hooks.save_seconds:
                keep(progress, hooks)
                saved, last = progress.counts.step, progress.counts.wall
            began = clock()
            done = update(setup, batches, pace.schedule, progress, hooks.stop)
            progress.counts.wall = clock()
            progress.counts.seconds = progress.counts.wall - outside
            taken = progress.counts.wall - began
            pace.updated(progress, taken)
            hooks.report(
                **done, seconds=progress.counts.seconds, wall=progress.counts.wall,
                horizon=progress.plan.course.horizon, skipped=progress.counts.skipped, seen=progress.counts.tokens,
            )  # fmt: skip
        if progress.plan.validated < progress.counts.step and reason != "stopped":
            check(progress, pace, hooks)
            saved = progress.counts.step
    except Stopped:
        reason = "stopped"
    if saved != progress.counts.step and reason == "stopped":
        hooks.save(progress)
    return Outcome(reason, progress)


def update(
    setup: Setup,
    batches: Iterator[tuple[Position, Batch]],
    schedule: Schedule,
    progress: Progress,
    stop: Callable[[], bool],
) -> dict[str, float]:
    """Make the next update and book it; what came of it, as its event names it."""
    step, team = progress.counts.step + 1, setup.team
    places, micro = zip(*(next(batches) for _ in range(setup.accumulate)), strict=True)
    epoch, index = places[-1]
    keys = [key(setup.seed, "dropout", step, number) for number in range(setup.accumulate)]
    rate = schedule.rate(step, progress.plan.course)
    loss, norm, tokens = team.update(
        micro, keys, rate=rate, largest_gradient=setup.largest_gradient, dropout=setup.dropout(epoch), stop=stop
    )
    progress.counts.step, progress.counts.epoch, progress.counts.index = step, epoch, index
    account(progress, loss, norm, tokens, micro)
    if setup.mean is not None and progress.counts.skipped_in_row == 0:
        setup.mean.update(team.model, step)
    return {"step": step, "epoch": epoch, "loss": loss, "rate": rate, "norm": norm, "tokens": tokens}


def check(progress: Progress, pace: Pace, hooks: Hooks) -> None:
    """Validate and save, and tell the pace what that took."""
    began = hooks.clock()
    progress.best.judge(hooks.validate(progress), progress.counts.step)
    progress.plan.validated = progress.counts.step
    progress.minutes.judged += 1
    validated = hooks.clock()
    progress.counts.seconds += validated - progress.counts.wall
    progress.counts.wall = validated
    progress.minutes.spent += validated - began
    hooks.save(progress)
    saving = hooks.clock() - validated
    progress.minutes.spent += saving
    pace.judged(progress, validated - began, saving)


def keep(progress: Progress, hooks: Hooks) -> None:
    """Save between two validations."""
    began = hooks.clock()
    hooks.save(progress)
    progress.minutes.spent += hooks.clock() - began


def account(progress: Progress, loss: float, norm: float, tokens: int, batches: Sequence[Batch]) -> None:
    """Book one update; ten without finite numbers in a row stop the run and name the sentences."""
    if math.isfinite(loss) and math.isfinite(norm):
        progress.counts.tokens += tokens
        progress.counts.skipped_in_row = 0
        return
    progress.counts.skipped += 1
    progress.counts.skipped_in_row += 1
    if progress.counts.skipped_in_row >= PATIENCE_FOR_NUMBERS:
        raise NotFinite(loss, norm, progress.counts.step, [int(row) for row in batches[-1].rows[:5]])


def ended(pace: Pace, progress: Progress, stop: Callable[[], bool]) -> str | None:
    """Why there is no further update, if there is none."""
    return "stopped" if stop() else reached(pace.limits, progress) or ("minutes" if pace.over(progress) else None)


def reached(limits: Limits, progress: Progress) -> str | None:
    """The limit that is reached, if any, time apart."""
    if progress.counts.step >= limits.steps:
        return "steps"
    if limits.epochs is not None and progress.counts.epoch >= limits.epochs:
        return "epochs"
    if limits.tokens is not None and progress.counts.tokens >= limits.tokens:
        return "tokens"
    if limits.bleu is not None and progress.best.quality >= limits.bleu:
        return "bleu"
    if limits.patience and progress.best.waited >= limits.patience:
        return "patience"
    return None
