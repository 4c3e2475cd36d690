"""Sentences about states: qualities, jobs, possession, locations.

Not here  the weather and the calendar (occasions.py), what people do (actions.py).
"""

from functools import cache

from jumok.data.made.grammar import numerals, people, scenes, words
from jumok.data.made.grammar.actions import drop, refuse
from jumok.data.made.grammar.draft import (
    AUX,
    COUNT,
    MAIN,
    NEG,
    NOUN,
    OBJECT,
    OWNER,
    PLACE,
    SUBJECT,
    TIME,
    VERB,
    Draft,
    Korean,
    Negation,
    Number,
    Part,
    Person,
    Talk,
)
from jumok.data.made.grammar.endings import COPULAS, Stem, Tense, attach, copula_forms, negate_copula, pick
from jumok.data.made.grammar.nouns import (
    ADJECTIVES_OF,
    a_name,
    a_person,
    a_subject,
    a_thing,
    an_asked_subject,
    an_equal,
    article,
    float_particle,
    noun_phrase,
    place_phrase,
    speaker,
)
from jumok.data.made.grammar.predicates import Group, Manner, be_group, english_group, korean_group, quality_group
from jumok.data.made.grammar.times import ANCHORS, NEAR, NOW, TODAY
from jumok.data.made.grammar.words import Noun

DESCRIBED = tuple(noun for noun in words.NOUNS if ADJECTIVES_OF[noun] and "subject" not in noun.tags)


OWNED = tuple(noun for noun in words.with_tags("thing", "pet", "lose", "costly", "relation") if noun.unit)
PLACED = tuple(noun for noun in words.with_tags("lose", "pet", "lend") if "costly" not in noun.tags)


def a_tense(talk: Talk) -> Tense:
    return "past" if talk.chance(0.25) else "present"


def a_refusal(talk: Talk, person: Person, asks: bool) -> Negation:
    """Draw a negation for "to be"; "am not" has no short form."""
    if asks or not talk.chance(0.28):
        return ""
    return "long" if person.number == "I" or talk.chance(0.45) else "short"


def an_owned_thing(talk: Talk, noun: Noun, *, asks: bool) -> Part:
    """This bag, that bag, Minsu's bag; my bag only in statements."""
    style = talk.choose(("this", "that", "name") if asks else ("this", "that", "name", "my"))
    if noun.plural == "=" and style in ("this", "that"):
        style = "name"
    if not set(noun.tags).isdisjoint(("food", "drink", "film")) or (asks and style == "my"):
        style = "this" if noun.plural != "=" else "the"
    return possessed_thing(talk, noun, asks=asks) if style == "name" else noun_phrase(noun, style, talk.level)


def possessed_thing(talk: Talk, noun: Noun, *, asks: bool = False) -> Part:
    """Minsu's bag; the speaker's own family is not asked about."""
    owner = a_name(talk) if asks else an_owner(talk)
    return possessive(owner.part, noun.english, noun.korean)


def an_owner(talk: Talk) -> Person:
    """Draw somebody with a name, or a friend, brother or sister: "my cousin" would be read as one with the noun."""
    while True:
        drawn = an_equal(talk)
        if drawn.part.key != "cousin":
            return drawn


@cache
def possessive(owner: Part, english: str, korean: str) -> Part:
    """Minsu's bag: 민수 씨 가방, with no particle in between."""
    *first, (last, _) = owner.english
    return Part(
        (*((text, OWNER) for text, _ in first), (last + "'s", OWNER), (english, NOUN)),
        (*((stem, "", OWNER) for stem, _, _ in owner.korean), (korean, "", NOUN)),
        korean,
    )


@cache
def the(english: str, korean: str) -> Part:
    return Part(((f"the {english}", NOUN),), ((korean, "", NOUN),), korean)


def be(
    draft: Draft, person: Person, group: Group, *, asks: bool = False, time: Part | None = None, bare: str = ""
) -> None:
    """Subject, time, predicate; `bare` is the body part that hunger and thirst name."""
    front, rest, korean = group
    draft.say(front, VERB)
    draft.say(person.part.english, SUBJECT if person.part.korean else VERB)
    draft.say(rest, VERB)
    if person.part.korean:
        draft.speak(person.part, SUBJECT, "" if person.number == "you" else "topic")
    if time:
        draft.both(time, TIME)
    if bare:
        draft.add(*attach(bare, "subject"), MAIN)
    draft.end(korean, asks=asks)


