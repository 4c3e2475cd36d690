"""The list of terms, terms.toml: the words of the field in Korean and English, each with a short explanation.

find_term("cross-attention").ko      # 크로스 어텐션(인코더-디코더 어텐션)
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from jumok.errors import UnknownName


class Term(NamedTuple):
    """A term in both languages."""

    ko: str
    en: str
    section: str  # of the paper; empty where it has none
    says_ko: str
    says_en: str
    avoid: Sequence[str] = ()  # regular expressions of other Korean words for it, which no text may contain

    def explain(self, language: str) -> str:
        return self.says_ko if language == "ko" else self.says_en


@cache
def read_terms() -> dict[str, Term]:
    """All terms, by key."""
    text = resources.files("jumok").joinpath("reports/terms.toml").read_text(encoding="utf-8")
    return {key: Term(**values) for key, values in tomllib.loads(text).items() if isinstance(values, dict)}


@cache
def list_avoided() -> dict[str, str]:
    """Words that Korean texts do not use, as regular expressions, each with what is written instead."""
    text = resources.files("jumok").joinpath("reports/terms.toml").read_text(encoding="utf-8")
    plain = dict.fromkeys(tomllib.loads(text)["avoid"], "a plainer word")
    return plain | {pattern: term.ko for term in read_terms().values() for pattern in term.avoid}


def find_term(key: str) -> Term:
    """The term of a key."""
    terms = read_terms()
    if key not in terms:
        raise UnknownName("reports.unknown_term", key, terms)
    return terms[key]


def list_terms(language: str) -> list[dict[str, Any]]:
    """All terms as plain values, explained in one language."""
    return [
        {"key": key, "ko": term.ko, "en": term.en, "section": term.section, "says": term.explain(language)}
        for key, term in read_terms().items()
    ]
