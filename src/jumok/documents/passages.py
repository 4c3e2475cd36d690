"""A block of text with inline markup: its sentences as the model reads them, and their translations put back.

A sentence is read without markup and placeholders.  Both are placed among the words of the translation by
placement.py; here they are taken out, and written again with the right spaces and punctuation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from jumok.documents.items import TEXT, Composite, Escape, Item, Raw, cut
from jumok.documents.placement import Element, Links, Mark, place
from jumok.documents.reading import Reader
from jumok.documents.scripts import has_letters
from jumok.documents.segments import Segment
from jumok.documents.sentences import Splitter
from jumok.documents.writing import Writer
from jumok.text.boundaries import SPACES, split_units
from jumok.translation import Translation

LINE_BREAKS = re.compile(r"[\n\r\v\f\x85\u2028\u2029]")  # in text they are space; those that count are marks
Write = Callable[[Raw], str]


class Passage:
    """A block of text: sentences, and what stands between them."""

    def __init__(self, items: Sequence[Item], split: Splitter, escape: Escape) -> None:
        self.escape = escape
        self.parts: list[Sentence | tuple[Item, ...]] = []
        text = "".join(LINE_BREAKS.sub(" ", item.text) if item.kind == TEXT else item.text for item in items)
        for inside, group in cut(items, split(text)):
            sentence = Sentence(group) if inside else None
            is_to_translate = sentence is not None and has_letters(sentence.text)
            self.parts.append(sentence if sentence is not None and is_to_translate else tuple(group))

    def list_sentences(self) -> Iterator[Sentence]:
        """Yield the sentences, and those inside of tags, in their order."""
        for part in self.parts:
            for item in part.items if isinstance(part, Sentence) else part:
                if isinstance(item.raw, Composite):
                    for piece in item.raw.parts:
                        if isinstance(piece, Passage):
                            yield from piece.list_sentences()
            if isinstance(part, Sentence):
                yield part

    def render(self, translations: Sequence[Translation]) -> str:
        """Return the source of the block with the translations of its sentences, from all those of the document."""

        def write(raw: Raw) -> str:
            if isinstance(raw, str):
                return raw
            return "".join(part if isinstance(part, str) else part.render(translations) for part in raw.parts)

        return "".join(
            part.render(translations[part.number], self.escape, write)
            if isinstance(part, Sentence)
            else "".join(write(item.raw) for item in part)
            for part in self.parts
        )


class Paper:
    """A document: markup that is kept, and passages."""

    def __init__(self, parts: Sequence[str | Passage]) -> None:
        self.parts = parts
        self.segments: list[Segment] = []
        for part in parts:
            if isinstance(part, Passage):
                for sentence in part.list_sentences():
                    sentence.number = len(self.segments)
                    self.segments.append(Segment(sentence.text, sentence.needs_alignment))

    def render(self, translations: Sequence[Translation]) -> str:
        """Return the document with one translation for each segment."""
        if len(translations) != len(self.segments):
            raise ValueError(f"{len(translations)} translations for {len(self.segments)} segments")
        return "".join(part if isinstance(part, str) else part.render(translations) for part in self.parts)


class Sentence:
    """A sentence with its inline markup."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = tuple(items)
        self.number = -1
        if len(items) == 1 and items[0].kind == TEXT and "\n" not in items[0].text:  # what most texts are
            self.text, self.root = SPACES.sub(" ", items[0].text).strip(" "), Element("")
            return
        reader = Reader()
        for item in items:
            reader.read(item)
        self.text = reader.text
        self.root = reader.finish(self.units)

    @cached_property
    def units(self) -> list[tuple[str, str]]:
        """What can be aligned, each with the space before it."""
        return split_units(self.text)

    @property
    def needs_alignment(self) -> bool:
        """Whether something must be placed among the words."""
        if not self.root.children:
            return False
        count = len(self.units)

        def moves(child: Element | Mark) -> bool:
            if isinstance(child, Mark):
                return child.share is None and 0 < child.gap < count
            return child.start > 0 or child.stop < count or any(map(moves, child.children))

        return any(map(moves, self.root.children))

    def render(self, translation: Translation, escape: Escape, write: Write) -> str:
        """Return the translation with the markup of the sentence."""
        if translation.text == self.text:
            return "".join(write(item.raw) for item in self.items)
        if not self.root.children:
            return escape(translation.text)
        units = split_units(translation.text)
        links: Links = translation.alignment or link_diagonally(len(self.units), len(units))
        place(self.root, links, len(self.units), [word for _, word in units])
        return Writer(units, escape, write).join(self.root)


def link_diagonally(sources: int, targets: int) -> Links:
    """Return links in the order of the words, for want of an alignment."""
    steps = max(sources, targets)
    return sorted({(step * sources // steps, step * targets // steps) for step in range(steps)}) if steps else []
