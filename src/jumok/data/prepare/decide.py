"""Decisions that need all pairs: the scripts of a language, duplicates, validation pairs, words for the vocabulary.

Memory does not depend on the number of pairs: the verdicts, one byte per pair, are a memory-mapped file, and duplicates
are searched among a few million hashes at a time.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jumok.data.prepare.sift import BREAK, CODE, DUPLICATE, HELD_OUT, NEAR, REASONS, SCRIPT, mix
from jumok.data.prepare.work import HELD, PARTS, ROW, VERDICTS, load
from jumok.stopping import NEVER, Stop
from jumok.text.trainer import count_words
from jumok.text.vocabulary import normalize

Progress = Callable[[float], None]  # called with the share that is done

TOGETHER = 4_000_000  # most hashes that are sorted at a time
COMMON = 0.2  # a script belongs to a language if this share of its lines is written in it
BINS = 1 << 16  # random bins of pairs, of which the first ones are the sample for the vocabulary


@dataclass(frozen=True)
class ReadPart:
    """A part of the text that was read; its pairs are those that passed the rules for single pairs."""

    number: int
    corpus: int
    first: int  # line of its first pair in all training text
    count: int  # number of its pairs
    offset: int  # of its first pair among those of all parts


@dataclass
class Decision:
    """The verdicts on all pairs that passed the rules for single pairs."""

    folder: Path
    parts: Sequence[ReadPart]
    stop: Stop = NEVER

    def __post_init__(self) -> None:
        self.count = sum(part.count for part in self.parts)
        path = self.folder / VERDICTS
        with open(path, "wb") as file:
            file.truncate(max(1, self.count))
        self.verdicts = np.memmap(path, np.uint8, mode="r+")[: self.count]

    def _rows(self, part: ReadPart) -> np.ndarray:
        self.stop.check()
        return load(self.folder / PARTS, part.number, "rows", ROW)

    def _iterate(self, progress: Progress = lambda share: None) -> Iterator[tuple[ReadPart, np.ndarray, np.ndarray]]:
        """Every part with its rows and its verdicts, which may be changed."""
        for done, part in enumerate(self.parts):
            progress(done / len(self.parts))
            yield part, self._rows(part), self.verdicts[part.offset : part.offset + part.count]

    def drop_wrong_scripts(self, progress: Progress = lambda share: None) -> None:
        """Leave out pairs with a side that is mostly in a script that does not belong to its language."""
        corpora = sorted({part.corpus for part in self.parts})
        counts = {corpus: np.zeros((2, 256), np.int64) for corpus in corpora}
        for part, rows, _ in self._iterate(lambda share: progress(share / 2)):
            for side in range(2):
                counts[part.corpus][side] += np.bincount(rows["scripts"][:, side], minlength=256)
        foreign: dict[int, list[np.ndarray]] = {}
        for corpus, lines in counts.items():
            lines[:, 0] = 0  # lines with too few letters do not count
            least = COMMON * lines.sum(axis=1, keepdims=True)
            own = (lines >= least) | (lines == lines.max(axis=1, keepdims=True))
            own[:, 0] = True
            foreign[corpus] = [~own[side] for side in range(2)]
        for part, rows, verdicts in self._iterate(lambda share: progress(0.5 + share / 2)):
            wrong = [foreign[part.corpus][side][rows["scripts"][:, side]] for side in range(2)]
            verdicts[(verdicts == 0) & (wrong[0] | wrong[1])] = CODE[SCRIPT]

    def drop_duplicates(self, *, near: bool, exact: bool, progress: Progress = lambda share: None) -> None:
        """Leave out all but the first of equal pairs, in the order of the files."""
        groups = max(1, -(-self.count // TOGETHER))
        for group in range(groups):
            indices, hashes, exacts = [], [], []
            for part, rows, verdicts in self._iterate(_within(progress, group, groups)):
                chosen = np.flatnonzero((verdicts == 0) & (rows["near"] % np.uint64(groups) == group))
                indices.append(chosen + part.offset)
                hashes.append(rows["near"][chosen])
                exacts.append(rows["exact"][chosen])
            index, near_hash, exact_hash = map(np.concatenate, (indices, hashes, exacts))
            same_text = ~_is_first(near_hash, exact_hash)
            if exact:
                self.verdicts[index[same_text]] = CODE[DUPLICATE]
            if near:
                self.verdicts[index[~_is_first(near_hash) & ~same_text]] = CODE[NEAR]

    def hold_out(self, share: float, progress: Progress = lambda share: None) -> Iterator[tuple[int, str, str]]:
        """Hold out pairs by the digests of their sources; yields corpus, source and target of each."""
        for part, _, verdicts in self._iterate(progress):
            held = load(self.folder / PARTS, part.number, "held", HELD)
            held = held[held["digest"] < np.uint64(min(share, 0.999999) * 2**64)]
            chosen = held["index"][verdicts[held["index"]] == 0].astype(np.int64)
            verdicts[chosen] = CODE[HELD_OUT]
            if len(chosen):
                for source, target in zip(*self.texts(part, chosen), strict=True):
                    yield part.corpus, source, target

    def texts(self, part: ReadPart, rows: np.ndarray) -> tuple[list[str], list[str]]:
        """Both sides of some pairs of a part."""
        sides = []
        for side in ("source", "target"):
            content = np.memmap(self.folder / PARTS / f"{part.number:06d}.{side}", np.uint8, mode="r")
            ends = np.flatnonzero(content == 10)
            begins = np.concatenate([[0], ends[:-1] + 1])
            texts = [content[begins[row] : ends[row]].tobytes().decode() for row in rows.tolist()]
            sides.append([text.replace(BREAK, "\n") for text in texts])
        return sides[0], sides[1]

    def sample(
        self, *, characters: int, pairs: int, seed: int, progress: Progress = lambda share: None
    ) -> tuple[Counter[str], Counter[str]]:
        """The words of both sides, counted in a sample of the pairs that train, bounded by characters and pairs."""
        sizes, counts = np.zeros(BINS), np.zeros(BINS)
        for _, rows, verdicts in self._iterate(lambda share: progress(share / 10)):
            fit = verdicts == 0
            bins = _bins(rows[fit], seed)
            sizes += np.bincount(bins, rows["characters"][fit], minlength=BINS)
            counts += np.bincount(bins, minlength=BINS)
        within = (np.cumsum(sizes) <= characters) & (np.cumsum(counts) <= pairs)
        limit = max(1, int(within.sum()))
        words = Counter[str](), Counter[str]()
        for part, rows, verdicts in self._iterate(lambda share: progress(0.1 + 0.9 * share)):
            chosen = np.flatnonzero(verdicts == 0)
            chosen = chosen[_bins(rows[chosen], seed) < limit]
            if len(chosen):
                for counter, texts in zip(words, self.texts(part, chosen), strict=True):
                    counter.update(count_words(normalize(line) for text in texts for line in text.split("\n")))
        return words

    def left_out(self) -> dict[str, int]:
        """The number of pairs that were left out, by reason."""
        counts = np.zeros(256, np.int64)
        for part in self.parts:
            counts += np.bincount(self.verdicts[part.offset : part.offset + part.count], minlength=256)
        return {REASONS[code]: int(counts[code]) for code in range(1, len(REASONS)) if counts[code]}


def _within(progress: Progress, number: int, count: int) -> Progress:
    """The progress of one of several parts of the same size, as that of all of them."""
    return lambda share: progress((number + share) / count)


def _bins(rows: np.ndarray, seed: int) -> np.ndarray:
    """A random number from 0 to BINS - 1 for each pair."""
    mixed = mix(mix(rows["near"] ^ np.uint64(seed & 0xFFFFFFFFFFFFFFFF)) + rows["exact"])
    return (mixed >> np.uint64(48)).astype(np.int64)


def _is_first(*keys: np.ndarray) -> np.ndarray:
    """Whether each row is the first with its keys."""
    order = np.lexsort(keys) if len(keys) > 1 else np.argsort(keys[0], kind="stable")
    new = np.ones(len(order), bool)
    if len(order):
        new[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    first = np.empty(len(order), bool)
    first[order] = new
    return first
