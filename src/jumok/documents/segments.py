"""What a document is to whoever translates it: sentences out, translations in.

    document = read_html(page, "en")
    translations = [translate(segment.text, align=segment.align) for segment in document.segments]
    print(document.render(translations))

A document never calls an engine.  A segment whose translation equals its text is written as it was in the source, so
that a document whose segments are all returned unchanged is the same to the last byte.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from jumok.translation import Translation


@dataclass(frozen=True)
class Segment:
    """One sentence to translate."""

    text: str  # what the model reads: no markup, no placeholders, words separated by single spaces
    align: bool = False  # whether `render` needs the word alignment of its translation


class Document(Protocol):
    """A text whose sentences are translated, and everything else of which is kept."""

    @property
    def segments(self) -> Sequence[Segment]: ...

    def render(self, translations: Sequence[Translation]) -> str:
        """Return the document with one translation for each segment."""
