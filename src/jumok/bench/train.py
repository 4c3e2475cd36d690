"""Speed of `jumok train` on this machine: tokens per second, share of the machine's limit, memory.

    figures = measure("tiny", source="train.en.gz", target="train.de.gz")
    figures["target_tokens_per_second"], figures["share_of_sgemm"]

The protocol: a joint vocabulary of 8,000 subwords, updates of about 4,096 tokens, `warmup` updates that do not count,
then `updates` clean ones.  The run is that of `jumok train`, with its batches, dropout, smoothing, optimizer and event
log, but without validations and checkpoints.  The limit is the rate of float32 matrix products in the same process:
all shapes are measured before and after, and the fastest one between the updates, because a shared host may be a fifth
slower a minute later.
"""

import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import jumok
from jumok import machine
from jumok.bench import flops
from jumok.bench.measure import (
    SQUARES,
    Watch,
    Work,
    describe_context,
    file_name,
)
from jumok.config import presets
from jumok.config.recipe import Recipe
from jumok.config.sections import UNCLEANED, transformer
from jumok.data.batches import Batch, Batches, Noise
from jumok.data.store import Store
from jumok.errors import JumokError, UsageError
from jumok.events import Event, LossLog, Sink
from jumok.kernels.modules import FastTransformer
from jumok.models.base import PAD
from jumok.runs.claiming import claim, hold, settle_data
from jumok.runs.context import Context
from jumok.runs.experiment import drive, hooks_of
from jumok.runs.pacing import pace_of
from jumok.runs.preparation import prepare_run
from jumok.runs.trainee import Trainee, assemble
from jumok.stopping import Stop
from jumok.storage.checkpoint import RunFolder
from jumok.training.progress import Progress

SYMBOLS = 8_000
COUNT = "a count of operations"
LARGE = 20_000_000  # parameters from which an update takes seconds
PROBE = 0.15  # seconds of matrix products between two updates
FEW, MANY = (2, 8), (10, 60)  # updates of warm-up and updates that count, for large models and for others


def protocol(recipe: Recipe, *, source: str | None, target: str | None, tokens: int) -> Recipe:
    """The recipe as the benchmark runs it: its model and training, a fixed vocabulary and update size, no limits."""
    corpus = {"data.corpus": "phrasebook", "data.pairs": 30_000, "data.source": None, "data.target": None}
    if source or target:
        corpus = {"data.corpus": None, "data.source": source, "data.target": target}
    return recipe.change(
        corpus
        | UNCLEANED
        | {
            "data.table": None,
            "data.valid_source": None,
            "data.valid_target": None,
            "data.valid_table": None,
            "vocabulary.size": SYMBOLS,
            "vocabulary.kind": "bpe",
            "vocabulary.joint": True,
            "vocabulary.sampling": 0.0,  # peers have no sampling, no word dropout and no weight decay
            "training.tokens_per_update": tokens,
            "training.dropout_epochs": 0,  # all of the dropout from the first update on
            "training.word_dropout": 0.0,
            "training.weight_decay": 0.0,
            "training.minutes": None,
            "training.epochs": None,
            "training.until_bleu": None,
            "training.patience": 0,
            "training.steps": 10**9,
        }
    )


class RecordingBatches(Batches):
    """Batches that record what they return."""

    def __init__(self, store: Store, **settings: Any) -> None:
        super().__init__(store, **settings)
        self.given: deque[Batch] = deque()

    def read(self, rows: np.ndarray, draw: int, noise: Noise = Noise()) -> Batch:
        self.given.append(super().read(rows, draw, noise))
        return self.given[-1]


