"""Shortlists: the target subwords that a source subword may become, learned from the training text; no torch.

IBM model 1 (Brown et al. 1993): every target subword of a pair comes from one of its source subwords or from nothing,
and expectation-maximisation estimates from which.  The likely translations of the subwords of a sentence, with the
subwords that are frequent everywhere, are the shortlist from which an engine chooses instead of the whole vocabulary.

For aligning words (evaluation/linking.py), hidden Markov models continue from model 1, one in each direction
(markov.py): their probabilities and jumps are kept beside the shortlist.

Shapes   L links (a target subword and a source subword of the same pair) · U different links · P target positions
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from jumok.data.markov import Flat, Jumps, check_jumps, train
from jumok.data.store import Store, StoredSide
from jumok.errors import ModelFileError
from jumok.storage.bundle import SHORTLIST, Bundle, check_header
from jumok.text.vocabulary import END, SPECIALS

LINKS = 12_000_000  # most links that are held; of a larger text, a sample of its pairs is used
ALIGNING = 6_000_000  # most links from which the models that align words are learned; they need no rare subwords
SHARES = (0.5, 0.7, 0.8)  # share of the work that is done when each further model begins
SUMMED = 1 << 20  # pairs whose lengths are added up at a time
ROUNDS = 5  # iterations of expectation-maximisation
EARLY = 3  # iterations after which a hidden Markov model continues: later tables are too certain to be corrected
NOTHING = 0  # PAD stands for "no source subword"
FILE = SHORTLIST
Result = TypeVar("Result")
DIRECTIONS = ("jumps.forward", "jumps.backward")  # of a target's subwords, and of a source's


@dataclass(frozen=True)
class Table:
    """The likely translations of each subword and their probabilities."""

    begins: np.ndarray  # (V + 1,) index of the first translation of each subword
    others: np.ndarray  # the translations of all subwords
    chances: np.ndarray  # the probability of each

    @cached_property
    def _ordered(self) -> tuple[np.ndarray, np.ndarray, int]:
        """Both subwords of each entry as one number, in ascending order, their probabilities, and the factor."""
        factor = int(self.others.max(initial=0)) + 1
        codes = self.codes(factor)
        order = np.argsort(codes)
        return codes[order], self.chances[order].astype(np.float64), factor

    def codes(self, factor: int) -> np.ndarray:
        """Return both subwords of each entry as one number, the first times a factor and the second."""
        begins = self.begins.astype(np.int64)
        of = np.repeat(np.arange(len(begins) - 1, dtype=np.int64), begins[1:] - begins[:-1])
        codes: np.ndarray = of * factor + self.others
        return codes

    def find(self, given: Sequence[int], other: Sequence[int]) -> np.ndarray:
        """Return the probability (O, G) of each subword in `other` as a translation of each in `given`; 0 if rare."""
        codes, chances, factor = self._ordered
        others = np.asarray(other, dtype=np.int64)[:, None]  # (O, 1)
        wanted = np.asarray(given, dtype=np.int64)[None, :] * factor + others  # (O, G)
        if not len(codes):
            return np.zeros(wanted.shape)
        index = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)  # (O, G)
        return np.where((codes[index] == wanted) & (others < factor), chances[index], 0.0)


@dataclass(frozen=True)
class Lexicon:
    """Target subwords by source subword, likeliest first, and those that are frequent everywhere."""

    begins: np.ndarray  # (V + 1,) index of the first target of each source subword
    targets: np.ndarray
    common: np.ndarray
    chances: np.ndarray | None = None  # probability of each target; a file of an earlier version has none
    backward: Table | None = None  # source subwords by target subword
    jumps: tuple[Jumps, Jumps] | None = None  # of targets and of sources; an earlier version has none

    @cached_property
    def tables(self) -> tuple[Table, Table] | None:
        """The probabilities of targets given a source and of sources given a target; None if they were not kept."""
        if self.chances is None or self.backward is None:
            return None
        return Table(self.begins, self.targets, self.chances), self.backward

    def of(self, source: int) -> list[int]:
        """The target subwords that a source subword may become."""
        targets: list[int] = self.targets[self.begins[source] : self.begins[source + 1]].tolist()
        return targets

    def to_bytes(self) -> bytes:
        arrays = {"begins": self.begins, "targets": self.targets, "common": self.common}
        if self.chances is not None and self.backward is not None:
            back = self.backward
            arrays |= {"chances": self.chances, "backward.begins": back.begins, "backward.sources": back.others}
            arrays["backward.chances"] = back.chances
        for name, jumps in zip(DIRECTIONS, self.jumps or (), strict=False):
            arrays |= {f"{name}.{field}": array for field, array in vars(jumps).items()}
        return save(arrays)

    @classmethod
    def from_bytes(cls, content: bytes, sizes: tuple[int, int], *, file: str | Path = FILE) -> Lexicon:
        """The lexicon that `to_bytes` wrote, for vocabularies of these sizes; `file` is named in errors."""
        try:
            arrays = load(content)
            begins, targets, common = (arrays[name].astype(np.int64) for name in ("begins", "targets", "common"))
        except (SafetensorError, KeyError, ValueError, TypeError) as error:
            raise ModelFileError("data.not_a_shortlist", reason=error, file=file) from None
        if not _fits(begins, targets, sizes) or ((common < 0) | (common >= sizes[1])).any():
            raise ModelFileError("data.shortlist_of_another_vocabulary", file=file)
        if "chances" not in arrays:
            return cls(begins, targets, common)
        try:
            chances, back_chances = (arrays[name].astype(np.float32) for name in ("chances", "backward.chances"))
            back_begins, sources = (arrays[f"backward.{name}"].astype(np.int64) for name in ("begins", "sources"))
        except (KeyError, ValueError, TypeError) as error:
            raise ModelFileError("data.not_a_shortlist", reason=error, file=file) from None
        whole = chances.shape == targets.shape and back_chances.shape == sources.shape
        both = np.concatenate([chances.ravel(), back_chances.ravel()])
        if not whole or not _fits(back_begins, sources, sizes[::-1]) or not ((both >= 0.0) & (both <= 1.0)).all():
            raise ModelFileError("data.shortlist_of_another_vocabulary", file=file)
        backward = Table(back_begins, sources, back_chances)
        return cls(begins, targets, common, chances, backward, _read_jumps(arrays, sizes, file))


def _read_jumps(arrays: dict[str, np.ndarray], sizes: tuple[int, int], file: str | Path) -> tuple[Jumps, Jumps] | None:
    """Return the jumps of both directions; None in a file of an earlier version."""
    if f"{DIRECTIONS[0]}.own" not in arrays:
        return None
    try:
        forward, backward = (
            check_jumps({field: arrays[f"{name}.{field}"] for field in Jumps.__dataclass_fields__}, size)
            for name, size in zip(DIRECTIONS, sizes[::-1], strict=True)
        )
    except (KeyError, ValueError, TypeError) as error:
        raise ModelFileError("data.not_a_shortlist", reason=error, file=file) from None
    return forward, backward


def _fits(begins: np.ndarray, others: np.ndarray, sizes: tuple[int, int]) -> bool:
    """Return whether a table lists subwords of the second vocabulary for each of the first."""
    complete = begins.shape == (sizes[0] + 1,) and begins[0] == 0 and begins[-1] == len(others)
    inside = (others >= 0) & (others < sizes[1])
    return bool(complete and (np.diff(begins) >= 0).all() and inside.all())


def learn(
    store: Store,
    sizes: tuple[int, int],
    *,
    each: int = 100,
    common: int = 1_000,
    least: float = 1e-3,
) -> Generator[float, None, Lexicon]:
    """The lexicon of a store: for every source subword its `each` likeliest targets of probability `least` or more.

    Yields the share of the work that is done before each round.
    """
    rows = sample(store)
    source, target = (flatten(side, rows) for side in (store.source, store.target))
    frequent = np.bincount(target.ids, minlength=sizes[1])
    likely = yield from _within(0.0, SHARES[0], model_1(source, target, sizes))
    forward = _list_likely(likely.pairs, likely.probability, sizes, each=each, least=least)
    rows = sample(store, most=ALIGNING)
    source, target = (flatten(side, rows) for side in (store.source, store.target))
    chances, onto_target = yield from _within(*SHARES[:2], train(target, source, likely.start, sizes))
    chances = chances[np.searchsorted(likely.pairs, forward.codes(sizes[1]))]
    likely = yield from _within(*SHARES[1:], model_1(target, source, sizes[::-1]))
    backward, onto_source = yield from _within(SHARES[2], 1.0, train(source, target, likely.start, sizes[::-1]))
    most = np.argsort(-frequent, kind="stable")[:common]
    most = most[(frequent[most] > 0) & (most >= SPECIALS)]
    return Lexicon(
        forward.begins,
        forward.others,
        np.append(most, END).astype(forward.others.dtype),
        chances.astype(np.float16),
        _list_likely(likely.pairs, backward, sizes[::-1], each=each, least=least),
        (onto_target.shrink(), onto_source.shrink()),
    )


def _within(first: float, last: float, work: Generator[float, None, Result]) -> Generator[float, None, Result]:
    """Do a part of the work; yields the share of the whole that is done."""
    while True:
        try:
            yield first + (last - first) * next(work)
        except StopIteration as end:
            result: Result = end.value
            return result


def _list_likely(
    pairs: np.ndarray, probability: np.ndarray, sizes: tuple[int, int], *, each: int, least: float
) -> Table:
    """Return the likeliest translations of each subword."""
    of, to = pairs // sizes[1], pairs % sizes[1]
    order = np.lexsort((-probability, of))
    of, to, probability = of[order], to[order], probability[order]
    rank = np.arange(len(of)) - np.searchsorted(of, of)  # of each translation among those of its subword
    listed = (rank < each) & (probability >= least) & (of != NOTHING)
    begins = np.searchsorted(of[listed], np.arange(sizes[0] + 1))
    small = np.uint16 if max(sizes) <= 1 << 16 else np.uint32
    return Table(begins.astype(np.uint32), to[listed].astype(small), probability[listed].astype(np.float16))


class Likely(NamedTuple):
    """The table of model 1."""

    pairs: np.ndarray  # (U,) different links as source · V + target
    probability: np.ndarray  # (U,) of the target given the source
    early: np.ndarray  # (U,) the same after few iterations

    @property
    def start(self) -> tuple[np.ndarray, np.ndarray]:
        """The table from which a hidden Markov model continues."""
        return self.pairs, self.early


def sample(store: Store, *, most: int | None = None) -> np.ndarray:
    """Evenly spaced rows of the store, few enough that they have at most `most` links, by default `LINKS`."""
    every = -(-count_links(store) // (LINKS if most is None else most))
    return np.arange(0, len(store), every)


def count_links(store: Store) -> int:
    """The number of links of all pairs of a store."""
    links = 0
    for start in range(0, len(store), SUMMED):
        stop = min(len(store), start + SUMMED)
        source, target = (side.lengths(start, stop) for side in (store.source, store.target))
        links += int(((source + 1) * target).sum())
    return links


def flatten(side: StoredSide, rows: np.ndarray) -> Flat:
    sentences = [np.asarray(side[int(row)], dtype=np.int64) for row in rows]
    return Flat(np.concatenate(sentences), np.array([len(ids) for ids in sentences]))


def model_1(
    source: Flat,
    target: Flat,
    sizes: tuple[int, int],
    *,
    rounds: int = ROUNDS,
) -> Generator[float, None, Likely]:
    """The different links and their probabilities.

    Yields the share of the rounds that are done.
    """
    choices = source.lengths + 1  # NOTHING is one of them
    with_nothing = np.insert(source.ids, source.begins, NOTHING)
    sentence = np.repeat(np.arange(len(target.lengths)), target.lengths)  # (P,)
    each = choices[sentence]  # (P,) links of each target position
    position = np.repeat(np.arange(len(target.ids), dtype=np.int32), each)  # (L,)
    shift = (np.cumsum(choices) - choices)[sentence] - (
        np.cumsum(each) - each
    )  # (P,) from a link to its source subword
    index = np.arange(len(position), dtype=np.int32)  # (L,)
    index += shift.astype(np.int32)[position]
    small = np.dtype(np.uint32 if sizes[0] * sizes[1] < 1 << 32 else np.uint64)
    code = with_nothing.astype(small)[index]  # (L,)
    del index
    code *= small.type(sizes[1])
    code += target.ids.astype(small)[position]
    pairs, link = _number(code)  # (U,), (L,)
    del code
    of = pairs // sizes[1]
    probability = early = np.ones(len(pairs))
    for number in range(rounds):
        yield number / rounds
        weight = probability[link]
        weight /= np.bincount(position, weight, minlength=len(target.ids))[position]
        expected = np.bincount(link, weight, minlength=len(pairs))  # (U,)
        probability = expected / np.bincount(of, expected, minlength=sizes[0])[of]
        early = probability if number < EARLY else early
    return Likely(pairs, probability, early)


def _number(code: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different values, and for each element the number of its value; `np.unique` in a third of the memory."""
    order = np.argsort(code, kind="stable").astype(np.int32)
    ordered = code[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    different = ordered[first].astype(np.int64)
    del ordered
    number = np.empty(len(code), np.int32)
    number[order] = np.cumsum(first, dtype=np.int32) - 1
    return different, number


def load_shortlist(bundle: Bundle) -> Lexicon | None:
    """The shortlist of a model, if it has one."""
    path = bundle.folder / FILE
    if not path.is_file():
        return None
    try:
        check_header(path)
        return Lexicon.from_bytes(path.read_bytes(), bundle.sizes, file=path)
    except OSError as error:
        raise ModelFileError("data.cannot_read_shortlist", reason=error.strerror, file=path) from None
