"""Several processes that train one model: each takes its share of every batch, and gradients are added up.

    torchrun --nproc-per-node 2 --max-restarts 3 -m jumok train --source train.en --target train.de

The first process, rank 0, reads the clock, validates, saves and reports; the others receive its decisions.  When a
process dies, those that wait for it notice and exit, and torchrun starts all of them again: they continue from the
newest checkpoint.  The division of the work depends only on the number of workers of all processes together: two
processes with one thread each give the same bytes as one process with two.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as together
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from jumok.errors import Resumable, UsageError
from jumok.training.budget import Limits, Pace
from jumok.training.progress import Progress
from jumok.training.schedule import Schedule

T = TypeVar("T")
MEETING = timedelta(minutes=10)  # until all processes have started
PATIENCE = timedelta(hours=6)  # rank 0 may validate and save for long; a process that died is noticed at once
GRACE = (25.0, 8.0)  # seconds from a signal to the exit: for rank 0, which saves, and for the others


class World:
    """All processes of a training, from the view of one of them; there may be only one."""

    def __init__(self, rank: int = 0, size: int = 1, group: Any = None) -> None:
        self.rank, self.size, self.group = rank, size, group
        self.first = rank == 0  # the process that decides and reports

    def share(self, value: T) -> T:
        """The value of rank 0 in every process; it must be one that JSON can hold."""
        if self.size == 1:
            return value
        with _peers():
            content = torch.tensor(list(json.dumps(value).encode() if self.first else b""), dtype=torch.uint8)
            length = torch.tensor(len(content))
            together.broadcast(length, src=0, group=self.group)
            content = content if self.first else torch.empty(int(length), dtype=torch.uint8)
            together.broadcast(content, src=0, group=self.group)
        shared: T = json.loads(bytes(content.tolist()))
        return shared

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process."""
        if self.size == 1:
            return flag
        votes = torch.tensor(int(flag))
        with _peers():
            together.all_reduce(votes, op=together.ReduceOp.MAX, group=self.group)
        return bool(votes)

    def add(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over all processes."""
        with _peers():
            for tensor in tensors:
                together.all_reduce(tensor, group=self.group)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Run the body in rank 0 first, then in the others, which find what it has written."""
        if not self.first:
            self.share(None)
        yield
        if self.first:
            self.share(None)

    def leave(self) -> None:
        if self.size > 1 and together.is_initialized():
            together.destroy_process_group()


ALONE = World()


def join(environment: Mapping[str, str], device: str = "cpu") -> World:
    """The processes that torchrun has started, by RANK and WORLD_SIZE; without them, this process alone."""
    try:
        size, rank = int(environment.get("WORLD_SIZE", "1")), int(environment.get("RANK", "0"))
    except ValueError:
        raise UsageError("training.bad_environment") from None
    if size == 1:
        return ALONE
    if device != "cpu":
        raise UsageError("training.only_cpu")
    exit_after_signal(GRACE[rank > 0])
    attempt = f"attempt-{environment.get('TORCHELASTIC_RESTART_COUNT', '0')}"  # processes of earlier ones do not join
    with _peers():
        board, _, _ = next(rendezvous("env://", rank, size, timeout=MEETING))
        board = PrefixStore(attempt, board)
        together.init_process_group("gloo", store=board, rank=rank, world_size=size, timeout=MEETING)
        return World(rank, size, together.new_group(timeout=PATIENCE))


def exit_after_signal(grace: float) -> None:
    """Exit `grace` seconds after a signal, from a thread: the main thread may be waiting for others inside torch."""
    output, wakeup = os.pipe()
    os.set_blocking(wakeup, False)

    def listen() -> None:
        if os.read(output, 1):
            time.sleep(grace)
            os._exit(Resumable.code)

    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    threading.Thread(target=listen, daemon=True).start()


@contextmanager
def _peers() -> Iterator[None]:
    """Raise `Resumable` where another process has exited."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        raise Resumable("training.process_gone", reason=str(error).split("\n")[0][:200]) from None


class Agreed:
    """The pace of rank 0, in every process."""

    def __init__(self, pace: Pace, world: World) -> None:
        self.pace, self.world = pace, world
        self.schedule: Schedule = pace.schedule
        self.limits: Limits = pace.limits

    def start(self, progress: Progress) -> None:
        self._follow(progress, self.pace.start)

    def is_over(self, progress: Progress) -> bool:
        return self.world.share(self.world.first and self.pace.is_over(progress))

    def record_update(self, progress: Progress, seconds: float) -> None:
        self._follow(progress, lambda mine: self.pace.record_update(mine, seconds))

    def is_due(self, progress: Progress) -> bool:
        return self.world.share(self.world.first and self.pace.is_due(progress))

    def record_validation(self, progress: Progress, validating: float, saving: float) -> None:
        self._follow(progress, lambda mine: self.pace.record_validation(mine, validating, saving))

    def can_afford(self, pairs: int) -> bool:
        return self.pace.can_afford(pairs)

    def final_pairs(self, progress: Progress) -> int:
        return self.pace.final_pairs(progress)

    def _follow(self, progress: Progress, decide: Callable[[Progress], Any]) -> None:
        """Let rank 0 decide, and copy its progress to all."""
        if self.world.first:
            decide(progress)
        progress.follow(Progress.from_json(self.world.share(progress.to_json())))
