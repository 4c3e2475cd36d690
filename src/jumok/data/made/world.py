"""The world of stories.py as a reader knows it: events, and the facts that follow from them.

Every fact has the numbers of the events that it follows from, so that a question can be checked to need all of them.
Not here how events are generated and worded (stories.py).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

COUNTS = ("none", "one", "two", "three")  # numbers of things that a person carries


class Event(NamedTuple):
    """The content of a sentence; the verb is a key of `WORDINGS`.  Several persons are one string: "Mary and John"."""

    who: str
    verb: str
    what: str
    whom: str = ""


class Known(NamedTuple):
    """A fact and the sentences that it follows from."""

    fact: str
    supports: tuple[int, ...]


NOTHING = Known("", ())


class World:
    """A reader's knowledge after these events: where persons are, who holds what, where things have been."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.places: dict[str, Known] = {}  # of persons
        self.holders: dict[str, Known] = {}  # of things
        self.left: dict[str, Known] = {}  # where things were put down
        self.dropped: dict[str, tuple[str, int]] = {}  # by whom, and in which sentence
        self.stays: dict[str, list[Known]] = {}  # every place a thing has been at, oldest first
        self.gifts: list[tuple[Event, int]] = []
        self.named = NOTHING  # whom the last sentence was about
        acts = {"go": self.go, "go on": self.go_on, "take": self.take, "drop": self.drop, "give": self.give}
        for number, event in enumerate(events):
            acts[event.verb](event, number)

    def go(self, event: Event, number: int) -> None:
        self.named = Known(event.who, (number,))
        self.move(event.who, Known(event.what, (number,)))

    def go_on(self, event: Event, number: int) -> None:
        """Move the persons of the sentence before, whom this one calls "they"."""
        self.move(self.named.fact, Known(event.what, (*self.named.supports, number)))

    def move(self, who: str, place: Known) -> None:
        for person in who.split(" and ") if who else ():
            before, self.places[person] = self.place(person), place
            for thing, holder in self.holders.items():
                if holder.fact == person:
                    self.stay(thing, Known(place.fact, (*holder.supports, *before.supports, *place.supports)))

    def take(self, event: Event, number: int) -> None:
        place = self.place(event.who)
        self.holders[event.what] = Known(event.who, (number,))
        self.dropped.pop(event.what, None)
        self.stay(event.what, Known(place.fact, (*place.supports, number)))

    def drop(self, event: Event, number: int) -> None:
        place = self.place(event.who)
        self.holders.pop(event.what, None)
        self.dropped[event.what] = event.who, number
        self.left[event.what] = Known(place.fact, (*place.supports, number))
        self.stay(event.what, self.left[event.what])

    def give(self, event: Event, number: int) -> None:
        self.gifts.append((event, number))

    def stay(self, thing: str, place: Known) -> None:
        stays = self.stays.setdefault(thing, [])
        if not stays or stays[-1].fact != place.fact:
            stays.append(place)

    def place(self, person: str) -> Known:
        return self.places.get(person, NOTHING)

    def where(self, thing: str) -> Known:
        """Where a thing is: with its holder, or where it was put down."""
        if thing not in self.holders:
            return self.left.get(thing, NOTHING)
        holder = self.holders[thing]
        place = self.place(holder.fact)
        return Known(place.fact, (*holder.supports, *place.supports))

    def place_before(self, thing: str, place: str) -> Known:
        """Where a thing was before it came to a place, if it came there once."""
        stays = self.stays.get(thing, [])
        indices = [number for number, stay in enumerate(stays) if stay.fact == place]
        if len(indices) != 1 or indices[0] == 0:
            return NOTHING
        return Known(stays[indices[0] - 1].fact, stays[indices[0]].supports)

    def count_carried(self, person: str) -> Known:
        """The number of things a person carries; sentences in which things were put down for good support it, too."""
        held = [known.supports[0] for known in self.holders.values() if known.fact == person]
        return Known(COUNTS[len(held)], (*held, *(number for who, number in self.dropped.values() if who == person)))

    def find_gift(self, **sides: str) -> Known:
        """The third of who, what and whom in the last gift in which the other two were as given."""
        for event, number in reversed(self.gifts):
            if all(getattr(event, side) == name for side, name in sides.items()):
                (third,) = {"who", "what", "whom"} - sides.keys()
                return Known(getattr(event, third), (number,))
        return NOTHING


def all_needed(events: Sequence[Event], known: Known, ask: Callable[[World], Known]) -> bool:
    """Whether there is a fact, and removing any of its supports changes it."""
    others = ([*events[:number], *events[number + 1 :]] for number in known.supports)
    return known.fact != "" and all(ask(World(other)).fact != known.fact for other in others)
