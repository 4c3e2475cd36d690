"""What averaging loses, and what heads bring back: sequences that one layer can still tell apart (section 2)."""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
from torch import Tensor

from jumok.lab.examples.example import Example, Numbers, Part, Say
from jumok.nn.attention import attend

SYMBOLS, LENGTH = 6, 4
HEADS = (1, 2, 4)
PAIR = 10  # symbols of the subject and of the object


def average(rows: Tensor, heads: int) -> Tensor:
    """The concatenated means (R, H · symbols) of sequences (R, T): each head averages its share of the positions."""
    vectors = torch.eye(int(rows.max()) + 1)[rows][:, None].expand(-1, heads, -1, -1)  # (R, H, T, symbols)
    allowed = torch.eye(heads, dtype=torch.bool).repeat_interleave(rows.shape[1] // heads, dim=1)[:, None]  # (H, 1, T)
    still = torch.zeros(*vectors.shape[:2], 1, vectors.shape[-1])  # equal scores: every position has the same weight
    return attend(still, vectors, vectors, allowed)[0].flatten(1)


def count_distinct(symbols: int, length: int, heads: int) -> int:
    """How many of all sequences still differ after the layer."""
    rows = torch.tensor(list(product(range(symbols), repeat=length)))
    return len(average(rows, heads).mul(1_000).round().unique(dim=0))


def compute() -> dict[str, Any]:
    counts = {str(heads): count_distinct(SYMBOLS, LENGTH, heads) for heads in HEADS}
    return {
        "symbols": SYMBOLS, "length": LENGTH, "sequences": SYMBOLS**LENGTH, "distinct": counts,
        "one": counts["1"], "all": counts[str(LENGTH)],
        "pairs": PAIR**2, "one_head": count_distinct(PAIR, 2, 1), "two_heads": count_distinct(PAIR, 2, 2),
        "share": {str(length): 1 / length for length in (2, 8, 32)},
    }  # fmt: skip


def show(numbers: Numbers, say: Say) -> list[Part]:
    rows = [[say("heads"), say("distinct")], *([heads, str(count)] for heads, count in numbers["distinct"].items())]
    given = {key: numbers[key] for key in ("symbols", "length", "sequences")}
    pair = {key: numbers[key] for key in ("pairs", "one_head", "two_heads")}
    return [Part(say("table", **given), rows), Part(say("pair", **pair))]


EXAMPLE = Example(name="resolution", compute=compute, show=show)
