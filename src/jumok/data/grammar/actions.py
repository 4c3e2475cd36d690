"""Sentences about actions: statements, questions, requests, suggestions, contrasts.

English order   call · time · subject · verb · object · to · tool · with · place · how long · time
Korean order    call · time · subject · time · how long · why · place · with · to · tool · object · verb

English decides everything: a question to "you" drops the subject, "don't" is 안 and "do not" is -지 않다, "can't" is
못 and "cannot" is -ㄹ 수 없다, "too" is 도 on the subject, a time before the subject stays before it.
Not here        what is, has or lies somewhere (states.py), the splits (phrasebook.py).
"""

from bisect import bisect
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

from jumok.data.grammar import words
from jumok.data.grammar.draft import (
    ASKED,
    AUX,
    COMPANY,
    COUNT,
    MAIN,
    NEG,
    NOUN,
    OBJECT,
    PLACE,
    RECEIVER,
    SPAN,
    SUBJECT,
    TIME,
    TOOL,
    UNIT,
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
from jumok.data.grammar.endings import Level, Stem, attach, finish, honorific, loose, open_form, order, past_stem
from jumok.data.grammar.frames import GIVING, MEETING, STAYING, THINGS, TRAVELLING, Frame
from jumok.data.grammar.nouns import (
    a_subject,
    a_thing,
    an_asked_subject,
    article,
    plural,
    somebody,
    speaker,
    thing,
    where,
)
from jumok.data.grammar.predicates import Manner, verb_group
from jumok.data.grammar.times import DAY_PART, FAR, LASTING, NOW, OFTEN, YEAR, a_time
from jumok.data.grammar.words import Noun


@dataclass(slots=True)
class Clause:
    """A verb and everything around it; `asked` names the constituent that a question word stands for."""

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
THING_STEPS = tuple(accumulate(max(2.0, len(frame.objects) ** 0.6) for frame in THINGS))


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
    """Want is refused in one way only, must never, and "am not" has no short form."""
    if mood == "must" or not talk.chance(share):
        return ""
    if mood in ("want", "wanted"):
        return "short"
    if mood == "progressive" and subject.number == "I":
        return "long"
    return "short" if talk.chance(0.6) else "long"


@cache
def habitual(frame: Frame) -> str:
    """Return the determiners of what is done again and again: nobody buys this hat every day."""
    if frame.verb.aspect == "state" or "this" not in frame.determiners:
        return frame.determiners
    if frame.verb.base in ("buy", "sell", "make", "cut"):
        return "generic"
    return "a generic number adjective"


def an_object(talk: Talk, frame: Frame, mood: Mood, negation: Negation) -> Part | None:
    """Draw the object; what is denied is not counted."""
    if frame.takes == "nothing":
        return None
    if frame.takes == "person":
        return somebody(talk, elders=False, crowds=False).part
    chosen = talk.choose(frame.objects)
    if isinstance(chosen, Noun):
        styles = habitual(frame) if mood == "present" else frame.determiners
        return a_thing(talk, chosen, styles.replace("number", "a") if negation else styles)
    return where(chosen, frame.way)


@cache
def led_by(preposition: str, part: Part) -> Part:
    """With Minsu, to Minsu: English puts the word before, Korean a particle behind."""
    return Part(((preposition, NOUN), *part.english), part.korean)


@cache
def by_means(english: str, korean: str) -> Part:
    return Part(((english, 1),), ((korean, "", 1),))


def a_clause(talk: Talk, subject: Person, frame: Frame, mood: Mood, negation: Negation = "") -> Clause:
    """Draw the object and at most three adverbials, so that sentences stay short."""
    clause = Clause(frame, subject, mood, negation)
    clause.object = an_object(talk, frame, mood, negation)
    clause.role = frame.role if clause.object else ""
    if frame.receiver:
        clause.receiver = led_by("to", somebody(talk, elders=False, crowds=False).part)
    if frame.tools and talk.chance(0.5):
        clause.tool = by_means(*talk.choose(frame.tools))
    elif frame.company and talk.chance(0.22):
        clause.company = led_by("with", somebody(talk, crowds=False).part)
    need = 0.9 if frame.takes == "nothing" else 0.4
    if frame.places and not clause.tool and talk.chance(need):
        clause.place = where(talk.choose(frame.places), "at")
    if frame.lasts and not negation and mood in ("past", "future", "must") and talk.chance(0.15) and not clause.company:
        clause.span = talk.choose(LASTING)
    return clause


def add_time(talk: Talk, clause: Clause, *, asks: bool) -> None:
    """Most sentences say when; a habit nearly always, "like" never."""
    mood = clause.mood
    if clause.frame.verb.aspect == "state":
        return
    if mood == "present" and not clause.negation and talk.chance(0.35):
        clause.time, clause.time_at = talk.choose(OFTEN), "middle"
    elif mood == "present" and clause.negation:
        clause.time = talk.choose(DAY_PART) if talk.chance(0.85) else None
    elif talk.chance(0.95 if mood == "present" and not asks else 0.55):
        clause.time = a_time(talk, mood, era=clause.frame.era, loose=bool(clause.negation))
        if clause.time is not NOW and not asks and talk.chance(0.2):
            clause.time_at = "front"


def combine(draft: Draft, clause: Clause) -> None:
    """Note which words meet here, so that some meetings can be kept from training."""
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
    clause = a_clause(talk, subject, frame, mood, a_negation(talk, mood, subject))
    add_time(talk, clause, asks=False)
    if clause.time_at == "end":
        share = talk.random.random()
        if share < 0.06:
            clause.extra = "either" if clause.negation else "too"
        elif share < 0.10 and clause.role == "object" and not clause.negation and mood in ("past", "future"):
            clause.extra = "only"
    tell(talk, draft, clause)


QUESTION_WORDS: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "when": ("when", (("언제", ""),)),
    "what time": ("what time", (("몇", ""), ("시", "에"))),
    "where": ("where", (("어디", ""),)),
    "who": ("who", (("누구", ""),)),
    "why": ("why", (("왜", ""),)),
    "how": ("how", (("어떻게", ""),)),
}


