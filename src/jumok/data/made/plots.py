"""Events of stories, one generator per kind of story, and the sentences that express them.

Not here the questions about events (stories.py), what follows from events (world.py).
"""

from random import Random

from jumok.data.made.world import Event

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
MOTIVES = {
    "bored": ("garden", "football"), "hungry": ("kitchen", "apple"), "thirsty": ("kitchen", "milk"),
    "tired": ("bedroom", "pajamas"),
}  # fmt: skip
ACTORS = ("Antoine", "Jason", "Sumit", "Yann")

MOTIONS = ("moved to", "went to", "went back to", "journeyed to", "travelled to")
WORDINGS: dict[str, tuple[str, ...]] = {
    "go": tuple(f"{{who}} {verb} the {{what}}." for verb in MOTIONS),
    "go on": tuple(
        f"{when} {{they}} {verb} the {{what}}."
        for when in ("Then", "After that", "Afterwards", "Following that")
        for verb in MOTIONS
    ),
    "take": tuple(
        f"{{who}} {verb} the {{what}}{there}."
        for verb in ("got", "grabbed", "picked up", "took")
        for there in ("", " there")
    ),
    "drop": tuple(
        f"{{who}} {verb} the {{what}}{there}."
        for verb in ("discarded", "dropped", "left", "put down")
        for there in ("", " there")
    ),
    "give": tuple(f"{{who}} {verb} the {{what}} to {{whom}}." for verb in ("gave", "handed", "passed")),
    "be": ("{who} is a {what}.",),
    "look": ("{who} is {what}.",),
    "fear": ("{who} are afraid of {what}.",),
    **{where: (f"The {{who}} is {where} of the {{what}}.",) for where in OPPOSITES},
    **{when: (f"{when.capitalize()} {{who}} went to the {{what}}.", f"{{who}} went to the {{what}} {when}.")
       for when in TIMES},
}  # fmt: skip


def walk(random: Random, *, pairs: bool = False, again: bool = False) -> list[Event]:
    """Persons go from place to place, alone or in `pairs`; with `again`, every other sentence calls them "they"."""
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
    """Persons go from place to place, take things that lie there or are new, and put things down."""
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
    """Persons go from place to place, take things, and give them to persons in the same place."""
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


def lay_out(random: Random) -> list[Event]:
    """Three places: the first lies in some direction of the second, and the second of the third."""
    first, second, third = random.sample(PLACES, 3)
    side = random.choice(list(OPPOSITES))
    other = random.choice([direction for direction in OPPOSITES if direction != OPPOSITES[side]])
    return random.sample([Event(first, side, second), Event(second, other, third)], 2)


def go_out(random: Random) -> list[Event]:
    """Where some persons were at several times, in random order."""
    events = list[Event]()
    for who in random.sample(GUESTS, random.randint(2, 4)):
        times = random.sample(TIMES, random.randint(2, 4))
        places = random.sample(OUTINGS, len(times))
        events += [Event(who, when, place) for when, place in zip(times, places, strict=True)]
    return random.sample(events, len(events))


def assign_fears(random: Random) -> list[Event]:
    """What each kind of animal fears, and the kind of each individual, in random order."""
    events = [Event(name, "be", random.choice(list(ANIMALS))) for name in NAMES]
    for kind in ANIMALS:
        feared = random.choice([feared for feared in ANIMALS if feared != kind])
        events.append(Event(ANIMALS[kind].capitalize(), "fear", ANIMALS[feared]))
    random.shuffle(events)
    return events


def assign_colors(random: Random) -> list[Event]:
    """The kind and color of each pet; of two pets of one kind, only one color is given."""
    pets, beasts = random.sample(PETS, len(PETS)), random.sample(BEASTS, len(BEASTS))
    kinds = [beasts[0], beasts[0], *(random.choice(beasts[1:]) for _ in pets[2:])]
    colors = {beast: random.choice(COLORS) for beast in BEASTS}
    events = [Event(pet, "be", kind) for pet, kind in zip(pets, kinds, strict=True)]
    events += [Event(pet, "look", colors[kind]) for pet, kind in zip(pets[1:], kinds[1:], strict=True)]
    return random.sample(events, len(events))


def feel_and_act(random: Random) -> list[Event]:
    """Persons have a feeling; some of them go where it can be relieved, and some of these take what relieves it."""
    plots = list[list[Event]]()
    for who in random.sample(ACTORS, random.randint(1, 4)):
        feeling, (place, thing) = random.choice(list(MOTIVES.items()))
        plots.append([Event(who, "look", feeling), Event(who, "go", place), Event(who, "take", thing)])
        del plots[-1][random.randint(1, 3) :]
    turns = [number for number, plot in enumerate(plots) for _ in plot]
    return [plots[number].pop(0) for number in random.sample(turns, len(turns))]


def pronoun(who: str) -> str:
    return "they" if " and " in who else "he" if who in MEN else "she"


def tell(random: Random, event: Event) -> str:
    """A sentence for an event."""
    return random.choice(WORDINGS[event.verb]).format(**event._asdict(), they=pronoun(event.who))
