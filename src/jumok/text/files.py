"""The bytes of a text file, decompressed and cut into whole lines.

Contract: D1.  Below faults.py, lines.py (the public names) and check.py; reads plain, .gz, .xz and .zst files and
standard input.

Memory     one block and one line, independent of the size of the file and of what it unpacks to
Time       proportional to the file: a few kilobytes that unpack to gigabytes are refused, nothing waits for a pipe
Positions  lines count from 1; bytes count from 0, in the text after decompression (what `xxd -s N` takes)
"""

import contextlib
import difflib
import gzip
import hashlib
import io
import lzma
import os
import shlex
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from jumok.errors import DataError, DiskError, MissingPackage
from jumok.extras import hint, is_installed
from jumok.messages import Message

BLOCK = 1 << 20  # bytes read at once
LONGEST = 1_000_000  # most bytes of a line; a file of one endless line is a mistake, not a sentence
PACKED = {".gz": "gzip", ".xz": "xz", ".zst": "zstd"}  # suffix -> the command that unpacks it
ALLOWANCE = 100_000_000  # bytes of text that any packed file may give, however small it is
SMALL = 500_000  # a packed file below this size may unpack to RATIO times its size or to ALLOWANCE bytes,
RATIO = 200  # whichever is more: ordinary text packs 3 to 10 times, so a few kilobytes never hide gigabytes
RATIO_LARGE = 10_000  # a larger one may be a corpus of repeated lines, which xz and zstd --long pack thousands of times
UTF8_MARK = b"\xef\xbb\xbf"


# ------------------------------------------------------------------------------------------ blocks


class Tally:
    """The bytes of a file as they are on the disk: how many were read, and their sha256."""

    def __init__(self) -> None:
        self.size, self.digest = 0, hashlib.sha256()


def blocks(path: str | Path, size: int, *, tally: Tally | None = None) -> Iterator[bytes]:
    """The bytes of a file after decompression, about `size` at a time; every failure becomes a JumokError.

    `tally` counts and hashes all bytes as they are on the disk, so that the file need not be read again.
    """
    done = 0
    with explain_faults(path, lambda: done), _open(path, size, tally) as read:
        most = most_text(path)
        while block := read(size):
            done += len(block)
            if done > most:
                raise _unpacks_to_too_much(path, done)
            yield block


def most_text(path: str | Path) -> float:
    """The most bytes of text that a packed file may give; a plain file has no limit."""
    packed = str(path) != "-" and Path(path).suffix.lower() in PACKED and os.path.isfile(path)
    return most_unpacked(os.path.getsize(path)) if packed else float("inf")


def most_unpacked(size: int) -> int:
    """The most bytes of text that `size` packed bytes may give."""
    return max(ALLOWANCE, size * _max_ratio(size))


def _max_ratio(size: int) -> int:
    return RATIO if size < SMALL else RATIO_LARGE


def _unpacks_to_too_much(path: str | Path, done: int) -> DataError:
    return DataError(
        "text.unpacks_to_too_much",
        file=display_name(path),
        ratio=_max_ratio(os.path.getsize(path)),
        byte=done,
        advice=attempt(f"{PACKED[Path(path).suffix.lower()]} -dc", path),
    )


def must_be_file(path: str | Path) -> None:
    """Refuse what cannot be read twice or never ends: a pipe, a device, a socket.  Standard input passes."""
    if str(path) == "-":
        return
    with explain_faults(path):
        mode = os.stat(path).st_mode
    if stat.S_ISFIFO(mode):
        raise DataError("text.is_a_pipe", file=display_name(path), advice=attempt("cat", path))
    if stat.S_ISSOCK(mode):
        raise DataError("text.is_a_socket", file=display_name(path), advice=attempt("ls -l", path))
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise DataError("text.is_a_device", file=display_name(path), advice=attempt("ls -l", path))


