"""A packed Transformer and the search that runs over it in one call, as the kernels are told; no torch.

The structures are those of transformer.h and search.c.  Who packs the weights keeps what they point to alive.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from jumok.errors import UsageError

GROUP = 48  # rows that a core works on at once, as in search.c
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
    _check_room(decoder, max(map(len, sources), default=0), max(limits, default=0), how.beam)
    order = sorted(range(len(sources)), key=lambda row: -len(sources[row]))
    lengths = [len(sources[row]) for row in order]
    begins = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    tokens = np.fromiter((token for row in order for token in sources[row]), np.int64, int(begins[-1]))
    longest, banned = np.array([limits[row] for row in order], np.int64), np.array(list(never), np.int64)
    shape = (len(order), how.best, int(longest.max(initial=1)))
    ids, sizes = np.empty(shape, np.int64), np.zeros(shape[:2], np.int64)
    gains, totals = np.empty(shape, np.float32), np.zeros(shape[:2], np.float32)
    lists = shortlist or Shortlist(0, False, *(np.empty(0, np.int64),) * 3)
    quest = Quest(
        len(order), how.beam, how.best, shape[2], how.exact, *ends, *map(at, (tokens, begins, longest)), *positions,
        how.alpha, how.margin, at(banned), len(banned), lists.matrix or None, *map(at, lists[2:]), len(lists.common),
        lists.same,
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


def _check_room(decoder: Stack, source: int, target: int, beam: int) -> None:
    """Refuse a search that would take more than half the memory there is; the kernels take what they need unasked."""
    rows, width = max(GROUP, beam), decoder.heads * (decoder.d_k + decoder.d_v)
    needed = 4 * rows * (source + target) * width * decoder.layers + 24 * rows * target
    if needed > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2:
        what = f"a beam of {beam} over {target:,} subwords takes {needed / 1e9:,.0f} GB"
        raise UsageError(what, where="in --beam", hint="try: --beam 4")


def at(array: np.ndarray) -> int:
    """Where an array lies."""
    return int(array.ctypes.data)
