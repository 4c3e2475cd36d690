"""Stories with a question: a small world of persons, places and things, told in sentences, in the manner of bAbI.

"Towards AI-Complete Question Answering" (Weston et al. 2015) numbers twenty tasks; those of `TASKS` are here, written
anew after the paper's examples:

    Mary moved to the bathroom.  /  John went back to the hallway.  /  Where is Mary?  →  bathroom

A task drafts events, and a question that these events alone answer; then the events are told, each in one of several
wordings.  Every sentence among the `supports` is needed: without it the question has another answer, or none.

Keys     A story follows from (seed, split, number) alone; `stories(…, 10)` are the first ten of `stories(…, 100)`.
Splits   What happens and what is asked belongs to one split by its hash, whatever the seed and the wording; so training
         shares no story with validation or test.
Answers  One word.  Persons, places and things take part alike, so answers come equally often where a task allows it.
Not here words as numbers (text/), corpora on disk (corpora.py), the network made for such stories (models/memory.py).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import count as numbers
from random import Random
from typing import NamedTuple

from jumok.errors import UnknownName, UsageError
from jumok.keys import key

SPLITS = ("train", "validation", "test")
BUCKETS = ("train", "train", "validation", "test")  # of all that can happen, training gets half

MEN, WOMEN = ("Daniel", "John"), ("Mary", "Sandra")
PERSONS = (*MEN, *WOMEN)
PLACES = ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")
THINGS = ("apple", "football", "milk")
ANIMALS = {"cat": "cats", "mouse": "mice", "sheep": "sheep", "wolf": "wolves"}
NAMES = ("Emily", "Gertrude", "Jessica", "Winona")

WORDINGS: dict[str, tuple[str, ...]] = {
    "go": tuple(
        f"{{who}} {way} the {{what}}."
        for way in ("moved to", "went to", "went back to", "journeyed to", "travelled to")
    ),
    "go on": tuple(
        f"{when} {{they}} {way} the {{what}}."
        for when in ("Then", "After that", "Afterwards", "Following that")
        for way in ("moved to", "went to", "went back to", "journeyed to", "travelled to")
    ),
    "take": tuple(
        f"{{who}} {way} the {{what}}{there}."
        for way in ("got", "grabbed", "picked up", "took")
        for there in ("", " there")
    ),
    "drop": tuple(
        f"{{who}} {way} the {{what}}{there}."
        for way in ("discarded", "dropped", "left", "put down")
        for there in ("", " there")
    ),
    "be": ("{who} is a {what}.",),
    "fear": ("{who} are afraid of {what}.",),
}


@dataclass(frozen=True, slots=True)
class Story:
    """Sentences, a question about them, its answer, and which sentences (from 0) the answer follows from."""

    sentences: tuple[str, ...]
    question: str
    answer: str
    supports: tuple[int, ...]

    @property
    def text(self) -> str:
        """One sentence a line, the question last."""
        return "\n".join((*self.sentences, self.question))


class Event(NamedTuple):
    """What one sentence says; the verb is a key of `WORDINGS`.  Several persons are one string: "Mary and John"."""

    who: str
    verb: str
    what: str


class Known(NamedTuple):
    """A fact and the sentences that it follows from."""

    fact: str
    supports: tuple[int, ...]


class Draft(NamedTuple):
    """A story before it is told."""

    events: Sequence[Event]
    question: str
    answer: str
    supports: tuple[int, ...]


NOTHING = Known("", ())


class World:
    """All that a reader knows after these events: where persons are, who holds what, where things have been."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.places: dict[str, Known] = {}  # of persons
        self.holders: dict[str, Known] = {}  # of things
        self.left: dict[str, Known] = {}  # where things were put down
        self.stays: dict[str, list[Known]] = {}  # every place a thing has been at, oldest first
        self.named = NOTHING  # whom the last sentence was about
        acts = {"go": self.go, "go on": self.go_on, "take": self.take, "drop": self.drop}
        for number, event in enumerate(events):
            acts[event.verb](event, number)

    def go(self, event: Event, number: int) -> None:
        self.named = Known(event.who, (number,))
        self.move(event.who, Known(event.what, (number,)))

    def go_on(self, event: Event, number: int) -> None:
        """Whoever "they" are, the sentence before has said it."""
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
        self.stay(event.what, Known(place.fact, (*place.supports, number)))

    def drop(self, event: Event, number: int) -> None:
        place = self.place(event.who)
        self.holders.pop(event.what, None)
        self.left[event.what] = Known(place.fact, (*place.supports, number))
        self.stay(event.what, self.left[event.what])

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

    def before(self, thing: str, place: str) -> Known:
        """Where a thing was before it came to a place, if it came there once."""
        stays = self.stays.get(thing, [])
        found = [number for number, stay in enumerate(stays) if stay.fact == place]
        if len(found) != 1 or found[0] == 0:
            return NOTHING
        return Known(stays[found[0] - 1].fact, stays[found[0]].supports)