class Meter:
    """Times a run update by update, and the fastest matrix product between updates."""

    def __init__(self, trainee: Trainee, feed: RecordingBatches, watch: Watch, fastest: tuple[int, int, int]) -> None:
        self.trainee, self.feed, self.watch, self.fastest = trainee, feed, watch, fastest
        self.meanwhile: list[float] = []

    def on_event(self, event: Event) -> None:
        """Record the time of every update."""
        if event["event"] == "step":
            now = self.watch.read()  # counting the work takes time, too
            self.watch.update(self.work(event["tokens"], event["loss"]), now)
            self.meanwhile += machine.sgemm([self.fastest], seconds=PROBE).values()
            self.watch.resume()

    def enough(self) -> bool:
        return self.watch.enough

    def work(self, tokens: int, loss: float) -> Work:
        """The work of an update of this many target tokens, from the batches that were returned next."""
        source: list[int] = []
        target: list[int] = []
        team = self.trainee.team
        fast = team.models[0]
        padded = not isinstance(fast, FastTransformer) or fast.whole() is None
        grid = 0
        while sum(target) < tokens and self.feed.given:
            batch = self.feed.given.popleft()
            for worker in range(team.workers):  # each pads its own share
                share = batch.share(worker, team.workers)
                source += (share.source != PAD).sum(dim=1).tolist()
                target += (share.labels != PAD).sum(dim=1).tolist()
                grid += share.source.numel() + share.labels.numel() if padded else 0
        if sum(target) != tokens:
            raise JumokError("bench.wrong_tokens", reported=tokens, counted=sum(target))
        model = transformer(self.trainee.recipe.model, COUNT)
        operations = flops.training_flops(model, len(self.trainee.prepared.vocabularies.target), source, target)
        real = sum(source) + sum(target)
        return Work(sum(source), sum(target), max(grid, real), len(source), operations, loss)


@dataclass(frozen=True)
class Updates:
    """Updates before the clock counts, and those that count; what is None depends on the size of the model."""

    warmup: int | None = None
    counted: int | None = None

    def __post_init__(self) -> None:
        for name, given, least in (("warmup-updates", self.warmup, 0), ("updates", self.counted, 1)):
            if given is not None and given < least:
                raise UsageError("bench.too_small", option=name, least=least, given=given)


def time_updates(
    recipe: Recipe,
    out: str | Path,
    *,
    updates: Updates,
    fastest: tuple[int, int, int] = SQUARES[0],
    sinks: Sequence[Sink] = (),
) -> Meter:
    """Prepare, assemble and train as a run does, but never validate and never save; only vocabulary and store stay."""
    machine.keep_memory()
    folder = RunFolder(out)
    recipe, texts = settle_data(recipe, folder)
    context = Context.of(folder, sinks=sinks)
    with hold(folder, context), closing(LossLog(folder.losses)) as losses:
        claim(folder, recipe, context.world)
        trainee = assemble(recipe, prepare_run(recipe, folder, texts, context), context)
        feed: RecordingBatches = RecordingBatches.like(trainee.feed)
        usual = FEW if trainee.parameters >= LARGE else MANY
        chosen = [
            n if given is None else given for n, given in zip(usual, (updates.warmup, updates.counted), strict=True)
        ]
        meter = Meter(trainee, feed, Watch(warmup=chosen[0], updates=chosen[1]), fastest)
        context.report.sinks.append(meter.on_event)
        losses.begin(0)
        progress = Progress()
        pace = pace_of(trainee, progress, context, checkpoint=0)
        context = replace(context, stop=Stop(meter.enough))
        hooks = hooks_of(trainee, context, losses, validate=lambda _: {"loss": 0.0}, save=lambda _: None)
        drive(replace(trainee, feed=feed), pace, progress, context, hooks)
    return meter


