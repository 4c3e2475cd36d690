"""One update by all cores: each takes its share of the sentences, start to end, and the gradients are added up.

A core that works alone never waits for another inside an update, and its matrices stay in its own cache; two threads
that share every small operation meet some thousand times an update, and a busy machine makes each meeting long.  Every
worker has a replica of the model that shares its weights and owns its gradients.  Which worker takes which sentence and
in which order gradients are added is fixed, so a run depends on the number of workers and on nothing else.  The packed
output matrix is shared by all workers of an update.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from jumok.data.batches import Batch
from jumok.kernels import ops
from jumok.kernels.modules import accelerate
from jumok.kernels.output import OutputBuffers, PackedMatrix
from jumok.keys import key
from jumok.nn.dropout import Dropouts
from jumok.stopping import NEVER, Stopped
from jumok.training.distributed import ALONE, World
from jumok.training.objectives import Objective
from jumok.training.optim import Optimizer

FEW = 3  # sentences per worker from which an uneven division costs little
LOOK = 0.2  # seconds between looks at who asks to stop
T = TypeVar("T")
Model = TypeVar("Model", bound=nn.Module)


class Team(Generic[Model]):
    """A model, its replicas, and a thread for each."""

    def __init__(
        self,
        model: Model,
        replicas: Sequence[Model],
        objectives: Sequence[Objective],
        optimizer: Optimizer,
        world: World = ALONE,
    ) -> None:
        """`replicas` are those that `replicate` makes of the model, each with its objective."""
        self.model, self.models, self.objectives = model, replicas, objectives
        self.optimizer, self.workers, self.world = optimizer, len(replicas), world
        workers = self.workers
        self.packed = [PackedMatrix() for _ in model.parameters()]  # of all replicas, which have the same weights
        self.gradients = [Gradients(list(one.parameters()), self.packed) for one in self.models]
        self.dropouts = [Dropouts(one) for one in self.models]
        threads = 1 if workers > 1 else torch.get_num_threads()
        self.pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads,))

    def update(
        self,
        batches: Sequence[Batch],
        keys: Sequence[int],
        *,
        rate: float,
        largest_gradient: float,
        dropout: float = 1.0,
        stop: Callable[[], bool] = NEVER,
    ) -> tuple[float, float, int]:
        """One update from the mean loss over all predictions of the micro-batches: (loss, gradient norm, tokens).

        A loss or gradient that is not finite changes nothing.  `Stopped` may be raised as long as nothing has changed.
        """
        tokens = sum(batch.tokens for batch in batches)
        for matrix in self.packed:
            matrix.expire()
        left = threading.Event()

        def work(me: int) -> tuple[float, int]:
            total, predictions, number_of_all = 0.0, 0, self.world.rank * self.workers + me
            self.gradients[me].begin()
            for turn, (batch, number) in enumerate(zip(batches, keys, strict=True)):
                share, threads = self.portion(batch, me, turn, single=len(batches) == 1)
                if share and share.tokens and not left.is_set():
                    self.dropouts[me].start(key(number, "worker", number_of_all), dropout)
                    with self.threads(threads):
                        loss, count = self.objectives[me](share)
                        loss.backward()
                    total, predictions = total + loss.item(), predictions + count
            return total, predictions

        try:
            totals = self.together(work, stop if self.world.size == 1 else NEVER)  # several agree between updates
        except Stopped:  # the others are still at it, and nobody waits for them
            left.set()
            raise
        finally:  # also after an error the parameters are ordinary ones again
            found = [] if left.is_set() else [gradients.end() for gradients in self.gradients]
        optimizer = self.optimizer
        optimizer.collect(found)
        squares = self.together(lambda me: optimizer.gather(me, self.workers))
        if self.world.size > 1:
            totals, squares = self.with_others(totals, found[0])
        total, predictions = (sum(side) for side in zip(*totals, strict=True))
        predictions = max(1, predictions)
        norm = math.sqrt(sum(squares)) / predictions
        if math.isfinite(total) and math.isfinite(norm):
            clip = min(1.0, largest_gradient / (norm + 1e-6)) if largest_gradient else 1.0
            optimizer.begin(rate, clip / predictions)
            self.together(lambda me: optimizer.apply(me, self.workers))
        return total / predictions, norm, tokens

    def with_others(
        self, totals: Sequence[tuple[float, int]], gradients: list[Tensor]
    ) -> tuple[list[tuple[float, int]], list[float]]:
        """Losses and predictions of all workers of all processes, and squares of the norm of all gradients, which are
        added up."""
        mine, everybody = self.world.rank * self.workers, self.workers * self.world.size
        losses = torch.zeros(everybody, 2, dtype=torch.float64)
        losses[mine : mine + self.workers] = torch.tensor(totals, dtype=torch.float64)
        flat = self.gradients[0].flat
        self.world.add([losses, flat] if len(flat) else [losses, *gradients])
        self.optimizer.collect([gradients])
        both = [(loss, int(count)) for loss, count in losses.tolist()]
        return both, [self.optimizer.gather(part, everybody) for part in range(everybody)]

    def portion(self, batch: Batch, me: int, turn: int, *, single: bool) -> tuple[Batch | None, int]:
        """What a worker takes of an update's batch number `turn`, if anything, and how many threads it may use for it.

        Where long sentences cannot be divided evenly, the larger portions go to other workers each turn; the `single`
        batch of an update goes to the first worker of each process, which then uses all cores.
        """
        number, everybody = self.world.rank * self.workers + me, self.workers * self.world.size
        uneven = is_uneven(batch, everybody)
        if uneven and single:
            return (batch.share(self.world.rank, self.world.size), self.workers) if me == 0 else (None, 1)
        return batch.share((number + turn * uneven) % everybody, everybody), 1

    @contextmanager
    def threads(self, count: int) -> Iterator[None]:
        """Let the calling worker use more than its own core, while the others have nothing to do."""
        if count == 1:
            yield
            return
        torch.set_num_threads(count)
        try:
            yield
        finally:
            torch.set_num_threads(1)

    def together(self, job: Callable[[int], T], stop: Callable[[], bool] = NEVER) -> list[T]:
        """job(0), job(1), … at the same time, each on one core; one worker alone uses all threads of torch."""
        threads = torch.get_num_threads()
        torch.set_num_threads(threads if self.workers == 1 else 1)  # also for threads that torch starts meanwhile
        try:
            futures = [self.pool.submit(job, me) for me in range(self.workers)]
            while wait(futures, timeout=LOOK).not_done:
                if stop():
                    raise Stopped
            return [future.result() for future in futures]
        finally:
            torch.set_num_threads(threads)


def is_uneven(batch: Batch, workers: int) -> bool:
    """Whether a batch has so few and so long sentences that some workers would wait for the others."""
    sentences, longest = len(batch.rows), max(batch.source.shape[1], batch.target.shape[1])
    return sentences % workers > 0 and sentences < FEW * workers and longest > ops.LONGEST


class Gradients:
    """The gradients of one replica: kernels add theirs to one stretch of memory, the others come from autograd.

    `packed`, if given, has a `PackedMatrix` for each parameter; whoever changes the weights expires it.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], packed: Sequence[PackedMatrix] = ()) -> None:
        self.parameters = list(parameters)
        self.buffers = [OutputBuffers(matrix) for matrix in packed]
        self.flat = torch.zeros(0)
        self.rooms: list[Tensor] = []
        if ops.kernels(*parameters):
            sizes = [-(-parameter.numel() // 16) * 16 for parameter in parameters]  # each begins with a cache line
            self.flat = torch.zeros(sum(sizes))
            pieces = zip(self.flat.split(sizes), parameters, strict=True)
            self.rooms = [piece[: parameter.numel()].view(parameter.shape) for piece, parameter in pieces]

    def begin(self) -> None:
        """All are zero, and kernels know where to add."""
        self.flat.zero_()
        for parameter, room in zip(self.parameters, self.rooms, strict=False):
            parameter.into = room  # type: ignore[attr-defined]
        for parameter, buffers in zip(self.parameters, self.buffers, strict=False):
            parameter.buffers = buffers  # type: ignore[attr-defined]

    def end(self) -> list[Tensor]:
        """What was added up, one for each parameter; from here on autograd hears of every gradient again."""
        found = []
        for parameter in self.parameters:
            room, other = parameter.__dict__.pop("into", None), parameter.grad
            parameter.__dict__.pop("buffers", None)
            parameter.grad = None
            if room is None:
                room = torch.zeros_like(parameter) if other is None else other.contiguous()
            elif other is not None:
                room += other
            found.append(room)
        return found


def replicate(model: Model, workers: int, *, kernels: bool = True) -> list[Model]:
    """Return fast twins in training mode with gradients of their own; the first shares the model's running statistics.

    They share its weights.  Without `kernels` they are the model's own modules.
    """
    twins = [accelerate(model, own=True, kernels=kernels).train() for _ in range(workers)]
    for twin in twins[1:]:
        for module in twin.modules():
            module._buffers = {name: None if one is None else one.clone() for name, one in module._buffers.items()}
    return twins
