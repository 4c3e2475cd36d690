"""One JSON line per happening: the source of truth that bars, TensorBoard and the studio read.

An event is a dictionary with "event" (its kind), "time" (seconds since 1970) and plain values.  Kinds: begin, stage,
note, corpus, step, validation, checkpoint, finished.
"""

import json
import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from jumok.errors import DiskError

Event = dict[str, Any]
Sink = Callable[[Event], None]


class EventLog:
    """Appends events to a file and hands each to the sinks; flushed at most once a second, and at every rare event."""

    def __init__(self, path: str | Path, sinks: list[Sink] | None = None) -> None:
        self.path, self.sinks = Path(path), sinks or []
        self._file: IO[str] | None = None
        self._flushed = 0.0

    def __call__(self, event: str, **values: Any) -> None:
        happening = {"event": event, "time": round(time.time(), 3), **values}
        try:
            if self._file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = open(self.path, "a", encoding="utf-8")  # noqa: SIM115 - closed in close()
                self._file.write("" if _ends_whole(self.path) else "\n")
            self._file.write(json.dumps(_plain(happening), ensure_ascii=False) + "\n")
            if event != "step" or time.monotonic() - self._flushed > 1.0:
                self._file.flush()
                self._flushed = time.monotonic()
        except OSError as error:
            raise DiskError(f"cannot write the event log: {error.strerror}", where=f"in {self.path}") from None
        for sink in self.sinks:
            sink(happening)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def read_events(path: str | Path) -> Iterator[Event]:
    """The events of a log; a line that was cut off is left out."""
    with open(path, "rb") as file:
        for line in file:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                yield event


class TensorBoardSink:
    """Writes the numbers of steps and validations for TensorBoard."""

    def __init__(self, folder: str | Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event as Record
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._record, self._summary = Record, Summary
        self._writer = EventFileWriter(str(folder))

    def __call__(self, event: Event) -> None:
        if event["event"] not in ("step", "validation"):
            return
        prefix = "train" if event["event"] == "step" else "valid"
        values = [
            self._summary.Value(tag=f"{prefix}/{name}", simple_value=float(value))
            for name, value in event.items()
            if type(value) in (int, float) and name not in ("time", "step", "horizon", "seconds", "wall")
        ]
        record = self._record(wall_time=event["time"], step=event["step"], summary=self._summary(value=values))
        self._writer.add_event(record)

    def close(self) -> None:
        self._writer.close()


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become null."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _ends_whole(path: Path) -> bool:
    """Whether the last line of a log was written to its end; a run that was killed may have left half a line."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return file.read() in (b"", b"\n")