def needed(events: Sequence[Event], known: Known, ask: Callable[[World], Known]) -> bool:
    """Whether the fact is one, and without any of its supports would be another."""
    others = ([*events[:number], *events[number + 1 :]] for number in known.supports)
    return known.fact != "" and all(ask(World(other)).fact != known.fact for other in others)


# ---------------------------------------------------------------- tasks


def walk(random: Random, length: int, *, pairs: bool = False, again: bool = False) -> list[Event]:
    """Persons go from place to place: alone or in `pairs`, and with `again` every other sentence only says "they"."""
    at, events, who = dict[str, str](), list[Event](), ""
    while len(events) < length:
        going_on = again and len(events) % 2 == 1
        if not going_on:
            who = " and ".join(random.sample(PERSONS, 2)) if pairs else random.choice(PERSONS)
        left = {at.get(person) for person in who.split(" and ")}
        place = random.choice([place for place in PLACES if place not in left])
        at |= dict.fromkeys(who.split(" and "), place)
        events.append(Event(who, "go on" if going_on else "go", place))
    return events


def carry(random: Random, length: int) -> list[Event]:
    """Persons go from place to place, take what lies there or what nobody has seen yet, and put things down."""
    at, held, lying, events = dict[str, str](), dict[str, str](), dict[str, str](), list[Event]()
    while len(events) < length:
        who = random.choice(PERSONS)
        free = [thing for thing in THINGS if thing not in held and lying.get(thing, at.get(who)) == at.get(who)]
        own = [thing for thing, holder in held.items() if holder == who]
        if who not in at or not free + own or random.random() < 0.5:
            at[who] = random.choice([place for place in PLACES if place != at.get(who)])
            events.append(Event(who, "go", at[who]))
            continue
        thing = random.choice(free + own)
        events.append(Event(who, "drop" if thing in own else "take", thing))
        if thing in own:
            lying[thing] = at[held.pop(thing)]
        else:
            held[thing] = who
    return events


def where_is_a_person(*, pairs: bool = False, again: bool = False) -> Callable[[Random], Draft | None]:
    """Tasks 1 (one supporting fact), 11 (who is "she"?), 12 (two persons at once), 13 (who are "they"?)."""

    def draft(random: Random) -> Draft | None:
        events = walk(random, random.randint(1, 5) * 2 if again else random.randint(2, 10), pairs=pairs, again=again)
        who = random.choice(sorted({person for event in events for person in event.who.split(" and ")}))
        known = World(events).place(who)
        if not needed(events, known, partial(World.place, person=who)):
            return None
        return Draft(events, f"Where is {who}?", *known)

    return draft


def where_is_a_thing(random: Random) -> Draft | None:
    """Task 2: somebody took it, and went there; or went there, and left it."""
    events = carry(random, random.randint(2, 30))
    world = World(events)
    for thing in random.sample(sorted(world.stays), len(world.stays)):
        known = world.where(thing)
        if needed(events, known, partial(World.where, thing=thing)):
            return Draft(events, f"Where is the {thing}?", *known)
    return None


