"""Text files, line by line: only byte 0x0A ends a line, and every fault has a file, a line and a byte.

Contract: D1.  `str.splitlines()` and text-mode `open()` also split at CR, U+2028 and seven other characters, which
shifts one side of a parallel corpus against the other; so text files are read here, as bytes, and nowhere else.

Files    plain, .gz, .xz, .zst (several members in a row too); "-" is standard input, read as lines arrive
Memory   one block and one line, whatever the size of the file
Not here filtering (data/), subwords (vocabulary.py).  An empty line is a line and comes out as "".

The generators open their files at the first `next`, so that is when a missing file is reported.
"""

import contextlib
import errno
import gzip
import hashlib
import itertools
import lzma
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from jumok.errors import DataError, DiskError, UsageError
from jumok.stopping import NEVER
from jumok.text.files import (
    BLOCK,
    LONGEST,
    Finding,
    attempt,
    check_zstandard,
    chunks,
    decoded,
    faults_named,
    must_be_file,
    named,
)
from jumok.text.tables import BadRow, Columns, Kind, Pair, has_header, is_columnar, kind_of, row_parser

__all__ = [
    "Finding", "digest", "hash_files", "is_table", "must_differ", "read_lines", "read_pairs", "read_table",
    "write_lines", "writing",
]  # fmt: skip


def read_lines(path: str | Path, *, longest: int = LONGEST, block: int = BLOCK) -> Iterator[str]:
    """Yield each line without its 0x0A and without one CR before it.

    A last line without 0x0A counts; a final 0x0A adds no empty line.  Stops with a DataError at the first fault; the
    lines before it have been yielded.
    """
    for chunk in chunks(path, longest=longest, block=block):
        yield from decoded(path, chunk, longest)


def read_pairs(source: str | Path, target: str | Path, *, longest: int = LONGEST) -> Iterator[Pair]:
    """Yield line n of both files together; an unequal number of lines is a DataError that says both counts."""
    must_differ(source, target)
    return _in_step(source, target, longest)


def must_differ(source: str | Path, target: str | Path) -> None:
    """Refuse the same file as both sides, by whatever name or link."""
    if (str(source) == "-") != (str(target) == "-"):
        return
    same = os.path.realpath(source) == os.path.realpath(target)
    if same or (os.path.isfile(source) and os.path.isfile(target) and os.path.samefile(source, target)):
        raise DataError(
            f"{named(source)} is given as both source and target",
            where=f"source {named(source)}, target {named(target)}",
            hint="name two different files; to learn copying, give a copy: " + attempt("cp", source) + " COPY",
        )


def read_table(
    path: str | Path, *, kind: Kind | None = None, columns: Columns | None = None, longest: int = LONGEST
) -> Iterator[Pair]:
    """Yield (source, target) of each row of a .tsv, .jsonl, Parquet or Arrow file.

    `columns` names the two sides (see `tables.row_parser` and `columnar.find_columns`).  Without it, tsv: the first two
    columns.  jsonl: an object with source and target, or src and tgt, or a translation between two languages, whose
    order in the first row holds for the whole file.  A jsonl sentence may contain a line feed.
    """
    if kind is None and is_columnar(path):
        from jumok.text.columnar import read_columnar

        return read_columnar(path, columns, longest=longest)
    if not has_header(path, columns, kind):
        row_parser(path, kind, columns=columns)  # a wrong name or option is refused now, not at the first row
    return _rows(path, kind, columns, longest)


def is_table(path: str | Path) -> bool:
    """Whether the name says tsv, jsonl (compressed or not), Parquet or Arrow."""
    return kind_of(path) is not None or is_columnar(path)


def digest(paths: Sequence[str | Path]) -> str:
    """The sha256 of the files' bytes as they are on disk, whatever their names; the order counts.

    Of one file it is what `sha256sum` prints, of several the sha256 of those digests in a row.
    """
    return NEVER.finish(hash_files(paths))


