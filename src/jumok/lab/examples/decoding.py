"""Decoding step by step: what goes in, what comes out, and the five likeliest tokens (section 3.1)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch

from jumok.lab.examples.doubling import spell, to_batch, train
from jumok.lab.examples.example import Example, Numbers, Part, Say
from jumok.models.base import END, START

TEXT = "cab"
TOP, LIMIT = 5, 20


def compute() -> dict[str, Any]:
    model = train()
    source, _, _ = to_batch([TEXT])
    steps, token = list[dict[str, Any]](), START
    with torch.no_grad():
        state = model.start(source)
        while len(steps) < LIMIT and token != END:
            logits, state = model.step(torch.tensor([token]), state)
            chances, ids = logits[0].softmax(dim=-1).topk(TOP)
            top = [[spell(one), chance] for one, chance in zip(ids.tolist(), chances.tolist(), strict=True)]
            steps.append({"in": spell(token), "out": top[0][0], "top": top})
            token = int(ids[0])
    output = [step["out"] for step in steps if step["out"] != spell(END)]
    return {
        "source": list(TEXT), "output": output, "n": len(TEXT), "m": len(output), "steps": steps, "count": len(steps),
        "encoded": 1, "fed": sum(a["out"] == b["in"] for a, b in pairwise(steps)),
        "first": steps[0]["in"], "last": steps[-1]["out"], "chance": steps[0]["top"][0][1],
    }  # fmt: skip


def show(numbers: Numbers, say: Say) -> list[Part]:
    rows = [[say("step"), say("in"), say("out"), say("top")]]
    for number, step in enumerate(numbers["steps"], 1):
        top = "  ".join(f"{token} {chance:.4f}" for token, chance in step["top"])
        rows.append([str(number), step["in"], step["out"], top])
    given = {"source": " ".join(numbers["source"]), "output": " ".join(numbers["output"])}
    return [Part(say("table", **given, n=numbers["n"], m=numbers["m"]), rows)]


EXAMPLE = Example(name="decoding", compute=compute, show=show)