def where_was_a_thing(random: Random) -> Draft | None:
    """Task 3: somebody took it, went to one place, and then to another."""
    events = carry(random, random.randint(4, 60))
    stays = World(events).stays
    asked = [(thing, stay.fact) for thing in sorted(stays) for stay in stays[thing] if len(stay.supports) == 3]
    for thing, place in random.sample(asked, len(asked)):
        ask = partial(World.before, thing=thing, place=place)
        if needed(events, known := ask(World(events)), ask):
            return Draft(events, f"Where was the {thing} before the {place}?", *known)
    return None


def yes_or_no(random: Random) -> Draft:
    """Task 6: the place that is asked for is right half of the time, and otherwise often one where the person was."""
    events = walk(random, random.randint(2, 10))
    who = random.choice(sorted({event.who for event in events}))
    known = World(events).place(who)
    if random.random() < 0.5:
        return Draft(events, f"Is {who} in the {known.fact}?", "yes", known.supports)
    visited = sorted({event.what for event in events if event.who == who} - {known.fact})
    others = [place for place in PLACES if place != known.fact]
    place = random.choice(visited if visited and random.random() < 0.5 else others)
    return Draft(events, f"Is {who} in the {place}?", "no", known.supports)


def deduction(random: Random) -> Draft:
    """Task 15: what all of a kind fear, one of them fears."""
    fears = {one: random.choice([other for other in ANIMALS if other != one]) for one in ANIMALS}
    kinds = {name: random.choice(list(ANIMALS)) for name in NAMES}
    events = [Event(ANIMALS[one].capitalize(), "fear", ANIMALS[other]) for one, other in fears.items()]
    events += [Event(name, "be", kind) for name, kind in kinds.items()]
    random.shuffle(events)
    who = random.choice(NAMES)
    said = (Event(ANIMALS[kinds[who]].capitalize(), "fear", ANIMALS[fears[kinds[who]]]), Event(who, "be", kinds[who]))
    return Draft(events, f"What is {who} afraid of?", fears[kinds[who]], tuple(events.index(event) for event in said))


TASKS: dict[int, Callable[[Random], Draft | None]] = {
    1: where_is_a_person(),
    2: where_is_a_thing,
    3: where_was_a_thing,
    6: yes_or_no,
    11: where_is_a_person(again=True),
    12: where_is_a_person(pairs=True),
    13: where_is_a_person(pairs=True, again=True),
    15: deduction,
}


# ---------------------------------------------------------------- stories


def pronoun(who: str) -> str:
    return "they" if " and " in who else "he" if who in MEN else "she"


def tell(random: Random, draft: Draft) -> Story:
    """Put a draft into words."""
    sentences = (
        random.choice(WORDINGS[verb]).format(who=who, what=what, they=pronoun(who)) for who, verb, what in draft.events
    )
    return Story(tuple(sentences), draft.question, draft.answer, tuple(sorted(draft.supports)))


def split_of(draft: Draft) -> str:
    """The split that owns what happens here, whatever the words."""
    meaning = "\n".join([*map(" ".join, draft.events), draft.question])
    return BUCKETS[blake2b(meaning.encode(), digest_size=4).digest()[0] % len(BUCKETS)]


def story(task: int, number: int, *, seed: int, split: str) -> Story:
    """Story `number` of a split: the first draft that has a good question and belongs there."""
    for attempt in numbers():
        random = Random(key(seed, f"stories/{task}/{split}", number, attempt))
        draft = TASKS[task](random)
        if draft is not None and split_of(draft) == split:
            return tell(random, draft)
    raise AssertionError("unreachable")


def stories(task: int, count: int, *, seed: int, split: str) -> Iterator[Story]:
    """The first `count` stories of a task, for "train", "validation" or "test"."""
    if task not in TASKS:
        raise UnknownName("task of stories", str(task), [str(one) for one in TASKS])
    if split not in SPLITS:
        raise UnknownName("split of stories", split, SPLITS)
    if count < 0:
        raise UsageError(f"cannot give {count} stories", hint="ask for 0 or more")
    return (story(task, number, seed=seed, split=split) for number in range(count))
