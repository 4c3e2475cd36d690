"""Relative clauses: the man who works at the bank, the pie that Minsu made.

Korean has them before the noun: 은행에서 일하는 남자, 민수 씨가 만든 파이.
Not here  because, if and when (clauses.py).
"""

from jumok.data.made.grammar import people
from jumok.data.made.grammar.actions import Clause, a_clause, add_preposition, fits, tell
from jumok.data.made.grammar.clauses import JOIN, a_named_person, half_clause
from jumok.data.made.grammar.draft import AUX, MAIN, NOUN, SUBJECT, VERB, Draft, Mood, Part, Person, Talk
from jumok.data.made.grammar.frames import GIVING, RIVALS, STAYING, THINGS, TRAVELLING, Frame
from jumok.data.made.grammar.nouns import ADJECTIVES_OF, a_name, article, object_pronoun, place_phrase, speaker
from jumok.data.made.grammar.predicates import Manner, quality_group
from jumok.data.made.grammar.states import copula
from jumok.data.made.grammar.times import HABIT, NEAR
from jumok.data.made.grammar.words import Noun


def who(talk: Talk, draft: Draft) -> None:
    """The man who works at the bank is a singer.  I know the woman who lives in Busan."""
    stranger = talk.choose(people.STRANGERS)
    part = a_described_person(talk, draft, *stranger)
    if talk.chance(0.45):
        english, korean = talk.choose(people.JOBS)
        asks = talk.chance(0.2) or stranger not in people.STRANGERS[:2]  # a student is no singer
        if asks:
            draft.say((("who", MAIN), ("is", AUX)), VERB)
            draft.both(part, SUBJECT, "topic")
            return draft.end(copula(talk, "누구", asks=True), asks=True)
        draft.both(part, SUBJECT, "topic")
        draft.say((("is", AUX), (f"{article(english)} {english}", MAIN)), VERB)
        return draft.end(copula(talk, korean))
    base = talk.choose(("know", "know", "meet", "like", "help", "call"))
    frame = next(frame for frame in RIVALS if frame.verb.base == base)
    asks = frame.verb.base == "know" and talk.chance(0.4)
    subject = speaker("you", talk.level) if asks else a_named_person(talk)
    mood: Mood = "present" if frame.verb.aspect == "state" else "past"
    clause = Clause(frame, subject, mood, object=part, role=frame.role)
    tell(talk, draft, clause, asks=asks, inverts=asks)


def a_described_person(talk: Talk, draft: Draft, english: str, korean: str) -> Part:
    """The woman who lives in Busan: 부산에 사는 여자."""
    frame = talk.choose(DESCRIBING)
    mood: Mood = "present" if frame.verb.aspect == "state" else talk.choose(("past", "present"))
    if frame.verb.base == "wear":
        mood = "progressive"
    if frame.verb.base in ("buy", "sell"):
        mood = "past"
    subject = Person(Part((), ()), "third")
    clause = a_clause(talk, subject, frame, mood)
    clause.span = clause.company = clause.tool = None
    if mood == "past":
        clause.time = talk.choose(NEAR["past"]) if talk.chance(0.4) else None
    elif mood == "present" and frame.verb.aspect != "state" and frame.verb.base not in ("work", "teach", "sell"):
        clause.time = talk.choose(HABIT[:4])
    half = half_clause(talk, draft, clause, "noun")
    return Part(
        (("the", NOUN), (english, NOUN), ("who", JOIN), *half.english), (*half.korean, (korean, "", NOUN)), english
    )


DESCRIBING: tuple[Frame, ...] = tuple(
    frame for frame in (*STAYING, *THINGS, TRAVELLING[-1], TRAVELLING[-1])
    if frame.verb.base in ("work", "live", "teach", "sell", "wear", "study", "draw", "sing", "exercise", "buy", "play")
    and not frame.receiver and not frame.tools
) + tuple(frame for frame in THINGS if frame.verb.base == "teach")  # fmt: skip


RELATED = tuple(  # what one does with a thing that is worth telling
    frame
    for frame in (*THINGS, *GIVING)
    if frame.verb.base in ("make", "buy", "write", "give", "send", "choose", "draw") and not frame.tools
)
USES = tuple(
    frame for frame in THINGS if frame.verb.base in ("eat", "drink", "read", "lose", "like") and not frame.tools
)
LIKING = tuple(frame for frame in USES if frame.verb.base == "like")[:1]


def that(talk: Talk, draft: Draft) -> None:
    """The pie that Minsu made is delicious.  I lost the umbrella that Jisu gave me."""
    frame = talk.choose(RELATED)
    noun = talk.choose([noun for noun in frame.objects if isinstance(noun, Noun) and noun.plural != "="])
    adjectives, uses = ADJECTIVES_OF[noun], [use for use in USES if noun in use.objects]
    if not {"food", "drink"}.isdisjoint(noun.tags):
        uses = [use for use in uses if use.verb.base in ("eat", "drink")]
    part, giver = a_described_thing(talk, draft, frame, noun)
    if adjectives and (not uses or talk.chance(0.4)):
        adjective = talk.choose(adjectives)
        _, rest, korean = quality_group(adjective, "present", "", "third", False, Manner(talk.level))
        draft.both(part, SUBJECT, "topic")
        draft.say(rest, VERB)
        return draft.end(korean)
    use = talk.choose(uses or LIKING)
    subject = a_named_person(talk)
    while subject.part.key == giver or not fits(subject, use):
        subject = a_named_person(talk)
    mood: Mood = "present" if use.verb.aspect == "state" else "past"
    draft.combinations.append(f"{use.verb.stem.text}다+{noun.korean}")
    tell(talk, draft, Clause(use, subject, mood, object=part, role=use.role))


def a_described_thing(talk: Talk, draft: Draft, frame: Frame, noun: Noun) -> tuple[Part, str]:
    """The pie that Minsu made yesterday: 민수 씨가 어제 만든 파이; and who made it."""
    subject = a_named_person(talk)
    while not fits(subject, frame):
        subject = a_named_person(talk)
    clause = Clause(frame, subject, "past")
    if frame.receiver:
        clause.dative = subject.number == "third"
        clause.receiver = object_pronoun("I", talk.level) if clause.dative else add_preposition("to", a_name(talk).part)
    elif frame.places and talk.chance(0.4):
        clause.place = place_phrase(talk.choose(frame.places), "at")
    if not clause.place and talk.chance(0.4):
        clause.time = talk.choose((*NEAR["past"][:4], *NEAR["past"][6:]))
    half = half_clause(talk, draft, clause, "noun")
    draft.combinations.append(f"{frame.verb.stem.text}다+{noun.korean}")
    part = Part(
        (("the", NOUN), (noun.english, NOUN), ("that", JOIN), *half.english),
        (*half.korean, (noun.korean, "", NOUN)),
        noun.korean,
    )
    return part, subject.part.key
