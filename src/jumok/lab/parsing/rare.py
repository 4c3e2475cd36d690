"""Words that are too rare to be learnt, as what they look like: a small treebank or corpus has no other word for them.

    familiar = Familiar.learn(sentences, least=3)
    familiar.words(["Mr.", "Vinken", "chaired", "35.2", "nonexecutives"])
    # ["Mr.", "~Aa", "~a~ed", "00.0", "~a~s"]

Digits are all alike.  A word that was met often enough stays itself; the first of a sentence may be known in lower
case.  Any other becomes its class: whether it has capitals, digits or a hyphen, and how it ends.
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


def alike(word: str) -> str:
    """The word with 0 for every digit."""
    return re.sub(r"\d", "0", word)


def look(word: str) -> str:
    """The class of a word: its letters, a digit, a hyphen, its ending."""
    letters = re.sub(r"[\W\d_]", "", word)
    case = "" if not letters else "A" if letters.isupper() and len(letters) > 1 else "Aa" if word[0].isupper() else "a"
    marks = ("0" if re.search(r"\d", word) else "") + ("-" if "-" in word[1:-1] else "")
    ending = next((one for one in ENDINGS if word.lower().endswith(one) and len(word) > len(one) + 1), "")
    return f"~{case}{marks}" + (f"~{ending}" if ending and case != "A" else "")


@dataclass(frozen=True)
class Familiar:
    """The words that stay themselves."""

    known: frozenset[str]

    @classmethod
    def learn(cls, sentences: Iterable[Sequence[str]], least: int) -> Familiar:
        """Words that sentences have at least so often."""
        times = Counter(alike(word) for words in sentences for word in words)
        return cls(frozenset(word for word, count in times.items() if count >= least))

    def words(self, sentence: Sequence[str]) -> list[str]:
        """Every word of a sentence, or its class."""
        return [self._one(alike(word), first=not place) for place, word in enumerate(sentence)]

    def _one(self, word: str, *, first: bool) -> str:
        if word in self.known:
            return word
        return word.lower() if first and word.lower() in self.known else look(word)
