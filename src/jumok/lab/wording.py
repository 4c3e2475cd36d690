"""What the lab says, in English and in Korean: words/NAME.toml holds all text of a claim; its file is code alone.

    WORDS = Words.read("mask")
    WORDS("checks.loss", without=0.03, with_=0.52)        # a Text: .en and .ko, numbers filled in

A file has `paper` and `notes` (where it is claimed), and tables [en] and [ko] with the same keys: title, claim, setup,
meaning, next, and whatever the claim's checks, captions, axes and tables want.  A test compares the two languages.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any, NamedTuple

LANGUAGES = ("en", "ko")


class Text(NamedTuple):
    """The same words in both languages."""

    en: str
    ko: str

    def of(self, language: str) -> str:
        return self.ko if language == "ko" else self.en


class Words:
    """All text of one claim, by dotted keys."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.paper: str = values.get("paper", "")
        self.notes: str = values.get("notes", "")
        self.languages = {language: flat(values[language]) for language in LANGUAGES}

    @classmethod
    def read(cls, name: str) -> Words:
        """The words of a claim; no torch is loaded for them."""
        path = resources.files("jumok").joinpath(f"lab/words/{name}.toml")
        return cls(tomllib.loads(path.read_text(encoding="utf-8")))

    def source(self, language: str) -> list[str]:
        """Where it is claimed: in the paper, in the notes."""
        places = {"paper": Text("paper", "논문").of(language), "notes": Text("notes", "노트").of(language)}
        found = {places["paper"]: self.paper, places["notes"]: self.notes}
        return [f"{who}: {korean(where) if language == 'ko' else where}" for who, where in found.items() if where]

    def __call__(self, key: str, **values: Any) -> Text:
        """The text of a key with numbers filled in."""
        return Text(*(self.languages[language][key].format(**values) for language in LANGUAGES))


def korean(place: str) -> str:
    """A place in the paper or in the notes as a Korean page names it.

    >>> korean("section 3.2.2; table 3, row A"), korean("002, lines 87 to 89 and 205")
    ('3.2.2절; 표 3, A행', '002, 87~89행, 205행')
    """

    def each(numbers: str, after: str) -> str:
        return ", ".join(f"{one.replace(' to ', '~')}{after}" for one in re.split(r" and |, ", numbers))

    place = re.sub(r"sections? ([\d.]+(?: and [\d.]+)*)", lambda found: each(found[1], "절"), place)
    place = re.sub(r"lines? (\d+(?: (?:to|and) \d+)*)", lambda found: each(found[1], "행"), place)
    place = re.sub(r"figures? (\d+(?:(?:, | and )\d+)*)", lambda found: f"그림 {each(found[1], '')}", place)
    place = re.sub(r"row ([A-E])", r"\1행", place)
    return place.replace("table ", "표 ").replace("equation ", "식 ").replace(" and ", ", ")


def flat(values: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """Nested tables as dotted keys; the lines of a paragraph are joined, blank lines stay."""
    found: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{before}{key}.")
        else:
            paragraphs = str(value).strip().split("\n\n")
            found[before + key] = "\n\n".join(" ".join(part.split()) for part in paragraphs)
    return found
