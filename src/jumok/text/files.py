"""The bytes of a text file, cut into whole lines, with the place of everything that is wrong.

Contract: D1.  Under lines.py (the public names) and check.py; reads plain, .gz, .xz and .zst files and standard input.

Memory   one block and one line, whatever the size of the file and of what it unpacks to
Time     that of the file: a few kilobytes that unpack to gigabytes are refused, nothing waits for a pipe
Places   lines count from 1; bytes count from 0, in the text after decompression (what `xxd -s N` takes)
"""

import contextlib
import difflib
import gzip
import hashlib
import io
import lzma
import os
import re
import shlex
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Literal, cast

from jumok.errors import DataError, DiskError, MissingPackage
from jumok.extras import hint, is_installed

BLOCK = 1 << 20  # bytes read at once
LONGEST = 1_000_000  # bytes in a line; a file of one endless line is a mistake, not a sentence
PACKED = {".gz": "gzip", ".xz": "xz", ".zst": "zstd"}  # suffix -> the command that unpacks it
ROOM = 100_000_000  # bytes of text that any packed file may give, however small it is
SMALL = 500_000  # a packed file below this size may unpack to `SWELLS` times its size or to `ROOM` bytes,
SWELLS = 200  # whichever is more: ordinary text packs 3 to 10 times, so a few kilobytes never hide gigabytes
SWELLS_LARGE = (
    10_000  # a larger one may be a corpus of repeated lines, which xz and zstd --long pack thousands of times
)
UTF8_MARK = b"\xef\xbb\xbf"

_WIDE_MARKS = [  # a UTF-32 mark begins like a UTF-16 one, so it comes first
    (b"\xff\xfe\x00\x00", "UTF-32LE"),
    (b"\x00\x00\xfe\xff", "UTF-32BE"),
    (b"\xff\xfe", "UTF-16LE"),
    (b"\xfe\xff", "UTF-16BE"),
]

