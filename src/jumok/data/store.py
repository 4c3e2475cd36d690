"""Token ids on disk: built once from a corpus, then memory-mapped, so that a corpus may be larger than memory.

A store is a folder of flat arrays: the concatenated ids of both sides, the start of each sentence, and its line number.
It is written to a temporary folder and renamed when it is complete.  Its name is a hash of the text, the vocabulary and
the filters, so an existing store never has to be compared with its text.
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
from jumok.messages import Message
from jumok.text.vocabulary import Vocabularies

CHUNK = 8_192  # most pairs encoded at a time
CHARACTERS = 1 << 18  # most characters encoded at a time, so that very long lines take no more memory than short ones
COMPARED = 1 << 20  # sentences whose starts are checked at a time
FORMAT = 1
BY_ROWS, BY_BLOCKS = ORDERS = ("rows", "blocks")  # how the shares of corpora are counted (mixture.py)


@dataclass(frozen=True)
class Filters:
    """Which pairs are fit for training, by their lengths; the others are counted by reason."""

    longest: int
    ratio: float
    alone: bool = False  # the source may be empty: a text for a language model

    def names(self) -> tuple[str, str, str, str]:
        """The reasons for leaving a pair out, by number; 0 means that the pair is fit."""
        return "", "empty side", f"longer than {self.longest} subwords", f"length ratio over {self.ratio:g}"

    def reasons(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """The number of the reason for each pair, given the lengths of both sides in subwords."""
        short, long = np.minimum(source, target).astype(np.int64), np.maximum(source, target).astype(np.int64)
        reasons = np.where((source > 0) & (long > self.ratio * short) & (long > 10), 3, 0)
        reasons[long > self.longest] = 2
        reasons[(target == 0) | ((source == 0) & (not self.alone))] = 1
        return reasons.astype(np.uint8)

    def reason(self, source: int, target: int) -> str | None:
        """The reason for leaving out a pair of these lengths, or None if it is fit."""
        return self.names()[int(self.reasons(np.array([source]), np.array([target]))[0])] or None


class StoredSide:
    """One language of a store: sentence i is ids[begins[i] : begins[i + 1]]."""

    def __init__(self, folder: Path, name: str, dtype: str) -> None:
        self.ids = _map(folder / f"{name}.ids", dtype)
        self.begins = _map(folder / f"{name}.begins", "uint64")

    def __getitem__(self, row: int) -> np.ndarray:
        return self.ids[int(self.begins[row]) : int(self.begins[row + 1])]

    def lengths(self, start: int, stop: int) -> np.ndarray:
        """The lengths of sentences start … stop - 1 in subwords."""
        return np.diff(self.begins[start : stop + 1].astype(np.int64))


class Store:
    """The encoded pairs of a corpus, mapped from disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            meta = _read_meta(folder / "meta.json")
            self.count, self.left_out, dtype = int(meta["count"]), dict(meta["left_out"]), str(meta["dtype"])
            if dtype not in ("uint16", "uint32"):
                raise ValueError(Message("data.wrong_id_type", {"dtype": dtype}))
            self.source, self.target = StoredSide(folder, "source", dtype), StoredSide(folder, "target", dtype)
            self.lines = _map(folder / "lines", "uint64")
            self.mixed, self.corpora = meta.get("order") in ORDERS, _read_corpora(meta)
            self.by_rows = meta.get("order") == BY_ROWS
            self._check_lengths()
        except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            quoted = shlex.quote(str(folder))
            raise ModelFileError("data.broken_store", reason=error, folder=folder, quoted=quoted) from None

    def _check_lengths(self) -> None:
        """Check that the lengths of the arrays fit together."""
        for name, side in (("source", self.source), ("target", self.target)):
            if len(side.begins) != self.count + 1 or int(side.begins[-1]) != len(side.ids):
                raise ValueError(Message("data.sentences_missing", {"side": name, "sentences": self.count}))
            starts = range(0, self.count, COMPARED)
            parts = (side.begins[start : start + COMPARED + 1] for start in starts)
            if int(side.begins[0]) or any((part[1:] < part[:-1]).any() for part in parts):
                raise ValueError(Message("data.sentences_out_of_order", {"side": name}))
        if len(self.lines) != self.count:
            lines = {"lines": len(self.lines), "sentences": self.count}
            raise ValueError(Message("data.wrong_number_of_lines", lines))

    def __len__(self) -> int:
        return self.count

    def tokens(self) -> tuple[int, int]:
        """The number of subwords on each side."""
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
    """The store of these pairs under `folder`; it is built unless one with the same identity exists."""
    target = folder / name_of(identity, vocabularies, filters)
    if not (target / "meta.json").exists():
        _build(pairs, vocabularies, filters, target, progress)
    store = Store(target)
    if not len(store):
        if not store.left_out:
            raise DataError("data.empty_files")
        counts = ", ".join(f"{reason}: {count:,}" for reason, count in store.left_out.items())
        raise DataError("data.no_pair_left", counts=counts)
    return store


