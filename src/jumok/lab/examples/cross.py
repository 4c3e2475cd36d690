"""Cross-attention as three study notes describe it, with the weights of one trained model (section 3.2.3).

Shapes   B batch · S source · T target · D model width
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import torch
from torch import Tensor

from jumok.lab.examples.doubling import draw, share_right, to_batch, train
from jumok.lab.examples.example import Example, Numbers, Part, Say
from jumok.models.base import PAD
from jumok.models.transformer import DecoderLayer, Transformer
from jumok.nn.attention import CrossAttention, Mask, attend, merge_heads, split_heads

PAIRS = 200
SHOWN = "cab"
Cross = Callable[
    [CrossAttention, Tensor, Tensor, Tensor], Tensor
]  # (attention, x of the sub-layer, input of the layer, memory)


def encode(model: Transformer, source: Tensor) -> tuple[list[Tensor], Mask]:
    """What each layer of the encoder returns (B, S, D), first layer first."""
    mask, x, outputs = Mask.padding(source != PAD), model.source(source), []
    for layer in model.encoder:
        x = layer(x, mask)
        outputs.append(x)
    return outputs, mask


def list_layers(model: Transformer) -> list[DecoderLayer]:
    """The layers of the decoder."""
    return list(model.decoder)  # type: ignore[arg-type]


def decode(model: Transformer, target: Tensor, memories: list[Tensor], cross: Cross) -> Tensor:
    """Logits (B, T, V) of a decoder whose layers read their memories with `cross`."""
    mask, x = Mask(target != PAD, causal=True), model.target(target)
    for layer, memory in zip(list_layers(model), memories, strict=True):
        before = x
        x = layer.attention_path(x, lambda x, layer=layer: layer.attention(x, mask))
        x = layer.cross_path(x, lambda x, layer=layer, m=memory, y=before: cross(layer.cross, x, y, m))
        x = layer.feed_forward_path(x, layer.feed_forward)
    return model.project(x)


def measure(model: Transformer) -> dict[str, float]:
    """The share of right tokens with each reading."""
    source, target, labels = draw(Random(2), PAIRS)
    outputs, mask = encode(model, source)
    last = [outputs[-1]] * len(outputs)

    def paper(cross: CrossAttention, x: Tensor, before: Tensor, memory: Tensor) -> Tensor:
        mixed: Tensor = cross(x, memory, mask)
        return mixed

    def below(cross: CrossAttention, x: Tensor, before: Tensor, memory: Tensor) -> Tensor:
        mixed: Tensor = cross(before, memory, mask)
        return mixed

    def same_step(cross: CrossAttention, x: Tensor, before: Tensor, memory: Tensor) -> Tensor:
        rows, columns = x.shape[1], memory.shape[1]
        there = torch.eye(max(rows, columns), dtype=torch.bool)[:rows, :columns]  # target t sees source t alone
        k, v = cross.read(memory)
        q = split_heads(cross.query(x), cross.heads)
        mixed: Tensor = cross.output(merge_heads(attend(q, k, v, there)[0]))
        return mixed

    return {
        "paper": share_right(decode(model, target, last, paper), labels),
        "query_below": share_right(decode(model, target, last, below), labels),
        "same_layer": share_right(decode(model, target, outputs, paper), labels),
        "same_step": share_right(decode(model, target, last, same_step), labels),
        "all_of_002": share_right(decode(model, target, outputs, lambda c, x, y, m: same_step(c, y, y, m)), labels),
    }  # fmt: skip


def compute() -> dict[str, Any]:
    model = train()
    with torch.no_grad():
        shares = measure(model)
        source, target, _ = to_batch([SHOWN])
        memory, cross = encode(model, source)[0][-1], list_layers(model)[0].cross
        x = model.target(target)
        k, v = cross.read(memory)
        swapped_q, swapped_v = split_heads(cross.query(memory), cross.heads), cross.read(x)[1]
        weights = attend(swapped_q, k, v)[1]
        try:
            weights @ swapped_v
            refused = ""
        except RuntimeError as error:
            refused = str(error)
        right = attend(split_heads(cross.query(x), cross.heads), k, v)[1]
    return {
        "source": source.shape[1], "target": target.shape[1], "pairs": PAIRS, "layers": len(model.decoder),
        "weights": {"004": list(right.shape[2:]), "001": list(weights.shape[2:])},
        "values": {"004": v.shape[2], "001": swapped_v.shape[2]},
        "rows": {"004": right.shape[2], "001": weights.shape[2]},
        "refused": refused, "possible": not refused, "right": shares,
        "without_key": target.shape[1] - source.shape[1],
    }  # fmt: skip


def show(numbers: Numbers, say: Say) -> list[Part]:
    weights, values, right = numbers["weights"], numbers["values"], numbers["right"]
    impossible = say("impossible") if not numbers["possible"] else ""
    shapes = {note: " × ".join(map(str, shape)) for note, shape in weights.items()}
    rows = [
        [say("note"), "q", "k", "v", say("weights"), say("values"), say("right")],
        ["004:49", say("decoder"), say("encoder"), say("encoder"), shapes["004"], str(values["004"]),
         f"{right['paper']:.1%}"],
        ["001:105", say("encoder"), say("encoder"), say("decoder"), shapes["001"], str(values["001"]),
         impossible],
        ["002:303", say("below"), say("same"), say("same"), f"{numbers['target']} × 1", "1",
         f"{right['all_of_002']:.1%}"],
    ]  # fmt: skip
    alone = {key: right[key] for key in ("query_below", "same_layer", "same_step")}
    return [
        Part(say("table", source=numbers["source"], target=numbers["target"], pairs=numbers["pairs"]), rows),
        Part(say("001", rows=weights["001"][0], columns=weights["001"][1], values=values["001"])),
        Part(say("002", **alone, without_key=numbers["without_key"])),
    ]


EXAMPLE = Example(name="cross", compute=compute, show=show)
