"""Relative look-up: at every position, say the symbol two places to the left.

A task in which only the distance counts.  One attention layer with one head, no residual connection and no network
after it must point two places back, so what it can do is what its positions allow.

Shapes   B strings · T positions · E width of an embedding · P width of a position · K width of the head
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from jumok.nn.positions import sinusoid
from jumok.nn.variants import Rotary

SYMBOLS, BACK = 8, 2
LENGTH, LONG = 20, 40  # places in training, and twice as many in the second test
EMBEDDED, PLACED, HEAD = 32, 16, 32
STEPS, BATCH, TESTED = 700, 32, 200
KINDS = ("sinusoidal", "learned", "number", "rotary", "alibi", "none")
SLOPE = 0.5  # of ALiBi: what a place of distance costs (Press et al., the middle of their slopes)


class LookUp(nn.Module):
    """One attention layer over symbols and positions; with `norm`, layer norm comes before it."""

    def __init__(self, positions: str, *, norm: bool, longest: int = LONG) -> None:
        super().__init__()
        width = EMBEDDED + {"sinusoidal": PLACED, "learned": PLACED, "number": 1}.get(positions, 0)
        self.positions = positions
        self.embedding = nn.Embedding(SYMBOLS, EMBEDDED)
        self.table = nn.Embedding(longest, PLACED) if positions == "learned" else None
        self.norm = nn.LayerNorm(width) if norm else nn.Identity()
        self.qkv = nn.Linear(width, 3 * HEAD)
        self.rotary = Rotary(HEAD) if positions == "rotary" else None
        self.output = nn.Linear(HEAD, SYMBOLS)

    def places(self, length: int) -> Tensor | None:
        """The vectors that are put beside the embeddings (T, P)."""
        if self.table is not None:
            return self.table.weight[:length]
        if self.positions == "number":
            return torch.arange(length, dtype=torch.float32)[:, None]
        return sinusoid(0, length, PLACED) if self.positions == "sinusoidal" else None

    def learned(self, length: int) -> Tensor:
        """The learned vectors of the first positions, in double (T, P)."""
        assert self.table is not None, "only learned positions have a table"
        return self.table.weight[:length].detach().double()

    def forward(self, symbols: Tensor) -> Tensor:
        x, places = self.embedding(symbols), self.places(symbols.shape[1])  # (B, T, E)
        if places is not None:
            x = torch.cat([x, places.expand(len(x), -1, -1)], dim=-1)  # (B, T, E + P)
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)  # (B, T, K)
        if self.rotary is not None:
            q, k = (self.rotary(each[:, None], 0)[:, 0] for each in (q, k))
        scores = q @ k.transpose(1, 2) / HEAD**0.5  # (B, T, T)
        if self.positions == "alibi":
            at = torch.arange(symbols.shape[1])
            distance = at[:, None] - at  # of a query from a key; ALiBi looks to the left only
            scores = (scores - SLOPE * distance).masked_fill(distance < 0, -torch.inf)
        answer: Tensor = self.output(scores.softmax(dim=-1) @ v)
        return answer


def strings(generator: torch.Generator, count: int, length: int) -> tuple[tuple[Tensor], Tensor]:
    """Random strings, and the symbol two to the left of every place; the first two places have none (-1)."""
    symbols = torch.randint(SYMBOLS, (count, length), generator=generator)  # (B, T)
    return (symbols,), torch.cat([torch.full((count, BACK), -1), symbols[:, :-BACK]], dim=1)


@torch.no_grad()
def measure_right(module: nn.Module, length: int, seed: int, *, after: int = BACK) -> float:
    """The share of right answers on new strings, at the places from `after` on."""
    (symbols,), labels = strings(torch.Generator().manual_seed(seed), TESTED, length)
    right = module(symbols).argmax(dim=-1) == labels
    return float(right[:, after:].float().mean())


@torch.no_grad()
def point_back(length: int, seed: int) -> float:
    """The share of right answers of a head that is not trained but written down: the rotation of the sinusoids.

    Its query is PE(pos) times the matrix that turns every pair back by two places, its key PE(pos); their product is
    largest exactly two places to the left, wherever that is.
    """
    table = sinusoid(0, length, PLACED).double()  # (T, P)
    frequencies = 10_000.0 ** (-torch.arange(0, PLACED, 2, dtype=torch.float64) / PLACED)
    cos, sin = (-BACK * frequencies).cos(), (-BACK * frequencies).sin()
    pairs = table.unflatten(-1, (-1, 2))
    turned = torch.stack([pairs[..., 0] * cos + pairs[..., 1] * sin, pairs[..., 1] * cos - pairs[..., 0] * sin], dim=-1)
    (symbols,), labels = strings(torch.Generator().manual_seed(seed), TESTED, length)
    weights = (200.0 * turned.flatten(-2) @ table.T).softmax(dim=-1)  # (T, T)
    seen = weights @ nn.functional.one_hot(symbols, SYMBOLS).double()  # (B, T, symbols)
    return float((seen.argmax(dim=-1) == labels)[:, BACK:].float().mean())


def describe(module: nn.Module, seed: int) -> dict[str, Any]:
    """What a layer gets right: as long as in training, and at the places that are beyond it."""
    return {
        "within": measure_right(module, LENGTH, seed),
        "beyond": measure_right(module, LONG, seed, after=LENGTH),
    }
