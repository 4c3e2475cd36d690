"""Multi-head attention: every query looks at every key and takes a weighted mean of values.

Paper: section 3.2, equation 1, figure 2.  The only place in jumok where attention is computed; the encoder, the
decoder and the attention between them all end in a `Score`.

Shapes   B batch · N rows · H heads · T queries · S keys · D model width · K width of one head · G rows sharing keys
Masks    bool, True where looking is allowed, broadcastable to (B, H, T, S); None allows everything
Maps     `maps` is None, or a list that receives the weights (B, H, T, S); then the explicit path is taken
Not here positions (positions.py), residual and norm (layers.py), search (decoding/).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jumok.nn import fused
from jumok.nn.layers import BARE, Linear, Path
from jumok.nn.positions import Rotary


def attend(scores: Tensor, values: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the attended values (B, H, T, K) and the weights (B, H, T, S): softmax(scores) V, equation 1.

    A query that may look nowhere (all of its mask is False) gets zeros, never NaN.
    """
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)  # (B, H, T, S)
    weights = scores.softmax(dim=-1)  # (B, H, T, S)
    if mask is not None:
        weights = weights * mask  # (B, H, T, S)
    mixed = weights @ values  # (B, H, T, K)
    return mixed, weights


def attend_behind(score: Score, q: Tensor, own: Pair, shared: Pair, padding: Padding) -> Tensor:
    """Attended values (N, H, 1, K) of queries that look at keys of their own and at those that their group shares.

    The own ones are (N, H, T, K), the shared ones (N / G, H, S, K): G neighbours look at the same, uncopied.
    """
    (rows, heads, _, width), groups, count = q.shape, len(shared[0]), shared[0].shape[2]
    grouped = q.reshape(groups, -1, heads, width).transpose(1, 2)  # (N / G, H, G, K)
    before = score.scores(grouped, shared[0]).masked_fill(~padding.allowed, -torch.inf)  # (N / G, H, G, S)
    scores = torch.cat([before.transpose(1, 2).reshape(rows, heads, 1, count), score.scores(q, own[0])], dim=-1)
    weights = scores.softmax(dim=-1)  # (N, H, 1, S + T)
    before = weights[..., :count].reshape(groups, -1, heads, count).transpose(1, 2)  # (N / G, H, G, S)
    mixed = (before @ shared[1]).transpose(1, 2).reshape(rows, heads, 1, -1)
    return mixed + weights[..., count:] @ own[1]


def look_ahead_mask(length: int, device: torch.device | None = None) -> Tensor:
    """Position t may look at positions 0 … t: a lower triangle (T, T)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


class Padding(NamedTuple):
    """Which keys of a batch are real, told twice: as a mask and, padding being at the end, as lengths."""

    allowed: Tensor  # (B, 1, 1, S)
    lengths: Tensor  # (B,)

    @classmethod
    def of(cls, real: Tensor) -> Padding | None:
        """From (B, S), True at real tokens; None when everything is real."""
        return None if bool(real.all()) else cls(real[:, None, None, :], real.sum(dim=1))

    def select(self, rows: Tensor) -> Padding:
        return Padding(self.allowed.index_select(0, rows), self.lengths.index_select(0, rows))


def regroup(sentence: Tensor, rows: Tensor, memories: int) -> tuple[Tensor | None, Tensor]:
    """What becomes of the memories that neighbours share, `sentence` (N,) of each row, when `rows` are selected.

    Which memories to take (None: all stay where they are), and which of them each row looks at then.  Every memory has
    equally many neighbours; where they would be uneven, every row gets a memory of its own.
    """
    chosen = sentence[rows]
    taken, counts = chosen.unique_consecutive(return_counts=True)
    if bool((counts != counts[:1]).any()):
        taken, counts = chosen, torch.ones_like(chosen)
    places = torch.arange(len(taken), device=rows.device)
    still = len(taken) == memories and torch.equal(taken, places)
    return None if still else taken, places.repeat_interleave(counts)


def allowed(padding: Padding | None) -> Tensor | None:
    """The mask, if there is padding."""
    return None if padding is None else padding.allowed


class DotScore(nn.Module):
    """Dot product of query and key times `scale`; without maps it runs in torch's fused kernel."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return (q * self.scale) @ k.transpose(-2, -1)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, causal: bool = False) -> Tensor:
        """Attended values without the weights; `causal` adds the look-ahead mask."""
        if causal and mask is not None:
            mask, causal = mask & look_ahead_mask(q.shape[-2], q.device), False
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, scale=self.scale)


class ScaledDot(DotScore):
    """q·k / sqrt(d_k): the paper's choice, section 3.2.1."""

    def __init__(self, heads: int, d_k: int) -> None:
        super().__init__(d_k**-0.5)