# ---------------------------------------------------------------- what things and people are like


def quality(talk: Talk, draft: Draft) -> None:
    """This bag is expensive.  The library wasn't quiet.  Is that novel long?"""
    asks, tense = talk.chance(0.22), a_tense(talk)
    if talk.chance(0.25):
        place = talk.choose(words.STREETS)
        part, adjective = the(place.english, place.korean), talk.choose(words.PLACE_ADJECTIVES)
    else:
        noun = talk.choose(DESCRIBED)
        part, adjective = an_owned_thing(talk, noun, asks=asks), talk.choose(ADJECTIVES_OF[noun])
    number: Number = "plural" if part.english[-1][0] in ("shoes", "socks") else "third"
    person = Person(part, number)
    refusal = a_refusal(talk, person, asks)
    manner = Manner(talk.level, asks, refuse=refuse(talk, refusal))
    be(draft, person, quality_group(adjective, tense, refusal, number, asks, manner), asks=asks)
    draft.combinations.append(f"{adjective.stem.text}다+{part.key}")


def feel(talk: Talk, draft: Draft) -> None:
    """I am hungry now.  Was Minsu tired yesterday?"""
    asks, tense = talk.chance(0.3), a_tense(talk)
    person = an_asked_subject(talk) if asks else a_subject(talk)
    adjective = talk.choose(words.FEELINGS)
    if person.honoured:  # grandparents and professors are tired, busy or happy
        adjective = talk.choose(words.FEELINGS[:3])
    time = talk.choose((TODAY, ANCHORS["past"] if tense == "past" else NOW, None))
    refusal = a_refusal(talk, person, asks)
    manner = Manner(talk.level, asks, person.honoured, refuse=refuse(talk, refusal))
    group = quality_group(adjective, tense, refusal, person.number, asks, manner)
    be(draft, drop(talk, person, asks=asks), group, asks=asks, time=time, bare=adjective.bare)


def job(talk: Talk, draft: Draft) -> None:
    """Minsu is a doctor.  My father wasn't a soldier."""
    asks, tense = talk.chance(0.2), a_tense(talk)
    known = a_person(talk, crowds=False) if talk.chance(0.7) else speaker("I", talk.level)
    person = an_asked_subject(talk) if asks else known
    if person.number == "you":
        person = asked_for_a_job(talk)
    english, korean = talk.choose(people.JOBS)
    while person.honoured and english in ("student", "university student", "soldier", "singer"):
        english, korean = talk.choose(people.JOBS)
    refusal: Negation = "short" if a_refusal(talk, person, asks) and person.number != "I" else ""
    front, rest = be_group(tense, refusal, person.number, asks)
    rest = (*rest, (f"{article(english)} {english}", MAIN))
    korean_group_ = copula(talk, korean, tense, asks=asks, denies=bool(refusal), honoured=person.honoured)
    be(draft, person, (front, rest, korean_group_), asks=asks)


def asked_for_a_job(talk: Talk) -> Person:
    """You, whose job is asked for: 의사세요?  Among friends 너, for a professor somebody else."""
    if talk.level == "formal":
        return a_name(talk)
    korean: tuple[Korean, ...] = (("너", "", NOUN),) if talk.level == "plain" else ()
    return Person(Part((("you", NOUN if korean else MAIN),), korean, "you"), "you", honoured=not korean)


def copula(
    talk: Talk,
    korean: str,
    tense: Tense = "present",
    *,
    asks: bool = False,
    denies: bool = False,
    honoured: bool = False,
) -> tuple[Korean, ...]:
    """의사예요, 학생이에요; 의사가 아니에요."""
    if denies:
        return (*attach(korean, "subject"), MAIN), (negate_copula(talk.level, tense, asks, honoured), "", NEG | AUX)
    ending = pick(korean, copula_forms(COPULAS[talk.level, tense, asks, honoured]))
    return ((korean, ending, MAIN | AUX),)


PRICED = (
    ((*words.with_tags("fruit", "drink", "level"), words.noun("pencil"), words.noun("sandwich")), numerals.CHEAP),
    (tuple(noun for noun in words.with_tags("goods", "furniture") if noun.plural != "="), numerals.DEAR),
    (tuple(noun for noun in words.with_tags("machine", "costly") if "level" not in noun.tags), numerals.DEAREST),
)


