"""A forecast of a training run on this machine, from a probe of about twenty seconds that leaves no files.

    plan = probe(choose("train.en", "train.de", recipe="small", minutes=30), out="runs/small")
    print("\\n".join(plan.lines()))

The probe is the beginning of a real run in a temporary folder: it reads the text for a few seconds, learns the
vocabulary from some of its pairs (or takes that of the run), makes real updates, beginning with the longest sentences,
and validates on a few pairs.  training/budget.py computes the rest.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jumok import machine, messages
from jumok.config.recipe import Recipe
from jumok.data import stdin
from jumok.data.batches import Batch, Batches, Position
from jumok.data.prepare import pipeline
from jumok.events import Event, Silence
from jumok.reports.drawing import fit
from jumok.runs.checkpointing import Keeper, make_keeper
from jumok.runs.context import Context
from jumok.runs.experiment import drive, hooks_of
from jumok.runs.pacing import WRITING, count_work
from jumok.runs.rehearsal import Rehearsal, rehearse
from jumok.runs.trainee import Trainee, assemble
from jumok.stopping import NEVER, Stop
from jumok.storage.checkpoint import RunFolder
from jumok.training.budget import SHARE, ByCount, Costs, Limits, allot, limits_of, ration
from jumok.training.progress import Progress

UPDATING = 8.0  # seconds
LEAST, MOST = 3, 60  # updates
WORK = 6e10  # most parameters times tokens in a batch of the probe: a few seconds
LONG = 7 * 86_400.0  # seconds from which on the recipe is called too big
FEW_EPOCHS, MANY_UPDATES = 3.0, 3_000  # fewer epochs are too few, unless there are many updates
GOOD_EPOCHS = 10.0
SMALLER = {"big": "base", "base": "small", "small": "tiny"}
GB = 1e9


@dataclass(frozen=True)
class Plan:
    """The forecast of a run; times in seconds, sizes in bytes."""

    recipe: str
    minutes: float | None
    pairs: int
    counted: bool  # whether the text was read to its end
    subwords: tuple[int, int]  # of source and target
    parameters: int
    tokens_per_second: float  # target tokens
    update: float
    updates: int
    epochs: float
    seconds: float  # in total
    startup: float
    validation: float
    validation_pairs: int
    validations: int
    memory: int  # used by the probe
    expected_memory: int
    available_memory: int
    disk: int  # of the checkpoints
    preparing: int  # of the preparation, most of it until it is finished
    fetched: int  # of the files from addresses
    available_disk: int
    load: float  # load average of the machine when the probe began

    def lines(self) -> list[str]:
        """The plan as a table, and its verdict."""
        more = "" if self.counted else messages.text("runs.plan_about")
        names, (sources, targets) = messages.text("runs.plan_names").split(", "), self.subwords
        values = [
            messages.text("runs.plan_pairs", more=more, pairs=self.pairs, sources=sources, targets=targets),
            messages.text("runs.plan_model", recipe=self.recipe, parameters=self.parameters / 1e6),
            messages.text("runs.plan_speed", speed=self.tokens_per_second, update=spell(self.update)),
            messages.text("runs.plan_time", time=spell(self.seconds), startup=spell(self.startup)),
            messages.text("runs.plan_updates", updates=self.updates, more=more, epochs=self.epochs),
            messages.text(
                "runs.plan_validations", validations=self.validations, time=spell(self.validation),
                pairs=self.validation_pairs,
            ),
            messages.text(
                "runs.plan_memory", probe=self.memory / GB, expected=self.expected_memory / GB,
                free=self.available_memory / GB,
            ),
            messages.text(
                "runs.plan_disk", needed=self.disk / GB, preparing=self.preparing / GB, fetched=self.fetched / GB,
                free=self.available_disk / GB,
            ),
        ]  # fmt: skip
        return [f"{fit(name, 12)} {value}" for name, value in zip(names, values, strict=True)] + self.verdict()

    def verdict(self) -> list[str]:
        """Sentences that say whether the recipe fits the machine and the time; if not, what to try."""
        smaller = SMALLER.get(self.recipe)
        instead = f"--recipe {smaller}" if smaller else messages.text("runs.plan_smaller")
        problems = []
        if self.epochs < FEW_EPOCHS and self.updates < MANY_UPDATES:
            enough = GOOD_EPOCHS / max(self.epochs, 1e-9) * (self.seconds - self.startup) + self.startup
            minutes = f"--minutes {enough / 60 + 1:.0f}"
            longer = minutes if self.minutes is not None else messages.text("runs.plan_longer", time=spell(enough))
            problems.append(
                messages.text(
                    "runs.plan_few_epochs", epochs=self.epochs, good=GOOD_EPOCHS, longer=longer, instead=instead
                )
            )
        if self.seconds > LONG:
            problems.append(messages.text("runs.plan_too_long", time=spell(self.seconds), instead=instead))
        if self.expected_memory - self.memory > self.available_memory:
            needed = self.expected_memory / GB
            problems.append(messages.text("runs.plan_too_much_memory", needed=needed, instead=instead))
        if self.disk > self.available_disk:
            problems.append(messages.text("runs.plan_no_disk"))
        elif self.preparing > self.available_disk:
            sizes = {"needed": self.preparing / GB, "free": self.available_disk / GB}
            problems.append(messages.text("runs.plan_no_disk_to_prepare", **sizes))
        problems = problems or [messages.text("runs.plan_fits")]
        if self.load > machine.cores() + 0.5:
            problems.append(messages.text("runs.plan_busy", load=self.load, cores=machine.cores()))
        return problems


class LongestFirst(Batches):
    """The batches of a run, beginning with the one with the longest sentences, which needs the most memory."""

    def walk(self, position: Position) -> Iterator[tuple[Position, Batch]]:
        plan, begins = self.window_plan(0, 0), self.store.target.begins
        longest = max(plan, key=lambda rows: int((begins[rows + 1] - begins[rows]).max()))
        for _ in range(machine.cores()):  # one for each worker
            yield position, self.read(longest, 0)
        yield from super().walk(position)


@dataclass
class Trial:
    """Measurements of the first seconds of a run."""

    rehearsal: Rehearsal
    steps: list[tuple[float, int]] = field(default_factory=list)  # seconds and target tokens of each update
    idle: int = 0  # bytes of memory before the first update
    smaller: float = 1.0  # a batch of the probe over one of the run
    portion: float = 1.0  # an update of the probe over one of the run

    def record(self, event: Event) -> None:
        if event["event"] == "step":
            self.steps.append((event["seconds"], event["tokens"]))
        self.rehearsal.record(event)

    def enough(self) -> bool:
        done, seconds = len(self.steps), self.steps[-1][0] if self.steps else 0.0
        return done >= MOST or seconds > (UPDATING if done >= LEAST else 1.5 * UPDATING)

    def speed(self) -> tuple[float, float]:
        """Seconds and target tokens of a real update; the first ones are slow and count only if there are no others."""
        marks = [(0.0, 0), *self.steps]
        first = min(3, len(self.steps) - 1)
        seconds = marks[-1][0] - marks[first][0]
        updates = (len(self.steps) - first) * self.portion
        return seconds / updates, sum(tokens for _, tokens in marks[first + 1 :]) / updates

    def memory(self, parameters: int) -> tuple[int, int]:
        """Peak memory of the probe, and the expected one of a run, in bytes."""
        peak, weights = machine.peak_memory(), 4 * parameters
        working = max(0, peak - self.idle - 3 * weights)  # gradients and both moments do not depend on the batch
        return peak, round(peak + working * (1 / self.smaller - 1) + 3 * weights)  # candidates for the finished model


def shrink(trainee: Trainee, trial: Trial) -> Trainee:
    """Reduce an update to one batch per core, small for a large model: a part of a real update."""
    tokens = min(trainee.feed.tokens, max(64, round(WORK / trainee.parameters)))
    trial.smaller = tokens / trainee.feed.tokens
    once = min(trainee.accumulate, trainee.team.workers)
    trial.portion = trial.smaller * once / trainee.accumulate
    return replace(trainee, feed=LongestFirst.like(trainee.feed, tokens=tokens), accumulate=once)


def probe(
    recipe: Recipe,
    out: str | Path | None = None,
    *,
    device: str = "cpu",
    began: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Plan:
    """Try a recipe for about twenty seconds in a temporary folder, and return what to expect of the run."""
    machine.keep_memory()
    run = RunFolder(out or Path("runs") / recipe.name)
    began = clock() if began is None else began
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    with tempfile.TemporaryDirectory(prefix="jumok-plan-") as scratch:
        data = stdin.replace_stdin(recipe.data, Path(scratch) / "data")
        NEVER.finish(stdin.copy_stdin(recipe.data, data))
        recipe, folder = recipe.model_copy(update={"data": data}), RunFolder(Path(scratch))
        trial = Trial(Rehearsal(lambda: clock() - began))
        context = Context.of(folder, sinks=[trial.record], began=began, device=device)
        with closing(context.report):
            reading = clock()
            prepared = rehearse(recipe, trial.rehearsal, folder, run, context.report)
            trainee = shrink(assemble(recipe, prepared, context), trial)
            ready = clock()
            trial.idle = machine.peak_memory()
            trying = replace(context, stop=Stop(trial.enough))
            hooks = hooks_of(trainee, trying, Silence(), validate=lambda _: {"loss": 0.0}, save=lambda _: None)
            drive(trainee, ByCount(Limits(steps=10**9), trainee.schedule), Progress(), trying, hooks)
            pair = trainee.scorer.measure_seconds()
        startup = trial.rehearsal.estimate(reading - began, ready - began)
        keeper = make_keeper(trainee, folder, context, Silence())
        return make_plan(trial, trainee, keeper, run, pair=pair, startup=startup, load=load)


def make_plan(
    trial: Trial, trainee: Trainee, keeper: Keeper, run: RunFolder, *, pair: float, startup: float, load: float
) -> Plan:
    """The plan that follows from the measurements of a probe."""
    training = trainee.recipe.training
    (update, tokens), (memory, expected_memory) = trial.speed(), trial.memory(trainee.parameters)
    rehearsal, share = trial.rehearsal, trial.rehearsal.growth  # pairs of the text per pair of the probe
    source, target = (round(side * share) for side in trainee.prepared.store.tokens())
    costs = Costs(pair=pair, checkpoint=keeper.size() / WRITING, update=update)
    passes = (target + trainee.prepared.store.count * share) / tokens  # updates in an epoch
    limits = replace(limits_of(trainee.recipe), pairs=len(trainee.scorer.pairs), candidates=1 + (training.average > 1))
    if training.epochs is not None:
        limits = replace(limits, expected=round(training.epochs * passes))
    work = divide(limits, costs, training.minutes, startup, count_work(trainee))
    existing = next(folder for folder in (run.path.absolute(), *run.path.absolute().parents) if folder.exists())
    return Plan(
        recipe=trainee.recipe.name, minutes=training.minutes, pairs=rehearsal.count, counted=rehearsal.counted,
        subwords=(source, target), parameters=trainee.parameters, tokens_per_second=tokens / update, update=update,
        epochs=work["updates"] / passes, startup=startup, memory=memory,
        expected_memory=expected_memory, available_memory=machine.available_memory(),
        disk=keeper.disk().need, preparing=round(pipeline.DISK * rehearsal.text), fetched=rehearsal.fetched,
        available_disk=shutil.disk_usage(existing).free,
        load=load, **work,
    )  # fmt: skip


def divide(
    limits: Limits, costs: Costs, minutes: float | None, startup: float, work: Costs | None = None
) -> dict[str, Any]:
    """Updates, validations and seconds of a run; `work` matters only where minutes do not limit it."""
    if minutes is None:
        rationed = ration(limits, work)
        pairs, updates = rationed.pairs, limits.last
        validations, each = -(-limits.last // rationed.every), costs.pair * pairs
        seconds = startup + limits.last * costs.update + validations * (each + costs.checkpoint)
    else:
        seconds = minutes * 60.0
        allotment = allot(seconds, costs, limits)
        pairs, each = allotment.pairs, costs.pair * allotment.pairs
        before = allotment.validations(SHARE * seconds, costs, limits.validations - 1)
        left = seconds - startup - allotment.ending(costs) - before * (each + costs.checkpoint)
        updates, validations = min(limits.last, max(0, int(left / costs.update))), before + 1
    return {
        "updates": updates,
        "validations": validations,
        "validation": each,
        "validation_pairs": pairs,
        "seconds": seconds,
    }


def spell(seconds: float) -> str:
    """A duration as 0.31 s, 42 s, 5.0 minutes, 3.2 hours or 12.0 days."""
    if seconds >= 2 * 86_400:
        return messages.text("runs.days", count=seconds / 86_400)
    if seconds >= 2 * 3_600:
        return messages.text("runs.hours", count=seconds / 3_600)
    if seconds >= 60:
        return messages.text("runs.minutes", count=seconds / 60)
    return messages.text("runs.seconds", count=f"{seconds:.2f}" if seconds < 10 else f"{seconds:.0f}")
