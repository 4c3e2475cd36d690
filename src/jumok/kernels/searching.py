"""The search that runs over a packed Transformer in one call of the kernels; no torch."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jumok.config.search import SearchOptions
from jumok.errors import UsageError
from jumok.kernels.layout import Stack
from jumok.kernels.library import DOUBLE, LONG, POINTER
from jumok.text.symbols import END, NEVER, START

if TYPE_CHECKING:
    from jumok.kernels.editing import Edit, EditList
    from jumok.kernels.ruling import Rules, SearchRules

GROUP = 48  # hypotheses that a core works on at once: GROUP_ROWS in search.c
ROWS = 96  # rows whose logits are computed at once: ROWS_AT_ONCE in transformer.h
AT_ONCE = 1 << 23  # most tokens of output in one call of the kernels
SMALL = 1 << 26  # bytes up to which a search does not check the free memory


class SearchTask(ctypes.Structure):
    """A search from sources to translations."""

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
        *((name, POINTER) for name in ("rules", "edits", "stops", "order", "live")),
        ("live_width", LONG),
        *((name, POINTER) for name in ("ids", "sizes", "gains", "totals")),
    ]


class Shortlist(NamedTuple):
    """The target tokens that a source token may turn into."""

    matrix: int  # address of the output matrix (V, D)
    same: bool  # whether a token may also turn into itself
    begins: np.ndarray  # where the tokens of each source token begin
    tokens: np.ndarray
    common: np.ndarray  # tokens that any source token may turn into


class BoundModel(NamedTuple):
    """A packed model, ready to search."""

    library: Any
    encoder: Stack
    decoder: Stack
    sources: int | None = None  # address of the position vectors of sources; None where there are none
    targets: int | None = None


RawHypothesis = tuple[tuple[int, ...], float, tuple[float, ...]]  # ids, log P, log-probability of each token


class Course(NamedTuple):
    """How a search runs."""

    threads: int | None = None  # None: as many as there are cores
    stops: Sequence[int] | None = None  # the address of a byte for each source: where it is not 0, it is given up
    live: np.ndarray | None = (
        None  # (sources, 1 + tokens) int64: after each step how many tokens are certain, and these
    )
    margin: float = inf  # hypotheses whose log P is lower than their sentence's best by more than this are given up
    edits: Sequence[Edit] = ()  # of the model that is searched

    def skip(self, sources: int) -> Course:
        """Return the course of what follows the first sources."""
        stops, live = self.stops, self.live
        return self._replace(
            stops=None if stops is None else stops[sources:], live=None if live is None else live[sources:]
        )


def search(
    model: BoundModel,
    sources: Sequence[Sequence[int]],
    limits: Sequence[int],
    options: SearchOptions,
    *,
    shortlist: Shortlist | None = None,
    rules: Rules | None = None,
    course: Course = Course(),
) -> list[list[RawHypothesis]]:
    """Return the n best translations of every source (with its END), in the order given; those of one source unsorted.

    Of the options it reads beam, length_penalty, n_best, exact, min_length and no_repeat.  A source that is given up
    has no translations.
    """
    size = max(1, AT_ONCE // (options.n_best * max(limits, default=1)))
    results: list[list[RawHypothesis]] = []
    for start in range(0, len(sources), size):
        part = slice(start, start + size)
        bound = None if rules is None else rules._replace(each=rules.each[part])
        results += _search_at_once(
            model, sources[part], limits[part], options, shortlist=shortlist, rules=bound, course=course.skip(start)
        )
    return results


def _search_at_once(
    model: BoundModel,
    sources: Sequence[Sequence[int]],
    limits: Sequence[int],
    options: SearchOptions,
    *,
    shortlist: Shortlist | None,
    rules: Rules | None,
    course: Course,
) -> list[list[RawHypothesis]]:
    """Search in one call of the kernels."""
    order = sorted(range(len(sources)), key=lambda row: -len(sources[row]))
    lengths, most = [len(sources[row]) for row in order], [limits[row] for row in order]
    slots = [options.beam + (rules.each[row].required if rules else 0) for row in order]
    threads = count_threads(model.decoder, lengths, most, slots, options.beam, at_most=course.threads)
    begins = np.zeros(len(order) + 1, np.int64)
    np.cumsum(lengths, out=begins[1:])
    tokens = np.fromiter((token for row in order for token in sources[row]), np.int64, int(begins[-1]))
    ends_at, banned, places = (np.array(numbers, np.int64) for numbers in (most, NEVER, order))
    shape = (len(order), options.n_best, max(most, default=1))
    ids, sizes = np.empty(shape, np.int64), np.zeros(shape[:2], np.int64)
    gains, totals = np.empty(shape, np.float32), np.zeros(shape[:2], np.float32)
    flags = None if course.stops is None else np.array([course.stops[row] for row in order], np.uint64)
    lists = shortlist or Shortlist(0, False, *(np.empty(0, np.int64),) * 3)
    packed, _alive = _pack_rules(rules, order, options)
    edits, _edits_alive = _pack_edits(model, course.edits)
    task = SearchTask(
        len(order), options.beam, options.n_best, shape[2], options.exact, START, END,
        *map(address_of, (tokens, begins, ends_at)), model.sources, model.targets, options.length_penalty,
        course.margin, address_of(banned), len(banned), lists.matrix or None, *map(address_of, lists[2:]),
        len(lists.common), lists.same, threads, None if packed is None else ctypes.addressof(packed),
        None if edits is None else ctypes.addressof(edits),
        None if flags is None else address_of(flags), address_of(places),
        *find_live(course.live, len(order)), *map(address_of, (ids, sizes, gains, totals)),
    )  # fmt: skip
    model.library.jk_search(ctypes.byref(model.encoder), ctypes.byref(model.decoder), ctypes.byref(task))
    results: list[list[RawHypothesis]] = [[] for _ in sources]
    for index, row in enumerate(order):
        for k, size in enumerate(sizes[index].tolist()):
            if size:
                output, each = ids[index, k, :size].tolist(), gains[index, k, :size].tolist()
                results[row].append((tuple(output), float(totals[index, k]), tuple(each)))
    return results


def _pack_rules(
    rules: Rules | None, order: Sequence[int], options: SearchOptions
) -> tuple[SearchRules | None, list[Any]]:
    """Return the rules in the order of the search, None where there are none, and what must stay alive with them."""
    if rules is None and not (options.min_length or options.no_repeat):
        return None, []
    from jumok.kernels.ruling import pack  # loads the automata of constraints

    return pack(rules, order, options)


def _pack_edits(model: BoundModel, edits: Sequence[Edit]) -> tuple[EditList | None, list[Any]]:
    """Return the edits of the model, None where there are none, and what must stay alive with them."""
    if not edits:
        return None, []
    from jumok.kernels.editing import pack

    return pack(model, edits)


def find_live(live: np.ndarray | None, sources: int) -> tuple[int | None, int]:
    """Return the address and the width of a buffer for live prefixes."""
    if live is None:
        return None, 0
    if live.dtype != np.int64 or live.ndim != 2 or len(live) < sources or not live.flags.c_contiguous:
        raise ValueError(f"a live buffer is a contiguous array of int64 ({sources}, 1 + tokens)")
    return address_of(live), live.shape[1]


def count_bytes(decoder: Stack, sentences: int, source: int, target: int, rows: int) -> int:
    """Return the memory that a core needs to search a group of sentences of at most these lengths with these rows."""
    width = decoder.heads * (decoder.d_k + decoder.d_v)
    caches = 4 * decoder.layers * width * (sentences * source + rows * target)
    past, logits = 36 * rows * target, 4 * min(rows, ROWS) * decoder.output.height  # past: tokens, origins, gains
    return int(caches + past + logits)


def count_threads(
    decoder: Stack,
    lengths: Sequence[int],
    limits: Sequence[int],
    slots: Sequence[int],
    beam: int,
    *,
    at_most: int | None = None,
) -> int:
    """Return how many groups may be searched at once so that they take at most half of the free memory.

    Sentences are in the order of the search; `slots` are the rows of each.  The number of threads changes no
    translation.  A group that does not fit by itself is refused, because the kernels exit the process when memory runs
    out.
    """
    each = max(1, GROUP // beam)
    parts = (slice(start, start + each) for start in range(0, len(lengths), each))
    sizes = [count_bytes(decoder, len(lengths[p]), max(lengths[p]), max(limits[p]), sum(slots[p])) for p in parts]
    if len(sizes) <= 1 and sum(sizes) <= SMALL:
        return 1  # as for most requests: neither cores nor memory matter
    from jumok import machine

    sizes = sorted(sizes, reverse=True)[: at_most or machine.cores()]
    if sum(sizes) <= SMALL:
        return len(sizes)
    budget = machine.available_memory() // 2
    if sizes[0] > budget:
        raise UsageError(
            "kernels.too_little_memory", beam=beam, subwords=max(limits), needed=sizes[0] / 1e9,
            available=budget / 1e9, smaller=4 if beam > 4 else 1,
        )  # fmt: skip
    return sum(total <= budget for total in accumulate(sizes))


def address_of(array: np.ndarray) -> int:
    """Return the address of an array."""
    return int(array.ctypes.data)
