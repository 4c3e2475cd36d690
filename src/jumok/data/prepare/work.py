"""The work of the workers of a preparation: read a part of the text, encode a part of the clean text.

The result is a handful of files with a common number; their sizes and checksums are written last, to a small JSON file,
so that a part is complete or absent.  A result depends on the arguments and files only, not on the worker or the order.
"""

import json
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from jumok.data.prepare import parts
from jumok.data.prepare.crew import Buffers, Values, Work, serve
from jumok.data.prepare.parts import Raw
from jumok.data.prepare.sift import BREAK, REASONS, ExaminedSide, Rules, hold_out_digests, mix_pair, sift
from jumok.data.store import Filters
from jumok.errors import DataError, DiskError
from jumok.text.tables import Columns
from jumok.text.vocabulary import Vocabularies, Vocabulary

LINES = 1 << 13  # most pairs sifted or encoded at a time
CHARACTERS = 1 << 20  # characters of both sides at which such a block ends; its last pair may exceed them
ROW = np.dtype(
    [("row", "<u4"), ("near", "<u8"), ("exact", "<u4"), ("characters", "<u4"), ("scripts", "u1", (2,))]
)  # properties of a pair that passed the rules for single pairs
DROPPED = np.dtype([("row", "<u4"), ("reason", "u1")])
HELD = np.dtype([("index", "<u4"), ("digest", "<u8")])  # index among the pairs that passed, hash of the source
PARTS, SHARDS, VERDICTS, EXCLUDED = "parts", "shards", "verdicts", "excluded"


# ------------------------------------------------------------------ files that are complete or absent


def write_part(folder: Path, number: int, contents: dict[str, bytes], summary: Values) -> None:
    """Write files NUMBER.name, then NUMBER.json with the summary, sizes and checksums, by a rename."""
    files = {}
    try:
        for name, content in contents.items():
            (folder / f"{number:06d}.{name}").write_bytes(content)
            files[name] = [len(content), zlib.crc32(content)]
        draft = folder / f"{number:06d}.json.writing"
        draft.write_text(json.dumps({**summary, "files": files}))
        draft.replace(folder / f"{number:06d}.json")
    except OSError as error:
        raise DiskError("data.cannot_write_prepared", reason=error.strerror, folder=folder) from None


def read_part(folder: Path, number: int, *, verify: bool = False) -> Values | None:
    """The summary of a part, or None if the part is incomplete; `verify` reads and compares all of its bytes."""
    try:
        summary: Values = json.loads((folder / f"{number:06d}.json").read_bytes())
        for name, (size, checksum) in summary["files"].items():
            path = folder / f"{number:06d}.{name}"
            if path.stat().st_size != size or (verify and zlib.crc32(path.read_bytes()) != checksum):
                return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return summary


def load(folder: Path, number: int, name: str, dtype: Any) -> np.ndarray:
    """An array of a part, memory-mapped."""
    path = folder / f"{number:06d}.{name}"
    return np.memmap(path, dtype, mode="r") if path.stat().st_size else np.empty(0, dtype)


# ------------------------------------------------------------------ text to clean text


def read_pairs(*contents: bytes, origins: list[Any], **more: Any) -> tuple[Values, Buffers]:
    """Read a part of two parallel files; `origins` are path, line and byte of each side."""
    sides = [Raw(path, line, byte, content) for (path, line, byte), content in zip(origins, contents, strict=True)]
    try:
        source, target = (side.decode() for side in sides)
    except DataError:
        first, second = (side.fault() for side in sides)
        if first is not None and second is not None and second < first:
            sides[1].decode()  # raises the fault of the earlier line
        raise
    return _read(source, target, **more)


def read_rows(
    content: bytes, *, origins: list[Any], first: str, columns: list[str] | None, **more: Any
) -> tuple[Values, Buffers]:
    """Read a part of a table."""
    path, line, byte = origins[0]
    return _read(*parts.parse_table(Raw(path, line, byte, content), first, _as_columns(columns)), **more)


