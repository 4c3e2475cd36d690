"""All errors and warnings about a text file, for `jumok data check`.

Contract: D1.  Reading stops at the first fault; checking continues, lists the first findings of each kind and counts
the rest.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from jumok.errors import JumokError, MissingPackage
from jumok.messages import Message
from jumok.text.columnar import read_columnar
from jumok.text.faults import Finding, find_fault
from jumok.text.files import (
    BLOCK,
    LONGEST,
    UTF8_MARK,
    Chunk,
    attempt,
    chunks,
    decode_if_clean,
    display_name,
    must_be_file,
)
from jumok.text.tables import BadRow, Columns, Pair, is_columnar, kind_of, row_parser

LISTED = 20  # most findings of one kind that are listed; the rest are counted


@dataclass(frozen=True)
class Oddity:
    """A legal character or line that is rarely intended; `problem` gets its code point as a value."""

    kind: str
    pattern: re.Pattern[str]
    problem: Callable[[int], Message]
    hint: Message


ODDITIES = [
    Oddity(
        "line separator inside",
        re.compile("[\r\v\f\x1c-\x1e\x85\u2028\u2029]"),
        lambda code: Message("text.line_separator", {"code": code}),
        Message("text.replace_with_space"),
    ),
    Oddity(
        "control character",
        re.compile("[\x01-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f]"),
        lambda code: Message("text.control_character", {"code": code}),
        Message("text.remove_unless_intended"),
    ),
    Oddity(
        "replacement character",
        re.compile("\ufffd"),
        lambda code: Message("text.replacement_character"),
        Message("text.convert_again"),
    ),
    Oddity(
        "byte order mark inside",
        re.compile("\ufeff"),
        lambda code: Message("text.mark_inside"),
        Message("text.remove_marks"),
    ),
    Oddity(
        "empty line",
        re.compile(r"\A\s*\Z"),
        lambda code: Message("text.empty_line"),
        Message("text.remove_with_partner"),
    ),
    Oddity(
        "outer white space",
        re.compile(r"\A\s+(?=\S)|(?<=\S)\s+\Z"),
        lambda code: Message("text.outer_white_space"),
        Message("text.harmless"),
    ),
]

_CONTROLS = bytes(code for code in range(0x20) if code not in b"\0\t\n\r") + b"\x7f"
_RARE = re.compile(rb"\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]|\xef\xbf\xbd|\xef\xbb\xbf")  # U+0080 to 009F, 2028, FFFD, FEFF


def check(
    path: str | Path, *, columns: Columns | None = None, longest: int = LONGEST, block: int = BLOCK
) -> list[Finding]:
    """All findings about a file: errors first, then warnings, each by position.

    At most 20 findings of one kind are listed, and one more whose `count` says how many there are besides.  A file that
    cannot be read, or not to its end, is a finding too, of line 0.  Of a Parquet or Arrow file only the first
    unreadable row is reported.  `columns` names the two sides of such a file.
    """
    if is_columnar(path):
        return _check_columnar(path, columns, longest)
    tally = _Tally()
    endings = _Endings()
    parse = row_parser(path) if kind_of(path) else None
    try:
        must_be_file(path)
        for chunk in chunks(path, longest=longest, block=block):
            endings.add(chunk)
            _check_chunk(path, chunk, longest, parse, tally)
            if tally.hopeless():
                break  # every line would be wrong
    except MissingPackage:  # not a fault of the file
        raise
    except JumokError as error:
        tally.add(Finding(display_name(path), 0, 0, error.what, error.hint, kind="unreadable"))
    file = display_name(path)
    if endings.mixed:
        problem = Message("text.mixed_line_ends", {"windows": endings.windows, "unix": endings.unix})
        tally.add(Finding(file, *endings.second, problem, attempt("dos2unix", path), "warning", "mixed line ends"))
    if endings.old_mac and not tally.hopeless():
        problem = Message("text.old_mac_line_ends")
        tally.add(Finding(file, 1, endings.first, problem, attempt("mac2unix", path), kind="old Mac line ends"))
    return tally.findings()


def _check_columnar(path: str | Path, columns: Columns | None, longest: int) -> list[Finding]:
    try:
        for _ in read_columnar(path, columns, longest=longest):
            pass
    except MissingPackage:  # not a fault of the file
        raise
    except JumokError as error:
        file, at = display_name(path), {"problem": error.what, "position": error.where}
        problem = error.what if error.where == file else Message("text.problem_at", at)
        return [Finding(file, 0, 0, problem, error.hint, kind="unreadable")]
    return []


def _check_chunk(
    path: str | Path, chunk: Chunk, longest: int, parse: Callable[[str], Pair] | None, tally: "_Tally"
) -> None:
    """Check every line of a chunk; a chunk that cannot contain anything odd is skipped as a whole."""
    lines = decode_if_clean(chunk, longest)
    if parse is None and lines is not None and not is_suspect(chunk.raw, lines):
        return
    blank = parse is None and lines is not None and not any(lines)  # list only the first, count the rest
    for number, offset, raw in islice(chunk.lines(), LISTED + 1 if blank else None):
        while lines is None and (finding := find_fault(path, number, offset, raw, longest)):
            tally.add(finding)
            if tally.hopeless():
                return
            if finding.kind != "byte order mark":
                break
            offset, raw = offset + len(UTF8_MARK), raw.removeprefix(UTF8_MARK)
        else:
            _check_line(path, number, offset, raw.decode("utf-8"), parse, tally)
    if blank:
        tally.count("empty line", max(0, len(lines or ()) - LISTED - 1))


def _check_line(
    path: str | Path, number: int, offset: int, line: str, parse: Callable[[str], Pair] | None, tally: "_Tally"
) -> None:
    def locate(position: int) -> tuple[str, int, int]:
        return display_name(path), number, offset + len(line[:position].encode())

    # Most lines need no search: every oddity but U+FFFD is unprintable or at an end.
    ordinary = line.isprintable() and line == line.strip() != "" and "\ufffd" not in line
    for oddity in () if ordinary else ODDITIES:
        if (match := oddity.pattern.search(line)) and tally.count_one(oddity.kind):
            problem = oddity.problem(ord(match[0][:1] or "\0"))
            tally.append(Finding(*locate(match.start()), problem, oddity.hint, "warning", oddity.kind))
    if not unicodedata.is_normalized("NFC", line) and tally.count_one("not NFC"):
        hint = attempt("uconv -x any-nfc", path)
        tally.append(Finding(*locate(0), Message("text.not_nfc"), hint, "warning", "not NFC"))
    if parse is not None:
        try:
            parse(line)
        except BadRow as bad:
            if tally.count_one("not a pair"):
                hint = Message("text.correct_or_remove_row")
                tally.append(Finding(*locate(bad.position), bad.problem, hint, kind="not a pair"))


def is_suspect(raw: bytes, lines: list[str]) -> bool:
    """Whether these lines may contain an oddity; several times faster than searching each line for each of them."""
    return (
        len(raw.translate(None, _CONTROLS)) < len(raw)
        or raw.count(b"\r") > raw.count(b"\r\n")
        or _RARE.search(raw) is not None
        or any(not line or line != line.strip() for line in lines)
        or not unicodedata.is_normalized("NFC", "\n".join(lines))
    )


class _Tally:
    """Findings: the first of each kind are listed with their positions, all are counted."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._listed: list[Finding] = []

    def count_one(self, kind: str) -> bool:
        """Count a finding of this kind; True if it is to be listed."""
        self._counts[kind] += 1
        return self._counts[kind] <= LISTED + 1

    def count(self, kind: str, more: int) -> None:
        """Count `more` findings of this kind that are not listed."""
        self._counts[kind] += more

    def append(self, finding: Finding) -> None:
        """List a finding that has been counted."""
        self._listed.append(finding)

    def add(self, finding: Finding) -> None:
        """Count a finding, and list it if it is one of the first of its kind."""
        if self.count_one(finding.kind):
            self.append(finding)

    def hopeless(self) -> bool:
        """Whether the file is not UTF-8 at all, so that every further line would be an error."""
        return "wrong encoding" in self._counts or "compressed" in self._counts

    def findings(self) -> list[Finding]:
        seen: Counter[str] = Counter()
        result = []
        for finding in self._listed:
            seen[finding.kind] += 1
            if seen[finding.kind] > LISTED:
                more = self._counts[finding.kind] - LISTED
                problem = Message("text.more_of_this_kind", {"kind": finding.kind, "count": more})
                finding = replace(finding, problem=problem, count=more)
            result.append(finding)
        return sorted(result, key=lambda finding: (finding.severity, finding.line, finding.byte))


