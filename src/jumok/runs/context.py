"""What a run is given besides its recipe: who hears of it, who may stop it, what it computes on, and its clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack

import torch

from jumok.events import EventLog, Silence, Sink
from jumok.stopping import NEVER, Stop
from jumok.storage.checkpoint import RunFolder
from jumok.training.distributed import ALONE, World

CPU = torch.device("cpu")


class Clock:
    """Seconds since a run began, over all of its attempts."""

    def __init__(self, began: float | None = None) -> None:
        """`began` is on the clock of `time.monotonic`; now, unless given."""
        self.began = time.monotonic() if began is None else began
        self.before = 0.0  # seconds of earlier attempts

    def __call__(self) -> float:
        return self.before + time.monotonic() - self.began


class ContextKeywords(TypedDict, total=False):
    """Where a run computes and who hears of it; options of every function that begins one."""

    sinks: Sequence[Sink]  # hear every event
    stop: Callable[[], bool]  # asked often: whether to save and end
    began: float | None  # on the clock of `time.monotonic`: minutes count from here, or from the call
    device: str
    exact: bool  # refuse to continue where the result would not be the bytes of a run that was never interrupted
    world: World  # several processes train together (training/distributed.py)


@dataclass(frozen=True)
class Context:
    """The surroundings of one attempt of a run."""

    report: EventLog | Silence
    clock: Clock
    stop: Stop = NEVER
    world: World = ALONE
    device: torch.device = CPU
    exact: bool = False  # continue only where the result will be the same bytes
    more: bool = False  # minutes given to a finished run are added to those it had

    @classmethod
    def of(cls, folder: RunFolder, *, more: bool = False, **given: Unpack[ContextKeywords]) -> Context:
        """The context of a run in a folder; only the first of several processes writes its log."""
        world = given.get("world", ALONE)
        return cls(
            report=EventLog(folder.events, list(given.get("sinks", ()))) if world.first else Silence(),
            clock=Clock(given.get("began")),
            stop=Stop(given["stop"]) if "stop" in given else NEVER,
            world=world,
            device=torch.device(given.get("device", "cpu")),
            exact=given.get("exact", False),
            more=more,
        )

    def say(self, text: str) -> None:
        self.report("stage", text=text)

    def note(self, text: str) -> None:
        self.report("note", text=text)
