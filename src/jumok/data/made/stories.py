"""Stories with a question: a small world of persons, places and things in the style of bAbI.

"Towards AI-Complete Question Answering" (Weston et al. 2015) has twenty tasks; those of `TASKS` are here, written from
scratch after the paper's examples:

    Mary moved to the bathroom.  /  John went back to the hallway.  /  Where is Mary?  →  bathroom

A task generates events and a question that these events answer; then each event is worded in one of several ways.
Every sentence among the `supports` is needed: without it the question has another answer, or none.

Keys     A story depends only on (seed, split, number); `stories(…, 10)` are the first ten of `stories(…, 100)`.
Splits   Events belong to one split by their hash, for every seed, wording and question; so training shares no story
         with validation or test.
Answers  One word.  Persons, places and things take part alike, so answers come equally often where a task allows it.
Not here events and sentences (plots.py), what follows from events (world.py), corpora on disk (corpora.py), the
         network for stories (models/memory.py).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from random import Random
from typing import NamedTuple

from jumok.data.made.plots import (
    ANIMALS,
    MOTIVES,
    NAMES,
    PLACES,
    TIMES,
    assign_colors,
    assign_fears,
    carry,
    feel_and_act,
    go_out,
    hand_on,
    lay_out,
    tell,
    walk,
)
from jumok.data.made.world import COUNTS, Event, World, all_needed
from jumok.errors import UnknownName, UsageError
from jumok.keys import key

SPLITS = ("train", "validation", "test")
BUCKETS = ("train", "train", "validation", "test")  # training gets half of all possible events


@dataclass(frozen=True, slots=True)
class Story:
    """Sentences, a question about them, its answer, and which sentences (from 0) the answer follows from."""

    sentences: tuple[str, ...]
    question: str
    answer: str
    supports: tuple[int, ...]

    @property
    def text(self) -> str:
        """One sentence per line, the question last."""
        return "\n".join((*self.sentences, self.question))


class QuestionAnswer(NamedTuple):
    """A question, its answer, and the sentences that it follows from."""

    question: str
    answer: str
    supports: tuple[int, ...]


class Task(NamedTuple):
    """How to generate events, and how to ask about them; `ask` returns None for events without a good question."""

    happen: Callable[[Random], list[Event]]
    ask: Callable[[Random, Sequence[Event]], QuestionAnswer | None]


# ---------------------------------------------------------------- questions


def persons(events: Sequence[Event]) -> list[str]:
    """All persons of a story, sorted by name."""
    return sorted({person for event in events for person in event.who.split(" and ")})


def ask_person(random: Random, events: Sequence[Event]) -> QuestionAnswer | None:
    """One supporting fact; a second where the sentence only says "she" or "they"."""
    who = random.choice(persons(events))
    ask = partial(World.place, person=who)
    known = ask(World(events))
    return QuestionAnswer(f"Where is {who}?", *known) if all_needed(events, known, ask) else None


def ask_thing(random: Random, events: Sequence[Event]) -> QuestionAnswer | None:
    """Two facts: a person took it and went there, or went there and left it."""
    world = World(events)
    for thing in random.sample(sorted(world.stays), len(world.stays)):
        known = world.where(thing)
        if all_needed(events, known, partial(World.where, thing=thing)):
            return QuestionAnswer(f"Where is the {thing}?", *known)
    return None


def ask_thing_before(random: Random, events: Sequence[Event]) -> QuestionAnswer | None:
    """Three facts: a person took it, went to one place, and then to another."""
    world = World(events)
    stays = [(thing, stay) for thing in sorted(world.stays) for stay in world.stays[thing]]
    candidates = [(thing, stay.fact) for thing, stay in stays if len(stay.supports) == 3]
    for thing, place in random.sample(candidates, len(candidates)):
        known = world.place_before(thing, place)
        if all_needed(events, known, partial(World.place_before, thing=thing, place=place)):
            return QuestionAnswer(f"Where was the {thing} before the {place}?", *known)
    return None


def ask_presence(random: Random, events: Sequence[Event]) -> QuestionAnswer:
    """Half of the time the answer is yes; otherwise the place is often one that the person visited."""
    who = random.choice(persons(events))
    known = World(events).place(who)
    if random.random() < 0.5:
        return QuestionAnswer(f"Is {who} in the {known.fact}?", "yes", known.supports)
    visited = sorted({event.what for event in events if event.who == who} - {known.fact})
    others = [place for place in PLACES if place != known.fact]
    place = random.choice(visited if visited and random.random() < 0.5 else others)
    return QuestionAnswer(f"Is {who} in the {place}?", "no", known.supports)


def ask_fear(random: Random, events: Sequence[Event]) -> QuestionAnswer:
    """An individual fears what its kind fears."""
    who = random.choice(NAMES)
    statements = {event.who: (event.what, number) for number, event in enumerate(events)}
    kind, first = statements[who]
    feared, second = statements[ANIMALS[kind].capitalize()]
    answer = next(animal for animal, plural in ANIMALS.items() if plural == feared)
    return QuestionAnswer(f"What is {who} afraid of?", answer, (first, second))


def ask_count(random: Random, events: Sequence[Event]) -> QuestionAnswer | None:
    """A fact for each thing that the person carries or has put down."""
    world, persons_by_count = World(events), dict[str, list[str]]()
    for who in persons(events):
        persons_by_count.setdefault(world.count_carried(who).fact, []).append(who)
    counts = sorted(persons_by_count, key=COUNTS.index)
    count = max(random.choices(counts, k=2), key=COUNTS.index)  # the larger of two, because large counts are rare
    who = random.choice(persons_by_count[count])
    known = world.count_carried(who)
    if not all_needed(events, known, partial(World.count_carried, person=who)):
        return None
    return QuestionAnswer(f"How many objects is {who} carrying?", *known)


def ask_gift(random: Random, events: Sequence[Event]) -> QuestionAnswer | None:
    """One fact with three parts, two of which are given; weights make all things and persons equally likely answers."""
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
    known = world.find_gift(**sides)
    needed = all_needed(events, known, lambda world: world.find_gift(**sides))
    return QuestionAnswer(question, *known) if needed else None


def ask_side(random: Random, events: Sequence[Event]) -> QuestionAnswer:
    """One fact, in which the order of words matters."""
    number = random.randrange(len(events))
    first, side, second, _ = events[number]
    if first == events[1 - number].what:  # the place in the middle
        return QuestionAnswer(f"What is the {first} {side} of?", second, (number,))
    return QuestionAnswer(f"What is {side} of the {second}?", first, (number,))


def ask_past_place(random: Random, events: Sequence[Event]) -> QuestionAnswer:
    """Two facts, ordered by time and not by their order in the story."""
    who = random.choice(persons(events))
    own = [number for number, event in enumerate(events) if event.who == who]
    own.sort(key=lambda number: TIMES.index(events[number].verb))
    later = random.randrange(1, len(own))
    before, after = own[later - 1], own[later]
    return QuestionAnswer(f"Where was {who} before the {events[after].what}?", events[before].what, (before, after))


def ask_color(random: Random, events: Sequence[Event]) -> QuestionAnswer:
    """Animals of one kind have the same color."""
    kinds = {event.who: (event.what, number) for number, event in enumerate(events) if event.verb == "be"}
    colors = {event.who: (event.what, number) for number, event in enumerate(events) if event.verb == "look"}
    (who,) = kinds.keys() - colors.keys()
    (other,) = (pet for pet, (kind, _) in kinds.items() if pet != who and kind == kinds[who][0])
    color, number = colors[other]
    return QuestionAnswer(f"What color is {who}?", color, (kinds[who][1], kinds[other][1], number))


def ask_motive(random: Random, events: Sequence[Event]) -> QuestionAnswer:
    """One fact, and the usual action for that feeling, which is not in the story and has to be learned."""
    who = random.choice(persons(events))
    feeling, *acts = [(event, number) for number, event in enumerate(events) if event.who == who]
    if not acts:
        return QuestionAnswer(f"Where will {who} go?", MOTIVES[feeling[0].what][0], (feeling[1],))
    act = random.choice(acts)[0]
    deed = f"go to the {act.what}" if act.verb == "go" else f"get the {act.what}"
    return QuestionAnswer(f"Why did {who} {deed}?", feeling[0].what, (feeling[1],))


TASKS: dict[int, Task] = {
    1: Task(walk, ask_person),
    2: Task(partial(carry, shortest=2, longest=30), ask_thing),
    3: Task(partial(carry, shortest=4, longest=60), ask_thing_before),
    4: Task(lay_out, ask_side),
    5: Task(hand_on, ask_gift),
    6: Task(walk, ask_presence),
    7: Task(partial(carry, shortest=2, longest=30), ask_count),
    11: Task(partial(walk, again=True), ask_person),
    12: Task(partial(walk, pairs=True), ask_person),
    13: Task(partial(walk, pairs=True, again=True), ask_person),
    14: Task(go_out, ask_past_place),
    15: Task(assign_fears, ask_fear),
    16: Task(assign_colors, ask_color),
    20: Task(feel_and_act, ask_motive),
}


# ---------------------------------------------------------------- stories


def split_of(events: Sequence[Event]) -> str:
    """The split of these events, which does not depend on their wording."""
    meaning = "\n".join(map(" ".join, events))
    return BUCKETS[blake2b(meaning.encode(), digest_size=4).digest()[0] % len(BUCKETS)]


def story(task: int, number: int, *, seed: int, split: str) -> Story:
    """Story `number` of a split: the first events that belong there and have a good question."""
    random = Random(key(seed, f"stories/{task}/{split}", number))
    while True:
        events = TASKS[task].happen(random)
        if split_of(events) == split and (chosen := TASKS[task].ask(random, events)) is not None:
            sentences = tuple([tell(random, event) for event in events])
            return Story(sentences, chosen.question, chosen.answer, tuple(sorted(chosen.supports)))


def stories(task: int, count: int, *, seed: int, split: str) -> Iterator[Story]:
    """The first `count` stories of a task, for "train", "validation" or "test"."""
    if task not in TASKS:
        raise UnknownName("made.unknown_story_task", str(task), map(str, TASKS))
    if split not in SPLITS:
        raise UnknownName("made.unknown_story_split", split, SPLITS)
    if count < 0:
        raise UsageError("made.negative_stories", count=count)
    return (story(task, number, seed=seed, split=split) for number in range(count))
