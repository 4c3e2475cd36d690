"""From the items of a format to a document: blocks end where the format says."""

from __future__ import annotations

from collections.abc import Callable, Collection

from jumok.documents.elements import INLINE
from jumok.documents.items import CLOSE, OPEN, TEXT, Composite, Item, Raw, make_mark
from jumok.documents.markup import escape_text
from jumok.documents.passages import Paper, Passage
from jumok.documents.placeholders import LINK, mark_placeholders
from jumok.documents.sentences import Splitter

DEEPEST, MOST = 40, 1_000  # inline elements inside of each other, and tags of one block: more are cut there
LONGEST_LINK = 50  # items of a link that is an address


class Builder:
    """Collects items until a block ends, and passages and markup until the document does."""

    def __init__(
        self, split: Splitter, *, escape: Callable[[str], str] = escape_text, hollow: Collection[str] = INLINE
    ) -> None:
        """`hollow` are elements that are not placeholders when they are empty."""
        self.split, self.escape, self.hollow = split, escape, hollow
        self.parts: list[str | Passage] = []
        self.items: list[Item] = []
        self.depth = self.lowest = self.highest = self.tags = 0

    def add(self, item: Item) -> None:
        """Add an item to the block, which ends where it has too many tags or too deep ones."""
        if item.kind != TEXT:
            self.depth += (item.kind == OPEN) - (item.kind == CLOSE)
            self.lowest, self.highest = min(self.lowest, self.depth), max(self.highest, self.depth)
            self.tags += 1
            if self.highest - self.lowest > DEEPEST or self.tags > MOST:
                self.end()
                self.write(item.raw)
                return
        self.items.append(item)

    def end(self) -> None:
        """End the block."""
        items = self.items
        if any(isinstance(item.raw, Composite) or item.text.strip() for item in items):
            marked = mark_placeholders(mark_links(mark_empty(items, self.hollow)))
            self.parts.append(Passage(marked, self.split, self.escape))
        else:
            self.parts += [item.raw for item in items if isinstance(item.raw, str)]
        self.items = []
        self.depth = self.lowest = self.highest = self.tags = 0

    def write(self, raw: Raw) -> None:
        """Write markup between blocks."""
        self.parts += [raw] if isinstance(raw, str) else raw.parts

    def close_off(self, raw: str) -> None:
        """Write what is never closed: it swallows all that follows, so nothing may be moved behind it."""
        self.end()
        self.write(raw)

    def finish(self) -> Paper:
        """Return the document."""
        self.end()
        return Paper(self.parts)


def mark_empty(items: list[Item], hollow: Collection[str]) -> list[Item]:
    """Return items in which an empty element, such as <x id="7"></x>, is a placeholder."""
    marked: list[Item] = []
    for item in items:
        last = marked[-1] if marked else None
        if (
            last is not None
            and (last.kind, item.kind, last.name) == (OPEN, CLOSE, item.name)
            and item.name not in hollow
            and isinstance(last.raw, str)
            and isinstance(item.raw, str)
        ):
            marked[-1] = make_mark(last.raw + item.raw)
        else:
            marked.append(item)
    return marked


def mark_links(items: list[Item]) -> list[Item]:
    """Return items in which a link whose text is an address, a mention or a hashtag is one mark."""
    starts = [number for number, item in enumerate(items) if item.kind == OPEN and item.name == "a"]
    ends = [number for number, item in enumerate(items) if item.kind == CLOSE and item.name == "a"]
    if not starts or not ends:
        return items
    marked, position, limit = list[Item](), 0, 0
    for start in starts:
        while limit < len(ends) and ends[limit] < start:
            limit += 1
        if limit == len(ends):
            break
        inner = items[start : ends[limit] + 1]
        raws = [item.raw for item in inner if isinstance(item.raw, str)]
        text = "".join(item.text for item in inner).strip()
        if position <= start and len(raws) == len(inner) < LONGEST_LINK and LINK.fullmatch(text):
            marked += [*items[position:start], make_mark("".join(raws))]
            position = ends[limit] + 1
    return marked + items[position:]
