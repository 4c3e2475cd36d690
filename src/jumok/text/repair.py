"""Lines put right where the right answer is known, and a log of everything that was done to them.

Contract: D1.  Used by data/quality/fix.py; a line that no rule can put right comes out with its fault, never half
repaired.

Rules    byte order marks, NUL and control characters go; what other tools take for a line end becomes a space;
         NFC; no white space at the ends of a line
Memory   one block and one line; the log lists the first 1,000 of each kind and counts the rest
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from jumok.text.check import ODDITIES, suspect
from jumok.text.encodings import Form, as_utf8, examine, is_utf8
from jumok.text.files import BLOCK, LONGEST, UTF8_MARK, Chunk, clean, cut, mostly_nul, must_be_file, named, spoilt

LISTED = 1_000  # changes of one kind that are listed

_PATTERNS = {oddity.kind: oddity.pattern for oddity in ODDITIES}
_RULES = [  # what is found, what stands in its place, what was done
    (_PATTERNS["byte order mark inside"], "", "byte order mark inside a line removed"),
    (_PATTERNS["line separator inside"], " ", "line separator inside a line made a space"),
    (_PATTERNS["control character"], "", "control character removed"),
]


class Line(NamedTuple):
    """A line: what it says now and what was done to it, or why nothing can be done."""

    number: int
    text: str
    done: tuple[str, ...] = ()
    fault: str = ""  # the kind of it
    detail: str = ""


class Change(NamedTuple):
    """Something that was done: to this file, at this line (0: to all of it)."""

    file: str
    line: int
    what: str
    detail: str = ""


class Log:
    """Everything that was done: all is counted, the first of each kind are listed."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.changes: list[Change] = []

    def add(self, change: Change, count: int = 1) -> None:
        if not change.line or self.counts[change.what] < LISTED:
            self.changes.append(change)
        self.counts[change.what] += count

    def add_line(self, path: str | Path, line: Line) -> None:
        for what in line.done:
            self.add(Change(named(path), line.number, what))


Repair = Callable[[str], tuple[str, tuple[str, ...]]]


def repair(text: str) -> tuple[str, tuple[str, ...]]:
    """A line put right, and what was done to it."""
    if text.isprintable() and text == text.strip() and unicodedata.is_normalized("NFC", text):
        return text, ()  # all that the rules look for is unprintable
    done = []
    if "\0" in text:
        text = text.replace("\0", "")
        done.append("NUL removed")
    for pattern, instead, what in _RULES:
        text, count = pattern.subn(instead, text)
        done += [what] * (count > 0)
    if not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
        done.append("brought into NFC")
    if text != text.strip():
        text = text.strip()
        done.append("outer white space removed")
    return text, tuple(done)


def repair_cells(row: str) -> tuple[str, tuple[str, ...]]:
    """A row of a .tsv put right cell by cell: its tabs stay."""
    cells = [repair(cell) for cell in row.split("\t")]
    done = dict.fromkeys(what for _, cell in cells for what in cell)
    return "\t".join(text for text, _ in cells), tuple(done)


def read_repaired(
    path: str | Path, log: Log, *, put_right: Repair = repair, longest: int = LONGEST, block: int = BLOCK
) -> Iterator[Line]:
    """Yield every line of a file, put right or with its fault; what was done to the file as a whole is logged."""
    must_be_file(path)
    form = examine(path, block=block)
    if form.encoding != "UTF-8":
        guess = " (a guess: look at the result)" if form.guessed else ""
        log.add(Change(named(path), 0, f"converted from {form.encoding}{guess}"))
    if form.marked:
        log.add(Change(named(path), 0, "byte order mark removed"))
    if form.old_mac:
        log.add(Change(named(path), 0, "CR alone made a line end"))
    windows = 0
    for chunk in cut(as_utf8(path, form, block=block), longest):
        windows += chunk.raw.count(b"\r\n")
        yield from _repaired(path, form, chunk, put_right, longest)
    if windows:
        log.add(Change(named(path), 0, "CR LF made LF", f"{windows:,} lines"), windows)


def _repaired(path: str | Path, form: Form, chunk: Chunk, put_right: Repair, longest: int) -> Iterator[Line]:
    """The lines of a chunk: as they are if nothing can be wrong with them, else one by one."""
    lines = clean(chunk, longest)
    if put_right is repair and lines is not None and not suspect(chunk.raw, lines):
        yield from (Line(number, text) for number, text in enumerate(lines, chunk.number))
        return
    for number, offset, raw in chunk.lines():
        found = spoilt(path, number, offset, raw, longest) if lines is None else None
        if found and found.kind == "not UTF-8" and form.encoding != "UTF-8":
            yield Line(number, "", (), f"not {form.encoding}")
        elif found and not (found.kind == "NUL" and not mostly_nul(raw) and is_utf8(raw)):
            start = len(UTF8_MARK) if form.marked else 0
            place = f", byte {start + found.byte}" if form.encoding == "UTF-8" else ""
            yield Line(number, "", (), found.kind, found.problem + place)
        else:
            text, done = put_right(raw.decode("utf-8"))
            long = 4 * len(text) > longest and len(text.encode()) > longest  # NFC may take more bytes
            yield Line(number, text, done, "over-long line" if long else "")
