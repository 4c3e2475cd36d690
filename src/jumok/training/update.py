"""One update on all cores: each worker takes its share of the sentences, and the gradients are added up.

A worker never waits for another within its share, and its matrices stay in the cache of its core; threads that share
every small operation would wait for each other some thousand times per update, and long on a busy machine.  Every
worker has a replica of the model that shares the weights and has separate gradients.  Which worker takes which
sentence, and the order in which gradients are added, is fixed, so a run depends only on the number of workers.  The
packed output matrix is shared by all workers of an update.
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

FEW = 3  # sentences per worker from which on an uneven division costs little
POLL = 0.2  # seconds between two checks whether to stop
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
        """`replicas` of the model come from `replicate`, each with its objective."""
        self.model, self.models, self.objectives = model, replicas, objectives
        self.optimizer, self.workers, self.world = optimizer, len(replicas), world
        workers = self.workers
        self.packed = [PackedMatrix() for _ in model.parameters()]  # one for all replicas, which have the same weights
        self.gradients = [Gradients(list(replica.parameters()), self.packed) for replica in self.models]
        self.dropouts = [Dropouts(replica) for replica in self.models]
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

        A loss or gradient that is not finite changes nothing.  `Stopped` is raised only while nothing has changed.
        """
        tokens = sum(batch.tokens for batch in batches)
        for matrix in self.packed:
            matrix.expire()
        abandoned = threading.Event()

        def work(me: int) -> tuple[float, int]:
            total, predictions, number_of_all = 0.0, 0, self.world.rank * self.workers + me
            self.gradients[me].begin()
            for turn, (batch, number) in enumerate(zip(batches, keys, strict=True)):
                share, threads = self.divide(batch, me, turn, single=len(batches) == 1)
                if share and share.tokens and not abandoned.is_set():
                    self.dropouts[me].start(key(number, "worker", number_of_all), dropout)
                    with self.use_threads(threads):
                        loss, count = self.objectives[me](share)
                        loss.backward()
                    total, predictions = total + loss.item(), predictions + count
            return total, predictions

        try:
            totals = self.run_workers(work, stop if self.world.size == 1 else NEVER)  # several agree between updates
        except Stopped:  # workers finish their batch, and their gradients are not used
            abandoned.set()
            raise
        finally:  # also after an error the parameters are ordinary ones again
            sums = [] if abandoned.is_set() else [gradients.end() for gradients in self.gradients]
        optimizer = self.optimizer
        optimizer.collect(sums)
        squares = self.run_workers(lambda me: optimizer.gather(me, self.workers))
        if self.world.size > 1:
            totals, squares = self.add_other_processes(totals, sums[0])
        total, predictions = (sum(side) for side in zip(*totals, strict=True))
        predictions = max(1, predictions)
        norm = math.sqrt(sum(squares)) / predictions
        if math.isfinite(total) and math.isfinite(norm):
            clip = min(1.0, largest_gradient / (norm + 1e-6)) if largest_gradient else 1.0
            optimizer.begin(rate, clip / predictions)
            self.run_workers(lambda me: optimizer.apply(me, self.workers))
        return total / predictions, norm, tokens

    def add_other_processes(
        self, totals: Sequence[tuple[float, int]], gradients: list[Tensor]
    ) -> tuple[list[tuple[float, int]], list[float]]:
        """Add up the gradients of all processes; (loss, predictions) of all workers, and squares of the norm."""
        first, workers = self.world.rank * self.workers, self.workers * self.world.size
        losses = torch.zeros(workers, 2, dtype=torch.float64)
        losses[first : first + self.workers] = torch.tensor(totals, dtype=torch.float64)
        flat = self.gradients[0].flat
        self.world.add([losses, flat] if len(flat) else [losses, *gradients])
        self.optimizer.collect([gradients])
        totals = [(loss, int(count)) for loss, count in losses.tolist()]
        return totals, [self.optimizer.gather(part, workers) for part in range(workers)]

    def divide(self, batch: Batch, me: int, turn: int, *, single: bool) -> tuple[Batch | None, int]:
        """A worker's share of batch number `turn` of an update, if any, and how many threads it may use for it.

        Where long sentences cannot be divided evenly, the larger shares go to other workers each turn; the `single`
        batch of an update goes to the first worker of each process, which then uses all cores.
        """
        number, workers = self.world.rank * self.workers + me, self.workers * self.world.size
        uneven = is_uneven(batch, workers)
        if uneven and single:
            return (batch.share(self.world.rank, self.world.size), self.workers) if me == 0 else (None, 1)
        return batch.share((number + turn * uneven) % workers, workers), 1

    @contextmanager
    def use_threads(self, count: int) -> Iterator[None]:
        """Let the calling worker use several cores while the other workers are idle."""
        if count == 1:
            yield
            return
        torch.set_num_threads(count)
        try:
            yield
        finally:
            torch.set_num_threads(1)

    def run_workers(self, job: Callable[[int], T], stop: Callable[[], bool] = NEVER) -> list[T]:
        """Run job(0), job(1), … at the same time, each on one core; a single worker uses all threads of torch."""
        threads = torch.get_num_threads()
        torch.set_num_threads(threads if self.workers == 1 else 1)  # also for threads that torch starts meanwhile
        try:
            futures = [self.pool.submit(job, me) for me in range(self.workers)]
            while wait(futures, timeout=POLL).not_done:
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
    """The gradients of one replica: kernels add theirs to one buffer, the others come from autograd.

    `packed`, if given, has a `PackedMatrix` for each parameter; it must be expired when the weights change.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], packed: Sequence[PackedMatrix] = ()) -> None:
        self.parameters = list(parameters)
        self.buffers = [OutputBuffers(matrix) for matrix in packed]
        self.flat = torch.zeros(0)
        self.slices: list[Tensor] = []  # of `flat`, one for each parameter
        if ops.kernels(*parameters):
            sizes = [-(-parameter.numel() // 16) * 16 for parameter in parameters]  # each begins at a cache line
            self.flat = torch.zeros(sum(sizes))
            pieces = zip(self.flat.split(sizes), parameters, strict=True)
            self.slices = [piece[: parameter.numel()].view(parameter.shape) for piece, parameter in pieces]

    def begin(self) -> None:
        """Set all to zero, and tell kernels where to add theirs."""
        self.flat.zero_()
        for parameter, gradient in zip(self.parameters, self.slices, strict=False):
            parameter.into = gradient  # type: ignore[attr-defined]
        for parameter, buffers in zip(self.parameters, self.buffers, strict=False):
            parameter.buffers = buffers  # type: ignore[attr-defined]

    def end(self) -> list[Tensor]:
        """The sum for each parameter; from here on all gradients go through autograd again."""
        sums = []
        for parameter in self.parameters:
            gradient, other = parameter.__dict__.pop("into", None), parameter.grad
            parameter.__dict__.pop("buffers", None)
            parameter.grad = None
            if gradient is None:
                gradient = torch.zeros_like(parameter) if other is None else other.contiguous()
            elif other is not None:
                gradient += other
            sums.append(gradient)
        return sums


def replicate(model: Model, workers: int, *, kernels: bool = True) -> list[Model]:
    """Accelerated copies of a model in training mode that share its weights and have separate gradients.

    The first also shares the model's running statistics.  Without `kernels` they consist of the model's own modules.
    """
    replicas = [accelerate(model, own=True, kernels=kernels).train() for _ in range(workers)]
    for replica in replicas[1:]:
        for module in replica.modules():
            copies = {name: None if buffer is None else buffer.clone() for name, buffer in module._buffers.items()}
            module._buffers = copies
    return replicas
