"""Chains of small operations as one function each: a C kernel where there is one, the same in plain torch elsewhere.

What the parts of figure 1 are made of besides matrix products: dropout with the residual sum, layer norm, the edges of
linear layers, embeddings, attention between short sentences.  The kernels want float32 on a CPU; anything else, a
machine without a compiler and torch.compile take the plain path.

Shapes   B batch · T queries · S keys · D width · H heads · K width of a key · E width of a value
Not here the modules that own the weights (attention.py, layers.py), the output layer (loss.py).
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from jumok import native

Context = Any  # torch's FunctionCtx, which takes any attribute
LONGEST = 256  # keys: beyond them torch's own tiled kernel is faster


def kernels(*tensors: Tensor) -> ctypes.CDLL | None:
    """The compiled kernels, if they can take these tensors."""
    library = native.library()
    if library is None or torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return None
    for tensor in tensors:
        if tensor.dtype is not torch.float32 or not tensor.is_cpu:
            return None
    return library


def within(ids: Tensor, symbols: int) -> Tensor:
    """Ids as the kernels want them; one that no row belongs to is an error, as in torch, not a read beyond the end."""
    if ids.numel():
        least, most = (int(one) for one in ids.aminmax())
        if least < 0 or most >= symbols:
            raise IndexError(f"ids from {least} to {most} do not fit {symbols} symbols")
    return ids.contiguous()


class Stream:
    """Random keys, one after the other: from torch's generator, or, once `start`ed, from a key of its own."""

    def __init__(self) -> None:
        self.state: int | None = None

    def start(self, key: int) -> None:
        """What follows depends on nothing but this key."""
        self.state = key % 2**64

    def next(self) -> int:
        """64 random bits (splitmix64)."""
        if self.state is None:
            return int(torch.empty((), dtype=torch.int64).random_(-(2**63), None)) % 2**64
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        z = (self.state ^ (self.state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)


# ---------------------------------------------------------------------------------------------------- dropout


class DropAdd(torch.autograd.Function):
    """x + dropout(y) in one pass; the mask is drawn again on the way back instead of kept."""

    @staticmethod
    def forward(ctx: Context, x: Tensor | None, y: Tensor, rate: float, key: int, lib: ctypes.CDLL) -> Tensor:
        y = y.contiguous()
        x = None if x is None else x.contiguous()
        out = torch.empty_like(y)
        lib.drop_add(out.data_ptr(), None if x is None else x.data_ptr(), y.data_ptr(), y.numel(), key, rate)
        ctx.rate, ctx.key, ctx.lib = rate, key, lib
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gradient = gradient.contiguous()
        dy = torch.empty_like(gradient)
        ctx.lib.drop_add(dy.data_ptr(), None, gradient.data_ptr(), gradient.numel(), ctx.key, ctx.rate)
        return gradient if ctx.needs_input_grad[0] else None, dy, None, None, None


class CheapDropout(torch.autograd.Function):
    """Dropout in plain torch from 16 random bits an element: a quarter of the generator's work, exact to 2^-17."""

    @staticmethod
    def forward(ctx: Context, x: Tensor, rate: float, key: int) -> Tensor:
        generator = torch.Generator().manual_seed(key)
        bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None, generator=generator)
        threshold = round(rate * 65_536)
        factor = (bits.view(torch.int16)[: x.numel()] >= threshold - 32_768).view(x.shape).to(x.dtype)
        factor.mul_(65_536 / (65_536 - threshold))
        ctx.save_for_backward(factor)
        return x * factor

    @staticmethod
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor, None, None]:
        (factor,) = ctx.saved_tensors
        return gradient * factor, None, None


def dropout(x: Tensor, rate: float, stream: Stream) -> Tensor:
    """Zero a share of the elements and scale the others up."""
    if rate == 0.0:
        return x
    if lib := kernels(x):
        dropped: Tensor = DropAdd.apply(None, x, rate, stream.next(), lib)
        return dropped
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, rate)
    cheap: Tensor = CheapDropout.apply(x, rate, stream.next() >> 1)
    return cheap


