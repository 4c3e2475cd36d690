"""Corpora in parts: consecutive pairs, bounded in number and bytes, that one worker takes at a time.

Files are read and unpacked once, in order, by one process, which only looks for line feeds; workers decode, check and
parse.  Where a part ends depends on the text only.  The files are hashed while they are read.
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
from jumok.text.tables import BadRow, Columns, has_header, is_unfinished, kind_of, row_parser

PAIRS = 1 << 16  # most pairs of a part
BYTES = 1 << 24  # bytes of both sides at which a part ends; the last pair may exceed them


@dataclass(frozen=True)
class Raw:
    """Lines of a file as raw bytes, with the number and offset of the first one, as in `files.Chunk`."""

    path: str
    number: int
    offset: int
    content: bytes

    def decode(self) -> str:
        """The lines as text, ended by line feeds; a fault is a DataError that names the line and the byte."""
        chunk = Chunk(self.number, self.offset, self.content)
        lines = files.decode_if_clean(chunk, LONGEST)
        return "".join(
            f"{line}\n" for line in (faults.decode_lines(self.path, chunk, LONGEST) if lines is None else lines)
        )

    def fault(self) -> int | None:
        """The number of the first line that cannot be read, if there is one."""
        chunk = Chunk(self.number, self.offset, self.content)
        if files.decode_if_clean(chunk, LONGEST) is not None:
            return None
        findings = (faults.find_fault(self.path, *line, LONGEST) for line in chunk.lines())
        return next((finding.line for finding in findings if finding is not None), None)


@dataclass
class Stream:
    """The lines of a file, any number at a time; the file is hashed while it is read.

    The last line of a jsonl file that ends within an object is left out: whoever appended it was interrupted.
    """

    path: str
    number: int = 1
    offset: int = 0
    unfinished: int = 0  # lines that were left out
    tally: files.Tally = field(default_factory=files.Tally)
    _buffer: bytes = b""
    _ends: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))  # ends of the lines in the buffer
    _finished: bool = False

    def __post_init__(self) -> None:
        files.must_be_file(self.path)
        self._blocks = files.blocks(self.path, BLOCK, tally=self.tally)

    def ends(self) -> np.ndarray:
        """The ends of the buffered lines, in bytes from the start of the buffer; empty at the end of the file."""
        while not len(self._ends) and not self._finished:
            block = next(self._blocks, None)
            if block is None:
                self._finished = True
                if self._buffer and kind_of(self.path) == "jsonl" and is_unfinished(self._buffer):
                    self._buffer, self.unfinished = b"", 1
                if self._buffer:  # the last line has no line feed
                    self._buffer += b"\n"
                    self._ends = np.array([len(self._buffer)])
                continue
            self._ends = np.flatnonzero(np.frombuffer(block, np.uint8) == 10) + (1 + len(self._buffer))
            self._buffer += block
            if not len(self._ends) and len(self._buffer) > LONGEST + 1:
                raise self._too_long()
        return self._ends

    def take(self, count: int) -> bytes:
        """The next `count` lines, which must be in the buffer."""
        size = int(self._ends[count - 1])
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        self._ends = self._ends[count:] - size
        self.number += count
        self.offset += size
        return taken

    def count_rest(self) -> int:
        """The number of remaining lines, which are skipped."""
        count = 0
        while waiting := len(self.ends()):
            self.take(waiting)
            count += waiting
        return count

    def _too_long(self) -> DataError:
        finding = faults.find_fault(self.path, self.number, self.offset, self._buffer, LONGEST)
        assert finding is not None
        return finding.error()


def read_together(streams: list[Stream]) -> Iterator[list[Raw]]:
    """Parts of one file, or of two parallel files; a different number of lines is a DataError with both counts."""
    taken: list[list[bytes]] = [[] for _ in streams]
    starts = [(stream.number, stream.offset) for stream in streams]
    pairs, size = 0, 0
    while all(len(stream.ends()) for stream in streams):
        count = min(len(stream.ends()) for stream in streams)
        total = np.sum([stream.ends()[:count] for stream in streams], axis=0)
        count = min(count, PAIRS - pairs, int(np.searchsorted(total, BYTES - size)) + 1)
        for stream, contents in zip(streams, taken, strict=True):
            contents.append(stream.take(count))
        pairs, size = pairs + count, size + int(total[count - 1])
        if pairs == PAIRS or size >= BYTES:
            yield _make_part(streams, starts, taken)
            taken, starts = [[] for _ in streams], [(stream.number, stream.offset) for stream in streams]
            pairs, size = 0, 0
    if pairs:
        yield _make_part(streams, starts, taken)
    if len(streams) == 2 and any(len(stream.ends()) for stream in streams):
        raise _unequal(*streams)


def _make_part(streams: list[Stream], starts: list[tuple[int, int]], taken: list[list[bytes]]) -> list[Raw]:
    sides = zip(streams, starts, taken, strict=True)
    return [Raw(stream.path, *start, b"".join(contents)) for stream, start, contents in sides]


def _unequal(source: Stream, target: Stream) -> DataError:
    count = source.number - 1
    totals = [count + stream.count_rest() for stream in (source, target)]
    return lines.unequal(source.path, target.path, (totals[0], totals[1]))


def parse_table(raw: Raw, first: str, columns: Columns | None) -> tuple[str, str]:
    """Both sides of the rows of a .tsv or .jsonl file.

    `first` is its first line: a header, or a row that may give the languages of the others.
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
    """The first line of a file; "" if it has none or cannot be read, which is reported when the file is read."""
    try:
        return next(lines.read_lines(path), "")
    except DataError:
        return ""


def join_lines(texts: Iterable[str]) -> str:
    """Texts as lines; line breaks inside them become BREAK."""
    return "".join(f"{text.replace(chr(10), BREAK)}\n" for text in texts)


def batched(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, int]]:
    """Parts of pairs that come from no file: both sides as lines, and the number of pairs."""
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
    """The bytes of the files, by which progress is measured."""
    return sum(Path(path).stat().st_size for path in paths)