def price(talk: Talk, draft: Draft) -> None:
    """This bag is thirty thousand won.  How much is that hat?"""
    if talk.chance(0.2):
        return price_question(talk, draft)
    nouns, prices = talk.choose(PRICED)
    part = noun_phrase(talk.choose(nouns), talk.choose(("this", "that")), talk.level)
    english, korean = talk.choose(prices)
    draft.both(part, SUBJECT, "topic")
    draft.say((("is", AUX), (english, MAIN), ("won", AUX)), VERB)
    draft.end(((korean, "", MAIN), *((stem, ending, AUX) for stem, ending, _ in copula(talk, "원"))))


def price_question(talk: Talk, draft: Draft) -> None:
    """How much is that hat?"""
    nouns, _ = talk.choose(PRICED)
    draft.say((("how much", MAIN), ("is", AUX)), VERB)
    draft.both(noun_phrase(talk.choose(nouns), talk.choose(("this", "that")), talk.level), SUBJECT, "topic")
    draft.end(copula(talk, "얼마", asks=True), asks=True)


# ---------------------------------------------------------------- having and being somewhere


def exist(talk: Talk, stem: str, tense: Tense, *, asks: bool, denies: bool, honoured: bool) -> tuple[Korean, ...]:
    """있어요, 없어요; honoured people 계세요, 안 계세요, and what they have 있으세요."""
    manner = Manner(talk.level, asks, honoured)
    if stem == "계시":
        return korean_group(Stem("계시"), "계시", True, tense, "short" if denies else "", manner)
    return korean_group(Stem("없" if denies else "있"), "", True, tense, "", manner)


def possession(talk: Talk, draft: Draft) -> None:
    """I have two cats: 저는 고양이가 두 마리 있어요."""
    asks = talk.chance(0.3)
    tense: Tense = "past" if not asks and talk.chance(0.1) else "present"
    person = an_asked_subject(talk) if asks else a_subject(talk)
    if person.part.english[0][0] == "your":  # one does not ask what another's mother owns
        person = speaker("you", talk.level)
    denies = not asks and talk.chance(0.3)
    noun = talk.choose(OWNED)
    part = a_thing(talk, noun, "a" if denies else "a adjective" if asks else "a number adjective")
    front, rest = english_group(words.VERBS["have 있다"], tense, "short" if denies else "", person.number, asks)
    korean = exist(talk, "있", tense, asks=asks, denies=denies, honoured=person.honoured)
    person = drop(talk, person, asks=asks)
    draft.say(front, VERB)
    draft.say(person.part.english, SUBJECT if person.part.korean else VERB)
    draft.say(rest, VERB)
    draft.say(part.english, OBJECT)
    if person.part.korean:
        draft.speak(person.part, SUBJECT, "topic")
    draft.speak(float_particle(part, "subject") if len(part.korean) == 3 else part, OBJECT, "subject")
    draft.end(only_main(korean), asks=asks)
    draft.combinations += [part.combination] if part.combination else []


def only_main(korean: tuple[Korean, ...]) -> tuple[Korean, ...]:
    """Align the last word with every bit of the verb."""
    return *korean[:-1], (*korean[-1][:2], MAIN | AUX | NEG if len(korean) == 1 else MAIN | AUX)


def existence(talk: Talk, draft: Draft) -> None:
    """There are three birds in the park: 공원에 새가 세 마리 있어요."""
    asks, tense = talk.chance(0.25), a_tense(talk)
    if talk.chance(0.5):
        scene, _ = talk.choose(scenes.SCENES)
        spot, noun = place_phrase(words.PLACES[scene], "at"), talk.choose(SCENE_NOUNS[scene])
    else:
        noun = talk.choose(PLACED)
        spot = a_spot(talk, noun)
    denies = not asks and talk.chance(0.2)
    many = talk.number(2, 7) if noun.unit and not denies and talk.chance(0.6) else 0
    part = noun_phrase(noun, "a", talk.level, many)
    number: Number = "plural" if many else "third"
    be_forms = be_group(tense, "short" if denies else "", number, asks)
    verb = tuple((text, MAIN) for text, _ in (*be_forms[0], *be_forms[1]))
    draft.say((*verb, ("there", MAIN)) if asks else (("there", MAIN), *verb), VERB)
    draft.say(part.english, OBJECT)
    draft.both(spot, PLACE, "in")
    draft.speak(float_particle(part, "subject") if many else part, OBJECT, "subject")
    draft.end(exist(talk, "있", tense, asks=asks, denies=denies, honoured=False), asks=asks)


