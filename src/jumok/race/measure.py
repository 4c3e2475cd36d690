"""What a contender costs: sentences a second when it translates, and how time grows with the length of a sentence.

Everything is timed in this process, on all cores, with the weights of the finished run or, for lengths, with new ones:
time does not depend on what they are.
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
TOKENS = 1_024  # of the target in a batch, whatever the length of its sentences
ROWS = 4  # sentences that are translated at once
LEAST = 0.15  # seconds that are timed at least, unless one call takes longer
SYMBOLS = 8_000


def translating(model: Translator, texts: Sequence[str], *, beams: Sequence[int] = (1, 5)) -> dict[str, Any]:
    """Sentences and source tokens a second with each beam, text to text, after a few that do not count."""
    tokens = sum(map(len, model.vocabularies.source.encode_all(texts)))
    found: dict[str, Any] = {"engine": model.engine_name}
    for beam in beams:
        model.translate(texts[:8], beam=beam, details=False)
        began = time.perf_counter()
        model.translate(texts, beam=beam, details=False)
        seconds = time.perf_counter() - began
        found[f"beam {beam}"] = {"sentences_per_second": len(texts) / seconds, "tokens_per_second": tokens / seconds}
    return found


def growth(recipe: Recipe, *, lengths: Iterable[int] = LENGTHS) -> list[dict[str, float]]:
    """For sentences of each length: microseconds a target token in training, milliseconds a token in translating."""
    torch.manual_seed(0)
    model = build(recipe.model, SYMBOLS, SYMBOLS)
    learner, speaker = accelerate(model, own=True).train(), accelerate(model).eval()
    found = []
    for length in lengths:
        batch = sentences(length, max(1, TOKENS // length))
        training = seconds_of(lambda batch=batch: taught(learner, batch)) / batch.tokens  # type: ignore[misc]
        few = sentences(length, ROWS)
        saying = seconds_of(lambda few=few: said(speaker, few)) / length  # type: ignore[misc]
        found.append({"length": length, "training_us": 1e6 * training, "translating_ms": 1e3 * saying})
    return found


def taught(model: Any, batch: Batch) -> None:
    """Forward and backward."""
    objective_of(model, smoothing=0.1)(batch)[0].backward()
    model.zero_grad(set_to_none=True)


@torch.inference_mode()
def said(model: Any, batch: Batch) -> None:
    """As many steps as the sentences have tokens."""
    state = model.start(batch.source)
    for token in batch.target.unbind(dim=1):
        _, state = model.step(token, state)


def sentences(length: int, rows: int) -> Batch:
    """Pairs of sentences of just this length each, words drawn by chance."""
    words = torch.Generator().manual_seed(length)
    draw = torch.randint(SPECIALS, SYMBOLS, (2, rows, length - 1), generator=words)
    end, start = (torch.full((rows, 1), token) for token in (END, START))
    source, said = (torch.cat([side, end], dim=1) for side in draw)
    return Batch(source, torch.cat([start, draw[1]], dim=1), said, torch.arange(rows), rows * length)


def seconds_of(call: Callable[[], None]) -> float:
    """The best of some calls, after one that does not count."""
    call()
    times: list[float] = []
    began = time.perf_counter()
    while not times or time.perf_counter() - began < LEAST:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)
