"""A Transformer packed for translating: the encoder is one call, and so is each step of the decoder.

`Packed.of` packs the parts of a model for the C kernels, or gives None where a part has none; the model then works
layer by layer in torch.  `Steps` is what a packed decoder remembers: keys and values are written once and never moved.
What comes out for a hypothesis does not depend on what else is in the batch, to the last bit.

Shapes   B sentences · S source · N rows (hypotheses) · D width · V vocabulary · W keys and values of all heads
Not here the layers themselves (attention.py, layers.py).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from jumok.native.searching import LONG, POINTER, Dense, Found, Layer, Norming, Search, Stack, search
from jumok.nn import fused
from jumok.nn.attention import CrossAttention, DotScore, SelfAttention
from jumok.nn.layers import Dropout, LayerNorm, Linear, PostNorm, PreNorm, ReluFeedForward

ROOM = 32  # positions that a new cache has place for


class Moment(ctypes.Structure):
    _fields_ = [
        *((name, LONG) for name in ("rows", "at", "room", "source")),
        *((name, POINTER) for name in ("tokens", "origin", "sentence", "lengths", "position")),
    ]


@dataclass(frozen=True)
class Parts:
    """One layer: each sub-layer and the path around it; an encoder's has no attention over the source."""

    attention: SelfAttention
    attention_path: PostNorm
    feed_forward: nn.Module
    feed_forward_path: PostNorm
    cross: CrossAttention | None = None
    cross_path: PostNorm | None = None

    def paths(self) -> list[PostNorm]:
        """The path of each sub-layer, in order."""
        return [one for one in (self.attention_path, self.cross_path, self.feed_forward_path) if one is not None]

    def fit(self) -> bool:
        """Whether the kernels are made for these parts."""
        attentions, paths = [one for one in (self.attention, self.cross) if one is not None], self.paths()
        return (
            isinstance(self.feed_forward, ReluFeedForward)
            and all(isinstance(one.score, DotScore) and one.d_k % 8 == one.d_v % 8 == 0 for one in attentions)
            and all(path.residual and isinstance(path.norm, LayerNorm) for path in paths)
        )


@dataclass(frozen=True)
class Side:
    """The encoder or the decoder: embeddings with their factor and dropout, layers, the norm behind the last."""

    table: nn.Parameter
    scale: float
    dropout: Dropout
    layers: Sequence[Parts]
    last: nn.Module

    def dropouts(self) -> list[Dropout]:
        """All dropout, in the order in which it happens."""
        return [self.dropout, *(path.dropout for parts in self.layers for path in parts.paths())]


Versions = tuple[tuple[int, int], ...]


def versions(parameters: Iterable[Tensor]) -> Versions:
    """Which weights these are and how often they were changed in place."""
    return tuple((one.data_ptr(), 0 if one.is_inference() else one._version) for one in parameters)


