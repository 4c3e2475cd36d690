"""Inline elements and placeholders of a sentence, placed among the words of its translation by alignment.

The way of Bergamot: the words of the source carry the elements that enclose them, and a word of the translation is in
the elements of the words that it is aligned to.  Here every element stays one piece, so each tag of the source is in
the output exactly once and elements stay nested: of several runs of words that belong to an element, the longest is
enclosed.  A word without a link belongs to an element if the words on both of its sides do.

A mark without words of its own (an image, a line break, a placeholder) is placed in the gap between two words that
the fewest links cross; links of the words next to it count most.  A placeholder inside of a sentence stands before the
translation of the word that it stood before, or after that of the last word if punctuation is between the two.

Words are counted from 0; a gap has the number of the word after it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise

from jumok.documents.items import Raw
from jumok.documents.scripts import is_punctuation

Links = Sequence[tuple[int, int]]
WINDOW = 16  # linked words on each side of a mark that decide about its place
PAUSE = 0.08  # share of a sentence by which a line may be longer or shorter to end with a clause


@dataclass(eq=False)
class Mark:
    """A mark between words: it has a place, but encloses nothing."""

    raw: list[Raw]  # what is written there
    gap: int  # between which words of the source
    before: bool = False  # there is a space before it
    after: bool = False  # there is a space after it
    hugs: int = 0  # 1: closing punctuation follows at once, -1: opening punctuation precedes
    kind: str = "word"  # "word": stands like a word; "break": separates words itself; "thin": takes no room
    pauses: bool = False  # a clause ends before it
    share: float | None = None  # the part of the sentence before it, where that decides instead of alignment
    place: int = 0  # the gap of the translation


@dataclass(eq=False)
class Element:
    """An inline element, the source words that it encloses, and what is inside."""

    name: str
    opening: Raw = ""
    closing: Raw = ""
    start: int = 0
    stop: int = 0  # source words start, …, stop - 1
    keeps_lead: bool = True  # punctuation before the first word is inside
    keeps_trail: bool = True  # punctuation after the last word is inside
    pinned: str = ""  # "left": begins before the sentence does; "right": ends after it
    children: list[Element | Mark] = field(default_factory=list)
    before: bool = False  # as of a mark, which an element without words becomes
    after: bool = False
    hugs: int = 0
    low: int = 0
    high: int = 0  # words low, …, high - 1 of the translation


def place(root: Element, links: Links, sources: int, words: Sequence[str]) -> None:
    """Find the words of the translation for every element below `root`, and the gap for every mark."""
    linked = Linking(links, sources, words)
    root.low, root.high = 0, len(words)
    waiting = [root]
    while waiting:
        parent = waiting.pop()
        waiting += _place_children(parent, linked)


class Linking:
    """Links of a sentence, in both directions."""

    def __init__(self, links: Links, sources: int, words: Sequence[str]) -> None:
        self.sources, self.targets, self.words = sources, len(words), words
        targets = len(words)
        self.to_target: list[list[int]] = [[] for _ in range(sources)]
        self.to_source: list[list[int]] = [[] for _ in range(targets)]
        for source, target in links:
            if 0 <= source < sources and 0 <= target < targets:
                self.to_target[source].append(target)
                self.to_source[target].append(source)
        self.linked = [source for source in range(sources) if self.to_target[source]]

    def find_words(self, element: Element, low: int, high: int) -> set[int]:
        """Return the words of the translation, from low to high, that an element is aligned to."""
        targets = {target for source in range(element.start, element.stop) for target in self.to_target[source]}
        return {target for target in targets if low <= target < high}

    def find_nearest(self, element: Element, free: Iterable[int]) -> int | None:
        """Return the word, of those that are free, for an element whose own words have no link."""
        allowed = set(free)
        for distance in range(1, self.sources + 1):
            for source in (element.stop - 1 + distance, element.start - distance):
                if 0 <= source < self.sources:
                    for target in self.to_target[source]:
                        if target in allowed:
                            return target
        return None

    def find_anchor(self, mark: Mark) -> int | None:
        """Return the gap beside the translation of the nearest linked word: before the next one, after the last one."""
        for distance in range(self.sources):
            sides = [(mark.gap + distance, min, 0), (mark.gap - 1 - distance, max, 1)]
            for source, choose, after in reversed(sides) if mark.hugs > 0 or mark.pauses else sides:
                if 0 <= source < self.sources and self.to_target[source]:
                    return choose(self.to_target[source]) + after
        return None

    def choose_gap(self, mark: Mark, gaps: Sequence[int]) -> int:
        """Return the gap for a mark: beside a word's translation, or the one that links of near words cross least."""
        if mark.kind == "word" and 0 < mark.gap < self.sources and (anchor := self.find_anchor(mark)) is not None:
            return min(gaps, key=lambda gap: (abs(gap - anchor), gap))
        if not self.linked:
            diagonal = mark.gap * self.targets / max(1, self.sources)
            return min(gaps, key=lambda gap: abs(gap - diagonal))
        middle = bisect_left(self.linked, mark.gap)
        near = self.linked[max(0, middle - WINDOW) : middle + WINDOW]
        sums = list(accumulate(self._list_changes(mark, near)))
        costs = [sums[gap] for gap in gaps]
        return gaps[costs.index(min(costs))]

    def _list_changes(self, mark: Mark, near: Iterable[int]) -> list[int]:
        """Return how the cost of a gap differs from that of the gap before it."""
        changes = [0] * (self.targets + 2)
        for source in near:
            is_before = source < mark.gap
            distance = mark.gap - 1 - source if is_before else source - mark.gap
            weight = (15_000 if distance == 0 and is_before == (mark.hugs > 0) else 10_000) // (1 + distance) ** 2
            for target in self.to_target[source]:
                if is_before:  # crossed in gaps at or before the word
                    changes[0] += weight
                    changes[target + 1] -= weight
                else:  # crossed in gaps after the word
                    changes[target + 1] += weight
        return changes


