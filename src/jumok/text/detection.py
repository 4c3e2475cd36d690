"""Which of several languages a text is in, and how certain that is; no torch.

    detector = Detector(["en", "de", "ko"])
    detector.detect("Guten Morgen!")                 Detected(language="de", confidence=99.1)
    detector.detect("12:30 🙂")                      Detected(language="en", confidence=0.0)

The script decides first: of the languages given, those that are written in the script of most letters remain.  Between
languages of one script, py3langid's statistics of characters decide, restricted to these languages; they are loaded
when the first such text arrives, which takes half a second and 45 MB.  A confidence of 0 means that the text does not
say: no letters, letters of other scripts only, or too little difference.
"""

from __future__ import annotations

import math
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from jumok.extras import is_installed
from jumok.text.languages import SAME, TAG, describe
from jumok.text.scripts import script_of

LONGEST = 1_000  # characters that are looked at
LEAST = 10.0  # a lower confidence counts as 0
DENSE = {"Han": 3.0, "Kana": 2.0, "Hangul": 3.0}  # weight of a letter; one of these says as much as several of others
KANA = 0.1  # least share of kana among the letters of a Japanese text that could be Chinese
NEARLY = 0.85  # languages with at least this part of the largest share of letters are compared further
UNLIKELY = 30.0  # confidence in Japanese without kana, if Chinese is also possible
ADDRESS = re.compile(r"https?://\S{1,500}|www\.\S{1,500}|[\w.+-]{1,64}@[\w-]{1,64}\.[\w.-]{1,64}")
SIMPLIFIED = frozenset(
    "们这来说对时会学过还没见东车长门问间样点电话书马鸟鱼买卖钱银饭馆习号码写读听觉边远进运动员级网络开关机场"
)
TRADITIONAL = frozenset(
    "們這來說對時會學過還沒見東車長門問間樣點電話書馬鳥魚買賣錢銀飯館習號碼寫讀聽覺邊遠進運動員級網絡開關機場"
)


class Detected(NamedTuple):
    """A language and the confidence in it, from 0 to 100."""

    language: str
    confidence: float


class Detector:
    """Tells apart the languages that it is given, as canonical tags."""

    def __init__(self, languages: Iterable[str]) -> None:
        """Of languages that differ in their region only, the first is detected."""
        self.languages = list(dict.fromkeys(languages))
        self._scripts = {tag: _scripts_of(tag) for tag in self.languages}

    def detect(self, text: str) -> Detected:
        """Return the likeliest language of a text; the first one with confidence 0 if the text does not say."""
        return self.rank(text)[0]

    def rank(self, text: str) -> list[Detected]:
        """Return all languages, likeliest first; those with the same confidence in the order they were given in."""
        letters, kana = _weigh(text)
        total = sum(letters.values())
        shares = {
            tag: sum(letters.get(script, 0.0) for script in scripts) / total if total else 0.0
            for tag, scripts in self._scripts.items()
        }
        best = max(shares.values(), default=0.0)
        if best == 0.0:
            return [Detected(tag, 0.0) for tag in self.languages]
        likely = [tag for tag in self.languages if shares[tag] >= NEARLY * best]
        chances = self._tell_apart(text, likely, kana) if len(likely) > 1 else {likely[0]: 100.0}
        ranked = [Detected(tag, round(chances.get(tag, 0.0) * shares[tag], 1)) for tag in self.languages]
        ranked = [one if one.confidence >= LEAST else one._replace(confidence=0.0) for one in ranked]
        return sorted(ranked, key=lambda one: -one.confidence)

    def _tell_apart(self, text: str, tags: Sequence[str], kana: float) -> dict[str, float]:
        """Return the confidence in each of several languages that are written in the same script."""
        bases = {tag: _base(tag) for tag in tags}
        if "ja" in bases.values() and len(set(bases.values())) > 1 and {"zh", "yue"} & set(bases.values()):
            japanese = [tag for tag in tags if bases[tag] == "ja"]
            if kana >= KANA:
                return dict.fromkeys(japanese[:1], 100.0)
            rest = self._tell_apart(text, [tag for tag in tags if bases[tag] != "ja"], kana)
            return {tag: min(value, 100.0 - UNLIKELY) for tag, value in rest.items()} | {japanese[0]: UNLIKELY}
        if set(bases.values()) == {"zh"}:
            return _tell_chinese(text, tags)
        first = {base: tag for tag, base in reversed(bases.items())}  # of each language
        if len(first) == 1:
            return {tags[0]: 100.0}
        return {first[base]: value for base, value in self._score(text, list(first)).items()}

    def _score(self, text: str, bases: Sequence[str]) -> dict[str, float]:
        """Return the confidence in languages by their characters; 0 where there are no statistics."""
        statistics = self._statistics
        if statistics is None:
            return {}
        chances = statistics.score(ADDRESS.sub(" ", text[:LONGEST]))
        known = {base: chances[base] for base in bases if base in chances}
        total, even = sum(known.values()), 1.0 / max(2, len(known))
        if len(known) < len(bases) or total <= 0.0:  # nothing is known about one of them
            return {}
        return {base: 100.0 * max(0.0, chance / total - even) / (1.0 - even) for base, chance in known.items()}

    @cached_property
    def _statistics(self) -> Statistics | None:
        return Statistics([_base(tag) for tag in self.languages]) if is_installed("py3langid") else None


