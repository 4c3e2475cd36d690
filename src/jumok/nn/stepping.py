"""A decoder that makes one step in one call: weights packed once, keys and values written once and never moved.

`Packed.of` packs the parts of a Transformer's decoder for the C kernel, or gives None where a part has none; the
decoder then steps layer by layer in torch.  `Steps` is what such a decoder remembers.  What comes out for a hypothesis
does not depend on what else is in the batch, to the last bit.

Shapes   B sentences · S source · N rows (hypotheses) · D width · V vocabulary · W keys and values of all heads
Not here the layers themselves (attention.py, layers.py), the encoder (models/).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from jumok.nn import fused
from jumok.nn.attention import CrossAttention, DotScore, SelfAttention
from jumok.nn.layers import LayerNorm, Linear, PostNorm, PreNorm, ReluFeedForward

POINTER, LONG, FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
ROOM = 32  # positions that a new cache has place for


class Dense(ctypes.Structure):
    _fields_ = [("packed", POINTER), ("bias", POINTER), ("width", LONG), ("height", LONG)]


class Norming(ctypes.Structure):
    _fields_ = [("gain", POINTER), ("shift", POINTER)]


class Layer(ctypes.Structure):
    _fields_ = [
        *((name, Dense) for name in ("qkv", "own", "query", "other", "inner", "outer")),
        ("norms", Norming * 3),
        ("cache", POINTER),
        ("memory", POINTER),
    ]


class Decoder(ctypes.Structure):
    _fields_ = [
        *((name, LONG) for name in ("layers", "d_model", "heads", "d_k", "d_v", "pre")),
        ("table", POINTER),
        ("turns", POINTER),
        ("last", Norming),
        ("output", Dense),
        ("each", ctypes.POINTER(Layer)),
        *((name, FLOAT) for name in ("factor", "scale", "eps")),
    ]


class Moment(ctypes.Structure):
    _fields_ = [
        *((name, LONG) for name in ("rows", "at", "room", "source")),
        *((name, POINTER) for name in ("tokens", "origin", "sentence", "lengths", "position")),
    ]


@dataclass(frozen=True)
class Parts:
    """One layer of a decoder: each sub-layer and the path around it."""

    attention: SelfAttention
    attention_path: PostNorm
    cross: CrossAttention
    cross_path: PostNorm
    feed_forward: nn.Module
    feed_forward_path: PostNorm

    @property
    def paths(self) -> tuple[PostNorm, PostNorm, PostNorm]:
        return self.attention_path, self.cross_path, self.feed_forward_path

    def fit(self) -> bool:
        """Whether the kernel is made for these parts."""
        attention, cross, paths = self.attention, self.cross, self.paths
        return (
            isinstance(self.feed_forward, ReluFeedForward)
            and isinstance(attention.score, DotScore)
            and isinstance(cross.score, DotScore)
            and attention.d_k % 8 == attention.d_v % 8 == 0
            and all(path.residual and isinstance(path.norm, LayerNorm) for path in paths)
            and not any(path.dropout.now for path in paths)
        )


Versions = tuple[tuple[int, int], ...]


def versions(parameters: Iterable[Tensor]) -> Versions:
    """Which weights these are and how often they were changed in place."""
    return tuple((one.data_ptr(), 0 if one.is_inference() else one._version) for one in parameters)


class Packed:
    """The weights of a decoder as the kernel reads them.  They are a copy: change a weight, and pack again."""

    def __init__(
        self, layers: Sequence[Parts], table: Tensor, matrix: Tensor, last: nn.Module, *, scale: float, made: Versions
    ) -> None:
        first = layers[0]
        self.table, self.rotary = table, first.attention.rotary
        self.made = made
        self.width = first.attention.heads * (first.attention.d_k + first.attention.d_v)  # of keys and values
        self.symbols = len(matrix)
        self.kept: list[Tensor] = []
        self.each = (Layer * len(layers))(*map(self.layer, layers))
        score = first.attention.score
        assert isinstance(score, DotScore)
        self.decoder = Decoder(
            layers=len(layers), d_model=table.shape[1], heads=first.attention.heads, d_k=first.attention.d_k,
            d_v=first.attention.d_v, pre=isinstance(first.attention_path, PreNorm), table=table.data_ptr(),
            last=self.norm(last), output=self.dense(matrix, None), factor=score.scale, scale=scale,
            eps=first.attention_path.norm.eps,
        )  # fmt: skip

    @classmethod
    def of(
        cls, layers: Sequence[Parts], table: Tensor, matrix: Tensor, last: nn.Module, *, scale: float, made: Versions
    ) -> Packed | None:
        """The packed decoder, or None where there is no kernel for it; `made` says of which weights."""
        fit = all(parts.fit() for parts in layers)
        return cls(layers, table, matrix, last, scale=scale, made=made) if fit else None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()  # a copy of a model packs for itself

    def dense(self, weight: Tensor, bias: Tensor | None) -> Dense:
        lib = fused.kernels(weight)
        assert lib is not None
        weight = weight.detach().contiguous()
        height, width = weight.shape
        packed = weight.new_empty(lib.packed_size(width, height))
        lib.pack_weight(*fused.at(packed, weight), width, height)
        self.kept += [packed]
        return Dense(*fused.at(packed, bias), width, height)

    def linear(self, linear: Linear) -> Dense:
        return self.dense(linear.weight, linear.bias)

    def norm(self, norm: nn.Module) -> Norming:
        return Norming(*fused.at(norm.weight, norm.bias)) if isinstance(norm, LayerNorm) else Norming()

    def layer(self, parts: Parts) -> Layer:
        attention, cross, net = parts.attention, parts.cross, parts.feed_forward
        assert isinstance(net, ReluFeedForward)
        matrices = (attention.qkv, attention.output, cross.query, cross.output, net.inner, net.outer)
        norms = (Norming * 3)(*(self.norm(path.norm) for path in parts.paths))
        return Layer(*map(self.linear, matrices), norms)


@dataclass
class Caches:
    """Keys and values of all layers, (slots, room, W) each; `owner` is the state that may write to them."""

    tensors: list[Tensor]
    owner: Any = None

    def fitting(self, slots: int, room: int, *, alone: bool) -> Caches:
        """These, or a copy with more room; a copy anyway unless `alone`."""
        have, length, width = self.tensors[0].shape if self.tensors else (0, 0, 0)
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
    lengths: Tensor | None  # (B,) of the sources, or all are whole
    sentence: Tensor  # (N,)
    origin: Tensor  # (N, room) the slot in which a position is
    length: int = 0  # positions so far
    caches: Caches = field(default_factory=lambda: Caches([]))

    @classmethod
    def start(cls, packed: Packed, memories: list[Tensor], lengths: Tensor | None) -> Steps:
        rows = len(memories[0])
        return cls(packed, memories, lengths, torch.arange(rows), torch.zeros(rows, ROOM, dtype=torch.long))

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
        lib, turns = fused.kernels(packed.table), None
        assert lib is not None
        if rows != len(self.sentence):
            raise ValueError(f"{rows} tokens for {len(self.sentence)} hypotheses")
        self.make_room(rows)
        token = fused.within(token, len(packed.table))
        if packed.rotary is not None:
            turns = packed.rotary.turns(0, self.length + 1)
        layers = (Layer * len(packed.each))(*packed.each)
        for layer, cache, memory in zip(layers, self.caches.tensors, self.memories, strict=True):
            layer.cache, layer.memory = cache.data_ptr(), memory.data_ptr()
        decoder = Decoder.from_buffer_copy(packed.decoder)
        decoder.each, [decoder.turns] = layers, fused.at(turns)
        places = fused.at(token, self.origin, self.sentence, self.lengths, position)
        moment = Moment(rows, self.length, self.origin.shape[1], self.memories[0].shape[1], *places)
        logits = packed.table.new_empty(rows, packed.symbols)
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
            like = self.packed.table
            self.caches = Caches([like.new_empty(rows, room, self.packed.width) for _ in self.memories])
        else:
            self.caches = self.caches.fitting(rows, room, alone=self.caches.owner is self)
        self.caches.owner = self
