"""Text files, line by line: only byte 0x0A ends a line, and every error names a file, a line and a byte.

Contract: D1.  `str.splitlines()` and text-mode `open()` also split at CR, U+2028 and seven other characters, which
shifts one side of a parallel corpus against the other; so text files are read here, as bytes, and nowhere else.

Files    plain, .gz, .xz, .zst (several members in a row too); "-" is standard input, read as lines arrive
Memory   one block and one line, independent of the size of the file
Not here filtering (data/), subwords (vocabulary.py).  An empty line is a line and is yielded as "".

The generators open their files at the first `next`, so that is when a missing file is reported.
"""

import contextlib
import errno
import gzip
import hashlib
import itertools
import lzma
import os
import shlex
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from jumok.errors import DataError, DiskError, UsageError
from jumok.messages import Message
from jumok.stopping import NEVER
from jumok.text.faults import Finding, decode_lines
from jumok.text.files import (
    BLOCK,
    LONGEST,
    Tally,
    attempt,
    check_zstandard,
    chunks,
    display_name,
    explain_faults,
    must_be_file,
)
from jumok.text.tables import BadRow, Columns, Kind, Pair, has_header, is_columnar, kind_of, row_parser

__all__ = [
    "Finding", "digest", "hash_files", "is_table", "must_differ", "read_lines", "read_pairs", "read_table",
    "write_lines", "writing",
]  # fmt: skip


def read_lines(
    path: str | Path, *, longest: int = LONGEST, block: int = BLOCK, tally: Tally | None = None
) -> Iterator[str]:
    """Yield each line without its 0x0A and without one CR before it; `tally` counts and hashes the bytes of the file.

    A last line without 0x0A counts; a final 0x0A adds no empty line.  Stops with a DataError at the first fault; the
    lines before it have been yielded.
    """
    for chunk in chunks(path, longest=longest, block=block, tally=tally):
        yield from decode_lines(path, chunk, longest)


def read_pairs(source: str | Path, target: str | Path, *, longest: int = LONGEST) -> Iterator[Pair]:
    """Yield line n of both files together; an unequal number of lines is a DataError with both counts."""
    must_differ(source, target)
    return _read_in_step(source, target, longest)


