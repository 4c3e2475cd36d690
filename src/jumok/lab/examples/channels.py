"""Channels against heads: in how many ways a layer can weight its positions at once (section 3.2.2).

A layer whose weights are fixed is linear: output channel j of one position is the sum of M[j, i, s] x[s, i] over
positions s and input channels i.  As a matrix (j·i, s) its rank is the number of independent weightings of positions.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from jumok.lab.examples.example import Example, Numbers, Part, Say, seeded
from jumok.nn.attention import SelfAttention, attend, merge_heads
from jumok.nn.variants import SCORES

WIDTH, LENGTH, KERNEL = 16, 9, 5
HEADS = (1, 2, 4, 8)


def compute() -> dict[str, Any]:
    with seeded(1):
        x, at = torch.randn(1, LENGTH, WIDTH, dtype=torch.float64), LENGTH // 2
        ranks = {}
        for heads in HEADS:
            part = WIDTH // heads
            module = SelfAttention(WIDTH, heads, part, part, score=SCORES["scaled-dot"], bias=False).double()
            with torch.no_grad():
                q, k, v = module.split(x)
                weights = attend(q, k, v)[1]

            def mix(x: Tensor, module: SelfAttention = module, weights: Tensor = weights) -> Tensor:
                mixed: Tensor = module.output(merge_heads(weights @ module.split(x)[2]))
                return mixed[0, at]

            ranks[str(heads)] = count_weightings(torch.autograd.functional.jacobian(mix, x))
        layer = nn.Conv1d(WIDTH, WIDTH, KERNEL, padding=KERNEL // 2, bias=False).double()
        convolved = torch.autograd.functional.jacobian(lambda x: layer(x.transpose(1, 2))[0, :, at], x)
    return {
        "d_model": WIDTH, "positions": LENGTH, "kernel": KERNEL, "heads": ranks, "one": ranks["1"],
        "eight": ranks["8"], "convolution": count_weightings(convolved),
    }  # fmt: skip


def count_weightings(jacobian: Tensor) -> int:
    """The rank over positions of (output channels, 1, positions, input channels)."""
    return int(torch.linalg.matrix_rank(jacobian[:, 0].transpose(1, 2).flatten(0, 1)))


def show(numbers: Numbers, say: Say) -> list[Part]:
    rows = [[say("layer"), say("ways")]]
    rows += [[say("attention", heads=heads), str(rank)] for heads, rank in numbers["heads"].items()]
    rows.append([say("convolution", kernel=numbers["kernel"]), str(numbers["convolution"])])
    return [Part(say("table", positions=numbers["positions"], d_model=numbers["d_model"]), rows)]


EXAMPLE = Example(name="channels", compute=compute, show=show)
