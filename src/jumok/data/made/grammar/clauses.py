"""Sentences of two clauses: because, so, if, when.

A second clause is a `Half`: its words in both languages, shifted by SUB, so that they cannot be taken for those of the
main clause.  Korean puts it first, English where it likes: "Minsu stayed at home because he was sick" and "Because
Minsu was sick, he stayed at home" are 민수 씨는 아파서 집에 있었어요.  He and she are the person with the name, who
is named once in Korean.

because, so   -아서, in formal speech -기 때문에; before a request -(으)니까
if   -(으)면      when   -(으)ㄹ 때, -았을 때

Not here      the main clause (actions.py), relative clauses (relatives.py).
"""

from dataclasses import replace
from typing import NamedTuple

from jumok.data.made.grammar import causes
from jumok.data.made.grammar.actions import (
    Clause,
    combine,
    english_clause,
    fits,
    korean_clause,
    tell,
)
from jumok.data.made.grammar.causes import ACTIVE, Doing
from jumok.data.made.grammar.draft import (
    AUX,
    LINK,
    MAIN,
    NOUN,
    OBJECT,
    SUB,
    SUBJECT,
    TIME,
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
from jumok.data.made.grammar.endings import Form, Stem, attach, open_form, order
from jumok.data.made.grammar.frames import RIVALS, TRAVELLING
from jumok.data.made.grammar.nouns import a_name, a_person, a_thing, place_phrase, speaker
from jumok.data.made.grammar.predicates import Group, Manner, quality_group, verb_group
from jumok.data.made.grammar.times import NEAR, TODAY
from jumok.data.made.grammar.words import CLIMATES, FEELINGS, VERBS, Noun

JOIN = LINK << SUB


class Half(NamedTuple):
    """A second clause in both languages, its bits shifted."""

    english: tuple[English, ...]
    korean: tuple[Korean, ...]


def shifted(english: tuple[English, ...], korean: tuple[Korean, ...], shift: int = SUB) -> Half:
    return Half(
        tuple((text, mask << shift) for text, mask in english),
        tuple((stem, particle, mask << shift) for stem, particle, mask in korean),
    )


def half_clause(talk: Talk, draft: Draft, clause: Clause, form: Form) -> Half:
    """The words of a clause that ends in this form."""
    subject, sub = clause.subject, Draft()
    manner = Manner(talk.level, False, subject.honoured, subject.number in ("third", "plural"), form)
    _, rest, predicate = verb_group(clause.frame.verb, clause.mood, clause.negation, subject.number, False, manner)
    english_clause(sub, clause, (), rest)
    talk.form = form
    korean_clause(talk, sub, clause)
    talk.form = "end"
    sub.end(predicate)
    combine(draft, clause)
    return shifted(tuple(sub.english_pieces()), tuple(sub.korean_pieces()))


def called(person: Person) -> tuple[English, ...]:
    """The pronoun of a person who has been named: I, he, she."""
    return ((person.pronoun or person.number, NOUN),)


def a_named_person(talk: Talk) -> Person:
    """I, we, or somebody for whom one can say he or she."""
    share = talk.random.random()
    if share < 0.35:
        return speaker("I" if share < 0.28 else "we", talk.level)
    while True:
        drawn = a_person(talk, crowds=False)
        if drawn.pronoun:
            return drawn


# ---------------------------------------------------------------- because, so, if, when

CAUSE_MOODS: dict[str, tuple[Mood, ...]] = {  # of what is done, and of what is not
    "past+": ("past",), "past-": ("past", "could"),
    "present+": ("want", "must", "future"), "present-": ("can", "future", "want"),
    "if+": ("future",), "if-": ("future",),
    "when+": ("present",), "when-": ("present",),
}  # fmt: skip
JOINS: dict[str, str] = {"if": "if", "when": "when"}


def reason_form(talk: Talk) -> Form:
    """Because: 비가 와서, in formal speech 비가 왔기 때문에."""
    forms: tuple[Form, Form] = ("because", "reason")
    return forms[talk.way(1, 0.4, 0.6) if talk.level == "formal" else talk.way(0, 0.75, 0.25)]


def cause(talk: Talk, draft: Draft) -> None:
    """I stayed at home because it rained.  If it is cold tomorrow, we will drink coffee."""
    kind = talk.choose(("past", "past", "past", "present", "present", "if", "if", "when"))
    name, doings = talk.choose(causes.CAUSES)
    doing = talk.choose(doings)
    if kind == "when" and doing.once:
        kind = "past"
    person = a_named_person(talk)
    while not fits(person, doing.frame) or (person.honoured and name in causes.OF_THE_YOUNG):
        person = a_named_person(talk)
    mood: Mood = talk.choose(CAUSE_MOODS[kind + ("+" if doing.does else "-")])
    negation: Negation = "" if doing.does else "short" if mood == "want" or talk.chance(0.6) else "long"
    if mood == "must" and doing.base not in causes.DUTIES:
        mood = "future"
    clause = doing_clause(talk, person, doing, mood, negation)
    join = JOINS.get(kind, "because")
    first = talk.chance(0.25 if join == "because" else 0.7)
    if join == "because" and talk.chance(0.3):
        join, first = "so", True
    form: Form = "if" if kind == "if" else "when" if kind == "when" else reason_form(talk)
    weather = name in causes.WEATHER
    half = weather_half(talk, name, kind, form) if weather else state_half(talk, name, kind, form, person, named=first)
    if first and not weather:
        clause.subject = replace(person, part=Part(called(person), person.part.korean, person.part.key))
    if kind == "past" and not weather and talk.chance(0.5):
        clause.time = talk.choose(NEAR["past"][:5])
    join_both(talk, draft, clause, half, join, first=first, before=weather)


def join_both(talk: Talk, draft: Draft, clause: Clause, half: Half, join: str, *, first: bool, before: bool) -> None:
    """Write both clauses; `first`: English begins with the second clause; `before`: so does Korean."""
    open_both(draft, half, join, first=first)
    if before:
        draft.korean.append((half.korean, 0, ""))
    else:
        clause.before = half.korean
    tell(talk, draft, clause)
    if not first:
        draft.say(((join, JOIN), *half.english), 0)


def open_both(draft: Draft, half: Half, join: str, *, first: bool) -> None:
    """Begin the English with the second clause, if that comes first: because it rained, or it rained, so."""
    if first:
        *rest, (last, mask) = half.english
        so = ((join, JOIN),)
        draft.say((*(() if join == "so" else so), *rest, (last + ",", mask), *(so if join == "so" else ())), 0)


def doing_clause(talk: Talk, person: Person, doing: Doing, mood: Mood, negation: Negation) -> Clause:
    """What somebody does or does not do for a reason."""
    clause = Clause(doing.frame, person, mood, negation)
    if doing.nouns:
        noun = talk.choose(doing.nouns)
        clause.object = a_thing(talk, noun, "generic" if negation or mood == "present" else "a")
        clause.role = doing.frame.role
    elif doing.places and doing.frame.takes == "place":
        clause.object, clause.role = place_phrase(talk.choose(doing.places), doing.frame.form), doing.frame.role
    elif doing.frame.takes == "person":
        clause.object, clause.role = a_name(talk).part, doing.frame.role
    if doing.places and doing.frame.takes != "place":
        clause.place = place_phrase(talk.choose(doing.places), "at")
    return clause


TENSES: dict[str, Mood] = {"past": "past"}


def weather_half(talk: Talk, name: str, kind: str, form: Form) -> Half:
    """It rained yesterday: 어제 비가 와서."""
    mood: Mood = TENSES.get(kind, "present")
    manner = Manner(talk.level, form=form)
    falls = causes.FALLING.get(name)
    if falls:
        verb, korean = VERBS[f"{name} 오다"], (*attach(falls, "subject"), MAIN)
        going: Mood = (
            "was doing" if kind == "past" and talk.chance(0.3) else "progressive" if kind == "present" else mood
        )
        rest = verb_group(verb, going, "", "third", False, manner)[1]
        theirs = (korean, *verb_group(verb, mood, "", "third", False, manner)[2])
    else:
        adjective = next(each for each in CLIMATES if each.english == name)
        _, rest, theirs = quality_group(adjective, mood, "", "third", False, manner)
    time = None
    if talk.chance(0.6) and kind != "when":
        time = talk.choose({"past": NEAR["past"][:5], "if": NEAR["future"][:5]}.get(kind, (TODAY,)))
    covered = _cover_all(theirs, rest)
    half = shifted((("it", MAIN), *rest), covered)
    if time:
        at = shifted(time.english, time.korean, SUB + TIME)
        return Half((*half.english, *at.english), (*at.korean, *half.korean))
    return half


def _cover_all(korean: tuple[Korean, ...], english: tuple[English, ...]) -> tuple[Korean, ...]:
    """Give the last word that is not 때 or 때문에 the bits of English words that Korean does not have."""
    missing = 0
    for _, mask in english:
        missing |= mask
    for _, _, mask in korean:
        missing &= ~mask
    at = -2 if korean[-1][2] == LINK else -1
    return tuple(
        (stem, particle, mask | missing) if index == len(korean) + at else (stem, particle, mask)
        for index, (stem, particle, mask) in enumerate(korean)
    )


def state_half(talk: Talk, name: str, kind: str, form: Form, person: Person, *, named: bool) -> Half:
    """He was tired: 피곤해서, without the person."""
    subject = person.part.english if named else called(person)
    group, bare = state_group(talk, name, kind, form, person)
    half = shifted(group[1], (*bare, *group[2]))
    return Half((*shifted(subject, (), SUBJECT).english, *half.english), half.korean)


def state_group(talk: Talk, name: str, kind: str, form: Form, person: Person) -> tuple[Group, tuple[Korean, ...]]:
    """The predicate of a feeling, or of having an exam, and the noun that Korean has before it."""
    mood: Mood = TENSES.get(kind, "present")
    manner = Manner(talk.level, False, person.honoured, False, form)
    if name == "exam":
        front, rest, korean = verb_group(VERBS["have 있다"], mood, "", person.number, False, manner)
        exam: tuple[Korean, ...] = (("시험", "이", AUX),)
        return (front, (*rest, ("an exam", AUX)), korean), exam
    adjective = next(each for each in FEELINGS if each.english == name)
    bare: tuple[Korean, ...] = ((*attach(adjective.bare, "subject"), MAIN),) if adjective.bare else ()
    return quality_group(adjective, mood, "", person.number, False, manner), bare


def plea(talk: Talk, draft: Draft) -> None:
    """Please close the window because it is cold: 추우니까 창문을 닫아 주세요.  If you are tired, please rest."""
    kind = talk.choose(("present", "if"))
    name, doings = talk.choose(causes.CAUSES)
    able = [doing for doing in doings if doing.does and not doing.once and doing.base in causes.ASKED]
    while not able or (name not in causes.WEATHER and (kind == "present" or talk.level == "formal")) or name == "exam":
        name, doings = talk.choose(causes.CAUSES)
        able = [doing for doing in doings if doing.does and not doing.once and doing.base in causes.ASKED]
    weather, doing = name in causes.WEATHER, talk.choose(able)
    clause = doing_clause(talk, speaker("you", talk.level), doing, "future", "")
    form: Form = "if" if kind == "if" else "since"
    you = speaker("you", talk.level)
    if weather:
        half = weather_half(talk, name, kind, form)
    else:
        group, bare = state_group(talk, name, kind, form, you)
        half = shifted((("you", MAIN), *group[1]), (*bare, *group[2]))
    join = "if" if kind == "if" else talk.choose(("because", "so"))
    first = join == "so" or talk.chance(0.7 if join == "if" else 0.2)
    open_both(draft, half, join, first=first)
    draft.say((("please", AUX),), VERB)
    clause.subject = Person(Part((), ()), "you")
    english_clause(draft, clause, (), ((doing.frame.verb.base, MAIN),))
    draft.korean.append((half.korean, 0, ""))
    korean_clause(talk, draft, clause)
    combine(draft, clause)
    if not first:
        draft.say(((join, JOIN), *half.english), 0)
    verb = doing.frame.verb
    if verb.base in ("open", "close"):  # for the speaker, so with 주다
        return draft.end(((open_form(verb.stem), "", MAIN), (order(Stem("주"), talk.level), "", AUX)))
    eaten = Stem(verb.honorific) if verb.honorific and talk.level != "plain" else verb.stem
    draft.end(((please_do(eaten, talk), "", MAIN | AUX),))


def please_do(stem: Stem, talk: Talk) -> str:
    """Ask for something that is for the other's good: 쉬세요, 드세요, 쉬어."""
    if stem.text.endswith("시") and stem.text != "마시":
        return stem.text[:-1] + "십시오" if talk.level == "formal" else stem.text[:-1] + "세요"
    return order(stem, talk.level)


def reference(talk: Talk, draft: Draft) -> None:
    """Minsu helped Jisu because she was busy: 민수 씨는 지수 씨가 바빠서 도와줬어요.  The pronoun tells who."""
    base, hers, his = talk.choose(causes.BETWEEN)
    first, second = a_name(talk), a_name(talk)
    while first.pronoun == second.pronoun:
        talk.taken.remove(second.part.key)
        second = a_name(talk)
    frame = next(frame for frame in RIVALS if frame.verb.base == base)
    theirs = talk.chance(0.5) or not his
    name = talk.choose(hers if theirs else his)
    form, sub_first = reason_form(talk), talk.chance(0.3)
    clause = Clause(frame, first, "past", role=frame.role)
    clause.object = second.part
    who, shift = (second, OBJECT) if theirs else (first, SUBJECT)
    group, bare = state_group(talk, name, "past", form, who)
    half = shifted(group[1], (*bare, *group[2]))
    subject = who.part.english if sub_first else called(who)
    english = (*shifted(subject, (), shift).english, *half.english)
    korean = half.korean
    if theirs:  # named once, with the reason
        stems = list(who.part.korean)
        stems[-1] = (*attach(stems[-1][0], "subject"), stems[-1][2])
        korean = (*shifted((), tuple(stems), OBJECT).korean, *korean)
    if sub_first:
        pronoun = (({"he": "him", "she": "her"}[who.pronoun], NOUN),) if theirs else called(who)
        if theirs:
            clause.object = Part(pronoun, who.part.korean)
        else:
            clause.subject = replace(first, part=Part(pronoun, first.part.korean, first.part.key))
    if theirs:
        clause.object = Part(clause.object.english, ())
        clause.role = ""
    join_both(talk, draft, clause, Half(english, korean), "because", first=sub_first, before=False)


def arrival(talk: Talk, draft: Draft) -> None:
    """When I came home, Jisu was reading a book: 제가 집에 왔을 때 지수 씨는 책을 읽고 있었어요."""
    place, frames = talk.choose(ACTIVE)
    someone = a_named_person(talk)
    verb = talk.choose(("arrive 도착하다", "go 가다", "come 오다") if place.english != "home" else ("come 오다",))
    travel = next(frame for frame in TRAVELLING if frame.verb is VERBS[verb] and place in frame.objects)
    coming = Clause(travel, someone, "past", object=place_phrase(place, travel.form), role=travel.role)
    half = half_clause(talk, draft, coming, "when")
    frame = talk.choose(frames)
    other = a_named_person(talk)
    while other.part.key == someone.part.key or not fits(other, frame) or other.number == "I":
        other = a_named_person(talk)
    if {someone.number, other.number} == {"I", "we"}:
        other = a_name(talk)
    clause = Clause(frame, other, "was doing")
    if frame.takes == "thing":
        noun = talk.choose(frame.objects)
        assert isinstance(noun, Noun)
        clause.object, clause.role = a_thing(talk, noun, "a"), frame.role
    join_both(talk, draft, clause, half, "when", first=talk.chance(0.75), before=True)
