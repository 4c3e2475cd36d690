"""Korean endings: which particle fits a noun, how a verb or an adjective is conjugated.

A particle has one form after a vowel and one after a consonant (사과를, 책을), and 로 counts ㄹ as a vowel
(서울로).  A predicate is conjugated in three levels of speech: polite 해요, formal 합니다, plain 해.  Regular
stems need no mark; irregular ㄷ, ㅂ and 르 stems are marked, and all else follows from the last syllable.

Not here  words (words.py), whole sentences (draft.py).
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal

from jumok.text.endings import PARTICLES

Level = Literal["polite", "formal", "plain"]
Tense = Literal["present", "past"]
Form = Literal["end", "because", "reason", "since", "if", "when", "noun"]  # how a clause ends

FIRST = 0xAC00  # 가; a syllable is FIRST + (lead * 21 + vowel) * 28 + tail
VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
TAILS = "-ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ"

# (level, tense, asks, honours) -> the copula after a vowel; after a consonant 이 comes before it
COPULAS: dict[tuple[Level, Tense, bool, bool], str] = {
    ("polite", "present", False, False): "예요",
    ("polite", "present", True, False): "예요",
    ("formal", "present", False, False): "입니다",
    ("formal", "present", True, False): "입니까",
    ("plain", "present", False, False): "야",
    ("plain", "present", True, False): "야",
    ("polite", "past", False, False): "였어요",
    ("polite", "past", True, False): "였어요",
    ("formal", "past", False, False): "였습니다",
    ("formal", "past", True, False): "였습니까",
    ("plain", "past", False, False): "였어",
    ("plain", "past", True, False): "였어",
    ("polite", "present", False, True): "세요",
    ("polite", "present", True, True): "세요",
    ("formal", "present", False, True): "십니다",
    ("formal", "present", True, True): "십니까",
    ("plain", "present", False, True): "셔",
    ("plain", "present", True, True): "셔",
    ("polite", "past", False, True): "셨어요",
    ("polite", "past", True, True): "셨어요",
    ("formal", "past", False, True): "셨습니다",
    ("formal", "past", True, True): "셨습니까",
    ("plain", "past", False, True): "셨어",
    ("plain", "past", True, True): "셨어",
}


def copula_forms(ending: str) -> tuple[str, str]:
    """Return the copula after a vowel and after a consonant: (예요, 이에요), (야, 이야), (입니다, 입니다)."""
    if ending.startswith("입"):
        return ending, ending
    if ending.startswith(("예", "였")):
        return ending, {"예": "이에", "였": "이었"}[ending[0]] + ending[1:]
    return ending, "이" + ending


def negate_copula(level: Level, tense: Tense, asks: bool, honours: bool) -> str:
    """Return the negative copula: 아니에요, 아닙니다, 아니야; 아니었어요, 아니세요."""
    if honours:
        return finish(Stem("아니시"), tense, level, asks)
    if tense == "past" or level == "formal":
        return finish(Stem("아니었" if tense == "past" else "아니"), "present", level, asks)
    return "아니에요" if level == "polite" else "아니야"


def tail(text: str) -> str:
    """Return the final consonant of the last syllable, "-" after a vowel, "" if it is not a Korean syllable."""
    code = ord(text[-1]) - FIRST if text else -1
    return TAILS[code % 28] if 0 <= code < 11172 else ""


def _vowel(syllable: str) -> str:
    return VOWELS[(ord(syllable) - FIRST) // 28 % 21]


def _with(text: str, *, vowel: str = "", tail: str = "") -> str:
    """Replace the vowel and the final consonant of the last syllable; "" leaves it unchanged."""
    code = ord(text[-1]) - FIRST
    lead, old_vowel, old_tail = code // 588, code // 28 % 21, code % 28
    new_vowel = VOWELS.index(vowel) if vowel else old_vowel
    new_tail = TAILS.index(tail) if tail else old_tail
    return text[:-1] + chr(FIRST + (lead * 21 + new_vowel) * 28 + new_tail)


def pick(stem: str, forms: tuple[str, str]) -> str:
    """Return the form that follows `stem`: the first after a vowel, the second after a consonant."""
    final = tail(stem)
    return forms[0] if final == "-" or (final == "ㄹ" and forms[0] == "로") else forms[1]


@cache
def attach(stem: str, role: str) -> tuple[str, str]:
    """Return the stem and its particle for `role`; 저, 나, 누구 change before 가."""
    if role == "subject" and stem in ("저", "나", "누구"):
        return {"저": "제", "나": "내", "누구": "누"}[stem], "가"
    return stem, pick(stem, PARTICLES[role])


@dataclass(frozen=True, slots=True)
class Stem:
    """The stem of a verb or an adjective; `change` is ㄷ, ㅂ or 르 if it is irregular."""

    text: str
    change: str = ""


def loose(stem: Stem, ending: str) -> str:
    """Join an ending that needs 으 after a consonant: -ㄹ, -ㄴ, -시 (먹을, 갈, 만드시, 들으시, 추울)."""
    text = stem.text
    if stem.change == "ㅂ":
        text = _with(text, tail="-") + "우"
    elif stem.change == "ㄷ":
        return _with(text, tail="ㄹ") + _append("으", ending)
    if tail(text) == "ㄹ":
        return _append(_with(text, tail="-"), ending)
    return _append(text if tail(text) == "-" else text + "으", ending)


def _append(text: str, ending: str) -> str:
    """Append an ending; a single consonant goes under the last syllable."""
    return _with(text, tail=ending[0]) + ending[1:] if ending[0] in TAILS else text + ending


def open_form(stem: Stem) -> str:
    """Return the 아/어 form: 먹어, 가, 마셔, 봐, 배워, 해, 써, 바빠, 들어, 도와, 추워, 불러."""
    text = stem.text
    if text.endswith("하"):
        return text[:-1] + "해"
    if stem.change == "르":
        before = _with(text[:-1], tail="ㄹ")
        return before + ("라" if _vowel(before[-1]) in "ㅏㅗ" else "러")
    if stem.change == "ㅂ":
        return _with(text, tail="-") + ("와" if text == "돕" else "워")
    if stem.change == "ㄷ":
        text = _with(text, tail="ㄹ")
    if tail(text) != "-":
        return text + ("아" if _vowel(text[-1]) in "ㅏㅗㅑ" else "어")
    return _contract(text)


def _contract(text: str) -> str:
    """Contract a stem that ends in a vowel with 아/어."""
    vowel = _vowel(text[-1])
    if vowel == "ㅡ":
        back = len(text) > 1 and _vowel(text[-2]) in "ㅏㅗ"
        return _with(text, vowel="ㅏ" if back else "ㅓ")
    contracted = {"ㅗ": "ㅘ", "ㅜ": "ㅝ", "ㅣ": "ㅕ", "ㅚ": "ㅙ"}.get(vowel)
    if contracted:
        return _with(text, vowel=contracted)
    return text if vowel in "ㅏㅓㅐㅔㅕ" else text + "어"


def past_stem(stem: Stem) -> str:
    """Return the stem of the past: 먹었, 갔, 했, 추웠."""
    return _with(open_form(stem), tail="ㅆ")


def honorific(stem: Stem, special: str = "") -> Stem:
    """Return the stem that honours the subject: 가시, 읽으시, 만드시; or the special one of a verb (드시)."""
    return Stem(special or loose(stem, "시"))


@cache
def finish(stem: Stem, tense: Tense, level: Level, asks: bool) -> str:
    """End a sentence: 먹어요, 먹습니다, 먹어; 먹었어요, 먹었습니다, 먹었어; a formal question ends in 까."""
    asked = "까" if asks else "다"
    if tense == "past":
        return past_stem(stem) + {"polite": "어요", "formal": f"습니{asked}", "plain": "어"}[level]
    if level == "formal":
        vowel = tail(stem.text) in "-ㄹ"
        return _with(stem.text, tail="ㅂ") + f"니{asked}" if vowel else f"{stem.text}습니{asked}"
    if level == "polite" and stem.text.endswith("시") and is_honoured(stem):
        return stem.text[:-1] + "세요"
    return open_form(stem) + ("요" if level == "polite" else "")


def join(stem: Stem, tense: Tense, form: Form) -> str:
    """End a clause that is not the main one; two words are possible.

    because 먹어서   reason 먹기 때문에   since 먹으니까   if 먹으면   when 먹을 때   noun 먹는, 먹은
    """
    if form == "because":
        return open_form(stem) + "서"
    if form == "reason":
        return (past_stem(stem) if tense == "past" else stem.text) + "기 때문에"
    if form == "if":
        return stem.text + "면" if tail(stem.text) == "ㄹ" else loose(stem, "면")
    if form == "noun":
        dropped = _with(stem.text, tail="-") if tail(stem.text) == "ㄹ" else stem.text
        return loose(stem, "ㄴ") if tense == "past" else dropped + "는"
    past = Stem(past_stem(stem)) if tense == "past" else stem
    return loose(past, "ㄹ") + " 때" if form == "when" else loose(past, "니까")


def is_honoured(stem: Stem) -> bool:
    """Whether a stem in 시 was made by `honorific` (가시, 드시), unlike 마시."""
    return stem.text != "마시"


def future_tail(level: Level, asks: bool) -> str:
    """Return the word after -ㄹ that makes the future."""
    return {"polite": "거예요", "formal": "겁니까" if asks else "겁니다", "plain": "거야"}[level]


def wonder(stem: Stem, level: Level) -> str:
    """Ask what nobody knows yet: 올까요, 올까, 오겠습니까."""
    return stem.text + "겠습니까" if level == "formal" else loose(stem, "ㄹ까") + ("요" if level == "polite" else "")


def order(stem: Stem, level: Level) -> str:
    """Return the imperative: 주세요, 주십시오, 줘."""
    if level == "plain":
        return open_form(stem)
    return loose(stem, "세요" if level == "polite" else "십시오")


def before_noun(stem: Stem) -> str:
    """Return the form of an adjective before its noun: 큰, 예쁜, 단, 매운, 맛있는."""
    return stem.text + "는" if stem.text.endswith("있") else loose(stem, "ㄴ")
