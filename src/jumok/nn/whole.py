"""A Transformer that learns in two calls: from token ids to hidden states, and from their gradient to all others.

`Whole.of` takes the parts of a model, or gives None where a part has no kernel; the model then works layer by layer.
The kernels are those of fused.py in the same order, without the padding and without Python in between: no worker waits
for another one's Python, and what the way back needs is one tensor.

Shapes   B sentences · S source · T target · D width
Not here the layers themselves (attention.py, layers.py), the output layer (loss.py), translating (packed.py).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from jumok.nn import fused
from jumok.nn.attention import DotScore
from jumok.nn.layers import LayerNorm, Linear, PreNorm, ReluFeedForward
from jumok.nn.packed import Parts, Side

POINTER, LONG, FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
Pair = tuple[Tensor | None, Tensor | None]


class Task(ctypes.Structure):
    _fields_ = [
        ("layers", LONG * 2),
        *((name, LONG) for name in ("d_model", "heads", "d_k", "d_v", "d_ff", "pre", "rows", "grid", "longest")),
        *((name, POINTER * 2) for name in ("starts", "ids", "places", "positions")),
        *((name, POINTER) for name in ("turns", "weights", "gradients", "keys", "rates")),
        *((name, FLOAT) for name in ("factor", "scale", "eps")),
    ]


def sublayers(parts: Parts) -> list[Pair]:
    """The pairs of weights of one layer in the order of the kernel: self-attention, attention over the source, net."""
    net = parts.feed_forward
    assert isinstance(net, ReluFeedForward)
    found = [dense(parts.attention.qkv), dense(parts.attention.output), norming(parts.attention_path.norm)]
    if parts.cross is not None and parts.cross_path is not None:
        found += [dense(one) for one in (parts.cross.query, parts.cross.memory, parts.cross.output)]
        found += [norming(parts.cross_path.norm)]
    return [*found, dense(net.inner), dense(net.outer), norming(parts.feed_forward_path.norm)]


def dense(linear: Linear) -> Pair:
    return linear.weight, linear.bias


def norming(norm: nn.Module) -> Pair:
    return (norm.weight, norm.bias) if isinstance(norm, LayerNorm) else (None, None)


class Memory:
    """What passes keep until their way back, used again by later ones: malloc would give so much back to the system.

    A pass takes the largest piece that is free and gives it back; one that never comes back takes its piece along.
    """

    def __init__(self) -> None:
        self.free: list[Tensor] = []

    def take(self, size: int, like: Tensor) -> Tensor:
        piece = self.free.pop() if self.free else like.new_empty(0)
        return piece if piece.numel() >= size else like.new_empty(size + size // 8)

    def give(self, piece: Tensor) -> None:
        self.free.append(piece)
        self.free.sort(key=Tensor.numel)

    def __reduce__(self) -> tuple[Any, ...]:
        return Memory, ()  # a copy of a model has its own


@dataclass(frozen=True)
class Whole:
    """The encoder and the decoder of a model that the kernels can run through."""

    encoder: Side
    decoder: Side
    memory: Memory = field(default_factory=Memory)

    @classmethod
    def of(cls, encoder: Side, decoder: Side) -> Whole | None:
        return cls(encoder, decoder) if all(parts.fit() for parts in (*encoder.layers, *decoder.layers)) else None

    def parameters(self) -> list[Tensor | None]:
        """Every weight as often as the kernel reads it: in pairs, of which one or both may be missing."""
        pairs: list[Pair] = [(self.encoder.table, self.decoder.table)]
        for side in (self.encoder, self.decoder):
            for parts in side.layers:
                pairs += sublayers(parts)
            pairs.append(norming(side.last))
        return [one for pair in pairs for one in pair]

    def hidden(
        self,
        source: Tensor,
        target: Tensor,
        real: tuple[Tensor, Tensor],
        positions: tuple[Tensor | None, Tensor | None],
    ) -> Tensor | None:
        """Hidden states (B, T, D), zero at padding; `real` (B, ·) tells, for both sides, what is none.

        None where the kernels cannot: another precision or device, or weights that are not contiguous.  Positions are
        fixed.
        """
        parameters = self.parameters()
        lib = fused.kernels(*parameters, *positions)
        lie = all(one is None or one.is_contiguous() for one in parameters)
        if lib is None or not lie:
            return None
        out: Tensor = Pass.apply(self, (source, target), real, positions, lib, *parameters)
        return out

    def task(self, source: Tensor, target: Tensor, real: Iterable[Tensor], positions: Iterable[Tensor | None]) -> Job:
        """What the kernels are told, and what must live as long as they may read it."""
        first = self.decoder.layers[0]
        attention, net, norm = first.attention, first.feed_forward, first.attention_path.norm
        assert isinstance(attention.score, DotScore)
        assert isinstance(net, ReluFeedForward)
        assert isinstance(norm, LayerNorm)
        longest = max(source.shape[1], target.shape[1])
        task = Task(
            layers=(len(self.encoder.layers), len(self.decoder.layers)), d_model=self.decoder.table.shape[1],
            heads=attention.heads, d_k=attention.d_k, d_v=attention.d_v, d_ff=len(net.inner.weight),
            pre=isinstance(first.attention_path, PreNorm), rows=len(target), grid=target.shape[1],
            longest=fused.LONGEST, factor=attention.score.scale, scale=self.decoder.scale, eps=norm.eps,
        )  # fmt: skip
        job = Job(task, [])
        tables = (self.encoder.table, self.decoder.table)
        sides = zip((source, target), real, positions, tables, strict=True)
        for side, (tokens, keep, where, table) in enumerate(sides):
            starts = nn.functional.pad(keep.sum(dim=1).cumsum(dim=0), (1, 0))  # (B + 1)
            places = keep.nonzero()[:, 1].contiguous()
            ids = fused.within(tokens[keep], len(table))
            task.starts[side], task.ids[side], task.places[side] = job.keep(starts, ids, places)
            [task.positions[side]] = job.keep(None if where is None else where.contiguous())
        turns = None if attention.rotary is None else attention.rotary.turns(0, longest)
        [task.turns] = job.keep(turns)
        dropouts = [*self.encoder.dropouts(), *self.decoder.dropouts()]
        task.rates = job.array(FLOAT, [dropout.now for dropout in dropouts])
        task.keys = job.array(ctypes.c_uint64, [dropout.stream.next() if dropout.now else 0 for dropout in dropouts])
        return job


@dataclass(frozen=True)
class Job:
    """A task and what it has addresses of."""

    task: Task
    kept: list[Any]

    def keep(self, *tensors: Tensor | None) -> list[int | None]:
        self.kept.extend(tensors)
        return fused.at(*tensors)

    def array(self, kind: Any, values: list[Any]) -> int:
        made = (kind * len(values))(*values)
        self.kept.append(made)
        return ctypes.addressof(made)


class Pass(torch.autograd.Function):
    """All hidden states in one call, all gradients in another."""

    @staticmethod
    def forward(
        ctx: Any, whole: Whole, tokens: tuple[Tensor, Tensor], real: tuple[Tensor, Tensor],
        positions: tuple[Tensor | None, Tensor | None], lib: ctypes.CDLL, *parameters: Tensor | None,
    ) -> Tensor:  # fmt: skip
        job = whole.task(*tokens, real, positions)
        task, table = job.task, whole.decoder.table
        task.weights = job.array(POINTER, fused.at(*parameters))
        ctx.memory = whole.memory.take(lib.pass_size(ctypes.byref(task)), table.detach())
        hidden = table.new_empty(*tokens[1].shape, task.d_model)
        lib.pass_forward(*fused.at(hidden, ctx.memory), ctypes.byref(task))
        ctx.save_for_backward(*parameters)
        ctx.job, ctx.lib, ctx.whole = job, lib, whole
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gradient, job = gradient.contiguous(), ctx.job
        added, told = zip(*(fused.room(parameter) for parameter in ctx.saved_tensors), strict=True)
        job.task.gradients = job.array(POINTER, fused.at(*added))
        ctx.lib.pass_backward(*fused.at(gradient, ctx.memory), ctypes.byref(job.task))
        ctx.whole.memory.give(ctx.memory)
        del ctx.memory, ctx.job
        return None, None, None, None, None, *told