@cache
def asking(name: str, *, residue: str = "", fixed: bool = False) -> Part:
    """A question word: English fronts it, Korean leaves it in its place."""
    english, korean = QUESTION_WORDS[name]
    stay = ((residue, 1),) if residue else ()
    return Part(stay, tuple((stem, particle, 1) for stem, particle in korean), front=((english, 1),), fixed=fixed)


@cache
def asking_what(level: Level, role: str) -> Part:
    korean = (("뭘" if role == "object" else "뭐가"), "", 1) if level == "plain" else (*attach("무엇", role), 1)
    return Part((), (korean,), front=(("what", 1),), fixed=True)


@cache
def asking_how_many(noun: Noun, role: str) -> Part:
    """How many apples: 사과를 몇 개; how many cups of coffee: 커피를 몇 잔."""
    korean = ((*attach(noun.korean, role), NOUN), ("몇", "", COUNT), (noun.unit, "", UNIT))
    front: tuple[English, ...]
    if noun.measure:
        front = (("how many", COUNT), (f"{plural(noun.measure)} of", UNIT), (noun.english, NOUN))
    else:
        front = (("how many", COUNT | UNIT), (noun.plural, NOUN))
    return Part((), korean, noun.korean, front=front, fixed=True)


def question(talk: Talk, draft: Draft) -> None:
    """Did you ...?  What, where, when, who, why, how, how many, what time ...?"""
    frame, subject = a_frame(talk), an_asked_subject(talk)
    mood: Mood = a_mood(talk, frame)
    if mood in ("must", "wanted", "could"):
        mood = "past"
    clause = a_clause(talk, subject, frame, mood)
    clause.span = None
    add_time(talk, clause, asks=True)
    ask(talk, clause)
    tell(talk, draft, clause, asks=True, inverts=clause.asked is not clause.subject.part)


