"""Corpora: sentence pairs that can be read any number of times, from text files or from anything that yields pairs.

The digest of a corpus changes when any of its pairs does.  Which pairs are held out for validation is decided here;
whether a pair is fit for training is decided in prepare/ and store.py.

Not here: corpora that jumok generates (generated.py), and the corpora that a recipe names (resolve.py).
"""

import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from jumok.config.sections import DataConfig
from jumok.data import passages
from jumok.errors import DataError, UsageError
from jumok.text.files import Tally, explain_faults
from jumok.text.lines import digest as digest_files
from jumok.text.lines import is_table, read_lines, read_pairs, read_table
from jumok.text.tables import Columns, has_header, is_columnar, row_parser

T = TypeVar("T")


class Pair(NamedTuple):
    """A sentence, its translation, and the number of their line, from 1."""

    source: str
    target: str
    line: int


class Tail:
    """The end of a text, which is held out for validation; the text is read once to find its start, and hashed.

    `watch` gets the lines whenever the text is read, and returns them: it may report progress, or stop.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.watch: Callable[[Iterator[str]], Iterator[str]] = lambda lines: lines
        self.count = 0  # lines of the text, once it was read
        self.read = 0  # bytes of the file that were read when the tail was looked for
        self._start: int | None = None
        self._hashed: tuple[str, tuple[int, int]] | None = None  # digest, and the size and time of that file

    def lines(self) -> Iterator[str]:
        """The lines of the text, watched."""
        return self.watch(read_lines(self.path))

    def find_start(self) -> int:
        """The number of lines before the tail."""
        if self._start is None:
            tally, before = Tally(), _identify(self.path)
            self._start = passages.count_head(self.watch(self._tell(read_lines(self.path, tally=tally), tally)))
            self._hashed = tally.digest.hexdigest(), before
        return self._start

    def _tell(self, lines: Iterator[str], tally: Tally) -> Iterator[str]:
        """The same lines, counted."""
        for self.count, line in enumerate(lines, start=1):
            self.read = tally.size
            yield line

    def find_digest(self) -> str | None:
        """The sha256 of the file if it was read and has not changed since."""
        known = self._hashed
        return known[0] if known is not None and known[1] == _identify(self.path) else None

    def read_past(self, read: Callable[[], T]) -> T:
        """The result of `read` as if the text had no tail, whose start is not looked for."""
        known, self._start = self._start, sys.maxsize
        try:
            return read()
        finally:
            self._start = known


def _identify(path: str) -> tuple[int, int]:
    """The size and the time of a file."""
    with explain_faults(path):
        status = os.stat(path)
    return status.st_size, status.st_mtime_ns


@dataclass(frozen=True)
class Corpus:
    """Pairs that can be read any number of times; `digest` changes when any of them does."""

    name: str
    read: Callable[[], Iterator[tuple[str, str]]]
    identity: str | Callable[[str], str] = ""  # replaces the digest of the files, or is computed from it
    inputs: tuple[tuple[str, ...], ...] = ()  # its files: each entry is a table, or two parallel files
    is_text: bool = False  # segments of one text instead of sentences; a segment has no end symbol
    share: float | None = None  # its share of training, among several corpora
    columns: Columns | None = None  # source and target column of its tables
    addresses: tuple[tuple[str, str], ...] = ()  # files that must be fetched first, each with its address
    tail: Tail | None = None  # the end of a text that is split into training and validation text

    @cached_property
    def files(self) -> list[str]:
        return [path for paths in self.inputs for path in paths]

    @cached_property
    def digest(self) -> str:
        """A hash of everything that can be read from the corpus; its files are read to compute it."""
        return self.digest_with(digest_files(self.files) if self.inputs else "")

    def digest_with(self, files: str) -> str:
        """The digest of the corpus, given the digest of its files."""
        return self.identity(files) if callable(self.identity) else files or self.identity

    def __iter__(self) -> Iterator[Pair]:
        for line, (source, target) in enumerate(self.read(), start=1):
            yield Pair(source, target, line)


def from_files(source: str | Path, target: str | Path) -> Corpus:
    """A corpus of two files; line i of one is the translation of line i of the other."""
    return from_inputs(f"{source} + {target}", [(str(source), str(target))])


def from_table(path: str | Path, *, columns: Columns | None = None) -> Corpus:
    """A corpus of one table with both sides: .tsv, .jsonl, Parquet or Arrow."""
    return from_inputs(str(path), [(str(path),)], columns=columns)


def from_inputs(
    name: str,
    inputs: Sequence[tuple[str, ...]],
    *,
    columns: Columns | None = None,
    addresses: Sequence[tuple[str, str]] = (),
) -> Corpus:
    """Several files as one corpus: tables, and pairs of parallel files."""
    for paths in inputs:
        if len(paths) == 1 and not is_columnar(paths[0]) and not has_header(paths[0], columns):
            row_parser(paths[0], columns=columns)  # raises at once if the name does not say what kind of table it is

    def read() -> Iterator[tuple[str, str]]:
        for paths in inputs:
            yield from read_pairs(*paths) if len(paths) == 2 else read_table(paths[0], columns=columns)

    return Corpus(name, read, inputs=tuple(inputs), columns=columns, addresses=tuple(addresses))


def from_text(
    path: str | Path,
    data: DataConfig,
    *,
    part: Callable[[], slice] = lambda: slice(None),
    tail: Tail | None = None,
) -> Corpus:
    """A text for a language model, or the lines `part` of it, in segments."""

    def read() -> Iterator[tuple[str, str]]:
        lines = read_lines(path) if tail is None else tail.lines()
        return passages.read(lines, data.stretch, in_halves=data.halves, part=part())

    def identity(files: str) -> str:
        return hash_values(files, data.stretch, data.halves, part().start, part().stop)

    return Corpus(str(path), read, identity, ((str(path),),), is_text=True, tail=tail)


def from_paths(paths: list[str]) -> Corpus:
    """A corpus of one table or of two parallel files, by their number and names."""
    if len(paths) == 1 and is_table(paths[0]):
        return from_table(paths[0])
    if len(paths) == 2:
        return from_files(paths[0], paths[1])
    raise UsageError("data.not_a_corpus", files=", ".join(paths))


def hash_values(*values: object) -> str:
    """The identity of a corpus that these values describe completely."""
    return hashlib.sha256(":".join(map(str, values)).encode()).hexdigest()


def is_held_out(source: str, share: float) -> bool:
    """Whether a pair is held out for validation: its source sentence alone decides, so duplicates stay together."""
    digest = hashlib.blake2b(" ".join(source.lower().split()).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64


def read_sentences(path: str, *, columns: Columns | None = None) -> Iterator[list[str]]:
    """The sentences of a text, or of both sides of a table, whose `columns` these are, thousands at a time."""
    pairs = read_table(path, columns=columns) if is_table(path) else ()
    texts = (text for pair in pairs for text in pair) if is_table(path) else read_lines(path)
    while chunk := list(islice(texts, 8_192)):
        yield chunk


def read_test_set(source: str | None, target: str | None, table: str | None) -> list[Pair]:
    """All pairs of a test set, which must not be empty; it is read once, so one side may be standard input."""
    if table and (source or target):
        raise UsageError("data.two_test_sets")
    if table:
        rows, name = read_table(table), table
    else:
        files = require_both(source, target, "source", "target")
        rows, name = read_pairs(*files), " + ".join(files)
    pairs = [Pair(*texts, line) for line, texts in enumerate(rows, start=1)]
    if not pairs:
        raise DataError("data.empty_test_set", files=name)
    return pairs


def require_both(source: str | None, target: str | None, first: str, second: str) -> tuple[str, str]:
    """Both files, or a `UsageError` that names the missing option, `first` or `second`."""
    if source and target:
        return source, target
    missing, given = (second, source) if source else (first, target)
    if given:
        raise UsageError("data.partner_missing", option=missing, file=given)
    raise UsageError("data.side_missing", option=missing)
