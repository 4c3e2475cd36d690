"""Statements about actions, contrasts, people whose roles could be exchanged, becoming.

Not here  the clause itself (actions.py), sentences of two clauses (clauses.py, relatives.py).
"""

from functools import cache

from jumok.data.made.grammar import people
from jumok.data.made.grammar.actions import (
    Clause,
    a_clause,
    a_doer,
    a_frame,
    a_mood,
    a_negation,
    add_preposition,
    add_time,
    an_object,
    tell,
    tool_phrase,
)
from jumok.data.made.grammar.draft import (
    ASKED,
    MAIN,
    OBJECT,
    RECEIVER,
    SUBJECT,
    TIME,
    VERB,
    Draft,
    Mood,
    Negation,
    Part,
    Person,
    Talk,
)
from jumok.data.made.grammar.endings import honorific, past_stem
from jumok.data.made.grammar.frames import GIVING, RIVALS, THINGS, Frame
from jumok.data.made.grammar.nouns import (
    a_name,
    a_subject,
    an_equal,
    article,
    noun_phrase,
    place_phrase,
    speaker,
)
from jumok.data.made.grammar.predicates import Manner, verb_group
from jumok.data.made.grammar.times import FAR, YEAR
from jumok.data.made.grammar.words import VERBS, Noun


def statement(talk: Talk, draft: Draft) -> None:
    """I bought a bag at the market yesterday."""
    frame = a_frame(talk)
    subject, mood = a_doer(talk, frame), a_mood(talk, frame)
    if mood == "present" and frame.verb.base == frame.verb.past and subject.number != "third":
        mood = "past"  # "I read" and "I cut" would be read as past
    negation = a_negation(talk, mood, subject, frame.verb.base)
    if mood == "could" and not negation:
        mood = "past"
    clause = a_clause(talk, subject, frame, mood, negation)
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
    and "adjective" not in frame.determiners.split()[:1]
)
CONTRASTED_TAGS = (
    "fruit", "drink", "bakery", "clothes", "text", "animal", "sport", "lesson", "subject", "goods", "level",
    "spoon", "furniture",
)  # fmt: skip


def rivals(talk: Talk, draft: Draft) -> None:
    """Minsu likes Jisu; Jisu gave Minsu a book: sentences whose two people could be exchanged."""
    frame = talk.choose(GIVING) if talk.chance(0.3) else talk.choose(RIVALS)
    asks = talk.chance(0.15)
    subject, mood = an_equal(talk), a_mood(talk, frame)
    if asks:
        subject = a_name(talk)
        mood = "past" if mood in ("must", "wanted", "could") else mood
    elif mood == "present" and frame.verb.base == frame.verb.past:
        mood = "past"
    negation: Negation = "" if asks else a_negation(talk, mood, subject, frame.verb.base)
    if mood == "could" and not negation:
        mood = "past"
    clause = Clause(frame, subject, mood, negation)
    clause.object = an_object(talk, frame, mood, clause.negation, Person(Part((), ()), "plural"))
    clause.role = frame.role
    if frame.receiver:
        receiver = an_equal(talk).part
        clause.dative = talk.chance(0.5)
        clause.receiver = receiver if clause.dative else add_preposition("to", receiver)
    if frame.tools and not clause.negation and talk.chance(0.6):
        clause.tool = tool_phrase(*talk.choose(frame.tools))
    elif frame.places and talk.chance(0.4):
        clause.place = place_phrase(talk.choose(frame.places), "at")
    add_time(talk, clause, asks=asks)
    draft.roles = (SUBJECT, RECEIVER if frame.receiver else OBJECT)
    tell(talk, draft, clause, asks=asks, inverts=asks)


@cache
def _groups(frame: Frame) -> tuple[tuple[Noun, ...], ...]:
    """The objects of a frame by kind, so that apples are contrasted with bananas."""
    nouns = [noun for noun in frame.objects if isinstance(noun, Noun)]
    kinds = [tuple(noun for noun in nouns if tag in noun.tags) for tag in CONTRASTED_TAGS]
    return tuple(kind for kind in kinds if len(kind) > 1)


def contrast(talk: Talk, draft: Draft) -> None:
    """I like coffee but don't like milk: 저는 커피는 좋아하지만 우유는 안 좋아해요."""
    frame, subject = talk.choose(CONTRASTED), a_subject(talk)
    mood: Mood = "present" if frame.verb.aspect == "state" else "past"
    liked, disliked = (
        noun_phrase(noun, "generic", talk.level) for noun in talk.random.sample(talk.choose(_groups(frame)), 2)
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
    person = an_equal(talk) if talk.chance(0.6) else speaker("I", talk.level)
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