class Packed:
    """The weights of a model as the kernels read them.  They are a copy: change a weight, and pack again."""

    def __init__(self, encoder: Side, decoder: Side, matrix: Tensor, made: Versions) -> None:
        self.made, self.source, self.target, self.symbols = made, encoder.table, decoder.table, len(matrix)
        attention = decoder.layers[0].attention
        self.width = attention.heads * (attention.d_k + attention.d_v)  # of keys and values
        self.rotary = attention.rotary
        self.kept: list[Any] = []  # what the kernels have addresses of
        self.encoder, self.decoder = self.stack(encoder), self.stack(decoder)
        self.decoder.output = self.dense(matrix, None)

    @classmethod
    def of(cls, encoder: Side, decoder: Side, matrix: Tensor, made: Versions) -> Packed | None:
        """The packed model, or None where there is no kernel for a part of it; `made` says of which weights."""
        fit = all(parts.fit() for parts in (*encoder.layers, *decoder.layers))
        drops = any(dropout.now for side in (encoder, decoder) for dropout in side.dropouts())
        return cls(encoder, decoder, matrix, made) if fit and not drops else None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()  # a copy of a model packs for itself

    def dense(self, weight: Tensor, bias: Tensor | None) -> Dense:
        lib = fused.kernels(weight)
        assert lib is not None
        weight = weight.detach().contiguous()
        height, width = weight.shape
        packed = weight.new_empty(lib.packed_size(width, height))
        lib.pack_weight(*fused.at(packed, weight), width, height)
        self.kept += [packed, bias]
        return Dense(*fused.at(packed, bias), width, height)

    def norm(self, norm: nn.Module | None) -> Norming:
        return Norming(*fused.at(norm.weight, norm.bias)) if isinstance(norm, LayerNorm) else Norming()

    def layer(self, parts: Parts) -> Layer:
        own, other, net = parts.attention, parts.cross, parts.feed_forward
        assert isinstance(net, ReluFeedForward)
        matrices: dict[str, Linear] = {"qkv": own.qkv, "own": own.output, "inner": net.inner, "outer": net.outer}
        if other is not None:
            matrices |= {"query": other.query, "remember": other.memory, "other": other.output}
        paths = (parts.attention_path, parts.cross_path, parts.feed_forward_path)
        norms = (Norming * 3)(*(self.norm(None if path is None else path.norm) for path in paths))
        return Layer(**{name: self.dense(one.weight, one.bias) for name, one in matrices.items()}, norms=norms)

    def stack(self, side: Side) -> Stack:
        first = side.layers[0]
        attention, path = first.attention, first.attention_path
        assert isinstance(attention.score, DotScore)
        assert isinstance(path.norm, LayerNorm)
        each = (Layer * len(side.layers))(*map(self.layer, side.layers))
        self.kept += [each, side]
        return Stack(
            layers=len(side.layers), d_model=side.table.shape[1], heads=attention.heads, d_k=attention.d_k,
            d_v=attention.d_v, pre=isinstance(path, PreNorm), table=side.table.data_ptr(), last=self.norm(side.last),
            each=each, factor=attention.score.scale, scale=side.scale, eps=path.norm.eps,
        )  # fmt: skip

    def at(self, stack: Stack, *, turns: Tensor | None, caches: Sequence[Tensor], memories: Sequence[Tensor]) -> Stack:
        """A stack that works on these tensors, and nobody else's."""
        layers = (Layer * stack.layers)(*stack.each[: stack.layers])
        for layer, cache in zip(layers, caches, strict=False):
            layer.cache = cache.data_ptr()
        for layer, memory in zip(layers, memories, strict=False):
            layer.memory = memory.data_ptr()
        placed = Stack.from_buffer_copy(stack)
        placed.each, [placed.turns] = layers, fused.at(turns)
        return placed

    def turns(self, length: int) -> Tensor | None:
        """The angles of the first positions, where positions are rotary."""
        return None if self.rotary is None else self.rotary.turns(0, length)

    def start(self, source: Tensor, lengths: Tensor, positions: Tensor | None) -> Steps:
        """Encode (B, S), of which lengths (B,) are real, once; positions (S, D) are those of the source, or None."""
        lib = fused.kernels(self.source, positions)
        assert lib is not None
        (rows, length), turns = source.shape, self.turns(source.shape[1])
        source = fused.within(source, len(self.source))
        memories = [self.source.new_empty(rows, length, self.width) for _ in range(self.decoder.layers)]
        encoder = self.at(self.encoder, turns=turns, caches=(), memories=())
        decoder = self.at(self.decoder, turns=turns, caches=(), memories=memories)
        positions = None if positions is None else positions.contiguous()
        lib.encoder_run(
            ctypes.byref(encoder), ctypes.byref(decoder), *fused.at(source, lengths), rows, length,
            *fused.at(positions),
        )  # fmt: skip
        return Steps(self, memories, lengths, torch.arange(rows), torch.zeros(rows, ROOM, dtype=torch.long))

    def search(
        self,
        sources: Sequence[Sequence[int]],
        limits: Sequence[int],
        how: Search,
        positions: tuple[Tensor | None, Tensor | None],
        **tokens: Any,
    ) -> list[list[Found]]:
        """All of it in one call; `positions` are those of each side, as many as the longest needs."""
        lib = fused.kernels(self.source, *positions)
        assert lib is not None
        for ids in sources:
            if min(ids) < 0 or max(ids) >= len(self.source):
                raise IndexError(f"ids from {min(ids)} to {max(ids)} do not fit {len(self.source)} symbols")
        turns = self.turns(max([*map(len, sources), *limits]))
        encoder, decoder = (
            self.at(stack, turns=turns, caches=(), memories=()) for stack in (self.encoder, self.decoder)
        )
        kept = [None if one is None else one.contiguous() for one in positions]
        first, second = fused.at(*kept)
        return search(lib, encoder, decoder, sources, limits, how, positions=(first, second), **tokens)


