"""What can only be said of pairs when all have been read: which script a language is written in, which pairs repeat,
which validate, and which words the vocabulary is learnt from.

Memory is bounded whatever the number of pairs: a byte for each pair lies in a file that is mapped, and duplicates are
looked for among a few million hashes at a time.
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

TOGETHER = 4_000_000  # hashes that are sorted at a time
COMMON = 0.2  # a script that so many lines of a language are written in is one of its own
BINS = 1 << 16  # of the sample that the vocabulary is learnt from


@dataclass(frozen=True)
class Read:
    """A part that was read: its number, its corpus, its first line, how many pairs passed, and where they begin."""

    number: int
    corpus: int
    first: int
    kept: int
    offset: int  # of its pairs among all that passed


@dataclass
class Decision:
    """All parts of a preparation and the verdict on every pair that passed the rules for single ones."""

    folder: Path
    parts: Sequence[Read]
    stop: Stop = NEVER

    def __post_init__(self) -> None:
        self.count = sum(part.kept for part in self.parts)
        path = self.folder / VERDICTS
        with open(path, "wb") as file:
            file.truncate(max(1, self.count))
        self.verdicts = np.memmap(path, np.uint8, mode="r+")[: self.count]

    def _rows(self, part: Read) -> np.ndarray:
        self.stop.check()
        return load(self.folder / PARTS, part.number, "rows", ROW)

    def _each(self) -> Iterator[tuple[Read, np.ndarray, np.ndarray]]:
        """Every part with its rows and its verdicts, which may be changed."""
        for part in self.parts:
            yield part, self._rows(part), self.verdicts[part.offset : part.offset + part.kept]

    def drop_wrong_scripts(self) -> None:
        """Leave out pairs of which a side is mostly in a script that is not one of its language's."""
        corpora = sorted({part.corpus for part in self.parts})
        counts = {corpus: np.zeros((2, 256), np.int64) for corpus in corpora}
        for part, rows, _ in self._each():
            for side in range(2):
                counts[part.corpus][side] += np.bincount(rows["scripts"][:, side], minlength=256)
        foreign: dict[int, list[np.ndarray]] = {}
        for corpus, found in counts.items():
            found[:, 0] = 0  # too few letters to say
            least = COMMON * found.sum(axis=1, keepdims=True)
            own = (found >= least) | (found == found.max(axis=1, keepdims=True))
            own[:, 0] = True
            foreign[corpus] = [~own[side] for side in range(2)]
        for part, rows, verdicts in self._each():
            wrong = [foreign[part.corpus][side][rows["scripts"][:, side]] for side in range(2)]
            verdicts[(verdicts == 0) & (wrong[0] | wrong[1])] = CODE[SCRIPT]

    def drop_duplicates(self, *, near: bool, exact: bool, progress: Callable[[float], None]) -> None:
        """Leave out pairs that were there before, in the order of the files."""
        groups = max(1, -(-self.count // TOGETHER))
        for group in range(groups):
            progress(group / groups)
            places, hashes, exacts = [], [], []
            for part, rows, verdicts in self._each():
                chosen = np.flatnonzero((verdicts == 0) & (rows["near"] % np.uint64(groups) == group))
                places.append(chosen + part.offset)
                hashes.append(rows["near"][chosen])
                exacts.append(rows["exact"][chosen])
            place, hashed, detail = map(np.concatenate, (places, hashes, exacts))
            same_text = ~_is_first(hashed, detail)
            if exact:
                self.verdicts[place[same_text]] = CODE[DUPLICATE]
            if near:
                self.verdicts[place[~_is_first(hashed) & ~same_text]] = CODE[NEAR]

    def hold_out(self, share: float) -> Iterator[tuple[int, str, str]]:
        """Take pairs for validation by the digests of their sources, and yield corpus, source and target of each."""
        for part, _, verdicts in self._each():
            held = load(self.folder / PARTS, part.number, "held", HELD)
            held = held[held["digest"] < np.uint64(min(share, 0.999999) * 2**64)]
            chosen = held["index"][verdicts[held["index"]] == 0].astype(np.int64)
            verdicts[chosen] = CODE[HELD_OUT]
            if len(chosen):
                for source, target in zip(*self.texts(part, chosen), strict=True):
                    yield part.corpus, source, target

    def texts(self, part: Read, rows: np.ndarray) -> tuple[list[str], list[str]]:
        """Both sides of some pairs of a part."""
        sides = []
        for side in ("source", "target"):
            content = np.memmap(self.folder / PARTS / f"{part.number:06d}.{side}", np.uint8, mode="r")
            ends = np.flatnonzero(content == 10)
            begins = np.concatenate([[0], ends[:-1] + 1])
            found = [content[begins[row] : ends[row]].tobytes().decode() for row in rows.tolist()]
            sides.append([text.replace(BREAK, "\n") for text in found])
        return sides[0], sides[1]

    def sample(
        self, *, characters: int, pairs: int, seed: int, progress: Callable[[float], None]
    ) -> tuple[Counter[str], Counter[str]]:
        """The words of both sides, counted in a sample of the pairs that train, bounded by characters and pairs."""
        sizes, counts = np.zeros(BINS), np.zeros(BINS)
        for _, rows, verdicts in self._each():
            fit = verdicts == 0
            bins = _bins(rows[fit], seed)
            sizes += np.bincount(bins, rows["characters"][fit], minlength=BINS)
            counts += np.bincount(bins, minlength=BINS)
        within = (np.cumsum(sizes) <= characters) & (np.cumsum(counts) <= pairs)
        limit = max(1, int(within.sum()))
        words = Counter[str](), Counter[str]()
        for done, (part, rows, verdicts) in enumerate(self._each()):
            progress(done / len(self.parts))
            chosen = np.flatnonzero(verdicts == 0)
            chosen = chosen[_bins(rows[chosen], seed) < limit]
            if len(chosen):
                for mine, texts in zip(words, self.texts(part, chosen), strict=True):
                    mine.update(count_words(normalize(line) for text in texts for line in text.split("\n")))
        return words

    def left_out(self) -> dict[str, int]:
        """How many pairs were left out, by reason."""
        counts = np.zeros(256, np.int64)
        for part in self.parts:
            counts += np.bincount(self.verdicts[part.offset : part.offset + part.kept], minlength=256)
        return {REASONS[code]: int(counts[code]) for code in range(1, len(REASONS)) if counts[code]}


def _bins(rows: np.ndarray, seed: int) -> np.ndarray:
    """A number from 0 to BINS - 1 for each pair, by chance."""
    mixed = mix(mix(rows["near"] ^ np.uint64(seed & 0xFFFFFFFFFFFFFFFF)) + rows["exact"])
    return (mixed >> np.uint64(48)).astype(np.int64)


def _is_first(*keys: np.ndarray) -> np.ndarray:
    """Whether each row is the first with its keys."""
    order = np.lexsort(keys) if len(keys) > 1 else np.argsort(keys[0], kind="stable")
    new = np.ones(len(order), bool)
    if len(order):
        new[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    found = np.empty(len(order), bool)
    found[order] = new
    return found