def read_unit(*, path: str, unit: Values, columns: list[str] | None, **more: Any) -> tuple[Values, Buffers]:
    """Read a part of a Parquet or Arrow file."""
    from jumok.text.columnar import Unit, read_slices

    dictionaries = tuple((int(start), int(stop)) for start, stop in unit["dictionaries"])
    slices = read_slices(path, Unit(**{**unit, "dictionaries": dictionaries}), _as_columns(columns))
    sides = [(parts.join_lines(source), parts.join_lines(target)) for source, target in slices]
    return _read("".join(source for source, _ in sides), "".join(target for _, target in sides), **more)


def _as_columns(names: list[str] | None) -> Columns | None:
    return None if names is None else (names[0], names[1])


def read_texts(*contents: bytes, **more: Any) -> tuple[Values, Buffers]:
    """Read a part of a corpus that has no files."""
    return _read(*(content.decode() for content in contents), **more)


def divide(*sides: Sequence[str]) -> Iterator[slice]:
    """Slices of these lines that are sifted or encoded together, so that long lines need no more memory than short."""
    ends = np.cumsum(np.sum([np.fromiter(map(len, side), np.int64, len(side)) for side in sides], axis=0))
    start, before = 0, 0
    while start < len(ends):
        stop = min(start + LINES, int(np.searchsorted(ends, before + CHARACTERS)) + 1, len(ends))
        yield slice(start, stop)
        start, before = stop, int(ends[stop - 1])


def _read(source: str, target: str, *, folder: str, number: int, rules: Values, share: float) -> tuple[Values, Buffers]:
    """Sift a part and write the clean text; with a `share`, list the pairs that may be held out for validation."""
    sources, targets = source.split("\n")[:-1], target.split("\n")[:-1]
    chosen, known = Rules(**rules), _load_excluded(folder)
    rows, dropped, held, texts, count = [], [], [], ([], []), 0  # type: ignore[var-annotated]
    for lines in divide(sources, targets):
        start = lines.start
        ours, theirs = ("\n".join([*side[lines], ""]) for side in (sources, targets))
        block = sift(ours, theirs, chosen, known)
        row = np.empty(len(block.rows), ROW)
        row["row"], row["near"], row["exact"] = block.rows + start, block.near, block.exact
        row["characters"], row["scripts"] = block.characters, block.scripts
        bad = np.flatnonzero(block.reasons)
        drop = np.empty(len(bad), DROPPED)
        drop["row"], drop["reason"] = bad + start, block.reasons[bad]
        if share:
            digests = hold_out_digests(block.source.decode().split("\n")[:-1])
            low = np.flatnonzero(digests < np.uint64(min(share, 0.999999) * 2**64))
            candidates = np.empty(len(low), HELD)
            candidates["index"], candidates["digest"] = low + count, digests[low]
            held.append(candidates)
        count += len(block.rows)
        rows.append(row)
        dropped.append(drop)
        texts[0].append(block.source)
        texts[1].append(block.target)
    every = np.concatenate([np.empty(0, DROPPED), *dropped])
    codes = np.bincount(every["reason"], minlength=len(REASONS)).tolist()
    summary: Values = {"pairs": len(sources), "kept": count}
    summary["left_out"] = {REASONS[code]: number for code, number in enumerate(codes) if number}
    contents = {
        "source": b"".join(texts[0]),
        "target": b"".join(texts[1]),
        "rows": b"".join(row.tobytes() for row in rows),
        "dropped": every.tobytes(),
        "held": b"".join(candidates.tobytes() for candidates in held),
    }
    write_part(Path(folder) / PARTS, number, contents, summary)
    return summary, ()


@lru_cache(maxsize=1)
def _excluded_arrays(folder: str, stamp: int) -> tuple[np.ndarray, np.ndarray]:
    both, either = (np.fromfile(Path(folder) / f"{EXCLUDED}.{name}", np.uint64) for name in ("pairs", "sides"))
    return both, either


def _load_excluded(folder: str) -> Any:
    """A function that finds pairs of files that must not be trained on; None if there are no such files."""
    path = Path(folder) / f"{EXCLUDED}.sides"
    if not path.exists():
        return None
    both, either = _excluded_arrays(folder, path.stat().st_mtime_ns)
    if not len(both) + len(either):
        return None

    def excluded(source: ExaminedSide, target: ExaminedSide) -> np.ndarray:
        known: np.ndarray = is_among(mix_pair(source, target), both) | is_among(source.near, either)
        known |= is_among(target.near, either)
        return known

    return excluded


