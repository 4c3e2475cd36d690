"""Several processes, one training: each takes its share of every batch, gradients are added up, all move alike.

    torchrun --nproc-per-node 2 --max-restarts 3 -m jumok train --source train.en --target train.de

The first process, rank 0, reads the clock, validates, saves and speaks; the others hear what it decided.  A process
that dies is noticed by the next one that waits for it, all end, and torchrun starts them again: they continue from the
newest checkpoint.  Who computes what depends on the number of workers of all processes together and on nothing else:
two processes of one thread give the bytes of one process with two.
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
MEETING = timedelta(minutes=10)  # until all processes are there
PATIENCE = timedelta(hours=6)  # rank 0 may validate and save for long; a process that died is noticed at once
GRACE = (25.0, 8.0)  # seconds after a signal, for rank 0, which saves, and for others; then nobody is waited for


class World:
    """All processes of a training, seen by one of them; alone, it has nobody to ask."""

    def __init__(self, rank: int = 0, size: int = 1, group: Any = None) -> None:
        self.rank, self.size, self.group = rank, size, group
        self.first = rank == 0  # the process that decides and speaks

    def share(self, value: T) -> T:
        """What rank 0 says, to all: plain values, as JSON has them."""
        if self.size == 1:
            return value
        with _peers():
            said = torch.tensor(list(json.dumps(value).encode() if self.first else b""), dtype=torch.uint8)
            length = torch.tensor(len(said))
            together.broadcast(length, src=0, group=self.group)
            said = said if self.first else torch.empty(int(length), dtype=torch.uint8)
            together.broadcast(said, src=0, group=self.group)
        heard: T = json.loads(bytes(said.tolist()))
        return heard

    def any(self, flag: bool) -> bool:
        """Whether one of all says yes."""
        if self.size == 1:
            return flag
        votes = torch.tensor(int(flag))
        with _peers():
            together.all_reduce(votes, op=together.ReduceOp.MAX, group=self.group)
        return bool(votes)

    def add(self, tensors: Sequence[Tensor]) -> None:
        """Each of these becomes the sum of all processes', in place."""
        with _peers():
            for tensor in tensors:
                together.all_reduce(tensor, group=self.group)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """What rank 0 does first, then the others: what it makes, they find."""
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
    """The world that torchrun tells of by RANK and WORLD_SIZE; alone without them."""
    try:
        size, rank = int(environment.get("WORLD_SIZE", "1")), int(environment.get("RANK", "0"))
    except ValueError:
        raise UsageError(
            "WORLD_SIZE and RANK are not numbers", where="in the environment", hint="try: torchrun --help"
        ) from None
    if size == 1:
        return ALONE
    if device != "cpu":
        raise UsageError("several processes train on CPUs only, so far", where="in --device", hint="try: --device cpu")
    leave_when_asked(GRACE[rank > 0])
    attempt = f"attempt-{environment.get('TORCHELASTIC_RESTART_COUNT', '0')}"  # not to be met by those before it
    with _peers():
        board, _, _ = next(rendezvous("env://", rank, size, timeout=MEETING))
        board = PrefixStore(attempt, board)
        together.init_process_group("gloo", store=board, rank=rank, world_size=size, timeout=MEETING)
        return World(rank, size, together.new_group(timeout=PATIENCE))


def leave_when_asked(grace: float) -> None:
    """A process that waits for others inside torch hears no signal: a thread hears it, and ends what does not end."""
    heard, told = os.pipe()
    os.set_blocking(told, False)

    def listen() -> None:
        if os.read(heard, 1):
            time.sleep(grace)
            os._exit(Resumable.code)

    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    threading.Thread(target=listen, daemon=True).start()


@contextmanager
def _peers() -> Iterator[None]:
    """What happens where another process has gone."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        reason = str(error).split("\n")[0][:200]
        hint = "run the same command again to continue; torchrun --max-restarts N does it by itself"
        raise Resumable("another process of this training has gone", where=reason, hint=hint) from None


class Agreed:
    """The pace of rank 0, followed by all."""

    def __init__(self, pace: Pace, world: World) -> None:
        self.pace, self.world = pace, world
        self.schedule: Schedule = pace.schedule
        self.limits: Limits = pace.limits

    def start(self, progress: Progress) -> None:
        self._follow(progress, self.pace.start)

    def over(self, progress: Progress) -> bool:
        return self.world.share(self.world.first and self.pace.over(progress))

    def updated(self, progress: Progress, seconds: float) -> None:
        self._follow(progress, lambda mine: self.pace.updated(mine, seconds))

    def due(self, progress: Progress) -> bool:
        return self.world.share(self.world.first and self.pace.due(progress))

    def judged(self, progress: Progress, validating: float, saving: float) -> None:
        self._follow(progress, lambda mine: self.pace.judged(mine, validating, saving))

    def affords(self, pairs: int) -> bool:
        return self.pace.affords(pairs)

    def final(self, progress: Progress) -> int:
        return self.pace.final(progress)

    def _follow(self, progress: Progress, decide: Callable[[Progress], Any]) -> None:
        """Rank 0 decides; all have its progress."""
        if self.world.first:
            decide(progress)
        progress.follow(Progress.from_json(self.world.share(progress.to_json())))