SCENE_NOUNS = {
    scene: tuple(noun for noun in words.with_tags(*tags.split()) if noun.plural) for scene, tags in scenes.SCENES
}


def a_spot(talk: Talk, noun: Noun) -> Part:
    """On the desk: 책상 위."""
    while True:
        english, korean, bases = talk.choose(scenes.SPOTS)
        base = words.noun(talk.choose(bases.split()))
        if base is not noun:
            return spot(english, korean, base.english, base.korean)


@cache
def spot(english: str, korean: str, base: str, korean_base: str) -> Part:
    return Part(((english, OWNER), (f"the {base}", NOUN)), ((korean_base, "", NOUN), (korean, "", OWNER)))


def location(talk: Talk, draft: Draft) -> None:
    """My bag is on the desk.  The bank isn't next to the library.  Where is Minsu's umbrella?"""
    asks, tense = talk.chance(0.35), a_tense(talk)
    if talk.chance(0.3):
        first, second = talk.random.sample(words.STREETS, 2)
        part, place = the(first.english, first.korean), spot(*talk.choose(scenes.STREET), second.english, second.korean)
        tense = "present"
    else:
        noun = talk.choose(PLACED)
        part = noun_phrase(noun, "my", talk.level) if talk.chance(0.5) else possessed_thing(talk, noun, asks=asks)
        place = a_spot(talk, noun)
    if asks and talk.chance(0.5):
        place = Part((("where", 1),), (("어디", "", 1),))
    locate(talk, draft, Person(part, "third"), place, tense, asks=asks)


def whereabouts(talk: Talk, draft: Draft) -> None:
    """Minsu is at the library now.  Where are you?  My grandmother isn't at home: 안 계세요."""
    asks, tense = talk.chance(0.35), a_tense(talk)
    person = an_asked_subject(talk) if asks else a_subject(talk)
    person = drop(talk, person, asks=asks)
    place = place_phrase(talk.choose(list(words.PLACES.values())), "at")
    if asks and talk.chance(0.4):
        place = Part((("where", 1),), (("어디", "", 1),))
    time = (NOW if tense == "present" else talk.choose(NEAR["past"])) if talk.chance(0.7) else None
    locate(talk, draft, person, place, tense, asks=asks, time=time)


def floor(talk: Talk, draft: Draft) -> None:
    """The cafe is on the third floor: 카페는 삼 층에 있어요."""
    place, n = talk.choose(words.INDOORS), talk.number(0, 9)
    on = Part(
        (("on the", NOUN), (numerals.ORDINALS[n], COUNT), ("floor", NOUN)),
        ((numerals.SINO[n], "", COUNT), ("층", "", NOUN)),
    )
    locate(talk, draft, Person(the(place.english, place.korean), "third"), on, "present", asks=talk.chance(0.25))


def locate(
    talk: Talk, draft: Draft, person: Person, place: Part, tense: Tense, *, asks: bool, time: Part | None = None
) -> None:
    """State or ask where a person or thing is; "where" comes first in English."""
    denies = not asks and talk.chance(0.2)
    negation: Negation = "" if not denies else "long" if person.number == "I" else "short"
    front, rest = be_group(tense, negation, person.number, asks)
    wh = place.english[0][0] == "where"
    if wh:
        draft.say(place.english, PLACE)
    draft.say(front, VERB)
    draft.say(person.part.english, SUBJECT if person.part.korean else VERB)
    draft.say(rest, VERB)
    if person.part.korean:
        draft.speak(person.part, SUBJECT, "topic")
    if not wh:
        draft.say(place.english, PLACE)
    if time:
        draft.both(time, TIME)
    draft.speak(place, PLACE, "in")
    stem = "계시" if person.honoured else "있"
    draft.end(only_main(exist(talk, stem, tense, asks=asks, denies=denies, honoured=person.honoured)), asks=asks)
