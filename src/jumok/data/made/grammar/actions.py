"""Sentences about actions: statements, contrasts, and the clause that questions and requests build on.

English order   call · time · subject · verb · object · to · tool · with · place · how long · time
Korean order    call · time · subject · time · how long · why · place · with · to · tool · object · verb

English decides everything: a question to "you" drops the subject, "don't" is 안 and "do not" is -지 않다, "can't" is
못 and "cannot" is -ㄹ 수 없다, "too" is 도 on the subject, a time before the subject stays before it.
Not here        questions (questions.py), requests (appeals.py), being, having and locations (states.py).
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
    Mood,
    Negation,
    Part,
    Person,
    Talk,
)
from jumok.data.made.grammar.endings import honorific, past_stem
from jumok.data.made.grammar.frames import GIVING, MEETING, STAYING, THINGS, TRAVELLING, Frame
from jumok.data.made.grammar.nouns import a_person, a_subject, a_thing, article, noun_phrase, place_phrase, speaker
from jumok.data.made.grammar.predicates import Manner, verb_group
from jumok.data.made.grammar.times import AGO, DAY_PART, FAR, LASTING, NOW, OFTEN, YEAR, YEARS_AGO, a_time
from jumok.data.made.grammar.words import VERBS, Noun


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
FRAMES = (
    (THINGS, 0.52),
    (TRAVELLING, 0.70),
    (STAYING, 0.83),
    (MEETING, 0.92),
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
    return "past" if frame.once and mood == "present" else mood


def a_negation(talk: Talk, mood: Mood, subject: Person, share: float = 0.22) -> Negation:
    """Draw a negation: want has one form, must has none, and "am not" has no short form."""
    if mood == "must" or not talk.chance(share):
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
    if frame.verb.base in ("buy", "sell", "make", "cut"):
        return "generic"
    styles = [style for style in frame.determiners.split() if style in ("a", "number", "adjective")]
    return " ".join(styles) or frame.determiners


def an_object(talk: Talk, frame: Frame, mood: Mood, negation: Negation) -> Part | None:
    """Draw the object; it has no number in a negation."""
    if frame.takes == "nothing":
        return None
    if frame.takes == "person":
        return a_person(talk, elders=False, crowds=False).part
    chosen = talk.choose(frame.objects)
    if isinstance(chosen, Noun):
        styles = habitual(frame) if mood == "present" else frame.determiners
        return a_thing(talk, chosen, styles.replace("number", "a") if negation else styles)
    return place_phrase(chosen, frame.form)


@cache
def add_preposition(preposition: str, part: Part) -> Part:
    """With Minsu, to Minsu: English has a preposition, Korean a particle."""
    return Part(((preposition, NOUN), *part.english), part.korean)


@cache
def tool_phrase(english: str, korean: str) -> Part:
    return Part(((english, 1),), ((korean, "", 1),))


def a_clause(talk: Talk, subject: Person, frame: Frame, mood: Mood, negation: Negation = "") -> Clause:
    """Draw the object and at most three adverbials, to keep sentences short."""
    clause = Clause(frame, subject, mood, negation)
    clause.object = an_object(talk, frame, mood, negation)
    clause.role = frame.role if clause.object else ""
    if frame.receiver:
        clause.receiver = add_preposition("to", a_person(talk, elders=False, crowds=False).part)
    if frame.tools and talk.chance(0.5):
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
        clause.time = a_time(talk, mood, era=clause.frame.era, loose=bool(clause.negation))
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
    subject = clause.subject
    manner = Manner(talk.level, asks, subject.honoured, subject.number in ("third", "plural"))
    front, rest, predicate = verb_group(
        clause.frame.verb, clause.mood, clause.negation, subject.number, inverts, manner
    )
    english_clause(draft, clause, front, rest)
    korean_clause(talk, draft, clause)
    draft.end(predicate, asks=asks)
    combine(draft, clause)


def english_clause(draft: Draft, clause: Clause, front: tuple[English, ...], rest: tuple[English, ...]) -> None:
    say, subject = draft.say, clause.subject
    if clause.asked:
        say(clause.asked.front, ASKED)
    if clause.time and clause.time_at == "front":
        say(clause.time.english, TIME)
    say(front, VERB)
    say(subject.part.english, VERB if subject.number == "you" else SUBJECT)
    if clause.time and clause.time_at == "middle":
        say(clause.time.english, TIME)
    if clause.extra == "only":
        say(rest[:-1], VERB)
        say((("only", NOUN),), OBJECT)
        rest = rest[-1:]
    say(rest, VERB)
    for part, shift in (
        (clause.object, OBJECT),
        (clause.receiver, RECEIVER),
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
    if clause.time and clause.time_at == "front":
        speak(clause.time, TIME)
    if clause.subject.part.korean:
        topic = "subject" if clause.subject.part is asked else "also" if clause.extra in ("too", "either") else "topic"
        speak(clause.subject.part, ASKED if clause.subject.part is asked else SUBJECT, topic)
    for part, shift, role in (
        (clause.time if clause.time_at != "front" else None, TIME, ""),
        (clause.span, SPAN, ""),
        (clause.why, ASKED, ""),
        (clause.place, PLACE, "at"),
        (clause.company, COMPANY, talk.together),
        (clause.receiver, RECEIVER, "person"),
        (clause.tool, TOOL, "toward"),
        (clause.object, OBJECT, "only" if clause.extra == "only" else clause.role),
    ):
        if part:
            speak(part, ASKED if part is asked else shift, role)


def statement(talk: Talk, draft: Draft) -> None:
    """I bought a bag at the market yesterday."""
    frame, subject = a_frame(talk), a_subject(talk)
    mood = a_mood(talk, frame)
    if mood == "present" and frame.verb.base == frame.verb.past and subject.number != "third":
        mood = "past"  # "I read" and "I cut" would be read as past
    clause = a_clause(talk, subject, frame, mood, a_negation(talk, mood, subject))
    add_time(talk, clause, asks=False)
    if clause.time_at == "end":
        share = talk.random.random()
        if share < 0.06:
            clause.extra = "either" if clause.negation else "too"
        elif share < 0.10 and clause.role == "object" and not clause.negation and mood in ("past", "future"):
            clause.extra = "only"
    tell(talk, draft, clause)


CONTRASTED = tuple(
    frame
    for frame in THINGS
    if len(frame.objects) >= 3
    and frame.verb.base in ("like", "eat", "drink", "buy", "sell", "read", "draw", "study", "make")
)


def contrast(talk: Talk, draft: Draft) -> None:
    """I like coffee but don't like milk: 저는 커피는 좋아하지만 우유는 안 좋아해요."""
    frame, subject = talk.choose(CONTRASTED), a_subject(talk)
    mood: Mood = "present" if frame.verb.aspect == "state" else "past"
    liked, disliked = (
        noun_phrase(noun, "generic", talk.level)
        for noun in talk.random.sample(frame.objects, 2)
        if isinstance(noun, Noun)
    )
    verb = frame.verb
    manner = Manner(talk.level, False, subject.honoured)
    _, first, _ = verb_group(verb, mood, "", subject.number, False, manner)
    _, second, refused = verb_group(verb, mood, "short", subject.number, False, manner)
    stem = honorific(verb.stem, verb.honorific) if subject.honoured else verb.stem
    draft.both(subject.part, SUBJECT, "topic")
    draft.say(first, VERB)
    draft.both(liked, OBJECT, "topic")
    draft.say((("but", MAIN),), VERB)
    draft.add((past_stem(stem) if mood == "past" else stem.text) + "지만", "", MAIN << VERB)
    draft.say(second, ASKED)
    draft.both(disliked, RECEIVER, "topic")
    draft.end(tuple((text, particle, mask << ASKED) for text, particle, mask in refused))
    draft.combinations += [f"{verb.stem.text}다+{part.key}" for part in (liked, disliked)]


def become(talk: Talk, draft: Draft) -> None:
    """Minsu wants to become a doctor: 민수 씨는 의사가 되고 싶어 해요."""
    person = a_person(talk, crowds=False) if talk.chance(0.6) else speaker("I", talk.level)
    mood: Mood = talk.choose(("want", "want", "wanted", "past", "future"))
    negation: Negation = "short" if mood == "want" and talk.chance(0.2) else ""
    manner = Manner(talk.level, False, person.honoured, person.number == "third")
    _, rest, korean = verb_group(VERBS["become 되다"], mood, negation, person.number, False, manner)
    english, name = talk.choose(people.JOBS)
    draft.both(person.part, SUBJECT, "topic")
    draft.say((*rest,), VERB)
    draft.say(((f"{article(english)} {english}", 1),), OBJECT)
    if mood in ("past", "future") and talk.chance(0.5):
        draft.both(talk.choose((*FAR[mood], *(YEAR if mood == "past" else ()))), TIME)
    draft.speak(Part((), ((name, "", 1),)), OBJECT, "subject")
    draft.end(korean)
