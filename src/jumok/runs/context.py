"""The context of a run besides its recipe: its log, its stop signal, its device, its processes and its clock."""

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
        """`began` is on the clock of `time.monotonic`, now by default."""
        self.began = time.monotonic() if began is None else began
        self.before = 0.0  # seconds of earlier attempts

    def __call__(self) -> float:
        return self.before + time.monotonic() - self.began


class ContextKeywords(TypedDict, total=False):
    """Device, processes, events and stop of a run; options of every function that begins one."""

    sinks: Sequence[Sink]  # receive every event
    stop: Callable[[], bool]  # called often: whether to save and end
    began: float | None  # on the clock of `time.monotonic`: minutes count from then; from the call by default
    device: str
    exact: bool  # refuse to continue if the result would differ from that of a run without interruption
    world: World  # processes that train together (training/distributed.py)


@dataclass(frozen=True)
class Context:
    """The context of one attempt of a run."""

    report: EventLog | Silence
    clock: Clock
    stop: Stop = NEVER
    world: World = ALONE
    device: torch.device = CPU
    exact: bool = False  # continue only if the result has the same bytes
    more: bool = False  # minutes given to a finished run are added to its earlier ones

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
