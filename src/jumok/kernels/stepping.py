"""Steps of a packed decoder: the encoder is one call, and so is each step; keys and values are written once.

The result of a hypothesis does not depend on the rest of the batch, bit for bit.

Shapes   B sentences · S source · N rows (hypotheses) · D width · V vocabulary · W keys and values of all heads
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from jumok.kernels import ops
from jumok.kernels.pack import Packed
from jumok.kernels.reading import StepTask
from jumok.kernels.searching import address_of
from jumok.models.base import PAD

ROOM = 32  # positions that a new cache has room for


def start(packed: Packed, source: Tensor) -> Steps:
    """Encode (B, S) once; the state has one row per sentence."""
    rows, length = source.shape
    source, lengths = ops.within(source, packed.symbols[0]), (source != PAD).sum(dim=1)
    turns, vectors = packed.turns(length), packed.positions("source", length)
    memories = [torch.empty(rows, length, packed.width) for _ in range(packed.decoder.layers)]
    encoder = packed.bind(packed.encoder, turns)
    decoder = packed.bind(packed.decoder, turns, memories=[one.data_ptr() for one in memories])
    packed.library.jk_encode(
        ctypes.byref(encoder), ctypes.byref(decoder), *ops.at(source, lengths), rows, length,
        None if vectors is None else address_of(vectors),
    )  # fmt: skip
    return Steps(packed, memories, lengths, torch.arange(rows), torch.zeros(rows, ROOM, dtype=torch.long))


@dataclass
class Caches:
    """Keys and values of all layers, (slots, room, W) each; `owner` is the state that may write to them."""

    tensors: list[Tensor]
    owner: Any = None

    def fit(self, slots: int, room: int, *, alone: bool) -> Caches:
        """Return these, or a copy with more room; a copy in any case unless `alone`."""
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
    """The state of N hypotheses of B sentences: the slot of each of their past positions, and the encoded sources."""

    packed: Packed
    memories: list[Tensor]  # of each layer (B, S, W)
    lengths: Tensor  # (B,) of the sources
    sentence: Tensor  # (N,)
    origin: Tensor  # (N, room) the slot in which a position is
    length: int = 0  # positions so far
    caches: Caches = field(default_factory=lambda: Caches([]))

    def select(self, rows: Tensor) -> Steps:
        """Row n continues row rows[n]; only the table of slots changes, keys and values stay where they are."""
        chosen = Steps(
            self.packed, self.memories, self.lengths, self.sentence[rows], self.origin[rows], self.length, self.caches
        )
        if self.caches.owner is self:
            self.caches.owner = chosen
        return chosen

    def step(self, token: Tensor) -> Tensor:
        """Read one token per row (N,) at the next position; logits (N, V)."""
        packed, rows = self.packed, len(token)
        if rows != len(self.sentence):
            raise ValueError(f"{rows} tokens for {len(self.sentence)} hypotheses")
        self._make_room(rows)
        token = ops.within(token, packed.symbols[1])
        turns, vectors = packed.turns(self.length + 1), packed.positions("target", self.length + 1)
        caches, memories = ([one.data_ptr() for one in side] for side in (self.caches.tensors, self.memories))
        decoder = packed.bind(packed.decoder, turns, caches, memories)
        places = ops.at(token, self.origin, self.sentence, self.lengths)
        here = None if vectors is None else address_of(vectors[self.length])
        task = StepTask(rows, self.length, self.origin.shape[1], self.memories[0].shape[1], *places, here)
        logits = torch.empty(rows, packed.symbols[1])
        packed.library.jk_decode_step(logits.data_ptr(), ctypes.byref(decoder), ctypes.byref(task))
        self.origin[:, self.length] = torch.arange(rows)
        self.length += 1
        return logits

    def _make_room(self, rows: int) -> None:
        """Provide caches that only this state writes to, with a slot for every row and room for the next position."""
        room = self.origin.shape[1]
        if self.length == room:
            self.origin = torch.cat([self.origin, torch.zeros_like(self.origin)], dim=1)
            room *= 2
        if not self.caches.tensors:
            self.caches = Caches([torch.empty(rows, room, self.packed.width) for _ in self.memories])
        else:
            self.caches = self.caches.fit(rows, room, alone=self.caches.owner is self)
        self.caches.owner = self
