"""The parts of a training, assembled from a recipe and prepared data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn

from jumok.config.recipe import Recipe
from jumok.data.batches import Batch, Batches, Noise
from jumok.data.prepare.folder import Prepared
from jumok.engines.torch_engine import TorchEngine
from jumok.keys import key
from jumok.models import build
from jumok.runs.context import Context
from jumok.training.objectives import Objective, objective_of
from jumok.training.optim import Optimizer, RunningMean
from jumok.training.schedule import Schedule
from jumok.training.update import Team, replicate
from jumok.training.validation import Scorer, scorer_of, spread


@dataclass(frozen=True)
class Trainee:
    """A model and everything that trains and scores it."""

    recipe: Recipe
    prepared: Prepared
    model: Any
    optimizer: Optimizer
    mean: RunningMean | None
    team: Team[Any]
    feed: Batches
    accumulate: int  # batches per update
    schedule: Schedule
    scorer: Scorer

    @cached_property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())


def assemble(
    recipe: Recipe, prepared: Prepared, context: Context, inherit: Callable[[Any], None] = lambda model: None
) -> Trainee:
    """Build the model with weights from the recipe's seed, and everything that trains it; `inherit` may set weights."""
    training, device = recipe.training, context.device
    vocabularies = prepared.vocabularies
    torch.manual_seed(key(recipe.seed, "weights"))
    model = build(recipe.model, len(vocabularies.source), len(vocabularies.target)).to(device).eval()
    inherit(model)
    if hasattr(model, "starts"):  # the model needs to know which symbols begin a word
        model.starts.copy_(torch.tensor(vocabularies.source.begins()))
    optimizer = Optimizer(model, training)
    replicas = replicate(model, count_workers(recipe, device), kernels=not training.compile)
    team = Team(
        model, replicas, [make_objective(recipe, context, replica) for replica in replicas], optimizer, context.world
    )
    batch_tokens = min(recipe.data.tokens_per_batch, training.tokens_per_update)
    feed = Batches(
        prepared.store, tokens=batch_tokens, seed=recipe.seed, vocabularies=vocabularies,
        noise=partial(noise_of, recipe), ends=not prepared.is_text, temperature=recipe.data.temperature,
    )  # fmt: skip
    return Trainee(
        recipe=recipe,
        prepared=prepared,
        model=model,
        optimizer=optimizer,
        mean=RunningMean(model, training.ema) if training.ema else None,
        team=team,
        feed=feed,
        accumulate=max(1, round(training.tokens_per_update / batch_tokens)),
        schedule=Schedule(training.schedule, recipe.model.d_model, training.warmup, training.peak),
        scorer=make_scorer(recipe, prepared, model, context),
    )


def make_scorer(recipe: Recipe, prepared: Prepared, model: nn.Module, context: Context) -> Scorer:
    """The scorer of the model on the validation pairs."""
    source, target = prepared.store.tokens()
    chosen = spread(len(prepared.valid), recipe.training.valid_pairs)
    return scorer_of(
        TorchEngine(model, device=context.device), prepared.vocabularies, [prepared.valid[row] for row in chosen],
        is_text=prepared.is_text, ratio=target / max(1, source), labels=recipe.vocabulary.target_kind == "word",
        stop=context.stop, groups=[prepared.corpora[prepared.labels[row]] for row in chosen],
    )  # fmt: skip


def make_objective(recipe: Recipe, context: Context, model: Any) -> Objective:
    """The objective of a model, or of a replica of it, in the precision of the recipe."""
    training, device = recipe.training, context.device
    hidden = torch.compile(model.hidden, dynamic=True) if training.compile else None
    plain = objective_of(model, smoothing=training.label_smoothing, hidden=hidden)
    if training.precision != "bf16":
        return plain
    if not has_bf16(device):
        context.note(f"{device} has no bf16 arithmetic; training continues in float32")
        return plain

    def mixed(batch: Batch) -> tuple[Tensor, int]:
        with torch.autocast(device.type, dtype=torch.bfloat16):
            return plain(batch)

    return mixed


def count_workers(recipe: Recipe, device: torch.device) -> int:
    """The number of workers: one per core on a CPU; one for a compiled model and on a GPU."""
    return torch.get_num_threads() if device.type == "cpu" and not recipe.training.compile else 1


def dropout_share(recipe: Recipe, epoch: int) -> float:
    """The factor of the dropout in an epoch; it grows, since only text seen often can be memorised."""
    passes = recipe.training.dropout_epochs
    return min(1.0, epoch / passes) if passes else 1.0


def noise_of(recipe: Recipe, epoch: int) -> Noise:
    """Subword sampling and word dropout of an epoch, in proportion to its dropout."""
    share = dropout_share(recipe, epoch)
    return Noise(sampling=share * recipe.vocabulary.sampling, unknown=share * recipe.training.word_dropout)


def has_bf16(device: torch.device) -> bool:
    """Whether the device multiplies bf16 in hardware."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    if device.type == "cpu":
        flags = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
        return any(getattr(torch.cpu, flag, lambda: False)() for flag in flags)
    return device.type == "mps"
