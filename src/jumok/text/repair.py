"""Repaired lines, where the repair is certain, and a log of all changes.

Contract: D1.  Used by data/quality/fix.py; a line that no rule can repair is yielded with its fault, never half
repaired.

Rules    byte order marks, NUL and control characters are removed; characters that other tools treat as line ends
         become spaces; text is brought into NFC; white space at the ends of a line is removed
Memory   one block and one line; the log lists the first 1,000 changes of each kind and counts the rest
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from jumok.text.check import ODDITIES, is_suspect
from jumok.text.encodings import Form, as_utf8, examine, is_utf8
from jumok.text.faults import find_fault_in_line, is_mostly_nul
from jumok.text.files import BLOCK, LONGEST, UTF8_MARK, Chunk, cut, decode_if_clean, display_name, must_be_file

LISTED = 1_000  # most changes of one kind that are listed

_PATTERNS = {oddity.kind: oddity.pattern for oddity in ODDITIES}
_RULES = [  # pattern, replacement, description of the change
    (_PATTERNS["byte order mark inside"], "", "byte order mark inside a line removed"),
    (_PATTERNS["line separator inside"], " ", "line separator inside a line made a space"),
    (_PATTERNS["control character"], "", "control character removed"),
]


class Line(NamedTuple):
    """A repaired line with the changes made to it, or a line that cannot be repaired with its fault."""

    number: int
    text: str
    done: tuple[str, ...] = ()
    fault: str = ""  # the kind of the fault, as in `Finding`
    detail: str = ""


class Change(NamedTuple):
    """A change to a line of a file, or to the whole file if `line` is 0."""

    file: str
    line: int
    what: str
    detail: str = ""


class Log:
    """All changes: every one is counted, the first of each kind are listed."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.changes: list[Change] = []

    def add(self, change: Change, count: int = 1) -> None:
        if not change.line or self.counts[change.what] < LISTED:
            self.changes.append(change)
        self.counts[change.what] += count

    def add_line(self, path: str | Path, line: Line) -> None:
        for what in line.done:
            self.add(Change(display_name(path), line.number, what))


Repair = Callable[[str], tuple[str, tuple[str, ...]]]


def repair(text: str) -> tuple[str, tuple[str, ...]]:
    """A repaired line, and the changes made to it."""
    if text.isprintable() and text == text.strip() and unicodedata.is_normalized("NFC", text):
        return text, ()  # every pattern of the rules is unprintable
    done = []
    if "\0" in text:
        text = text.replace("\0", "")
        done.append("NUL removed")
    for pattern, replacement, what in _RULES:
        text, count = pattern.subn(replacement, text)
        done += [what] * (count > 0)
    if not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
        done.append("brought into NFC")
    if text != text.strip():
        text = text.strip()
        done.append("outer white space removed")
    return text, tuple(done)


def repair_cells(row: str) -> tuple[str, tuple[str, ...]]:
    """A row of a .tsv, repaired cell by cell, so that its tabs stay."""
    cells = [repair(cell) for cell in row.split("\t")]
    done = dict.fromkeys(what for _, cell in cells for what in cell)
    return "\t".join(text for text, _ in cells), tuple(done)


def read_repaired(
    path: str | Path, log: Log, *, rule: Repair = repair, longest: int = LONGEST, block: int = BLOCK
) -> Iterator[Line]:
    """Yield every line of a file, repaired by `rule` or with its fault; changes to the whole file are logged."""
    must_be_file(path)
    form = examine(path, block=block)
    if form.encoding != "UTF-8":
        guess = " (a guess: look at the result)" if form.guessed else ""
        log.add(Change(display_name(path), 0, f"converted from {form.encoding}{guess}"))
    if form.marked:
        log.add(Change(display_name(path), 0, "byte order mark removed"))
    if form.old_mac:
        log.add(Change(display_name(path), 0, "CR alone made a line end"))
    windows = 0
    for chunk in cut(as_utf8(path, form, block=block), longest):
        windows += chunk.raw.count(b"\r\n")
        yield from _repair_chunk(path, form, chunk, rule, longest)
    if windows:
        log.add(Change(display_name(path), 0, "CR LF made LF", f"{windows:,} lines"), windows)


def _repair_chunk(path: str | Path, form: Form, chunk: Chunk, rule: Repair, longest: int) -> Iterator[Line]:
    """The lines of a chunk: unchanged if none can need a repair, else repaired one by one."""
    lines = decode_if_clean(chunk, longest)
    if rule is repair and lines is not None and not is_suspect(chunk.raw, lines):
        yield from (Line(number, text) for number, text in enumerate(lines, chunk.number))
        return
    for number, offset, raw in chunk.lines():
        finding = find_fault_in_line(path, number, offset, raw, longest) if lines is None else None
        if finding and finding.kind == "not UTF-8" and form.encoding != "UTF-8":
            yield Line(number, "", (), f"not {form.encoding}")
        elif finding and not (finding.kind == "NUL" and not is_mostly_nul(raw) and is_utf8(raw)):
            start = len(UTF8_MARK) if form.marked else 0
            position = f", byte {start + finding.byte}" if form.encoding == "UTF-8" else ""
            yield Line(number, "", (), finding.kind, f"{finding.problem}{position}")
        else:
            text, done = rule(raw.decode("utf-8"))
            long = 4 * len(text) > longest and len(text.encode()) > longest  # NFC may take more bytes
            yield Line(number, text, done, "over-long line" if long else "")
