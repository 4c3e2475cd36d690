"""Plain text: sentences and everything between them, byte for byte."""

import re

from jumok.documents.items import MARK, Item, make_text
from jumok.documents.passages import Paper, Passage
from jumok.documents.placeholders import mark_placeholders
from jumok.documents.segments import Document
from jumok.documents.sentences import Fits, Splitter

LINE = re.compile(r"((?:\r\n|[\n\r\v\f\x85\u2028\u2029])[ \t]*(?:>[> \t]*)?)")


def read_text(
    text: str, language: str, *, longest: Fits | None = None, newlines: str = "auto", sentences: bool = True
) -> Document:
    """Return plain text as a document; the options are those of `Splitter`."""
    return Paper([Passage(list_items(text), Splitter(language, longest, newlines, sentences), escape=str)])


def list_items(text: str) -> list[Item]:
    """Return text and its line breaks, which keep their share of a sentence, and placeholders."""
    pieces = LINE.split(text)
    items = [
        Item(MARK, piece, piece, "line") if number % 2 else make_text(piece) for number, piece in enumerate(pieces)
    ]
    return mark_placeholders([item for item in items if item.text])
