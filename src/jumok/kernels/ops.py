"""Chains of small operations as one function each: a C kernel where there is one, the same in plain torch elsewhere.

What the parts of figure 1 are made of: linear layers with norm, relu, dropout and residual sum, embeddings, attention
between short sentences.  The kernels want float32 on a CPU; anything else, a machine without a compiler and
torch.compile take the plain path.

Shapes   B batch · T queries · S keys · D width · H heads · K width of a key · E width of a value
Not here the modules that call them (modules.py), the output layer (output.py).
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from jumok.kernels import library
from jumok.kernels.library import FLOAT, LONG, POINTER
from jumok.nn.dropout import Stream, drop

Context = Any  # torch's FunctionCtx, which takes any attribute
LONGEST = 256  # queries or keys; longer sentences compute their attention weights again instead of keeping them


def kernels(*tensors: Tensor | None) -> ctypes.CDLL | None:
    """The compiled kernels, if they can take these tensors."""
    compiled = library.load()
    if compiled is None or torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return None
    for tensor in tensors:
        if tensor is not None and (tensor.dtype is not torch.float32 or not tensor.is_cpu):
            return None
    return compiled


def at(*tensors: Tensor | None) -> list[int | None]:
    """Addresses; None stays None."""
    return [None if tensor is None else tensor.data_ptr() for tensor in tensors]


def within(ids: Tensor, symbols: int) -> Tensor:
    """Contiguous ids; an id outside the table is an error, as in torch, not a read beyond its end."""
    if ids.numel():
        least, most = (int(one) for one in ids.aminmax())
        if least < 0 or most >= symbols:
            raise IndexError(f"ids from {least} to {most} do not fit {symbols} symbols")
    return ids.contiguous()


def gradient_buffer(parameter: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """The buffer to which a kernel adds the gradient of a parameter, and what autograd gets as its gradient.

    A parameter with `into`, a tensor like itself, has its gradients added there, and autograd gets None: so they are
    never allocated and added up separately.  Without it autograd gets the buffer.
    """
    if parameter is None:
        return None, None
    into: Tensor | None = getattr(parameter, "into", None)
    if into is not None:
        return into, None
    fresh = torch.zeros_like(parameter, memory_format=torch.contiguous_format)
    return fresh, fresh


class Arrays:
    """The weights of a model by name, as arrays over the same memory."""

    def __init__(self, model: nn.Module) -> None:
        self.tensors = {name: one.detach() for name, one in model.named_parameters(remove_duplicate=False)}
        self.names = self.tensors.keys()

    def take(self, name: str, *shape: int) -> Any:
        assert self.tensors[name].shape == shape
        return self.tensors[name].contiguous().numpy()


# ---------------------------------------------------------------------------------------------------- dropout


class Drop(torch.autograd.Function):
    """Dropout in one pass; the backward pass draws the mask again."""

    @staticmethod
    def forward(ctx: Context, x: Tensor, rate: float, key: int, lib: ctypes.CDLL) -> Tensor:
        x = x.contiguous()
        out = torch.empty_like(x)
        lib.jk_dropout(*at(out, x), x.numel(), key, rate)
        ctx.rest = (rate, key, lib)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return Drop.forward(ctx, gradient, *ctx.rest), None, None, None


def dropout(x: Tensor, rate: float, stream: Stream) -> Tensor:
    """Zero a share of the elements and scale the others up."""
    if rate and (lib := kernels(x)):
        dropped: Tensor = Drop.apply(x, rate, stream.next(), lib)
        return dropped
    return drop(x, rate, stream)


# ------------------------------------------------------------------------------------------------- embeddings


class Embed(torch.autograd.Function):
    """dropout(table[ids] · scale + positions) in one pass."""

    @staticmethod
    def forward(
        ctx: Context, table: Tensor, ids: Tensor, positions: Tensor | None, scale: float, rate: float, key: int,
        lib: ctypes.CDLL,
    ) -> Tensor:  # fmt: skip
        ids, width, places = within(ids, len(table)), table.shape[1], None
        if positions is not None:
            positions, places = positions.contiguous(), torch.arange(ids.shape[-1]).expand(ids.shape).contiguous()
        out = table.new_empty(*ids.shape, width)
        lib.jk_embed(*at(out, table, ids, places, positions), ids.numel(), width, scale, key, rate)
        ctx.save_for_backward(ids, table)
        ctx.rest = (scale, key, rate, lib)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor | None, ...]:
        ids, table = ctx.saved_tensors
        scale, key, rate, lib = ctx.rest
        gradient, (into, returned) = gradient.contiguous(), gradient_buffer(table)
        lib.jk_embed_backward(*at(into, gradient, ids), ids.numel(), table.shape[1], scale, key, rate)
        return returned, None, None, None, None, None, None


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
    if lib := kernels(table):
        key = stream.next() if rate and stream else 0
        vectors: Tensor = Embed.apply(table, ids, positions, scale, rate, key, lib)
        return vectors
    vectors = F.embedding(ids, table) * scale
    if positions is not None:
        vectors = vectors + positions
    return dropout(vectors, rate, stream) if stream else vectors


# ---------------------------------------------------------------------------------------------- linear layers


class Around(NamedTuple):
    """Operations before and after a matrix product, in the order of the kernel's arguments."""

    eps: float  # of the norm before it
    relu: bool
    key: int  # of the dropout
    rate: float


