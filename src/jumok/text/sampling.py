"""Subword regularisation: segmentations sampled by a key, Kudo (2018) for unigram, BPE-dropout for bpe.

SentencePiece can sample too, but seeds its generator differently in each process: a resumed run would see other
subwords than one that was never interrupted.  No subword crosses the start of a word, so each word is sampled
separately.
"""

import heapq
import math
import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from jumok.text.boundaries import SPACE

MOST = 16  # most segmentations of a word to choose from, the likeliest
LONGEST = 12  # most subwords sampled together where a language has no spaces
CACHED = 25_000  # words whose segmentations are cached, in each of two generations

Ids = tuple[int, ...]


@dataclass
class Segmentations:
    """The likeliest segmentations of a word and their log-probabilities, likeliest first."""

    ids: list[Ids]
    scores: list[float]
    _prepared: tuple[float, list[float]] = field(default=(0.0, []))

    def choose(self, chance: float, strength: float) -> Ids:
        """One segmentation, chosen in proportion to its probability to the power 0.1 / strength."""
        known, sums = self._prepared  # read together, as another thread may use another strength
        if known != strength:
            sums = list(accumulate(math.exp((score - self.scores[0]) * 0.1 / strength) for score in self.scores))
            self._prepared = strength, sums
        return self.ids[min(bisect_right(sums, chance * sums[-1]), len(self.ids) - 1)]


class Sampler:
    """Samples segmentations from subwords and their scores; a piece that is None (a byte, a special) never changes."""

    def __init__(self, pieces: Sequence[str | None], scores: Sequence[float], *, bpe: bool) -> None:
        self._pieces, self._scores, self._bpe = pieces, scores, bpe
        self._ids = {piece: i for i, piece in enumerate(pieces) if piece is not None}
        self._starts = {i for piece, i in self._ids.items() if piece.startswith(SPACE)}
        self._longest = max(map(len, self._ids), default=1)
        self._recent: dict[Ids, Segmentations] = {}
        self._older: dict[Ids, Segmentations] = {}  # the generation that is dropped next

    def sample(self, sentences: Sequence[Sequence[int]], *, strength: float, key: int) -> list[list[int]]:
        """The sentences in other subwords; the result depends on the pieces and the arguments only."""
        words = [list(self._words(sentence)) for sentence in sentences]
        chance = np.random.Generator(np.random.PCG64(key)).random
        choose = self._drop if self._bpe else self._choose
        samples = []
        for row in words:
            chances = chance(len(row)).tolist()
            samples.append([i for word, u in zip(row, chances, strict=True) for i in choose(word, u, strength)])
        return samples

    def _words(self, sentence: Sequence[int]) -> Iterator[Ids]:
        first = 0
        for position, piece in enumerate(sentence):
            if position > first and (piece in self._starts or position - first == LONGEST):
                yield tuple(sentence[first:position])
                first = position
        if len(sentence):
            yield tuple(sentence[first:])

    def _text(self, word: Ids) -> str | None:
        pieces = [piece for i in word if (piece := self._pieces[i]) is not None]
        return "".join(pieces) if len(pieces) == len(word) else None

    # ------------------------------------------------------------------------------------------ unigram

    def _choose(self, word: Ids, chance: float, strength: float) -> Ids:
        segmentations = self._recent.get(word)
        if segmentations is None and (segmentations := self._older.get(word)) is not None:
            self._recent[word] = segmentations  # used again: moves to the recent generation
        if segmentations is None:
            if len(self._recent) >= CACHED:
                self._recent, self._older = {}, self._recent
            segmentations = self._recent[word] = self.segment(word)
        return segmentations.choose(chance, strength)

    def segment(self, word: Ids) -> Segmentations:
        """The likeliest segmentations of a word: Viterbi search with the best few at each position instead of one."""
        text = self._text(word)
        if text is None:
            return Segmentations([word], [0.0])
        best: list[list[tuple[float, Ids]]] = [[(0.0, ())]]
        for end in range(1, len(text) + 1):
            candidates: list[tuple[float, Ids]] = []
            for start in range(max(0, end - self._longest), end):
                i = self._ids.get(text[start:end])
                if i is not None:
                    candidates += [(score + self._scores[i], (*cut, i)) for score, cut in best[start]]
            best.append(sorted(candidates, reverse=True)[:MOST])
        return Segmentations([cut for _, cut in best[-1]], [score for score, _ in best[-1]])

    # ------------------------------------------------------------------------------------------ bpe

    def _drop(self, word: Ids, chance: float, strength: float) -> Ids:
        """The word merged again from its characters, with a share of `strength` / 2 of the merges left out."""
        text = self._text(word)
        if text is None:
            return word
        skips = _skips(chance, strength / 2)
        skip, merged = next(skips), 0
        symbols: list[str] = list(text)
        after = list(range(1, len(symbols) + 1))
        before = list(range(-1, len(symbols) - 1))
        agenda: list[tuple[float, int, int, str]] = []

        def propose(left: int, right: int) -> None:
            if left >= 0 and right < len(symbols) and (i := self._ids.get(symbols[left] + symbols[right])) is not None:
                heapq.heappush(agenda, (-self._scores[i], left, right, symbols[left] + symbols[right]))

        for position in range(len(symbols) - 1):
            propose(position, position + 1)
        while agenda:
            _, left, right, piece = heapq.heappop(agenda)
            if not symbols[left] or not symbols[right] or symbols[left] + symbols[right] != piece:
                continue  # one of the two has been merged with another symbol in the meantime
            merged += 1
            if merged > skip:
                skip += next(skips) + 1
                continue
            symbols[left], symbols[right] = piece, ""
            after[left] = after[right]
            if after[left] < len(symbols):
                before[after[left]] = left
            propose(before[left], left)
            propose(left, after[left])
        return tuple(self._ids[symbol] for symbol in symbols if symbol)


def _skips(chance: float, share: float) -> Iterator[int]:
    """Yield numbers of merges until the next one that is left out: geometric, the first from `chance` itself."""
    more = random.Random(chance)
    while True:
        yield int(min(math.log(1.0 - chance) / math.log1p(-share), 2.0**40))
        chance = more.random()
