"""What makes a line of a text file unreadable, with its line, its byte and a command that may repair it.

Contract: D1.  A line is readable if it is UTF-8 without a byte order mark and without NUL, and not over-long.  Reading
stops at the first fault (`decode_lines`); `check.py` lists them all.
"""

import contextlib
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from jumok.errors import DataError
from jumok.messages import Message
from jumok.text.files import PACKED, UTF8_MARK, Chunk, attempt, decode_if_clean, display_name

_WIDE_MARKS = [  # the mark of UTF-32LE begins with that of UTF-16LE, so it comes first
    (b"\xff\xfe\x00\x00", "UTF-32LE"),
    (b"\x00\x00\xfe\xff", "UTF-32BE"),
    (b"\xff\xfe", "UTF-16LE"),
    (b"\xfe\xff", "UTF-16BE"),
]

_PACKED_MARKS = [  # how a packed file begins, its format, and the command that makes it readable
    (b"\x1f\x8b\x08", "gzip", "mv {0} {0}.gz"),
    (b"\xfd7zXZ\0", "xz", "mv {0} {0}.xz"),
    (b"\x28\xb5\x2f\xfd", "zstd", "mv {0} {0}.zst"),
    (b"PK\x03\x04", "zip", "unzip -p {0} > FILE"),
    (b"BZh91AY&SY", "bzip2", "bunzip2 -c {0} > FILE"),
]


@dataclass(frozen=True)
class Finding:
    """An error or a warning about one position of a file.

    `problem` and `hint` are plain strings where they repeat the text of an error.  `count` is above 1 only in the last
    finding of a kind that `check` lists: it stands for that many more.
    """

    file: str
    line: int
    byte: int
    problem: Message | str
    hint: Message | str
    severity: Literal["error", "warning"] = "error"
    kind: str = ""
    count: int = 1

    def error(self) -> DataError:
        """The finding as an error."""
        return DataError(
            "text.bad_line",
            problem=self.problem, file=self.file, line=self.line, byte=self.byte, advice=self.hint,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        return vars(self) | {"problem": str(self.problem), "hint": str(self.hint)}


def decode_lines(path: str | Path, chunk: Chunk, longest: int) -> Iterable[str]:
    """The lines of a chunk: all at once if none has a fault, else one by one up to the first fault."""
    lines = decode_if_clean(chunk, longest)
    return _decode_one_by_one(path, chunk, longest) if lines is None else lines


def _decode_one_by_one(path: str | Path, chunk: Chunk, longest: int) -> Iterator[str]:
    for number, offset, raw in chunk.lines():
        if finding := find_fault(path, number, offset, raw, longest):
            raise finding.error()
        yield raw.decode("utf-8")


def find_fault(path: str | Path, number: int, offset: int, raw: bytes, longest: int) -> Finding | None:
    """The reason why a line is unreadable, None if it is readable; also looks at how the file begins."""
    first = (_find_mark(path, raw) or find_packing(path, raw)) if offset == 0 else None
    return first or find_fault_in_line(path, number, offset, raw, longest)


def _find_mark(path: str | Path, raw: bytes) -> Finding | None:
    """The byte order mark at the start of a file."""
    file = display_name(path)
    if encoding := read_mark(raw):
        wide = encoding.removesuffix("LE").removesuffix("BE")
        problem = Message("text.wide_mark", {"file": file, "encoding": wide})
        return Finding(file, 1, 0, problem, _suggest_iconv(wide, path), kind="wrong encoding")
    if raw.startswith(UTF8_MARK):
        problem = Message("text.utf8_mark", {"file": file})
        return Finding(file, 1, 0, problem, _suggest_filter(r"sed '1s/^\xEF\xBB\xBF//'", path), kind="byte order mark")
    return None


def find_packing(path: str | Path, raw: bytes) -> Finding | None:
    """The compression of a file whose name does not mention it, by its first bytes."""
    for mark, kind, command in _PACKED_MARKS:
        if raw.startswith(mark):
            problem = Message("text.unnamed_compression", {"file": display_name(path), "format": kind})
            hint = attempt(command.format("FILE" if str(path) == "-" else shlex.quote(str(path))))
            return Finding(display_name(path), 1, 0, problem, hint, kind="compressed")
    return None


def read_mark(raw: bytes) -> str:
    """The encoding, other than UTF-8, whose byte order mark begins the bytes; "" if none does."""
    return next((encoding for mark, encoding in _WIDE_MARKS if raw.startswith(mark)), "")


def find_fault_in_line(path: str | Path, number: int, offset: int, raw: bytes, longest: int) -> Finding | None:
    """The reason why a line is unreadable wherever it is in a file, None if it is readable."""
    too_long = Message("text.line_too_long", {"limit": longest})
    finding = Finding(
        display_name(path), number, offset, too_long, attempt("jumok data check", path), kind="over-long line"
    )
    if len(raw) > longest:
        return finding
    try:
        raw.decode("utf-8")
        bad = len(raw)
    except UnicodeDecodeError as error:
        bad = error.start
    nul = raw.find(b"\0")
    if 0 <= nul < bad:
        wide = "UTF-16LE" if (offset + nul) % 2 else "UTF-16BE"
        hint = _suggest_iconv(wide, path) if is_mostly_nul(raw) else finding.hint
        return replace(finding, byte=offset + nul, problem=Message("text.nul"), hint=hint, kind="NUL")
    if bad < len(raw):
        problem = Message("text.not_utf8", {"file": finding.file, "bad_byte": raw[bad]})
        encoding = likely_encoding(raw)
        hint = _suggest_iconv(encoding, path) if encoding else finding.hint
        return replace(finding, byte=offset + bad, problem=problem, hint=hint, kind="not UTF-8")
    return None


def is_mostly_nul(raw: bytes) -> bool:
    """Whether a line has so many NUL bytes that it is UTF-16 rather than text with a few of them in it."""
    return raw.count(b"\0") * 3 > len(raw)


def likely_encoding(raw: bytes) -> str:
    """The likeliest encoding of lines that are not UTF-8; "" if they are UTF-8 with a few corrupt bytes."""
    high = len(raw) - len(raw.translate(None, bytes(range(0x80, 0x100))))
    good = len(raw.decode("utf-8", errors="ignore").encode()) - (len(raw) - high)
    if good * 2 > high:
        return ""
    hangul = re.findall(rb"[\xb0-\xc8][\xa1-\xfe]", raw)
    if len(hangul) * 4 > high:
        with contextlib.suppress(UnicodeDecodeError):
            raw.decode("cp949")
            return "CP949"
    return "WINDOWS-1252" if re.search(rb"[\x80-\x9f]", raw) else "LATIN1"


def _suggest_filter(command: str, path: str | Path) -> Message:
    """The hint to send the text of a file through `command` into another file."""
    if str(path) == "-":
        return attempt(f"... | {command} | ...")
    suffix = Path(path).suffix
    bare = Path(path).with_suffix("") if suffix.lower() in PACKED else Path(path)
    name, new = (shlex.quote(str(file)) for file in (path, bare.with_name(f"{bare.stem}.utf8{bare.suffix}")))
    if suffix.lower() in PACKED:
        return attempt(f"{PACKED[suffix.lower()]} -dc {name} | {command} > {new}")
    return attempt(f"{command} {name} > {new}")


def _suggest_iconv(encoding: str, path: str | Path) -> Message:
    return _suggest_filter(f"iconv -f {encoding} -t utf-8", path)
