"""A sentence under construction: pieces of English and Korean, linked by bits.

A sentence is two lists of pieces.  Each piece carries a mask of bits; an English word and a Korean word are aligned
when their masks share a bit.  Every constituent (subject, object, time, ...) owns four bits, so a piece is built once
with the bits 1, 2, 4, 8 and shifted to its constituent.  The words of a second clause are shifted once more, by SUB.

Where Korean leaves a choice (안 or -지 않다, 와 or 하고), the grammar asks `Talk.way`: usually English decides,
and with `Ways` every possible translation is written in turn, with its probability.

Not here  how constituents are built (predicates.py, nouns.py, times.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from random import Random
from typing import Literal, TypeVar

from jumok.data.made.grammar.endings import Form, Level, attach

Choice = TypeVar("Choice")
English = tuple[str, int]  # words, mask
Korean = tuple[str, str, int]  # stem, particle, mask
Mood = Literal["present", "past", "future", "progressive", "was doing", "want", "wanted", "can", "could", "must"]
Negation = Literal["", "short", "long"]
Number = Literal["I", "we", "you", "third", "plural"]

MAIN, AUX, NEG, LINK = 1, 2, 4, 8  # bits of the verb; LINK joins two clauses
NOUN, OWNER, COUNT, UNIT = 1, 2, 4, 8  # bits of a thing or a person
VERB, SUBJECT, OBJECT, PLACE, TIME, SPAN, COMPANY, TOOL, RECEIVER, CALL, ASKED = range(0, 44, 4)  # shifts
SUB = 48  # shift of a second clause, on top of the others


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
    pronoun: str = ""  # he or she


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
    korean_mark: str = ""  # if it is another one
    roles: tuple[int, ...] = ()  # the shifts of who does it and to whom, where both could be exchanged
    fixed: bool = False  # one of a short list of sentences, which belongs to training
    seed: int = 0  # writes the same sentence again
    neutral: bool = True  # every free choice is the first one

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
        return english[0].upper() + english[1:] + self.mark, " ".join(korean) + (self.korean_mark or self.mark)

    def actors(self) -> tuple[str, ...]:
        """The Korean of both people whose roles could be exchanged, without particles."""
        pieces = [
            (stem, mask) for group, shift, _ in self.korean for stem, _, bits in group for mask in (bits << shift,)
        ]
        return tuple(" ".join(stem for stem, mask in pieces if mask >> shift & 15) for shift in self.roles)

    def key(self) -> str:
        """The Korean sentence; for two people whose roles could be exchanged, the same for both sentences."""
        if not self.roles:
            return self.spell()[1]
        bits = sum(15 << shift for shift in self.roles)
        rest = [stem + particle for stem, particle, mask in self.korean_pieces() if not mask & bits]
        return " ".join([*sorted(self.actors()), *rest]) + self.mark


@dataclass(slots=True)
class Ways:
    """Decides the free choices of a sentence: those of `plan`, then the first; remembers what could be chosen."""

    plan: list[int] = field(default_factory=list)
    taken: list[tuple[int, tuple[float, ...]]] = field(default_factory=list)

    def choose(self, odds: tuple[float, ...]) -> int:
        chosen = self.plan[len(self.taken)] if len(self.taken) < len(self.plan) else 0
        self.taken.append((chosen, odds))
        return chosen

    @property
    def share(self) -> float:
        """The probability of these choices."""
        return prod(odds[chosen] for chosen, odds in self.taken)

    def following(self) -> "Ways | None":
        """The next choices in order, or none after the last."""
        plan = [chosen for chosen, _ in self.taken]
        while plan and plan[-1] == len(self.taken[len(plan) - 1][1]) - 1:
            plan.pop()
        return Ways([*plan[:-1], plan[-1] + 1]) if plan else None


@dataclass(slots=True)
class Talk:
    """The context of a sentence: the random generator, the level of speech, the people already named."""

    random: Random
    level: Level
    taken: list[str] = field(default_factory=list)
    ways: Ways | None = None  # writes another translation than the usual one
    neutral: bool = True  # the usual choices so far are the first ones
    form: Form = "end"  # how the clause ends that is being written

    def way(self, usual: int, *odds: float) -> int:
        """Return which of several forms to write: the usual one, unless all are written in turn."""
        if self.ways:
            return self.ways.choose(odds)
        self.neutral = self.neutral and not usual
        return usual

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def choose(self, items: Sequence[Choice]) -> Choice:
        return items[int(self.random.random() * len(items))]

    def number(self, first: int, last: int) -> int:
        """Draw a whole number from `first` to `last`, both included."""
        return first + int(self.random.random() * (last + 1 - first))

    def together(self) -> str:
        """The particle of company: 와, 하고, 랑."""
        if self.level == "plain":
            return ("and plain", "and spoken")[self.way(0, 0.7, 0.3)]
        return ("and", "and spoken", "and plain")[
            self.way(0, *((0.8, 0.2) if self.level == "formal" else (0.5, 0.3, 0.2)))
        ]

    def to_person(self) -> str:
        """The particle of a receiver: 에게, among friends 한테."""
        if self.level == "polite":
            return ("person", "person plain")[self.way(0, 0.6, 0.4)]
        return "person plain" if self.level == "plain" else "person"