def _place_children(parent: Element, linked: Linking) -> list[Element]:
    """Place the children of an element that has its place; return those that have children of their own."""
    elements = [child for child in parent.children if isinstance(child, Element)]
    low, high = parent.low, parent.high
    inner = []
    for child in elements:  # at most one of each: what begins before the sentence, and what ends after it
        if child.pinned:
            edge = Mark([], child.start if child.pinned == "right" else child.stop, kind="thin")
            words = child.start < child.stop and low < high
            first = low + 1 if words and child.pinned == "left" else low
            gap = linked.choose_gap(edge, range(first, high if words and child.pinned == "right" else high + 1))
            if child.pinned == "left":
                child.low, child.high, low = low, gap, gap
            else:
                child.low, child.high, high = gap, high, gap
        else:
            inner.append(child)
    _place_shared(parent, linked, range(low, high + 1))
    for zone in reversed(_list_zones(parent, low, high)):
        own = [child for child in inner if child.start >= zone.start]
        inner = [child for child in inner if child.start < zone.start]
        _place_elements(zone, own, linked, zone.low, zone.high)
    inside = set[int]()
    for child in elements:
        inside.update(range(child.low + 1, child.high))
    gaps = [gap for gap in range(parent.low, parent.high + 1) if gap not in inside]
    _place_marks(parent, linked, gaps)
    return [child for child in elements if child.children]


def _place_elements(parent: Element, elements: Sequence[Element], linked: Linking, low: int, high: int) -> None:
    """Give each of several elements side by side a run of words between low and high."""
    if len(elements) == 1 and elements[0].start <= parent.start and elements[0].stop >= parent.stop:
        elements[0].low, elements[0].high = low, high  # all of it, whatever is linked
        return
    owner: dict[int, Element] = {}
    votes: dict[int, int] = {}
    sizes = {id(element): linked.find_words(element, low, high) for element in elements}
    for element in sorted(elements, key=lambda element: len(sizes[id(element)])):
        for target in sizes[id(element)]:
            count = sum(element.start <= source < element.stop for source in linked.to_source[target])
            if count > votes.get(target, 0):
                owner[target], votes[target] = element, count
    for element in elements:
        if element not in owner.values():
            free = [target for target in range(low, high) if target not in owner]
            if (nearest := linked.find_nearest(element, free)) is not None:
                owner[nearest] = element
    runs = _find_runs(owner, linked, low, high)
    for element in elements:
        own = runs.get(id(element), [])
        if own:
            element.low, element.high = max(own, key=lambda run: (run[2], -run[0]))[:2]
    for element in elements:
        if id(element) not in runs:  # every word is taken: empty, in the best gap that is not inside another
            inside = {gap for other in elements for gap in range(other.low + 1, other.high)}
            gaps = [gap for gap in range(low, high + 1) if gap not in inside]
            element.low = element.high = linked.choose_gap(Mark([], element.start, kind="thin"), gaps)


def _find_runs(
    owner: dict[int, Element], linked: Linking, low: int, high: int
) -> dict[int, list[tuple[int, int, int]]]:
    """Return for each element its runs of words: first, last + 1, and how many are its own.

    A run may contain words without links between its own.
    """
    runs: dict[int, list[tuple[int, int, int]]] = {}
    current: Element | None = None
    for target in range(low, high):
        element = owner.get(target)
        if element is None:
            if linked.to_source[target]:
                current = None
            continue
        several = runs.setdefault(id(element), [])
        if element is current:
            start, _, count = several.pop()
            several.append((start, target + 1, count + 1))
        else:
            several.append((target, target + 1, 1))
        current = element
    return runs


def _list_zones(parent: Element, low: int, high: int) -> list[Element]:
    """Return the lines of an element, as elements: what is in one line stays in it."""
    marks = [child for child in parent.children if isinstance(child, Mark) and child.share is not None]
    sources = [parent.start, *(mark.gap for mark in marks), max(parent.stop, parent.start)]
    targets = [low, *(mark.place for mark in marks), high]
    return [
        Element("", start=start, stop=stop, low=first, high=last)
        for (start, stop), (first, last) in zip(pairwise(sources), pairwise(targets), strict=True)
    ]


def _place_marks(parent: Element, linked: Linking, gaps: Sequence[int]) -> None:
    """Place the marks directly inside of an element, other than line breaks."""
    for child in parent.children:
        if isinstance(child, Mark) and child.share is None:
            child.place = linked.choose_gap(child, gaps)


def _place_shared(parent: Element, linked: Linking, gaps: Sequence[int]) -> None:
    """Place line breaks by their share of the sentence; they keep their order, and words between them if there are."""
    shared = [child for child in parent.children if isinstance(child, Mark) and child.share is not None]
    if not shared:
        return
    lengths = list(accumulate(map(len, linked.words), initial=0))
    last = 0
    for number, mark in enumerate(shared):
        after = linked.targets - (len(shared) - number - 1)
        allowed = [gap for gap in gaps if last < gap < after] or [gap for gap in gaps if gap >= last] or gaps[-1:]
        mark.place = last = min(allowed, key=partial(_misplace, mark.share or 0.0, lengths, linked.words))


def _misplace(share: float, lengths: Sequence[int], words: Sequence[str], gap: int) -> float:
    """Return how far a gap is from a share of the sentence; the end of a clause is a little nearer."""
    distance = abs(lengths[gap] / max(1, lengths[-1]) - share)
    return distance - (PAUSE if 0 < gap < len(words) and is_punctuation(words[gap - 1][-1]) else 0.0)