class Statistics:
    """How often sequences of bytes occur in languages: the tables of py3langid for some languages only."""

    def __init__(self, languages: Iterable[str]) -> None:
        """Languages that py3langid does not know are left out."""
        from py3langid.langid import MODEL_DIR, MODEL_FILE
        from py3langid.modelio import load_model

        table, chances, names, moves, rows, features = load_model(MODEL_DIR / MODEL_FILE)
        wanted = set(languages)
        columns = [column for column, name in enumerate(names) if name in wanted]
        self.names = [str(names[column]) for column in columns]
        self._table = np.asarray(table)[:, columns].astype(np.float32)
        self._chances = np.asarray(chances, dtype=np.float32)[columns]
        self._moves = moves
        self._begins = array("I", (row << 8 for row in rows))
        self._features = array("i", features)

    def score(self, text: str) -> dict[str, float]:
        """Return the probability of each language; a temperature keeps it from growing with the length of the text."""
        content = unicodedata.normalize("NFC", text.lower() if text.isupper() else text)
        encoded = content.encode("utf-8", errors="surrogatepass")
        state, seen = 0, list[int]()
        moves, begins, features = self._moves, self._begins, self._features
        for byte in encoded:
            state = moves[begins[state] + byte]
            if (feature := features[state]) >= 0:
                seen.append(feature)
        if not seen or not self.names:
            return {}
        counts = Counter(seen)
        index = np.fromiter(counts, dtype=np.intp, count=len(counts))
        weights = np.log1p(np.fromiter(counts.values(), dtype=np.float32, count=len(counts)))
        scores = (weights @ self._table[index] + self._chances) / math.sqrt(len(encoded))
        chances = np.exp(scores - scores.max())
        result: dict[str, float] = {}
        for name, chance in zip(self.names, (chances / chances.sum()).tolist(), strict=True):
            result[name] = result.get(name, 0.0) + chance  # some languages have a column per script
        return result


def _base(tag: str) -> str:
    """Return the language of a tag, by the code that the statistics have for it."""
    match = TAG.fullmatch(tag)
    language = match["language"] if match else tag
    return SAME.get(language, language)


def _scripts_of(tag: str) -> tuple[str, ...]:
    """Return the scripts of a language; a language that is not in the table is taken to use Latin letters."""
    return describe(tag).scripts or ("Latin",)


def _weigh(text: str) -> tuple[dict[str, float], float]:
    """Return the weight of each script among the letters of a text, and the share of kana among East Asian letters."""
    weights: dict[str, float] = {}
    for character, count in Counter(ADDRESS.sub(" ", text[:LONGEST])).items():
        if (script := script_of(character)) is not None:
            weights[script] = weights.get(script, 0.0) + count * DENSE.get(script, 1.0)
        elif character.isalpha():
            weights["another"] = weights.get("another", 0.0) + count
    kana, han = weights.get("Kana", 0.0), weights.get("Han", 0.0)
    return weights, kana / (kana + han) if kana else 0.0


def _tell_chinese(text: str, tags: Sequence[str]) -> dict[str, float]:
    """Return the confidence in simplified and in traditional Chinese, by characters that only one of them has."""
    counts = {
        "Hans": sum(c in SIMPLIFIED for c in text[:LONGEST]),
        "Hant": sum(c in TRADITIONAL for c in text[:LONGEST]),
    }
    total = sum(counts.values())
    simple = {tag: describe(tag).own for tag in tags}
    kinds = {tag: {"简体中文": "Hans", "繁體中文": "Hant"}.get(own) for tag, own in simple.items()}
    first = {kind: tag for tag, kind in reversed(kinds.items())}
    if len(first) == 1:
        return {tags[0]: 100.0}
    if None in first:
        return {first[None]: 100.0}  # Chinese of either script
    return {first[kind]: 100.0 * count / total for kind, count in counts.items() if kind in first} if total else {}
