"""Fast parts of models: sub-layers, linear layers, dropout and embeddings that run in the kernels.

Every class takes the place of one in nn/ or of a layer of the Transformer, computes the same up to rounding, and falls
back to plain torch where the kernels cannot run: another precision or device, torch.compile, autocast, no compiler.

Shapes   B batch · T positions · H heads · E width of a value
Not here the operations themselves (ops.py), whole models (modules.py, others.py).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import functional as F

from jumok.kernels import ops
from jumok.models.transformer import DecoderLayer, EncoderLayer
from jumok.nn.attention import (
    EVERYTHING,
    CrossAttention,
    Mask,
    SelfAttention,
    attend,
    merge_heads,
    scaled_dot,
    split_heads,
)
from jumok.nn.dropout import Dropout
from jumok.nn.embedding import Embedding
from jumok.nn.layers import FeedForward, LayerNorm, Linear, PostNorm, PreNorm, Residual
from jumok.nn.positions import Add
from jumok.nn.variants import Dot, GatedFeedForward, PreNormAlone


class Fast:
    """The mark of a class that takes the place of a model's own."""

    @classmethod
    def takes(cls, module: Any) -> bool:
        """Whether it can take the place of this module's class."""
        return True


# ------------------------------------------------------------------------------------------ parts of any model


class FastLinear(Fast, Linear):
    def forward(self, x: Tensor) -> Tensor:
        return ops.linear(x, self.weight, self.bias)


class FastDropout(Fast, Dropout):
    def forward(self, x: Tensor) -> Tensor:
        return ops.dropout(x, self.now, self.stream)


class FastEmbedding(Fast, Embedding):
    def forward(self, tokens: Tensor, start: int = 0) -> Tensor:
        positions, dropout = self.positions(start, tokens.shape[-1]), self.dropout
        if isinstance(self.join, Add) and (positions is None or not positions.requires_grad):
            return ops.embed(self.weight, tokens, positions, scale=self.scale, rate=dropout.now, stream=dropout.stream)
        x: Tensor = dropout(self.join(ops.embed(self.weight, tokens, None, scale=self.scale), positions))
        return x


# ------------------------------------------------------------------------------------- sub-layers of attention


def is_dot(module: SelfAttention | CrossAttention) -> bool:
    return module.score is scaled_dot or isinstance(module.score, Dot)


def scale_of(module: SelfAttention | CrossAttention) -> float:
    return module.score.scale if isinstance(module.score, Dot) else module.d_k**-0.5


def sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Mask, scale: float) -> Tensor:
    """torch's own attention."""
    allowed = None if mask.causal else mask.allowed(q)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, is_causal=mask.causal, scale=scale)


class FastAttend(Fast):
    """Dot products by torch's own attention, which gives no weights."""

    score: Any

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = EVERYTHING) -> tuple[Tensor, Tensor | None]:
        if not is_dot(self):  # type: ignore[arg-type]
            return attend(q, k, v, mask.allowed(q), score=self.score)
        return sdpa(q, k, v, mask, scale_of(self)), None  # type: ignore[arg-type]


class FastSelfAttention(FastAttend, SelfAttention):
    pass


class FastCrossAttention(FastAttend, CrossAttention):
    pass


def mix(module: SelfAttention | CrossAttention, first: Tensor, second: Tensor | None, mask: Mask) -> Tensor | None:
    """Attended values (B, T, H·E) straight from packed projections, or None where there is no kernel for them."""
    if not is_dot(module):
        return None
    sizes = (module.heads, module.d_k, module.d_v)
    rotary = getattr(module, "rotary", None)
    keys = first.shape[1] if second is None else second.shape[1]
    turns = None if rotary is None else rotary.turns(0, keys)
    lib = ops.takes_attention(sizes, first, turns)
    if lib is None:
        return None
    lengths = None if mask.causal or mask.real is None else mask.real.sum(dim=1)
    out: Tensor = ops.Attention.apply(first, second, lengths, turns, sizes, scale_of(module), mask.causal, lib)
    return out


def enter(path: Residual, x: Tensor, first: Linear, mask: Mask, *, relu: bool = False) -> Tensor:
    """The first matrix of a sub-layer, with the norm before it."""
    if not isinstance(path, PreNorm | PreNormAlone):
        return ops.linear(x, first.weight, first.bias, relu=relu)
    if isinstance(path.norm, LayerNorm):
        return ops.linear(x, first.weight, first.bias, norm=path.norm, relu=relu)
    return ops.linear(path.norm(x, mask), first.weight, first.bias, relu=relu)


def leave(path: Residual, x: Tensor, y: Tensor, last: Linear, mask: Mask) -> Tensor:
    """The last matrix of a sub-layer, with dropout, residual sum and norm after it."""
    residual = x if isinstance(path, PostNorm | PreNorm) else None
    joined = ops.linear(y, last.weight, last.bias, residual=residual, rate=path.dropout.now, stream=path.dropout.stream)
    normed: Tensor = joined if isinstance(path, PreNorm | PreNormAlone) else path.norm(joined, mask)
    return normed


def attend_to_self(path: Residual, module: SelfAttention, x: Tensor, mask: Mask) -> Tensor:
    qkv = enter(path, x, module.qkv, mask)
    mixed = mix(module, qkv, None, mask)
    if mixed is None:
        mixed = merge_heads(module.attend(*module.separate(qkv), mask)[0])
    return leave(path, x, mixed, module.output, mask)


def attend_to_memory(
    path: Residual, module: CrossAttention, x: Tensor, mask: Mask, memory: Tensor, memory_mask: Mask
) -> Tensor:
    query, both = enter(path, x, module.query, mask), module.memory(memory)
    mixed = mix(module, query, both, memory_mask)
    if mixed is None:
        k, v = module.separate(both)
        mixed = merge_heads(module.attend(split_heads(query, module.heads), k, v, memory_mask)[0])
    return leave(path, x, mixed, module.output, mask)


def feed_forward(path: Residual, module: FeedForward | GatedFeedForward, x: Tensor, mask: Mask) -> Tensor:
    if isinstance(module, GatedFeedForward):
        gate, value = enter(path, x, module.inner, mask).chunk(2, dim=-1)
        return leave(path, x, F.silu(gate) * value, module.outer, mask)
    if module.activation is F.relu:
        return leave(path, x, enter(path, x, module.inner, mask, relu=True), module.outer, mask)
    return leave(path, x, module.activation(enter(path, x, module.inner, mask)), module.outer, mask)


class FastEncoderLayer(Fast, EncoderLayer):
    def forward(self, x: Tensor, mask: Mask) -> Tensor:
        x = attend_to_self(self.attention_path, self.attention, x, mask)
        return feed_forward(self.feed_forward_path, self.feed_forward, x, mask)


class FastDecoderLayer(Fast, DecoderLayer):
    def forward(self, x: Tensor, mask: Mask, memory: Tensor, memory_mask: Mask) -> Tensor:
        x = attend_to_self(self.attention_path, self.attention, x, mask)
        x = attend_to_memory(self.cross_path, self.cross, x, mask, memory, memory_mask)
        return feed_forward(self.feed_forward_path, self.feed_forward, x, mask)