def ask(talk: Talk, clause: Clause) -> None:
    """Turn one constituent into a question word, or none for a yes/no question."""
    frame, share = clause.frame, talk.random.random()
    if share < 0.34:
        return
    if frame.verb.aspect == "state":
        if share < 0.7:
            ask_object(talk, clause)
        return
    if share < 0.48 and frame.takes != "nothing":
        ask_object(talk, clause)
    elif share < 0.60 and (frame.places or frame.takes == "place"):
        ask_place(clause)
    elif share < 0.74 and clause.mood in ("past", "future", "present", "want"):
        hour = clause.mood != "want" and talk.chance(0.4)
        clause.asked = clause.time = asking("what time" if hour else "when", fixed=True)
        clause.time_at = "end"
    elif share < 0.83:
        clause.subject = Person(asking("who"), "third")
        clause.asked = clause.subject.part
    elif share < 0.93:
        clause.asked = clause.why = asking("why", fixed=True)
        clause.negation = a_negation(talk, clause.mood, clause.subject, 0.5)
        if clause.negation == "long":
            clause.negation = "short"
    elif frame.company and not clause.tool:
        clause.asked = clause.company = asking("who", residue="with")
    elif frame.takes == "place" and frame.tools:
        clause.asked = clause.tool = asking("how", fixed=True)
        clause.company = None


def ask_object(talk: Talk, clause: Clause) -> None:
    frame = clause.frame
    if frame.takes == "person":
        clause.asked = clause.object = asking("who")
    elif frame.takes == "place":
        ask_place(clause)
    else:
        noun = talk.choose(frame.objects)
        assert isinstance(noun, Noun)
        counted = noun.unit and noun.plural != "=" and "number" in frame.determiners and talk.chance(0.4)
        clause.asked = clause.object = (
            asking_how_many(noun, clause.role) if counted else asking_what(talk.level, clause.role)
        )


def ask_place(clause: Clause) -> None:
    """Where: 어디에서 for an action, 어디에 or 어디로 for a destination."""
    if clause.frame.takes == "place":
        clause.asked = clause.object = asking("where", residue="to" if clause.frame.verb.base == "move" else "")
    else:
        clause.asked = clause.place = asking("where")


# ---------------------------------------------------------------- what others should do

NOBODY = Person(Part((), ()), "you")
ASKABLE = tuple(frame for frame in (*THINGS, *GIVING, *MEETING, *STAYING) if frame.please)
TOGETHER = Part((("together", 1),), (("같이", "", 1),), fixed=True)
DOABLE = tuple(
    frame
    for frame in (*THINGS, *STAYING, *TRAVELLING[:3])
    if frame.verb.aspect in ("action", "moment") and not frame.receiver
)


SHARED = tuple(frame for frame in DOABLE if frame.company)


def appeal(
    talk: Talk,
    draft: Draft,
    frames: tuple[Frame, ...],
    opening: tuple[English, ...],
    korean: tuple[Korean, ...] = (),
    company: Part | None = None,
) -> Clause:
    """Say what comes before the verb of a request; the caller ends the Korean."""
    clause = a_clause(talk, NOBODY, talk.choose(frames), "future")
    clause.company, clause.span = company, None
    if talk.chance(0.3):
        clause.time = a_time(talk, "future")
    draft.say(opening, VERB)
    english_clause(draft, clause, (), ((clause.frame.verb.base, MAIN),))
    draft.korean.append((korean, 0, ""))
    korean_clause(talk, draft, clause)
    combine(draft, clause)
    return clause


def request(talk: Talk, draft: Draft) -> None:
    """Please open the window: 창문을 열어 주세요; giving and lending are asked for directly (주세요)."""
    verb = appeal(talk, draft, ASKABLE, (("please", AUX),)).frame.verb
    if verb.stem.text.endswith("주"):
        return draft.end(((order(verb.stem, talk.level), "", MAIN | AUX),))
    draft.end(((open_form(verb.stem), "", MAIN), (order(Stem("주"), talk.level), "", AUX)))


