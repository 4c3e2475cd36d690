"""The divisors 10000^(2i/d) of the positional encoding, and which dimensions are fast (section 3.5)."""

from __future__ import annotations

import math
from typing import Any

from jumok.lab.examples.example import Example, Numbers, Part, Say
from jumok.nn.positions import sinusoid

WIDTH, AT, POSITIONS = 512, 10, 512
SHOWN = (0, 1, 64, 128, 255)


def compute() -> dict[str, Any]:
    divisors = [10_000 ** (2 * pair / WIDTH) for pair in range(WIDTH // 2)]
    table = sinusoid(0, POSITIONS, WIDTH).double()  # (T, D)
    change = (table[AT + 1] - table[AT]).view(-1, 2).norm(dim=1)  # of each pair of dimensions, from AT to AT + 1
    half = (table[POSITIONS // 2] - table[0]).view(-1, 2).norm(dim=1)
    return {
        "d_model": WIDTH, "pairs": len(divisors), "first": divisors[0], "second": divisors[1], "last": divisors[-1],
        "note_first": 10_000 ** (2 / WIDTH), "note_last": 10_000.0,
        "fastest": 2 * math.pi * divisors[0], "slowest": 2 * math.pi * divisors[-1],
        "at": AT, "change_fastest": float(change[0]), "change_slowest": float(change[-1]),
        "half": POSITIONS // 2, "half_slowest": float(half[-1]),
        "rows": [[pair, divisors[pair], 2 * math.pi * divisors[pair], float(change[pair])] for pair in SHOWN],
        "distinct": len(table.unique(dim=0)), "positions": POSITIONS, "width": table.shape[1],
        "sines": int((table[0] == 0).sum()), "cosines": int((table[0] == 1).sum()),
    }  # fmt: skip


def show(numbers: Numbers, say: Say) -> list[Part]:
    titles = ["i", "10000^(2i/d)", say("period"), say("change", at=AT, next=AT + 1)]
    rows = [titles, *([str(i), f"{one:,.3f}", f"{two:,.2f}", f"{three:.6f}"] for i, one, two, three in numbers["rows"])]
    ends = {key: numbers[key] for key in ("first", "last", "note_first", "note_last")}
    return [Part(say("table", d_model=WIDTH), rows), Part(say("range", **ends)),
            Part(say("distinct", positions=numbers["positions"], distinct=numbers["distinct"]))]  # fmt: skip


EXAMPLE = Example(name="wavelengths", compute=compute, show=show)