@dataclass
class Caches:
    """Keys and values of all layers, (slots, room, W) each; `owner` is the state that may write to them."""

    tensors: list[Tensor]
    owner: Any = None

    def fitting(self, slots: int, room: int, *, alone: bool) -> Caches:
        """These, or a copy with more room; a copy anyway unless `alone`."""
        have, length, width = self.tensors[0].shape
        if alone and slots <= have and room <= length:
            return self
        grown = []
        for old in self.tensors:
            new = old.new_empty(max(slots, have), max(room, length), width)
            new[:have, :length] = old
            grown.append(new)
        return Caches(grown)


@dataclass
class Steps:
    """What N hypotheses of B sentences remember: where each position of their past is, and the source."""

    packed: Packed
    memories: list[Tensor]  # of each layer (B, S, W)
    lengths: Tensor  # (B,) of the sources
    sentence: Tensor  # (N,)
    origin: Tensor  # (N, room) the slot in which a position is
    length: int = 0  # positions so far
    caches: Caches = field(default_factory=lambda: Caches([]))

    def select(self, rows: Tensor) -> Steps:
        """Row n continues row rows[n]; nothing moves but the table of where things are."""
        chosen = Steps(
            self.packed, self.memories, self.lengths, self.sentence[rows], self.origin[rows], self.length, self.caches
        )
        if self.caches.owner is self:
            self.caches.owner = chosen
        return chosen

    def step(self, token: Tensor, position: Tensor | None) -> Tensor:
        """Read one token a row (N,) at the next position; logits (N, V)."""
        packed, rows = self.packed, len(token)
        lib, turns = fused.kernels(packed.target, position), packed.turns(self.length + 1)
        assert lib is not None
        if rows != len(self.sentence):
            raise ValueError(f"{rows} tokens for {len(self.sentence)} hypotheses")
        self.make_room(rows)
        token = fused.within(token, len(packed.target))
        decoder = packed.at(packed.decoder, turns=turns, caches=self.caches.tensors, memories=self.memories)
        places = fused.at(token, self.origin, self.sentence, self.lengths, position)
        moment = Moment(rows, self.length, self.origin.shape[1], self.memories[0].shape[1], *places)
        logits = packed.target.new_empty(rows, packed.symbols)
        lib.decoder_step(logits.data_ptr(), ctypes.byref(decoder), ctypes.byref(moment))
        self.origin[:, self.length] = torch.arange(rows)
        self.length += 1
        return logits

    def make_room(self, rows: int) -> None:
        """Caches of our own with a slot for every row and a place for the next position."""
        room = self.origin.shape[1]
        if self.length == room:
            self.origin = torch.cat([self.origin, torch.zeros_like(self.origin)], dim=1)
            room *= 2
        if not self.caches.tensors:
            like = self.packed.target
            self.caches = Caches([like.new_empty(rows, room, self.packed.width) for _ in self.memories])
        else:
            self.caches = self.caches.fitting(rows, room, alone=self.caches.owner is self)
        self.caches.owner = self
