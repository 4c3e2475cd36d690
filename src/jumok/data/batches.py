"""Batches of sentences of similar length, up to a budget of tokens, in an order that depends on seed and epoch only.

Sorting by both lengths leaves little padding; ties and the order of batches are random, with the key (seed, epoch).
The corpus is planned one window at a time, so that memory does not depend on its size.  A window consists of blocks
from the whole corpus (mixture.py), so that any run of consecutive batches is a fair mixture.

Shapes   B batch · S source · T target
"""

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from queue import Full, Queue
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from jumok.data.mixture import Mixture
from jumok.data.store import Store
from jumok.errors import DataError
from jumok.keys import generator, key
from jumok.text.vocabulary import END, PAD, SPECIALS, START, UNKNOWN, Vocabularies, Vocabulary

WINDOW = 1 << 20  # pairs that are sorted together
NUMBERED = 1 << 32  # batch numbers reserved for each window
COUNTED = 4  # most windows that are planned to estimate the number of batches in an epoch


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as tensors: sources end with END, targets begin with START, labels end with END.

    Segments of a text have no END: their labels are the targets shifted by one.
    """

    source: Tensor  # (B, S)
    target: Tensor  # (B, T)
    labels: Tensor  # (B, T)
    rows: Tensor  # (B,) row numbers in the store
    tokens: int  # number of labels that are not padding

    @property
    def padding(self) -> float:
        """Share of the grid (both sides) that is padding."""
        grid = self.source.numel() + self.labels.numel()
        return 1.0 - (int((self.source != PAD).sum()) + self.tokens) / grid

    def share(self, part: int, parts: int) -> "Batch":
        """The sentences of one worker: similar in length, so that it pads less, and an equal part of the work."""
        if parts == 1:
            return self
        lengths = torch.stack([(side != PAD).sum(dim=1) for side in (self.source, self.labels)]).numpy()
        order = np.lexsort(lengths[::-1])
        work = lengths[:, order].sum(axis=0)
        middle = work.cumsum() - work / 2  # of each sentence, in the cumulated work
        mine = order[(middle * parts // work.sum()) == part]
        wide, long = lengths[:, mine].max(axis=1, initial=0)
        source, target, labels, rows = (side[mine] for side in (self.source, self.target, self.labels, self.rows))
        return Batch(source[:, :wide], target[:, :long], labels[:, :long], rows, int(lengths[1, mine].sum()))

    def to(self, device: torch.device) -> "Batch":
        tensors = (self.source, self.target, self.labels, self.rows)
        source, target, labels, rows = (tensor.to(device, non_blocking=True) for tensor in tensors)
        return Batch(source, target, labels, rows, self.tokens)


class Position(NamedTuple):
    """The position of a run in its data: the next batch is number `batch` of epoch `epoch`."""

    epoch: int
    batch: int


def pad(
    sentences: Sequence[Sequence[int] | np.ndarray], *, before: int | None = None, after: int | None = None
) -> Tensor:
    """Sentences as one grid (B, longest), padded with PAD, with an id inserted before or after each."""
    extra = (before is not None) + (after is not None)
    first = 1 if before is not None else 0
    grid = np.full((len(sentences), max(map(len, sentences)) + extra), PAD, dtype=np.int64)
    for row, ids in zip(grid, sentences, strict=True):
        row[first : first + len(ids)] = ids
        if after is not None:
            row[first + len(ids)] = after
    if before is not None:
        grid[:, 0] = before
    return torch.from_numpy(grid)


def teacher_force(
    sources: Sequence[Sequence[int] | np.ndarray], targets: Sequence[Sequence[int] | np.ndarray], *, ends: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Sources, targets and labels for teacher forcing: grids (B, S), (B, T), (B, T)."""
    if ends:
        return pad(sources, after=END), pad(targets, before=START), pad(targets, after=END)
    return pad(sources, after=END), pad([ids[:-1] for ids in targets], before=START), pad(targets)


def hide(grid: Tensor, share: float, rng: np.random.Generator) -> Tensor:
    """Replace a share of the subwords by UNKNOWN, in place; special symbols stay.

    A model that cannot see every word has to use the others, so it cannot memorise whole sentences.
    """
    if share:
        hidden = rng.random(grid.shape, dtype=np.float32) < share
        grid[torch.from_numpy(hidden) & (grid >= SPECIALS)] = UNKNOWN
    return grid


