"""The mask of the decoder: weights that become 0, and the circle that generation would be without it.

Step i reads the outputs of the steps before it.  Without a mask its own output also depends on positions after it,
whose inputs are outputs of later steps, which depend on this one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from jumok.lab.examples.example import Example, Numbers, Part, Say, seeded, to_cells
from jumok.nn.attention import EVERYTHING, Mask, SelfAttention, attend
from jumok.nn.variants import SCORES

WIDTH, LENGTH = 8, 4


def compute() -> dict[str, Any]:
    with seeded(1):
        module = SelfAttention(WIDTH, 1, WIDTH, WIDTH, score=SCORES["scaled-dot"], bias=False)
        x, lanes = torch.randn(1, LENGTH, WIDTH), {}
        for name, mask in (("with", Mask(causal=True)), ("without", EVERYTHING)):
            with torch.no_grad():
                weights = attend(*module.split(x), mask.allowed(x[:, None]))[1][0, 0]
            jacobian = torch.autograd.functional.jacobian(lambda x, mask=mask: module(x, mask)[0], x)[:, :, 0]
            reads = jacobian.abs().sum(dim=(1, 3)) > 0  # (T, T): output i depends on input j
            lanes[name] = {
                "weights": weights.tolist(), "largest_after": float(weights.triu(1).max()),
                "dependencies": int(reads.sum()), "circular": count_circular(reads),
            }  # fmt: skip
    return {"length": LENGTH, **lanes}


def count_circular(reads: Tensor) -> int:
    """Steps whose output depends on itself, where input j is the output of step j - 1."""
    needs = torch.zeros_like(reads)
    needs[:, :-1] = reads[:, 1:]  # output i needs output j - 1
    for _ in range(len(reads)):
        needs = needs | ((needs.float() @ needs.float()) > 0)
    return int(needs.diagonal().sum())


def show(numbers: Numbers, say: Say) -> list[Part]:
    parts = []
    for name in ("with", "without"):
        one = numbers[name]
        titles = ["", *(say("key", number=number) for number in range(1, LENGTH + 1))]
        rows = [[say("query", number=number), *line] for number, line in enumerate(to_cells(one["weights"]), 1)]
        text = say(name, dependencies=one["dependencies"], circular=one["circular"], length=numbers["length"])
        parts.append(Part(text, [titles, *rows]))
    return parts


EXAMPLE = Example(name="circle", compute=compute, show=show)
