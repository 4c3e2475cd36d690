"""A second reading of a model's parts: each is called as the model calls it, and what it returns is recorded.

    reader = Reader(edits)
    y = reader.attend_to_itself("encoder.0.attention", Place("encoder", 0), layer.attention, x, mask)
    reader.blocks["encoder.0.attention"]["scores"]

Without edits every value is the model's, bit for bit: the operations are the same, in the same order.  With edits the
part does what is left of it.  Whole passes are in passes.py; they decide which part comes after which.

Shapes   B batch · H heads · T queries · S keys · D model width · K width of one head · F feed-forward width
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from jumok.inside.edits import NOTHING, Edits
from jumok.nn.attention import (
    Attention,
    CrossAttention,
    Mask,
    Score,
    SelfAttention,
    merge_heads,
    scaled_dot,
    split_heads,
)
from jumok.nn.cache import Cache
from jumok.nn.embedding import Embedding
from jumok.nn.layers import FeedForward, LayerNorm, NoNorm, PostNorm, PreNorm, Residual
from jumok.nn.positions import Add
from jumok.nn.variants import Dot, GatedFeedForward, PreNormAlone

Values = dict[str, Tensor]
Sublayer = Callable[[Tensor], Tensor]


class Place(NamedTuple):
    """Which attention of a model: its kind and its layer, and where the queries are that it gets."""

    kind: str
    layer: int
    query: int | None = None  # the position of all queries, if there is only one; None: they are all positions


class Reader:
    """Calls parts of a model, applies edits and, unless told otherwise, records what the parts return."""

    def __init__(self, edits: Edits = NOTHING, *, recording: bool = True) -> None:
        self.edits, self.recording = edits, recording
        self.blocks: dict[str, Values] = {}

    def note(self, block: str, **values: Tensor | None) -> None:
        """Record the values of a block, after those that it has."""
        if self.recording:
            given = {name: value for name, value in values.items() if value is not None}
            self.blocks.setdefault(block, {}).update(given)

    # -- embeddings

    def embed(self, name: str, embedding: Embedding, tokens: Tensor, start: int = 0) -> Tensor:
        """Vectors (B, T, D) of tokens (B, T): table, scale, position, dropout."""
        row = F.embedding(tokens, embedding.weight)  # (B, T, D)
        x = row * embedding.scale  # (B, T, D)
        self.note(f"{name}.embedding", row=row, scaled=x)
        position = embedding.positions(start, tokens.shape[-1])
        if "positions" in self.edits.off and position is not None:
            position = None if isinstance(embedding.join, Add) else torch.zeros_like(position)
        before, x = x, embedding.join(x, position)
        if position is not None:
            self.note(f"{name}.positions", input=before, position=position, output=x)
        dropped: Tensor = embedding.dropout(x)
        return dropped

    def find_vectors(self, name: str) -> Tensor:
        """The recorded vectors (B, T, D) that the first layer was given: with positions, if they are added."""
        added = self.blocks.get(f"{name}.positions")
        return self.blocks[f"{name}.embedding"]["scaled"] if added is None else added["output"]

    # -- attention

    def attend_to_itself(
        self, name: str, place: Place, attention: SelfAttention, x: Tensor, mask: Mask, cache: Cache | None = None
    ) -> Tensor:
        """Self-attention of x (B, T, D); with a cache, of one position with those before it."""
        packed = attention.qkv(x)
        q, k, v = (split_heads(part, attention.heads) for part in packed.split(attention.qkv.blocks, dim=-1))
        self.note(name, input=x, q=q, k=k, v=v)
        if attention.rotary is not None and "positions" not in self.edits.off:
            start = 0 if cache is None else cache.length
            q, k = attention.rotary(q, start), attention.rotary(k, start)
            self.note(name, q_turned=q, k_turned=k)
        allowed = None
        if cache is None:
            allowed = self.allow(mask, q)
        else:
            k, v = cache.append(k, v)
        return self.mix(name, place, attention, q, k, v, allowed)

    def attend_to_memory(
        self,
        name: str,
        place: Place,
        attention: CrossAttention,
        x: Tensor,
        memory: tuple[Tensor, Tensor],
        mask: Mask,
    ) -> Tensor:
        """Attention of x (B, T, D) over keys and values (B, H, S, K) of the encoder's output."""
        q, (k, v) = split_heads(attention.query(x), attention.heads), memory
        self.note(name, input=x, q=q, k=k, v=v)
        return self.mix(name, place, attention, q, k, v, mask.allowed(q))

    def allow(self, mask: Mask, q: Tensor) -> Tensor | None:
        """Which keys queries may attend to; without the mask all of them, but never padding of a source."""
        if mask.causal and "mask" in self.edits.off:
            return None
        return mask.allowed(q)

    def mix(
        self, name: str, place: Place, attention: Attention, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None
    ) -> Tensor:
        """Equation 1 in every head, the heads concatenated, and W^O: (B, T, D)."""
        mixed = self.attend(name, place, attention.score, q, k, v, allowed)  # (B, H, T, K)
        if silent := self.edits.silent(place.kind, place.layer):
            mixed = mixed.index_fill(1, torch.tensor(silent, device=mixed.device), 0.0)
        joined = merge_heads(mixed)
        output: Tensor = attention.output(joined)
        self.note(name, joined=joined, output=output)
        return output

    def attend(
        self, name: str, place: Place, score: Score, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None
    ) -> Tensor:
        """Scores, mask, softmax and weighted mean of the values: (B, H, T, K)."""
        products, scores = self.compare(score, q, k)
        self.note(name, products=products, scores=scores)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)  # (B, H, T, S)
            self.note(name, mask=allowed.expand(scores.shape))
        weights = scores.softmax(dim=-1)  # (B, H, T, S)
        if allowed is not None:
            weights = weights * allowed  # (B, H, T, S)
        weights = self.rewrite(place, weights)
        mixed = weights @ v  # (B, H, T, K)
        self.note(name, weights=weights, mixed=mixed)
        return mixed

    def compare(self, score: Score, q: Tensor, k: Tensor) -> tuple[Tensor | None, Tensor]:
        """The dot products of queries and keys, None where the score is made of none; and the scores."""
        if score is scaled_dot:
            products = q @ k.transpose(-2, -1)
            return products, products if "scale" in self.edits.off else products / q.shape[-1] ** 0.5
        if isinstance(score, Dot):
            products = q @ k.transpose(-2, -1)
            return products, products * score.scale
        return None, score(q, k)

    def rewrite(self, place: Place, weights: Tensor) -> Tensor:
        """The weights (B, H, T, S) with the rows that are given."""
        for row in self.edits.rows_of(place.kind, place.layer):
            queries, keys = weights.shape[2:]
            if (place.query is None and row.query >= queries) or place.query not in (None, row.query):
                continue
            given = torch.zeros(keys, dtype=weights.dtype, device=weights.device)
            shares = torch.tensor(row.shares[:keys], dtype=weights.dtype, device=weights.device)
            given[: len(shares)] = shares
            weights = weights.clone()
            if place.query is None:
                weights[:, row.head, row.query] = given
            else:
                weights[:, row.head] = given
        return weights

    # -- the rest of a layer

    def pass_around(self, name: str, path: Residual, x: Tensor, sublayer: Sublayer, mask: Mask | None = None) -> Tensor:
        """Norm, sub-layer, dropout and residual sum, in the order of the path."""
        before = isinstance(path, PreNorm | PreNormAlone)
        adds = isinstance(path, PreNorm | PostNorm) and "residual" not in self.edits.off
        y = path.dropout(sublayer(self.norm(f"{name}.norm", path.norm, x, mask) if before else x))
        total = x + y if adds else y
        if adds:
            self.note(f"{name}.add", input=x, sublayer=y, output=total)
        return total if before else self.norm(f"{name}.norm", path.norm, total, mask)

    def norm(self, name: str, norm: Any, x: Tensor, mask: Mask | None = None) -> Tensor:
        """A norm of the model; the identity is not recorded."""
        if isinstance(norm, NoNorm) or "norm" in self.edits.off:
            return x
        y: Tensor = norm(x, mask)
        if self.recording:
            self.note(name, input=x, **describe_norm(norm, x), output=y)
        return y

    def feed_forward(self, name: str, network: Any, x: Tensor) -> Tensor:
        """Equation 2, or its variant: both matrices and what is between them."""
        inner = network.inner(x)  # (B, T, F)
        if isinstance(network, GatedFeedForward):
            gate, value = inner.chunk(2, dim=-1)
            active = F.silu(gate) * value
        else:
            assert isinstance(network, FeedForward)
            active = network.activation(inner)
        output: Tensor = network.outer(active)
        self.note(name, input=x, inner=inner, active=active, output=output)
        return output


def describe_norm(norm: Any, x: Tensor) -> Values:
    """What a norm subtracts and divides by, (B, T, 1) each: those of LayerNorm, and what RMSNorm has of them."""
    if isinstance(norm, LayerNorm):
        mean = x.mean(dim=-1, keepdim=True)
        variance = x.var(dim=-1, keepdim=True, unbiased=False)
        return {"mean": mean, "deviation": (variance + norm.eps).sqrt()}
    if hasattr(norm, "variance"):  # BatchNorm has them for each feature, not for each token
        return {"mean": norm.mean.expand(x.shape), "deviation": (norm.variance + norm.eps).sqrt().expand(x.shape)}
    return {"deviation": (x.square().mean(dim=-1, keepdim=True) + (norm.eps or 0.0)).sqrt()}
