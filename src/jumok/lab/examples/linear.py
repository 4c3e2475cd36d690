"""Where self-attention is linear and where it is not: with its weights held fixed, and with weights of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from jumok.lab.examples.example import Example, Numbers, Part, Say, seeded
from jumok.nn.attention import EVERYTHING, SelfAttention, attend, merge_heads
from jumok.nn.layers import FeedForward
from jumok.nn.variants import SCORES

WIDTH, LENGTH = 16, 5


def compute() -> dict[str, Any]:
    with seeded(1), torch.no_grad():
        module = SelfAttention(WIDTH, 2, WIDTH // 2, WIDTH // 2, score=SCORES["scaled-dot"], bias=False).double()
        network = FeedForward(WIDTH, 4 * WIDTH).double()
        x, y = (torch.randn(1, LENGTH, WIDTH, dtype=torch.float64) for _ in range(2))
        weights = attend(*module.split(x))[1]

        def fixed(x: Tensor) -> Tensor:
            mixed: Tensor = module.output(merge_heads(weights @ module.split(x)[2]))
            return mixed

        def free(x: Tensor) -> Tensor:
            mixed: Tensor = module(x, EVERYTHING)
            return mixed

        functions = {"fixed": fixed, "free": free, "fed": lambda x: network(free(x))}
        return {name: stray(function, x, y) for name, function in functions.items()}


def stray(function: Any, x: Tensor, y: Tensor) -> float:
    """How far f(x + y) is from f(x) + f(y), relative to f(x + y)."""
    whole = function(x + y)
    return float((whole - function(x) - function(y)).norm() / whole.norm())


def show(numbers: Numbers, say: Say) -> list[Part]:
    rows = [
        [say("function"), say("stray")],
        *([say(name), f"{numbers[name]:.2g}"] for name in ("fixed", "free", "fed")),
    ]
    return [Part(say("table"), rows)]


EXAMPLE = Example(name="linear", compute=compute, show=show)
