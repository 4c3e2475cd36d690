"""Token ids on disk: built once from a corpus, then memory-mapped, so that a corpus may be larger than memory.

A store is a folder of flat arrays: the ids of both sides end to end, where each sentence begins, and the line it
came from.  It is written beside its place and renamed when whole, and its name is a hash of the text, the
vocabulary and the filters, so a store that exists is the right one.
"""

import hashlib
import json
import os
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from jumok.data.corpora import Pair
from jumok.errors import DataError, DiskError, ModelFileError
from jumok.text.vocabulary import Vocabularies

CHUNK = 8_192  # pairs encoded at a time
CHARACTERS = 1 << 18  # and no more characters than this: endless lines take no more memory than short ones
COMPARED = 1 << 20  # sentences whose places are compared at a time
FORMAT = 1


@dataclass(frozen=True)
class Filters:
    """Which pairs are fit for training; what is left out is counted by reason."""

    longest: int
    ratio: float
    alone: bool = False  # nothing needs to be read for what is said

    def names(self) -> tuple[str, str, str, str]:
        """Reasons by their numbers; 0 is fit."""
        return "", "empty side", f"longer than {self.longest} subwords", f"length ratio over {self.ratio:g}"

    def reasons(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """The number of the reason why each pair of these lengths in subwords is left out."""
        short, long = np.minimum(source, target).astype(np.int64), np.maximum(source, target).astype(np.int64)
        found = np.where((source > 0) & (long > self.ratio * short) & (long > 10), 3, 0)
        found[long > self.longest] = 2
        found[(target == 0) | ((source == 0) & (not self.alone))] = 1
        return found.astype(np.uint8)

    def reason(self, source: int, target: int) -> str | None:
        """Why a pair of these lengths is left out, or None."""
        return self.names()[int(self.reasons(np.array([source]), np.array([target]))[0])] or None


class Side:
    """One language of a store: sentence i is ids[begins[i] : begins[i + 1]]."""

    def __init__(self, folder: Path, name: str, dtype: str) -> None:
        self.ids = _map(folder / f"{name}.ids", dtype)
        self.begins = _map(folder / f"{name}.begins", "uint64")

    def __getitem__(self, row: int) -> np.ndarray:
        return self.ids[int(self.begins[row]) : int(self.begins[row + 1])]

    def lengths(self, start: int, stop: int) -> np.ndarray:
        """Subwords of sentences start … stop - 1."""
        return np.diff(self.begins[start : stop + 1].astype(np.int64))


class Store:
    """The encoded pairs of a corpus, mapped from disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            meta = _meta(folder / "meta.json")
            self.count, self.left_out, dtype = int(meta["count"]), dict(meta["left_out"]), str(meta["dtype"])
            if dtype not in ("uint16", "uint32"):
                raise ValueError(f"ids are not of type {dtype}")
            self.source, self.target = Side(folder, "source", dtype), Side(folder, "target", dtype)
            self.lines = _map(folder / "lines", "uint64")
            self.mixed, self.corpora = meta.get("order") == "blocks", _corpora(meta)
            self._compare()
        except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            what, hint = f"the token store is not whole: {error}", f"try: rm -r {shlex.quote(str(folder))}"
            raise ModelFileError(what, where=f"in {folder}", hint=hint) from None

    def _compare(self) -> None:
        """The arrays must be as long as they say of each other."""
        for name, side in (("source", self.source), ("target", self.target)):
            if len(side.begins) != self.count + 1 or int(side.begins[-1]) != len(side.ids):
                raise ValueError(f"{name} does not have {self.count:,} whole sentences")
            starts = range(0, self.count, COMPARED)
            parts = (side.begins[start : start + COMPARED + 1] for start in starts)
            if int(side.begins[0]) or any((part[1:] < part[:-1]).any() for part in parts):
                raise ValueError(f"a sentence of {name} ends before it begins")
        if len(self.lines) != self.count:
            raise ValueError(f"there are {len(self.lines):,} lines, not {self.count:,}")

    def __len__(self) -> int:
        return self.count

    def tokens(self) -> tuple[int, int]:
        """Subwords of each side."""
        return len(self.source.ids), len(self.target.ids)


def build(
    pairs: Iterable[Pair],
    vocabularies: Vocabularies,
    filters: Filters,
    folder: Path,
    *,
    identity: str,
    progress: Callable[[int], None] = lambda pairs: None,
) -> Store:
    """The store of these pairs under `folder`; made unless one with the same identity is there."""
    place = folder / name_of(identity, vocabularies, filters)
    if not (place / "meta.json").exists():
        _make(pairs, vocabularies, filters, place, progress)
    store = Store(place)
    if not len(store):
        counts = ", ".join(f"{reason}: {count:,}" for reason, count in store.left_out.items()) or "the files are empty"
        raise DataError("no sentence pair is left to train on", where=counts, hint="try: jumok data check FILES")
    return store


def name_of(identity: str, vocabularies: Vocabularies, filters: Filters) -> str:
    """The name of a store that `build` makes."""
    return hashlib.sha256(f"{FORMAT}:{identity}:{vocabularies.digest}:{filters}".encode()).hexdigest()[:16]


def _make(
    pairs: Iterable[Pair], vocabularies: Vocabularies, filters: Filters, place: Path, progress: Callable[[int], None]
) -> None:
    """Write beside the place and rename, so that a store is there whole or not at all."""
    beside = place.with_name(f"{place.name}.partial")
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        _write(pairs, vocabularies, filters, beside, progress)
        beside.rename(place)
    except OSError as error:
        what = f"cannot write the token store: {error.strerror}"
        raise DiskError(what, where=f"in {place.parent}", hint="try: df -h; free some space") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _write(
    pairs: Iterable[Pair],
    vocabularies: Vocabularies,
    filters: Filters,
    folder: Path,
    progress: Callable[[int], None],
) -> None:
    """Encode in chunks and append; memory holds one chunk, whatever the corpus."""
    symbols = max(len(vocabularies.source), len(vocabularies.target))
    dtype = "uint16" if symbols <= 65_535 else "uint32"
    left_out: Counter[str] = Counter()
    ends, count = [0, 0], 0
    names = ("source.ids", "target.ids", "source.begins", "target.begins", "lines")
    files = [open(folder / name, "wb") for name in names]  # noqa: SIM115 - closed together below
    try:
        for file in files[2:4]:
            file.write(np.zeros(1, "uint64").tobytes())
        for chunk in _chunks(pairs):
            sides = (
                vocabularies.source.encode_all([pair.source for pair in chunk]),
                vocabularies.target.encode_all([pair.target for pair in chunk]),
            )
            reasons = [filters.reason(len(s), len(t)) for s, t in zip(*sides, strict=True)]
            left_out.update(reason for reason in reasons if reason is not None)
            kept = [i for i, reason in enumerate(reasons) if reason is None]
            count += len(kept)
            for side, encoded in enumerate(sides):
                sentences = [encoded[i] for i in kept]
                lengths = np.array([len(ids) for ids in sentences], "uint64")
                files[side].write(np.fromiter(chain.from_iterable(sentences), dtype).tobytes())
                files[2 + side].write((np.cumsum(lengths, dtype="uint64") + np.uint64(ends[side])).tobytes())
                ends[side] += int(lengths.sum())
            files[4].write(np.array([chunk[i].line for i in kept], "uint64").tobytes())
            progress(len(chunk))
        for file in files:
            file.flush()
            os.fsync(file.fileno())
    finally:
        for file in files:
            file.close()
    meta = {"format": FORMAT, "count": count, "dtype": dtype, "left_out": dict(left_out)}
    with open(folder / "meta.json", "w") as whole:
        json.dump(meta, whole)
        whole.flush()
        os.fsync(whole.fileno())


def _chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    chunk: list[Pair] = []
    characters = 0
    for pair in pairs:
        chunk.append(pair)
        characters += len(pair.source) + len(pair.target)
        if len(chunk) == CHUNK or characters > CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _meta(path: Path) -> dict[str, Any]:
    """What a store says of itself."""
    if path.stat().st_size > 1_000_000:
        raise ValueError("meta.json is larger than any that jumok makes")
    meta = json.loads(path.read_bytes())
    if not isinstance(meta, dict) or not isinstance(meta.get("left_out"), dict):
        raise ValueError("meta.json does not say what was left out")
    if meta.get("format", FORMAT) != FORMAT or type(meta.get("count")) is not int or not 0 <= meta["count"] < 1 << 48:
        raise ValueError("meta.json does not say how many pairs there are, or says it in another format")
    if not all(type(count) is int for count in meta["left_out"].values()):
        raise ValueError("meta.json does not say how much was left out")
    return meta


def _corpora(meta: dict[str, Any]) -> list[tuple[int, int, float | None]]:
    """First row, number of rows and share of every corpus; a store that does not say has one."""
    found = [(int(first), int(rows), share) for first, rows, share in meta.get("corpora", [[0, meta["count"], None]])]
    ends = [0, *(first + rows for first, rows, _ in found)]
    if any(rows < 0 or first not in (end, 0) for (first, rows, _), end in zip(found, ends, strict=False)):
        raise ValueError("meta.json does not say where corpora begin")
    if not all(share is None or (isinstance(share, int | float) and share > 0) for _, _, share in found):
        raise ValueError("a share of a corpus is no number above 0")
    return [one for one in found if one[1]]


def _map(path: Path, dtype: str) -> np.ndarray:
    """A read-only array on disk; an empty file is an empty array."""
    if path.stat().st_size == 0:
        return np.empty(0, dtype)
    return np.memmap(path, dtype, mode="r")