def is_among(values: np.ndarray, ordered: np.ndarray) -> np.ndarray:
    """Whether each value is one of those in `ordered`, which are in ascending order."""
    if not len(ordered):
        return np.zeros(len(values), bool)
    nearest: np.ndarray = ordered[np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)]
    equal: np.ndarray = nearest == values
    return equal


# ------------------------------------------------------------------ clean text to ids


@lru_cache(maxsize=1)
def _load_vocabularies(folder: str, digest: str, breaks: bool) -> Vocabularies:
    vocabularies = Vocabularies.load(folder, breaks=breaks)
    assert vocabularies.digest == digest
    return vocabularies


def encode(
    *, folder: str, number: int, offset: int, first: int, digest: str, breaks: bool, filters: Values
) -> tuple[Values, Buffers]:
    """Encode the training pairs of a part into a shard; `first` is the line of its first pair."""
    vocabularies, rules = _load_vocabularies(folder, digest, breaks), Filters(**filters)
    parts_folder, numbers = Path(folder) / PARTS, []
    rows = load(parts_folder, number, "rows", ROW)
    fit = np.memmap(Path(folder) / VERDICTS, np.uint8, mode="r")[offset : offset + len(rows)] == 0 if len(rows) else []
    chosen = np.flatnonzero(fit)
    paths = [parts_folder / f"{number:06d}.{side}" for side in ("source", "target")]
    texts = [path.read_bytes().decode().split("\n") for path in paths]
    dtype = id_type(vocabularies)
    ids: tuple[list[bytes], list[bytes]] = ([], [])
    lengths, dropped = [], []
    fit_texts = [[text[row] for row in chosen.tolist()] for text in texts]
    for part in divide(*fit_texts):
        block = chosen[part]
        sides = zip(fit_texts, (vocabularies.source, vocabularies.target), strict=True)
        encoded = [_encode_lines(vocabulary, text[part]) for text, vocabulary in sides]
        sizes = [np.fromiter(map(len, side), np.uint32, len(side)) for side in encoded]
        reasons = rules.reasons(*sizes)
        good, bad = np.flatnonzero(reasons == 0), np.flatnonzero(reasons)
        for output, sentences, size in zip(ids, encoded, sizes, strict=True):
            fit_sentences = sentences if not len(bad) else [sentences[row] for row in good.tolist()]
            output.append(np.fromiter(chain.from_iterable(fit_sentences), dtype, int(size[good].sum())).tobytes())
        lengths.append(np.stack([size[good] for size in sizes], axis=1))
        numbers.append(rows["row"][block[good]])
        drop = np.empty(len(bad), DROPPED)
        drop["row"], drop["reason"] = rows["row"][block[bad]], reasons[bad]
        dropped.append(drop)
    every = np.concatenate([np.empty(0, DROPPED), *dropped])
    counted = Counter(every["reason"].tolist())
    lines = np.concatenate([np.empty(0, np.uint32), *numbers]).astype(np.uint64) + np.uint64(first)
    summary: Values = {"pairs": len(lines), "dtype": dtype}
    summary["left_out"] = {rules.names()[code]: count for code, count in sorted(counted.items())}
    contents = {
        "source": b"".join(ids[0]),
        "target": b"".join(ids[1]),
        "lengths": np.concatenate([np.empty((0, 2), np.uint32), *lengths]).tobytes(),
        "lines": lines.tobytes(),
        "dropped": every.tobytes(),
    }
    write_part(Path(folder) / SHARDS, number, contents, summary)
    return summary, ()


def id_type(vocabularies: Vocabularies) -> str:
    """The smallest type that holds every id."""
    return "uint16" if max(len(vocabularies.source), len(vocabularies.target)) <= 65_535 else "uint32"


def _encode_lines(vocabulary: Vocabulary, lines: list[str]) -> list[list[int]]:
    if vocabulary.breaks or any(BREAK in line for line in lines):
        return vocabulary.encode_all([line.replace(BREAK, "\n") for line in lines])
    return vocabulary.encode_normalized(lines)


TABLE: dict[str, Work] = {
    "pairs": read_pairs,
    "rows": read_rows,
    "unit": read_unit,
    "texts": read_texts,
    "encode": encode,
}

if __name__ == "__main__":
    serve(TABLE)
