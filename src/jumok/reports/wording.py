"""Texts in English and in Korean, by dotted keys: those of the lab's claims and of the pages about a model.

    WORDS = Words.read("mask")
    WORDS("checks.loss", without=0.03, with_=0.52)        # a Text: .en and .ko, numbers filled in

A file has tables [en] and [ko] with the same keys; a test compares them.  Those of the lab (lab/words) also have
`paper` and `notes` (where it is claimed), and the keys title, claim, setup, meaning, next, and the texts of the claim's
checks, captions, axes and tables.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any, NamedTuple

LANGUAGES = ("en", "ko")


class Text(NamedTuple):
    """The same text in both languages."""

    en: str
    ko: str

    def of(self, language: str) -> str:
        return self.ko if language == "ko" else self.en


class Words:
    """All text of one file, by dotted keys."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.paper: str = values.get("paper", "")
        self.notes: str = values.get("notes", "")
        self.languages = {language: flatten(values[language]) for language in LANGUAGES}

    @classmethod
    def read(cls, name: str, folder: str = "lab/words") -> Words:
        """The texts of a file, by default of a claim of the lab; without importing what it is about."""
        path = resources.files("jumok").joinpath(f"{folder}/{name}.toml")
        return cls(tomllib.loads(path.read_text(encoding="utf-8")))

    def source(self, language: str) -> list[str]:
        """Where it is claimed, in the paper and in the notes."""
        origins = {"paper": Text("paper", "논문").of(language), "notes": Text("notes", "노트").of(language)}
        sources = {origins["paper"]: self.paper, origins["notes"]: self.notes}
        return [f"{who}: {korean(where) if language == 'ko' else where}" for who, where in sources.items() if where]

    def __call__(self, key: str, **values: Any) -> Text:
        """The text of a key with its values."""
        return Text(*(self.languages[language][key].format(**values) for language in LANGUAGES))


def korean(reference: str) -> str:
    """A reference to the paper or to the notes in Korean.

    >>> korean("section 3.2.2; table 3, row A"), korean("002, lines 87 to 89 and 205")
    ('3.2.2절; 표 3, A행', '002, 87~89행, 205행')
    """

    def each(numbers: str, after: str) -> str:
        return ", ".join(f"{number.replace(' to ', '~')}{after}" for number in re.split(r" and |, ", numbers))

    reference = re.sub(r"sections? ([\d.]+(?: and [\d.]+)*)", lambda match: each(match[1], "절"), reference)
    reference = re.sub(r"lines? (\d+(?: (?:to|and) \d+)*)", lambda match: each(match[1], "행"), reference)
    reference = re.sub(r"figures? (\d+(?:(?:, | and )\d+)*)", lambda match: f"그림 {each(match[1], '')}", reference)
    reference = re.sub(r"row ([A-E])", r"\1행", reference)
    return reference.replace("table ", "표 ").replace("equation ", "식 ").replace(" and ", ", ")


def korean_machine(machine: str) -> str:
    """The description of a computer (`machine.Machine`) in Korean.

    >>> korean_machine("AMD EPYC, 2 cores, 24 GiB, Linux")
    'AMD EPYC, 코어 2개, 24 GiB, Linux'
    """
    return re.sub(r"\b(\d+) cores?\b", r"코어 \1개", machine)


def flatten(values: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """Nested tables as dotted keys; lines of a paragraph are joined, blank lines are preserved."""
    texts: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            texts |= flatten(value, f"{before}{key}.")
        else:
            paragraphs = str(value).strip().split("\n\n")
            texts[before + key] = "\n\n".join(" ".join(part.split()) for part in paragraphs)
    return texts
