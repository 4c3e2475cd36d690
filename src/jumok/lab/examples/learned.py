"""Learned positions: one matrix for all sentences, with an end; and two ways to join positions and embeddings."""

from __future__ import annotations

from typing import Any

import torch

from jumok.lab.examples.example import Example, Numbers, Part, Say, seeded
from jumok.nn.variants import JOINS, POSITIONS

WIDTH, LONGEST = 8, 10


def compute() -> dict[str, Any]:
    with seeded(1), torch.no_grad():
        table = POSITIONS["learned"](WIDTH, LONGEST)
        sinusoids = POSITIONS["sinusoidal"](WIDTH, LONGEST)
        short, long = table(0, 4), table(0, LONGEST + 3)
        clocks = sinusoids(0, LONGEST + 3)
        beyond = float((long[LONGEST] - long[LONGEST - 1]).abs().max())
        joins = {name: sum(p.numel() for p in join(WIDTH, WIDTH).parameters()) for name, join in JOINS.items()}
        x = torch.randn(1, 4, WIDTH)
        widths = {name: join(WIDTH, WIDTH)(x, table(0, 4)).shape[-1] for name, join in JOINS.items()}
    return {
        "d_model": WIDTH, "longest": LONGEST, "parameters": sum(p.numel() for p in table.parameters()),
        "prefix": float((short - long[:4]).abs().max()), "beyond": beyond,
        "beyond_sinusoids": float((clocks[LONGEST] - clocks[LONGEST - 1]).abs().max()),
        "joins": joins, "widths": widths,
    }  # fmt: skip


def show(numbers: Numbers, say: Say) -> list[Part]:
    given = {key: numbers[key] for key in ("d_model", "longest", "parameters", "prefix")}
    beyond = {key: numbers[key] for key in ("longest", "beyond", "beyond_sinusoids")}
    rows = [["", say("parameters"), say("width")]]
    rows += [[say(name), str(count), str(numbers["widths"][name])] for name, count in numbers["joins"].items()]
    return [Part(say("table", **given)), Part(say("beyond", **beyond)), Part(say("joins"), rows)]


EXAMPLE = Example(name="learned", compute=compute, show=show)
