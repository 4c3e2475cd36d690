"""A sentence under construction: pieces of English and Korean, linked by bits.

A sentence is two lists of pieces.  Each piece carries a mask of bits; an English word and a Korean word are aligned
when their masks share a bit.  Every constituent (subject, object, time, ...) owns four bits, so a piece is built once
with the bits 1, 2, 4, 8 and shifted to its constituent.

Not here  how constituents are built (predicates.py, nouns.py, times.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal, TypeVar

from jumok.data.made.grammar.endings import Level, attach

Choice = TypeVar("Choice")
English = tuple[str, int]  # words, mask
Korean = tuple[str, str, int]  # stem, particle, mask
Mood = Literal["present", "past", "future", "progressive", "want", "wanted", "can", "could", "must"]
Negation = Literal["", "short", "long"]
Number = Literal["I", "we", "you", "third", "plural"]

MAIN, AUX, NEG = 1, 2, 4  # bits of the verb
NOUN, OWNER, COUNT, UNIT = 1, 2, 4, 8  # bits of a thing or a person
VERB, SUBJECT, OBJECT, PLACE, TIME, SPAN, COMPANY, TOOL, RECEIVER, CALL, ASKED = range(0, 44, 4)  # shifts


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A constituent in both languages; `front` is what a question moves to the front, `key` names its noun."""

    english: tuple[English, ...]
    korean: tuple[Korean, ...]
    key: str = ""
    combination: str = ""
    front: tuple[English, ...] = ()
    fixed: bool = False  # has its particle already


@dataclass(frozen=True, slots=True, eq=False)
class Person:
    part: Part
    number: Number
    honoured: bool = False


@dataclass(slots=True)
class Draft:
    """A sentence under construction, and its word combinations.

    Constituents are stored whole with their shift (and role), since most drafts are discarded before they are spelled.
    """

    english: list[tuple[tuple[English, ...], int]] = field(default_factory=list)
    korean: list[tuple[tuple[Korean, ...], int, str]] = field(default_factory=list)
    combinations: list[str] = field(default_factory=list)
    called: int = 0  # Korean words of the address, before the comma
    echo: str = ""  # too or either, after a comma at the end
    mark: str = "."

    def say(self, pieces: tuple[English, ...], shift: int) -> None:
        self.english.append((pieces, shift))

    def speak(self, part: Part, shift: int, role: str = "") -> None:
        """Append the Korean of a part; its last word takes the particle of this role."""
        self.korean.append((part.korean, shift, "" if part.fixed else role))

    def both(self, part: Part, shift: int, role: str = "") -> None:
        self.say(part.english, shift)
        self.speak(part, shift, role)

    def add(self, stem: str, particle: str, mask: int) -> None:
        self.korean.append((((stem, particle, mask),), 0, ""))

    def end(self, korean: tuple[Korean, ...], *, asks: bool = False) -> None:
        """Append the Korean predicate and the mark."""
        self.korean.append((korean, 0, ""))
        self.mark = "?" if asks else "."

    def english_pieces(self) -> list[English]:
        pieces = [(text, mask << shift) for group, shift in self.english for text, mask in group]
        return [*pieces, (self.echo, NOUN << SUBJECT)] if self.echo else pieces

    def korean_pieces(self) -> list[Korean]:
        pieces: list[Korean] = []
        for group, shift, role in self.korean:
            pieces += [(stem, particle, mask << shift) for stem, particle, mask in group]
            if role:
                pieces[-1] = (*attach(pieces[-1][0], role), pieces[-1][2])
        return pieces

    def spell(self) -> tuple[str, str]:
        """Return both sentences, with capital letter and marks."""
        english = " ".join([text for group, _ in self.english for text, _ in group])
        if self.echo:
            english += ", " + self.echo
        korean: list[str] = []
        for group, _, role in self.korean:
            korean += [stem + particle for stem, particle, _ in group]
            if role:
                korean[-1] = "".join(attach(group[-1][0], role))
        if self.called:
            korean[self.called - 1] += ","
        return english[0].upper() + english[1:] + self.mark, " ".join(korean) + self.mark


@dataclass(slots=True)
class Talk:
    """The context of a sentence: the random generator, the level of speech, the people already named."""

    random: Random
    level: Level
    taken: list[str] = field(default_factory=list)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def choose(self, items: Sequence[Choice]) -> Choice:
        return items[int(self.random.random() * len(items))]

    def number(self, first: int, last: int) -> int:
        """Draw a whole number from `first` to `last`, both included."""
        return first + int(self.random.random() * (last + 1 - first))

    @property
    def together(self) -> str:
        return "and plain" if self.level == "plain" else "and"
