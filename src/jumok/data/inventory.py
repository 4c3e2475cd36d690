"""What texts and their preparation take on the disk, for `jumok data ls`: nothing of it is removed by itself.

prepared    token stores, from `jumok data prepare` or in a run; training needs them
fetched     copies of files from addresses; not needed once the data are prepared, unless they are prepared anew
unfinished  work of a preparation that was stopped; the same command continues with it
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jumok.data.prepare.folder import PREPARED, read_summary
from jumok.errors import JumokError

SUFFIXES = {".fetched": "fetched", ".work": "unfinished", ".partial": "unfinished"}


@dataclass(frozen=True)
class Entry:
    """A folder with text or prepared data."""

    path: str
    kind: str
    size: int  # bytes
    files: int
    pairs: int | None = None  # that train

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def line(self) -> str:
        what = f"{self.pairs:,} pairs" if self.pairs is not None else f"{self.files:,} files"
        return f"{self.size / 1e6:>12,.1f} MB  {self.kind:<11} {what:>18}  {self.path}"


def list_data(folders: Sequence[str | Path]) -> Iterator[Entry]:
    """The prepared, fetched and unfinished data below some folders, in the order of their names."""
    for folder in folders:
        for place, inner, names in os.walk(folder):
            inner.sort()
            path = Path(place)
            kind = _kind_of(path, names)
            if kind is not None:
                inner.clear()
                yield _measure(path, kind)


def _kind_of(path: Path, names: Sequence[str]) -> str | None:
    if PREPARED in names and path.suffix not in SUFFIXES:
        return "prepared"
    if path.name == "fetched" and path.parent.name == "data":
        return "fetched"
    return SUFFIXES.get(path.suffix)


def _measure(path: Path, kind: str) -> Entry:
    inside = [Path(place) / name for place, _, names in os.walk(path) for name in names]
    sizes = [file.lstat().st_size for file in inside]
    pairs = None
    if kind == "prepared":
        try:
            pairs = int(read_summary(path)["train"])
        except (JumokError, KeyError, TypeError, ValueError):
            kind = "damaged"
    return Entry(str(path), kind, sum(sizes), len(sizes), pairs)
