"""Rare words replaced by classes that describe their form, for corpora too small to learn them.

    familiar = Familiar.learn(sentences, least=3)
    familiar.words(["Mr.", "Vinken", "chaired", "35.2", "nonexecutives"])
    # ["Mr.", "~Aa", "~a~ed", "00.0", "~a~s"]

Every digit becomes 0.  A frequent word stays as it is; the first word of a sentence may be known in lower case.  Any
other word becomes its class: whether it has capitals, digits or a hyphen, and its ending.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ENDINGS = (
    "tion", "ment", "ness", "able", "ible", "ical", "ally", "ing", "ion", "ity", "ous", "ive", "ful", "ers", "ies",
    "est", "ist", "ian", "ed", "ly", "er", "or", "al", "ic", "an", "en", "s", "y",
)  # fmt: skip


def mask_digits(word: str) -> str:
    """The word with 0 for every digit."""
    return re.sub(r"\d", "0", word)


def word_class(word: str) -> str:
    """The class of a word: its letters, a digit, a hyphen, its ending."""
    letters = re.sub(r"[\W\d_]", "", word)
    case = "" if not letters else "A" if letters.isupper() and len(letters) > 1 else "Aa" if word[0].isupper() else "a"
    marks = ("0" if re.search(r"\d", word) else "") + ("-" if "-" in word[1:-1] else "")
    ending = next((suffix for suffix in ENDINGS if word.lower().endswith(suffix) and len(word) > len(suffix) + 1), "")
    return f"~{case}{marks}" + (f"~{ending}" if ending and case != "A" else "")


@dataclass(frozen=True)
class Familiar:
    """The frequent words, which are not replaced."""

    known: frozenset[str]

    @classmethod
    def learn(cls, sentences: Iterable[Sequence[str]], least: int) -> Familiar:
        """The words that occur at least `least` times in the sentences."""
        times = Counter(mask_digits(word) for words in sentences for word in words)
        return cls(frozenset(word for word, count in times.items() if count >= least))

    def words(self, sentence: Sequence[str]) -> list[str]:
        """The words of a sentence, rare ones replaced by their class."""
        return [self._replace(mask_digits(word), first=not index) for index, word in enumerate(sentence)]

    def _replace(self, word: str, *, first: bool) -> str:
        if word in self.known:
            return word
        return word.lower() if first and word.lower() in self.known else word_class(word)