class _Endings:
    """How many lines end in CR LF and how many in LF alone, and where the second kind of end first occurs."""

    def __init__(self) -> None:
        self.windows = self.unix = self.alone = 0
        self.first = 0  # byte of the first CR, if no line feed comes before it
        self.second = (0, 0)  # line, byte

    @property
    def old_mac(self) -> bool:
        """Whether there is a CR and no line feed."""
        return not (self.windows or self.unix) and self.alone > 0

    def add(self, chunk: Chunk) -> None:
        windows = chunk.raw.count(b"\r\n")
        if not (self.windows or self.unix or self.alone):
            self.first = chunk.offset + max(0, chunk.raw.find(b"\r"))
        self.alone += chunk.raw.count(b"\r") - windows
        unix = chunk.raw.count(b"\n") - windows
        new = [] if self.windows else [rb"\r\n"]
        new += [] if self.unix else [rb"(?<!\r)\n"]
        self.windows, self.unix = self.windows + windows, self.unix + unix
        if new and self.mixed:
            firsts = [re.search(pattern, chunk.raw) for pattern in new]
            at = max(first.start() for first in firsts if first)
            self.second = (chunk.number + chunk.raw.count(b"\n", 0, at), chunk.offset + at)

    @property
    def mixed(self) -> bool:
        """Whether some lines end in CR LF and some in LF alone."""
        return self.windows > 0 and self.unix > 0
