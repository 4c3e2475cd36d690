"""Greetings, thanks, wishes, and questions to strangers: good morning, thank you for the book, excuse me.

A person addressed comes last in English (Good morning, Professor Kim) and first in Korean.
Not here  people (nouns.py), other sentences about prices and places (states.py).
"""

from jumok.data.made.grammar import people, words
from jumok.data.made.grammar.draft import (
    AUX,
    CALL,
    MAIN,
    NOUN,
    OBJECT,
    PLACE,
    SUBJECT,
    TIME,
    VERB,
    Draft,
    Part,
    Person,
    Talk,
)
from jumok.data.made.grammar.endings import Level
from jumok.data.made.grammar.nouns import HEY, a_caller, article, noun_phrase, speaker
from jumok.data.made.grammar.states import copula, exist, locate, only_main, price_question, the
from jumok.data.made.grammar.times import WEEKDAY, a_clock

Spoken = dict[Level, str]


def _table(*rows: tuple[str, str, str, str]) -> tuple[tuple[str, Spoken], ...]:
    return tuple(
        (english, {"polite": first, "formal": second, "plain": third}) for english, first, second, third in rows
    )


HELLOS = _table(
    ("good morning", "안녕하세요", "안녕하십니까?", "안녕"),
    ("good afternoon", "안녕하세요", "안녕하십니까?", "안녕"),
    ("good evening", "안녕하세요", "안녕하십니까?", "안녕"),
    ("hello", "안녕하세요", "안녕하십니까?", "안녕"),
)
SAYINGS = _table(
    ("thank you", "고마워요", "감사합니다", "고마워"),
    ("thank you very much", "정말 고마워요", "정말 감사합니다", "정말 고마워"),
    ("I am sorry", "미안해요", "죄송합니다", "미안해"),
    ("good night", "안녕히 주무세요", "안녕히 주무십시오", "잘 자"),
    ("goodbye", "안녕히 가세요", "안녕히 가십시오", "잘 가"),
    ("nice to meet you", "만나서 반가워요", "만나서 반갑습니다", "만나서 반가워"),
    ("congratulations", "축하해요", "축하드립니다", "축하해"),
    ("happy birthday", "생일 축하해요", "생신 축하드립니다", "생일 축하해"),
    ("see you later", "나중에 봐요", "나중에 뵙겠습니다", "나중에 봐"),
    ("see you tomorrow", "내일 봐요", "내일 뵙겠습니다", "내일 봐"),
    ("have a good day", "좋은 하루 보내세요", "좋은 하루 보내십시오", "좋은 하루 보내"),
    ("have a good weekend", "주말 잘 보내세요", "주말 잘 보내십시오", "주말 잘 보내"),
    ("enjoy your meal", "맛있게 드세요", "맛있게 드십시오", "맛있게 먹어"),
)
THANKS: Spoken = {"polite": "고마워요", "formal": "감사합니다", "plain": "고마워"}
SEE: Spoken = {"polite": "봐요", "formal": "뵙겠습니다", "plain": "봐"}
GIVEN = tuple(noun for noun in words.with_tags("gift", "bakery", "post", "goods", "lend") if noun.plural != "=")


def greet(talk: Talk, draft: Draft) -> None:
    """Good morning.  Thank you for the flowers, Minsu.  See you on Monday, Professor Kim."""
    call = None if talk.level == "polite" else a_caller(talk)
    while call is HEY:
        call = a_caller(talk)
    if call:
        draft.speak(call, CALL)
        draft.called = len(call.korean)
    share = talk.random.random()
    if share < 0.2 and not call:
        introduce(talk, draft)
    elif share < 0.5:
        thank(talk, draft)
    elif share < 0.75:
        see_again(talk, draft)
    else:
        english, spoken = talk.choose((*HELLOS, *SAYINGS))
        korean = spoken[talk.level]
        draft.say(((english, MAIN),), VERB)
        draft.korean.append((tuple((word, "", MAIN) for word in korean.rstrip("?").split()), VERB, ""))
        draft.korean_mark = "?" if korean.endswith("?") else ""
        draft.fixed = True
    if call:
        *before, (last, mask) = draft.english[-1][0]
        draft.english[-1] = ((*before, (last + ",", mask)), draft.english[-1][1])
        *titles, (name, bit) = call.english
        draft.say((*titles, (name.rstrip(",").replace("Sir", "sir"), bit)), CALL)


def introduce(talk: Talk, draft: Draft) -> None:
    """Hello, I am a student: 안녕하세요, 저는 학생이에요."""
    english, spoken = talk.choose(HELLOS)
    draft.say(((english + ",", 1),), CALL)
    draft.add(spoken[talk.level], "", 1 << CALL)
    draft.called = 1
    job = talk.chance(0.5)
    word, korean = talk.choose(people.JOBS if job else people.NAMES)
    draft.both(speaker("I", talk.level).part, SUBJECT, "topic")
    draft.say((("am", AUX), (f"{article(word)} {word}" if job else word, MAIN)), VERB)
    draft.end(copula(talk, korean))


def thank(talk: Talk, draft: Draft) -> None:
    """Thank you for the book: 책 고마워요."""
    part = noun_phrase(talk.choose(GIVEN), "the", talk.level)
    draft.say((("thank you", MAIN), ("for", MAIN)), VERB)
    draft.both(part, OBJECT)
    draft.end(((THANKS[talk.level], "", MAIN),))


def see_again(talk: Talk, draft: Draft) -> None:
    """See you at three tomorrow: 내일 세 시에 봐요."""
    time = talk.choose(WEEKDAY) if talk.chance(0.4) else a_clock(talk, "future")
    draft.say((("see you", MAIN),), VERB)
    draft.both(time, TIME)
    draft.end(((SEE[talk.level], "", MAIN),))


def approach(talk: Talk, draft: Draft) -> None:
    """Excuse me, where is the bank?  Excuse me, is there a cafe near here?  How much is this bag?"""
    if talk.level == "polite":
        draft.both(Part((("excuse me,", 1),), (("저기요", "", 1),)), CALL)
        draft.called = 1
    share = talk.random.random()
    if share < 0.35:
        return price_question(talk, draft)
    place = talk.choose(words.STREETS)
    if share < 0.7:
        here = Part((("where", 1),), (("어디", "", 1),))
        return locate(talk, draft, Person(the(place.english, place.korean), "third"), here, "present", asks=True)
    draft.say((("is there", MAIN),), VERB)
    draft.say(((f"{article(place.english)} {place.english}", NOUN),), OBJECT)
    draft.both(Part((("near here", 1),), (("이", "", 1), ("근처", "", 1))), PLACE, "in")
    draft.speak(Part((), ((place.korean, "", NOUN),)), OBJECT, "subject")
    draft.end(only_main(exist(talk, "있", "present", asks=True, denies=False, honoured=False)), asks=True)
