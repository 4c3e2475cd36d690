"""The cost of a contender: sentences per second in translation, and time by length of the sentence.

Everything is timed in this process, on all cores, with the weights of the finished run or, by length, with new ones:
time does not depend on their values.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from jumok.config.recipe import Recipe
from jumok.data.batches import Batch
from jumok.kernels.modules import accelerate
from jumok.models import build
from jumok.models.base import END, SPECIALS, START
from jumok.training.objectives import objective_of
from jumok.translator import Translator

LENGTHS = (8, 16, 32, 64, 128, 256, 512)
TOKENS = 1_024  # target tokens of a batch, at every length
ROWS = 4  # sentences that are translated together
LEAST = 0.15  # least seconds of a measurement
SYMBOLS = 8_000


def time_translation(model: Translator, texts: Sequence[str], *, beams: Sequence[int] = (1, 5)) -> dict[str, Any]:
    """Sentences and source tokens per second with each beam, text to text, after a short warm-up."""
    tokens = sum(map(len, model.vocabularies.source.encode_all(texts)))
    figures: dict[str, Any] = {"engine": model.engine_name}
    for beam in beams:
        model.translate(texts[:8], beam=beam, details=False)
        began = time.perf_counter()
        model.translate(texts, beam=beam, details=False)
        seconds = time.perf_counter() - began
        figures[f"beam {beam}"] = {"sentences_per_second": len(texts) / seconds, "tokens_per_second": tokens / seconds}
    return figures


def growth(recipe: Recipe, *, lengths: Iterable[int] = LENGTHS) -> list[dict[str, float]]:
    """For each length: microseconds per target token in training, milliseconds per token in translation."""
    torch.manual_seed(0)
    model = build(recipe.model, SYMBOLS, SYMBOLS)
    learner, stepper = accelerate(model, own=True).train(), accelerate(model).eval()
    figures = []
    for length in lengths:
        batch = random_batch(length, max(1, TOKENS // length))
        training = seconds_of(lambda batch=batch: train_step(learner, batch)) / batch.tokens  # type: ignore[misc]
        few = random_batch(length, ROWS)
        stepping = seconds_of(lambda few=few: decode_batch(stepper, few)) / length  # type: ignore[misc]
        figures.append({"length": length, "training_us": 1e6 * training, "translating_ms": 1e3 * stepping})
    return figures


def train_step(model: Any, batch: Batch) -> None:
    """One forward and backward pass."""
    objective_of(model, smoothing=0.1)(batch)[0].backward()
    model.zero_grad(set_to_none=True)


@torch.inference_mode()
def decode_batch(model: Any, batch: Batch) -> None:
    """Decode as many steps as the sentences have tokens."""
    state = model.start(batch.source)
    for token in batch.target.unbind(dim=1):
        _, state = model.step(token, state)


def random_batch(length: int, rows: int) -> Batch:
    """Pairs of random sentences of exactly this length."""
    generator = torch.Generator().manual_seed(length)
    tokens = torch.randint(SPECIALS, SYMBOLS, (2, rows, length - 1), generator=generator)
    end, start = (torch.full((rows, 1), token) for token in (END, START))
    source, decode_batch = (torch.cat([side, end], dim=1) for side in tokens)
    return Batch(source, torch.cat([start, tokens[1]], dim=1), decode_batch, torch.arange(rows), rows * length)


def seconds_of(call: Callable[[], None]) -> float:
    """Seconds of a call: the best of several, after one warm-up."""
    call()
    times: list[float] = []
    began = time.perf_counter()
    while not times or time.perf_counter() - began < LEAST:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)
