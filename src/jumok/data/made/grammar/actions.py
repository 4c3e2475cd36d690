"""What people do: the clause that statements, questions and requests build on.

English order   call · time · subject · verb · object · to · tool · with · place · how long · time
Korean order    call · time · subject · time · how long · why · place · with · to · tool · object · verb

English decides everything: a question to "you" drops the subject, "don't" is 안 and "do not" is -지 않다, "can't" is
못 and "cannot" is -ㄹ 수 없다, "too" is 도 on the subject, a time before the subject stays before it.
Not here        statements (statements.py), questions, requests (appeals.py), being and having (states.py).
"""

from bisect import bisect
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

from jumok.data.made.grammar import people
from jumok.data.made.grammar.draft import (
    ASKED,
    COMPANY,
    MAIN,
    NOUN,
    OBJECT,
    PLACE,
    RECEIVER,
    SPAN,
    SUBJECT,
    TIME,
    TOOL,
    VERB,
    Draft,
    English,
    Korean,
    Mood,
    Negation,
    Part,
    Person,
    Talk,
)
from jumok.data.made.grammar.frames import GIVING, MEETING, STAYING, THINGS, TRAVELLING, Frame
from jumok.data.made.grammar.nouns import (
    a_person,
    a_subject,
    a_thing,
    object_pronoun,
    place_phrase,
)
from jumok.data.made.grammar.predicates import Manner, verb_group
from jumok.data.made.grammar.times import AGO, DAY_PART, LASTING, NOW, OFTEN, YEARS_AGO, a_time
from jumok.data.made.grammar.words import Noun


@dataclass(slots=True)
class Clause:
    """A verb and everything around it; `asked` is the constituent that a question word replaces."""

    frame: Frame
    subject: Person
    mood: Mood
    negation: Negation = ""
    object: Part | None = None
    receiver: Part | None = None
    tool: Part | None = None
    company: Part | None = None
    place: Part | None = None
    span: Part | None = None
    time: Part | None = None
    time_at: str = "end"  # end, front or middle
    why: Part | None = None
    asked: Part | None = None
    role: str = ""
    extra: str = ""  # too, either or only
    dative: bool = False  # gave Jisu a book
    before: tuple[Korean, ...] = ()  # a second clause, which Korean puts after subject and time


MOODS: dict[str, tuple[tuple[Mood, ...], tuple[float, ...]]] = {
    "action": (
        ("past", "future", "present", "want", "can", "progressive", "must", "wanted", "could"),
        (0.34, 0.55, 0.70, 0.79, 0.86, 0.92, 0.96, 0.98, 1.0),
    ),
    "moment": (
        ("past", "future", "present", "want", "can", "must", "wanted", "could"),
        (0.4, 0.64, 0.76, 0.85, 0.91, 0.96, 0.98, 1.0),
    ),
    "change": (("past", "future", "want", "must"), (0.5, 0.82, 0.93, 1.0)),
    "state": (("present", "past"), (0.8, 1.0)),
    "loss": (("past",), (1.0,)),
}


def _verbs(names: str) -> frozenset[str]:
    return frozenset(name.strip() for name in names.split(","))


UNABLE = _verbs(  # of these one does not say "can" or "could"
    """look for, find, lose, rest, wait, wait for, sleep, choose, clean, stay, walk, listen to, like, move, thank, hit,
    wear, watch, work, see, need, follow"""
)
HOURLY = _verbs(  # at ten past six
    """eat, drink, watch, take, meet, call, go, come, arrive, exercise, open, close, leave for, swim,
    study, walk"""
)
RECENT = _verbs("eat, drink, buy, meet, call, go, come, arrive, open, close, see, send, give")  # ten minutes ago
GROWN = _verbs("sell, teach, work, lend, move, cook, leave for")  # not what children do
SPIRITED = _verbs("run, hit, follow, draw, borrow, lose, play, learn, sing, exercise, see, swim")  # nor grandparents
YOUNG = frozenset(("the children", "the students", "younger brother", "younger sister"))
SPIRITS = frozenset(("beer", "wine", "coffee"))
ELDERS = frozenset(english for english, _ in people.ELDERS)
FRAMES = (
    (THINGS, 0.55),
    (TRAVELLING, 0.72),
    (STAYING, 0.85),
    (MEETING, 0.93),
    (GIVING, 1.0),
)
THING_STEPS = tuple(  # "need" counts twice, because it alone takes the particle 이/가
    accumulate(max(2.0, len(frame.objects) ** 0.6) * (1 + (frame.role == "subject")) for frame in THINGS)
)


