"""What the workers of a preparation do: read a part of the text, encode a part of what was kept.

Everything a task makes is a handful of files with a common number; their sizes and checksums are written last, in a
small JSON file, so a part is there whole or not at all.  A task depends on its arguments and files alone: which worker
does it, and when, changes no byte.
"""

import json
import zlib
from collections import Counter
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from jumok.data.prepare import parts
from jumok.data.prepare.crew import Buffers, Values, Work, serve
from jumok.data.prepare.parts import Raw
from jumok.data.prepare.sift import BREAK, REASONS, Rules, Side, hold_out_digests, mix_pair, sift
from jumok.data.store import Filters
from jumok.errors import DataError, DiskError
from jumok.text.tables import Columns
from jumok.text.vocabulary import Vocabularies, Vocabulary

LINES = 1 << 13  # pairs sifted or encoded at a time
ROW = np.dtype(
    [("row", "<u4"), ("near", "<u8"), ("exact", "<u4"), ("characters", "<u4"), ("scripts", "u1", (2,))]
)  # what is known of a pair that passed the rules for single pairs
DROPPED = np.dtype([("row", "<u4"), ("reason", "u1")])
HELD = np.dtype([("index", "<u4"), ("digest", "<u8")])  # place among the pairs that passed, hash of the source
PARTS, SHARDS, VERDICTS, EXCLUDED = "parts", "shards", "verdicts", "excluded"


# ------------------------------------------------------------------ files that are whole or absent


def write_part(folder: Path, number: int, contents: dict[str, bytes], told: Values) -> None:
    """Write files NUMBER.name, and last what they are, under a name that appears at once."""
    files = {}
    try:
        for name, content in contents.items():
            (folder / f"{number:06d}.{name}").write_bytes(content)
            files[name] = [len(content), zlib.crc32(content)]
        beside = folder / f"{number:06d}.json.writing"
        beside.write_text(json.dumps({**told, "files": files}))
        beside.replace(folder / f"{number:06d}.json")
    except OSError as error:
        what, hint = f"cannot write what is prepared: {error.strerror}", "try: df -h; free some space"
        raise DiskError(what, where=f"in {folder}", hint=hint) from None


def read_part(folder: Path, number: int, *, verify: bool = False) -> Values | None:
    """What a part says of itself, or None if it is not whole; `verify` reads and compares all of its bytes."""
    try:
        told: Values = json.loads((folder / f"{number:06d}.json").read_bytes())
        for name, (size, checksum) in told["files"].items():
            path = folder / f"{number:06d}.{name}"
            if path.stat().st_size != size or (verify and zlib.crc32(path.read_bytes()) != checksum):
                return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return told


def load(folder: Path, number: int, name: str, dtype: Any) -> np.ndarray:
    """An array of a part, mapped from the disk."""
    path = folder / f"{number:06d}.{name}"
    return np.memmap(path, dtype, mode="r") if path.stat().st_size else np.empty(0, dtype)


# ------------------------------------------------------------------ text to clean text


def read_pairs(*contents: bytes, places: list[Any], **more: Any) -> tuple[Values, Buffers]:
    """A part of two files that go line by line."""
    sides = [Raw(path, line, byte, content) for (path, line, byte), content in zip(places, contents, strict=True)]
    try:
        source, target = (side.decode() for side in sides)
    except DataError:
        first, second = (side.fault() for side in sides)
        if first is not None and second is not None and second < first:
            sides[1].decode()  # raises: the fault of an earlier line is told
        raise
    return _read(source, target, **more)


def read_rows(
    content: bytes, *, places: list[Any], first: str, columns: list[str] | None, **more: Any
) -> tuple[Values, Buffers]:
    """A part of a table."""
    path, line, byte = places[0]
    return _read(*parts.parse_table(Raw(path, line, byte, content), first, _columns(columns)), **more)


def read_unit(*, path: str, unit: Values, columns: list[str] | None, **more: Any) -> tuple[Values, Buffers]:
    """A part of a Parquet or Arrow file."""
    from jumok.text.columnar import Unit, read_slices

    dictionaries = tuple((int(start), int(stop)) for start, stop in unit["dictionaries"])
    slices = read_slices(path, Unit(**{**unit, "dictionaries": dictionaries}), _columns(columns))
    sides = [(parts.join_lines(source), parts.join_lines(target)) for source, target in slices]
    return _read("".join(source for source, _ in sides), "".join(target for _, target in sides), **more)


def _columns(names: list[str] | None) -> Columns | None:
    return None if names is None else (names[0], names[1])


def read_texts(*contents: bytes, **more: Any) -> tuple[Values, Buffers]:
    """A part of pairs that jumok makes itself."""
    return _read(*(content.decode() for content in contents), **more)


