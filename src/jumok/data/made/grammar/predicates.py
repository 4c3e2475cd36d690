"""Predicates: the verb group of a sentence in English and in Korean, with tense, mood, negation and respect.

Not here  the words around the verb (nouns.py, times.py).
"""

from functools import cache
from typing import NamedTuple

from jumok.data.made.grammar.draft import AUX, LINK, MAIN, NEG, English, Korean, Mood, Negation, Number
from jumok.data.made.grammar.endings import (
    Form,
    Level,
    Stem,
    Tense,
    finish,
    future_tail,
    honorific,
    join,
    loose,
    open_form,
)
from jumok.data.made.grammar.words import Adjective, Verb

Group = tuple[tuple[English, ...], tuple[English, ...], tuple[Korean, ...]]  # before the subject, after it, Korean


@cache
def english_group(
    verb: Verb, mood: Mood, negation: Negation, number: Number, asks: bool
) -> tuple[tuple[English, ...], tuple[English, ...]]:
    """Return what a question puts before the subject, and the rest of the verb: (did,) (want to, eat)."""
    helper, inner, main = _helper(verb, mood, number)
    if not (negation or asks or helper in ("will", "can", "could", "am", "is", "are", "was", "were")):
        finite = {"present": verb.third if number == "third" else verb.base, "past": verb.past}
        want = {"want": "wants to" if number == "third" else "want to", "wanted": "wanted to"}
        must = "has to" if number == "third" else "have to"
        if mood in finite:
            return (), ((finite[mood], MAIN),)
        return (), ((want.get(mood, must), AUX), (verb.base, MAIN))
    front = _negate(helper, negation)
    rest = ((inner, AUX), (main, MAIN)) if inner else ((main, MAIN),)
    return (front, rest) if asks else ((), front + rest)


def _helper(verb: Verb, mood: Mood, number: Number) -> tuple[str, str, str]:
    """Return the auxiliary, an infinitive in between, and the form of the verb after them."""
    do = "does" if number == "third" else "do"
    be = {"I": "am", "third": "is"}.get(number, "are")
    return {
        "present": (do, "", verb.base),
        "past": ("did", "", verb.base),
        "future": ("will", "", verb.base),
        "progressive": (be, "", verb.ing),
        "was doing": ("was" if number in ("I", "third") else "were", "", verb.ing),
        "want": (do, "want to", verb.base),
        "wanted": ("did", "want to", verb.base),
        "can": ("can", "", verb.base),
        "could": ("could", "", verb.base),
        "must": (do, "have to", verb.base),
    }[mood]


def _negate(helper: str, negation: Negation) -> tuple[English, ...]:
    bits = NEG if helper.startswith("d") else NEG | AUX
    if negation == "short":
        return (({"will": "won't", "can": "can't"}.get(helper, helper + "n't"), bits),)
    if negation == "long":
        return (("cannot", bits),) if helper == "can" else ((helper, bits & ~NEG or NEG), ("not", NEG))
    return ((helper, AUX),)


class Manner(NamedTuple):
    """The properties that a Korean predicate agrees with."""

    level: Level
    asks: bool = False
    honoured: bool = False
    other: bool = False  # a third person, who takes 싶어 하다
    form: Form = "end"
    refuse: Negation = ""  # the Korean negation, where it is not that of the English


@cache
def korean_group(
    stem: Stem, special: str, short: bool, mood: Mood, negation: Negation, manner: Manner
) -> tuple[Korean, ...]:
    """Return the Korean predicate; `short` tells whether 안 and 못 may precede it."""
    pieces = _korean_group(stem, special, short, mood, manner.refuse or negation, manner)
    if manner.form == "end":
        return pieces
    *before, (last, particle, mask) = pieces
    joined = last.split(" ")  # 먹을 때, 먹기 때문에
    if len(joined) == 1:
        return *before, (last, particle, mask | LINK)
    return *before, (joined[0], "", mask), (joined[1], "", LINK)


