"""The training loop: update, validate, save, until a limit is reached.

Everything that varies comes in as an argument.  An update adds up the gradients of several micro-batches.  A resumed
run continues from its `Progress`; randomness at step n comes from a key made of (seed, "dropout", n, number of the
micro-batch).
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

PATIENCE_FOR_NUMBERS = 10  # updates in a row without a finite loss before the run fails
NAMED_PAIRS = 5  # stored pairs of the last batch that the error names


class NotFinite(JumokError):
    """Several updates in a row without a finite loss; the value `rows` names stored pairs of the last batch."""


@dataclass(frozen=True)
class Outcome:
    """Why the loop ended: one of steps, epochs, tokens, minutes, bleu, patience, stopped."""

    reason: str
    progress: Progress


@dataclass(frozen=True)
class Setup:
    """The parts of an update."""

    team: Team[Any]
    seed: int
    accumulate: int = 1  # micro-batches per update
    largest_gradient: float = 0.0  # norm above which gradients are scaled down; 0 never does
    mean: RunningMean | None = None
    dropout: Callable[[int], float] = lambda epoch: 1.0  # share of the dropout in a pass over the data


@dataclass(frozen=True)
class Hooks:
    """What the loop calls besides updates; it knows nothing of files, scores and signals.

    A checkpoint is saved after every validation, and whenever `save_seconds` have passed without one.  The latter
    depend on the clock, so nothing else may depend on them.
    """

    report: Callable[..., None]
    validate: Callable[[Progress], dict[str, float]]
    save: Callable[[Progress], None]
    updated: Callable[[int], None] = lambda step: None  # called after every update
    stop: Callable[[], bool] = lambda: False
    clock: Callable[[], float] = time.monotonic
    save_seconds: float = math.inf


def train(
    setup: Setup, batches: Iterator[tuple[Position, Batch]], pace: Pace, progress: Progress, hooks: Hooks
) -> Outcome:
    """Update until a limit is reached or `stop` is true; the last state is always saved.

    An update or a validation that `stop` interrupts does not count; the resumed run begins with it.
    """
    clock = hooks.clock
    outside = clock() - progress.counts.seconds  # the clock less the seconds of this loop
    saved_step, saved_at = progress.counts.step, clock()
    duration = 0.0  # of the last update; a checkpoint that falls due during the next one is saved before it
    validating = hooks.save_seconds / 2  # duration of the last validation, likewise; that of the first is not known
    pace.start(progress)
    try:
        while True:
            if progress.unvalidated and pace.is_due(progress):
                if saved_step != progress.counts.step and clock() + validating - saved_at >= hooks.save_seconds:
                    save_between(progress, hooks)
                began = clock()
                validate(progress, pace, hooks)
                validating = clock() - began
                saved_step, saved_at = progress.counts.step, progress.counts.wall
            if (reason := find_end(pace, progress, hooks.stop)) is not None:
                break
            if saved_step != progress.counts.step and clock() + duration - saved_at >= hooks.save_seconds:
                save_between(progress, hooks)
                saved_step, saved_at = progress.counts.step, progress.counts.wall
            began = clock()
            event = update(setup, batches, pace.schedule, progress, hooks.stop)
            hooks.updated(progress.counts.step)  # a part of the update's time, so that the plan foresees it
            progress.counts.wall = clock()
            progress.counts.seconds = progress.counts.wall - outside
            duration = progress.counts.wall - began
            pace.record_update(progress, duration)
            hooks.report(
                **event, seconds=progress.counts.seconds, wall=progress.counts.wall,
                horizon=progress.plan.course.horizon, skipped=progress.counts.skipped, seen=progress.counts.tokens,
            )  # fmt: skip
        if progress.unvalidated and reason != "stopped":
            validate(progress, pace, hooks)
            saved_step = progress.counts.step
    except Stopped:
        reason = "stopped"
    if saved_step != progress.counts.step and reason == "stopped":
        hooks.save(progress)
    return Outcome(reason, progress)


def update(
    setup: Setup,
    batches: Iterator[tuple[Position, Batch]],
    schedule: Schedule,
    progress: Progress,
    stop: Callable[[], bool],
) -> dict[str, float]:
    """Make the next update, count it, and return the fields of its event."""
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


def validate(progress: Progress, pace: Pace, hooks: Hooks) -> None:
    """Validate and save, and report to the pace how long it took."""
    began = hooks.clock()
    progress.best.record(hooks.validate(progress), progress.counts.step)
    progress.plan.validated = progress.counts.step
    progress.minutes.validations += 1
    validated = hooks.clock()
    progress.counts.seconds += validated - progress.counts.wall
    progress.counts.wall = validated
    progress.minutes.spent += validated - began
    hooks.save(progress)
    saving = hooks.clock() - validated
    progress.minutes.spent += saving
    pace.record_validation(progress, validated - began, saving)


def save_between(progress: Progress, hooks: Hooks) -> None:
    """Save a checkpoint between two validations."""
    began = hooks.clock()
    hooks.save(progress)
    progress.minutes.spent += hooks.clock() - began


def account(progress: Progress, loss: float, norm: float, tokens: int, batches: Sequence[Batch]) -> None:
    """Count one update; ten in a row without a finite loss are an error that names the sentences."""
    if math.isfinite(loss) and math.isfinite(norm):
        progress.counts.tokens += tokens
        progress.counts.skipped_in_row = 0
        return
    progress.counts.skipped += 1
    progress.counts.skipped_in_row += 1
    if progress.counts.skipped_in_row >= PATIENCE_FOR_NUMBERS:
        raise NotFinite(
            "training.not_finite", updates=PATIENCE_FOR_NUMBERS, loss=loss, norm=norm, step=progress.counts.step,
            rows=" ".join(str(int(row)) for row in batches[-1].rows[:NAMED_PAIRS]),
        )  # fmt: skip


def find_end(pace: Pace, progress: Progress, stop: Callable[[], bool]) -> str | None:
    """The reason why the run ends here; None if it continues."""
    if stop():
        return "stopped"
    return find_reached(pace.limits, progress) or ("minutes" if pace.is_over(progress) else None)


def find_reached(limits: Limits, progress: Progress) -> str | None:
    """The limit apart from time that the run has reached, if any."""
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
