"""Everything that is wrong or odd in a text file, for `jumok data check`: errors as in reading, and warnings.

Contract: D1.  Reading stops at the first fault; checking goes on, lists the first of each kind and counts the rest.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from jumok.errors import JumokError, MissingPackage
from jumok.text.columnar import read_columnar
from jumok.text.files import (
    BLOCK,
    LONGEST,
    UTF8_MARK,
    Chunk,
    Finding,
    attempt,
    chunks,
    clean,
    fault,
    must_be_file,
    named,
)
from jumok.text.tables import BadRow, Columns, Pair, is_columnar, kind_of, row_parser

SHOWN = 20  # findings of one kind that are listed; the rest is counted


@dataclass(frozen=True)
class Oddity:
    """Something legal that is seldom meant: where to find it in a line, what it is and what to do."""

    kind: str
    pattern: re.Pattern[str]
    problem: str
    hint: str


ODDITIES = [
    Oddity(
        "line separator inside",
        re.compile("[\r\v\f\x1c-\x1e\x85\u2028\u2029]"),
        "U+{code:04X} inside a line: jumok keeps it there, but many tools would split the line",
        "put a space in its place before other tools read the file",
    ),
    Oddity(
        "control character",
        re.compile("[\x01-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f]"),
        "control character U+{code:04X}",
        "remove it unless it is meant",
    ),
    Oddity(
        "replacement character",
        re.compile("\ufffd"),
        "U+FFFD: a character was lost when this text was converted",
        "convert the original again, with its right encoding",
    ),
    Oddity(
        "byte order mark inside",
        re.compile("\ufeff"),
        "U+FEFF inside the text, as left when files are joined",
        r"remove it with sed 's/\xEF\xBB\xBF//g'",
    ),
    Oddity("empty line", re.compile(r"\A\s*\Z"), "a line is empty", "remove it together with its partner"),
    Oddity(
        "outer white space",
        re.compile(r"\A\s+(?=\S)|(?<=\S)\s+\Z"),
        "white space at the start or end of a line",
        "harmless; remove it if it is not meant",
    ),
]

_CONTROLS = bytes(code for code in range(0x20) if code not in b"\0\t\n\r") + b"\x7f"
_RARE = re.compile(rb"\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]|\xef\xbf\xbd|\xef\xbb\xbf")  # U+0080 to 009F, 2028, FFFD, FEFF


def check(
    path: str | Path, *, columns: Columns | None = None, longest: int = LONGEST, block: int = BLOCK
) -> list[Finding]:
    """Everything that is wrong or odd in a file, errors first, then by place.

    At most 20 findings of one kind are listed, and one more that says how many more there are (its `count`).  A file
    that cannot be read, or not to its end, is a finding too, of line 0.  Of a Parquet or Arrow file only the first
    row that cannot be read is found.  `columns` names the two sides of such a file.
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
    except MissingPackage:  # says nothing of the file
        raise
    except JumokError as error:
        tally.add(Finding(named(path), 0, 0, error.what, error.hint, kind="unreadable"))
    if problem := endings.mixed():
        place = endings.second
        tally.add(Finding(named(path), *place, problem, attempt("dos2unix", path), "warning", "mixed line ends"))
    if endings.old_mac and not tally.hopeless():
        problem = "no line feed but CR: the line ends of an old Mac, which end no line here"
        tally.add(Finding(named(path), 1, endings.first, problem, attempt("mac2unix", path), kind="old Mac line ends"))
    return tally.findings()


def _check_columnar(path: str | Path, columns: Columns | None, longest: int) -> list[Finding]:
    try:
        for _ in read_columnar(path, columns, longest=longest):
            pass
    except MissingPackage:  # says nothing of the file
        raise
    except JumokError as error:
        problem = f"{error.what} ({error.where})" if error.where != named(path) else error.what
        return [Finding(named(path), 0, 0, problem, error.hint, kind="unreadable")]
    return []