def _korean_group(
    stem: Stem, special: str, short: bool, mood: Mood, negation: Negation, manner: Manner
) -> tuple[Korean, ...]:
    honour = manner.honoured
    full = honorific(stem, special) if honour else stem
    half = Stem(special) if honour and special else stem  # before a helper that is honoured itself
    tense: Tense = "past" if mood in ("past", "wanted", "could", "was doing") else "present"
    before: tuple[Korean, ...] = ()
    if negation == "short" and short and mood in (
        "present", "past", "future", "progressive", "was doing",
    ):  # fmt: skip
        before, negation = (("안", "", NEG),), ""
    if mood in ("can", "could"):
        if negation == "short" and short:
            return ("못", "", NEG), (_end(full, tense, manner), "", MAIN)
        helper = Stem("없" if negation else "있")
        bits = NEG | AUX if negation else AUX
        return (loose(full, "ㄹ"), "", MAIN), ("수", "", AUX), (_end(helper, tense, manner), "", bits)
    if mood == "must":
        return (open_form(full) + "야", "", MAIN), (_end(Stem("하"), "present", manner), "", AUX)
    if mood in ("want", "wanted"):
        return (half.text + "고", "", MAIN), *_want(tense, negation, manner)
    if mood in ("progressive", "was doing"):
        stay = Stem("계시") if honour else Stem("있")
        going = Stem(half.text.removesuffix("아보")) if half.text == "찾아보" else half
        if negation:  # 계시지 않다 is honorific enough
            tail: tuple[Korean, ...] = ((stay.text + "지", "", AUX), (_end(Stem("않"), tense, manner), "", NEG))
        else:
            tail = ((_end(stay, tense, manner), "", AUX),)
        return *before, (going.text + "고", "", MAIN), *tail
    lift = not special  # 드시지 않다 is honorific enough
    if mood == "future" and manner.form == "noun" and not negation:
        return ((loose(full, "ㄹ"), "", MAIN),)
    if mood == "future":
        coming = (future_tail(manner.level, manner.asks), "", AUX)
        if negation:
            not_ = honorific(Stem("않")) if honour and lift else Stem("않")
            return (half.text + "지", "", MAIN), (loose(not_, "ㄹ"), "", NEG), coming
        return *before, (loose(full, "ㄹ"), "", MAIN), coming
    if negation:
        return (half.text + "지", "", MAIN), (_end(Stem("않"), tense, manner, lift=lift), "", NEG)
    return *before, (_end(full, tense, manner), "", MAIN)


def _end(stem: Stem, tense: Tense, manner: Manner, *, lift: bool = False) -> str:
    """Finish the clause; `lift` makes the helper honorific where the subject is honoured."""
    stem = honorific(stem) if lift and manner.honoured else stem
    if manner.form == "end":
        return finish(stem, tense, manner.level, manner.asks)
    return join(stem, tense, manner.form)


def _want(tense: Tense, negation: Negation, manner: Manner) -> tuple[Korean, ...]:
    """-고 싶다 for oneself and in questions to you, -고 싶어 하다 for others."""
    refused: tuple[Korean, ...] = ((_end(Stem("않"), tense, manner, lift=True), "", NEG),)
    if manner.other:
        if negation:
            return ("싶어", "", AUX), ("하지", "", AUX), *refused
        return ("싶어", "", AUX), (_end(Stem("하"), tense, manner, lift=True), "", AUX)
    if negation:
        return ("싶지", "", AUX), *refused
    return ((_end(Stem("싶"), tense, manner, lift=True), "", AUX),)


def _cover(korean: tuple[Korean, ...], *english: tuple[English, ...]) -> tuple[Korean, ...]:
    """Give the last Korean word the bits of English words without a counterpart (did, will)."""
    wanted = 0
    for _, mask in (piece for pieces in english for piece in pieces):
        wanted |= mask
    have = 0
    for _, _, mask in korean:
        have |= mask
    stem, particle, mask = korean[-1]
    return *korean[:-1], (stem, particle, mask | (wanted & ~have))


@cache
def verb_group(
    verb: Verb, mood: Mood, negation: Negation, number: Number, inverts: bool, manner: Manner
) -> tuple[tuple[English, ...], tuple[English, ...], tuple[Korean, ...]]:
    front, rest = english_group(verb, mood, negation, number, inverts)
    if verb.stem.text == "알" and negation:  # not to know is a verb of its own
        *before, (text, _, _) = korean_group(Stem("모르", "르"), "", True, mood, "", manner._replace(refuse=""))
        return front, rest, _cover((*before, (text, "", MAIN | NEG)), front, rest)
    korean = korean_group(verb.stem, verb.honorific, not verb.splits, mood, negation, manner)
    if mood in ("can", "could") and verb.stem.text == "하" and negation == "short":  # 못 해요 would mean 못해요
        korean = korean_group(verb.stem, verb.honorific, False, mood, negation, manner)
    return front, rest, _cover(korean, front, rest)


@cache
def quality_group(
    adjective: Adjective, mood: Mood, negation: Negation, number: Number, asks: bool, manner: Manner
) -> tuple[tuple[English, ...], tuple[English, ...], tuple[Korean, ...]]:
    """A predicate with "to be": is big, wasn't big, will be cold."""
    front, rest = be_group(mood, negation, number, asks)
    rest = (*rest, (adjective.english, MAIN))
    korean = korean_group(adjective.stem, "", adjective.short, mood, negation, manner)
    return front, rest, _cover(korean, front, rest)


def be_group(
    mood: Mood, negation: Negation, number: Number, asks: bool
) -> tuple[tuple[English, ...], tuple[English, ...]]:
    """Return the forms of "to be" before and after the subject."""
    if mood == "future":
        will = _negate("will", negation)
        return (will, (("be", AUX),)) if asks else ((), (*will, ("be", AUX)))
    single = number in ("I", "third")
    now = {"I": "am", "third": "is"}.get(number, "are")
    be = _negate(now if mood == "present" else "was" if single else "were", negation)
    return (be, ()) if asks else ((), be)