def a_frame(talk: Talk) -> Frame:
    share = talk.random.random()
    frames = next(frames for frames, limit in FRAMES if share < limit)
    if frames is THINGS:
        return THINGS[bisect(THING_STEPS, talk.random.random() * THING_STEPS[-1])]
    return talk.choose(frames)


def a_mood(talk: Talk, frame: Frame) -> Mood:
    moods, limits = MOODS[frame.verb.aspect]
    mood = moods[bisect(limits, talk.random.random())]
    if frame.verb.base == "know" or (frame.verb.base == "like" and frame.takes == "thing"):
        return "present"  # knew would be 알고 있었어요, liked this coat 마음에 들었어요
    if mood in ("can", "could") and frame.verb.base in UNABLE:
        return "past"
    if mood in ("want", "must") and frame.verb.base in ("find", "arrive"):
        return "past"
    if mood == "future" and frame.verb.base == "find":
        return "past"
    return "past" if frame.once and mood == "present" else mood


def fits(person: Person, frame: Frame) -> bool:
    """Whether such people do such things: children do not sell, grandfathers do not run."""
    key, base = person.part.key, frame.verb.base
    return not ((key in YOUNG and base in GROWN) or (key in ELDERS and base in SPIRITED))


def a_doer(talk: Talk, frame: Frame) -> Person:
    """Draw a subject that fits the frame."""
    while True:
        drawn = a_subject(talk)
        if fits(drawn, frame):
            return drawn


UNREFUSED = frozenset(("lose", "choose", "need", "become", "follow"))


def a_negation(talk: Talk, mood: Mood, subject: Person, base: str, share: float = 0.22) -> Negation:
    """Draw a negation: want has one form, must has none, and "am not" has no short form."""
    if mood == "must" or not talk.chance(share) or base in UNREFUSED:
        return ""
    if mood in ("want", "wanted"):
        return "short"
    if mood == "progressive" and subject.number == "I":
        return "long"
    return "short" if talk.chance(0.6) else "long"


@cache
def habitual(frame: Frame) -> str:
    """Return the determiners that fit a habit: one does not buy this hat every day."""
    if frame.verb.aspect == "state":
        return frame.determiners
    if frame.verb.base in ("buy", "sell", "make", "cut", "draw"):
        return "generic"
    styles = [style for style in frame.determiners.split() if style in ("a", "number", "adjective")]
    return " ".join(styles) or frame.determiners


def an_object(talk: Talk, frame: Frame, mood: Mood, negation: Negation, subject: Person) -> Part | None:
    """Draw the object; it has neither number nor adjective in a negation."""
    if frame.takes == "nothing":
        return None
    if frame.takes == "person":
        if subject.number in ("third", "you") and mood != "present" and talk.chance(0.2):
            return object_pronoun("I", talk.level)
        if subject.number != "third" and talk.chance(0.15):
            return object_pronoun(talk.choose(("he", "she")), talk.level)
        return a_person(talk, elders=False, crowds=False).part
    chosen = talk.choose(frame.objects)
    while isinstance(chosen, Noun) and chosen.english in SPIRITS and subject.part.key in YOUNG:
        chosen = talk.choose(frame.objects)
    if isinstance(chosen, Noun):
        styles = habitual(frame) if mood == "present" else frame.determiners
        if negation:
            styles = styles.replace("number", "a").replace("adjective", "generic" if "generic" in styles else "a")
        owner = {"he": "his", "she": "her"}.get(subject.pronoun, "")
        if subject.number in ("we", "you") or (not owner and subject.number != "I"):
            styles = styles.replace("my", "the")
        return a_thing(talk, chosen, styles, owner)
    return place_phrase(chosen, frame.form)


