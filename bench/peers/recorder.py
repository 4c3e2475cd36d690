"""Figures of a peer, measured as ours (jumok.bench.measure), as one JSON file.

A loop written here calls `Recorder.update`.  A toolkit with its own trainer is observed by `hook`: torch's embedding
gives the number of tokens, torch's optimisers the end of an update.  After enough updates the process writes its
figures and exits.
"""

import importlib.metadata
import json
import os
import sys
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.hooks import RemovableHandle

from bench.peers.task import Task
from jumok.bench.measure import SQUARES, Watch, Work, describe_context
from jumok.machine import peak_memory, sgemm


class Recorder:
    """A watch, and the description of the system."""

    def __init__(self, task: Task, system: str, package: str) -> None:
        self.task, self.system, self.version = task, system, importlib.metadata.version(package)
        self.watch = Watch(warmup=task.warmup, updates=task.updates)
        self.parameters = 0

    def update(self, work: Work) -> bool:
        """Record an update that has just ended; returns whether there are enough."""
        self.watch.update(work)
        return self.watch.enough

    def figures(self) -> dict[str, Any]:
        figures, memory = self.watch.figures(), peak_memory()
        return {
            "bench": "train",
            "system": self.system,
            "version": self.version,
            "torch": torch.__version__,
            "parameters": self.parameters,
            **figures,
            **describe_context(self.watch, sgemm(SQUARES), memory, threads=torch.get_num_threads()),
        }

    def finish(self) -> None:
        """Write the figures."""
        self.task.result.write_text(json.dumps(self.figures()) + "\n")


def count_parameters(optimizer: torch.optim.Optimizer) -> int:
    """The number of trained parameters, each tensor counted once."""
    tensors = {p.data_ptr(): p.numel() for group in optimizer.param_groups for p in group["params"]}
    return sum(tensors.values())


def hook(recorder: Recorder, *, pad: int, end: int) -> RemovableHandle:
    """Observe the trainer of this process; embeddings are alternately those of the source and of the target.

    Target tokens are those that are predicted.
    """
    plain, seen = F.embedding, []  # for each embedding since the last update: real tokens, grid, sentences

    def embedding(tokens: Tensor, weight: Tensor, *rest: Any, **options: Any) -> Tensor:
        if weight.shape[0] > recorder.task.symbols // 2 and torch.is_grad_enabled():
            real = int((tokens != pad).sum())
            if len(seen) % 2:  # a decoder's input of a shorter sentence keeps its END, which predicts nothing
                real -= int((tokens == end).sum())
            seen.append((real, tokens.numel(), tokens.shape[0]))
        return plain(tokens, weight, *rest, **options)

    def on_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        source, target = seen[0::2], seen[1::2]
        work = Work(
            source=sum(real for real, _, _ in source),
            target=sum(real for real, _, _ in target),
            grid=sum(grid for _, grid, _ in seen),
            sentences=sum(rows for _, _, rows in target),
        )
        seen.clear()
        recorder.parameters = recorder.parameters or count_parameters(optimizer)
        if recorder.update(work):
            recorder.finish()
            sys.stdout.flush()
            os._exit(0)  # the trainer would continue

    F.embedding = embedding
    return register_optimizer_step_post_hook(on_step)
