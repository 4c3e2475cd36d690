"""Multi-head attention: every query takes a weighted mean of values, weighted by how well it fits their keys.

Paper: section 3.2, figure 2.  `attend` is equation 1.  Encoder, decoder, cross-attention and the models that the paper
compares itself with all call it; training and translating may put a faster function in its place (kernels/modules.py),
equal to it up to rounding.

Shapes   B batch · H heads · T queries · S keys · D model width · K width of one head
Not here other scores than the paper's (variants.py), residual and norm (layers.py), caches (cache.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from jumok.nn.cache import Cache
from jumok.nn.layers import Linear

if TYPE_CHECKING:
    from jumok.nn.variants import Rotary


@dataclass(frozen=True)
class Mask:
    """What each position may see: the real tokens, or, if `causal`, itself and the positions before it.

    Padding is at the end of a sequence, so a causal mask hides it from every real token anyway.
    """

    real: Tensor | None = None  # (B, S) True at real tokens; None where all of them are
    causal: bool = False

    @classmethod
    def padding(cls, real: Tensor) -> Mask:
        """Hide what is not real (B, S)."""
        return cls(None if bool(real.all()) else real)

    def allowed(self, q: Tensor) -> Tensor | None:
        """Which keys the queries (B, H, T, K) may attend to, broadcastable to (B, H, T, S); None: all."""
        if self.causal:
            return torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).tril()
        return None if self.real is None else self.real[:, None, None, :]

    def select(self, rows: Tensor) -> Mask:
        return Mask(None if self.real is None else self.real.index_select(0, rows), self.causal)


EVERYTHING = Mask()


def scaled_dot(q: Tensor, k: Tensor) -> Tensor:
    """q kᵀ / sqrt(d_k): the paper's score, section 3.2.1."""
    return q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5


Score = Callable[[Tensor, Tensor], Tensor]
MakeScore = Callable[[int, int], Score]  # from the number of heads and their width d_k


def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, score: Score = scaled_dot
) -> tuple[Tensor, Tensor]:
    """Attention(Q, K, V) = softmax(Q Kᵀ / sqrt(d_k)) V, equation 1: the values (B, H, T, K), the weights (B, H, T, S).

    The mask is True where attention is allowed; a query with nothing to attend to gets zeros, never NaN.
    """
    scores = score(q, k)  # (B, H, T, S)
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)  # (B, H, T, S)
    weights = scores.softmax(dim=-1)  # (B, H, T, S)
    if mask is not None:
        weights = weights * mask  # (B, H, T, S)
    return weights @ v, weights


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, T, H·K) seen as (B, H, T, K), without copying."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, T, K) back to (B, T, H·K): the concatenation of the heads."""
    return x.transpose(1, 2).flatten(2)


class Attention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O (section 3.2.2), wherever Q, K and V come from."""

    heads: int
    score: Score
    output: Linear  # W^O

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = EVERYTHING) -> tuple[Tensor, Tensor | None]:
        """Equation 1; a faster function may take its place and give no weights."""
        return attend(q, k, v, mask.allowed(q), score=self.score)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = EVERYTHING) -> Tensor:
        """Equation 1 in every head, the heads concatenated, and W^O: (B, T, D)."""
        return self.output(merge_heads(self.attend(q, k, v, mask)[0]))


class SelfAttention(Attention):
    """Positions of one sequence attend to each other; W^Q, W^K and W^V are one matrix (section 3.2.3)."""

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_k: int,
        d_v: int,
        *,
        score: MakeScore,
        bias: bool,
        rotary: Rotary | None = None,
    ) -> None:
        super().__init__()
        self.heads, self.d_k, self.d_v = heads, d_k, d_v
        self.qkv = Linear(d_model, heads * d_k, heads * d_k, heads * d_v, bias=bias)  # W^Q, W^K and W^V
        self.output = Linear(heads * d_v, d_model, bias=bias)
        self.score = score(heads, d_k)
        self.rotary = rotary

    def split(self, x: Tensor, start: int | Tensor = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values (B, H, T, K) of x at positions start, start + 1, …, or at one (B,) for each row."""
        return self.separate(self.qkv(x), start)

    def separate(self, qkv: Tensor, start: int | Tensor = 0) -> tuple[Tensor, Tensor, Tensor]:
        """The same from their packed product (B, T, H·K · 3)."""
        q, k, v = (split_heads(part, self.heads) for part in qkv.split(self.qkv.blocks, dim=-1))
        if self.rotary is not None:
            q, k = self.rotary(q, start), self.rotary(k, start)
        return q, k, v

    def forward(self, x: Tensor, mask: Mask) -> Tensor:
        """All positions (B, T, D) attend to what the mask allows."""
        return self.mix(*self.split(x), mask)

    def empty_cache(self, x: Tensor) -> Cache:
        """A cache for as many rows as x has."""
        return Cache.empty(len(x), self.heads, self.d_k, self.d_v, x)

    def step(self, x: Tensor, cache: Cache) -> Tensor:
        """The next position (N, 1, D) attends to the cached ones and to itself; extends the cache."""
        q, k, v = self.split(x, cache.length)
        return self.mix(q, *cache.append(k, v))


class CrossAttention(Attention):
    """The decoder attends to the encoder: queries from the decoder, keys and values from the memory (section 3.2.3)."""

    def __init__(self, d_model: int, heads: int, d_k: int, d_v: int, *, score: MakeScore, bias: bool) -> None:
        super().__init__()
        self.heads, self.d_k, self.d_v = heads, d_k, d_v
        self.query = Linear(d_model, heads * d_k, bias=bias)  # W^Q
        self.memory = Linear(d_model, heads * d_k, heads * d_v, bias=bias)  # W^K and W^V
        self.output = Linear(heads * d_v, d_model, bias=bias)
        self.score = score(heads, d_k)

    def read(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (B, H, S, K) of the encoder's output: computed once, used at every step."""
        return self.separate(self.memory(memory))

    def separate(self, both: Tensor) -> tuple[Tensor, Tensor]:
        """The same from their packed product (B, S, H·K · 2)."""
        k, v = both.split(self.memory.blocks, dim=-1)
        return split_heads(k, self.heads), split_heads(v, self.heads)

    def forward(self, x: Tensor, memory: Tensor, mask: Mask) -> Tensor:
        """All positions (B, T, D) attend to the memory (B, S, D)."""
        return self.mix(split_heads(self.query(x), self.heads), *self.read(memory), mask)

    def step(self, x: Tensor, keys: Tensor, values: Tensor, mask: Mask) -> Tensor:
        """One position of N rows (N, 1, D): G neighbouring rows attend to the memory of one sentence."""
        rows, _, width = x.shape
        q = split_heads(self.query(x.view(len(keys), rows // len(keys), width)), self.heads)
        return self.mix(q, keys, values, mask).view(rows, 1, width)


@contextmanager
def watch(model: nn.Module) -> Iterator[dict[Attention, Tensor]]:
    """Collect the weights (B, H, T, S) of every attention that runs inside, by the module that computed them."""
    weights: dict[Attention, Tensor] = {}
    modules = [module for module in model.modules() if isinstance(module, Attention)]

    def record(module: Attention, q: Tensor, k: Tensor, v: Tensor, mask: Mask = EVERYTHING) -> tuple[Tensor, Tensor]:
        mixed, weights[module] = attend(q, k, v, mask.allowed(q), score=module.score)
        return mixed, weights[module]

    try:
        for module in modules:
            module.attend = partial(record, module)  # type: ignore[method-assign]
        yield weights
    finally:
        for module in modules:
            del module.attend