def name_of(identity: str, vocabularies: Vocabularies, filters: Filters) -> str:
    """The name of the store that `build` writes."""
    return hashlib.sha256(f"{FORMAT}:{identity}:{vocabularies.digest}:{filters}".encode()).hexdigest()[:16]


def _build(
    pairs: Iterable[Pair], vocabularies: Vocabularies, filters: Filters, target: Path, progress: Callable[[int], None]
) -> None:
    """Write to a temporary folder and rename it, so that a store is complete or absent."""
    partial = target.with_name(f"{target.name}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        _write(pairs, vocabularies, filters, partial, progress)
        partial.rename(target)
    except OSError as error:
        raise DiskError("data.cannot_write_store", folder=target.parent, reason=error.strerror) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write(
    pairs: Iterable[Pair],
    vocabularies: Vocabularies,
    filters: Filters,
    folder: Path,
    progress: Callable[[int], None],
) -> None:
    """Encode and append one chunk at a time, so that memory does not depend on the size of the corpus."""
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
            fit = [i for i, reason in enumerate(reasons) if reason is None]
            count += len(fit)
            for side, encoded in enumerate(sides):
                sentences = [encoded[i] for i in fit]
                lengths = np.array([len(ids) for ids in sentences], "uint64")
                files[side].write(np.fromiter(chain.from_iterable(sentences), dtype).tobytes())
                files[2 + side].write((np.cumsum(lengths, dtype="uint64") + np.uint64(ends[side])).tobytes())
                ends[side] += int(lengths.sum())
            files[4].write(np.array([chunk[i].line for i in fit], "uint64").tobytes())
            progress(len(chunk))
        for file in files:
            file.flush()
            os.fsync(file.fileno())
    finally:
        for file in files:
            file.close()
    meta = {"format": FORMAT, "count": count, "dtype": dtype, "left_out": dict(left_out)}
    with open(folder / "meta.json", "w") as output:
        json.dump(meta, output)
        output.flush()
        os.fsync(output.fileno())


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


def _read_meta(path: Path) -> dict[str, Any]:
    """The content of meta.json, checked."""
    if path.stat().st_size > 1_000_000:
        raise ValueError(Message("data.meta_too_large"))
    meta = json.loads(path.read_bytes())
    if not isinstance(meta, dict) or not isinstance(meta.get("left_out"), dict):
        raise ValueError(Message("data.meta_without_left_out"))
    if meta.get("format", FORMAT) != FORMAT or type(meta.get("count")) is not int or not 0 <= meta["count"] < 1 << 48:
        raise ValueError(Message("data.meta_without_count"))
    if not all(type(count) is int for count in meta["left_out"].values()):
        raise ValueError(Message("data.meta_left_out_not_counts"))
    return meta


def _read_corpora(meta: dict[str, Any]) -> list[tuple[int, int, float | None]]:
    """First row, number of rows and share of every corpus; a store that does not say so has one."""
    corpora = [(int(first), int(rows), share) for first, rows, share in meta.get("corpora", [[0, meta["count"], None]])]
    ends = [0, *(first + rows for first, rows, _ in corpora)]
    if any(rows < 0 or first not in (end, 0) for (first, rows, _), end in zip(corpora, ends, strict=False)):
        raise ValueError(Message("data.meta_corpora_out_of_order"))
    if not all(share is None or (isinstance(share, int | float) and share > 0) for _, _, share in corpora):
        raise ValueError(Message("data.meta_bad_share"))
    return [(first, rows, share) for first, rows, share in corpora if rows]


def _map(path: Path, dtype: str) -> np.ndarray:
    """A file as a read-only array; an empty file is an empty array."""
    if path.stat().st_size == 0:
        return np.empty(0, dtype)
    return np.memmap(path, dtype, mode="r")
