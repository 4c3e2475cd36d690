"""Shards to a token store: the concatenated ids of all parts, in the layout of store.py."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from jumok.data.prepare.decide import ReadPart
from jumok.data.prepare.folder import LISTED
from jumok.data.prepare.sift import CODE, HELD_OUT, REASONS
from jumok.data.prepare.work import DROPPED, PARTS, ROW, SHARDS, VERDICTS, load, read_part
from jumok.data.store import FORMAT, Filters

BLOCK = 1 << 24  # bytes copied at a time
LONG = 0.05  # share of the pairs that may be too long without a warning


class _File:
    """A file that is hashed while it is written."""

    def __init__(self, path: Path) -> None:
        self.path, self.size, self.digest = path, 0, hashlib.sha256()
        self._file: BinaryIO = open(path, "wb")  # noqa: SIM115 - closed by `close`

    def write(self, content: bytes | memoryview) -> None:
        self._file.write(content)
        self.digest.update(content)
        self.size += len(content)

    def copy(self, path: Path) -> None:
        with open(path, "rb") as file:
            while block := file.read(BLOCK):
                self.write(block)

    def release(self) -> None:
        """Close the file, complete or not."""
        self._file.close()

    def close(self) -> dict[str, Any]:
        """Write everything to the disk; returns the entry of the manifest."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return {"size": self.size, "sha256": self.digest.hexdigest()}


@dataclass(frozen=True)
class Joined:
    """A store that was written: counts, and the manifest of its files."""

    count: int
    left_out: dict[str, int]
    corpora: dict[int, tuple[int, int]]  # first row and number of rows of each corpus
    manifest: dict[str, dict[str, Any]]


def join(work: Path, parts: Iterable[ReadPart], folder: Path) -> Joined:
    """Write the arrays of a store into `folder` from the shards in `work`."""
    names = ("source.ids", "target.ids", "source.begins", "target.begins", "lines", "dropped")
    with ExitStack() as stack:
        files = {name: _File(folder / name) for name in names}
        for file in files.values():
            stack.callback(file.release)
        return _join(work, parts, files)


def _join(work: Path, parts: Iterable[ReadPart], files: dict[str, _File]) -> Joined:
    left_out: Counter[str] = Counter()
    corpora: dict[int, tuple[int, int]] = {}
    ends, count = [0, 0], 0
    for name in ("source.begins", "target.begins"):
        files[name].write(np.zeros(1, np.uint64).tobytes())
    for part in parts:
        summary = read_part(work / SHARDS, part.number)
        assert summary is not None
        left_out.update(summary["left_out"])
        lengths = load(work / SHARDS, part.number, "lengths", np.uint32).reshape(-1, 2)
        for side, name in enumerate(("source", "target")):
            files[f"{name}.ids"].copy(work / SHARDS / f"{part.number:06d}.{name}")
            begins = np.cumsum(lengths[:, side], dtype=np.uint64) + np.uint64(ends[side])
            files[f"{name}.begins"].write(begins.tobytes())
            ends[side] = int(begins[-1]) if len(begins) else ends[side]
        files["lines"].copy(work / SHARDS / f"{part.number:06d}.lines")
        files["dropped"].write(_list_dropped(work, part).tobytes())
        first, before = corpora.get(part.corpus, (count, 0))
        corpora[part.corpus] = (first, before + len(lengths))
        count += len(lengths)
    manifest = {name: file.close() for name, file in files.items()}
    return Joined(count, dict(left_out), corpora, manifest)


def _list_dropped(work: Path, part: ReadPart) -> np.ndarray:
    """All pairs of a part that do not train, by line, with the code of the reason; `Filters` has those from 100 on."""
    alone = load(work / PARTS, part.number, "dropped", DROPPED)
    late = load(work / SHARDS, part.number, "dropped", DROPPED)
    rows = load(work / PARTS, part.number, "rows", ROW)
    verdicts = np.memmap(work / VERDICTS, np.uint8, mode="r")[part.offset : part.offset + part.count]
    bad = np.flatnonzero((verdicts != 0) & (verdicts != CODE[HELD_OUT])) if part.count else np.empty(0, np.int64)
    dropped = np.empty(len(alone) + len(late) + len(bad), LISTED)
    dropped["line"] = np.concatenate([alone["row"], late["row"], rows["row"][bad]]).astype(np.uint64) + np.uint64(
        part.first
    )
    dropped["reason"] = np.concatenate([alone["reason"], late["reason"] + 100, verdicts[bad]])
    return dropped[np.argsort(dropped["line"], kind="stable")]


def write_meta(folder: Path, joined: Joined, dtype: str, more: dict[str, Any]) -> None:
    """Write meta.json, which completes a store."""
    meta = {"format": FORMAT, "count": joined.count, "dtype": dtype, "left_out": joined.left_out, **more}
    with open(folder / "meta.json", "w") as file:
        json.dump(meta, file)
        file.flush()
        os.fsync(file.fileno())


def reason_names(filters: Filters) -> dict[int, str]:
    """The reasons by their codes in the file `dropped`."""
    return dict(enumerate(REASONS)) | {100 + code: name for code, name in enumerate(filters.names())}


def warn_of_long(filters: Filters, left_out: dict[str, int], pairs: int) -> str:
    """A warning if many of all pairs are left out because they are long: usually the setting is wrong, not the text."""
    reason = filters.names()[2]
    share = left_out.get(reason, 0) / max(1, pairs)
    if share <= LONG:
        return ""
    text = f"{100 * share:.0f} % of the pairs do not train because they are {reason}"
    return f"{text}; try: --set data.longest={2 * filters.longest}"