def _read(source: str, target: str, *, folder: str, number: int, rules: Values, share: float) -> tuple[Values, Buffers]:
    """Sift a part and keep what is left of it in files; with a `share`, note what may be held out to validate."""
    sources, targets = source.split("\n")[:-1], target.split("\n")[:-1]
    chosen, known = Rules(**rules), _excluded(folder)
    rows, dropped, held, texts, count = [], [], [], ([], []), 0  # type: ignore[var-annotated]
    for start in range(0, len(sources), LINES):
        ours, theirs = ("\n".join([*side[start : start + LINES], ""]) for side in (sources, targets))
        found = sift(ours, theirs, chosen, known)
        row = np.empty(len(found.rows), ROW)
        row["row"], row["near"], row["exact"] = found.rows + start, found.near, found.exact
        row["characters"], row["scripts"] = found.characters, found.scripts
        bad = np.flatnonzero(found.reasons)
        drop = np.empty(len(bad), DROPPED)
        drop["row"], drop["reason"] = bad + start, found.reasons[bad]
        if share:
            digests = hold_out_digests(found.source.decode().split("\n")[:-1])
            may = np.flatnonzero(digests < np.uint64(min(share, 0.999999) * 2**64))
            candidates = np.empty(len(may), HELD)
            candidates["index"], candidates["digest"] = may + count, digests[may]
            held.append(candidates)
        count += len(found.rows)
        rows.append(row)
        dropped.append(drop)
        texts[0].append(found.source)
        texts[1].append(found.target)
    every = np.concatenate([np.empty(0, DROPPED), *dropped])
    codes = np.bincount(every["reason"], minlength=len(REASONS)).tolist()
    told: Values = {"pairs": len(sources), "kept": count}
    told["left_out"] = {REASONS[code]: number for code, number in enumerate(codes) if number}
    contents = {
        "source": b"".join(texts[0]),
        "target": b"".join(texts[1]),
        "rows": b"".join(row.tobytes() for row in rows),
        "dropped": every.tobytes(),
        "held": b"".join(one.tobytes() for one in held),
    }
    write_part(Path(folder) / PARTS, number, contents, told)
    return told, ()


@lru_cache(maxsize=1)
def _excluded_arrays(folder: str, stamp: int) -> tuple[np.ndarray, np.ndarray]:
    both, either = (np.fromfile(Path(folder) / f"{EXCLUDED}.{name}", np.uint64) for name in ("pairs", "sides"))
    return both, either


def _excluded(folder: str) -> Any:
    """A function that tells which pairs are in files that must not be trained on, if there are any."""
    path = Path(folder) / f"{EXCLUDED}.sides"
    if not path.exists():
        return None
    both, either = _excluded_arrays(folder, path.stat().st_mtime_ns)
    if not len(both) + len(either):
        return None

    def excluded(source: Side, target: Side) -> np.ndarray:
        found = np.isin(mix_pair(source, target), both)
        return found | np.isin(source.near, either) | np.isin(target.near, either)

    return excluded


# ------------------------------------------------------------------ clean text to ids


@lru_cache(maxsize=1)
def _vocabularies(folder: str, digest: str, breaks: bool) -> Vocabularies:
    found = Vocabularies.load(folder, breaks=breaks)
    assert found.digest == digest
    return found


def encode(
    *, folder: str, number: int, offset: int, first: int, digest: str, breaks: bool, filters: Values
) -> tuple[Values, Buffers]:
    """Encode the pairs of a part that are to be trained on into a shard; `first` is the line of its first pair."""
    vocabularies, rules = _vocabularies(folder, digest, breaks), Filters(**filters)
    place, numbers = Path(folder) / PARTS, []
    rows = load(place, number, "rows", ROW)
    fit = np.memmap(Path(folder) / VERDICTS, np.uint8, mode="r")[offset : offset + len(rows)] == 0 if len(rows) else []
    chosen = np.flatnonzero(fit)
    texts = [(place / f"{number:06d}.{side}").read_bytes().decode().split("\n") for side in ("source", "target")]
    dtype = id_type(vocabularies)
    ids: tuple[list[bytes], list[bytes]] = ([], [])
    lengths, dropped = [], []
    for start in range(0, len(chosen), LINES):
        here = chosen[start : start + LINES]
        found = []
        for text, side in zip(texts, (vocabularies.source, vocabularies.target), strict=True):
            found.append(_encode_lines(side, [text[row] for row in here.tolist()]))
        sizes = [np.fromiter(map(len, side), np.uint32, len(side)) for side in found]
        reasons = rules.reasons(*sizes)
        kept, bad = np.flatnonzero(reasons == 0), np.flatnonzero(reasons)
        for mine, encoded, size in zip(ids, found, sizes, strict=True):
            sentences = encoded if not len(bad) else [encoded[row] for row in kept.tolist()]
            mine.append(np.fromiter(chain.from_iterable(sentences), dtype, int(size[kept].sum())).tobytes())
        lengths.append(np.stack([size[kept] for size in sizes], axis=1))
        numbers.append(rows["row"][here[kept]])
        drop = np.empty(len(bad), DROPPED)
        drop["row"], drop["reason"] = rows["row"][here[bad]], reasons[bad]
        dropped.append(drop)
    every = np.concatenate([np.empty(0, DROPPED), *dropped])
    counted = Counter(every["reason"].tolist())
    lines = np.concatenate([np.empty(0, np.uint32), *numbers]).astype(np.uint64) + np.uint64(first)
    told: Values = {"pairs": len(lines), "dtype": dtype}
    told["left_out"] = {rules.names()[code]: count for code, count in sorted(counted.items())}
    contents = {
        "source": b"".join(ids[0]),
        "target": b"".join(ids[1]),
        "lengths": np.concatenate([np.empty((0, 2), np.uint32), *lengths]).tobytes(),
        "lines": lines.tobytes(),
        "dropped": every.tobytes(),
    }
    write_part(Path(folder) / SHARDS, number, contents, told)
    return told, ()


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
