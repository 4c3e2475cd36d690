"""Padding masks in all three attentions: how much weight padding gets without them, and what it does to the answer."""

from __future__ import annotations

from random import Random
from typing import Any

import torch
from torch import Tensor

from jumok.lab.examples.doubling import draw, share_right, to_batch, train
from jumok.lab.examples.example import Example, Numbers, Part, Say
from jumok.models.base import PAD
from jumok.models.transformer import Transformer
from jumok.nn.attention import EVERYTHING, Mask, watch

TEXTS = ["cab", "hgfedcb"]  # the first is padded to the length of the second
PAIRS = 200


def run(model: Transformer, source: Tensor, target: Tensor, *, without: str = "") -> tuple[Tensor, dict[str, Tensor]]:
    """Logits (B, T, V) and the weights (B, H, rows, columns) of the first layers; `without` one padding mask."""
    real = Mask.padding(source != PAD)
    causal = Mask(target != PAD, causal=True) if without != "decoder" else EVERYTHING
    with watch(model) as weights, torch.no_grad():
        x = model.source(source)
        for layer in model.encoder:
            x = layer(x, EVERYTHING if without == "encoder" else real)
        y = model.target(target)
        for layer in model.decoder:
            y = layer(y, causal, x, EVERYTHING if without == "cross" else real)
    first, last = model.encoder[0], model.decoder[0]
    modules = {"encoder": first.attention, "decoder": last.attention, "cross": last.cross}
    return model.project(y), {name: weights[module] for name, module in modules.items()}  # type: ignore[index]


def measure(model: Transformer, kind: str) -> dict[str, float]:
    """Weight on padding of the short sentence, and right tokens of all, without the padding mask of one attention."""
    source, target, _ = to_batch(TEXTS)
    hidden = (target if kind == "decoder" else source)[0] == PAD
    rows = (source if kind == "encoder" else target)[0] != PAD
    weights = {name: run(model, source, target, without=name)[1][kind][0] for name in ("", kind)}
    many = draw(Random(3), PAIRS)
    return {
        "with": float(weights[""][:, rows][:, :, hidden].sum(dim=-1).mean()),
        "without": float(weights[kind][:, rows][:, :, hidden].sum(dim=-1).mean()),
        "right": share_right(run(model, *many[:2], without=kind)[0], many[2]),
    }  # fmt: skip


def compute() -> dict[str, Any]:
    model = train()
    source, target, labels = draw(Random(3), PAIRS)
    kinds = {kind: measure(model, kind) for kind in ("encoder", "decoder", "cross")}
    short, long = to_batch(TEXTS[:1]), to_batch(TEXTS)
    alone, together = (run(model, *batch[:2])[0][0, : short[1].shape[1]] for batch in (short, long))
    return {
        "kinds": kinds, "right": share_right(run(model, source, target)[0], labels), "pairs": PAIRS,
        "padded": int((long[0][0] == PAD).sum()), "changed": float((alone - together).detach().abs().max()),
    }  # fmt: skip


def show(numbers: Numbers, say: Say) -> list[Part]:
    rows = [["", say("with"), say("without"), say("right")]]
    for kind, one in numbers["kinds"].items():
        rows.append([say(kind), f"{one['with']:.3f}", f"{one['without']:.3f}", f"{one['right']:.1%}"])
    return [Part(say("table", padded=numbers["padded"], right=numbers["right"], pairs=numbers["pairs"]), rows),
            Part(say("decoder_too"))]  # fmt: skip


EXAMPLE = Example(name="padding", compute=compute, show=show)