def drop_add(x: Tensor, y: Tensor, rate: float, stream: Stream) -> Tensor:
    """x + dropout(y): the residual connection."""
    if rate and x.shape == y.shape and (lib := kernels(x, y)):
        out: Tensor = DropAdd.apply(x, y, rate, stream.next(), lib)
        return out
    return x + dropout(y, rate, stream)


# ------------------------------------------------------------------------------------------------- embeddings


class Embed(torch.autograd.Function):
    """dropout(table[ids] · scale + positions) in one pass."""

    @staticmethod
    def forward(
        ctx: Context, table: Tensor, ids: Tensor, positions: Tensor | None, scale: float, rate: float, key: int,
        lib: ctypes.CDLL,
    ) -> Tensor:  # fmt: skip
        ids, width = within(ids, len(table)), table.shape[1]
        if positions is not None:
            positions = positions.contiguous()
        out = table.new_empty(*ids.shape, width)
        where = None if positions is None else positions.data_ptr()
        lib.embed(
            out.data_ptr(), table.data_ptr(), ids.data_ptr(), where, ids.numel(), ids.shape[-1], width, scale, key, rate
        )
        ctx.save_for_backward(ids)
        ctx.rest = (table.shape, scale, key, rate, lib)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (ids,) = ctx.saved_tensors
        shape, scale, key, rate, lib = ctx.rest
        gradient = gradient.contiguous()
        table = gradient.new_zeros(shape)
        lib.embed_backward(
            table.data_ptr(), gradient.data_ptr(), ids.data_ptr(), ids.numel(), shape[1], scale, key, rate
        )
        return table, None, None, None, None, None, None


def embed(
    table: Tensor,
    ids: Tensor,
    positions: Tensor | None,
    *,
    scale: float,
    rate: float = 0.0,
    stream: Stream | None = None,
) -> Tensor:
    """dropout(table[ids] · scale + positions): tokens (B, T), fixed positions (T, D) or None, to (B, T, D)."""
    if (lib := kernels(table)) and (positions is None or not positions.requires_grad):
        key = stream.next() if rate and stream else 0
        vectors: Tensor = Embed.apply(table, ids, positions, scale, rate, key, lib)
        return vectors
    vectors = F.embedding(ids, table) * scale
    if positions is not None:
        vectors = vectors + positions
    return dropout(vectors, rate, stream) if stream else vectors


# ------------------------------------------------------------------------------------------------------- norm