def measure(
    recipe: str | Recipe = "tiny",
    *,
    source: str | None = None,
    target: str | None = None,
    changes: Mapping[str, Any] | None = None,
    tokens: int = 4_096,
    updates: Updates = Updates(),
    keep: str | Path | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """One run of the protocol as plain values; `keep` is a folder for the vocabulary and the token store."""
    chosen = presets.get(recipe) if isinstance(recipe, str) else recipe
    chosen = protocol(chosen, source=source, target=target, tokens=tokens).change(changes or {})
    products = [*SQUARES, *flops.shapes(transformer(chosen.model, COUNT), chosen.vocabulary.size, tokens)]
    say("measuring matrix products")
    before = machine.sgemm(products)
    with tempfile.TemporaryDirectory(prefix="jumok-bench-") if keep is None else nullcontext(keep) as folder:
        fastest = max(products, key=lambda shape: before[machine.shape_name(shape)])
        meter = time_updates(
            chosen, folder, updates=updates, fastest=fastest,
            sinks=[lambda event: say(event["text"]) if event["event"] == "stage" else None],
        )  # fmt: skip
        memory = machine.peak_memory()
        after = machine.sgemm(products)
        rates = {shape: max(before[shape], after[shape]) for shape in before}
        return describe(meter, rates, memory)


def describe(meter: Meter, rates: Mapping[str, float], memory: int) -> dict[str, Any]:
    """A line of results; it has names of files, never of folders."""
    watch, recipe = meter.watch, meter.trainee.recipe
    figures = watch.figures()
    operations = sum(update.work.flops for update in watch.sample)
    first, last = watch.losses() or (0.0, 0.0)
    data, model = recipe.data, transformer(recipe.model, COUNT)
    others = describe_context(
        watch, rates, memory, threads=torch.get_num_threads(), meanwhile=meter.meanwhile[watch.warmup :]
    )
    return {
        "bench": "train",
        "system": "jumok",
        "version": jumok.__version__,
        "torch": torch.__version__,
        "recipe": recipe.name,
        "corpus": data.corpus or f"{file_name(data.source or '')} + {file_name(data.target or '')}",
        "symbols": len(meter.trainee.prepared.vocabularies.target),
        "parameters": meter.trainee.parameters,
        "sizes": {
            "encoder_layers": model.encoder_layers,
            "decoder_layers": model.decoder_layers,
            "d_model": model.d_model,
            "d_ff": model.d_ff,
            "heads": model.heads,
        },
        "dropout": model.dropout,
        "label_smoothing": recipe.training.label_smoothing,
        "tokens": recipe.training.tokens_per_update,
        **figures,
        "flops_per_update": operations / figures["updates"],
        "gflops": operations / figures["wall_seconds"] / 1e9,
        "share_of_sgemm": operations / figures["wall_seconds"] / 1e9 / others["sgemm_gflops"],
        **others,
        "loss_fell": last < first,
        "machine": asdict(machine.describe()),
    }


def table(figures: Mapping[str, Any]) -> list[str]:
    """The figures as a table for the terminal."""
    f, sizes = figures, figures["sizes"]
    layers = f"{sizes['encoder_layers']} + {sizes['decoder_layers']} layers"
    cores = f["user_seconds"] / f["wall_seconds"], f["system_seconds"] / f["wall_seconds"]
    rows = {
        "model": f"{f['recipe']}: {layers}, width {sizes['d_model']}, {f['parameters'] / 1e6:.1f} million parameters",
        "text": f"{f['corpus']}, {f['symbols']:,} subwords",
        "update": f"{f['target_tokens_per_update']:,.0f} target + {f['source_tokens_per_update']:,.0f} source tokens, "
        f"{100 * f['padding']:.1f} % padding, {f['seconds_per_update']:.3f} s",
        "target tokens/s": f"{f['target_tokens_per_second']:,.0f} (median {f['target_tokens_per_second_median']:,.0f})",
        "source tokens/s": f"{f['source_tokens_per_second']:,.0f}",
        f"at {f['reference_gflops']:.0f} GFLOPS": f"{f['target_tokens_per_second_at_reference']:,.0f} target tokens/s "
        f"({f['target_tokens_per_second_at_reference_best']:,.0f} by the best sgemm)",
        "matrix products": f"{f['gflops']:.1f} GFLOP/s, {100 * f['share_of_sgemm']:.0f} % of sgemm "
        f"({f['sgemm_gflops']:.0f} GFLOPS meanwhile, {f['sgemm_best_gflops']:.0f} at best, {f['threads']} threads)",
        "peak memory": f"{f['peak_memory'] / 1e9:.2f} GB",
        "processor": f"{cores[0]:.2f} cores in the program, {cores[1]:.2f} in the kernel",
        "updates": f"{f['updates']} counted after {f['warmup_updates']} of warm-up, {f['dirty_updates']} disturbed"
        + (" — the machine was not idle, do not quote" if f["contended"] else ""),
        "loss": f"{f['loss_first']:.3f} to {f['loss_last']:.3f}"
        + ("" if f["loss_fell"] else " — it did not fall, do not quote"),
        "torch": f"{f['torch']} on {f['machine']['processor']}",
    }
    return [f"{name:<16} {value}" for name, value in rows.items()]