def _check_chunk(
    path: str | Path, chunk: Chunk, longest: int, parse: Callable[[str], Pair] | None, tally: "_Tally"
) -> None:
    """Look at every line of a chunk; plain text without anything odd is passed over at once."""
    lines = clean(chunk, longest)
    if parse is None and lines is not None and not suspect(chunk.raw, lines):
        return
    blank = parse is None and lines is not None and not any(lines)  # of a page of nothing, the first lines will do
    for number, offset, raw in islice(chunk.lines(), SHOWN + 1 if blank else None):
        while lines is None and (found := fault(path, number, offset, raw, longest)):
            tally.add(found)
            if tally.hopeless():
                return
            if found.kind != "byte order mark":
                break
            offset, raw = offset + len(UTF8_MARK), raw.removeprefix(UTF8_MARK)
        else:
            _check_line(path, number, offset, raw.decode("utf-8"), parse, tally)
    if blank:
        tally.count("empty line", max(0, len(lines or ()) - SHOWN - 1))


def _check_line(
    path: str | Path, number: int, offset: int, line: str, parse: Callable[[str], Pair] | None, tally: "_Tally"
) -> None:
    def place(position: int) -> tuple[str, int, int]:
        return named(path), number, offset + len(line[:position].encode())

    # Most lines need no search: every oddity but U+FFFD is unprintable or at an end.
    ordinary = line.isprintable() and line == line.strip() != "" and "\ufffd" not in line
    for oddity in () if ordinary else ODDITIES:
        if (found := oddity.pattern.search(line)) and tally.wants(oddity.kind):
            problem = oddity.problem.format(code=ord(found[0][:1] or "\0"))
            tally.show(Finding(*place(found.start()), problem, oddity.hint, "warning", oddity.kind))
    if not unicodedata.is_normalized("NFC", line) and tally.wants("not NFC"):
        tally.show(Finding(*place(0), "not in NFC", attempt("uconv -x any-nfc", path), "warning", "not NFC"))
    if parse is not None:
        try:
            parse(line)
        except BadRow as bad:
            if tally.wants("not a pair"):
                hint = "put it right, or remove the row"
                tally.show(Finding(*place(bad.position), bad.problem, hint, kind="not a pair"))


def suspect(raw: bytes, lines: list[str]) -> bool:
    """Whether any oddity can be in these lines; several times faster than to look for each in each line."""
    return (
        len(raw.translate(None, _CONTROLS)) < len(raw)
        or raw.count(b"\r") > raw.count(b"\r\n")
        or _RARE.search(raw) is not None
        or any(not line or line != line.strip() for line in lines)
        or not unicodedata.is_normalized("NFC", "\n".join(lines))
    )


class _Tally:
    """Findings, of which no kind fills the page: the first are listed with their places, all are counted."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._listed: list[Finding] = []

    def wants(self, kind: str) -> bool:
        """Count one of this kind; True if it shall be listed."""
        self._counts[kind] += 1
        return self._counts[kind] <= SHOWN + 1

    def count(self, kind: str, more: int) -> None:
        """Count so many more of this kind, of which none shall be listed."""
        self._counts[kind] += more

    def show(self, finding: Finding) -> None:
        self._listed.append(finding)

    def add(self, finding: Finding) -> None:
        if self.wants(finding.kind):
            self.show(finding)

    def hopeless(self) -> bool:
        """Whether this is no UTF-8 at all, so that there is no point in going on."""
        return "wrong encoding" in self._counts or "compressed" in self._counts

    def findings(self) -> list[Finding]:
        seen: Counter[str] = Counter()
        result = []
        for finding in self._listed:
            seen[finding.kind] += 1
            if seen[finding.kind] > SHOWN:
                more = self._counts[finding.kind] - SHOWN
                finding = replace(finding, problem=f"{finding.kind}: {more:,} more from here on", count=more)
            result.append(finding)
        return sorted(result, key=lambda finding: (finding.severity, finding.line, finding.byte))


class _Endings:
    """How many lines end in CR LF and how many in LF alone, and where the second sort of end first comes."""

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
        if new and self.mixed():
            firsts = [re.search(pattern, chunk.raw) for pattern in new]
            at = max(first.start() for first in firsts if first)
            self.second = (chunk.number + chunk.raw.count(b"\n", 0, at), chunk.offset + at)

    def mixed(self) -> str:
        if not (self.windows and self.unix):
            return ""
        return f"line ends are mixed: {self.windows:,} are CR LF, {self.unix:,} are LF alone"
