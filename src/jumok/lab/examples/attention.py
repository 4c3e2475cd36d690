"""Attention by hand: three queries, three keys, three values of small whole numbers (section 3.2.1)."""

from __future__ import annotations

from typing import Any

import torch

from jumok.lab.examples.example import Example, Numbers, Part, Say, to_cells
from jumok.nn.attention import attend, scaled_dot
from jumok.nn.variants import Dot

Q = [[2.0, 0.0, 1.0, 1.0], [0.0, 2.0, 0.0, 1.0], [1.0, 1.0, 0.0, 2.0]]
K = [[1.0, 0.0, 2.0, 0.0], [0.0, 2.0, 0.0, 1.0], [2.0, 1.0, 0.0, 0.0]]
V = [[10.0, 0.0], [0.0, 10.0], [5.0, 5.0]]


def compute() -> dict[str, Any]:
    q, k, v = (torch.tensor(values)[None, None] for values in (Q, K, V))  # (1, 1, T, K)
    mixed, weights = attend(q, k, v)
    scores = scaled_dot(q, k)  # (1, 1, T, T)
    steps = scores.unique()  # what e^x is needed of, to compute by hand
    return {
        "q": Q, "k": K, "v": V, "d_k": q.shape[-1], "root": q.shape[-1] ** 0.5,
        "products": (q @ k.transpose(-2, -1))[0, 0].tolist(),
        "scores": scores[0, 0].tolist(), "exponents": steps.tolist(), "exponentials": steps.exp().tolist(),
        "weights": weights[0, 0].tolist(),
        "unscaled": attend(q, k, v, score=Dot())[1][0, 0].tolist(),
        "rows": weights[0, 0].sum(dim=1).tolist(), "columns": weights[0, 0].sum(dim=0).tolist(),
        "mixed": mixed[0, 0].tolist(), "vectors": len(mixed[0, 0]), "width": mixed.shape[-1],
    }  # fmt: skip


def show(numbers: Numbers, say: Say) -> list[Part]:
    def table(key: str, form: str = ".3f") -> list[list[str]]:
        cells = to_cells(numbers[key], form)
        return [["", *(f"k{place}" for place in (1, 2, 3))], *([f"q{row}", *line] for row, line in enumerate(cells, 1))]

    values = [["", "1", "2"], *([f"a{row}", *line] for row, line in enumerate(to_cells(numbers["mixed"]), 1))]
    sums = {key: ", ".join(to_cells([numbers[key]])[0]) for key in ("rows", "columns")}
    return [
        Part(say("given", q=Q, k=K, v=V)),
        Part(say("products"), table("products", ".0f")),
        Part(say("scores", d_k=numbers["d_k"], root=numbers["root"]), table("scores")),
        Part(say("weights"), table("weights")),
        Part(say("sums", **sums)),
        Part(say("mixed"), values),
    ]


EXAMPLE = Example(name="attention", compute=compute, show=show)
