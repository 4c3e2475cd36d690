"""Logs of a run: one JSON line per event, which displays, TensorBoard and the studio read, and one line per update.

An event is a dictionary with "event" (its kind), "time" (seconds since 1970) and plain values.  Kinds: begin, stage,
progress (share, count and rate of a stage), note, corpus, disk, plan, step, validation, checkpoint, stopped, finished.

Logs of long runs stay small: files have the `step` events of some updates only (`is_recorded`), while sinks get all of
them; `losses.tsv` has every update in one short line.
"""

import json
import math
import os
import time
from collections.abc import Callable, Iterator
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from jumok.errors import DiskError
from jumok.extras import find_missing, hint
from jumok.messages import Message

Event = dict[str, Any]
Sink = Callable[[Event], None]
DENSE = 1_000  # updates in a log for every doubling of the length of a run
LINE, EVENT, OTHER = 72, 550, 1_000_000  # bytes of a line of the loss log, of an event in both logs, of everything else


def is_recorded(step: int) -> bool:
    """Whether logs have the event of an update: all of the first 2,000, then one in 2, from 4,000 on one in 4 …

    It depends on the number alone, so an interrupted run has the same log as one that was not.  A million updates make
    11,000 events.
    """
    return step % (1 << max(0, (step // DENSE).bit_length() - 1)) == 0


def most_bytes(updates: int, validations: int = 0) -> int:
    """Most bytes that the logs of a run take, not counting what resumed attempts repeat."""
    recorded = min(updates, DENSE * (1 + (updates // DENSE).bit_length()))
    return LINE * updates + EVENT * (recorded + 10 * validations) + OTHER


class Journal:
    """A file that only grows.  Bytes that the disk refuses wait in memory and are tried again; no error stops the run.

    A full disk may accept half of a write; the other half is written first as soon as there is space.
    """

    MOST = 1 << 26  # bytes that may wait; what comes after is lost

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.problem = ""  # why bytes are waiting
        self._file = -1
        self._waiting = bytearray()
        self._tried = 0.0

    def write(self, content: bytes, *, within: float = 1.0) -> None:
        """Append; the bytes reach the disk with the first write after `within` seconds."""
        if len(self._waiting) < self.MOST:
            self._waiting += content
        if time.monotonic() - self._tried >= within:
            self.flush()

    def flush(self) -> bool:
        """Write all waiting bytes; whether the disk took them."""
        self._tried = time.monotonic()
        try:
            if self._waiting and self._file < 0:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            while self._waiting:
                taken = os.write(self._file, self._waiting)
                del self._waiting[:taken]
            self.problem = ""
        except OSError as error:
            self.problem = error.strerror or str(error)
        return not self._waiting

    def sync(self) -> int:
        """The size of the file after all of it has reached the disk; a `DiskError` if that fails."""
        if not self.flush():
            raise _cannot_write(self.path, self.problem)
        if self._file < 0:
            return 0
        try:
            os.fsync(self._file)
            return os.fstat(self._file).st_size
        except OSError as error:
            raise _cannot_write(self.path, error.strerror) from None

    def close(self) -> None:
        self.flush()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _cannot_write(path: Path, reason: str | None) -> DiskError:
    return DiskError("events.cannot_write", file=path.name, folder=path.parent, reason=reason)


class EventLog:
    """Appends events to a file and passes each to the sinks; updates are flushed once a second, others at once."""

    def __init__(self, path: str | Path, sinks: list[Sink] | None = None) -> None:
        self.path, self.sinks = Path(path), sinks or []
        self._journal = Journal(path)
        self._begun = False

    def __call__(self, event: str, **values: Any) -> None:
        record = {"event": event, "time": round(time.time(), 3), **values}
        before = self._journal.problem
        if not self._begun:
            self._journal.write(b"" if _ends_whole(self.path) else b"\n")
            self._begun = True
        line = b"" if _is_left_out(record) else json.dumps(_plain(record), ensure_ascii=False).encode() + b"\n"
        self._journal.write(line, within=1.0 if event == "step" else 0.0)
        shown = {name: str(value) if isinstance(value, Message) else value for name, value in record.items()}
        for sink in self.sinks:
            sink(shown)
        if bool(before) != bool(self._journal.problem):
            state = (
                "is complete again" if before else f"cannot be written ({self._journal.problem}); it waits in memory"
            )
            self("note", text=f"the event log {state}")

    def close(self) -> None:
        self._journal.close()


class LossLog:
    """One line per update, the same bytes however often a run was interrupted: a resumed run truncates the file first.

    The loss is written exactly, rate and norm with nine digits: about 50 bytes per line, 18 MB for 350,000 updates.

    >>> losses.begin(0); losses(step=1, epoch=0, loss=9.1, rate=1e-4, norm=1.0, tokens=900, skipped=0); losses.sync()
    """

    COLUMNS = ("step", "epoch", "loss", "rate", "norm", "tokens", "skipped")
    SHORT = ("rate", "norm")

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._journal = Journal(path)

    def begin(self, size: int) -> bool:
        """Cut the file to `size` bytes, as a checkpoint recorded it; False, and an empty file, if it has fewer."""
        try:
            present = self.path.stat().st_size if self.path.exists() else 0
            if present:
                os.truncate(self.path, size if size <= present else 0)
        except OSError as error:
            raise _cannot_write(self.path, error.strerror) from None
        if size == 0 or size > present:
            self._journal.write("\t".join(self.COLUMNS).encode() + b"\n")
        return size <= present

    def __call__(self, **values: Any) -> None:
        short = {name: f"{values[name]:.9g}" for name in self.SHORT}
        self._journal.write("\t".join(short.get(name) or repr(values[name]) for name in self.COLUMNS).encode() + b"\n")

    def sync(self) -> int:
        """The size of the log after all of it has reached the disk."""
        return self._journal.sync()

    def close(self) -> None:
        self._journal.close()


def book(losses: Callable[..., None], report: Callable[..., None], **values: Any) -> None:
    """Write an update to the loss log and report it."""
    losses(**{name: values[name] for name in LossLog.COLUMNS})
    report("step", **values)


class Silence:
    """A log that records nothing, for processes other than the first."""

    def __init__(self) -> None:
        self.sinks: list[Sink] = []

    def __call__(self, *_: object, **__: object) -> None: ...

    def begin(self, size: int) -> bool:
        return True

    def sync(self) -> int:
        return 0

    def close(self) -> None: ...


def read_events(path: str | Path) -> Iterator[Event]:
    """The events of a log; incomplete lines are skipped."""
    with open(path, "rb") as file:
        for line in file:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                yield event


def history(path: str | Path) -> Iterator[Event]:
    """The events of a run as if it had never been interrupted: those that a later attempt repeats are left out.

    The file is read twice and not held in memory: an event is left out if a later attempt began before its update.
    """
    begins: list[int] = []
    count = 0
    for event in read_events(path):
        count += 1
        if event["event"] == "begin":
            begins.append(event.get("step", 0))
    earliest = [math.inf, *accumulate(reversed(begins), min)][::-1]  # first update of all later attempts
    attempt = 0
    for event in islice(read_events(path), count):  # a running training may have written more since
        attempt += event["event"] == "begin"
        if event.get("step", 0) <= earliest[attempt]:
            yield event


def read_losses(path: str | Path) -> Iterator[dict[str, float]]:
    """The updates of a loss log, by column."""
    with open(path, encoding="ascii") as file:
        names = file.readline().rstrip("\n").split("\t")
        for line in file:
            yield dict(zip(names, map(float, line.split("\t")), strict=True))


class TensorBoardSink:
    """Writes the numbers of steps and validations for TensorBoard, in a separate file for every attempt."""

    def __init__(self, folder: str | Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event as Record
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._record, self._summary = Record, Summary
        self._journal = Journal(Path(folder) / f"events.out.tfevents.{time.time():.0f}.{os.getpid()}")
        self._writer = RecordWriter(self._journal)
        self._write(Record(wall_time=time.time(), file_version="brain.Event:2"))

    def __call__(self, event: Event) -> None:
        if event["event"] not in ("step", "validation") or _is_left_out(event):
            return
        prefix = "train" if event["event"] == "step" else "valid"
        values = [
            self._summary.Value(tag=f"{prefix}/{name}", simple_value=float(value))
            for name, value in event.items()
            if type(value) in (int, float) and name not in ("time", "step", "horizon", "seconds", "wall", "seen")
        ]
        self._write(self._record(wall_time=event["time"], step=event["step"], summary=self._summary(value=values)))

    def _write(self, record: Any) -> None:
        self._writer.write(record.SerializeToString())

    def close(self) -> None:
        self._journal.close()


def open_board(folder: str | Path, note: Callable[[str], None]) -> TensorBoardSink | Silence:
    """A sink for TensorBoard; where tensorboard is not installed, a note says so and nothing is written."""
    try:
        return TensorBoardSink(folder)
    except ModuleNotFoundError as error:
        if find_missing(error) != "tensorboard":
            raise
    note(f"nothing is written for TensorBoard, which is not installed ({hint('tensorboard')})")
    return Silence()


def _is_left_out(event: Event) -> bool:
    """Whether this is an event that logs do not have: that of most updates, and the progress of a validation."""
    if event["event"] == "progress" and event.get("stage") == "validating":
        return True
    step = event.get("step")
    return event["event"] == "step" and type(step) is int and not is_recorded(step)


def _plain(value: Any) -> Any:
    """A value that JSON can write: NaN and infinity become null, messages are in English."""
    if isinstance(value, Message):
        return value.in_english()
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _ends_whole(path: Path) -> bool:
    """Whether the last line of a log is complete; a run that was killed may have written half a line."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            return file.read() in (b"", b"\n")
    except OSError:  # the log does not exist yet
        return True
