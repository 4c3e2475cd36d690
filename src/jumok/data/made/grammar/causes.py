"""Reasons, and what people do for them: who is tired rests at home, when it rains nobody plays soccer.

A line of the table is a reason and what is done (+) or not done (-): verb, objects after a colon, places after an @.
Not here  the sentences (clauses.py).
"""

from dataclasses import dataclass

from jumok.data.made.grammar.frames import MEETING, STAYING, THINGS, TRAVELLING, Frame
from jumok.data.made.grammar.words import PLACES, Noun, Place, noun


@dataclass(frozen=True, slots=True, eq=False)
class Doing:
    """What somebody does, or does not do, for a reason."""

    does: bool
    frame: Frame
    nouns: tuple[Noun, ...]
    places: tuple[Place, ...]

    @property
    def base(self) -> str:
        return self.frame.verb.base

    @property
    def once(self) -> bool:
        """Not said of a habit, nor asked of others."""
        return self.base in ("buy", "call", "meet")


TABLE = """
tired     -exercise -cook -clean:room,kitchen +take:taxi,bus +rest@home +sleep@home -run@park -go@market,park
sick      +go@hospital -go@school,office,market +rest@home +sleep@home -work -exercise -meet -swim@pool
hungry    +eat:sandwich,hamburger,bread,banana,ramen,pizza,rice,bibimbap +buy:bread,cookie,cake
          +make:sandwich,pizza,bibimbap +go@restaurant
thirsty   +drink:water,juice,milk,cola,green_tea +buy:water,juice,cola +go@cafe
sleepy    +drink:coffee,green_tea +sleep@home -read:book,novel -study:math,history,English -watch:movie
busy      -watch:movie,drama -meet -cook +take:taxi -exercise -call -go@park,beach,museum,gym -rest@home
bored     +watch:movie,drama +call +go@theater,park,zoo +play:soccer,baseball,basketball +read:novel,magazine
          +listen_to:music,radio
rain      +stay@home +take:bus,taxi,subway -play:soccer,baseball -go@park,zoo,beach -walk@park +close:window
          -run@park
snow      +stay@home -run@park +wear:coat,sweater -go@park,beach,market +take:subway,bus +close:window
          -play:soccer,baseball
cold      +wear:coat,sweater +close:window,door +drink:coffee,green_tea,milk -swim@beach -go@beach,park
          +stay@home +eat:soup,ramen
hot       +open:window,door +go@pool,beach +swim@pool,beach +drink:water,juice,cola +eat:watermelon,orange
          -run@park -exercise@park
exam      +study:math,history,science,English,Korean@library,home -watch:movie,drama -play:soccer,basketball
          +go@library,school -meet
"""
WEATHER = frozenset(("rain", "snow", "cold", "hot"))
FALLING = {"rain": "비", "snow": "눈"}
OF_THE_YOUNG = frozenset(("sick", "hungry", "thirsty", "sleepy", "bored", "exam"))
ASKED = frozenset(("rest", "sleep", "drink", "eat", "open", "close", "take", "go", "stay", "wear", "study", "watch"))
DUTIES = frozenset(["take", "go", "stay", "rest", "study", "close", "sleep", "wear"])
# what one does for another, why (the other's reason), why (one's own reason)
BETWEEN = (
    ("help", ("busy", "tired", "sick"), ()),
    ("call", ("sick", "busy"), ("bored", "happy", "sick")),
    ("wait for", ("busy",), ()),
    ("meet", ("bored",), ("bored", "happy")),
)
FRAMES = (*THINGS, *STAYING, *MEETING, *TRAVELLING)


def _doing(text: str) -> Doing:
    does, (rest, _, at) = text[0] == "+", text[1:].partition("@")
    verb, _, things = rest.partition(":")
    base = verb.replace("_", " ")
    nouns = tuple(noun(each.replace("_", " ")) for each in things.split(",") if each)
    places = tuple(PLACES[each.replace("_", " ")] for each in at.split(",") if each)
    frame = next(
        frame
        for frame in FRAMES
        if frame.verb.base == base
        and bool(nouns) == (frame.takes == "thing")
        and all(each in frame.objects for each in nouns)
        and (frame.takes != "place" or all(each in frame.objects for each in places))
    )
    return Doing(does, frame, nouns, places)


def _causes(table: str) -> tuple[tuple[str, tuple[Doing, ...]], ...]:
    rows: list[tuple[str, list[Doing]]] = []
    for word in table.split():
        if word[0] in "+-":
            rows[-1][1].append(_doing(word))
        else:
            rows.append((word, []))
    return tuple((name, tuple(doings)) for name, doings in rows)


def _active() -> tuple[tuple[Place, tuple[Frame, ...]], ...]:
    """What can be going on at a place when somebody arrives."""
    busy = [
        "eat",
        "drink",
        "read",
        "study",
        "cook",
        "sleep",
        "exercise",
        "swim",
        "play",
        "rest",
        "sing",
        "draw",
        "learn",
        "work",
    ]
    frames = [frame for frame in (*THINGS, *STAYING) if frame.verb.base in busy and not frame.receiver]
    by_place = {place: tuple(frame for frame in frames if place in frame.places) for place in PLACES.values()}
    visited = [
        place
        for frame in TRAVELLING
        if frame.verb.base == "come"
        for place in frame.objects
        if place.english != "school"
    ]
    return tuple((place, frames) for place, frames in by_place.items() if frames and place in visited)


CAUSES = _causes(TABLE)
ACTIVE = _active()
