"""Whether the sides of a corpus are in the languages that its files are named after: swapped, or the same on both.

check = LanguageCheck(("en", "de"))
check.add(source, target)                some of the pairs
check.problem                            "swapped", "same" or None
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from jumok.text.detection import Detector
from jumok.text.languages import Pair

ASKED = 400  # pairs after which no more are looked at
LEAST = 20  # sentences of a side whose language is clear, with fewer of which nothing is said
MOST = 0.7  # share of the clear sentences of a side that are in its language

Problem = Literal["swapped", "same"]


@dataclass
class LanguageCheck:
    """Counts the languages of some sentences of both sides; `languages` are those that they should be in."""

    languages: Pair
    asked: int = 0
    counts: tuple[Counter[str], Counter[str]] = field(default_factory=lambda: (Counter(), Counter()))

    @cached_property
    def _detector(self) -> Detector:
        return Detector(self.languages)

    @property
    def full(self) -> bool:
        return self.asked >= ASKED

    def add(self, source: str, target: str) -> None:
        """Look at a pair; a sentence that could be in both languages counts for none."""
        self.asked += 1
        for side, text in zip(self.counts, (source, target), strict=True):
            language, confidence = self._detector.detect(text)
            if confidence > 0.0:
                side[language] += 1

    def language_of(self, side: int) -> str | None:
        """The language of a side, if enough of its sentences are clear and most of them are in it."""
        [(language, count)] = self.counts[side].most_common(1) or [("", 0)]
        total = self.counts[side].total()
        return language if total >= LEAST and count >= MOST * total else None

    @property
    def problem(self) -> Problem | None:
        """What is wrong with the languages, as far as can be told."""
        if self.languages[0] == self.languages[1]:
            return None
        sides = self.language_of(0), self.language_of(1)
        if sides == self.languages[::-1]:
            return "swapped"
        return "same" if sides[0] is not None and sides[0] == sides[1] else None
