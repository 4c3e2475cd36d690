"""What each fused operation buys each kind of model in training.

    bench/operations                                  # all kinds, every operation
    bench/operations --models gpt,bert --rounds 9

For each kind of model, updates are made as training makes them (`training/update.py`), with the sizes, optimizer and
dropout of the recipe `tiny` for that kind, from random sentences as long as those of Multi30k.  In turn, all operations
of `kernels/ops.py` are on, one of them is off, and all of them are off.  A figure is the processor time of an update
without an operation divided by that with all of them, the median over the rounds: 1.10 means that the operation saves a
tenth.  Wall-clock ratios are printed beside them; on a machine with other work, trust the processor time.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

MODELS: dict[str, dict[str, Any]] = {
    "transformer-learned": {"model.positions": "learned"},
    "transformer-gelu": {"model.activation": "gelu"},
    "transformer-rms-swiglu": {"model.norm": "rms", "model.activation": "swiglu"},
    **{kind: {"model.kind": kind} for kind in ("rnn", "convs2s", "bytenet", "memory", "gpt")},
    **{kind: {"model.kind": kind} for kind in ("bert", "electra", "classifier", "tagger")},
}
OPERATIONS = ("linear", "attention", "dropout", "embedding")
LABELS = 60  # symbols of the target where it is labels


@contextmanager
def without(*operations: str) -> Iterator[None]:
    """Let torch compute these operations."""
    from torch.nn import functional as F

    from jumok.kernels import ops
    from jumok.nn.dropout import drop

    def embed(table: Any, ids: Any, positions: Any, *, scale: float, rate: float = 0.0, stream: Any = None) -> Any:
        x = F.embedding(ids, table) * scale
        x = x if positions is None else x + positions
        return x if stream is None else ops.dropout(x, rate, stream)

    replaced: dict[str, tuple[str, Callable[..., Any]]] = {
        "linear": ("takes_linear", lambda *_: False),
        "attention": ("takes_attention", lambda *_: None),
        "dropout": ("dropout", drop),
        "embedding": ("embed", embed),
    }
    with ExitStack() as stack:
        for operation in operations:
            stack.enter_context(patch.object(ops, *replaced[operation]))
        yield


def make_update(changes: dict[str, Any], *, seed: int = 1) -> Callable[[int], None]:
    """Return a function that makes one update of a new model from the batch of a given number."""
    import torch

    from jumok import machine
    from jumok.config import presets
    from jumok.data.batches import Batch, forced, plan
    from jumok.models import build
    from jumok.text.vocabulary import PAD, SPECIALS
    from jumok.training.objectives import objective_of
    from jumok.training.optim import Optimizer
    from jumok.training.update import Team

    machine.keep_memory()
    recipe = presets.get("tiny").change(changes)
    training, source_symbols = recipe.training, recipe.vocabulary.size
    target_symbols = LABELS if recipe.model.kind in ("classifier", "tagger") else source_symbols
    torch.manual_seed(seed)
    model: Any = build(recipe.model, source_symbols, target_symbols)
    optimizer = Optimizer(model, training)
    team = Team(
        model, lambda one: objective_of(one, smoothing=training.label_smoothing), optimizer, torch.get_num_threads()
    )
    rng = np.random.default_rng(seed)
    lengths = np.clip(rng.lognormal(2.6, 0.4, 4_000).astype(int), 3, 60)
    others = np.clip((lengths * rng.uniform(0.8, 1.3, len(lengths))).astype(int), 3, 60)
    batches = []
    for rows in plan(lengths, others, tokens=training.tokens_per_update, rng=rng):
        sides = ((lengths, source_symbols), (others, target_symbols))
        drawn = [[rng.integers(SPECIALS, top, count) for count in side[rows]] for side, top in sides]
        source, target, labels = forced(*drawn)
        batches.append(Batch(source, target, labels, torch.from_numpy(rows), int((labels != PAD).sum())))

    def update(number: int) -> None:
        batch = batches[number * 7 % len(batches)]
        team.update([batch], [number], rate=1e-4, largest_gradient=training.clip)

    return update


def measure(changes: dict[str, Any], rounds: int, updates: int) -> dict[str, tuple[float, float]]:
    """Processor and wall time of an update without each operation, as multiples of that with all of them."""
    update = make_update(changes)
    cases = {"": (), **{name: (name,) for name in OPERATIONS}, "all": OPERATIONS}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
    for number in range(rounds + 1):
        names = list(cases) if number % 2 else list(cases)[::-1]
        for name in names:
            with without(*cases[name]):
                begun = time.process_time(), time.perf_counter()
                for turn in range(updates):  # every case has the same batches
                    update(number * updates + turn)
                taken = time.process_time() - begun[0], time.perf_counter() - begun[1]
            if number:  # the first round warms up
                times[name].append(taken)
    ratios = {name: zip(*times[name], strict=True) for name in cases}
    base = [list(side) for side in ratios.pop("")]
    return {
        name: (
            statistics.median(a / b for a, b in zip(cpu, base[0], strict=True)),
            statistics.median(a / b for a, b in zip(wall, base[1], strict=True)),
        )
        for name, (cpu, wall) in ratios.items()
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="bench/operations", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", help="comma-separated; default: all")
    parser.add_argument("--rounds", type=int, default=7, help="default: %(default)s")
    parser.add_argument("--updates", type=int, default=3, help="timed per round; default: %(default)s")
    given = parser.parse_args(arguments)
    chosen = given.models.split(",") if given.models else MODELS
    print("| model |", " | ".join(f"without {name}" for name in (*OPERATIONS, "all")), "|")
    print("|---" * (len(OPERATIONS) + 2) + "|")
    for name in chosen:
        found = measure(MODELS[name], given.rounds, given.updates)
        print(f"| {name} |", " | ".join(f"{cpu:.2f} ({wall:.2f})" for cpu, wall in found.values()), "|", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
