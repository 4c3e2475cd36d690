"""Sentences about the weather and the calendar: it rains, the exam is on Monday, it is three o'clock.

Not here  the times themselves (times.py).
"""

from jumok.data.made.grammar import numerals, words
from jumok.data.made.grammar.actions import refuse
from jumok.data.made.grammar.draft import (
    AUX,
    MAIN,
    NOUN,
    OWNER,
    PLACE,
    SUBJECT,
    TIME,
    VERB,
    Draft,
    Mood,
    Part,
    Person,
    Talk,
)
from jumok.data.made.grammar.endings import Tense, attach, wonder
from jumok.data.made.grammar.nouns import a_person, place_phrase
from jumok.data.made.grammar.predicates import Manner, quality_group, verb_group
from jumok.data.made.grammar.states import a_refusal, a_tense, copula, exist, possessive, the
from jumok.data.made.grammar.times import FAR, NEAR, NOW, TODAY, WEEKDAY, a_clock, a_date, clock


def weather(talk: Talk, draft: Draft) -> None:
    """It rained in Seoul yesterday: 어제 서울에 비가 왔어요.  It will be cold: 서울은 추울 거예요."""
    asks = talk.chance(0.25)
    mood: Mood = talk.choose(("past", "past", "future", "future", "progressive"))
    place = place_phrase(talk.choose((*words.CITIES, *words.COUNTRIES)), "at")
    falls = talk.chance(0.5)
    if mood == "progressive" and not falls:
        mood = "present"
    time = {"progressive": NOW, "present": TODAY}.get(mood) or a_day(talk, mood)
    refusal = a_refusal(talk, Person(place, "third"), asks)
    manner = Manner(talk.level, asks, refuse=refuse(talk, refusal))
    draft.speak(time, TIME)
    if falls:
        verb, korean = talk.choose(((words.VERBS["rain 오다"], "비"), (words.VERBS["snow 오다"], "눈")))
        front, rest, predicate = verb_group(verb, mood, refusal, "third", asks, manner)
        stem = verb.stem
        draft.speak(place, PLACE, "in")
        draft.add(*attach(korean, "subject"), MAIN)
    else:
        climate = talk.choose(words.CLIMATES)
        front, rest, predicate = quality_group(climate, mood, refusal, "third", asks, manner)
        stem = climate.stem
        draft.speak(place, PLACE, "topic")
    if asks and mood == "future":  # nobody knows: 비가 올까요?
        predicate = ((wonder(stem, talk.level), "", MAIN | AUX),)
    draft.say((*front, ("it", MAIN), *rest), VERB)
    draft.say(place.english, PLACE)
    draft.say(time.english, TIME)
    draft.end(predicate, asks=asks)


def a_day(talk: Talk, mood: Mood) -> Part:
    """Draw a day, or another time long enough for weather."""
    share = talk.random.random()
    if share < 0.6:
        return talk.choose((*NEAR["past"], *FAR["past"]) if mood == "past" else NEAR["future"])
    return a_date(talk) if share < 0.8 else talk.choose(WEEKDAY)


def event(talk: Talk, draft: Draft) -> None:
    """The exam is at ten on Monday.  When is the party?"""
    tense, asks = a_tense(talk), talk.chance(0.12)
    part = the(*talk.choose(numerals.EVENTS))
    be_form = (("was" if tense == "past" else "is"), MAIN)
    if asks:
        draft.say((("when", MAIN), (be_form[0], AUX)), VERB)
        draft.both(part, SUBJECT, "topic")
        return draft.end(copula(talk, "언제", tense, asks=True), asks=True)
    time = talk.choose((a_day(talk, "past" if tense == "past" else "future"), an_hour(talk, part.key, tense)))
    draft.both(part, SUBJECT, "topic")
    draft.say((be_form,), VERB)
    draft.both(time, TIME)
    draft.end(exist(talk, "있", tense, asks=False, denies=False, honoured=False))


def an_hour(talk: Talk, korean: str, tense: Tense) -> Part:
    """When an event begins: a class by day, a party in the evening."""
    part = 2 if korean in ("파티", "콘서트", "경기") else talk.number(0, 1)
    day = "past" if tense == "past" else talk.choose(("future", ""))
    return clock(talk.choose(numerals.CLOCK_PARTS[part][3]), talk.choose((0, 0, 10, 3)), part, day)


def calendar(talk: Talk, draft: Draft) -> None:
    """Today is Monday.  My birthday is March 5th.  It is three twenty now."""
    share = talk.random.random()
    if share < 0.35:
        time = a_clock(talk, "")
        draft.say((("it is", AUX),), VERB)
        time_is(talk, draft, time, Part((("now", NOUN),), (("지금", "", NOUN),)))
    else:
        owner = my_birthday(talk) if share < 0.8 else None
        word, korean = talk.choose((("today", "오늘"), ("tomorrow", "내일")))
        part = owner or Part(((word, NOUN),), ((korean, "", NOUN),))
        draft.say(part.english, SUBJECT)
        draft.say((("is", AUX),), VERB)
        time = a_date(talk) if owner or talk.chance(0.6) else talk.choose(WEEKDAY)
        time_is(talk, draft, time, part, topic_done=True)


def my_birthday(talk: Talk) -> Part:
    if talk.chance(0.3):
        mine = "내" if talk.level == "plain" else "제"
        return Part((("my", OWNER), ("birthday", NOUN)), ((mine, "", OWNER), ("생일", "", NOUN)))
    return possessive(a_person(talk, elders=False, crowds=False).part, "birthday", "생일")


def time_is(talk: Talk, draft: Draft, time: Part, topic: Part, *, topic_done: bool = False) -> None:
    """Add the time without its preposition, followed by the copula."""
    (first, mask), *rest = time.english
    bare = first.split(" ", 1)[1:]
    draft.say((*((word, mask) for word in bare), *rest), TIME)
    if not topic_done:
        draft.say(topic.english, SUBJECT)
    draft.speak(topic, SUBJECT, "topic")
    *before, (stem, _, last) = time.korean
    draft.speak(Part((), tuple(before)), TIME)
    draft.add(stem, copula(talk, stem)[0][1], last << TIME | AUX << VERB)
