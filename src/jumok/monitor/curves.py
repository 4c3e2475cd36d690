"""Curves of a run for a screen: a few hundred points, by step, by time or by tokens.

Every point of loss and norm has the smallest and the largest value of its bucket besides the mean, so that a spike of
one update among millions is visible.  A part of a run that has few buckets is read again from its file in detail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from jumok.monitor.index import STEP, UPDATES, Index, parse_losses, whole_lines
from jumok.monitor.pyramid import Pyramid

Axis = Literal["step", "time", "tokens"]
AXES: tuple[Axis, ...] = ("step", "time", "tokens")
BEFORE = 16_384  # bytes before the place at which a part is looked for: places are those of buckets, and about right
CLOSER = 8_000_000  # bytes of a log that are read again for a closer look
SCORES = ("loss", "perplexity", "bleu", "accuracy", "nats", "memory")


def draw(index: Index, *, axis: Axis = "step", begin: int = 0, end: int | None = None, points: int = 500) -> Any:
    """Return the curves between two steps as plain values; a missing number is None."""
    last = max(index.updates.end, index.clock.end)
    end = last if end is None else min(end, last)
    series = look_closer(index, begin, end, points) or index.updates.take(begin, end, points)
    clock = index.clock.take(begin, end, points)
    steps = series["last"]
    return {
        "axis": axis, "begin": begin, "end": end, "last": last, "read": round(index.share, 4),
        "x": plain(place(index, steps, axis)), "step": steps.tolist(),
        "series": {name: describe(series, column) for column, name in enumerate(UPDATES[:3])},
        "speed": measure_speed(index, clock, axis),
        "validations": list_validations(index, axis, begin, end),
        "attempts": index.attempts,
    }  # fmt: skip


def look_closer(index: Index, begin: int, end: int, points: int) -> dict[str, Any] | None:
    """Return the buckets of a part that the index knows roughly, from its log; None where it knows enough."""
    pyramid = index.updates
    if pyramid.width == 1 or (end - begin) // pyramid.width >= points:
        return None
    start, stop = pyramid.find_place(begin), pyramid.find_place(end + pyramid.width + 1)
    stop = (index.losses if index.has_losses else index.events).place if stop <= start else stop
    closer = Pyramid(UPDATES, most=2 * points)
    try:
        with open(index.run / ("losses.tsv" if index.has_losses else "events.jsonl"), "rb") as file:
            file.seek(max(0, start - BEFORE))
            if start > BEFORE:
                file.readline()
            content = whole_lines(file, min(CLOSER, stop - start + 2 * BEFORE))
    except OSError:
        return None
    rows = parse_losses(content) if index.has_losses else parse_steps(content)
    rows = rows[(rows[:, 0] >= begin) & (rows[:, 0] <= end)] if len(rows) else rows
    if len(rows) < 2 or rows[-1, 0] < end - pyramid.width or (np.diff(rows[:, 0]) <= 0).any():
        return None
    closer.add(rows[:, 0].astype(np.int64), rows[:, [2, 3, 4, 5]], np.zeros(len(rows), np.int64))
    return closer.take(begin, end, points)


def parse_steps(content: bytes) -> Any:
    """Return the updates among events, in the columns of a loss log."""
    matches = STEP.findall(content.replace(b"null", b"nan"))
    rows = np.array(matches).reshape(-1, 8).astype(np.float64)
    return rows[:, [0, 0, 1, 2, 3, 4, 0]]


def describe(series: dict[str, Any], column: int) -> dict[str, Any]:
    """Return one column: mean, smallest and largest value of every bucket."""
    count = series["count"][:, column]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = series["total"][:, column] / count
    return {"mean": plain(mean), "low": plain(series["low"][:, column]), "high": plain(series["high"][:, column])}


def measure_speed(index: Index, clock: dict[str, Any], axis: Axis) -> dict[str, Any]:
    """Return target tokens per second between neighbouring buckets."""
    seconds, seen = clock["final"][:, 0], clock["final"][:, 2]
    with np.errstate(invalid="ignore", divide="ignore"):
        rate = np.diff(seen) / np.diff(seconds)
    rate[~(np.diff(seconds) > 0)] = np.nan
    return {"x": plain(place(index, clock["last"][1:], axis)), "value": plain(rate)}


def list_validations(index: Index, axis: Axis, begin: int, end: int) -> dict[str, Any]:
    """Return the validations of a part of a run, each score as a list."""
    some = [one for one in index.validations if begin <= one.get("step", 0) <= max(end, begin)]
    steps = np.array([one.get("step", 0) for one in some], np.int64)
    scores = {name: [one.get(name) for one in some] for name in SCORES if any(name in one for one in some)}
    return {"x": plain(place(index, steps, axis)), "step": steps.tolist(), **scores}


def place(index: Index, steps: Any, axis: Axis) -> Any:
    """Return where steps lie on an axis: seconds of the run and tokens are those of its events, and in between."""
    if axis == "step":
        return steps
    known = index.clock
    if not len(known):
        return np.full(len(steps), np.nan)
    column = 1 if axis == "time" else 2
    values = known.final[:, column]
    usable = np.isfinite(values)
    if not usable.any():
        return np.full(len(steps), np.nan)
    begin = np.concatenate([[0.0], values[usable]]) if axis == "tokens" else values[usable]
    at = np.concatenate([[0], known.last[usable]]) if axis == "tokens" else known.last[usable]
    return np.interp(steps, at, begin)


def plain(values: Sequence[float] | Any) -> list[float | int | None]:
    """Return numbers with six digits, as JSON can write them."""
    array = np.asarray(values)
    if array.dtype.kind == "i":
        return list(array.tolist())
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in array.tolist()]
