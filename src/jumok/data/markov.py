"""Hidden Markov models of word alignment (Vogel et al. 1996), whose jumps depend on subwords; no torch.

The subwords of one sentence are observed, those of the other are the states: each observed subword comes from one
state, and the next one from a state some places further.

    P(observed, states) = Π P(o_j | s_{a_j}) · P(a_j - a_{j-1} | o_{j-1}, o_j)
    P(d | before, here)  ∝  P(d | before) · P(d | here) / P(d)

That the jump depends on the subwords that are observed, not only on its length, is what links words without a
translation of their own: the word after an article nearly always has the same translation as the article.

`train` continues from the table of IBM model 1 (lexicon.py) by expectation-maximisation; `find_posteriors` says from
which state each subword of a given pair comes.

Shapes   N pairs · J observed subwords · I states · D jumps, -FAR, …, FAR · C classes of observed subwords
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

FAR = 12  # longer jumps are as likely as jumps of this length
CLASSES = 250  # most subwords whose jumps are counted for each of them
OFTEN = 100  # how often such a subword occurs
USUAL = 10.0  # jumps of the usual kind that are added to those of each class
PRIOR = 0.5  # how often the table at the start is counted with each state
FLOOR = 1e-7  # added to every probability: a table does not list rare translations
PADDED = 4  # observed sentences are padded to multiples of this length, so that many have the same shape
CHUNK = 400_000  # most links that are computed at once
LARGEST = 4_000_000  # most transitions of a pair, above which `is_small` is false
ROUNDS = 6  # iterations of expectation-maximisation


@dataclass(frozen=True)
class Flat:
    """Concatenated sentences."""

    ids: np.ndarray
    lengths: np.ndarray

    @property
    def begins(self) -> np.ndarray:
        begins: np.ndarray = np.cumsum(self.lengths) - self.lengths
        return begins


@dataclass(frozen=True)
class Jumps:
    """How far the next subword's state is from the last one's, by subword."""

    own: np.ndarray  # (C - 1,) subwords with a class of their own, ascending; class 0 is that of all others
    before: np.ndarray  # (C, D) probability of a jump after a subword of a class
    here: np.ndarray  # (C, D) probability of a jump to the state of a subword of a class, over the usual one
    first: np.ndarray  # (C, FAR + 1) probability of the first state, by the class of the first subword

    def shrink(self) -> Jumps:
        """Return the jumps as they are written to a file."""
        own = self.own.astype(np.uint16 if self.own.max(initial=0) < 1 << 16 else np.uint32)
        return Jumps(own, *(each.astype(np.float16) for each in (self.before, self.here, self.first)))

    def find_classes(self, observed: np.ndarray) -> np.ndarray:
        """Return the classes of subwords, in an array of the same shape."""
        if not len(self.own):
            return np.zeros(observed.shape, np.int64)
        index = np.minimum(np.searchsorted(self.own, observed), len(self.own) - 1)
        classes: np.ndarray = np.where(self.own[index] == observed, index + 1, 0)
        return classes

    def begin(self, classes: np.ndarray, states: int) -> np.ndarray:
        """Return the probability (N, I) of each state for the first subword."""
        first = self.first[classes][:, np.minimum(np.arange(states), FAR)]
        normal: np.ndarray = first / first.sum(axis=1, keepdims=True)
        return normal

    def move(self, classes: np.ndarray, states: int) -> np.ndarray:
        """Return the weight (N, J - 1, 2 I - 1) of each jump between two subwords, from 1 - I to I - 1."""
        steps = self.before[classes[:, :-1]] * self.here[classes[:, 1:]]  # (N, J - 1, D)
        weights: np.ndarray = steps[:, :, np.clip(np.arange(1 - states, states), -FAR, FAR) + FAR]
        return weights


def check_jumps(arrays: dict[str, np.ndarray], size: int) -> Jumps:
    """Return the jumps in arrays that were read, for a vocabulary of this size; ValueError if they do not fit."""
    own = arrays["own"].astype(np.int64)
    before, here, first = (arrays[name].astype(np.float32) for name in ("before", "here", "first"))
    shapes = [(len(own) + 1, 2 * FAR + 1)] * 2 + [(len(own) + 1, FAR + 1)]
    if own.ndim != 1 or [each.shape for each in (before, here, first)] != shapes:
        raise ValueError("jumps have the wrong shape")
    ordered = (np.diff(own) > 0).all() and (own >= 0).all() and (own < size).all()
    if not ordered or not all((np.isfinite(each) & (each >= 0)).all() for each in (before, here, first)):
        raise ValueError("jumps are not those of this vocabulary")
    least = np.float32(1e-6)  # so that every state can be reached
    return Jumps(own, np.maximum(before, least), np.maximum(here, least), np.maximum(first, least))


def is_small(observed: int, states: int) -> bool:
    """Whether a pair is short enough to be aligned in milliseconds."""
    return observed * states * states <= LARGEST


def find_posteriors(emission: np.ndarray, observed: Sequence[int], jumps: Jumps) -> np.ndarray:
    """Return the probability (J, I) of each state for each observed subword; `emission` (J, I) may be of any scale."""
    classes = jumps.find_classes(np.asarray(observed, dtype=np.int64))[None]  # (1, J)
    first, weights = jumps.begin(classes[:, 0], emission.shape[1]), jumps.move(classes, emission.shape[1])
    scaled = emission / np.maximum(emission.max(axis=1, keepdims=True), 1e-30)
    posterior: np.ndarray = forward_backward(scaled[None] + 1e-9, first, weights)[0][0]
    return posterior


def forward_backward(
    emission: np.ndarray, first: np.ndarray, weights: np.ndarray, *, count: bool = False
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the posterior (N, J, I) of every state, and with `count` the expected jumps (N, J - 1, 2 I - 1).

    `first` (N, I) are the probabilities of the first state, `weights` (N, J - 1, 2 I - 1) those of jumps up to a
    factor: from each state they are divided by the sum over the states that exist.
    """
    _, length, states = emission.shape
    totals = _sum_windows(weights, states)  # (N, J - 1, I)
    reverse = np.ascontiguousarray(weights[:, :, ::-1])
    ahead = np.empty_like(emission)  # (N, J, I) probability of the state, given all subwords up to here
    scales = np.empty(emission.shape[:2], emission.dtype)
    current = first * emission[:, 0]
    for j in range(length):
        if j:
            current = np.einsum("ni,nwi->nw", ahead[:, j - 1] / totals[:, j - 1], _slide(reverse[:, j - 1], states))
            current = current[:, ::-1] * emission[:, j]
        scales[:, j] = np.maximum(current.sum(axis=1), 1e-30)
        ahead[:, j] = current / scales[:, j, None]
    posterior = ahead.copy()
    jumped = np.empty_like(weights) if count else None
    behind = np.ones_like(first)
    padding = np.zeros((len(first), states - 1), emission.dtype)
    for j in range(length - 1, 0, -1):
        coming = emission[:, j] * behind / scales[:, j, None]  # (N, I)
        behind = np.einsum("ni,nwi->nw", coming, _slide(weights[:, j - 1], states))[:, ::-1] / totals[:, j - 1]
        if jumped is not None:
            leaving = ahead[:, j - 1] / totals[:, j - 1]
            padded = np.concatenate([padding, coming, padding], axis=1)  # (N, 3 I - 2)
            jumped[:, j - 1] = np.einsum("ni,nwi->nw", leaving, _slide(padded, states)) * weights[:, j - 1]
        posterior[:, j - 1] *= behind
    posterior /= np.maximum(posterior.sum(axis=2, keepdims=True), 1e-30)
    return posterior, jumped


