"""What the lab says, in English and in Korean: words/NAME.toml holds all text of a claim; its file is code alone.

    WORDS = Words.read("mask")
    WORDS("checks.loss", without=0.03, with_=0.52)        # a Text: .en and .ko, numbers filled in

A file has `paper` and `notes` (where it is claimed), and tables [en] and [ko] with the same keys: title, claim, setup,
meaning, next, and whatever the claim's checks, captions, axes and tables want.  A test compares the two languages.
"""

from __future__ import annotations

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

    def __call__(self, key: str, **values: Any) -> Text:
        """The text of a key with numbers filled in."""
        return Text(*(self.languages[language][key].format(**values) for language in LANGUAGES))


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
