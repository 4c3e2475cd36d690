"""People, things and places: the person addressed, subjects, objects, locations.

The level of speech depends on the person addressed: polite without one, plain for a friend, formal for a teacher.
Not here  times (times.py), verbs (predicates.py).
"""

from functools import cache

from jumok.data.made.grammar import numerals, people, words
from jumok.data.made.grammar.draft import (
    CALL,
    COUNT,
    MAIN,
    NOUN,
    OWNER,
    UNIT,
    Draft,
    English,
    Korean,
    Number,
    Part,
    Person,
    Talk,
)
from jumok.data.made.grammar.endings import Level, attach, before_noun, pick
from jumok.data.made.grammar.words import Adjective, Noun, Place


def _name(english: str, korean: str, level: Level) -> Part:
    """민수 씨 in polite speech; among friends 민수, and 지민이 after a consonant."""
    if level != "plain":
        return Part(((english, NOUN),), ((korean, "", NOUN), ("씨", "", NOUN)), english)
    return Part(((english, NOUN),), ((korean + pick(korean, ("", "이")), "", NOUN),), english)


def gender(english: str) -> str:
    """He or she; "" where a name tells nothing."""
    return "she" if english in people.WOMEN else "he" if english in people.MEN else ""


def my(level: Level) -> str:
    return "내" if level == "plain" else "제"


@cache
def person(kind: str, index: int, level: Level) -> Person:
    """Return one of the people of the phrasebook."""
    if kind == "name":
        return Person(_name(*people.NAMES[index], level), "third", pronoun=gender(people.NAMES[index][0]))
    if kind == "relative":
        english, korean = people.RELATIVES[index]
        part = Part((("my", OWNER), (english, NOUN)), ((my(level), "", OWNER), (korean, "", NOUN)), english)
        return Person(part, "third", pronoun=gender(english))
    if kind == "yours":  # your mother: 어머니, among friends 너희 어머니
        english, korean = people.ELDERS[index]
        your = (("너희", "", OWNER), (korean, "", NOUN)) if level == "plain" else ((korean, "", OWNER | NOUN),)
        part = Part((("your", OWNER), (english, NOUN)), your, english)
        return Person(part, "third", honoured=True, pronoun=gender(english))
    if kind == "elder":
        english, korean = people.ELDERS[index]
        our = "우리" if level == "plain" else "저희"
        part = Part((("my", OWNER), (english, NOUN)), ((our, "", OWNER), (korean, "", NOUN)), english)
        return Person(part, "third", honoured=True, pronoun=gender(english))
    english, korean = people.CROWDS[index]
    return Person(Part(((english, NOUN),), ((korean, "", NOUN),), english), "plural")


@cache
def speaker(number: Number, level: Level) -> Person:
    """I, we, or you, which Korean omits and formal speech honours."""
    if number == "you":
        return Person(Part((("you", MAIN),), (), "you"), "you", honoured=level == "formal")
    we = "저희" if level == "formal" else "우리"
    korean = we if number == "we" else "나" if level == "plain" else "저"
    return Person(Part(((number, NOUN),), ((korean, "", NOUN),), number), number)


THEY: dict[Level, tuple[Korean, ...]] = {
    "polite": (("그", "", NOUN), ("사람", "", NOUN)),
    "plain": (("걔", "", NOUN),),
    "formal": (("그분", "", NOUN),),
}


@cache
def he_or_she(pronoun: str, level: Level) -> Person:
    """He or she, by the level of speech: 그 사람, 걔, 그분."""
    return Person(Part(((pronoun, NOUN),), THEY[level], pronoun), "third", honoured=level == "formal", pronoun=pronoun)


@cache
def object_pronoun(pronoun: str, level: Level) -> Part:
    """Me, him or her as an object: 저, 그 사람."""
    if pronoun == "I":
        return Part((("me", NOUN),), ((speaker("I", level).part.korean[0][0], "", NOUN),), "I")
    return Part(((("her" if pronoun == "she" else "him"), NOUN),), THEY[level], pronoun)