class _TallyingFile(io.RawIOBase):
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
def _open(path: str | Path, size: int, tally: Tally | None = None) -> Iterator[Callable[[int], bytes]]:
    """A function that returns the next bytes, b"" at the end."""
    if str(path) == "-":
        if sys.stdin is None:
            raise DataError("text.no_standard_input")
        yield cast(io.BufferedReader, sys.stdin.buffer).read1  # returns what has arrived: a person may be typing
        return
    suffix = Path(path).suffix.lower()
    with contextlib.ExitStack() as stack:
        raw = stack.enter_context(open(path, "rb"))
        if tally is not None:
            raw = io.BufferedReader(_TallyingFile(raw, tally), 1 << 18)
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
    """Unpack zstd frames, without zstandard's stream_reader, which ends without an error where a file is truncated."""
    check_zstandard()
    import zstandard

    frame, ready = None, io.BytesIO()
    while packed := stream.read(1024):  # 1 KiB unpacks to 32 MiB at most, even in a hostile file
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
        raise MissingPackage("text.needs_zstandard", advice=hint("zstandard"))


def _slices(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


@contextlib.contextmanager
def explain_faults(path: str | Path, done: Callable[[], int] = lambda: 0) -> Iterator[None]:
    """Turn any failure while `path` is read into an error that names the file and the byte."""
    name = display_name(path)
    unpack = PACKED.get(Path(path).suffix.lower(), "")
    try:
        yield
    except EOFError as error:
        advice = attempt(f"{unpack} -t", path)
        raise DataError("text.packed_file_cut_off", file=name, byte=done(), advice=advice) from error
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        advice = attempt(f"{unpack} -t", path)
        raise DataError(
            "text.packed_file_corrupt", file=name, format=unpack, reason=error, byte=done(), advice=advice
        ) from error
    except FileNotFoundError as error:
        path = Path(path)
        raise DataError("text.no_such_file", file=name, path=path.absolute(), advice=nearest(path)) from error
    except IsADirectoryError as error:
        raise DataError("text.is_a_folder", file=name, advice=attempt("ls", path)) from error
    except PermissionError as error:
        raise DataError("text.may_not_read", file=name, advice=attempt("ls -l", path)) from error
    except OSError as error:
        reason, advice = error.strerror or error, attempt("ls -l", path)
        raise DiskError("text.cannot_read", file=name, reason=reason, byte=done(), advice=advice) from error


def nearest(path: Path) -> Message:
    """A hint with the file of that folder whose name is most like this one, or with a command that lists the folder."""
    try:
        names = sorted(os.listdir(path.parent))
    except OSError:
        names = []
    near = difflib.get_close_matches(path.name, names, n=1)
    return Message("text.did_you_mean", {"path": path.parent / near[0]}) if near else attempt("ls", path.parent)


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


def chunks(path: str | Path, *, longest: int, block: int, tally: Tally | None = None) -> Iterator[Chunk]:
    """The lines of a file, many at a time; `tally` is that of `blocks`."""
    return cut(blocks(path, block, tally=tally), longest)


def cut(parts: Iterable[bytes], longest: int) -> Iterator[Chunk]:
    """Cut blocks at their last 0x0A.  What exceeds `longest` in an over-long line is skipped."""
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


def decode_if_clean(chunk: Chunk, longest: int) -> list[str] | None:
    """The lines of a chunk, or None if any of them has a fault."""
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


# ------------------------------------------------------------------------------------------ words


def display_name(path: str | Path) -> str:
    """A path as messages show it."""
    return "standard input" if str(path) == "-" else str(path)


def printable(text: str, longest: int = 60) -> str:
    """A text from a file as a message may repeat it: one line, no control characters, at most `longest` of it."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:longest])
    return line + "…" * (len(text) > longest)


def attempt(command: str, *paths: str | Path) -> Message:
    """A hint with the command line to try."""
    names = ["FILE" if str(path) == "-" else shlex.quote(str(path)) for path in paths]
    line = " ".join([command, *names])
    if "FILE" in names:
        return Message("text.try_after_saving", {"command": line})
    return Message("text.try", {"command": line})
