"""Questions about actions: yes or no, what, where, when, who, why, how, how many, what time.

English moves the question word to the front; in Korean it stays in position.
Not here  questions about states (states.py).
"""

from functools import cache

from jumok.data.made.grammar.actions import (
    HOURLY,
    Clause,
    a_clause,
    a_frame,
    a_mood,
    a_negation,
    add_preposition,
    add_time,
    fits,
    tell,
)
from jumok.data.made.grammar.draft import COUNT, NOUN, UNIT, Draft, English, Mood, Part, Person, Talk
from jumok.data.made.grammar.endings import Level, attach
from jumok.data.made.grammar.nouns import a_name, an_asked_subject, plural
from jumok.data.made.grammar.words import VERBS, Noun

QUESTION_WORDS: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "when": ("when", (("언제", ""),)),
    "what time": ("what time", (("몇", ""), ("시", "에"))),
    "where": ("where", (("어디", ""),)),
    "who": ("who", (("누구", ""),)),
    "why": ("why", (("왜", ""),)),
    "how": ("how", (("어떻게", ""),)),
}


@cache
def question_word(name: str, *, residue: str = "", fixed: bool = False) -> Part:
    """A question word: English fronts it, in Korean it stays in position."""
    english, korean = QUESTION_WORDS[name]
    stay = ((residue, 1),) if residue else ()
    return Part(stay, tuple((stem, particle, 1) for stem, particle in korean), front=((english, 1),), fixed=fixed)


@cache
def what_word(level: Level, role: str) -> Part:
    korean = (("뭘" if role == "object" else "뭐가"), "", 1) if level == "plain" else (*attach("무엇", role), 1)
    return Part((), (korean,), front=(("what", 1),), fixed=True)


@cache
def how_many_phrase(noun: Noun, role: str) -> Part:
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
    frame = a_frame(talk)
    subject = an_asked_subject(talk)
    while not fits(subject, frame) or (
        subject.part.english[0][0] == "your" and (frame.takes == "person" or frame.receiver)
    ):
        subject = an_asked_subject(talk)
    mood: Mood = a_mood(talk, frame)
    if mood in ("must", "wanted", "could") or (mood == "want" and subject.honoured):  # one does not ask what they want
        mood = "past"
    clause = a_clause(talk, subject, frame, mood)
    clause.span = None
    if subject.number != "you":  # what others do to me is not asked
        replace_me(talk, clause)
    add_time(talk, clause, asks=True)
    ask(talk, clause)
    tell(talk, draft, clause, asks=True, inverts=clause.asked is not clause.subject.part)


def replace_me(talk: Talk, clause: Clause) -> None:
    """Put somebody else in my place."""
    if clause.object and clause.object.key == "I":
        clause.object = a_name(talk).part
    if clause.receiver and clause.receiver.key == "I":
        other = a_name(talk).part
        clause.receiver = other if clause.dative else add_preposition("to", other)


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
    elif (
        share < 0.60
        and (frame.takes != "person" or clause.mood != "want")
        and (frame.places or frame.takes == "place")
        and frame.verb.base != "arrive"
    ):
        ask_place(clause)
    elif share < 0.74 and clause.mood in ("past", "future") and frame.verb.base not in UNTIMED:
        hour = frame.verb.base in HOURLY and talk.chance(0.4)
        clause.asked = clause.time = question_word("what time" if hour else "when", fixed=True)
        clause.time_at = "end"
    elif share < 0.83:
        clause.subject = Person(question_word("who"), "third")
        clause.asked = clause.subject.part
    elif share < 0.93:
        clause.asked = clause.why = question_word("why", fixed=True)
        clause.negation = a_negation(talk, clause.mood, clause.subject, frame.verb.base, 0.5)
        if clause.negation == "long":
            clause.negation = "short"
        if clause.object and clause.object.combination:  # nobody is asked why he does not eat a delicious pie
            clause.negation = ""
    elif frame.company and not clause.tool:
        clause.asked = clause.company = question_word("who", residue="with")
    elif frame.takes == "place" and frame.tools:
        clause.asked = clause.tool = question_word("how", fixed=True)
        clause.company = None


# never asked when: waiting, looking for, losing
UNTIMED = frozenset(("wait", "wait for", "look for", "lose", "hit", "rest", "stay", "follow"))


def ask_object(talk: Talk, clause: Clause) -> None:
    frame = clause.frame
    if frame.takes == "person":
        clause.asked = clause.object = question_word("who")
    elif frame.takes == "place":
        if frame.verb.base != "arrive":
            ask_place(clause)
    else:
        noun = talk.choose(frame.objects)
        assert isinstance(noun, Noun)
        countable = noun.unit and noun.plural != "=" and "number" in frame.determiners
        if countable and talk.chance(0.4):
            clause.asked = clause.object = how_many_phrase(noun, clause.role)
        elif frame.verb.base not in (*AMBIGUOUS, "use"):
            clause.asked = clause.object = what_word(talk.level, clause.role)


# take, play, wear: the Korean verb depends on the object (버스를 타다 but 사진을 찍다), so it is never asked for
AMBIGUOUS = frozenset(
    verb.base
    for verb in VERBS.values()
    for other in VERBS.values()
    if verb.base == other.base and verb.stem != other.stem
)


def ask_place(clause: Clause) -> None:
    """Where: 어디에서 for an action, 어디에 or 어디로 for a destination."""
    if clause.frame.takes == "place":
        clause.asked = clause.object = question_word("where", residue="to" if clause.frame.verb.base == "move" else "")
    else:
        clause.asked = clause.place = question_word("where")