def _slide(values: np.ndarray, size: int) -> np.ndarray:
    """Return all windows (N, W, size) of rows (N, W + size - 1), without a copy."""
    return np.lib.stride_tricks.sliding_window_view(values, size, axis=-1)


def _sum_windows(weights: np.ndarray, states: int) -> np.ndarray:
    """Return for each state (…, I) the sum of the jumps that lead from it to a state."""
    sums = np.cumsum(np.pad(weights, [(0, 0)] * (weights.ndim - 1) + [(1, 0)]), axis=-1, dtype=np.float64)
    totals = sums[..., states:] - sums[..., :-states]  # (…, I), the last state first
    return np.maximum(totals[..., ::-1], 1e-30).astype(weights.dtype)


class Chunk(NamedTuple):
    """Pairs with as many states each; the observed sentences are padded."""

    links: np.ndarray  # (N, J, I) index into the table
    seen: np.ndarray  # (N, J) False where padded
    classes: np.ndarray  # (N, J)


class Trainer:
    """The pairs that a model is trained on, the probabilities of its table, and its jumps."""

    def __init__(self, observed: Flat, states: Flat, table: tuple[np.ndarray, np.ndarray], sizes: tuple[int, int]):
        """`table` is the result of `lexicon.model_1(states, observed, sizes)`."""
        self.pairs, self.start = table
        self.sizes, self.of = sizes, self.pairs // sizes[1]
        self.probability = self.start.astype(np.float32)
        counts = np.bincount(observed.ids, minlength=sizes[1])
        often = np.argsort(-counts, kind="stable")[:CLASSES]
        own = np.sort(often[counts[often] >= OFTEN])
        flat = np.ones((len(own) + 1, 2 * FAR + 1), np.float32)
        self.jumps = Jumps(own, flat / flat.shape[1], flat, np.ones((len(own) + 1, FAR + 1), np.float32))
        self.observed, self.states = observed, states
        self.chunks = list(self._divide(np.arange(len(observed.lengths))))

    def _divide(self, rows: np.ndarray) -> Iterator[Chunk]:
        """Yield the pairs in chunks of the same number of states and about the same length."""
        padded = -(-self.observed.lengths[rows] // PADDED) * PADDED
        states = self.states.lengths[rows]
        rows = rows[np.lexsort((padded, states))]
        shapes = np.stack([states, padded], axis=1)[np.lexsort((padded, states))]
        edges = np.flatnonzero((shapes[1:] != shapes[:-1]).any(axis=1)) + 1
        for some in np.split(np.arange(len(rows)), edges):
            size, length = (int(number) for number in shapes[some[0]]) if len(some) else (0, 0)
            if size and length:
                each = max(1, CHUNK // (size * length))
                for begin in range(0, len(some), each):
                    yield self._pack(rows[some[begin : begin + each]], length, size)

    def _pack(self, rows: np.ndarray, length: int, size: int) -> Chunk:
        places = self.observed.begins[rows][:, None] + np.arange(length)  # (N, J)
        seen = np.arange(length) < self.observed.lengths[rows][:, None]
        observed = np.where(seen, self.observed.ids[np.minimum(places, len(self.observed.ids) - 1)], 0)
        states = self.states.ids[self.states.begins[rows][:, None] + np.arange(size)]  # (N, I)
        codes = states[:, None, :] * self.sizes[1] + observed[:, :, None]  # (N, J, I)
        links = np.minimum(np.searchsorted(self.pairs, codes), len(self.pairs) - 1).astype(np.int32)
        return Chunk(links, seen, self.jumps.find_classes(observed))

    def run_round(self) -> None:
        """Do one iteration of expectation-maximisation."""
        expected = np.zeros(len(self.pairs))
        count = len(self.jumps.own) + 1
        before, here, first = np.zeros((count, 2 * FAR + 1)), np.zeros((count, 2 * FAR + 1)), np.zeros((count, FAR + 1))
        for links, seen, classes in self.chunks:
            states = links.shape[2]
            emission = self.probability[links] + np.float32(FLOOR)
            emission[~seen] = 1.0  # padding says nothing: all states are as likely as before
            weights = self.jumps.move(classes, states)
            posterior, jumped = forward_backward(emission, self.jumps.begin(classes[:, 0], states), weights, count=True)
            posterior *= seen[:, :, None]
            expected += np.bincount(links.ravel(), posterior.ravel(), minlength=len(expected))
            assert jumped is not None
            jumps = _clip(jumped * seen[:, 1:, None], states)  # (N, J - 1, D)
            _add(before, classes[:, :-1], jumps)
            _add(here, classes[:, 1:], jumps)
            begun = np.zeros((len(links), FAR + 1))
            begun[:, : min(states, FAR)] = posterior[:, 0, :FAR]
            begun[:, FAR] = posterior[:, 0, FAR:].sum(axis=1)
            _add(first, classes[:, 0], begun)
        totals = expected + PRIOR * self.start
        totals /= np.bincount(self.of, totals, minlength=self.sizes[0])[self.of]
        self.probability = totals.astype(np.float32)
        self.jumps = _estimate(self.jumps.own, before, here, first)


def _clip(jumped: np.ndarray, states: int) -> np.ndarray:
    """Return expected jumps (…, D), long ones added to those of length FAR."""
    bins = np.zeros((2 * states - 1, 2 * FAR + 1), np.float32)
    bins[np.arange(2 * states - 1), np.clip(np.arange(1 - states, states), -FAR, FAR) + FAR] = 1.0
    clipped: np.ndarray = jumped @ bins
    return clipped


def _add(table: np.ndarray, classes: np.ndarray, counts: np.ndarray) -> None:
    """Add counts (…, D) to the rows of a table (C, D) that their classes (…) name."""
    rows = classes.ravel()
    for column, values in enumerate(counts.reshape(len(rows), -1).T):
        table[:, column] += np.bincount(rows, values, minlength=len(table))


def _estimate(own: np.ndarray, before: np.ndarray, here: np.ndarray, first: np.ndarray) -> Jumps:
    """Return the jumps of counts; each class gets some of the usual ones, by which `here` is divided."""
    usual = before.sum(axis=0) + 0.1
    usual /= usual.sum()
    start = first.sum(axis=0) + 0.1
    start /= start.sum()
    before, here, first = before + USUAL * usual, here + USUAL * usual, first + USUAL * start
    before, here, first = (each / each.sum(axis=1, keepdims=True) for each in (before, here, first))
    return Jumps(own, *(each.astype(np.float32) for each in (before, here / usual, first)))


def train(
    observed: Flat, states: Flat, table: tuple[np.ndarray, np.ndarray], sizes: tuple[int, int]
) -> Generator[float, None, tuple[np.ndarray, Jumps]]:
    """Return the probabilities of a table after training, and the jumps.  Yields the share of the work that is done.

    `observed` and `states` are two sides of the same pairs; `table` is model 1's, whose links are
    state · V + observed subword.
    """
    trainer = Trainer(observed, states, table, sizes)
    for number in range(ROUNDS):
        yield number / ROUNDS
        trainer.run_round()
    return trainer.probability, trainer.jumps