class Linear(torch.autograd.Function):
    """residual + dropout(relu(norm(x) Wᵀ + b)), a few rows at a time, so that nothing in between leaves the core."""

    @staticmethod
    def forward(
        ctx: Context, x: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None, gain: Tensor | None,
        shift: Tensor | None, around: Around, lib: ctypes.CDLL,
    ) -> Tensor:  # fmt: skip
        x = x.contiguous()
        residual = None if residual is None else residual.contiguous()
        height, width = weight.shape
        rows = x.numel() // width
        y = x.new_empty(*x.shape[:-1], height)
        mean, scale = (None, None) if gain is None else (x.new_empty(rows), x.new_empty(rows))
        lib.jk_linear(*at(y, x, weight, bias, residual, mean, scale, gain, shift), rows, width, height, *around)
        ctx.save_for_backward(x, y if around.relu else None, weight, bias, mean, scale, gain, shift)
        ctx.rest = (around.key, around.rate, lib)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, active, weight, bias, mean, scale, gain, shift = ctx.saved_tensors
        key, rate, lib = ctx.rest
        gradient, (height, width) = gradient.contiguous(), weight.shape
        dx = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        added, returned = zip(*(gradient_buffer(parameter) for parameter in (weight, bias, gain, shift)), strict=True)
        lib.jk_linear_backward(
            *at(dx, *added, gradient, None, x, active, weight, mean, scale, gain, shift),
            x.numel() // width, width, height, key, rate,
        )  # fmt: skip
        residual = gradient if ctx.needs_input_grad[3] else None
        return dx, *returned[:2], residual, *returned[2:], None, None


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    norm: nn.LayerNorm | None = None,
    relu: bool = False,
    residual: Tensor | None = None,
    rate: float = 0.0,
    stream: Stream | None = None,
) -> Tensor:
    """x Wᵀ + b in one pass with a layer norm before it, and relu, or dropout and the residual sum, after it."""
    rate = rate if stream else 0.0
    plain = relu and (residual is not None or rate > 0.0)  # the backward pass reads the sign of relu's output
    if torch.is_grad_enabled() and not plain and takes_linear(x, weight, residual) and (lib := kernels(x, weight)):
        gain, shift, eps = (None, None, 0.0) if norm is None else (norm.weight, norm.bias, norm.eps)
        key = stream.next() if rate and stream else 0
        y: Tensor = Linear.apply(x, weight, bias, residual, gain, shift, Around(eps, relu, key, rate), lib)
        return y
    if norm is not None:
        x = F.layer_norm(x, norm.weight.shape, norm.weight, norm.bias, norm.eps)
    y = F.linear(x, weight, bias)
    if relu:
        y = y.relu()
    if stream is not None:
        y = dropout(y, rate, stream)
    return y if residual is None else residual + y


def takes_linear(x: Tensor, weight: Tensor, residual: Tensor | None) -> bool:
    """Whether the shapes are as the kernel reads them; others get torch's own message."""
    fits = weight.is_contiguous() and x.shape[-1:] == weight.shape[1:]
    return fits and (residual is None or residual.shape == (*x.shape[:-1], len(weight)))


# ------------------------------------------------------------------------------------------ likeliest tokens


