"""Glossaries: terms of the source and what they must become, and which of them are in a sentence.

    glossary = Glossary.parse("apple\t사과\nice cream\t아이스크림", "tsv")
    [term.target for term in glossary.find("I eat apples.", "en")]      -> ["사과"], for `Constraints.require`

Matching   The longest term at a place, from left to right, without overlap.  A term is a whole word, or several; its
           last word may have an ending: Korean particles (사과를), German and Romance endings, the English plural.  In
           scripts without spaces a term may begin anywhere.
Case       A term in small letters matches in any case; one with capitals (Apple, US) as it is written, or all in
           capitals.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from jumok.errors import DataError
from jumok.messages import Message
from jumok.text.boundaries import UNSPACED

MOST_BYTES = 10_000_000  # of a glossary, as DeepL has it
LONGEST = 1_024  # bytes of a term
START = 2  # characters that terms are looked up by
KOREAN = re.compile(
    r"(?:들)?(?:님)?(?:이라고|라고|이라는|라는|에게서|한테서|에서는|에서도|으로는|으로도|으로|에서|에게|한테|부터|까지|처럼|보다|마다|조차|밖에|"
    r"이나|이랑|이든|께서|이에요|예요|입니다|이다|이야|인가요|인데|이고|은|는|이|가|을|를|의|에|로|와|과|랑|도|만|나|야|요|께|고|며|인|일)"
    r"(?:은|는|도|만|의)?|들|님"
)
ENDINGS = {
    "ko": KOREAN,
    "de": re.compile(r"e|n|s|en|er|es|em|ern|ns|se|sen|ses|nen", re.I),
    "en": re.compile(r"s|es|['’]s|s['’]", re.I),
    "fr": re.compile(r"s|x|e|es", re.I),
    "es": re.compile(r"s|es", re.I),
    "pt": re.compile(r"s|es", re.I),
    "nl": re.compile(r"s|en|e|'s", re.I),
}
SHORTEST_STEM = 3  # letters of a term that may have an ending, except in Korean
WORD_END = re.compile(r"[\w'’]*")


class Term(NamedTuple):
    """A term in a sentence."""

    source: str
    target: str
    start: int
    stop: int


@dataclass(frozen=True)
class Glossary:
    """Pairs of source and target terms; no source twice."""

    entries: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, text: str, form: Literal["tsv", "csv"] = "tsv") -> Glossary:
        """Read entries as DeepL's clients send them, one on a line; CSV may have quotes and columns of languages."""
        if len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
            raise DataError("documents.glossary_too_large", most=MOST_BYTES)
        rows = _read_tsv(text) if form == "tsv" else _read_csv(text)
        return cls.make(rows)

    @classmethod
    def make(cls, rows: Iterable[tuple[int, Sequence[str]]]) -> Glossary:
        """Check numbered rows and return the glossary."""
        entries: dict[str, str] = {}
        for number, row in rows:
            source, target = ([cell.strip() for cell in row] + ["", ""])[:2]
            if (problem := _find_problem(row, source, target, entries)) is not None:
                raise DataError("documents.glossary_line", line=number, problem=problem)
            entries[source] = target
        if not entries:
            raise DataError("documents.glossary_empty")
        return cls(tuple(entries.items()))

    def to_tsv(self) -> str:
        """Return the entries, one on a line, as DeepL sends them."""
        return "\n".join(f"{source}\t{target}" for source, target in self.entries)

    @cached_property
    def _index(self) -> dict[str, list[tuple[str, str, str]]]:
        """Entries (folded, source, target) by their first characters, the longest first."""
        index: dict[str, list[tuple[str, str, str]]] = {}
        for source, target in self.entries:
            folded = fold(source)
            index.setdefault(folded[:START], []).append((folded, source, target))
        for several in index.values():
            several.sort(key=lambda entry: -len(entry[0]))
        return index

    def find(self, text: str, language: str) -> list[Term]:
        """Return the terms in a sentence, in their order."""
        language = re.split("[-_]", language.lower(), maxsplit=1)[0]
        folded, terms, position = fold(text), list[Term](), 0
        while position < len(text):
            term = self._match(text, folded, position, language) if _can_begin(text, position) else None
            if term is None:
                position += 1
            else:
                terms.append(term)
                position = term.stop
        return terms

    def _match(self, text: str, folded: str, start: int, language: str) -> Term | None:
        candidates = [*self._index.get(folded[start : start + START], ()), *self._index.get(folded[start], ())]
        for key, source, target in candidates:
            stop = start + len(key)
            if (
                folded.startswith(key, start)
                and fits_case(source, text[start:stop])
                and _can_end(text, stop, key, language)
            ):
                return Term(source, target, start, stop)
        return None


def fold(text: str) -> str:
    """Return a text in small letters, character by character, so that places stay the same."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def fits_case(term: str, text: str) -> bool:
    """Return whether a term may be written like this."""
    return term == text or fold(term) == term or (text.isupper() and len(term) > 3)


def _can_begin(text: str, start: int) -> bool:
    if start == 0 or not text[start - 1].isalnum() or UNSPACED.match(text[start]):
        return not text[start].isspace()
    return not text[start].isalnum()


def _can_end(text: str, stop: int, key: str, language: str) -> bool:
    """Return whether a term may end here: at the end of a word, or before an ending."""
    if stop == len(text) or not text[stop].isalnum() or not key[-1].isalnum() or UNSPACED.match(key[-1]):
        return True
    match = WORD_END.match(text, stop)
    ending, pattern = match[0] if match else "", ENDINGS.get(language)
    if pattern is None or (language != "ko" and len(key) < SHORTEST_STEM):
        return False
    return pattern.fullmatch(ending) is not None


def _find_problem(row: Sequence[str], source: str, target: str, entries: dict[str, str]) -> Message | None:
    """Return what is wrong with a row; None if it is fine."""
    if len(row) not in (2, 4):
        return Message("documents.two_columns")
    if not source or not target:
        return Message("documents.empty_term")
    if source in entries:
        return Message("documents.term_twice")
    if any(len(term.encode("utf-8", "replace")) > LONGEST or not term.isprintable() for term in (source, target)):
        return Message("documents.bad_term")
    return None


def _read_tsv(text: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        if line.strip():
            yield number, line.split("\t")


def _read_csv(text: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text), strict=True)
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield reader.line_num, row
    except csv.Error:
        raise DataError(
            "documents.glossary_line", line=reader.line_num, problem=Message("documents.bad_quotes")
        ) from None