class PlainDot(DotScore):
    """q·k without the scale: what the paper says saturates the softmax when d_k is large."""

    def __init__(self, heads: int, d_k: int) -> None:
        super().__init__(1.0)


class Additive(nn.Module):
    """w·tanh(q + k): attention as Bahdanau et al. (2015) score it, one hidden layer per head."""

    def __init__(self, heads: int, d_k: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, d_k).uniform_(-(d_k**-0.5), d_k**-0.5))

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        hidden = torch.tanh(q.unsqueeze(-2) + k.unsqueeze(-3))  # (B, H, T, S, K)
        return torch.einsum("bhtsk,hk->bhts", hidden, self.weight)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, causal: bool = False) -> Tensor:
        if causal:
            ahead = look_ahead_mask(q.shape[-2], q.device)
            mask = ahead if mask is None else mask & ahead
        return attend(self.scores(q, k), v, mask)[0]


SCORES: dict[str, type[ScaledDot] | type[PlainDot] | type[Additive]] = {
    "scaled-dot": ScaledDot,
    "dot": PlainDot,
    "additive": Additive,
}
Score = DotScore | Additive
Pair = tuple[Tensor, Tensor]  # keys and values


def look(
    score: Score,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    *,
    causal: bool = False,
    maps: list[Tensor] | None = None,
) -> Tensor:
    """Attended values by the fused path, or by the explicit one when `maps` asks for the weights."""
    if maps is None:
        mixed: Tensor = score(q, k, v, mask, causal=causal)
        return mixed
    if causal:
        ahead = look_ahead_mask(q.shape[-2], q.device)
        mask = ahead if mask is None else mask & ahead
    mixed, weights = attend(score.scores(q, k), v, mask)
    maps.append(weights)
    return mixed


def packed(
    score: Score,
    first: Tensor,
    second: Tensor | None,
    padding: Padding | None,
    sizes: tuple[int, int, int],
    *,
    causal: bool = False,
    rotary: Rotary | None = None,
) -> Tensor | None:
    """Attended values (B, T, H·E) straight from packed projections, or None where there is no kernel for them."""
    keys = first.shape[1] if second is None else second.shape[1]
    turns = None if rotary is None else rotary.turns(0, keys)
    lib = fused.takes_attention(sizes, first, turns) if isinstance(score, DotScore) else None
    if lib is None:
        return None
    lengths = None if padding is None else padding.lengths
    out: Tensor = fused.Attention.apply(first, second, lengths, turns, sizes, score.scale, causal, lib)
    return out


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, T, H·K) seen as (B, H, T, K), without copying."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, T, K) back to (B, T, H·K): the concatenation of the heads."""
    return x.transpose(1, 2).flatten(2)


class Cache:
    """Keys and values of the steps so far, in a buffer that grows by doubling; row n belongs to hypothesis n."""

    def __init__(self, keys: Tensor, values: Tensor, length: int) -> None:
        self.keys, self.values, self.length = keys, values, length

    @classmethod
    def empty(cls, rows: int, heads: int, d_k: int, d_v: int, like: Tensor, *, room: int = 32) -> Cache:
        return cls(like.new_empty(rows, heads, room, d_k), like.new_empty(rows, heads, room, d_v), 0)

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add one step (N, H, 1, K) in place and return all keys and values so far."""
        if self.length == self.keys.shape[2]:
            self.keys = torch.cat([self.keys, torch.empty_like(self.keys)], dim=2)
            self.values = torch.cat([self.values, torch.empty_like(self.values)], dim=2)
        self.keys[:, :, self.length] = k[:, :, 0]
        self.values[:, :, self.length] = v[:, :, 0]
        self.length += 1
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def select(self, rows: Tensor) -> Cache:
        """The cache whose row n is this one's row rows[n]; copies only what is filled."""
        count, (_, heads, room, d_k), d_v = len(rows), self.keys.shape, self.values.shape[-1]
        keys, values = self.keys.new_empty(count, heads, room, d_k), self.values.new_empty(count, heads, room, d_v)
        keys[:, :, : self.length] = self.keys[:, :, : self.length].index_select(0, rows)
        values[:, :, : self.length] = self.values[:, :, : self.length].index_select(0, rows)
        return Cache(keys, values, self.length)