def likeliest(logits: Tensor, count: int, never: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities and tokens (N, C) of the largest logits of each row, best first; logits may be used up.

    Tokens in `never` have their share of the probability but are not chosen.
    """
    count = min(count, logits.shape[-1])
    if logits.is_contiguous() and (lib := kernels(logits)):
        top = logits.new_empty(len(logits), count)
        tokens = torch.empty(len(logits), count, dtype=torch.long)
        lib.jk_candidates(*at(top, tokens, logits, never), len(never), *logits.shape, count)
        return top, tokens
    total = normalizer(logits)  # (N, 1)
    logits.index_fill_(1, never, -float("inf"))
    top, tokens = logits.topk(count, dim=-1)  # (N, C)
    return top - total, tokens


def normalizer(logits: Tensor) -> Tensor:
    """The logarithm (N, 1) of the sum of e^x over each row (N, V); the kernel's sums do not depend on other rows."""
    if logits.is_contiguous() and (lib := kernels(logits)):
        sums = logits.new_empty(len(logits), 1)
        lib.jk_log_sum_exp(*at(sums, logits), *logits.shape)
        return sums
    return logits.logsumexp(dim=-1, keepdim=True)  # (N, 1)


# -------------------------------------------------------------------------------------------------- attention


class AttentionTask(ctypes.Structure):
    """Which queries attend to which keys."""

    _fields_ = [
        *((name, LONG) for name in ("rows", "heads", "d_k", "d_v")),
        *((name, POINTER) for name in ("queries", "keys", "lengths", "rotary")),
        *((name, LONG) for name in ("q_stride", "k_stride", "v_stride", "causal", "longest")),
        ("factor", FLOAT),
    ]


class Attention(torch.autograd.Function):
    """Dot-product attention from packed projections: queries in `first`, keys and values in the last columns of
    `second`, or all three in `first` when `second` is None; with `turns` (T, 2, K), queries and keys are turned by
    their positions (nn.variants.Rotary).  Nothing is split, merged or copied."""

    @staticmethod
    def forward(
        ctx: Context, first: Tensor, second: Tensor | None, lengths: Tensor | None, turns: Tensor | None,
        sizes: tuple[int, int, int], scale: float, causal: bool, lib: ctypes.CDLL,
    ) -> Tensor:  # fmt: skip
        first = first.contiguous()
        second = None if second is None else second.contiguous()
        (batch, queries), (heads, d_k, d_v) = first.shape[:2], sizes
        packed = first if second is None else second
        keys = packed.shape[1]
        sentences = torch.arange(batch + 1)
        ctx.begins = (sentences * queries, sentences * keys)
        task = AttentionTask(
            batch, heads, d_k, d_v, *at(*ctx.begins, lengths, turns), first.shape[-1], packed.shape[-1],
            packed.shape[-1], causal, LONGEST, scale,
        )  # fmt: skip
        out = first.new_empty(batch, queries, heads * d_v)
        saved = first.new_empty(lib.jk_attention_saved_size(ctypes.byref(task)))
        lib.jk_attention(*at(out, saved), *places(first, second, sizes), ctypes.byref(task))
        ctx.save_for_backward(first, second, out, saved, lengths, turns)
        ctx.rest = (sizes, task, lib)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor | None, ...]:
        first, second, out, saved, _, _ = ctx.saved_tensors
        sizes, task, lib = ctx.rest
        gradient, dfirst = gradient.contiguous(), torch.empty_like(first)
        dsecond = None if second is None else torch.empty_like(second)
        lib.jk_attention_backward(
            *places(dfirst, dsecond, sizes),
            *at(gradient, out, saved),
            *places(first, second, sizes),
            ctypes.byref(task),
        )
        return dfirst, dsecond, None, None, None, None, None, None


def places(first: Tensor, second: Tensor | None, sizes: tuple[int, int, int]) -> list[int]:
    """Where queries, keys and values begin."""
    heads, d_k, _ = sizes
    packed, offset = (first, heads * d_k) if second is None else (second, 0)
    keys = packed.data_ptr() + offset * packed.element_size()
    return [first.data_ptr(), keys, keys + heads * d_k * packed.element_size()]


def takes_attention(sizes: tuple[int, int, int], *tensors: Tensor | None) -> ctypes.CDLL | None:
    """The kernels, if they are made for these sizes."""
    _, d_k, d_v = sizes
    return kernels(*tensors) if d_k % 8 == 0 and d_v % 8 == 0 else None
