"""Keys and values cached between the steps of a decoder, so that each step computes those of one position only.

Shapes   N rows (hypotheses) · B sentences · H heads · T steps so far · S keys of a sentence · K, D width of one head
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jumok.nn.attention import Mask

KeysValues = tuple[Tensor, Tensor]


class Cache:
    """Keys and values of the steps so far, in a buffer that grows by doubling; row n belongs to hypothesis n."""

    def __init__(self, keys: Tensor, values: Tensor, length: int) -> None:
        self.keys, self.values, self.length = keys, values, length

    @classmethod
    def empty(cls, rows: int, heads: int, d_k: int, d_v: int, like: Tensor, *, room: int = 32) -> Cache:
        return cls(like.new_empty(rows, heads, room, d_k), like.new_empty(rows, heads, room, d_v), 0)

    def append(self, k: Tensor, v: Tensor) -> KeysValues:
        """Add one step (N, H, 1, K) in place and return all keys and values so far (N, H, T, K)."""
        if self.length == self.keys.shape[2]:
            self.keys = torch.cat([self.keys, torch.empty_like(self.keys)], dim=2)
            self.values = torch.cat([self.values, torch.empty_like(self.values)], dim=2)
        self.keys[:, :, self.length] = k[:, :, 0]
        self.values[:, :, self.length] = v[:, :, 0]
        self.length += 1
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def select(self, rows: Tensor) -> Cache:
        """Return the cache whose row n is this one's row rows[n]; copies only what is filled."""
        count, (_, heads, room, d_k), d_v = len(rows), self.keys.shape, self.values.shape[-1]
        keys, values = self.keys.new_empty(count, heads, room, d_k), self.values.new_empty(count, heads, room, d_v)
        keys[:, :, : self.length] = self.keys[:, :, : self.length].index_select(0, rows)
        values[:, :, : self.length] = self.values[:, :, : self.length].index_select(0, rows)
        return Cache(keys, values, self.length)


class Memory(NamedTuple):
    """What a decoder attends to, once per sentence: keys and values of the source, and the mask of its padding."""

    keys: Tensor  # (B, …, S, D)
    values: Tensor  # (B, …, S, D)
    mask: Mask

    def select(self, rows: Tensor) -> Memory:
        return Memory(self.keys.index_select(0, rows), self.values.index_select(0, rows), self.mask.select(rows))


def regroup(sentence: Tensor, rows: Tensor, memories: int) -> tuple[Tensor | None, Tensor]:
    """Follow the memories that neighbouring rows share, `sentence` (N,) of each row, when `rows` are selected.

    Returns which memories to take (None: all stay where they are), and which of them each row then attends to.  Every
    memory has equally many neighbours; where they would be uneven, every row gets its own memory.
    """
    chosen = sentence[rows]
    taken, counts = chosen.unique_consecutive(return_counts=True)
    if bool((counts != counts[:1]).any()):
        taken, counts = chosen, torch.ones_like(chosen)
    places = torch.arange(len(taken), device=rows.device)
    still = len(taken) == memories and torch.equal(taken, places)
    return None if still else taken, places.repeat_interleave(counts)