KINDS = (
    ("name", len(people.NAMES)),
    ("relative", len(people.RELATIVES)),
    ("elder", len(people.ELDERS)),
    ("crowd", len(people.CROWDS)),
)


def a_person(talk: Talk, *, elders: bool = True, crowds: bool = True) -> Person:
    """Draw a person who has not been named yet."""
    while True:
        share = talk.random.random()
        kind, many = KINDS[0] if share < 0.55 else KINDS[1] if share < 0.74 else KINDS[2] if share < 0.91 else KINDS[3]
        if (kind == "elder" and not elders) or (kind == "crowd" and not crowds):
            continue
        drawn = person(kind, talk.number(0, many - 1), talk.level)
        if drawn.part.key not in talk.taken:
            talk.taken.append(drawn.part.key)
            return drawn


def a_subject(talk: Talk) -> Person:
    share = talk.random.random()
    if share < 0.28:
        return speaker("I", talk.level)
    if share < 0.35:
        return speaker("we", talk.level)
    return he_or_she(talk.choose(("he", "she")), talk.level) if share < 0.43 else a_person(talk)


def an_asked_subject(talk: Talk) -> Person:
    """You, your mother, he, Minsu: nobody is asked about the speaker's own family."""
    share = talk.random.random()
    if share < 0.55:
        return speaker("you", talk.level)
    if share < 0.62 and talk.level != "formal":
        return person("yours", talk.number(0, len(people.ELDERS) - 1), talk.level)
    return he_or_she(talk.choose(("he", "she")), talk.level) if share < 0.70 else a_name(talk)


def a_name(talk: Talk) -> Person:
    """Draw a person with a name who has not been named yet."""
    while True:
        drawn = person("name", talk.number(0, len(people.NAMES) - 1), talk.level)
        if drawn.part.key not in talk.taken:
            talk.taken.append(drawn.part.key)
            return drawn


def an_equal(talk: Talk) -> Person:
    """Draw a person whose place another one could take: a name, my friend, my younger sister."""
    return a_person(talk, elders=False, crowds=False)


def a_call(talk: Talk, draft: Draft) -> None:
    """Begin the sentence with the person addressed, unless speech is polite."""
    if talk.level == "polite":
        return
    draft.both(a_caller(talk), CALL)
    draft.called = len(draft.korean[0][0])


def a_caller(talk: Talk) -> Part:
    if talk.level == "plain":
        if talk.chance(0.12):
            return HEY
        english, korean = talk.choose(people.NAMES)
        talk.taken.append(english)
        return _friend(english, korean)
    if talk.chance(0.25):
        return SIR
    return _superior(talk.choose(people.TITLES), talk.choose(people.SURNAMES))


HEY = Part((("Hey,", 1),), (("야", "", 1),))
SIR = Part((("Sir,", 1),), (("선생님", "", 1),))


@cache
def _friend(english: str, korean: str) -> Part:
    return Part(((english + ",", 1),), ((*attach(korean, "call"), 1),))


@cache
def _superior(title: tuple[str, str], surname: tuple[str, str]) -> Part:
    """Professor Kim: 김 교수님; Mr. Kim and Ms. Kim, who teach: 김 선생님."""
    return Part(((title[0], 2), (surname[0] + ",", 1)), ((surname[1], "", 1), (title[1], "", 2)))


# ---------------------------------------------------------------- things and places


def article(word: str) -> str:
    return "an" if word[0] in "aeiou" and not word.startswith("uni") else "a"


ADJECTIVES_OF: dict[Noun, tuple[Adjective, ...]] = {
    noun: tuple(each for each in words.ADJECTIVES if not set(each.tags).isdisjoint(noun.tags)) for noun in words.NOUNS
}


