"""The training loop: everything that varies comes in as an argument, nothing is looked up.

An update is a number of micro-batches whose gradients add up.  What a resumed run must know is `Progress`; what is
random at step n is drawn from a key made of (seed, "dropout", n).
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch
from torch import nn

from jumok.data.batches import Batch, Place
from jumok.errors import JumokError
from jumok.keys import key
from jumok.training.objectives import Objective
from jumok.training.optim import RunningMean, Schedule, clip

PATIENCE_FOR_NUMBERS = 10  # updates in a row without a finite loss before the run stops


@dataclass
class Progress:
    """All that a run knows of itself besides tensors; saved with every checkpoint."""

    step: int = 0
    epoch: int = 0
    index: int = 0  # next batch of the epoch
    tokens: int = 0
    seconds: float = 0.0
    horizon: int = 0  # the step at which the run will end, as far as it knows
    every: int = 0  # steps between validations; 0 until the pace is known
    skipped: int = 0  # updates without a finite loss, in all
    skipped_in_row: int = 0
    best: float = math.inf  # lowest validation loss
    best_bleu: float = -1.0
    best_step: int = 0
    waited: int = 0  # validations since something got better

    def to_json(self) -> dict[str, Any]:
        values = asdict(self)
        return values | {"best": None if math.isinf(self.best) else self.best}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Progress":
        known = {field.name for field in fields(cls)}
        kept = {name: value for name, value in values.items() if name in known}
        return cls(**kept | {"best": math.inf if kept.get("best") is None else kept["best"]})


@dataclass(frozen=True)
class Limits:
    """When a run ends; the first limit reached counts.  `expected` is the step where epochs will end, if they do."""

    steps: int
    expected: int | None = None
    epochs: int | None = None
    seconds: float | None = None
    bleu: float | None = None
    patience: int = 0
    validations: int = 20
    validate_every: int | None = None


@dataclass(frozen=True)
class Outcome:
    """Why the loop ended: one of steps, epochs, minutes, bleu, patience, stopped."""

    reason: str
    progress: Progress


def train(
    model: nn.Module,
    batches: Iterator[tuple[Place, Batch]],
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    progress: Progress,
    limits: Limits,
    *,
    seed: int,
    accumulate: int,
    largest_gradient: float,
    mean: RunningMean | None,
    report: Callable[..., None],
    validate: Callable[[Progress], dict[str, float]],
    save: Callable[[Progress], None],
    stop: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Update until a limit is reached or `stop` says so; the last state is always saved."""
    began = clock() - progress.seconds
    pace = Pace(limits, progress)
    saved = progress.step
    while (reason := ended(limits, progress, stop)) is None:
        model.train()
        micro = [next(batches) for _ in range(accumulate)]
        progress.step += 1
        progress.epoch, progress.index = micro[-1][0]
        torch.manual_seed(key(seed, "dropout", progress.step))
        rate = schedule.rate(progress.step, progress.horizon or limits.steps)
        loss, norm, tokens = update(model, [batch for _, batch in micro], objective, optimizer, rate, largest_gradient)
        account(progress, loss, norm, tokens, [batch for _, batch in micro])
        if mean is not None and progress.skipped_in_row == 0:
            mean.update(model, progress.step)
        progress.seconds = clock() - began
        pace.measure(progress)
        report(
            step=progress.step, epoch=progress.epoch, loss=loss, rate=rate, norm=norm, tokens=tokens,
            seconds=progress.seconds, horizon=progress.horizon, skipped=progress.skipped,
        )  # fmt: skip
        if progress.every and progress.step % progress.every == 0:
            judge(progress, validate(progress))
            save(progress)
            saved = progress.step
            progress.seconds = clock() - began
    if saved != progress.step:
        if reason != "stopped" and progress.step:
            judge(progress, validate(progress))
        save(progress)
    return Outcome(reason, progress)


def update(
    model: nn.Module,
    batches: list[Batch],
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    rate: float,
    largest_gradient: float,
) -> tuple[float, float, int]:
    """One update from the mean loss over all tokens of the micro-batches: (loss, gradient norm, tokens).

    A loss or gradient that is not finite changes nothing.
    """
    tokens = sum(batch.tokens for batch in batches)
    total = 0.0
    for batch in batches:
        loss, _ = objective(batch)
        (loss / tokens).backward()
        total += loss.item()
    norm = clip(model.parameters(), largest_gradient).item()
    if math.isfinite(total) and math.isfinite(norm):
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return total / tokens, norm, tokens


def account(progress: Progress, loss: float, norm: float, tokens: int, batches: list[Batch]) -> None:
    """Book one update; ten without finite numbers in a row stop the run and name the sentences."""
    if math.isfinite(loss) and math.isfinite(norm):
        progress.tokens += tokens
        progress.skipped_in_row = 0
        return
    progress.skipped += 1
    progress.skipped_in_row += 1
    if progress.skipped_in_row >= PATIENCE_FOR_NUMBERS:
        rows = ", ".join(str(int(row)) for row in batches[-1].rows[:5])
        raise JumokError(
            f"the loss was not a finite number for {PATIENCE_FOR_NUMBERS} updates in a row (loss {loss}, norm {norm})",
            where=f"at step {progress.step}, in the batch of stored pairs {rows}, …",
            hint="try: a lower rate, --set training.peak=0.0005, or --set training.clip=1.0",
        )


class Pace:
    """Keeps `horizon` and `every` of the progress up to date; minutes become steps by the measured speed."""

    def __init__(self, limits: Limits, progress: Progress) -> None:
        self.limits = limits
        self.first = (progress.step, progress.seconds)
        if limits.seconds is None:
            progress.horizon = limits.expected or limits.steps
            self.space(progress)

    def space(self, progress: Progress) -> None:
        even = max(1, round(progress.horizon / self.limits.validations))
        progress.every = progress.every or self.limits.validate_every or even

    def measure(self, progress: Progress) -> None:
        """Between 8 and every 16th step, see how far the time left will carry the run."""
        steps = progress.step - self.first[0]
        if self.limits.seconds is None or (steps != 8 and steps % 16):
            return
        per_step = (progress.seconds - self.first[1]) / steps
        left = max(0.0, self.limits.seconds - progress.seconds)
        progress.horizon = min(self.limits.steps, progress.step + round(left / per_step))
        self.space(progress)


def ended(limits: Limits, progress: Progress, stop: Callable[[], bool]) -> str | None:
    """The limit that is reached, if any."""
    if stop():
        return "stopped"
    if progress.step >= limits.steps:
        return "steps"
    if limits.epochs is not None and progress.epoch >= limits.epochs:
        return "epochs"
    if limits.seconds is not None and progress.seconds >= limits.seconds:
        return "minutes"
    if limits.bleu is not None and progress.best_bleu >= limits.bleu:
        return "bleu"
    if limits.patience and progress.waited >= limits.patience:
        return "patience"
    return None


def judge(progress: Progress, scores: dict[str, float]) -> None:
    """Remember whether this validation was better than all before."""
    better = scores["loss"] < progress.best or scores.get("bleu", -1.0) > progress.best_bleu
    if scores.get("bleu", -1.0) > progress.best_bleu or (scores["loss"] < progress.best and "bleu" not in scores):
        progress.best_step = progress.step
    progress.best = min(progress.best, scores["loss"])
    progress.best_bleu = max(progress.best_bleu, scores.get("bleu", -1.0))
    progress.waited = 0 if better else progress.waited + 1