_PACKED_MARKS = [  # how a packed file begins, what it is, and the command that makes it readable here
    (b"\x1f\x8b\x08", "gzip", "mv {0} {0}.gz"),
    (b"\xfd7zXZ\0", "xz", "mv {0} {0}.xz"),
    (b"\x28\xb5\x2f\xfd", "zstd", "mv {0} {0}.zst"),
    (b"PK\x03\x04", "zip", "unzip -p {0} > FILE"),
    (b"BZh91AY&SY", "bzip2", "bunzip2 -c {0} > FILE"),
]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong or odd in a file.  Only `check` gives one with a `count` above 1: that many more."""

    file: str
    line: int
    byte: int
    problem: str
    hint: str
    severity: Literal["error", "warning"] = "error"
    kind: str = ""
    count: int = 1

    def error(self) -> DataError:
        return DataError(self.problem, where=f"{self.file}, line {self.line}, byte {self.byte}", hint=self.hint)


# ------------------------------------------------------------------------------------------ blocks


class Tally:
    """The bytes of a file as they are on the disk: how many were read, and their sha256."""

    def __init__(self) -> None:
        self.size, self.digest = 0, hashlib.sha256()


def blocks(path: str | Path, size: int, *, tally: Tally | None = None) -> Iterator[bytes]:
    """The bytes of a file after decompression, about `size` at a time; every failure comes out as a JumokError.

    `tally` counts and hashes all bytes as they are on the disk, so that the file need not be read again.
    """
    done = 0
    with faults_named(path, lambda: done), _opened(path, size, tally) as read:
        most = most_text(path)
        while block := read(size):
            done += len(block)
            if done > most:
                raise _swollen(path, done)
            yield block


def most_text(path: str | Path) -> float:
    """Return how many bytes of text a packed file may give; a plain file has no limit."""
    packed = str(path) != "-" and Path(path).suffix.lower() in PACKED and os.path.isfile(path)
    return most_unpacked(os.path.getsize(path)) if packed else float("inf")


def most_unpacked(size: int) -> int:
    """Return how many bytes of text `size` packed bytes may give."""
    return max(ROOM, size * _swells(size))


def _swells(size: int) -> int:
    return SWELLS if size < SMALL else SWELLS_LARGE


def _swollen(path: str | Path, done: int) -> DataError:
    look = attempt(f"{PACKED[Path(path).suffix.lower()]} -dc", path)
    return DataError(
        f"{named(path)} unpacks to more than {_swells(os.path.getsize(path)):,} times its size, as no text does",
        where=f"{named(path)}, after byte {done} of its text",
        hint=f"{look} | head -c 1000; if that is your text, unpack it to a file and name that file",
    )


def must_be_file(path: str | Path) -> None:
    """Refuse what cannot be read twice or never ends: a pipe, a device, a socket.  Standard input passes."""
    if str(path) == "-":
        return
    with faults_named(path):
        mode = os.stat(path).st_mode
    kinds = {stat.S_ISFIFO: "a pipe", stat.S_ISCHR: "a device", stat.S_ISBLK: "a device", stat.S_ISSOCK: "a socket"}
    kind = next((name for test, name in kinds.items() if test(mode)), "")
    if kind:
        hint = attempt("cat", path) + " > FILE, then name FILE" if kind == "a pipe" else attempt("ls -l", path)
        raise DataError(f"{named(path)} is {kind}, not a file", where=named(path), hint=hint)


class _Tallied(io.RawIOBase):
    """A file whose bytes are counted and hashed as they are read."""

    def __init__(self, raw: IO[bytes], tally: Tally) -> None:
        self._raw, self._tally = raw, tally

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count = self._raw.readinto(buffer)  # type: ignore[attr-defined]
        self._tally.digest.update(memoryview(buffer)[:count])
        self._tally.size += count
        return int(count)


@contextlib.contextmanager
def _opened(path: str | Path, size: int, tally: Tally | None = None) -> Iterator[Callable[[int], bytes]]:
    """A function that reads the next bytes, b"" at the end."""
    if str(path) == "-":
        if sys.stdin is None:
            raise DataError("there is no standard input", where="standard input", hint="name a file instead of -")
        yield cast(io.BufferedReader, sys.stdin.buffer).read1  # what has arrived: a person may be typing
        return
    suffix = Path(path).suffix.lower()
    with contextlib.ExitStack() as stack:
        raw = stack.enter_context(open(path, "rb"))
        if tally is not None:
            raw = io.BufferedReader(_Tallied(raw, tally), 1 << 18)
        if suffix in PACKED and not raw.peek(1):
            raise EOFError  # gzip and zstandard would take no bytes at all for a whole, empty text
        if suffix == ".gz":
            with _gunzip(raw) as read:
                yield read
        elif suffix == ".xz":
            with lzma.open(raw) as text:
                yield text.read
        elif suffix == ".zst":
            pieces = _unzstd(raw, size)
            yield lambda _: next(pieces, b"")
        else:
            yield raw.read


@contextlib.contextmanager
def _gunzip(stream: IO[bytes]) -> Iterator[Callable[[int], bytes]]:
    """Unpack gzip members, with isal where it is installed (the extra `fast`): about 2.5 times as fast as zlib."""
    try:
        from isal import igzip, isal_zlib
    except ImportError:
        with gzip.GzipFile(fileobj=stream, mode="rb") as text:
            yield text.read
        return

    def read(size: int) -> bytes:
        try:
            return unpacked.read(size)
        except isal_zlib.error as error:  # type: ignore[misc, unused-ignore]  # known where isal is installed
            raise zlib.error(str(error)) from error

    with igzip.IGzipFile(fileobj=stream, mode="rb") as unpacked:
        yield read


def _unzstd(stream: IO[bytes], size: int) -> Iterator[bytes]:
    """Unpack zstd frames.  Not by zstandard's stream_reader: that one ends quietly where a truncated file ends."""
    check_zstandard()
    import zstandard

    frame, ready = None, io.BytesIO()
    while packed := stream.read(1024):  # 1 KiB unpacks to 32 MiB at most, whatever the file says
        while packed:
            frame = frame or zstandard.ZstdDecompressor().decompressobj()
            try:
                ready.write(frame.decompress(packed))
            except zstandard.ZstdError as error:
                raise lzma.LZMAError(str(error)) from error
            packed, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
        if ready.tell() >= size:
            yield from _slices(ready.getvalue(), size)
            ready = io.BytesIO()
    if frame is not None:
        raise EOFError
    yield from _slices(ready.getvalue(), size)


def check_zstandard() -> None:
    """Refuse a .zst file where zstandard is not installed."""
    if not is_installed("zstandard"):
        raise MissingPackage(".zst files need zstandard, which is not installed", hint=str(hint("zstandard")))


