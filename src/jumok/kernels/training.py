"""A Transformer that is trained in two calls: from token ids to hidden states, and from their gradient to all others.

The kernels are those of ops.py in the same order, without the padding and without Python in between: no worker waits
for another one's Python, and what the backward pass needs is one tensor.

Shapes   B sentences · S source · T target · D width
Not here the output layer (output.py), translating (pack.py, stepping.py).
"""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from jumok.kernels import layout, ops
from jumok.kernels.library import FLOAT, LONG, POINTER
from jumok.models.base import PAD
from jumok.models.transformer import Transformer
from jumok.nn.dropout import Dropout

FLOAT_BYTES = 4


class PassTask(ctypes.Structure):
    """A training pass through a whole Transformer."""

    _fields_ = [
        ("layers", LONG * 2),
        *((name, LONG) for name in ("d_model", "heads", "d_k", "d_v", "d_ff", "pre", "rows", "grid", "longest")),
        *((name, POINTER * 2) for name in ("starts", "ids", "places", "positions")),
        *((name, POINTER) for name in ("rotary", "weights", "gradients", "keys", "rates")),
        *((name, FLOAT) for name in ("factor", "scale", "eps")),
    ]


class Memory:
    """What forward passes keep for their backward pass, reused by later ones.

    A pass takes the largest piece that is free and gives it back; one without a backward pass keeps its piece.  Pieces
    are pages of their own: in the heap of malloc, each one that is replaced by a larger one would leave a hole.
    """

    def __init__(self) -> None:
        self.free: list[Tensor] = []

    def take(self, size: int) -> Tensor:
        """A piece of at least so many numbers, of any value."""
        piece = self.free.pop() if self.free else None
        return piece if piece is not None and piece.numel() >= size else new_pages(size + size // 8)

    def give(self, piece: Tensor) -> None:
        self.free.append(piece)
        self.free.sort(key=Tensor.numel)


def new_pages(size: int) -> Tensor:
    """So many zeros in pages of their own, which go back to the system with them.

    All pages are resident from the beginning, so memory does not grow when later batches fill more of them.
    """
    if not hasattr(mmap, "MAP_ANONYMOUS"):
        return torch.zeros(size)
    pages = mmap.mmap(-1, max(1, size) * FLOAT_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return torch.frombuffer(pages, dtype=torch.float32).zero_()


class Whole:
    """A model that the kernels train in one call; `layout.find_obstacle` must have found none."""

    def __init__(self, model: Transformer) -> None:
        self.model, self.memory = model, Memory()
        modules = [model.get_submodule(name) if name else None for name in layout.walk(model.config)]
        pairs: list[Any] = [(None, None) if module is None else (module.weight, module.bias) for module in modules]
        self.parameters: list[Tensor | None] = [
            model.source.weight,
            model.target.weight,
            *(one for pair in pairs for one in pair),
        ]
        self.dropouts: list[Dropout] = [
            model.get_submodule(name)  # type: ignore[misc]
            for name in layout.list_dropouts(model.config)
        ]

    def hidden(self, source: Tensor, target: Tensor) -> Tensor | None:
        """Hidden states (B, T, D), zero at padding; None where the kernels cannot: another precision or device."""
        lib = ops.kernels(*self.parameters)
        if lib is None or not all(one is None or one.is_contiguous() for one in self.parameters):
            return None
        out: Tensor = Pass.apply(self, source, target, lib, *self.parameters)
        return out

    def describe(self, source: Tensor, target: Tensor) -> Job:
        """The task for the kernels, with the memory that must stay alive while they read it."""
        model, config = self.model, self.model.config
        d_k, d_v = config.head_widths
        task = PassTask(
            layers=(config.encoder_layers, config.decoder_layers), d_model=config.d_model, heads=config.heads,
            d_k=d_k, d_v=d_v, d_ff=config.d_ff, pre=config.norm_place == "pre",
            rows=len(target), grid=target.shape[1], longest=ops.LONGEST, factor=layout.scale_of_scores(config),
            scale=model.target.scale, eps=layout.EPS,
        )  # fmt: skip
        job = Job(task, [])
        for side, (tokens, embedding) in enumerate(((source, model.source), (target, model.target))):
            real, positions = tokens != PAD, embedding.positions(0, tokens.shape[1])
            starts = nn.functional.pad(real.sum(dim=1).cumsum(dim=0), (1, 0))  # (B + 1)
            places = real.nonzero()[:, 1].contiguous()
            ids = ops.within(tokens[real], len(embedding.weight))
            task.starts[side], task.ids[side], task.places[side] = job.keep(starts, ids, places)
            [task.positions[side]] = job.keep(None if positions is None else positions.contiguous())
        rotary: Any = model.get_submodule("decoder.0.attention").rotary
        [task.rotary] = job.keep(None if rotary is None else rotary.turns(0, max(source.shape[1], target.shape[1])))
        task.rates = job.array(FLOAT, [dropout.now for dropout in self.dropouts])
        keys = [dropout.stream.next() if dropout.now else 0 for dropout in self.dropouts]
        task.keys = job.array(ctypes.c_uint64, keys)
        return job


@dataclass(frozen=True)
class Job:
    """A task, and the memory that its addresses refer to."""

    task: PassTask
    retained: list[Any]

    def keep(self, *tensors: Tensor | None) -> list[int | None]:
        self.retained.extend(tensors)
        return ops.at(*tensors)

    def array(self, kind: Any, values: list[Any]) -> int:
        made = (kind * len(values))(*values)
        self.retained.append(made)
        return ctypes.addressof(made)


class Pass(torch.autograd.Function):
    """All hidden states in one call, all gradients in another."""

    @staticmethod
    def forward(
        ctx: Any, whole: Whole, source: Tensor, target: Tensor, lib: ctypes.CDLL, *parameters: Tensor | None,
    ) -> Tensor:  # fmt: skip
        job, table = whole.describe(source, target), parameters[1]
        task = job.task
        assert table is not None
        task.weights = job.array(POINTER, ops.at(*parameters))
        ctx.memory = whole.memory.take(lib.jk_pass_size(ctypes.byref(task)))
        hidden = table.new_empty(*target.shape, task.d_model)
        lib.jk_pass_forward(*ops.at(hidden, ctx.memory), ctypes.byref(task))
        ctx.save_for_backward(*parameters)
        ctx.job, ctx.lib, ctx.whole = job, lib, whole
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gradient, job = gradient.contiguous(), ctx.job
        added, returned = zip(*(ops.gradient_buffer(parameter) for parameter in ctx.saved_tensors), strict=True)
        job.task.gradients = job.array(POINTER, ops.at(*added))
        ctx.lib.jk_pass_backward(*ops.at(gradient, ctx.memory), ctypes.byref(job.task))
        ctx.whole.memory.give(ctx.memory)
        del ctx.memory, ctx.job
        return None, None, None, None, *returned
