"""The messages of an Arrow file or stream: where its record batches are and how many rows they have.

pyarrow reads a stream from its beginning to its end and counts the rows of a batch by reading it.  Several processes
that share a file need the batches' places instead, so the frames around them are read here: four bytes of 0xff, the
length of the metadata, the metadata (a flatbuffer), the body.  An Arrow *file* is such a stream between a magic
word and a footer.  Format: https://arrow.apache.org/docs/format/Columnar.html, "Serialization and IPC".

Every number in a file is checked against the size of the file before it is believed.
"""

import io
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from jumok.errors import DataError
from jumok.text.files import attempt, named

MAGIC = b"ARROW1"
CONTINUES = 0xFFFFFFFF
END = struct.pack("<Ii", CONTINUES, 0)
SCHEMA, DICTIONARY, BATCH = 1, 2, 3  # kinds of message
MOST_METADATA = 1 << 28  # bytes of metadata in one message


class Message(NamedTuple):
    """A message and the bytes where it starts and stops; `rows` is 0 unless it is a record batch."""

    kind: int
    rows: int
    start: int
    stop: int


def record_batches(path: str | Path) -> tuple[list[tuple[int, int, int]], list[tuple[int, int]]]:
    """Return (rows, start, stop) of every record batch and (start, stop) of every dictionary of a file."""
    batches, dictionaries = [], []
    with open(path, "rb") as stream:
        for message in messages(path, stream):
            if message.kind == BATCH:
                batches.append((message.rows, message.start, message.stop))
            elif message.kind == DICTIONARY:
                dictionaries.append((message.start, message.stop))
    return batches, dictionaries


def messages(path: str | Path, stream: BinaryIO) -> Iterator[Message]:
    """Yield the messages of a file or stream, the schema first; a file that was cut off is a DataError."""
    offset, end = _bounds(path, stream)
    if offset == end:
        raise _cut_off(path, offset)
    first = True
    while offset < end:
        found = _message(path, stream, offset, end)
        if found is None:
            return
        if first != (found.kind == SCHEMA):
            raise _broken(path, offset, "its schema is not its first message")
        yield found
        offset, first = found.stop, False


def splice(path: str | Path, ranges: Sequence[tuple[int, int]]) -> io.BufferedReader:
    """Open a stream made of a file's schema, the given byte ranges of it, and an end mark, as pyarrow can read it."""
    return io.BufferedReader(_Splice(path, ranges), 1 << 20)  # which reads on where a range ends


class _Splice(io.RawIOBase):
    """The bytes of `splice`."""

    def __init__(self, path: str | Path, ranges: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        self._file = open(path, "rb")  # noqa: SIM115 - closed by close()
        try:
            schema = next(messages(path, self._file))
        except BaseException:
            self._file.close()
            raise
        self._ranges = [(schema.start, schema.stop), *ranges]
        self._end = io.BytesIO(END)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while self._ranges:
            start, stop = self._ranges[0]
            wanted = min(len(buffer), stop - start)
            self._file.seek(start)
            read = self._file.readinto(buffer[:wanted]) if wanted else 0
            self._ranges[0] = (start + read, stop)
            if start + read >= stop or not read:
                self._ranges.pop(0)
            if read:
                return read
        return self._end.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


def _bounds(path: str | Path, stream: BinaryIO) -> tuple[int, int]:
    """Return where the messages begin and where they must have ended."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    begin = stream.read(8)
    if begin.startswith(b"FEA1"):
        raise DataError(
            f"{named(path)} is Feather version 1, which is not Arrow's format",
            where=named(path),
            hint="write it again with pyarrow.feather.write_feather(table, file, version=2)",
        )
    if not begin.startswith(MAGIC):
        return 0, size
    if size < 18:
        raise _cut_off(path, size)
    stream.seek(size - 10)
    footer, magic = struct.unpack("<i6s", stream.read(10))
    if magic != MAGIC or not 0 < footer <= size - 18:
        raise _cut_off(path, size)
    return 8, size - 10 - footer


def _message(path: str | Path, stream: BinaryIO, offset: int, end: int) -> Message | None:
    """Return the message at `offset`; None at the end mark."""
    stream.seek(offset)
    prefix = stream.read(8)
    if len(prefix) < 4 or (prefix[:4] == END[:4] and len(prefix) < 8):
        raise _cut_off(path, offset)
    mark, length = struct.unpack("<Ii", prefix.ljust(8, b"\0"))
    start = offset + 8
    if mark != CONTINUES:  # before Arrow 0.15 the length came first
        length, start = struct.unpack("<i", prefix[:4])[0], offset + 4
    if length == 0:
        return None
    if not 8 <= length <= MOST_METADATA:
        raise _broken(path, offset, "no message begins there")
    if start + length > end:
        raise _cut_off(path, offset)
    stream.seek(start)
    try:
        kind, body, rows = _parse(stream.read(length))
    except (struct.error, IndexError):
        raise _broken(path, offset, "a message cannot be read") from None
    if body < 0 or rows < 0:
        raise _broken(path, offset, "a message has a negative size")
    if start + length + body > end:
        raise _cut_off(path, offset)
    return Message(kind, rows, offset, start + length + body)


def _parse(metadata: bytes) -> tuple[int, int, int]:
    """Return kind, length of the body and number of rows of a message: three fields of a flatbuffer."""
    root = struct.unpack_from("<I", metadata)[0]
    kind = _field(metadata, root, 1, "<B")
    body = _field(metadata, root, 3, "<q")
    rows = 0
    if kind == BATCH and (place := _place(metadata, root, 2)):
        rows = _field(metadata, place + struct.unpack_from("<I", metadata, place)[0], 0, "<q")
    return kind, body, rows


def _field(metadata: bytes, table: int, number: int, form: str) -> int:
    """Return a number of a flatbuffer's table; 0, its default, where the table does not have it."""
    place = _place(metadata, table, number)
    return struct.unpack_from(form, metadata, place)[0] if place else 0


def _place(metadata: bytes, table: int, number: int) -> int:
    """Return where a field of a flatbuffer's table is; 0 if the table does not have it."""
    shape = table - struct.unpack_from("<i", metadata, table)[0]
    if shape < 0:
        raise IndexError
    if 4 + 2 * number >= struct.unpack_from("<H", metadata, shape)[0]:
        return 0
    offset = struct.unpack_from("<H", metadata, shape + 4 + 2 * number)[0]
    return table + offset if offset else 0


def _cut_off(path: str | Path, offset: int) -> DataError:
    hint = attempt("ls -l", path) + ", then fetch or make the file again"
    return DataError(f"{named(path)} is cut off before its end", where=f"{named(path)}, byte {offset}", hint=hint)


def _broken(path: str | Path, offset: int, reason: str) -> DataError:
    hint = attempt("ls -l", path) + ", then fetch or make the file again"
    return DataError(f"{named(path)} is not Arrow data: {reason}", where=f"{named(path)}, byte {offset}", hint=hint)
