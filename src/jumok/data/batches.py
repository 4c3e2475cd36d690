"""Batches of sentences of like length, up to a budget of tokens; which batch comes when is a pure function.

Sorting by both lengths leaves little padding; the order of equals and of batches is drawn anew every epoch from
the key (seed, epoch).  The corpus is walked in windows, so that neither the plan nor the disk has to hold it whole.  A
window is made of blocks from everywhere (mixture.py), so that every stretch of training is a fair mixture.

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
NUMBERED = 1 << 32  # numbers of batches that belong to a window
COUNTED = 4  # windows that are planned to tell how many batches an epoch has


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as tensors: sources end with END, targets begin with START, labels end with END.

    Stretches of a text do not end: there the labels are what the target has, one ahead, and no END.
    """

    source: Tensor  # (B, S)
    target: Tensor  # (B, T)
    labels: Tensor  # (B, T)
    rows: Tensor  # (B,) places in the store
    tokens: int  # labels that are not padding

    @property
    def padding(self) -> float:
        """Share of the grid (both sides) that is padding."""
        grid = self.source.numel() + self.labels.numel()
        return 1.0 - (int((self.source != PAD).sum()) + self.tokens) / grid

    def share(self, part: int, parts: int) -> "Batch":
        """The sentences of one worker: neighbours in length, so that it pads less than the whole, and as much work."""
        if parts == 1:
            return self
        lengths = torch.stack([(side != PAD).sum(dim=1) for side in (self.source, self.labels)]).numpy()
        order = np.lexsort(lengths[::-1])
        work = lengths[:, order].sum(axis=0)
        middle = work.cumsum() - work / 2  # of each sentence, on the way through all of the work
        mine = order[(middle * parts // work.sum()) == part]
        wide, long = lengths[:, mine].max(axis=1, initial=0)
        source, target, labels, rows = (side[mine] for side in (self.source, self.target, self.labels, self.rows))
        return Batch(source[:, :wide], target[:, :long], labels[:, :long], rows, int(lengths[1, mine].sum()))

    def to(self, device: torch.device) -> "Batch":
        tensors = (self.source, self.target, self.labels, self.rows)
        source, target, labels, rows = (tensor.to(device, non_blocking=True) for tensor in tensors)
        return Batch(source, target, labels, rows, self.tokens)


class Place(NamedTuple):
    """Where a run stands in its data: the next batch is number `batch` of epoch `epoch`."""

    epoch: int
    batch: int


def pad(
    sentences: Sequence[Sequence[int] | np.ndarray], *, before: int | None = None, after: int | None = None
) -> Tensor:
    """Sentences as one grid (B, longest), PAD at the end, with an id put before or after each."""
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


def forced(
    sources: Sequence[Sequence[int] | np.ndarray], targets: Sequence[Sequence[int] | np.ndarray], *, ends: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Sources, targets and labels as a model is taught: grids (B, S), (B, T), (B, T)."""
    if ends:
        return pad(sources, after=END), pad(targets, before=START), pad(targets, after=END)
    return pad(sources, after=END), pad([ids[:-1] for ids in targets], before=START), pad(targets)


def hide(grid: Tensor, share: float, rng: np.random.Generator) -> Tensor:
    """Put UNKNOWN in the place of a share of the words, in place; symbols that are no words stay.

    A model that cannot see every word has to use the others, and cannot learn whole sentences by heart.
    """
    if share:
        hidden = rng.random(grid.shape, dtype=np.float32) < share
        grid[torch.from_numpy(hidden) & (grid >= SPECIALS)] = UNKNOWN
    return grid


def plan(source: np.ndarray, target: np.ndarray, *, tokens: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Rows of each batch: neighbours in length, at most `tokens` padded tokens a side, in random order."""
    batches = sorted_batches(source, target, tokens=tokens, rng=rng)
    return [batches[i] for i in rng.permutation(len(batches))]


def sorted_batches(
    source: np.ndarray, target: np.ndarray, *, tokens: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """The same from short to long: by target length, then by source length to and fro, so that neighbours are close in
    both."""
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
    """What is done to the words of a pass, so that they are not learnt by heart."""

    sampling: float = 0.0  # how freely they are cut into subwords
    unknown: float = 0.0  # the share of subwords that is hidden


def silence(epoch: int) -> Noise:
    """Words as they are, in whatever epoch."""
    return Noise()


class Batches:
    """All batches of a store, epoch after epoch; training may cut the words differently each time, and hide some."""

    def __init__(
        self,
        store: Store,
        *,
        tokens: int,
        seed: int,
        vocabularies: Vocabularies | None = None,
        noise: Callable[[int], Noise] = silence,
        window: int = WINDOW,
        ends: bool = True,
        temperature: float | None = None,
    ) -> None:
        self.store, self.tokens, self.seed, self.temperature = store, tokens, seed, temperature
        self.vocabularies, self.noise, self.window, self.ends = vocabularies, noise, window, ends

    @classmethod
    def like(cls, other: "Batches", *, tokens: int | None = None) -> Self:
        """The same data under the same settings, batches of another size where `tokens` says so."""
        return cls(
            other.store, tokens=tokens or other.tokens, seed=other.seed, vocabularies=other.vocabularies,
            noise=other.noise, window=other.window, ends=other.ends, temperature=other.temperature,
        )  # fmt: skip

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Batches of an epoch from number `start` on."""
        return (batch for _, batch in self.numbered(epoch, start))

    def numbered(self, epoch: int, start: int = 0) -> Iterator[tuple[int, Batch]]:
        """The same, each with the number of the next."""
        if self.store.mixed:
            yield from self._mixed_epoch(epoch, start)
            return
        windows = -(-len(self.store) // self.window)
        seen, noise = 0, self.noise(epoch)
        for number in generator(self.seed, "windows", epoch).permutation(windows):
            rows = self.window_plan(epoch, int(number))
            for index in range(max(0, start - seen), len(rows)):
                batch = self.read(rows[index], key(self.seed, "subwords", epoch, seen + index), noise)
                yield seen + index + 1, batch
            seen += len(rows)

    def _mixed_epoch(self, epoch: int, start: int) -> Iterator[tuple[int, Batch]]:
        """The same where a number tells the window, too, so that a resumed run plans no window but its own."""
        noise, (first, index) = self.noise(epoch), divmod(start, NUMBERED)
        for number in range(first, self.mixture.windows):
            rows = self.window_plan(epoch, number)
            for place in range(index, len(rows)):
                drawn = number * NUMBERED + place
                following = drawn + 1 if place + 1 < len(rows) else (number + 1) * NUMBERED
                yield following, self.read(rows[place], key(self.seed, "subwords", epoch, drawn), noise)
            index = 0

    @cached_property
    def mixture(self) -> Mixture:
        """Which rows are in which window."""
        return Mixture(self.store.corpora, seed=self.seed, window=self.window, temperature=self.temperature)

    def window_plan(self, epoch: int, number: int) -> list[np.ndarray]:
        """Rows of each batch of one window."""
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
        batches = [rows[batch] for batch in sorted_batches(source, target, tokens=self.tokens, rng=rng)]
        return [batches[index] for index in self.mixture.spread(batches, rng)]

    @cache  # noqa: B019 - one feed lives as long as its run
    def count(self, epoch: int) -> int:
        """Batches in an epoch; from a few windows where there are many."""
        windows = self.mixture.windows if self.store.mixed else -(-len(self.store) // self.window)
        looked = min(windows, COUNTED) if self.store.mixed else windows
        found = sum(len(self.window_plan(epoch, number)) for number in range(looked))
        return found if looked == windows else round(found * windows / looked)

    def walk(self, place: Place) -> Iterator[tuple[Place, Batch]]:
        """Every batch from `place` on, for ever, each with the place after it."""
        if not len(self.store):
            raise DataError("there is no sentence pair to train on", where=f"in {self.store.folder}")
        epoch, index = place
        while True:
            for following, batch in self.numbered(epoch, index):
                yield Place(epoch, following), batch
            epoch, index = epoch + 1, 0

    def read(self, rows: np.ndarray, draw: int, noise: Noise = Noise()) -> Batch:
        """These rows as one batch; how words are cut and which of them are hidden is drawn by `draw`."""
        rows = np.sort(rows)
        source = [self.store.source[row] for row in rows]
        target = [self.store.target[row] for row in rows]
        if noise.sampling and self.vocabularies is not None:
            source = _sampled(self.vocabularies.source, source, noise.sampling, draw)
            target = _sampled(self.vocabularies.target, target, noise.sampling, draw + 1)
        read, said, labels = forced(source, target, ends=self.ends)
        return Batch(
            source=hide(read, noise.unknown, generator(draw, "unknown", 0)),
            target=hide(said, noise.unknown, generator(draw, "unknown", 1)),
            labels=labels,
            rows=torch.from_numpy(rows),
            tokens=sum(map(len, target)) + len(target) * self.ends,
        )


def _sampled(vocabulary: Vocabulary, sentences: list[np.ndarray], strength: float, draw: int) -> list[np.ndarray]:
    drawn = vocabulary.sample([ids.tolist() for ids in sentences], strength=strength, key=draw)
    return [np.array(ids) for ids in drawn]


def ahead(
    batches: Iterator[tuple[Place, Batch]], device: torch.device, *, depth: int = 4
) -> Generator[tuple[Place, Batch]]:
    """The same batches in the same order, made by a thread while the model works; close it and the thread has ended.

    A thread that is still inside torch when Python ends takes the process down with it.
    """
    waiting: Queue[tuple[Place, Batch] | BaseException] = Queue(maxsize=depth)
    over = threading.Event()

    def give(item: tuple[Place, Batch] | BaseException) -> None:
        while not over.is_set():
            with suppress(Full):
                waiting.put(item, timeout=0.2)
                return

    def fill() -> None:
        try:
            for place, batch in batches:
                give((place, batch.to(device)))
                if over.is_set():
                    return
        except BaseException as error:  # handed to the consumer, who raises it
            give(error)

    thread = threading.Thread(target=fill, daemon=True)
    thread.start()
    try:
        while True:
            item = waiting.get()
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        over.set()
        thread.join()