@cache
def noun_phrase(noun: Noun, style: str, level: Level, count: int = 0, adjective: Adjective | None = None) -> Part:
    """A noun with its determiner; articles have no Korean word and are aligned with the noun."""
    stem: Korean = (noun.korean, "", NOUN)
    english: tuple[English, ...]
    single = noun.plural not in ("", "=")
    if count:
        return _count_noun(noun, count)
    if adjective:
        described = ((adjective.english, OWNER), (noun.english, NOUN))
        english = ((article(adjective.english), NOUN), *described) if single else described
        key = f"{adjective.stem.text}다+{noun.korean}"
        return Part(english, ((before_noun(adjective.stem), "", OWNER), stem), noun.korean, key)
    if style == "the" or "the" in noun.tags:
        return Part((("the", NOUN), (noun.english, NOUN)), (stem,), noun.korean)
    if style in ("his", "her"):  # whose it is need not be said in Korean
        return Part(((style, NOUN), (noun.english, NOUN)), (stem,), noun.korean)
    if style in ("this", "that", "my"):
        korean = {"this": "이", "that": "그", "my": my(level)}[style]
        return Part(((style, OWNER), (noun.english, NOUN)), ((korean, "", OWNER), stem), noun.korean)
    if style == "generic":
        return Part(((noun.plural if single else noun.english, NOUN),), (stem,), noun.korean)
    english = ((article(noun.english), NOUN), (noun.english, NOUN)) if single else ((noun.english, NOUN),)
    return Part(english, (stem,), noun.korean)


def _count_noun(noun: Noun, count: int) -> Part:
    """사과 세 개, 커피 두 잔: the noun, a native number, the counter."""
    korean = ((noun.korean, "", NOUN), (numerals.NATIVE[count - 1], "", COUNT), (noun.unit, "", UNIT))
    if noun.measure:
        number = "a" if count == 1 else numerals.CARDINALS[count - 1]
        unit = noun.measure if count == 1 else plural(noun.measure)
        return Part(((number, COUNT), (f"{unit} of", UNIT), (noun.english, NOUN)), korean, noun.korean)
    english = noun.english if count == 1 else noun.plural
    return Part(((numerals.CARDINALS[count - 1], COUNT | UNIT), (english, NOUN)), korean, noun.korean)


def plural(measure: str) -> str:
    return measure + ("es" if measure.endswith("ss") else "s")


def float_particle(part: Part, role: str) -> Part:
    """Move the particle of a counted noun from the counter to the noun: 고양이가 세 마리 있어요."""
    (stem, _, mask), *rest = part.korean
    return Part(part.english, ((*attach(stem, role), mask), *rest), part.key, part.combination, part.front, fixed=True)


def a_thing(talk: Talk, noun: Noun, styles: str, owner: str = "") -> Part:
    """Draw a determiner, number or adjective that fits this noun; `owner` is "his" or "her" where that means "my"."""
    style = talk.choose(styles.split())
    if style == "my" and owner:
        style = owner
    if style in ("this", "that", "my") and noun.plural == "=" and style != "my":
        style = "the"
    if style in ("this", "that", "the", "my", "number") and not (noun.plural or noun.unit):
        style = "a"
    if style == "a" and noun.measure and noun.plural != "=" and talk.chance(0.3):
        return noun_phrase(noun, style, talk.level, 1)  # a cup of coffee
    if style == "number" and not {"costly", "machine", "furniture", "film"}.isdisjoint(noun.tags):
        style = "a"
    if style == "number" and noun.unit:
        tens = talk.chance(0.3) and noun.unit != "마리"
        many = talk.number(1, 10) if tens else talk.number(1 if noun.measure else 2, 5)
        return noun_phrase(noun, style, talk.level, many)
    if style == "adjective" and ADJECTIVES_OF[noun]:
        return noun_phrase(noun, style, talk.level, 0, talk.choose(ADJECTIVES_OF[noun]))
    return noun_phrase(noun, style, talk.level)


@cache
def place_phrase(place: Place, form: str) -> Part:
    """A place in an English form (at, to, or bare); its Korean particle is added later."""
    return Part(((getattr(place, form), 1),), ((place.korean, "", 1),), place.korean)
