"""The messages of an Arrow file or stream: where its record batches are and how many rows they have.

pyarrow reads a stream from its beginning to its end and counts the rows of a batch by reading it.  Several processes
that share a file need the positions of the batches instead, so the frames around them are read here: four bytes of
0xff, the length of the metadata, the metadata (a flatbuffer), the body.  An Arrow *file* is such a stream between a
magic word and a footer.  Format: https://arrow.apache.org/docs/format/Columnar.html, "Serialization and IPC".

Every number in a file is checked against the size of the file before it is used.
"""

import io
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from jumok.errors import DataError
from jumok.messages import Message
from jumok.text.files import attempt, display_name

MAGIC = b"ARROW1"
CONTINUES = 0xFFFFFFFF
END = struct.pack("<Ii", CONTINUES, 0)
SCHEMA, DICTIONARY, BATCH = 1, 2, 3  # kinds of message
MAX_METADATA = 1 << 28  # most bytes of metadata in a message


class ArrowMessage(NamedTuple):
    """A message and the bytes where it starts and stops; `rows` is 0 unless it is a record batch."""

    kind: int
    rows: int
    start: int
    stop: int


def record_batches(path: str | Path) -> tuple[list[tuple[int, int, int]], list[tuple[int, int]]]:
    """(rows, start, stop) of every record batch and (start, stop) of every dictionary of a file."""
    batches, dictionaries = [], []
    with open(path, "rb") as stream:
        for message in read_messages(path, stream):
            if message.kind == BATCH:
                batches.append((message.rows, message.start, message.stop))
            elif message.kind == DICTIONARY:
                dictionaries.append((message.start, message.stop))
    return batches, dictionaries


def read_messages(path: str | Path, stream: BinaryIO) -> Iterator[ArrowMessage]:
    """Yield the messages of a file or stream, the schema first; a file that was cut off is a DataError."""
    offset, end = _bounds(path, stream)
    if offset == end:
        raise _cut_off(path, offset)
    first = True
    while offset < end:
        message = _read_message(path, stream, offset, end)
        if message is None:
            return
        if first != (message.kind == SCHEMA):
            raise _corrupt(path, offset, Message("text.arrow_schema_not_first"))
        yield message
        offset, first = message.stop, False


def splice(path: str | Path, ranges: Sequence[tuple[int, int]]) -> io.BufferedReader:
    """A stream that pyarrow can read: the schema of a file, the given byte ranges of it, and an end mark."""
    return io.BufferedReader(_Splice(path, ranges), 1 << 20)  # which reads on where a range ends


class _Splice(io.RawIOBase):
    """The bytes of `splice`."""

    def __init__(self, path: str | Path, ranges: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        self._file = open(path, "rb")  # noqa: SIM115 - closed by close()
        try:
            schema = next(read_messages(path, self._file))
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
    """The bytes where the messages begin and where they must have ended."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    begin = stream.read(8)
    if begin.startswith(b"FEA1"):
        raise DataError("text.feather_version_1", file=display_name(path))
    if not begin.startswith(MAGIC):
        return 0, size
    if size < 18:
        raise _cut_off(path, size)
    stream.seek(size - 10)
    footer, magic = struct.unpack("<i6s", stream.read(10))
    if magic != MAGIC or not 0 < footer <= size - 18:
        raise _cut_off(path, size)
    return 8, size - 10 - footer


def _read_message(path: str | Path, stream: BinaryIO, offset: int, end: int) -> ArrowMessage | None:
    """The message at `offset`; None at the end mark."""
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
    if not 8 <= length <= MAX_METADATA:
        raise _corrupt(path, offset, Message("text.arrow_no_message"))
    if start + length > end:
        raise _cut_off(path, offset)
    stream.seek(start)
    try:
        kind, body, rows = _parse(stream.read(length))
    except (struct.error, IndexError):
        raise _corrupt(path, offset, Message("text.arrow_unreadable_message")) from None
    if body < 0 or rows < 0:
        raise _corrupt(path, offset, Message("text.arrow_negative_size"))
    if start + length + body > end:
        raise _cut_off(path, offset)
    return ArrowMessage(kind, rows, offset, start + length + body)


def _parse(metadata: bytes) -> tuple[int, int, int]:
    """Kind, length of the body and number of rows of a message: three fields of a flatbuffer."""
    root = struct.unpack_from("<I", metadata)[0]
    kind = _read_field(metadata, root, 1, "<B")
    body = _read_field(metadata, root, 3, "<q")
    rows = 0
    if kind == BATCH and (batch := _find_field(metadata, root, 2)):
        rows = _read_field(metadata, batch + struct.unpack_from("<I", metadata, batch)[0], 0, "<q")
    return kind, body, rows


def _read_field(metadata: bytes, table: int, number: int, form: str) -> int:
    """A number in a table of a flatbuffer; 0, its default, where the table does not have it."""
    offset = _find_field(metadata, table, number)
    return struct.unpack_from(form, metadata, offset)[0] if offset else 0


def _find_field(metadata: bytes, table: int, number: int) -> int:
    """The byte where a field of a flatbuffer's table begins; 0 if the table does not have it."""
    shape = table - struct.unpack_from("<i", metadata, table)[0]
    if shape < 0:
        raise IndexError
    if 4 + 2 * number >= struct.unpack_from("<H", metadata, shape)[0]:
        return 0
    offset = struct.unpack_from("<H", metadata, shape + 4 + 2 * number)[0]
    return table + offset if offset else 0


def _cut_off(path: str | Path, offset: int) -> DataError:
    return DataError("text.arrow_cut_off", file=display_name(path), byte=offset, advice=attempt("ls -l", path))


def _corrupt(path: str | Path, offset: int, problem: Message) -> DataError:
    file, advice = display_name(path), attempt("ls -l", path)
    return DataError("text.arrow_corrupt", file=file, problem=problem, byte=offset, advice=advice)
