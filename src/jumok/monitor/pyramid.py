"""A long series in bounded memory: buckets of steps with minimum, maximum, mean and last value of every column.

    pyramid = Pyramid(("loss", "norm"))
    pyramid.add(steps, values, places)        # rows in the order of their steps
    pyramid.cut(1_200)                        # a resumed run begins again after step 1,200
    pyramid.take(0, 50_000, buckets=500)      # at most 500 buckets

A bucket covers the same number of steps everywhere; when there are too many, neighbours are merged.  A single spike
therefore stays visible as the maximum of its bucket, however long the run is.

Shapes   N rows · B buckets · C columns
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST = 4_096  # buckets
Floats = NDArray[np.float64]
Wholes = NDArray[np.int64]


class Pyramid:
    """The series of one run."""

    ARRAYS = ("first", "last", "place", "low", "high", "total", "count", "final")

    def __init__(self, columns: Sequence[str], *, most: int = MOST) -> None:
        self.columns, self.most, self.width = tuple(columns), most, 1
        whole, real = np.zeros(0, np.int64), np.zeros((0, len(self.columns)))
        self.first, self.last, self.place = whole, whole, whole  # steps (B,), and where in the file the first row is
        self.low, self.high, self.total, self.count, self.final = real, real, real, real, real  # (B, C)

    def __len__(self) -> int:
        return len(self.first)

    @property
    def end(self) -> int:
        """The newest step."""
        return int(self.last[-1]) if len(self) else 0

    def add(self, steps: Wholes, values: Floats, places: Wholes) -> None:
        """Add rows with growing steps; those up to the newest step are there already and are left out."""
        fresh = steps > self.end
        if not fresh.all():
            steps, values, places = steps[fresh], values[fresh], places[fresh]
        if not len(steps):
            return
        known = np.isfinite(values)  # (N, C)
        single = {
            "first": steps, "last": steps, "place": places, "low": np.where(known, values, np.inf),
            "high": np.where(known, values, -np.inf), "total": np.where(known, values, 0.0),
            "count": known.astype(np.float64), "final": values,
        }  # fmt: skip
        self._set({name: np.concatenate([getattr(self, name), part]) for name, part in single.items()})
        self._merge()

    def cut(self, step: int) -> None:
        """Forget what came after a step; a bucket that begins before it keeps its values until it is passed again."""
        count = int(np.searchsorted(self.first, step, side="right"))
        self._set({name: getattr(self, name)[:count] for name in self.ARRAYS})

    def _merge(self) -> None:
        """Merge rows of the same bucket, and widen the buckets until there are few enough."""
        while True:
            merged = merge(self._arrays(), self.first // self.width)
            if len(merged["first"]) <= self.most:
                break
            self.width *= 2
        self._set(merged)

    def take(self, begin: int, end: int, buckets: int) -> dict[str, Any]:
        """Return at most `buckets` buckets of the steps from `begin` to `end`, as arrays by name."""
        inside = (self.last >= begin) & (self.first <= end)
        arrays = {name: part[inside] for name, part in self._arrays().items()}
        width = self.width
        while len(arrays["first"]) > buckets:
            width *= 2
            arrays = merge(arrays, arrays["first"] // width)
        return arrays

    def find_place(self, step: int) -> int:
        """Return a place in the file that is not after the row of a step."""
        row = int(np.searchsorted(self.first, step, side="right")) - 1
        return int(self.place[row]) if row >= 0 else 0

    def _arrays(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.ARRAYS}

    def _set(self, arrays: Mapping[str, Any]) -> None:
        for name, part in arrays.items():
            setattr(self, name, part)

    def to_arrays(self) -> dict[str, Any]:
        """Return everything as arrays, for a file."""
        return self._arrays() | {"width": np.array([self.width], np.int64)}

    @classmethod
    def of_arrays(cls, columns: Sequence[str], arrays: Mapping[str, Any]) -> Pyramid:
        """Return the pyramid that a file holds; a `ValueError` if the arrays do not fit together."""
        pyramid = cls(columns)
        size, wide = len(arrays["first"]), (len(arrays["first"]), len(pyramid.columns))
        for name in cls.ARRAYS:
            shape, kind = ((size,), np.int64) if name in ("first", "last", "place") else (wide, np.float64)
            if arrays[name].shape != shape or arrays[name].dtype != kind:
                raise ValueError(name)
        pyramid._set({name: arrays[name] for name in cls.ARRAYS})
        pyramid.width = max(1, int(arrays["width"][0]))
        return pyramid


def merge(arrays: Mapping[str, Any], keys: Wholes) -> dict[str, Any]:
    """Merge neighbours with the same key."""
    if not len(keys):
        return dict(arrays)
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    if len(starts) == len(keys):
        return dict(arrays)
    ends = np.concatenate([starts[1:], [len(keys)]]) - 1
    return {
        "first": arrays["first"][starts],
        "last": arrays["last"][ends],
        "place": arrays["place"][starts],
        "low": np.minimum.reduceat(arrays["low"], starts),
        "high": np.maximum.reduceat(arrays["high"], starts),
        "total": np.add.reduceat(arrays["total"], starts),
        "count": np.add.reduceat(arrays["count"], starts),
        "final": arrays["final"][ends],
    }