def must_differ(source: str | Path, target: str | Path) -> None:
    """Refuse the same file as both sides, even under another name or as a link."""
    if (str(source) == "-") != (str(target) == "-"):
        return
    same = os.path.realpath(source) == os.path.realpath(target)
    if same or (os.path.isfile(source) and os.path.isfile(target) and os.path.samefile(source, target)):
        raise DataError(
            "text.same_file",
            source=display_name(source),
            target=display_name(target),
            copied="FILE" if str(source) == "-" else shlex.quote(str(source)),
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
    """The sha256 of the files' bytes as they are on disk; it depends on their order, not on their names.

    Of one file it is what `sha256sum` prints, of several the sha256 of their digests in a row.
    """
    return NEVER.finish(hash_files(paths))


def hash_files(paths: Sequence[str | Path]) -> Generator[int, None, str]:
    """`digest` in steps: yields the size of every block, returns the digest."""
    sums = []
    for path in paths:
        if str(path) == "-":
            raise UsageError("text.no_digest_of_standard_input")
        must_be_file(path)
        sums.append(hashlib.sha256())
        with explain_faults(path), open(path, "rb") as stream:
            while part := stream.read(1 << 24):
                sums[-1].update(part)
                yield len(part)
    return sums[0].hexdigest() if len(sums) == 1 else hashlib.sha256(b"".join(s.digest() for s in sums)).hexdigest()


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Write the lines, each ended by 0x0A, compressed by suffix; an interrupted call leaves no file.

    A line that could not be read back (with a line feed, a NUL or an unpaired surrogate in it) is a DataError.
    """
    with writing(path) as write:
        for line in lines:
            write(line)


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[Callable[[str], object]]:
    """A function that writes a line; the file gets its name when the block ends without an error."""
    if str(path) == "-":
        raise UsageError("text.output_is_standard_output")
    goal = Path(os.path.realpath(path))  # a link stays a link
    numbers = itertools.count(1)
    try:
        lasting = goal.is_file() or goal.is_dir() or not goal.exists()
        with _write_atomically(goal) if lasting else open(goal, "wb") as stream:  # a pipe or a device is written to
            yield lambda line: stream.write(encode(path, next(numbers), line))
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason, advice = error.strerror or error, attempt("df -h" if full else "ls -ld", goal.parent)
        raise DiskError("text.cannot_write", file=path, reason=reason, path=goal, advice=advice) from error


def _read_in_step(source: str | Path, target: str | Path, longest: int) -> Iterator[Pair]:
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
    longer = count + 1 + sum(1 for _ in (theirs if left is None else ours))
    raise unequal(source, target, (count, longer) if left is None else (longer, count))


def unequal(source: str | Path, target: str | Path, counts: tuple[int, int]) -> DataError:
    """The error for two files with different numbers of lines."""
    count = min(counts)
    ends, longer = (source, target) if counts[0] < counts[1] else (target, source)
    return DataError(
        "text.unequal_lines",
        source=display_name(source),
        source_lines=_count_lines(counts[0]),
        target=display_name(target),
        target_lines=_count_lines(counts[1]),
        shorter=display_name(ends),
        last=count,
        longer=display_name(longer),
        next=count + 1,
        advice=attempt("jumok data check", source, target),
    )


def _count_lines(count: int) -> Message:
    return Message("text.one_line") if count == 1 else Message("text.lines", {"count": count})


def _rows(path: str | Path, kind: Kind | None, columns: Columns | None, longest: int) -> Iterator[Pair]:
    header = has_header(path, columns, kind)
    parse = None if header else row_parser(path, kind, columns=columns)
    for chunk in chunks(path, longest=longest, block=BLOCK):
        for index, line in enumerate(decode_lines(path, chunk, longest)):
            if parse is None:
                parse = row_parser(path, kind, columns=columns, header=line)
                continue
            try:
                pair = parse(line)
            except BadRow as bad:
                number, offset, _ = next(itertools.islice(chunk.lines(), index, None))
                byte = offset + len(line[: bad.position].encode())
                hint = attempt("jumok data check", path)
                raise Finding(display_name(path), number, byte, bad.problem, hint).error() from None
            yield pair


def encode(path: str | Path, number: int, line: str) -> bytes:
    """A line as bytes for the file `path`; one that could not be read back is a DataError."""
    try:
        raw = line.encode("utf-8") + b"\n"
    except UnicodeEncodeError:
        raise DataError("text.surrogate_to_write", file=display_name(path), line=number) from None
    if "\n" in line:
        raise DataError("text.line_feed_to_write", file=display_name(path), line=number)
    if "\0" in line:
        raise DataError("text.nul_to_write", file=display_name(path), line=number)
    return raw


def encode_lines(path: str | Path, lines: Iterable[str]) -> Iterator[bytes]:
    """Lines as bytes for the file `path`."""
    return (encode(path, number, line) for number, line in enumerate(lines, start=1))


@contextlib.contextmanager
def _write_atomically(goal: Path) -> Iterator[Any]:
    """Write a temporary file in the same folder, flush and fsync it, rename it, fsync the folder."""
    draft = goal.with_name(f".{goal.name}.{os.getpid()}.tmp")
    try:
        with open(draft, "wb") as stream:
            with _compress(stream, goal.suffix.lower()) as packed:
                yield packed
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, goal)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(goal.parent)


def sync_folder(path: Path) -> None:
    """Flush the names in a folder to disk."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _compress(stream: IO[bytes], suffix: str) -> contextlib.AbstractContextManager[Any]:
    """A writer that compresses into `stream` by the suffix, or the stream; equal lines always give equal bytes."""
    if suffix == ".gz":
        return gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0)
    if suffix == ".xz":
        return lzma.open(stream, "wb")
    if suffix == ".zst":
        check_zstandard()
        import zstandard

        return zstandard.ZstdCompressor().stream_writer(stream, closefd=False)
    return contextlib.nullcontext(stream)
