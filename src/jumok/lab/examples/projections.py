"""From x to q, k and v and back: four matrices, shared by all positions (section 3.2.2).

Shapes   T positions · D model width · H heads · K width of a head
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from jumok.lab.examples.example import Example, Numbers, Part, Say, seeded
from jumok.nn.attention import SelfAttention, attend, merge_heads
from jumok.nn.variants import SCORES

WIDTH, HEADS, SHOWN = 8, 2, 4
SAME = (0, 2)  # the positions with the same word


def compute() -> dict[str, Any]:
    with seeded(1):
        part = WIDTH // HEADS
        module = SelfAttention(WIDTH, HEADS, part, part, score=SCORES["scaled-dot"], bias=False)
        x = torch.randn(1, 3, WIDTH)
        x[0, SAME[1]] = x[0, SAME[0]]
        with torch.no_grad():
            q, k, v = module.split(x)
            joined = merge_heads(attend(q, k, v)[0])
            output = module.output(joined)
        first = [side[0, 0, 0] for side in (q, k, v)]  # of head 1 at position 1
        reach = torch.autograd.functional.jacobian(lambda one: module.split(one)[0][0, 0, 0], x)[:, 0, 0]  # (K, D)
        mix = torch.autograd.functional.jacobian(module.output, joined)[0, 0, 0, 0, 0]  # (H·K,)
    return {
        "d_model": WIDTH, "heads": HEADS, "d_k": part,
        **{name: vector[:SHOWN].tolist() for name, vector in zip("qkv", first, strict=True)},
        "input": x[0, 0].tolist(),
        "apart": min(distance(a, b) for a, b in ((first[0], first[1]), (first[0], first[2]), (first[1], first[2]))),
        "same_word": distance(q[0, :, SAME[0]], q[0, :, SAME[1]]),
        "reached": int((reach != 0).any(dim=0).sum()), "cut": part,
        "joined": joined[0, 0].tolist(), "output": output[0, 0].tolist(), "changed": distance(joined, output),
        "heads_of_output": int((mix.view(HEADS, part) != 0).any(dim=1).sum()), "heads_of_joined": 1,
        "parameters": {str(length): count(module) for length in (3, 1_000)},
        "projections": [list(matrix.shape) for matrix in (module.qkv.weight, module.output.weight)],
    }  # fmt: skip


def distance(a: Tensor, b: Tensor) -> float:
    """The largest difference of two vectors."""
    return float((a - b).abs().max())


def count(module: torch.nn.Module) -> int:
    """The parameters of a module, which do not depend on the number of positions."""
    return sum(parameter.numel() for parameter in module.parameters())


def show(numbers: Numbers, say: Say) -> list[Part]:
    titles = ["", *(str(place) for place in range(1, SHOWN + 1))]
    rows = [[name, *(f"{value:+.3f}" for value in numbers[name])] for name in ("q", "k", "v")]
    joined = [[name, *(f"{value:+.3f}" for value in numbers[key])]
              for name, key in (("concat", "joined"), ("W^O", "output"))]  # fmt: skip
    same = {key: numbers[key] for key in ("reached", "cut", "d_model", "heads_of_output", "heads_of_joined", "heads")}
    return [
        Part(say("qkv", apart=numbers["apart"]), [titles, *rows]),
        Part(say("shared", same=numbers["same_word"], count=numbers["parameters"]["3"])),
        Part(say("cut", **same)),
        Part(say("joined", **same), [["", *map(str, range(1, WIDTH + 1))], *joined]),
    ]


EXAMPLE = Example(name="projections", compute=compute, show=show)
