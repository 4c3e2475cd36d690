"""A translation as a value: its text, how likely it is, its words, and, where asked for, their alignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import exp
from typing import TYPE_CHECKING, Any

from jumok.text.boundaries import words_of

if TYPE_CHECKING:
    from jumok.reports.attention import AttentionView
    from jumok.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Word:
    """A word of a translation and its probability, given the words before it."""

    text: str
    probability: float


@dataclass(frozen=True)
class Translation:
    """One translation; `alternatives` are the next best.

    `attention` and `alignment` (pairs of source word and target word, from 0; in text without spaces, of characters)
    are None unless they are asked for.
    """

    source: str
    text: str
    score: float  # log-probability over the length penalty; nan where text alone was asked for
    log_probability: float
    tokens: tuple[str, ...] = ()
    token_scores: tuple[float, ...] = ()
    words: tuple[Word, ...] = ()
    alternatives: tuple[Translation, ...] = ()
    attention: AttentionView | None = None
    alignment: tuple[tuple[int, int], ...] | None = None

    def __str__(self) -> str:
        return self.text

    @property
    def pharaoh(self) -> str:
        """The alignment as word aligners write it: 0-0 1-2 2-1."""
        return " ".join(f"{source}-{target}" for source, target in self.alignment or ())

    def to_json(self) -> dict[str, Any]:
        """Plain values, attention left out."""
        values = asdict(self) | {"alternatives": [other.to_json() for other in self.alternatives]}
        del values["attention"]
        return values


@dataclass(frozen=True)
class Contents:
    """What a translation holds besides its text and its score."""

    details: bool = True  # tokens and words with their probabilities; attention and alignment include them
    attention: bool = False
    align: bool = False


def split_words(body: Sequence[int], token_scores: Sequence[float], vocabulary: Vocabulary) -> tuple[Word, ...]:
    """Split a translation (ids without END) into words, each with the product of its subwords' probabilities."""
    words, start, numbers = list[Word](), 0, words_of(vocabulary.pieces(body))
    for stop in range(1, len(body) + 1):
        if stop < len(body) and numbers[stop] == numbers[stop - 1]:
            continue
        if text := vocabulary.decode(body[start:stop]):  # a space alone belongs to the word after it
            words.append(Word(text, exp(sum(token_scores[start:stop]))))
            start = stop
    return tuple(words)