def _slices(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


@contextlib.contextmanager
def faults_named(path: str | Path, done: Callable[[], int] = lambda: 0) -> Iterator[None]:
    """Turn what can go wrong while reading `path` into an error that says where and what to try."""
    name = named(path)
    unpack = PACKED.get(Path(path).suffix.lower(), "")
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        state = "cut off before its end" if isinstance(error, EOFError) else f"not whole {unpack} data ({error})"
        where = f"{name}, after byte {done()} of its text"
        hint = attempt(f"{unpack} -t", path) + ", then fetch or make the file again"
        raise DataError(f"{name} is {state}", where=where, hint=hint) from error
    except FileNotFoundError as error:
        where = str(Path(path).absolute())
        raise DataError(f"there is no file {name}", where=where, hint=nearest(Path(path))) from error
    except IsADirectoryError as error:
        raise DataError(f"{name} is a folder, not a file", where=name, hint=attempt("ls", path)) from error
    except PermissionError as error:
        raise DataError(f"you may not read {name}", where=name, hint=attempt("ls -l", path)) from error
    except OSError as error:
        where = f"{name}, after byte {done()}"
        hint = attempt("ls -l", path)
        raise DiskError(f"cannot read {name}: {error.strerror or error}", where=where, hint=hint) from error


def nearest(path: Path) -> str:
    """A hint: the file of that folder whose name is most like this one."""
    try:
        names = sorted(os.listdir(path.parent))
    except OSError:
        names = []
    near = difflib.get_close_matches(path.name, names, n=1)
    return f"did you mean {path.parent / near[0]}?" if near else attempt("ls", path.parent)


# ------------------------------------------------------------------------------------------ lines


@dataclass(frozen=True)
class Chunk:
    """Whole lines as bytes; `number` and `offset` are those of the first.  `cut`: the start of one over-long line."""

    number: int
    offset: int
    raw: bytes
    cut: bool = False

    def lines(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield number, offset and bytes of each line, without its end."""
        start, number = 0, self.number
        while start < len(self.raw):
            end = self.raw.find(b"\n", start)
            stop = len(self.raw) if end < 0 else end
            line = self.raw[start:stop]
            yield number, self.offset + start, line if end < 0 else line.removesuffix(b"\r")
            start, number = stop + 1, number + 1


def chunks(path: str | Path, *, longest: int, block: int) -> Iterator[Chunk]:
    """The lines of a file, many at a time."""
    return cut(blocks(path, block), longest)


def cut(parts: Iterable[bytes], longest: int) -> Iterator[Chunk]:
    """Cut blocks at their last 0x0A.  What lies beyond `longest` in an over-long line is passed over."""
    number, offset = 1, 0
    held: list[bytes] = []  # the beginning of a line whose end has not been seen
    length, skipping = 0, False
    for data in parts:
        if skipping:
            end = data.find(b"\n") + 1
            offset += end or len(data)
            if not end:
                continue
            number, skipping, data = number + 1, False, data[end:]
        if whole := data.rfind(b"\n") + 1:
            raw = b"".join([*held, data[:whole]])
            yield Chunk(number, offset, raw)
            number, offset, held, length = number + raw.count(b"\n"), offset + len(raw), [], 0
            data = data[whole:]
        if data:
            held.append(data)
            length += len(data)
        if length > longest + 1:  # + 1: the last byte may be the CR before a 0x0A
            yield Chunk(number, offset, b"".join(held), cut=True)
            offset, held, length, skipping = offset + length, [], 0, True
    if held:
        yield Chunk(number, offset, b"".join(held))


def decoded(path: str | Path, chunk: Chunk, longest: int) -> Iterable[str]:
    """The lines of a chunk: at once if all is well, else one by one up to the fault."""
    lines = clean(chunk, longest)
    return _one_by_one(path, chunk, longest) if lines is None else lines


def clean(chunk: Chunk, longest: int) -> list[str] | None:
    """The lines of a chunk, or None if anything is wrong with any of them."""
    raw = chunk.raw
    if chunk.cut or b"\0" in raw or raw.startswith(UTF8_MARK):
        return None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    lines = text.replace("\r\n", "\n").split("\n")
    if raw.endswith(b"\n"):
        lines.pop()
    suspect = len(raw) > longest and 4 * max(map(len, lines)) > longest  # a character has 4 bytes at most
    return None if suspect and any(len(line.encode()) > longest for line in lines) else lines


def _one_by_one(path: str | Path, chunk: Chunk, longest: int) -> Iterator[str]:
    for number, offset, raw in chunk.lines():
        if found := fault(path, number, offset, raw, longest):
            raise found.error()
        yield raw.decode("utf-8")


def fault(path: str | Path, number: int, offset: int, raw: bytes, longest: int) -> Finding | None:
    """What makes a line unreadable, if anything does."""
    first = (_mark(path, raw) or packed(path, raw)) if offset == 0 else None
    return first or spoilt(path, number, offset, raw, longest)


def _mark(path: str | Path, raw: bytes) -> Finding | None:
    """The byte order mark at the start of a file."""
    here = Finding(named(path), 1, 0, "", "")
    if encoding := marked(raw):
        wide = encoding.removesuffix("LE").removesuffix("BE")
        problem = f"{here.file} is {wide}, not UTF-8: it begins with the byte order mark of {wide}"
        return replace(here, problem=problem, hint=_iconv(wide, path), kind="wrong encoding")
    if raw.startswith(UTF8_MARK):
        problem = f"{here.file} begins with a byte order mark of UTF-8"
        hint = _filtered(r"sed '1s/^\xEF\xBB\xBF//'", path)
        return replace(here, problem=problem, hint=hint, kind="byte order mark")
    return None


def packed(path: str | Path, raw: bytes) -> Finding | None:
    """What a file begins with that is compressed and does not say so in its name."""
    for mark, kind, command in _PACKED_MARKS:
        if raw.startswith(mark):
            problem = f"{named(path)} is {kind} data, and its name does not say so"
            hint = attempt(command.format("FILE" if str(path) == "-" else shlex.quote(str(path))))
            return Finding(named(path), 1, 0, problem, hint.rstrip(), kind="compressed")
    return None


def marked(raw: bytes) -> str:
    """The encoding, other than UTF-8, whose byte order mark begins the bytes; "" if none does."""
    return next((encoding for mark, encoding in _WIDE_MARKS if raw.startswith(mark)), "")


def spoilt(path: str | Path, number: int, offset: int, raw: bytes, longest: int) -> Finding | None:
    """What makes a line unreadable, wherever it stands."""
    here = Finding(named(path), number, offset, "", attempt("jumok data check", path))
    if len(raw) > longest:
        return replace(here, problem=f"a line is longer than {longest:,} bytes", kind="over-long line")
    try:
        raw.decode("utf-8")
        bad = len(raw)
    except UnicodeDecodeError as error:
        bad = error.start
    nul = raw.find(b"\0")
    if 0 <= nul < bad:
        wide = "UTF-16LE" if (offset + nul) % 2 else "UTF-16BE"
        hint = _iconv(wide, path) if mostly_nul(raw) else here.hint
        return replace(here, byte=offset + nul, problem="there is a NUL byte in the text", hint=hint, kind="NUL")
    if bad < len(raw):
        problem = f"{here.file} is not UTF-8: byte 0x{raw[bad]:02x} does not fit there"
        encoding = likely_encoding(raw)
        hint = _iconv(encoding, path) if encoding else here.hint
        return replace(here, byte=offset + bad, problem=problem, hint=hint, kind="not UTF-8")
    return None


def mostly_nul(raw: bytes) -> bool:
    """Whether a line has so many NUL bytes that it is rather UTF-16 than text with a few of them in it."""
    return raw.count(b"\0") * 3 > len(raw)


def likely_encoding(raw: bytes) -> str:
    """The likeliest encoding of lines that are not UTF-8; "" if they are UTF-8 with a few bytes spoilt."""
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


# ------------------------------------------------------------------------------------------ words


def named(path: str | Path) -> str:
    return "standard input" if str(path) == "-" else str(path)


def printable(text: str, longest: int = 60) -> str:
    """What a file says of itself, as a message may repeat it: one line, no control characters, not endless."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:longest])
    return shown + "…" * (len(text) > longest)


def attempt(command: str, *paths: str | Path) -> str:
    """A hint: the command line to try."""
    names = ["FILE" if str(path) == "-" else shlex.quote(str(path)) for path in paths]
    return f"try: {command} {' '.join(names)}" + " (save standard input as FILE first)" * ("FILE" in names)


def _filtered(command: str, path: str | Path) -> str:
    """A hint: the command line that sends the text of a file through `command` into another file."""
    if str(path) == "-":
        return f"try: ... | {command} | ..."
    suffix = Path(path).suffix
    bare = Path(path).with_suffix("") if suffix.lower() in PACKED else Path(path)
    new = shlex.quote(str(bare.with_name(f"{bare.stem}.utf8{bare.suffix}")))
    if suffix.lower() in PACKED:
        return f"{attempt(f'{PACKED[suffix.lower()]} -dc', path)} | {command} > {new}"
    return f"{attempt(command, path)} > {new}"


def _iconv(encoding: str, path: str | Path) -> str:
    return _filtered(f"iconv -f {encoding} -t utf-8", path)
