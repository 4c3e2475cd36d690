"""A packed Transformer and the search that runs over it in one call, as the kernels are told; no torch.

The structures are those of transformer.h and search.c.  Who packs the weights keeps what they point to alive.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from jumok import machine
from jumok.errors import UsageError

GROUP = 48  # rows that a core works on at once, as in search.c
ROWS = 96  # rows whose logits are computed at once, as in transformer.h
SMALL = 1 << 26  # bytes of a search that need no look at how much memory is free
POINTER, LONG, FLOAT, DOUBLE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_double


class Dense(ctypes.Structure):
    _fields_ = [("packed", POINTER), ("bias", POINTER), ("width", LONG), ("height", LONG)]


class Norming(ctypes.Structure):
    _fields_ = [("gain", POINTER), ("shift", POINTER)]


class Layer(ctypes.Structure):
    _fields_ = [
        *((name, Dense) for name in ("qkv", "own", "query", "remember", "other", "inner", "outer")),
        ("norms", Norming * 3),
        ("cache", POINTER),
        ("memory", POINTER),
    ]


class Stack(ctypes.Structure):
    _fields_ = [
        *((name, LONG) for name in ("layers", "d_model", "heads", "d_k", "d_v", "pre")),
        ("table", POINTER),
        ("turns", POINTER),
        ("last", Norming),
        ("output", Dense),
        ("each", ctypes.POINTER(Layer)),
        *((name, FLOAT) for name in ("factor", "scale", "eps")),
    ]


class Quest(ctypes.Structure):
    _fields_ = [
        *((name, LONG) for name in ("sentences", "beam", "best", "most", "exact", "start", "end")),
        *((name, POINTER) for name in ("tokens", "begins", "limits", "sources", "targets")),
        ("alpha", DOUBLE),
        ("margin", DOUBLE),
        ("never", POINTER),
        ("nevers", LONG),
        *((name, POINTER) for name in ("matrix", "list_begins", "list", "common")),
        ("commons", LONG),
        ("same", LONG),
        ("threads", LONG),
        *((name, POINTER) for name in ("ids", "sizes", "gains", "totals")),
    ]


class Shortlist(NamedTuple):
    """Tokens that each source token may turn into, those that any may, and whether it may turn into itself."""

    matrix: int  # where the output matrix (V, D) lies
    same: bool
    begins: np.ndarray
    tokens: np.ndarray
    common: np.ndarray


@dataclass(frozen=True)
class Search:
    """How to search: the arguments of decoding.search.beam."""

    beam: int
    alpha: float
    best: int = 1
    exact: bool = False
    margin: float = float("inf")  # hypotheses so much less likely than their sentence's best are given up


Found = tuple[tuple[int, ...], float, tuple[float, ...]]  # ids, log P, log-probability of each token


def search(
    library: Any,
    encoder: Stack,
    decoder: Stack,
    sources: Sequence[Sequence[int]],
    limits: Sequence[int],
    how: Search,
    *,
    ends: tuple[int, int],
    never: Sequence[int],
    positions: tuple[int | None, int | None] = (None, None),
    shortlist: Shortlist | None = None,
) -> list[list[Found]]:
    """The best translations of every source (with its END), in the order given; no order among those of one source.

    `ends` are the first and the last token, `positions` where the vectors of each side lie, None where there are none.
    """
    order = sorted(range(len(sources)), key=lambda row: -len(sources[row]))
    lengths = [len(sources[row]) for row in order]
    threads = fitting_threads(decoder, lengths, [limits[row] for row in order], how.beam)
    begins = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    tokens = np.fromiter((token for row in order for token in sources[row]), np.int64, int(begins[-1]))
    ends_at, banned = np.array([limits[row] for row in order], np.int64), np.array(list(never), np.int64)
    shape = (len(order), how.best, int(ends_at.max(initial=1)))
    ids, sizes = np.empty(shape, np.int64), np.zeros(shape[:2], np.int64)
    gains, totals = np.empty(shape, np.float32), np.zeros(shape[:2], np.float32)
    lists = shortlist or Shortlist(0, False, *(np.empty(0, np.int64),) * 3)
    quest = Quest(
        len(order), how.beam, how.best, shape[2], how.exact, *ends, *map(at, (tokens, begins, ends_at)), *positions,
        how.alpha, how.margin, at(banned), len(banned), lists.matrix or None, *map(at, lists[2:]), len(lists.common),
        lists.same, threads,
        *map(at, (ids, sizes, gains, totals)),
    )  # fmt: skip
    library.search_run(ctypes.byref(encoder), ctypes.byref(decoder), ctypes.byref(quest))
    found: list[list[Found]] = [[] for _ in sources]
    for place, row in enumerate(order):
        for k, size in enumerate(sizes[place].tolist()):
            if size:
                said, each = ids[place, k, :size].tolist(), gains[place, k, :size].tolist()
                found[row].append((tuple(said), float(totals[place, k]), tuple(each)))
    return found


def group_bytes(decoder: Stack, sentences: int, source: int, target: int, beam: int) -> int:
    """Memory that a core takes to search a group of sentences with at most so many source and target tokens."""
    rows, width = sentences * beam, decoder.heads * (decoder.d_k + decoder.d_v)
    caches = 4 * decoder.layers * width * (sentences * source + rows * target)
    past, logits = 36 * rows * target, 4 * min(rows, ROWS) * decoder.output.height  # past: tokens, origins, gains
    return caches + past + logits


def fitting_threads(decoder: Stack, lengths: Sequence[int], limits: Sequence[int], beam: int) -> int:
    """How many groups may be searched at once so that they take at most half of the free memory.

    Sentences are in the order of the search.  Fewer threads change no translation; a group that does not fit by itself
    is refused, because the kernels take the memory they need without asking.
    """
    each = max(1, GROUP // beam)
    starts = range(0, len(lengths), each)
    parts = [(lengths[start : start + each], limits[start : start + each]) for start in starts]
    sizes = sorted((group_bytes(decoder, len(a), max(a), max(b), beam) for a, b in parts), reverse=True)
    sizes = sizes[: machine.cores()]
    if sum(sizes) <= SMALL:
        return max(1, len(sizes))
    budget = machine.available_memory() // 2
    if sizes[0] > budget:
        raise UsageError(
            f"a beam of {beam} over {max(limits):,} subwords takes {sizes[0] / 1e9:,.1f} GB, and "
            f"{budget / 1e9:,.1f} GB may be used",
            where="in --beam",
            hint=f"try: --beam {4 if beam > 4 else 1}, or shorter sentences",
        )
    return sum(total <= budget for total in accumulate(sizes))


def at(array: np.ndarray) -> int:
    """Where an array lies."""
    return int(array.ctypes.data)