def hash_files(paths: Sequence[str | Path]) -> Generator[None, None, str]:
    """The same in steps: yields after every block, returns the digest."""
    sums = []
    for path in paths:
        if str(path) == "-":
            raise UsageError(
                "standard input can be read only once, so it has no digest", hint="save it to a file first"
            )
        must_be_file(path)
        sums.append(hashlib.sha256())
        with faults_named(path), open(path, "rb") as stream:
            while part := stream.read(1 << 24):
                sums[-1].update(part)
                yield
    return sums[0].hexdigest() if len(sums) == 1 else hashlib.sha256(b"".join(s.digest() for s in sums)).hexdigest()


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Write the lines, each ended by 0x0A, so that the file is there whole or not at all; compressed by suffix.

    A line that could not be read back (with a line feed, a NUL or half a surrogate pair in it) is a DataError.
    """
    with writing(path) as write:
        for line in lines:
            write(line)


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[Callable[[str], object]]:
    """A function that writes a line; the file has its name when the block ends, whole, or not at all."""
    if str(path) == "-":
        raise UsageError("write_lines makes files", hint="print the lines to write them to standard output")
    goal = Path(os.path.realpath(path))  # a link stays a link
    numbers = itertools.count(1)
    try:
        lasting = goal.is_file() or goal.is_dir() or not goal.exists()
        with _replacing(goal) if lasting else open(goal, "wb") as stream:  # a pipe or a device is written to
            yield lambda line: stream.write(encode(path, next(numbers), line))
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = attempt("df -h" if full else "ls -ld", goal.parent)
        raise DiskError(f"cannot write {named(path)}: {error.strerror or error}", where=str(goal), hint=hint) from error


def _in_step(source: str | Path, target: str | Path, longest: int) -> Iterator[Pair]:
    ours, theirs = read_lines(source, longest=longest), read_lines(target, longest=longest)
    count = 0
    while True:
        left, right = next(ours, None), next(theirs, None)
        if left is None or right is None:
            break
        count += 1
        yield left, right
    if left is None and right is None:
        return
    whole = count + 1 + sum(1 for _ in (theirs if left is None else ours))
    raise unequal(source, target, (count, whole) if left is None else (whole, count))


def unequal(source: str | Path, target: str | Path, counts: tuple[int, int]) -> DataError:
    """The error for two files of which one has more lines than the other."""
    count = min(counts)
    ends, longer = (source, target) if counts[0] < counts[1] else (target, source)
    return DataError(
        f"{named(source)} has {_lines(counts[0])} but {named(target)} has {_lines(counts[1])}",
        where=f"{named(ends)} ends after line {count}; line {count + 1} of {named(longer)} has no partner",
        hint=attempt("jumok data check", source, target),
    )


def _lines(count: int) -> str:
    return f"{count:,} line" + "s" * (count != 1)


def _rows(path: str | Path, kind: Kind | None, columns: Columns | None, longest: int) -> Iterator[Pair]:
    header = has_header(path, columns, kind)
    parse = None if header else row_parser(path, kind, columns=columns)
    for chunk in chunks(path, longest=longest, block=BLOCK):
        for index, line in enumerate(decoded(path, chunk, longest)):
            if parse is None:
                parse = row_parser(path, kind, columns=columns, header=line)
                continue
            try:
                pair = parse(line)
            except BadRow as bad:
                number, offset, _ = next(place for i, place in enumerate(chunk.lines()) if i == index)
                byte = offset + len(line[: bad.position].encode())
                hint = attempt("jumok data check", path)
                raise Finding(named(path), number, byte, bad.problem, hint).error() from None
            yield pair


def encode(path: str | Path, number: int, line: str) -> bytes:
    """A line as bytes for the file `path`; one that could not be read back is a DataError."""
    fault = "a line feed" if "\n" in line else "a NUL" if "\0" in line else ""
    try:
        raw = line.encode("utf-8") + b"\n"
    except UnicodeEncodeError:
        fault = "half a surrogate pair"
    if fault:
        where = f"{named(path)}, line {number}"
        raise DataError(f"a line to write has {fault} in it", where=where, hint="this line was not written")
    return raw


def encoded(path: str | Path, lines: Iterable[str]) -> Iterator[bytes]:
    """Lines as bytes for the file `path`."""
    return (encode(path, number, line) for number, line in enumerate(lines, start=1))


@contextlib.contextmanager
def _replacing(goal: Path) -> Iterator[Any]:
    """Temporary file beside the goal, flush, fsync, rename, fsync of the folder."""
    draft = goal.with_name(f".{goal.name}.{os.getpid()}.tmp")
    try:
        with open(draft, "wb") as stream:
            with _packing(stream, goal.suffix.lower()) as packed:
                yield packed
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, goal)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(goal.parent)


def sync_folder(path: Path) -> None:
    """Have the names in a folder on disk."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _packing(stream: IO[bytes], suffix: str) -> contextlib.AbstractContextManager[Any]:
    """What packs into `stream` by the suffix, or itself; the same lines always give the same bytes."""
    if suffix == ".gz":
        return gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0)
    if suffix == ".xz":
        return lzma.open(stream, "wb")
    if suffix == ".zst":
        check_zstandard()
        import zstandard

        return zstandard.ZstdCompressor().stream_writer(stream, closefd=False)
    return contextlib.nullcontext(stream)
