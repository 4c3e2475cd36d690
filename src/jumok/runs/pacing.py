"""The pace of a run: its limits, and how it divides its time, from its recipe and its progress."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from jumok.runs.context import Context
from jumok.runs.finished import Finished
from jumok.runs.trainee import Trainee
from jumok.training.budget import ByClock, ByCount, Costs, Limits, Pace, limits_of, ration
from jumok.training.progress import Progress
from jumok.training.schedule import Course

WRITING = 1.5e8  # bytes per second of a disk, until the first checkpoint has measured it


def count_work(trainee: Trainee) -> Costs:
    """The work of an update and of validating on one pair, counted in target tokens."""
    return Costs(pair=trainee.scorer.count_work(), update=trainee.recipe.training.tokens_per_update)


def pace_of(
    trainee: Trainee, progress: Progress, context: Context, *, checkpoint: int, earlier: Finished | None = None
) -> Pace:
    """The pace by count or by clock; epochs and tokens are converted to steps, so that the schedule ends with them.

    `checkpoint` is the size of one in bytes; `earlier` is the finished run that this one continues.
    """
    training, limits = trainee.recipe.training, limits_of(trainee.recipe)
    if training.epochs is not None or training.tokens is not None:  # counted once in a run, since it may take minutes
        progress.plan.batches = progress.plan.batches or trainee.feed.count(0)
    if training.epochs is not None:
        expected = -(-training.epochs * progress.plan.batches // trainee.accumulate)
        limits = replace(limits, expected=min(training.steps, expected))
    if training.tokens is not None:
        each = (
            (trainee.prepared.store.tokens()[1] + trainee.prepared.store.count)
            / progress.plan.batches
            * trainee.accumulate
        )
        limits = replace(limits, expected=min(limits.last, max(1, round(training.tokens / each))))
    candidates = 1 + (training.average > 1) + (trainee.mean is not None) + (earlier is not None)
    compared = 1 if earlier is None else 2
    limits = replace(limits, pairs=len(trainee.scorer.pairs), candidates=candidates, compared=compared)
    if training.minutes is None:
        if progress.counts.step == 0:
            _report_ration(limits, count_work(trainee), context)
        return ByCount(limits, trainee.schedule, count_work(trainee))
    promise(training.minutes * 60.0, progress, context, continues=earlier is not None)
    costs = Costs(pair=trainee.scorer.measure_seconds(), checkpoint=checkpoint / WRITING)
    return ByClock(limits, trainee.schedule, costs, clock=context.clock, report=partial(context.report, "plan"))


def _report_ration(limits: Limits, work: Costs, context: Context) -> None:
    """Report that a run validates less than the recipe asks for, if it does."""
    chosen = ration(limits, work)
    if chosen == ration(limits):
        return
    often = f"every {chosen.every:,} updates" if chosen.every < limits.last else "once, at the end,"
    context.say(
        f"Validating {often} on {chosen.pairs:,} of {limits.pairs:,} pairs, so that nearly all work is "
        "training; --set training.validate_every=N validates every N updates on all of them"
    )


def promise(seconds: float, progress: Progress, context: Context, *, continues: bool) -> None:
    """Set the time at which the run ends: an interrupted run continues its minutes, a finished one begins new ones."""
    minutes, plan, wall = progress.minutes, progress.plan, progress.counts.wall
    if continues:
        minutes.began, minutes.validations, minutes.spent = wall, 0, 0.0
        minutes.until = wall + seconds if context.more else seconds
        left = minutes.until - wall
        plan.course = Course(0, plan.course.warmup, progress.counts.step, left=left / minutes.until)
        context.say(f"This run was finished after {wall / 60:.1f} minutes; it trains {left / 60:.1f} minutes more")
    elif progress.counts.step:
        minutes.until = minutes.began + seconds if context.more else max(minutes.until, seconds)
        gone, given = wall - minutes.began, minutes.until - minutes.began
        context.say(
            f"{gone / 60:.1f} of its {given / 60:.1f} minutes are over; {max(0.0, given - gone) / 60:.1f} are left"
        )
    else:
        minutes.until = seconds
    if context.clock() > minutes.until:
        context.note(f"the {(minutes.until - minutes.began) / 60:g} minutes are over before training")