def prohibition(talk: Talk, draft: Draft) -> None:
    """Please don't open the window: 창문을 열지 마세요."""
    verb = appeal(talk, draft, DOABLE, (("please", NEG), ("don't", NEG))).frame.verb
    stem = verb.honorific if talk.level == "formal" and verb.honorific else verb.stem.text
    stop = {"polite": "마세요", "formal": "마십시오", "plain": "마"}[talk.level]
    draft.end(((stem + "지", "", MAIN), (stop, "", NEG)))


def permission(talk: Talk, draft: Draft) -> None:
    """May I open the window: 창문을 열어도 돼요?"""
    verb = appeal(talk, draft, DOABLE, (("may", AUX), ("I", AUX))).frame.verb
    allowed = finish(Stem("되"), "present", talk.level, True)
    draft.end(((open_form(verb.stem) + "도", "", MAIN), (allowed, "", AUX)), asks=True)


def suggestion(talk: Talk, draft: Draft) -> None:
    """Shall we swim: 우리 수영할까요?  Let's swim together: 우리 같이 수영해요; among friends 수영하자."""
    plain, us = talk.level == "plain", (("우리", "", NEG),)
    if talk.chance(0.5):
        verb = appeal(talk, draft, SHARED, (("shall", MAIN), ("we", NEG)), us).frame.verb
        return draft.end(((loose(verb.stem, "ㄹ까") + ("" if plain else "요"), "", MAIN),), asks=True)
    verb = appeal(talk, draft, SHARED, (("let's", NEG | MAIN),), us, TOGETHER).frame.verb
    come = verb.stem.text + "자" if plain else finish(verb.stem, "present", talk.level, False)
    draft.end(((come, "", MAIN),))


# ---------------------------------------------------------------- two verbs

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
    one, two = (
        thing(noun, "generic", talk.level) for noun in talk.random.sample(frame.objects, 2) if isinstance(noun, Noun)
    )
    verb = frame.verb
    manner = Manner(talk.level, False, subject.honoured)
    _, first, _ = verb_group(verb, mood, "", subject.number, False, manner)
    _, second, refused = verb_group(verb, mood, "short", subject.number, False, manner)
    stem = honorific(verb.stem, verb.honorific) if subject.honoured else verb.stem
    draft.both(subject.part, SUBJECT, "topic")
    draft.say(first, VERB)
    draft.both(one, OBJECT, "topic")
    draft.say((("but", MAIN),), VERB)
    draft.add((past_stem(stem) if mood == "past" else stem.text) + "지만", "", MAIN << VERB)
    draft.say(second, ASKED)
    draft.both(two, RECEIVER, "topic")
    draft.end(tuple((text, particle, mask << ASKED) for text, particle, mask in refused))
    draft.combinations += [f"{verb.stem.text}다+{part.key}" for part in (one, two)]


def becoming(talk: Talk, draft: Draft) -> None:
    """Minsu wants to become a doctor: 민수 씨는 의사가 되고 싶어 해요."""
    person = somebody(talk, crowds=False) if talk.chance(0.6) else speaker("I", talk.level)
    mood: Mood = talk.choose(("want", "want", "wanted", "past", "future"))
    negation: Negation = "short" if mood == "want" and talk.chance(0.2) else ""
    manner = Manner(talk.level, False, person.honoured, person.number == "third")
    _, rest, korean = verb_group(words.VERBS["become 되다"], mood, negation, person.number, False, manner)
    english, name = talk.choose(words.JOBS)
    draft.both(person.part, SUBJECT, "topic")
    draft.say((*rest,), VERB)
    draft.say(((f"{article(english)} {english}", 1),), OBJECT)
    if mood in ("past", "future") and talk.chance(0.5):
        draft.both(talk.choose((*FAR[mood], *(YEAR if mood == "past" else ()))), TIME)
    draft.speak(Part((), ((name, "", 1),)), OBJECT, "subject")
    draft.end(korean)
