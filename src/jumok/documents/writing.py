"""A translation with the markup of its source, after placement: spaces and punctuation around tags as they belong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jumok.documents.items import Escape, Raw
from jumok.documents.placement import Element, Mark
from jumok.documents.reading import Unit, flatten
from jumok.documents.scripts import find_core


@dataclass(frozen=True, slots=True)
class Part:
    """A word or an element: its output, with punctuation at its ends that may still be left outside of a tag."""

    lead: str
    body: str
    trail: str
    space: str = ""  # before it


class Writer:
    """Writes the words of a translation and what is placed among them."""

    def __init__(self, units: Sequence[Unit], escape: Escape, write: Callable[[Raw], str]) -> None:
        self.units, self.escape, self.write = units, escape, write
        self.space = "" if any(not space for space, _ in units[1:]) else " "  # what usually separates words

    def join(self, root: Element) -> str:
        """Return the whole sentence."""
        part = self._join(root)
        return part.lead + part.body + part.trail

    def _word(self, number: int) -> Part:
        space, word = self.units[number]
        start, stop = find_core(word)
        if start == stop:
            return Part("", self.escape(word), "", space)
        return Part(self.escape(word[:start]), self.escape(word[start:stop]), self.escape(word[stop:]), space)

    def _element(self, element: Element) -> Part:
        part = self._join(element)
        lead, body, trail = part.lead, part.body, part.trail
        if element.keeps_lead:
            lead, body = "", lead + body
        if element.keeps_trail:
            body, trail = body + trail, ""
        body = self.write(element.opening) + body + self.write(element.closing)
        return Part(lead, body, trail, self.units[element.low][0])

    def _list_tokens(self, element: Element) -> list[Part | Mark]:
        """Return the words, elements and marks directly inside of an element, in their new order."""
        tokens: list[Part | Mark] = []
        position = element.low
        for child in sorted(element.children, key=lambda child: child.place if isinstance(child, Mark) else child.low):
            at = child.place if isinstance(child, Mark) else child.low
            tokens += map(self._word, range(position, at))
            position = max(position, at)
            if isinstance(child, Mark):
                tokens.append(child)
            elif child.low == child.high:
                tokens.append(Mark(flatten(child), 0, kind="thin"))
            else:
                tokens.append(self._element(child))
                position = child.high
        tokens += map(self._word, range(position, element.high))
        return tokens

    def _join(self, element: Element) -> Part:
        """Return what is inside of an element, without its tags."""
        lead, body, trail, started = "", "", "", False
        waiting: list[Mark] = []
        for token in self._list_tokens(element):
            if isinstance(token, Mark):
                waiting.append(token)
                if token.hugs > 0 and started and trail:  # between the word and its comma
                    body += self._write_marks(waiting, " ", first=False, last=True)
                    waiting = []
                continue
            inner = token.body
            if token.lead and waiting and waiting[-1].hugs < 0:  # between the bracket and the word
                mark = waiting.pop()
                inner = self._write_marks([mark], "", first=True, last=False) + inner
            marks = (
                self._write_marks(waiting, token.space or self.space, first=not started, last=False)
                if waiting
                else None
            )
            if started:
                body += trail + (token.space if marks is None else marks) + token.lead + inner
            elif marks is None:
                lead, body = token.lead, inner
            else:
                body = marks + token.lead + inner
            trail, started, waiting = token.trail, True, []
        if waiting:
            body, trail = body + trail + self._write_marks(waiting, "", first=not started, last=True), ""
        return Part(lead, body, trail)

    def _write_marks(self, marks: Sequence[Mark], space: str, *, first: bool, last: bool) -> str:
        """Return marks between two words, or before the first or after the last, with the spaces they need."""
        written, separated, open_ = "", first, False
        for mark in marks:
            raw = "".join(map(self.write, mark.raw))
            if mark.kind == "thin" and not (mark.before and mark.after and space):
                written += raw
                continue
            is_word = mark.kind != "break"
            before = (is_word and bool(space or last or mark.before)) or (not is_word and mark.before)
            if open_ or (before and not (first and not written)):
                written += " "
            written += raw
            open_ = (is_word and bool(space or mark.after)) or (not is_word and mark.after)
            separated = True
        if last:
            return written
        return written + (" " if open_ else "" if separated else space)