@cache
def add_preposition(preposition: str, part: Part) -> Part:
    """With Minsu, to Minsu: English has a preposition, Korean a particle."""
    return Part(((preposition, NOUN), *part.english), part.korean, part.key)


@cache
def tool_phrase(english: str, korean: str) -> Part:
    return Part(((english, 1),), ((korean, "", 1),))


def a_receiver(talk: Talk, clause: Clause) -> Part:
    """To Jisu, or only Jisu before the object: she gave Jisu a book."""
    receiver = a_person(talk, elders=False, crowds=False).part
    if clause.subject.number == "third" and talk.chance(0.2):
        receiver = object_pronoun("I", talk.level)
    if clause.frame.verb.base in ("give", "send", "lend", "show") and talk.chance(0.5):
        clause.dative = True
        return receiver
    return add_preposition("to", receiver)


def a_clause(talk: Talk, subject: Person, frame: Frame, mood: Mood, negation: Negation = "") -> Clause:
    """Draw the object and at most three adverbials, to keep sentences short."""
    clause = Clause(frame, subject, mood, negation)
    clause.object = an_object(talk, frame, mood, negation, subject)
    clause.role = frame.role if clause.object else ""
    if frame.receiver:
        clause.receiver = a_receiver(talk, clause)
    if frame.tools and talk.chance(0.5) and not negation:
        clause.tool = tool_phrase(*talk.choose(frame.tools))
    elif frame.company and talk.chance(0.22):
        clause.company = add_preposition("with", a_person(talk, crowds=False).part)
    need = 0.9 if frame.takes == "nothing" else 0.4
    if frame.places and not clause.tool and talk.chance(need):
        clause.place = place_phrase(talk.choose(frame.places), "at")
    if frame.lasts and not negation and mood in ("past", "future", "must") and talk.chance(0.15) and not clause.company:
        clause.span = talk.choose(LASTING)
    return clause


UNFRONTED = frozenset((NOW, *AGO, *YEARS_AGO))  # "ten minutes ago" sounds better at the end


def add_time(talk: Talk, clause: Clause, *, asks: bool) -> None:
    """Add a time to most sentences; nearly always for a habit, never for a state such as "like"."""
    mood = clause.mood
    if clause.frame.verb.aspect == "state":
        return
    if mood == "present" and not clause.negation and talk.chance(0.35):
        clause.time, clause.time_at = talk.choose(OFTEN), "middle"
    elif mood == "present" and clause.negation:
        clause.time = talk.choose(DAY_PART) if talk.chance(0.85) else None
    elif talk.chance(0.95 if mood == "present" and not asks else 0.55):
        base = clause.frame.verb.base
        hours = base in HOURLY and not clause.negation
        clause.time = a_time(
            talk, mood, era=clause.frame.era, hours=hours, minutes=base in RECENT and mood in ("past", "future")
        )
        if clause.time not in UNFRONTED and not asks and talk.chance(0.2):
            clause.time_at = "front"


def combine(draft: Draft, clause: Clause) -> None:
    """Note the word combinations of a clause, so that some can be excluded from training."""
    verb = clause.frame.verb.stem.text + "다"
    if clause.object and clause.object.key and clause.frame.takes != "person":
        draft.combinations.append(f"{verb}+{clause.object.key}")
    if clause.object and clause.object.combination:
        draft.combinations.append(clause.object.combination)
    if clause.place and clause.place.key:
        draft.combinations.append(f"{verb}@{clause.place.key}")


def tell(talk: Talk, draft: Draft, clause: Clause, *, asks: bool = False, inverts: bool = False) -> None:
    """Write the clause in both languages."""
    subject = clause.subject = drop(talk, clause.subject, asks=asks or bool(clause.extra or clause.before))
    other = subject.number in ("third", "plural")
    manner = Manner(talk.level, asks, subject.honoured, other, talk.form, refuse(talk, clause.negation))
    front, rest, predicate = verb_group(
        clause.frame.verb, clause.mood, clause.negation, subject.number, inverts, manner
    )
    english_clause(draft, clause, front, rest)
    korean_clause(talk, draft, clause)
    draft.end(predicate, asks=asks)
    combine(draft, clause)


