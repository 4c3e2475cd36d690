"""Stories with a question: a small world of persons, places and things, told in sentences, in the manner of bAbI.

"Towards AI-Complete Question Answering" (Weston et al. 2015) numbers twenty tasks; those of `TASKS` are here, written
anew after the paper's examples:

    Mary moved to the bathroom.  /  John went back to the hallway.  /  Where is Mary?  →  bathroom

A task lets things happen, and finds a question that these events alone answer; then they are told, each in one of
several wordings.  Every sentence among the `supports` is needed: without it the question has another answer, or none.

Keys     A story follows from (seed, split, number) alone; `stories(…, 10)` are the first ten of `stories(…, 100)`.
Splits   What happens belongs to one split by its hash, whatever the seed, the wording and the question; so training
         shares no story with validation or test.
Answers  One word.  Persons, places and things take part alike, so answers come equally often where a task allows it.
Not here what follows from events (world.py), corpora on disk (corpora.py), the network for stories (models/memory.py).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from random import Random
from typing import NamedTuple

from jumok.data.made.world import COUNTS, Event, World, needed
from jumok.errors import UnknownName, UsageError
from jumok.keys import key

SPLITS = ("train", "validation", "test")
BUCKETS = ("train", "train", "validation", "test")  # of all that can happen, training gets half

MEN, WOMEN = ("Daniel", "John"), ("Mary", "Sandra")
PERSONS = (*MEN, *WOMEN)
PLACES = ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")
THINGS = ("apple", "football", "milk")
OPPOSITES = {"north": "south", "south": "north", "east": "west", "west": "east"}
GIVERS = ("Bill", "Fred", "Jeff", "Mary")
TIMES = ("yesterday", "this morning", "this afternoon", "this evening")
GUESTS, OUTINGS = ("Bill", "Fred", "Julie", "Mary"), ("bedroom", "cinema", "kitchen", "office", "park", "school")
ANIMALS = {"cat": "cats", "mouse": "mice", "sheep": "sheep", "wolf": "wolves"}
NAMES = ("Emily", "Gertrude", "Jessica", "Winona")
BEASTS, COLORS = ("frog", "lion", "rhino", "swan"), ("gray", "green", "white", "yellow")
PETS = ("Bernhard", "Brian", "Greg", "Julius", "Lily")
WISHES = {
    "bored": ("garden", "football"), "hungry": ("kitchen", "apple"), "thirsty": ("kitchen", "milk"),
    "tired": ("bedroom", "pajamas"),
}  # fmt: skip
WISHERS = ("Antoine", "Jason", "Sumit", "Yann")

WAYS = ("moved to", "went to", "went back to", "journeyed to", "travelled to")
WORDINGS: dict[str, tuple[str, ...]] = {
    "go": tuple(f"{{who}} {way} the {{what}}." for way in WAYS),
    "go on": tuple(
        f"{when} {{they}} {way} the {{what}}."
        for when in ("Then", "After that", "Afterwards", "Following that")
        for way in WAYS
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
    "give": tuple(f"{{who}} {way} the {{what}} to {{whom}}." for way in ("gave", "handed", "passed")),
    "be": ("{who} is a {what}.",),
    "look": ("{who} is {what}.",),
    "fear": ("{who} are afraid of {what}.",),
    **{where: (f"The {{who}} is {where} of the {{what}}.",) for where in OPPOSITES},
    **{when: (f"{when.capitalize()} {{who}} went to the {{what}}.", f"{{who}} went to the {{what}} {when}.")
       for when in TIMES},
}  # fmt: skip


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


class Asked(NamedTuple):
    """A question, its answer, and the sentences that it follows from."""

    question: str
    answer: str
    supports: tuple[int, ...]


class Task(NamedTuple):
    """What happens, and what is asked about it; None where these events have no good question."""

    happen: Callable[[Random], list[Event]]
    ask: Callable[[Random, Sequence[Event]], Asked | None]


# ---------------------------------------------------------------- what happens


def walk(random: Random, *, pairs: bool = False, again: bool = False) -> list[Event]:
    """Persons go from place to place: alone or in `pairs`, and with `again` every other sentence only says "they"."""
    at, events, who = dict[str, str](), list[Event](), ""
    length = random.randrange(2, 11, 2) if again else random.randint(2, 10)
    while len(events) < length:
        going_on = again and len(events) % 2 == 1
        if not going_on:
            who = " and ".join(random.sample(PERSONS, 2)) if pairs else random.choice(PERSONS)
        left = {at.get(person) for person in who.split(" and ")}
        place = random.choice([place for place in PLACES if place not in left])
        at |= dict.fromkeys(who.split(" and "), place)
        events.append(Event(who, "go on" if going_on else "go", place))
    return events


def carry(random: Random, shortest: int, longest: int) -> list[Event]:
    """Persons go from place to place, take what lies there or what nobody has seen yet, and put things down."""
    at, held, lying, events = dict[str, str](), dict[str, str](), dict[str, str](), list[Event]()
    length = random.randint(shortest, longest)
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


def hand_on(random: Random) -> list[Event]:
    """Persons go from place to place, take things, and give them to whoever is there."""
    at, held, events = dict[str, str](), dict[str, str](), list[Event]()
    length = random.randint(3, 20)
    while len(events) < length:
        who = random.choice(GIVERS)
        own = [thing for thing, holder in held.items() if holder == who]
        near = [other for other in GIVERS if other != who and other in at and at[other] == at.get(who)]
        free = [thing for thing in THINGS if thing not in held]
        if own and near and random.random() < 0.7:
            thing, whom = random.choice(own), random.choice(near)
            held[thing] = whom
            events.append(Event(who, "give", thing, whom))
        elif who in at and free and random.random() < 0.5:
            thing = random.choice(free)
            held[thing] = who
            events.append(Event(who, "take", thing))
        else:
            at[who] = random.choice([place for place in PLACES[:4] if place != at.get(who)])  # few, so that they meet
            events.append(Event(who, "go", at[who]))
    return events


def lie_beside(random: Random) -> list[Event]:
    """Three places, the second on some side of the third and the first on some side of the second."""
    first, second, third = random.sample(PLACES, 3)
    side = random.choice(list(OPPOSITES))
    other = random.choice([one for one in OPPOSITES if one != OPPOSITES[side]])
    return random.sample([Event(first, side, second), Event(second, other, third)], 2)


def go_out(random: Random) -> list[Event]:
    """Where some persons were at several times, all of it in any order."""
    events = list[Event]()
    for who in random.sample(GUESTS, random.randint(2, 4)):
        times = random.sample(TIMES, random.randint(2, 4))
        places = random.sample(OUTINGS, len(times))
        events += [Event(who, when, place) for when, place in zip(times, places, strict=True)]
    return random.sample(events, len(events))


def kinds_and_fears(random: Random) -> list[Event]:
    """What all of a kind fear, and who is of which kind, in any order."""
    events = [Event(name, "be", random.choice(list(ANIMALS))) for name in NAMES]
    for one in ANIMALS:
        other = random.choice([other for other in ANIMALS if other != one])
        events.append(Event(ANIMALS[one].capitalize(), "fear", ANIMALS[other]))
    random.shuffle(events)
    return events


def kinds_and_colors(random: Random) -> list[Event]:
    """Who is of which kind and of which color; of two of a kind, only one has its color told."""
    pets, beasts = random.sample(PETS, len(PETS)), random.sample(BEASTS, len(BEASTS))
    kinds = [beasts[0], beasts[0], *(random.choice(beasts[1:]) for _ in pets[2:])]
    colors = {beast: random.choice(COLORS) for beast in BEASTS}
    events = [Event(pet, "be", kind) for pet, kind in zip(pets, kinds, strict=True)]
    events += [Event(pet, "look", colors[kind]) for pet, kind in zip(pets[1:], kinds[1:], strict=True)]
    return random.sample(events, len(events))


def wish(random: Random) -> list[Event]:
    """Persons feel something, some of them go where it can be helped, and some of these take what helps."""
    plots = list[list[Event]]()
    for who in random.sample(WISHERS, random.randint(1, 4)):
        feeling, (place, thing) = random.choice(list(WISHES.items()))
        plots.append([Event(who, "look", feeling), Event(who, "go", place), Event(who, "take", thing)])
        del plots[-1][random.randint(1, 3) :]
    turns = [number for number, plot in enumerate(plots) for _ in plot]
    return [plots[number].pop(0) for number in random.sample(turns, len(turns))]


# ---------------------------------------------------------------- what is asked


def persons(events: Sequence[Event]) -> list[str]:
    """Everybody in a story, by name."""
    return sorted({person for event in events for person in event.who.split(" and ")})


def where_is_a_person(random: Random, events: Sequence[Event]) -> Asked | None:
    """One supporting fact; a second where the sentence only says "she" or "they"."""
    who = random.choice(persons(events))
    ask = partial(World.place, person=who)
    known = ask(World(events))
    return Asked(f"Where is {who}?", *known) if needed(events, known, ask) else None


def where_is_a_thing(random: Random, events: Sequence[Event]) -> Asked | None:
    """Two facts: somebody took it, and went there; or went there, and left it."""
    world = World(events)
    for thing in random.sample(sorted(world.stays), len(world.stays)):
        known = world.where(thing)
        if needed(events, known, partial(World.where, thing=thing)):
            return Asked(f"Where is the {thing}?", *known)
    return None


def where_was_a_thing(random: Random, events: Sequence[Event]) -> Asked | None:
    """Three facts: somebody took it, went to one place, and then to another."""
    world = World(events)
    stays = [(thing, stay) for thing in sorted(world.stays) for stay in world.stays[thing]]
    asked = [(thing, stay.fact) for thing, stay in stays if len(stay.supports) == 3]
    for thing, place in random.sample(asked, len(asked)):
        known = world.before(thing, place)
        if needed(events, known, partial(World.before, thing=thing, place=place)):
            return Asked(f"Where was the {thing} before the {place}?", *known)
    return None


def is_a_person_there(random: Random, events: Sequence[Event]) -> Asked:
    """The place that is asked for is right half of the time, and otherwise often one where the person was."""
    who = random.choice(persons(events))
    known = World(events).place(who)
    if random.random() < 0.5:
        return Asked(f"Is {who} in the {known.fact}?", "yes", known.supports)
    visited = sorted({event.what for event in events if event.who == who} - {known.fact})
    others = [place for place in PLACES if place != known.fact]
    place = random.choice(visited if visited and random.random() < 0.5 else others)
    return Asked(f"Is {who} in the {place}?", "no", known.supports)


def what_is_feared(random: Random, events: Sequence[Event]) -> Asked:
    """What all of a kind fear, one of them fears."""
    who = random.choice(NAMES)
    said = {event.who: (event.what, number) for number, event in enumerate(events)}
    kind, first = said[who]
    feared, second = said[ANIMALS[kind].capitalize()]
    answer = next(one for one, many in ANIMALS.items() if many == feared)
    return Asked(f"What is {who} afraid of?", answer, (first, second))


def how_many_things(random: Random, events: Sequence[Event]) -> Asked | None:
    """As many facts as there are things to be counted, or not to be counted any more."""
    world, found = World(events), dict[str, list[str]]()
    for who in persons(events):
        found.setdefault(world.carried(who).fact, []).append(who)
    count = max(random.choices(sorted(found, key=COUNTS.index), k=2), key=COUNTS.index)  # many are rarer than few
    who = random.choice(found[count])
    known = world.carried(who)
    if not needed(events, known, partial(World.carried, person=who)):
        return None
    return Asked(f"How many objects is {who} carrying?", *known)


def who_gave_what_to_whom(random: Random, events: Sequence[Event]) -> Asked | None:
    """One fact with three sides, of which two are told; as often each of three things as each of four persons."""
    world = World(events)
    if not world.gifts:
        return None
    who, _, what, whom = random.choice(world.gifts)[0]
    question, sides = random.choices(
        (
            (f"What did {who} give to {whom}?", {"who": who, "whom": whom}),
            (f"Who gave the {what} to {whom}?", {"what": what, "whom": whom}),
            (f"Who did {who} give the {what} to?", {"who": who, "what": what}),
        ),
        weights=(3, 2, 2),
    )[0]
    known = world.gave(**sides)
    return Asked(question, *known) if needed(events, known, lambda world: world.gave(**sides)) else None


def what_lies_beside(random: Random, events: Sequence[Event]) -> Asked:
    """One fact, in which the order of words matters."""
    number = random.randrange(len(events))
    one, side, other, _ = events[number]
    if one == events[1 - number].what:  # the place in the middle
        return Asked(f"What is the {one} {side} of?", other, (number,))
    return Asked(f"What is {side} of the {other}?", one, (number,))


def where_was_a_person(random: Random, events: Sequence[Event]) -> Asked:
    """Two facts, ordered by time and not as they are told."""
    who = random.choice(persons(events))
    own = [number for number, event in enumerate(events) if event.who == who]
    own.sort(key=lambda number: TIMES.index(events[number].verb))
    later = random.randrange(1, len(own))
    before, after = own[later - 1], own[later]
    return Asked(f"Where was {who} before the {events[after].what}?", events[before].what, (before, after))


def of_what_color(random: Random, events: Sequence[Event]) -> Asked:
    """What one of a kind looks like, another does too."""
    kinds = {event.who: (event.what, number) for number, event in enumerate(events) if event.verb == "be"}
    colors = {event.who: (event.what, number) for number, event in enumerate(events) if event.verb == "look"}
    (who,) = kinds.keys() - colors.keys()
    (other,) = (pet for pet, (kind, _) in kinds.items() if pet != who and kind == kinds[who][0])
    color, number = colors[other]
    return Asked(f"What color is {who}?", color, (kinds[who][1], kinds[other][1], number))


def why_or_where(random: Random, events: Sequence[Event]) -> Asked:
    """One fact, and what people do who feel so: that is told nowhere and has to be learnt."""
    who = random.choice(persons(events))
    feeling, *acts = [(event, number) for number, event in enumerate(events) if event.who == who]
    if not acts:
        return Asked(f"Where will {who} go?", WISHES[feeling[0].what][0], (feeling[1],))
    act = random.choice(acts)[0]
    deed = f"go to the {act.what}" if act.verb == "go" else f"get the {act.what}"
    return Asked(f"Why did {who} {deed}?", feeling[0].what, (feeling[1],))


TASKS: dict[int, Task] = {
    1: Task(walk, where_is_a_person),
    2: Task(partial(carry, shortest=2, longest=30), where_is_a_thing),
    3: Task(partial(carry, shortest=4, longest=60), where_was_a_thing),
    4: Task(lie_beside, what_lies_beside),
    5: Task(hand_on, who_gave_what_to_whom),
    6: Task(walk, is_a_person_there),
    7: Task(partial(carry, shortest=2, longest=30), how_many_things),
    11: Task(partial(walk, again=True), where_is_a_person),
    12: Task(partial(walk, pairs=True), where_is_a_person),
    13: Task(partial(walk, pairs=True, again=True), where_is_a_person),
    14: Task(go_out, where_was_a_person),
    15: Task(kinds_and_fears, what_is_feared),
    16: Task(kinds_and_colors, of_what_color),
    20: Task(wish, why_or_where),
}


# ---------------------------------------------------------------- stories


def pronoun(who: str) -> str:
    return "they" if " and " in who else "he" if who in MEN else "she"


def tell(random: Random, event: Event) -> str:
    """A sentence for an event."""
    return random.choice(WORDINGS[event.verb]).format(**event._asdict(), they=pronoun(event.who))


def split_of(events: Sequence[Event]) -> str:
    """The split that owns these events, whatever their words."""
    meaning = "\n".join(map(" ".join, events))
    return BUCKETS[blake2b(meaning.encode(), digest_size=4).digest()[0] % len(BUCKETS)]


def story(task: int, number: int, *, seed: int, split: str) -> Story:
    """Story `number` of a split: the first events that belong there and have a good question."""
    random = Random(key(seed, f"stories/{task}/{split}", number))
    while True:
        events = TASKS[task].happen(random)
        if split_of(events) == split and (asked := TASKS[task].ask(random, events)) is not None:
            sentences = tuple([tell(random, event) for event in events])
            return Story(sentences, asked.question, asked.answer, tuple(sorted(asked.supports)))


def stories(task: int, count: int, *, seed: int, split: str) -> Iterator[Story]:
    """The first `count` stories of a task, for "train", "validation" or "test"."""
    if task not in TASKS:
        raise UnknownName("made.unknown_story_task", str(task), map(str, TASKS))
    if split not in SPLITS:
        raise UnknownName("made.unknown_story_split", split, SPLITS)
    if count < 0:
        raise UsageError("made.negative_stories", count=count)
    return (story(task, number, seed=seed, split=split) for number in range(count))
