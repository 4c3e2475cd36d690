"""What the logs of a run say, read once and then only where they have grown.

    index = Index(Path("runs/tiny"))
    while not index.refresh(seconds=0.5): ...     # whether everything has been read

`losses.tsv` has a line for every update, `events.jsonl` the times, validations, samples and notes; runs of earlier
versions have an event for every update.  Neither is ever held in memory: the index is the curves in buckets
(pyramid.py), one short entry per validation, and the newest events of each kind.  It is saved (index_file.py), so that
a run of millions of updates opens at once the next time.

A resumed run writes its losses again from a checkpoint on, and its events after those of the attempt before; both make
the curves begin again at the step of the checkpoint.
"""

from __future__ import annotations

import json
import re
import time
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from jumok.monitor.pyramid import Pyramid

CHUNK = 1 << 19  # bytes read at a time: a few milliseconds of work
LONGEST = 1 << 22  # bytes of a line; a longer one is skipped
TAIL = 96  # bytes before the place read up to, by which a file that was rewritten is noticed
NOTES = 200  # newest notes and stages
VALIDATIONS, ATTEMPTS = 20_000, 1_000  # newest that are kept
UPDATES = ("loss", "rate", "norm", "tokens")
CLOCK = ("seconds", "wall", "seen")
STEP = re.compile(
    rb'\{"event": "step", "time": [^,}\n]+, "step": (\d+), "epoch": \d+, "loss": ([^,}\n]+), "rate": ([^,}\n]+), '
    rb'"norm": ([^,}\n]+), "tokens": (\d+), "seconds": ([^,}\n]+), "wall": ([^,}\n]+), '
    rb'(?:"\w+": [^,}\n]+, )*"seen": (\d+)\}\n'
)
OTHERS = re.compile(rb'^(?!\{"event": "step", )[^\n]*\n', re.M)
KINDS = ("begin", "corpus", "disk", "plan", "stopped", "finished")  # of which the newest event is kept
NUMBERS = ("loss", "perplexity", "bleu", "accuracy", "nats", "memory")


@dataclass
class Reading:
    """How far a file has been read."""

    place: int = 0
    tail: bytes = b""

    def is_same(self, file: Any, size: int) -> bool:
        """Whether the file still has what was read."""
        if size < self.place:
            return False
        file.seek(self.place - len(self.tail))
        tail: bytes = file.read(len(self.tail))
        return tail == self.tail

    def advance(self, content: bytes) -> None:
        self.place += len(content)
        self.tail = (self.tail + content)[-TAIL:]


