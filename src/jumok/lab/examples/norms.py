"""Two norms by hand: 6 features of 3 samples, then the tokens of 2 sentences (section 3.1).

Shapes   B sentences · T tokens · D features
"""

from __future__ import annotations

from typing import Any

import torch

from jumok.lab.examples.example import Example, Numbers, Part, Say, seeded, to_cells
from jumok.nn.layers import LayerNorm
from jumok.nn.variants import BatchNorm

SAMPLES = [[1.0, 2.0, 3.0, 4.0, 5.0, 9.0], [3.0, 2.0, 8.0, 0.0, 5.0, 6.0], [2.0, 8.0, 1.0, 5.0, 2.0, 0.0]]
SHAPE = (2, 4, 6)  # B, T, D


def compute() -> dict[str, Any]:
    x = torch.tensor(SAMPLES)
    layer, batch = LayerNorm(x.shape[1]), BatchNorm(x.shape[1]).train()
    with seeded(1):
        text = torch.randn(SHAPE)
    with torch.no_grad():
        by_layer, by_batch, divided = layer(x), batch(x), x / x.mean(dim=1, keepdim=True)
        other = torch.cat([x[:1], -x[1:]])  # the first sample among others
        moved = {"layer": layer(other)[0] - by_layer[0], "batch": batch(other)[0] - by_batch[0]}
    return {
        "samples": SAMPLES, "features": x.shape[1], "count": len(x),
        "batch": {"means": x.mean(dim=0).tolist(), "deviations": x.std(dim=0, unbiased=False).tolist(),
                  "output": by_batch.tolist()},
        "layer": {"means": x.mean(dim=1).tolist(), "deviations": x.std(dim=1, unbiased=False).tolist(),
                  "output": by_layer.tolist()},
        "batch_means": x.mean(dim=0).numel(), "layer_means": x.mean(dim=1).numel(),
        "moved": {name: float(one.abs().max()) for name, one in moved.items()},
        "first_mean": float(by_layer[0].mean()), "first_deviation": float(by_layer[0].std(unbiased=False)),
        "divided_mean": float(divided[0].mean()), "divided_deviation": float(divided[0].std(unbiased=False)),
        "text": list(SHAPE),
        "text_layer": text.mean(dim=-1).numel(), "text_batch": text.flatten(0, 1).mean(dim=0).numel(),
        "scales": layer.weight.numel(), "shifts": layer.bias.numel(),
    }  # fmt: skip


def show(numbers: Numbers, say: Say) -> list[Part]:
    titles = ["", *(say("feature", number=number) for number in range(1, 7))]
    rows = [titles, *([say("sample", number=number), *line] for number, line in enumerate(to_cells(SAMPLES, ".0f"), 1))]
    batch = [[say(key), *to_cells([numbers["batch"][key]], ".2f")[0]] for key in ("means", "deviations")]
    titles = ["", *(say("sample", number=number) for number in (1, 2, 3))]
    layer = [[say(key), *to_cells([numbers["layer"][key]], ".2f")[0]] for key in ("means", "deviations")]
    shape = dict(zip("btd", numbers["text"], strict=True))
    after = {key: numbers[key] for key in ("first_mean", "first_deviation", "divided_mean", "divided_deviation")}
    return [
        Part(say("batch"), [*rows, *batch]),
        Part(say("layer"), [titles, *layer]),
        Part(say("moved", **numbers["moved"])),
        Part(say("after", **after)),
        Part(say("text", **shape, layer=numbers["text_layer"], batch=numbers["text_batch"])),
    ]


EXAMPLE = Example(name="norms", compute=compute, show=show)
