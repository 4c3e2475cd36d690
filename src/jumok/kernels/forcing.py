"""Given translations in one call of the kernels: log-probabilities of their tokens, and attention; no torch."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from jumok.kernels.library import LONG, POINTER
from jumok.kernels.searching import BoundModel, address_of
from jumok.machine import cores

Pair = tuple[Sequence[int], Sequence[int]]


class ForceTask(ctypes.Structure):
    """Given translations whose log-probabilities or attention are asked for."""

    _fields_ = [
        *((name, LONG) for name in ("sentences", "start", "threads", "layer", "head")),
        *((name, POINTER) for name in ("tokens", "begins", "targets", "target_begins")),
        *((name, POINTER) for name in ("source_positions", "target_positions")),
        *((name, POINTER) for name in ("gains", "weights", "weight_begins")),
    ]


def score(model: BoundModel, pairs: Sequence[Pair], start: int, *, threads: int | None = None) -> list[list[float]]:
    """Return the log-probability of every token of the targets; sources and targets have their END."""
    order, task, _alive = _describe(model, pairs, start, threads)
    gains = np.empty(sum(len(target) for _, target in pairs), np.float32)
    task.gains = address_of(gains)
    model.library.jk_force(ctypes.byref(model.encoder), ctypes.byref(model.decoder), ctypes.byref(task))
    results, begin = {}, 0
    for row in order:
        results[row] = gains[begin : (begin := begin + len(pairs[row][1]))].tolist()
    return [results[row] for row in range(len(pairs))]


def attend(
    model: BoundModel,
    pairs: Sequence[Pair],
    start: int,
    layer: int,
    head: int | None,
    *,
    threads: int | None = None,
) -> list[np.ndarray]:
    """Return the attention (heads, T, S) in a layer of targets over their sources; both have their END.

    It is that of one head, or of all heads of the layer.
    """
    order, task, _alive = _describe(model, pairs, start, threads)
    count = 1 if head is not None else int(model.decoder.heads)
    shapes = [(len(pairs[row][1]), count, len(pairs[row][0])) for row in order]
    begins = np.concatenate([[0], np.cumsum([t * h * s for t, h, s in shapes])]).astype(np.int64)
    weights = np.empty(int(begins[-1]), np.float32)
    task.layer, task.head = layer, -1 if head is None else head
    task.weights, task.weight_begins = address_of(weights), address_of(begins)
    model.library.jk_force(ctypes.byref(model.encoder), ctypes.byref(model.decoder), ctypes.byref(task))
    results = {
        row: weights[begins[place] : begins[place + 1]].reshape(shape).swapaxes(0, 1)
        for place, (row, shape) in enumerate(zip(order, shapes, strict=True))
    }
    return [results[row] for row in range(len(pairs))]


def _describe(
    model: BoundModel, pairs: Sequence[Pair], start: int, threads: int | None
) -> tuple[list[int], ForceTask, list[np.ndarray]]:
    """Return the order of the pairs, the task without what is asked for, and what must stay alive with it."""
    order = sorted(range(len(pairs)), key=lambda row: -len(pairs[row][1]))
    alive = []
    for side in (0, 1):
        parts = [pairs[row][side] for row in order]
        alive.append(np.fromiter((token for part in parts for token in part), np.int64))
        alive.append(np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64))
    addresses = map(address_of, alive)
    task = ForceTask(
        len(order), start, threads or cores(), 0, -1, *addresses, model.sources, model.targets, None, None, None
    )
    return order, task, alive