@dataclass
class Index:
    """What is known of one run."""

    run: Path
    updates: Pyramid = field(default_factory=lambda: Pyramid(UPDATES))
    clock: Pyramid = field(default_factory=lambda: Pyramid(CLOCK))
    events: Reading = field(default_factory=Reading)
    losses: Reading = field(default_factory=Reading)
    validations: list[dict[str, Any]] = field(default_factory=list)
    newest: dict[str, dict[str, Any]] = field(default_factory=dict)  # by kind
    notes: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=NOTES))
    attempts: list[int] = field(default_factory=list)  # steps at which attempts began
    share: float = 0.0  # of the files that has been read

    def refresh(self, seconds: float = float("inf")) -> bool:
        """Read what the files have more than before, for some time; whether all of it was read."""
        until = time.monotonic() + seconds
        done = [self._follow("losses.tsv", self.losses, until), self._follow("events.jsonl", self.events, until)]
        read, sizes = sum(part[0] for part in done), sum(part[1] for part in done)
        self.share = read / sizes if sizes else 1.0
        return read >= sizes

    @property
    def has_losses(self) -> bool:
        """Whether the run has a line for every update; otherwise its updates are those of its events."""
        return self.losses.place > 0

    def _follow(self, name: str, reading: Reading, until: float) -> tuple[int, int]:
        """Read on in one of the files; returns how many bytes of how many have been read."""
        try:
            with open(self.run / name, "rb") as file:
                size = file.seek(0, 2)
                if not reading.is_same(file, size):
                    self._begin_again(name, reading, file, size)
                while reading.place < size:
                    file.seek(reading.place)
                    content = whole_lines(file, min(CHUNK, size - reading.place))
                    if not content:
                        return size, size  # half a line, which will be complete later
                    (self._add_losses if name == "losses.tsv" else self._add_events)(content, reading.place)
                    reading.advance(content)
                    if time.monotonic() > until:
                        break
                return reading.place, size
        except OSError:
            return 0, 0

    def _begin_again(self, name: str, reading: Reading, file: Any, size: int) -> None:
        """Handle a file that is shorter than before: losses are those of a checkpoint, other files are new."""
        if name == "losses.tsv" and size < reading.place:
            file.seek(max(0, size - 4_096))
            rows = parse_losses(file.read().partition(b"\n")[2])
            if len(rows):
                self.updates.cut(int(rows[-1, 0]))
                file.seek(max(0, size - TAIL))
                reading.place, reading.tail = size, file.read()
                return
        reading.place, reading.tail = 0, b""
        if name == "losses.tsv":
            self.updates = Pyramid(UPDATES)
        else:
            self.clock, self.validations, self.newest, self.attempts = Pyramid(CLOCK), [], {}, []
            self.notes.clear()

    def _add_losses(self, content: bytes, place: int) -> None:
        if place == 0:
            self.updates = Pyramid(UPDATES)  # those of events until now
        rows = parse_losses(content)
        if len(rows):
            places = place + np.arange(len(rows), dtype=np.int64) * (len(content) // len(rows))
            self._add_rows(self.updates, rows[:, 0].astype(np.int64), rows[:, [2, 3, 4, 5]], places)

    def _add_events(self, content: bytes, place: int) -> None:
        """Add events: those of updates many at a time, the others one by one, in their order."""
        start = 0
        for match in OTHERS.finditer(content):
            self._add_steps(content[start : match.start()], place + start)
            self._add_event(match[0], place + match.start())
            start = match.end()
        self._add_steps(content[start:], place + start)

    def _add_steps(self, content: bytes, place: int) -> None:
        if not content:
            return
        matches = STEP.findall(content.replace(b"null", b"nan"))
        if len(matches) != content.count(b"\n"):
            for line in content.splitlines(keepends=True):
                self._add_event(line, place)
            return
        rows = np.array(matches).astype(np.float64)  # (N, 8): step, loss, rate, norm, tokens, seconds, wall, seen
        places = place + np.arange(len(rows), dtype=np.int64) * (len(content) // len(rows))
        self._add_times(rows[:, 0].astype(np.int64), rows[:, 1:5], rows[:, 5:8], places)

    def _add_times(self, steps: Any, updates: Any, times: Any, places: Any) -> None:
        if not self.has_losses:
            self._add_rows(self.updates, steps, updates, places)
        self._add_rows(self.clock, steps, times, places)

    @staticmethod
    def _add_rows(pyramid: Pyramid, steps: Any, values: Any, places: Any) -> None:
        """Add rows; where steps go back without a notice, the series begins again there."""
        begins = [0, *(np.flatnonzero(np.diff(steps) <= 0) + 1), len(steps)]
        for begin, end in pairwise(begins):
            if begin:
                pyramid.cut(int(steps[begin]) - 1)
            pyramid.add(steps[begin:end], values[begin:end], places[begin:end])

    def _add_event(self, line: bytes, place: int) -> None:
        """Add any event; a line that is not one is left out."""
        try:
            event = json.loads(line)
            kind = event["event"]
            step = int(event.get("step") or 0)
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
            return
        if kind == "step" and step > 0:
            row = np.array([[_number(event.get(name)) for name in (*UPDATES, *CLOCK)]])
            self._add_times(np.array([step]), row[:, :4], row[:, 4:], np.array([place]))
        elif kind == "begin":
            self._begin_attempt(step)
        elif kind == "validation":
            entry = {name: event[name] for name in ("step", "time", *CLOCK, *NUMBERS) if _is_plain(event.get(name))}
            entry["place"] = place
            self.validations.append(entry)
            del self.validations[:-VALIDATIONS]
        elif kind in ("note", "stage"):
            self.notes.append({"event": kind, "time": event.get("time"), "text": str(event.get("text"))[:2_000]})
        if kind in KINDS:
            self.newest[kind] = event

    def _begin_attempt(self, step: int) -> None:
        """Forget what an attempt did after the checkpoint from which the next one continues."""
        self.attempts.append(step)
        del self.attempts[:-ATTEMPTS]
        self.clock.cut(step)
        if not self.has_losses:
            self.updates.cut(step)
        self.validations = [one for one in self.validations if one.get("step", 0) <= step]
        for kind in ("stopped", "finished"):
            self.newest.pop(kind, None)


def whole_lines(file: Any, size: int) -> bytes:
    """Read lines of about this many bytes in all; nothing if not even one is complete."""
    content: bytes = file.read(size)
    end = content.rfind(b"\n") + 1
    while not end and len(content) < LONGEST and (more := file.read(size)):
        content += more
        end = content.rfind(b"\n") + 1
    if not end and len(content) >= LONGEST:
        return content  # no event is as long; what cannot be read is left out
    return content[:end]


def parse_losses(content: bytes) -> Any:
    """Return the rows of a loss log; the first line, and lines that are none, are left out."""
    if content.startswith(b"step"):
        content = content.partition(b"\n")[2]
    lines = content.count(b"\n")
    try:
        values = np.array(content.split(), dtype="S32").astype(np.float64)
        if len(values) == 7 * lines:
            return values.reshape(-1, 7)
    except ValueError:
        pass
    rows = []
    for line in content.split(b"\n"):
        parts = line.split(b"\t")
        try:
            rows.append([float(part) for part in parts])
        except ValueError:
            continue
        if len(parts) != 7:
            rows.pop()
    return np.array(rows).reshape(-1, 7)


def _is_plain(value: Any) -> bool:
    return type(value) in (int, float)


def _number(value: Any) -> float:
    return float(value) if type(value) in (int, float) else float("nan")
