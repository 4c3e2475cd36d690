"""A translation as a value: its text, how likely it is, its words, and, where asked for, what they come from.

`TranslateKeywords` are all keywords of functions that translate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import exp
from typing import TYPE_CHECKING, Any, TypedDict

from jumok.config.search import ConstraintKeywords, Constraints, SearchKeywords, SearchOptions
from jumok.text.boundaries import words_of

if TYPE_CHECKING:
    from jumok.reports.attention import AttentionView
    from jumok.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Word:
    """A word of a translation and the probability that the model gave it, after the words before."""

    text: str
    probability: float


@dataclass(frozen=True)
class Translation:
    """One translation; `alternatives` are the next best.

    `attention` and `alignment`, pairs of source word and word from 0, only where they were asked for.
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
    """What a translation holds beside its text and its score."""

    details: bool = True  # tokens and words with their probabilities
    attention: bool = False
    align: bool = False

    def __post_init__(self) -> None:
        if self.attention or self.align:
            object.__setattr__(self, "details", True)


class ContentKeywords(TypedDict, total=False):
    """The fields of `Contents` as keywords."""

    details: bool | None
    attention: bool | None
    align: bool | None


class TranslateKeywords(SearchKeywords, ConstraintKeywords, ContentKeywords, total=False):
    """How to search, what a translation must and must not say, and what it holds.

    `options` and `constraints` are the values that the other keywords change.
    """

    options: SearchOptions | None
    constraints: Constraints | None


def split_words(body: Sequence[int], token_scores: Sequence[float], vocabulary: Vocabulary) -> tuple[Word, ...]:
    """The words of a translation (ids without END), each with the product of the probabilities of its subwords."""
    words, start, numbers = list[Word](), 0, words_of(vocabulary.pieces(body))
    for stop in range(1, len(body) + 1):
        if stop < len(body) and numbers[stop] == numbers[stop - 1]:
            continue
        if text := vocabulary.decode(body[start:stop]):  # a space alone belongs to the word after it
            words.append(Word(text, exp(sum(token_scores[start:stop]))))
            start = stop
    return tuple(words)


def replace_surrogates(text: str) -> str:
    """The text with a mark in place of half characters (lone surrogates, which JSON lets through)."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