def plan(source: np.ndarray, target: np.ndarray, *, tokens: int, rng: np.random.Generator) -> list[np.ndarray]:
    """The rows of each batch: similar in length, at most `tokens` padded tokens per side, in random order."""
    batches = plan_sorted(source, target, tokens=tokens, rng=rng)
    return [batches[i] for i in rng.permutation(len(batches))]


def plan_sorted(source: np.ndarray, target: np.ndarray, *, tokens: int, rng: np.random.Generator) -> list[np.ndarray]:
    """The rows of each batch, from short to long.

    Rows are sorted by target length, then by source length, alternately up and down, so that neighbours are close in
    both.
    """
    snake = np.where(target % 2 == 0, source, -source)
    order = np.lexsort((rng.random(len(source)), snake, target))
    lengths = np.maximum(source, target)[order] + 1
    batches, start = [], 0
    while start < len(order):
        stop = min(len(order), start + max(1, tokens // int(lengths[start])))
        longest = np.maximum.accumulate(lengths[start:stop])
        fits = longest * np.arange(1, stop - start + 1) <= tokens
        stop = start + max(1, int(fits.sum()) if fits.all() else int(np.argmin(fits)))
        batches.append(order[start:stop])
        start = stop
    return batches


@dataclass(frozen=True)
class Noise:
    """How the words of an epoch are varied, so that they are not memorised."""

    sampling: float = 0.0  # strength of subword sampling
    unknown: float = 0.0  # share of subwords that are replaced by UNKNOWN


def no_noise(epoch: int) -> Noise:
    """Words as they are, in every epoch."""
    return Noise()


class Batches:
    """All batches of a store, epoch after epoch; in training, `noise` varies the words of each epoch."""

    def __init__(
        self,
        store: Store,
        *,
        tokens: int,
        seed: int,
        vocabularies: Vocabularies | None = None,
        noise: Callable[[int], Noise] = no_noise,
        window: int = WINDOW,
        ends: bool = True,
        temperature: float | None = None,
    ) -> None:
        self.store, self.tokens, self.seed, self.temperature = store, tokens, seed, temperature
        self.vocabularies, self.noise, self.window, self.ends = vocabularies, noise, window, ends

    @classmethod
    def like(cls, other: "Batches", *, tokens: int | None = None) -> Self:
        """The same data with the same settings; `tokens` gives batches of another size."""
        return cls(
            other.store, tokens=tokens or other.tokens, seed=other.seed, vocabularies=other.vocabularies,
            noise=other.noise, window=other.window, ends=other.ends, temperature=other.temperature,
        )  # fmt: skip

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from number `start` on."""
        return (batch for _, batch in self.enumerate(epoch, start))

    def enumerate(self, epoch: int, start: int = 0) -> Iterator[tuple[int, Batch]]:
        """The batches of an epoch from number `start` on, each with the number of the next one."""
        if self.store.mixed:
            yield from self._enumerate_mixed(epoch, start)
            return
        windows = -(-len(self.store) // self.window)
        seen, noise = 0, self.noise(epoch)
        for number in generator(self.seed, "windows", epoch).permutation(windows):
            rows = self.window_plan(epoch, int(number))
            for index in range(max(0, start - seen), len(rows)):
                batch = self.read(rows[index], key(self.seed, "subwords", epoch, seen + index), noise)
                yield seen + index + 1, batch
            seen += len(rows)

    def _enumerate_mixed(self, epoch: int, start: int) -> Iterator[tuple[int, Batch]]:
        """The same for a mixed store, whose batch numbers include the window: a resumed run plans only its window."""
        noise, (first, index) = self.noise(epoch), divmod(start, NUMBERED)
        for number in range(first, self.mixture.windows):
            rows = self.window_plan(epoch, number)
            for offset in range(index, len(rows)):
                current = number * NUMBERED + offset
                following = current + 1 if offset + 1 < len(rows) else (number + 1) * NUMBERED
                yield following, self.read(rows[offset], key(self.seed, "subwords", epoch, current), noise)
            index = 0

    @cached_property
    def mixture(self) -> Mixture:
        """The rows of each window."""
        return Mixture(
            self.store.corpora, seed=self.seed, window=self.window, temperature=self.temperature,
            by_rows=self.store.by_rows,
        )  # fmt: skip

    def window_plan(self, epoch: int, number: int) -> list[np.ndarray]:
        """The rows of each batch of one window."""
        rng = generator(self.seed, "order", epoch, number)
        if not self.store.mixed:
            first, last = number * self.window, min(len(self.store), (number + 1) * self.window)
            source, target = self.store.source.lengths(first, last), self.store.target.lengths(first, last)
            return [rows + first for rows in plan(source, target, tokens=self.tokens, rng=rng)]
        blocks = self.mixture.blocks(epoch, number)
        sides = (self.store.source, self.store.target)
        source, target = (np.concatenate([side.lengths(*block) for block in blocks]) for side in sides)
        rows = np.concatenate([np.arange(*block) for block in blocks])
        if len(self.store.corpora) == 1:
            return [rows[batch] for batch in plan(source, target, tokens=self.tokens, rng=rng)]
        batches = [rows[batch] for batch in plan_sorted(source, target, tokens=self.tokens, rng=rng)]
        return [batches[index] for index in self.mixture.spread(batches, rng)]

    @cache  # noqa: B019 - one feed lives as long as its run
    def count(self, epoch: int) -> int:
        """The number of batches in an epoch, estimated from the first windows if there are many."""
        windows = self.mixture.windows if self.store.mixed else -(-len(self.store) // self.window)
        planned = min(windows, COUNTED) if self.store.mixed else windows
        batches = sum(len(self.window_plan(epoch, number)) for number in range(planned))
        return batches if planned == windows else round(batches * windows / planned)

    def walk(self, position: Position) -> Iterator[tuple[Position, Batch]]:
        """All batches from `position` on, without end, each with the position after it."""
        if not len(self.store):
            raise DataError("data.empty_store", folder=self.store.folder)
        epoch, index = position
        while True:
            for following, batch in self.enumerate(epoch, index):
                yield Position(epoch, following), batch
            epoch, index = epoch + 1, 0

    def read(self, rows: np.ndarray, draw: int, noise: Noise = Noise()) -> Batch:
        """These rows as one batch; `draw` is the key of all random choices that `noise` asks for."""
        rows = np.sort(rows)
        source = [self.store.source[row] for row in rows]
        target = [self.store.target[row] for row in rows]
        if noise.sampling and self.vocabularies is not None:
            source = _sample(self.vocabularies.source, source, noise.sampling, draw)
            target = _sample(self.vocabularies.target, target, noise.sampling, draw + 1)
        sources, targets, labels = teacher_force(source, target, ends=self.ends)
        return Batch(
            source=hide(sources, noise.unknown, generator(draw, "unknown", 0)),
            target=hide(targets, noise.unknown, generator(draw, "unknown", 1)),
            labels=labels,
            rows=torch.from_numpy(rows),
            tokens=sum(map(len, target)) + len(target) * self.ends,
        )


def _sample(vocabulary: Vocabulary, sentences: list[np.ndarray], strength: float, draw: int) -> list[np.ndarray]:
    sampled = vocabulary.sample([ids.tolist() for ids in sentences], strength=strength, key=draw)
    return [np.array(ids) for ids in sampled]


def prefetch(
    batches: Iterator[tuple[Position, Batch]], device: torch.device, *, depth: int = 4
) -> Generator[tuple[Position, Batch]]:
    """The same batches in the same order, prepared by a thread while the model computes.

    Closing the generator ends the thread: one that is still inside torch when Python exits would crash the process.
    """
    waiting: Queue[tuple[Position, Batch] | BaseException] = Queue(maxsize=depth)
    closed = threading.Event()

    def put(item: tuple[Position, Batch] | BaseException) -> None:
        while not closed.is_set():
            with suppress(Full):
                waiting.put(item, timeout=0.2)
                return

    def fill() -> None:
        try:
            for position, batch in batches:
                put((position, batch.to(device)))
                if closed.is_set():
                    return
        except BaseException as error:  # raised again by the consumer
            put(error)

    thread = threading.Thread(target=fill, daemon=True)
    thread.start()
    try:
        while True:
            item = waiting.get()
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        closed.set()
        thread.join()