class SelfAttention(nn.Module):
    """Positions of one sequence look at each other: queries, keys and values from one product (section 3.2.3)."""

    def __init__(
        self, d_model: int, heads: int, d_k: int, d_v: int, *, score: str, bias: bool, rotary: Rotary | None = None
    ) -> None:
        super().__init__()
        self.heads, self.d_k, self.d_v = heads, d_k, d_v
        self.qkv = Linear(d_model, heads * d_k, heads * d_k, heads * d_v, bias=bias)
        self.output = Linear(heads * d_v, d_model, bias=bias)
        self.score: Score = SCORES[score](heads, d_k)
        self.rotary = rotary

    def split(self, qkv: Tensor, start: int | Tensor = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys (B, H, T, d_k) and values (B, H, T, d_v) of positions start, start + 1, …, or of those (B,)."""
        q, k, v = (split_heads(part, self.heads) for part in qkv.split(self.qkv.blocks, dim=-1))
        if self.rotary is not None:
            q, k = self.rotary(q, start), self.rotary(k, start)
        return q, k, v

    def forward(
        self,
        x: Tensor,
        padding: Padding | None,
        path: Path = BARE,
        keep: Tensor | None = None,
        *,
        causal: bool = False,
        maps: list[Tensor] | None = None,
        kept: list[Pair] | None = None,
    ) -> Tensor:
        """All positions (B, T, D) look at each other, or, with `causal`, at themselves and what is before them.

        `kept` is None, or a list that receives the keys and values (B, H, T, ·), for `step_behind`.
        """
        qkv, mixed = path.enter(x, self.qkv, keep), None
        if maps is None:
            sizes = (self.heads, self.d_k, self.d_v)
            mixed = packed(self.score, qkv, None, padding, sizes, causal=causal, rotary=self.rotary)
        if mixed is None:
            q, k, v = self.split(qkv)
            mixed = merge_heads(look(self.score, q, k, v, allowed(padding), causal=causal, maps=maps))
        if kept is not None:
            _, k, v = self.split(qkv)
            kept.append((k.contiguous(), v.contiguous()))
        return path.leave(x, mixed, self.output, keep)

    def cache(self, rows: int, like: Tensor) -> Cache:
        return Cache.empty(rows, self.heads, self.d_k, self.d_v, like)

    def step(self, x: Tensor, cache: Cache, path: Path = BARE) -> Tensor:
        """The next position (N, 1, D) looks at the cached ones and at itself; extends the cache in place."""
        q, k, v = self.split(path.enter(x, self.qkv), cache.length)
        keys, values = cache.append(k, v)
        return path.leave(x, merge_heads(look(self.score, q, keys, values, None)), self.output)

    def step_behind(
        self, x: Tensor, cache: Cache, shared: Pair, padding: Padding, positions: Tensor, path: Path = BARE
    ) -> Tensor:
        """`step` of N rows, each at a position of its own (N,), that look also at what their sentences begin with."""
        q, k, v = self.split(path.enter(x, self.qkv), positions)
        mixed = attend_behind(self.score, q, cache.append(k, v), shared, padding)
        return path.leave(x, merge_heads(mixed), self.output)


class CrossAttention(nn.Module):
    """The decoder looks at the encoder: queries from the decoder, keys and values from the memory (section 3.2.3)."""

    def __init__(self, d_model: int, heads: int, d_k: int, d_v: int, *, score: str, bias: bool) -> None:
        super().__init__()
        self.heads, self.d_k, self.d_v = heads, d_k, d_v
        self.query = Linear(d_model, heads * d_k, bias=bias)
        self.memory = Linear(d_model, heads * d_k, heads * d_v, bias=bias)
        self.output = Linear(heads * d_v, d_model, bias=bias)
        self.score: Score = SCORES[score](heads, d_k)

    def remember(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of the encoder's output: computed once, used at every step."""
        return self.split(self.memory(memory))

    def split(self, kv: Tensor) -> tuple[Tensor, Tensor]:
        k, v = kv.split(self.memory.blocks, dim=-1)
        return split_heads(k, self.heads), split_heads(v, self.heads)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        padding: Padding | None,
        path: Path = BARE,
        keep: Tensor | None = None,
        *,
        maps: list[Tensor] | None = None,
    ) -> Tensor:
        """All positions (B, T, D) look at the whole memory (B, S, D)."""
        q, kv, mixed = path.enter(x, self.query, keep), self.memory(memory), None
        if maps is None:
            mixed = packed(self.score, q, kv, padding, (self.heads, self.d_k, self.d_v))
        if mixed is None:
            k, v = self.split(kv)
            mixed = merge_heads(look(self.score, split_heads(q, self.heads), k, v, allowed(padding), maps=maps))
        return path.leave(x, mixed, self.output, keep)

    def step(self, x: Tensor, keys: Tensor, values: Tensor, padding: Padding | None, path: Path = BARE) -> Tensor:
        """One position of N rows over the memories of N / G sentences: G neighbours share one memory, uncopied."""
        rows, _, width = x.shape
        grouped = x.view(len(keys), rows // len(keys), width)
        q = split_heads(path.enter(grouped, self.query), self.heads)
        mixed = merge_heads(look(self.score, q, keys, values, allowed(padding)))
        return path.leave(grouped, mixed, self.output).view(rows, 1, width)