def refuse(talk: Talk, negation: Negation) -> Negation:
    """The Korean negation, 안 or -지 않다: that of the English, if it is not free."""
    if not negation:
        return ""
    forms: tuple[Negation, Negation] = ("short", "long")
    return forms[talk.way(forms.index(negation), 0.6, 0.4)]


def english_clause(draft: Draft, clause: Clause, front: tuple[English, ...], rest: tuple[English, ...]) -> None:
    say, subject = draft.say, clause.subject
    if clause.asked:
        say(clause.asked.front, ASKED)
    if clause.time and clause.time_at == "front":
        say(clause.time.english, TIME)
    say(front, VERB)
    say(subject.part.english, SUBJECT if subject.part.korean else VERB)
    if clause.time and clause.time_at == "middle":
        say(clause.time.english, TIME)
    if clause.extra == "only":
        say(rest[:-1], VERB)
        say((("only", NOUN),), OBJECT)
        rest = rest[-1:]
    say(rest, VERB)
    if clause.dative and clause.receiver:
        say(clause.receiver.english, ASKED if clause.receiver is clause.asked else RECEIVER)
    for part, shift in (
        (clause.object, OBJECT),
        (None if clause.dative else clause.receiver, RECEIVER),
        (clause.tool, TOOL),
        (clause.company, COMPANY),
        (clause.place, PLACE),
        (clause.span, SPAN),
        (clause.time if clause.time_at == "end" else None, TIME),
    ):
        if part:
            say(part.english, ASKED if part is clause.asked else shift)
    if clause.extra in ("too", "either"):
        draft.echo = clause.extra


def korean_clause(talk: Talk, draft: Draft, clause: Clause) -> None:
    speak, asked = draft.speak, clause.asked
    free = clause.subject.part.korean and clause.subject.part is not asked and not clause.before
    front = clause.time_at == "front"
    if clause.time and clause.time is not asked and free and talk.form == "end":
        front = bool(talk.way(int(front), 0.7, 0.3))
    time_shift = ASKED if clause.time is asked else TIME
    if clause.time and front:
        speak(clause.time, time_shift)
    if clause.subject.part.korean:
        topic = "subject" if clause.subject.part is asked or talk.form != "end" else "topic"
        topic = "also" if clause.extra in ("too", "either") else topic
        speak(clause.subject.part, ASKED if clause.subject.part is asked else SUBJECT, topic)
    if clause.time and not front:
        speak(clause.time, time_shift)
    if clause.span:
        speak(clause.span, SPAN)
    if clause.before:
        draft.korean.append((clause.before, 0, ""))
    place = (clause.place, PLACE, clause.frame.place_role)
    late = clause.place and clause.object and talk.form == "end" and not clause.before
    late = bool(late and clause.frame.place_role == "at" and talk.way(0, 0.75, 0.25))
    borne = talk.to_person() if clause.role == "person" else clause.role
    for part, shift, role in (
        (clause.why, ASKED, ""),
        *(() if late else (place,)),
        (clause.company, COMPANY, talk.together() if clause.company else ""),
        (clause.receiver, RECEIVER, talk.to_person() if clause.receiver else ""),
        (clause.tool, TOOL, "toward"),
        (clause.object, OBJECT, "only" if clause.extra == "only" else borne),
        *((place,) if late else ()),
    ):
        if part:
            speak(part, ASKED if part is asked else shift, role)


def drop(talk: Talk, person: Person, *, asks: bool) -> Person:
    """I, which Korean often leaves out; then the verb stands for it."""
    if person.number != "I" or asks or not talk.way(0, 0.6, 0.4):
        return person
    return Person(Part((("I", MAIN),), (), "I"), "I")