class Norm(torch.autograd.Function):
    """Layer norm with one pass forward and one back."""

    @staticmethod
    def forward(ctx: Context, x: Tensor, weight: Tensor, bias: Tensor, eps: float, lib: ctypes.CDLL) -> Tensor:
        x, width = x.contiguous(), x.shape[-1]
        rows = x.numel() // width
        y, mean, scale = torch.empty_like(x), x.new_empty(rows), x.new_empty(rows)
        lib.norm(
            y.data_ptr(), mean.data_ptr(), scale.data_ptr(), x.data_ptr(), weight.data_ptr(), bias.data_ptr(), rows,
            width, eps,
        )  # fmt: skip
        ctx.save_for_backward(x, mean, scale, weight)
        ctx.lib = lib
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, mean, scale, weight = ctx.saved_tensors
        gradient = gradient.contiguous()
        dx, dweight, dbias = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(weight)
        ctx.lib.norm_backward(
            dx.data_ptr(), dweight.data_ptr(), dbias.data_ptr(), gradient.data_ptr(), x.data_ptr(), mean.data_ptr(),
            scale.data_ptr(), weight.data_ptr(), len(mean), x.shape[-1],
        )  # fmt: skip
        return dx, dweight, dbias, None, None


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Mean 0 and variance 1 over the last dimension, then scale and shift."""
    if x.shape[-1:] == weight.shape and (lib := kernels(x, weight)):
        y: Tensor = Norm.apply(x, weight, bias, eps, lib)
        return y
    return F.layer_norm(x, weight.shape, weight, bias, eps)


# ---------------------------------------------------------------------------------------------- linear layers


class Linear(torch.autograd.Function):
    """x Wᵀ + b, through relu if asked; the bias's gradient and relu's mask are one pass on the way back."""

    @staticmethod
    def forward(ctx: Context, x: Tensor, weight: Tensor, bias: Tensor, relu: bool, lib: ctypes.CDLL) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        y = torch.addmm(bias, flat, weight.t())
        if relu:
            y.relu_()
        ctx.save_for_backward(flat, weight, *([y] if relu else []))
        ctx.shape, ctx.lib = x.shape, lib
        return y.view(*x.shape[:-1], len(weight))

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor | None, ...]:
        flat, weight, *active = ctx.saved_tensors
        gradient = gradient.reshape(-1, len(weight)).contiguous()
        left, active = (torch.empty_like(gradient), active[0]) if active else (gradient, None)
        dbias = gradient.new_empty(len(weight))
        mask = None if active is None else active.data_ptr()
        ctx.lib.column_sum(dbias.data_ptr(), left.data_ptr(), gradient.data_ptr(), mask, len(gradient), len(weight))
        dx = (left @ weight).view(ctx.shape) if ctx.needs_input_grad[0] else None
        return dx, left.t() @ flat, dbias, None, None


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, *, relu: bool = False) -> Tensor:
    """x Wᵀ + b, then relu if asked."""
    if bias is not None and torch.is_grad_enabled() and (lib := kernels(x, weight)):
        y: Tensor = Linear.apply(x, weight, bias, relu, lib)
        return y
    y = F.linear(x, weight, bias)
    return y.relu() if relu else y


# -------------------------------------------------------------------------------------------------- attention


class Attention(torch.autograd.Function):
    """Dot-product attention from packed projections: queries in `first`, keys and values in the last columns of
    `second`, or all three in `first` when `second` is None.  Nothing is split, merged or copied."""

    @staticmethod
    def forward(
        ctx: Context, first: Tensor, second: Tensor | None, lengths: Tensor | None, sizes: tuple[int, int, int],
        scale: float, causal: bool, lib: ctypes.CDLL,
    ) -> Tensor:  # fmt: skip
        first = first.contiguous()
        second = None if second is None else second.contiguous()
        (batch, queries), (heads, d_k, d_v) = first.shape[:2], sizes
        keys = queries if second is None else second.shape[1]
        out = first.new_empty(batch, queries, heads * d_v)
        weights = first.new_empty(batch, heads, queries, -(-keys // 8) * 8)
        lib.attention(
            out.data_ptr(), weights.data_ptr(), *places(first, second, sizes),
            None if lengths is None else lengths.data_ptr(), batch, heads, queries, keys, d_k, d_v, scale, causal,
        )  # fmt: skip
        ctx.save_for_backward(first, second, weights)
        ctx.rest = (sizes, scale, lib)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor | None, ...]:
        first, second, weights = ctx.saved_tensors
        sizes, scale, lib = ctx.rest
        gradient = gradient.contiguous()
        (batch, queries), (heads, d_k, d_v) = first.shape[:2], sizes
        keys = queries if second is None else second.shape[1]
        dfirst = torch.empty_like(first)
        dsecond = None if second is None else torch.empty_like(second)
        lib.attention_backward(
            *places(dfirst, dsecond, sizes)[::2], gradient.data_ptr(), weights.data_ptr(),
            *places(first, second, sizes), batch, heads, queries, keys, d_k, d_v, scale,
        )  # fmt: skip
        return dfirst, dsecond, None, None, None, None, None


def places(first: Tensor, second: Tensor | None, sizes: tuple[int, int, int]) -> list[int]:
    """Address and row stride of queries, keys and values."""
    heads, d_k, _ = sizes
    behind, offset = (first, heads * d_k) if second is None else (second, 0)
    at, step, size = behind.data_ptr(), behind.shape[-1], behind.element_size()
    keys, values = at + offset * size, at + (offset + heads * d_k) * size
    return [first.data_ptr(), first.shape[-1], keys, step, values, step]


def takes_attention(sizes: tuple[int, int, int], keys: int, *tensors: Tensor) -> ctypes.CDLL | None:
    """The kernels, if they are made for these sizes."""
    _, d_k, d_v = sizes
    return kernels(*tensors) if keys <= LONGEST and d_k % 8 == 0 and d_v % 8 == 0 else None
