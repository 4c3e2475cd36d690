"""Other ways to cut the same words into subwords, drawn by a key: Kudo (2018) for unigram, BPE-dropout for bpe.

SentencePiece can draw them too, but salts its generator afresh in each process: a run that is resumed would see other
subwords than one that was never stopped.  No subword reaches across the start of a word, so each word is drawn alone.
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

MOST = 16  # cuts of one word to choose from, the likeliest
LONGEST = 12  # subwords drawn together where a language has no spaces
REMEMBERED = 25_000  # words whose cuts are kept, and as many that were used before

Ids = tuple[int, ...]


@dataclass
class Cuts:
    """The likeliest cuts of a word and their log-probabilities, likeliest first."""

    ids: list[Ids]
    scores: list[float]
    _prepared: tuple[float, list[float]] = field(default=(0.0, []))

    def draw(self, chance: float, strength: float) -> Ids:
        """One of them in proportion to its probability to the power 0.1 / strength."""
        known, sums = self._prepared  # together, as another thread may draw with another strength
        if known != strength:
            sums = list(accumulate(math.exp((score - self.scores[0]) * 0.1 / strength) for score in self.scores))
            self._prepared = strength, sums
        return self.ids[min(bisect_right(sums, chance * sums[-1]), len(self.ids) - 1)]


class Sampler:
    """Draws from subwords with their scores; a subword that is None (a byte, a special symbol) stays where it is."""

    def __init__(self, pieces: Sequence[str | None], scores: Sequence[float], *, bpe: bool) -> None:
        self._pieces, self._scores, self._bpe = pieces, scores, bpe
        self._ids = {piece: i for i, piece in enumerate(pieces) if piece is not None}
        self._starts = {i for piece, i in self._ids.items() if piece.startswith(SPACE)}
        self._longest = max(map(len, self._ids), default=1)
        self._cuts: dict[Ids, Cuts] = {}
        self._before: dict[Ids, Cuts] = {}  # those of a while ago, which are forgotten next

    def draw(self, sentences: Sequence[Sequence[int]], *, strength: float, key: int) -> list[list[int]]:
        """The sentences in other subwords; which, depends on the four arguments and on nothing else."""
        words = [list(self._words(sentence)) for sentence in sentences]
        chance = np.random.Generator(np.random.PCG64(key)).random
        draw = self._drop if self._bpe else self._choose
        drawn = []
        for row in words:
            chances = chance(len(row)).tolist()
            drawn.append([i for word, u in zip(row, chances, strict=True) for i in draw(word, u, strength)])
        return drawn

    def _words(self, sentence: Sequence[int]) -> Iterator[Ids]:
        first = 0
        for place, piece in enumerate(sentence):
            if place > first and (piece in self._starts or place - first == LONGEST):
                yield tuple(sentence[first:place])
                first = place
        if len(sentence):
            yield tuple(sentence[first:])

    def _text(self, word: Ids) -> str | None:
        pieces = [piece for i in word if (piece := self._pieces[i]) is not None]
        return "".join(pieces) if len(pieces) == len(word) else None

    # ------------------------------------------------------------------------------------------ unigram

    def _choose(self, word: Ids, chance: float, strength: float) -> Ids:
        cuts = self._cuts.get(word)
        if cuts is None and (cuts := self._before.get(word)) is not None:
            self._cuts[word] = cuts  # used again: it outlives the next clearing
        if cuts is None:
            if len(self._cuts) >= REMEMBERED:
                self._cuts, self._before = {}, self._cuts
            cuts = self._cuts[word] = self.cuts(word)
        return cuts.draw(chance, strength)

    def cuts(self, word: Ids) -> Cuts:
        """The likeliest cuts of a word: Viterbi's search with the best few at each place instead of one."""
        text = self._text(word)
        if text is None:
            return Cuts([word], [0.0])
        best: list[list[tuple[float, Ids]]] = [[(0.0, ())]]
        for end in range(1, len(text) + 1):
            found: list[tuple[float, Ids]] = []
            for start in range(max(0, end - self._longest), end):
                i = self._ids.get(text[start:end])
                if i is not None:
                    found += [(score + self._scores[i], (*cut, i)) for score, cut in best[start]]
            best.append(sorted(found, reverse=True)[:MOST])
        return Cuts([cut for _, cut in best[-1]], [score for score, _ in best[-1]])

    # ------------------------------------------------------------------------------------------ bpe

    def _drop(self, word: Ids, chance: float, strength: float) -> Ids:
        """The word merged anew, `strength` / 2 of the merges left out."""
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

        for place in range(len(symbols) - 1):
            propose(place, place + 1)
        while agenda:
            _, left, right, piece = heapq.heappop(agenda)
            if not symbols[left] or not symbols[right] or symbols[left] + symbols[right] != piece:
                continue  # one of the two has been merged with something else meanwhile
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
    """How many merges are done before the next one is left out: geometric, the first by `chance` itself."""
    more = random.Random(chance)
    while True:
        yield int(min(math.log(1.0 - chance) / math.log1p(-share), 2.0**40))
        chance = more.random()
