"""Train one contender after the other, each in a separate `jumok train` process whose events are followed.

The same command continues a race that was stopped: finished runs stay, the interrupted one is resumed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jumok.errors import JumokError, Resumable
from jumok.events import Event, history, read_events
from jumok.race.contenders import Contender
from jumok.runs import finished
from jumok.storage.bundle import write_file
from jumok.storage.checkpoint import RunFolder

LOOK = 0.5  # seconds between checks for new events
MEMORY = "memory.txt"  # file in a run's folder: peak memory of training in bytes

Follow = Callable[[Contender, Event], None]


class Lane(NamedTuple):
    """A contender and the folder of its run."""

    contender: Contender
    folder: Path

    @property
    def finished(self) -> bool:
        return finished.find_finished(RunFolder(self.folder)) is not None

    def history(self) -> Iterator[Event]:
        """The events of the run, without the updates that a resumed attempt repeated."""
        path = self.folder / "events.jsonl"
        return history(path) if path.is_file() else iter(())

    @property
    def memory(self) -> int | None:
        """Peak memory of training in bytes, if it was measured."""
        path = self.folder / MEMORY
        return int(path.read_text()) if path.is_file() else None


def lanes(out: Path, field: Sequence[Contender]) -> list[Lane]:
    """A lane for each contender; writes the recipe that `jumok train` will read."""
    out.mkdir(parents=True, exist_ok=True)
    for contender in field:
        write_file(out / f"{contender.name}.toml", contender.recipe.to_toml().encode())
    return [Lane(contender, out / contender.name) for contender in field]


def race(field: Sequence[Lane], *, follow: Follow, stop: Callable[[], bool]) -> None:
    """Run all that are not finished; `follow` gets every event of every run, earlier ones included."""
    for lane in field:
        for event in lane.history():
            follow(lane.contender, event)
        if not lane.finished:
            run(lane, follow=follow, stop=stop)


def run(lane: Lane, *, follow: Follow, stop: Callable[[], bool]) -> None:
    """Train one contender in a child process until it is finished."""
    recipe, log = lane.folder.with_suffix(".toml"), lane.folder.with_suffix(".log")
    command = [sys.executable, "-m", "jumok", "train", "--recipe", str(recipe), "--out", str(lane.folder)]
    begin = sum(1 for _ in new_events(lane.folder / "events.jsonl", 0))
    with open(log, "ab") as words:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=words, stderr=words, start_new_session=True)
        asked = False
        while True:
            pid, status, used = os.wait4(child.pid, os.WNOHANG)
            for event in new_events(lane.folder / "events.jsonl", begin):
                begin += 1
                follow(lane.contender, event)
            if pid:
                break
            if stop() and not asked:
                child.send_signal(signal.SIGTERM)
                asked = True
            time.sleep(LOOK)
    code = os.waitstatus_to_exitcode(status)
    child.returncode = code
    if code == Resumable.code or asked:
        raise Resumable("race.stopped_training", contender=lane.contender.name, folder=lane.folder)
    if code:
        last = log.read_text(encoding="utf-8", errors="replace").strip().split("\n")[-3:]
        raise JumokError("race.failed", contender=lane.contender.name, reason=" · ".join(last), log=log)
    scale = 1 if sys.platform == "darwin" else 1024
    most = max(used.ru_maxrss * scale, lane.memory or 0)
    write_file(lane.folder / MEMORY, str(most).encode())


def new_events(path: Path, seen: int) -> Iterator[Event]:
    """Events after the first `seen`, if there is a log."""
    if not path.is_file():
        return
    for number, event in enumerate(read_events(path)):
        if number >= seen:
            yield event


def curve(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Every validation of a run: minutes, target tokens so far, scores."""
    tokens, points = 0, []
    for event in events:
        if event["event"] == "step":
            tokens += event["tokens"]
        elif event["event"] == "validation":
            tokens = event.get("seen", tokens)  # older logs have no total, but every update
            scores = {name: event[name] for name in ("loss", "bleu", "accuracy") if event.get(name) is not None}
            points.append({"minutes": event["wall"] / 60, "tokens": tokens, "step": event["step"], **scores})
    return points
