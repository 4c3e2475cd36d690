"""Times: yesterday, on Mondays, at three twenty, on March 5th, for two hours, and which tense they go with.

Not here  the words (words.py).
"""

from collections.abc import Iterable
from functools import cache

from jumok.data.made.grammar import numerals
from jumok.data.made.grammar.draft import English, Korean, Mood, Part, Talk


def _adverbial(english: str, korean: str, links: tuple[int, ...] = ()) -> Part:
    """Read "어제 아침/에"; `links` gives the English word of each Korean one, by default one by one or all with all."""
    ours, theirs = english.split(), [(*word.split("/"), "")[:2] for word in korean.split()]
    if not links and len(ours) == len(theirs):
        links = tuple(range(len(ours)))
    masks = [1 << link for link in links] or [1] * len(theirs)
    return Part(
        tuple((word, 1 << i) for i, word in enumerate(ours)) if links else ((english, 1),),
        tuple((stem, particle, mask) for (stem, particle), mask in zip(theirs, masks, strict=True)),
    )


def _adverbials(table: Iterable[tuple[str, str]], links: tuple[int, ...] = ()) -> tuple[Part, ...]:
    return tuple(_adverbial(english, korean, links) for english, korean in table)


NEAR = {"past": _adverbials(numerals.NEAR_PAST), "future": _adverbials(numerals.NEAR_FUTURE)}
FAR = {"past": _adverbials(numerals.FAR_PAST), "future": _adverbials(numerals.FAR_FUTURE)}
HABIT = _adverbials((*numerals.HABITS, *((f"every {day}", f"{korean}/마다") for day, korean in numerals.WEEKDAYS)))
DAY_PART = _adverbials((*numerals.DAY_PARTS, *((f"on {day}s", f"{korean}/에") for day, korean in numerals.WEEKDAYS)))
WEEKDAY = _adverbials((f"on {day}", f"{korean}/에") for day, korean in numerals.WEEKDAYS)
LAST_WEEKDAY = _adverbials((f"last {day}", f"지난주 {korean}/에") for day, korean in numerals.WEEKDAYS)
NEXT_WEEKDAY = _adverbials(((f"next {day}", f"다음 주 {korean}/에") for day, korean in numerals.WEEKDAYS), (0, 0, 1))
YEAR = _adverbials((f"in {year}", f"{year}년/에") for year in numerals.YEARS)
YEARS_AGO = _adverbials((f"{numerals.CARDINALS[n]} years ago", f"{numerals.SINO[n]} 년 전/에") for n in range(1, 10))
LENGTHS = (
    *((f"{word} minutes", f"{korean} 분") for word, korean in numerals.MINUTES),
    *((f"{numerals.CARDINALS[n]} hours", f"{numerals.NATIVE[n]} 시간") for n in range(1, 6)),
)
AGO = _adverbials((f"{english} ago", f"{korean} 전/에") for english, korean in LENGTHS)
AFTER = _adverbials(((f"in {english}", f"{korean} 후/에") for english, korean in LENGTHS), (1, 2, 0))
LASTING = _adverbials(((f"for {english}", f"{korean} 동안") for english, korean in LENGTHS), (1, 2, 0))
OFTEN = _adverbials(numerals.FREQUENCIES)
NOW = _adverbial("now", "지금")
TODAY = _adverbial("today", "오늘")
ANCHORS: dict[str, Part] = {
    "past": _adverbial("yesterday", "어제"),
    "future": _adverbial("tomorrow", "내일"),
    "present": _adverbial("every day", "매일"),
}
DAY, PART, HOUR, MINUTE = 1, 2, 4, 8  # bits of a time of day


@cache
def clock(hour: int, minute: int, part: int, day: str) -> Part:
    """At three twenty tomorrow afternoon: 내일 오후 세 시 이십 분에.  Minute 0 is o'clock, 10 is half past."""
    word, native = numerals.CARDINALS[hour - 1], numerals.NATIVE[hour - 1]
    english: list[English] = [("at", HOUR), (word, HOUR)]
    korean: list[Korean] = [(native, "", HOUR), ("시", "에", HOUR)]
    if 1 <= minute <= 9:
        name, sino = numerals.MINUTES[minute - 1]
        english[0] = ("at", MINUTE)
        english.append((name, MINUTE))
        korean[1:] = [("시", "", HOUR), (sino, "", MINUTE), ("분", "에", MINUTE)]
    elif minute == 10:
        english = [("at half past", MINUTE), (word, HOUR)]
        korean[1:] = [("시", "", HOUR), ("반", "에", MINUTE)]
    elif part < 0:
        english.append(("o'clock", HOUR))
    if part >= 0:
        alone, after_day, spoken, _ = numerals.CLOCK_PARTS[part]
        first = {"past": "yesterday", "future": "tomorrow", "present": "every"}.get(day)
        english += [(first, DAY), (after_day, PART)] if first else [(alone, PART)]
        korean.insert(0, (spoken, "", PART))
    elif day:
        english += [(text, DAY) for text, _ in ANCHORS[day].english]
    if day:
        korean = [(stem, "", DAY) for stem, _, _ in ANCHORS[day].korean] + korean
    return Part(tuple(english), tuple(korean))


def a_clock(talk: Talk, day: str) -> Part:
    """Draw a time of day; half of them say morning, afternoon or evening."""
    minute = talk.number(0, 10) if talk.chance(0.7) else 0
    if talk.chance(0.5):
        return clock(talk.number(1, 12), minute, -1, day)
    part = talk.number(0, 2)
    return clock(talk.choose(numerals.CLOCK_PARTS[part][3]), minute, part, day)


@cache
def date(month: int, day: int) -> Part:
    """On March 5th: 3월 5일에."""
    ending = "th" if day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    english = (("on", DAY), (numerals.MONTHS[month - 1][0], PART), (f"{day}{ending}", DAY))
    return Part(english, ((f"{month}월", "", PART), (f"{day}일", "에", DAY)))


def a_date(talk: Talk) -> Part:
    month = talk.number(1, 12)
    return date(month, talk.number(1, numerals.MONTHS[month - 1][1]))


SOON = (NOW, TODAY, *NEAR["future"][:7])  # for requests: now, today, tomorrow, this evening


def a_time(talk: Talk, mood: Mood, *, era: bool = False, hours: bool = True, minutes: bool = True) -> Part:
    """Draw a time that goes with this tense.

    Years only for what may last as long (`era`); times of day (`hours`) and times from now (`minutes`) where they fit.
    """
    share = talk.random.random()
    if mood == "progressive":
        return NOW
    if mood == "present":
        every_day = share < 0.8 or not hours
        return talk.choose(HABIT if share < 0.5 else DAY_PART) if every_day else a_clock(talk, "present")
    side = "past" if mood in ("past", "wanted", "could", "was doing") else "future"
    if era and share < 0.4:
        return talk.choose(talk.choose((FAR["past"], YEAR, YEARS_AGO)) if side == "past" else FAR["future"])
    if share < 0.52 or mood in ("wanted", "could"):
        return talk.choose(NEAR[side])
    if share < 0.70:
        return talk.choose(talk.choose((LAST_WEEKDAY if side == "past" else NEXT_WEEKDAY, WEEKDAY)))
    if share < 0.81:
        return a_date(talk)
    if share < 0.93 and hours:
        return a_clock(talk, side)
    return talk.choose((AGO if side == "past" else AFTER) if minutes and hours else NEAR[side])
