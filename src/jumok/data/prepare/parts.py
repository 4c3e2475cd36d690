"""Corpora cut into parts: stretches of pairs, bounded in number and bytes, that one worker takes at a time.

Files are read and unpacked once, in order, by one process, which only looks for line feeds; workers decode, check and
parse.  Where a part ends depends on the text alone.  Digests of the files are made of the same bytes on the way.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from jumok.data.prepare.sift import BREAK
from jumok.errors import DataError
from jumok.text import faults, files, lines
from jumok.text.files import BLOCK, LONGEST, Chunk, attempt, display_name
from jumok.text.tables import BadRow, Columns, has_header, row_parser

PAIRS = 1 << 16  # of a part, at most
BYTES = 1 << 24  # of a part, over both sides; the last pair may go beyond


@dataclass(frozen=True)
class Raw:
    """Whole lines of a file as they were read: `number` and `offset` of the first, as in `files.Chunk`."""

    path: str
    number: int
    offset: int
    content: bytes

    def decode(self) -> str:
        """The lines as text, ended by line feeds; a fault is a DataError that names the line and the byte."""
        chunk = Chunk(self.number, self.offset, self.content)
        found = files.decode_if_clean(chunk, LONGEST)
        return "".join(
            f"{line}\n" for line in (faults.decode_lines(self.path, chunk, LONGEST) if found is None else found)
        )

    def fault(self) -> int | None:
        """The number of the first line that cannot be read, if there is one."""
        chunk = Chunk(self.number, self.offset, self.content)
        if files.decode_if_clean(chunk, LONGEST) is not None:
            return None
        found = (faults.find_fault(self.path, *line, LONGEST) for line in chunk.lines())
        return next((one.line for one in found if one is not None), None)


@dataclass
class Stream:
    """A file as whole lines, any number at a time, hashed on the way."""

    path: str
    number: int = 1
    offset: int = 0
    tally: files.Tally = field(default_factory=files.Tally)
    _buffer: bytes = b""
    _ends: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))  # where lines end in the buffer
    _over: bool = False

    def __post_init__(self) -> None:
        files.must_be_file(self.path)
        self._blocks = files.blocks(self.path, BLOCK, tally=self.tally)

    def ends(self) -> np.ndarray:
        """Where the whole lines that wait end, in bytes from where the stream stands; empty at the end of the file."""
        while not len(self._ends) and not self._over:
            block = next(self._blocks, None)
            if block is None:
                self._over = True
                if self._buffer:  # the last line has no line feed
                    self._buffer += b"\n"
                    self._ends = np.array([len(self._buffer)])
                continue
            found = np.flatnonzero(np.frombuffer(block, np.uint8) == 10) + (1 + len(self._buffer))
            self._buffer += block
            self._ends = found
            if not len(found) and len(self._buffer) > LONGEST + 1:
                raise self._too_long()
        return self._ends

    def take(self, count: int) -> bytes:
        """The next `count` lines, which must be waiting."""
        size = int(self._ends[count - 1])
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        self._ends = self._ends[count:] - size
        self.number += count
        self.offset += size
        return taken

    def count_rest(self) -> int:
        """How many lines are left; they are read over."""
        count = 0
        while waiting := len(self.ends()):
            self.take(waiting)
            count += waiting
        return count

    def _too_long(self) -> DataError:
        found = faults.find_fault(self.path, self.number, self.offset, self._buffer, LONGEST)
        assert found is not None
        return found.error()


def read_together(streams: list[Stream]) -> Iterator[list[Raw]]:
    """Parts of one file, or of two that go line by line; an unequal number of lines is a DataError with both counts."""
    taken: list[list[bytes]] = [[] for _ in streams]
    starts = [(stream.number, stream.offset) for stream in streams]
    pairs, size = 0, 0
    while all(len(stream.ends()) for stream in streams):
        count = min(len(stream.ends()) for stream in streams)
        total = np.sum([stream.ends()[:count] for stream in streams], axis=0)
        count = min(count, PAIRS - pairs, int(np.searchsorted(total, BYTES - size)) + 1)
        for stream, mine in zip(streams, taken, strict=True):
            mine.append(stream.take(count))
        pairs, size = pairs + count, size + int(total[count - 1])
        if pairs == PAIRS or size >= BYTES:
            yield [_raw(*one) for one in zip(streams, starts, taken, strict=True)]
            taken, starts = [[] for _ in streams], [(stream.number, stream.offset) for stream in streams]
            pairs, size = 0, 0
    if pairs:
        yield [_raw(*one) for one in zip(streams, starts, taken, strict=True)]
    if len(streams) == 2 and any(len(stream.ends()) for stream in streams):
        raise _unequal(*streams)


def _raw(stream: Stream, start: tuple[int, int], taken: list[bytes]) -> Raw:
    return Raw(stream.path, *start, b"".join(taken))


def _unequal(source: Stream, target: Stream) -> DataError:
    count = source.number - 1
    wholes = [count + stream.count_rest() for stream in (source, target)]
    return lines.unequal(source.path, target.path, (wholes[0], wholes[1]))


def parse_table(raw: Raw, first: str, columns: Columns | None) -> tuple[str, str]:
    """Both sides of the rows of a .tsv or .jsonl file.

    `first` is its first line: a header, or a row that may tell which languages the others have.
    """
    header = has_header(raw.path, columns)
    parse = row_parser(raw.path, columns=columns, header=first)
    if first and not header:
        parse(first)
    sources, targets = [], []
    text = raw.decode()
    for index, line in enumerate(text[:-1].split("\n")):
        if header and index == 0 and raw.number == 1:
            continue
        try:
            source, target = parse(line)
        except BadRow as bad:
            chunk = Chunk(raw.number, raw.offset, raw.content)
            number, offset, _ = next(islice(chunk.lines(), index, None))
            byte = offset + len(line[: bad.position].encode())
            hint = attempt("jumok data check", raw.path)
            raise faults.Finding(display_name(raw.path), number, byte, bad.problem, hint).error() from None
        sources.append(source)
        targets.append(target)
    return join_lines(sources), join_lines(targets)


def first_line(path: str) -> str:
    """The first line of a file; "" if it has none or cannot be read, which whoever reads the file reports."""
    try:
        return next(lines.read_lines(path), "")
    except DataError:
        return ""


def join_lines(texts: Iterable[str]) -> str:
    """Texts as lines; line breaks inside them are kept as BREAK."""
    return "".join(f"{text.replace(chr(10), BREAK)}\n" for text in texts)


def batched(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, int]]:
    """Parts of pairs that are not in a file: both sides as lines, and their number."""
    sources, targets, size = list[str](), list[str](), 0
    for source, target in pairs:
        sources.append(source)
        targets.append(target)
        size += len(source) + len(target)
        if len(sources) == PAIRS or size >= BYTES:
            yield join_lines(sources), join_lines(targets), len(sources)
            sources, targets, size = [], [], 0
    if sources:
        yield join_lines(sources), join_lines(targets), len(sources)


def size_on_disk(paths: Iterable[str]) -> int:
    """Bytes of the files, to know how far a reader is."""
    return sum(Path(path).stat().st_size for path in paths)
