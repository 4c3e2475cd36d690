"""The pieces of a block of text, in order: text, tags around some of it, and marks between words.

A format makes items and never looks at sentences; a passage (passages.py) finds the sentences in them.  The `raw` of
all items, joined, is the source of the block to the last character.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jumok.documents.scripts import OBJECT

if TYPE_CHECKING:
    from jumok.documents.passages import Passage


@dataclass(frozen=True, slots=True)
class Composite:
    """Markup that contains text to translate, such as a tag with the attribute `alt`."""

    parts: tuple[str | Passage, ...]


Raw = str | Composite
TEXT, OPEN, CLOSE, MARK = "text", "open", "close", "mark"


@dataclass(frozen=True, slots=True)
class Item:
    """Text, an opening or closing tag, or a mark.

    `text` is what a reader sees: of text its characters, of a tag nothing, of a mark U+FFFC, or a line feed if it
    breaks the line, or nothing if it is invisible.
    """

    kind: str
    text: str
    raw: Raw
    name: str = ""  # of a tag; of a mark "word", "break", "thin", or "line" (placed by its share of the sentence)
    paces: tuple[float, float] = (1.0, 1.0)  # weight of the characters before and after a line break


def make_text(text: str, raw: str | None = None) -> Item:
    return Item(TEXT, text, text if raw is None else raw)


def make_mark(raw: Raw, text: str = OBJECT, kind: str = "word") -> Item:
    return Item(MARK, text, raw, kind)


def cut(items: Sequence[Item], spans: Sequence[tuple[int, int]]) -> Iterator[tuple[bool, list[Item]]]:
    """Divide items at spans of their text; yield whether these are in a span, and the items.

    Opening tags at the start of a span and closing tags at its end are in it.
    """
    bounds = [(start, stop) for start, stop in spans if start < stop]
    number, position = 0, 0
    group, inside = list[Item](), False
    for item in items:
        rest: Item | None = item
        while rest is not None:
            now: Item = rest
            rest = None
            if inside:
                stop = bounds[number][1]
                if position >= stop and (now.text or now.kind == OPEN):
                    yield True, group
                    group, inside, number, rest = [], False, number + 1, now
                    continue
                now, rest = _divide(now, stop - position)
            elif number < len(bounds):
                start = bounds[number][0]
                if position >= start and (now.text or now.kind == OPEN):
                    if group:
                        yield False, group
                    group, inside, rest = [], True, now
                    continue
                now, rest = _divide(now, start - position)
            group.append(now)
            position += len(now.text)
    if group:
        yield inside, group


def _divide(item: Item, length: int) -> tuple[Item, Item | None]:
    """Cut text that is longer than `length`; marks, and what is written as a reference, stay whole."""
    if item.kind != TEXT or not 0 < length < len(item.text) or item.raw != item.text:
        return item, None
    head, tail = item.text[:length], item.text[length:]
    return replace(item, text=head, raw=head), replace(item, text=tail, raw=tail)


Escape = Callable[[str], str]
