"""A sentence without its markup: the text that the model reads, and the tree of what its translation must contain."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from jumok.documents.items import CLOSE, MARK, OPEN, Item, Raw
from jumok.documents.placement import Element, Mark
from jumok.documents.scripts import CLOSING, OPENING, find_core, is_punctuation
from jumok.text.boundaries import SPACES, UNSPACED

PAUSES = frozenset(",;:，、；：—–")
CHUNKS = re.compile(r"[\s\u2581]+|[^\s\u2581]+")
Unit = tuple[str, str]  # the space before a word, and the word


class Reader:
    """Takes items one by one.  Places are counted in characters that are not spaces: these do not move."""

    def __init__(self) -> None:
        self.chunks: list[str] = []
        self.ink = 0
        self.space = ""  # white space since the last character
        self.apart = False  # a mark since the last character separates words
        self.root = Element("")
        self.stack = [self.root]
        self.waiting: list[Element | Mark] = []  # those behind which nothing has been read yet
        self.paces: list[tuple[Mark, tuple[float, float]]] = []

    @property
    def text(self) -> str:
        return "".join(self.chunks)

    def read(self, item: Item) -> None:
        """Take one more item."""
        if item.kind == OPEN:
            element = Element(item.name, opening=item.raw, start=self.ink, before=bool(self.space or not self.ink))
            element.hugs = self._hugs_opening()
            self.stack[-1].children.append(element)
            self.stack.append(element)
        elif item.kind == CLOSE:
            self._close(item)
        elif item.kind == MARK:
            self._mark(item)
        else:
            for chunk in CHUNKS.findall(item.text):
                if SPACES.match(chunk):
                    self._add_space(chunk)
                else:
                    self._add(chunk)

    def _add_space(self, chunk: str) -> None:
        self.space += chunk
        for each in self.waiting:
            each.after = True
        self.waiting.clear()

    def _add(self, chunk: str) -> None:
        closes = chunk[0] in CLOSING
        hugged = closes and bool(self.waiting)
        for each in self.waiting:
            each.hugs = 1 if closes else each.hugs
        self.waiting.clear()
        if self.chunks and (self.space or self.apart) and not hugged:
            last = self.chunks[-1][-1]
            opened = self.apart and last in OPENING
            wraps = "\n" in self.space and UNSPACED.match(last) and UNSPACED.match(chunk[0])
            if not (opened or wraps):
                self.chunks.append(" ")
        self.chunks.append(chunk)
        self.ink += len(chunk)
        self.space, self.apart = "", False

    def _hugs_opening(self) -> int:
        return -1 if not self.space and self.chunks and self.chunks[-1][-1] in OPENING else 0

    def _mark(self, item: Item) -> None:
        kind = item.name or "word"
        siblings = self.stack[-1].children
        previous = siblings[-1] if siblings else None
        if isinstance(previous, Mark) and previous in self.waiting and previous.kind == kind and previous.share is None:
            previous.raw.append(item.raw)  # nothing between them: one mark
            return
        mark = Mark([item.raw], self.ink, before=bool(self.space or not self.ink), kind=kind)
        mark.hugs = self._hugs_opening()
        siblings.append(mark)
        if kind == "line":
            mark.kind, mark.share = "break", 0.0
            self.paces.append((mark, item.paces))
            self.space += item.text if isinstance(item.raw, str) else "\n"
        elif kind == "thin":
            self.waiting.append(mark)
        else:
            self.apart = True
            self.waiting.append(mark)

    def _close(self, item: Item) -> None:
        """End the element that is open under this name; what was opened inside of it and not closed ends with it."""
        names = [element.name for element in self.stack]
        depth = len(names) - 1 - names[::-1].index(item.name) if item.name in names[1:] else 0
        if depth == 0:  # began before this sentence
            parent = self.stack[-1]
            element = Element(item.name, closing=item.raw, start=-1, pinned="left", children=parent.children)
            parent.children = [element]
            element.stop = self.ink
        else:
            while len(self.stack) > depth:
                element = self.stack.pop()
                element.stop = self.ink
                if len(self.stack) > depth:
                    element.pinned = "right"
            element.closing = item.raw
        self.waiting.append(element)

    def finish(self, units: Sequence[Unit]) -> Element:
        """Return the tree, with places counted in words."""
        while len(self.stack) > 1:
            element = self.stack.pop()
            element.stop, element.pinned = self.ink, "right"
        self._share()
        starts, stops, position = list[int](), list[int](), 0
        for _, word in units:
            start, stop = find_core(word)
            if start == stop:
                start, stop = 0, len(word)
            starts.append(position + start)
            stops.append(position + stop)
            position += len(word)
        letters = "".join(word for _, word in units)
        self.root.start, self.root.stop = 0, self.ink
        _count_words(self.root, starts, stops, letters)
        self.root.start, self.root.stop = 0, len(units)
        return self.root

    def _share(self) -> None:
        """Set the share of the sentence before each line break, by characters, or by the seconds they are shown."""
        weights, last = [], 0
        for mark, (pace, _) in self.paces:
            weights.append((mark.gap - last) * pace)
            last = mark.gap
        if self.paces:
            total = sum(weights) + (self.ink - last) * self.paces[-1][1][1]
            sums = 0.0
            for (mark, _), weight in zip(self.paces, weights, strict=True):
                sums += weight
                mark.share = sums / total if total > 0 else 0.5


def _count_words(parent: Element, starts: list[int], stops: list[int], letters: str) -> None:
    """Count places below an element in words instead of characters; elements without words become marks."""
    for number, child in enumerate(parent.children):
        if isinstance(child, Mark):
            child.pauses = child.gap > 0 and letters[child.gap - 1] in PAUSES
            child.gap = bisect_left(starts, child.gap)
            continue
        if child.start < 0:
            child.start = parent.start
        first, last = child.start, child.stop
        _count_words(child, starts, stops, letters)
        child.start, child.stop = bisect_right(stops, first), bisect_left(starts, last)
        if first < last:
            child.keeps_lead = is_punctuation(letters[first])
            child.keeps_trail = is_punctuation(letters[last - 1])
        if child.start >= child.stop and not child.pinned:
            parent.children[number] = _make_mark(child, bisect_left(starts, first))
        elif child.start >= child.stop:
            child.start = child.stop = bisect_left(starts, last if child.pinned == "left" else first)


def _make_mark(element: Element, gap: int) -> Mark:
    """Return a mark for an element without words, with everything that is inside."""
    raw = flatten(element)
    kinds = {child.kind for child in element.children if isinstance(child, Mark)}
    kind = "word" if "word" in kinds else "break" if "break" in kinds else "thin"
    return Mark(raw, gap, before=element.before, after=element.after, hugs=element.hugs, kind=kind)


def flatten(element: Element) -> list[Raw]:
    """Return all that is written for an element that encloses no words."""
    inner = [child.raw if isinstance(child, Mark) else flatten(child) for child in element.children]
    return [element.opening, *(raw for several in inner for raw in several), element.closing]
