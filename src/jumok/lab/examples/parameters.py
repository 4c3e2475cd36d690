"""Parameters by part: of a layer, and of the whole base model (sections 3.1 and 3.3)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from jumok.config import presets
from jumok.config.sections import TransformerConfig
from jumok.lab.examples.example import Example, Numbers, Part, Say, seeded
from jumok.models import build
from jumok.models.transformer import EncoderLayer
from jumok.nn.layers import FeedForward

SYMBOLS = 37_000  # of the paper's vocabulary for English and German


def count(module: nn.Module, *, matrices: bool = False) -> int:
    """The parameters of a module, or of its matrices alone."""
    return sum(one.numel() for one in module.parameters() if one.dim() > 1 or not matrices)


def compute() -> dict[str, Any]:
    config = presets.base().model
    assert isinstance(config, TransformerConfig)
    with torch.device("meta"):
        layer = EncoderLayer(config)
    model = build(config, SYMBOLS, SYMBOLS, device="meta")
    d, attention, network = (
        config.d_model,
        count(layer.attention, matrices=True),
        count(layer.feed_forward, matrices=True),
    )
    parts = {"embedding": 0, "attention": 0, "feed_forward": 0, "norm": 0}
    for name, parameter in model.named_parameters():
        layered = "norm" if "path" in name else "feed_forward" if "feed_forward" in name else "attention"
        parts[layered if name.startswith(("encoder", "decoder")) else "embedding"] += parameter.numel()
    with seeded(1), torch.no_grad():
        small, x = FeedForward(8, 32), torch.randn(1, 5, 8)
        alone = torch.cat([small(x[:, place : place + 1]) for place in range(5)], dim=1)
        apart = float((small(x) - alone).abs().max())
    whole = count(layer)
    keys, values = config.head_widths
    return {
        "d_model": d, "d_ff": config.d_ff, "attention": attention, "feed_forward": network,
        "attention_squares": attention / d**2, "feed_forward_squares": network / d**2,
        "attention_share": attention / (attention + network), "feed_forward_share": network / (attention + network),
        "layer": whole, "positions": {"10": whole, "1000": whole}, "layers": config.encoder_layers,
        "sub_layers": sum(1 for name, _ in layer.named_children() if not name.endswith("_path")),
        "norms": sum(isinstance(one, nn.LayerNorm) for one in layer.modules()),
        "heads": config.heads, "d_k": keys, "joined": config.heads * values,
        "model": parts, "whole": sum(parts.values()),
        "shares": {name: amount / sum(parts.values()) for name, amount in parts.items()},
        "position_wise": apart,
    }  # fmt: skip


def show(numbers: Numbers, say: Say) -> list[Part]:
    rows = [["", say("count"), "d²", say("share")]]
    for name in ("attention", "feed_forward"):
        squares, share = numbers[f"{name}_squares"], numbers[f"{name}_share"]
        rows.append([say(name), f"{numbers[name]:,}", f"{squares:.0f}", f"{share:.1%}"])
    model = [["", say("count"), say("share")]]
    model += [[say(name), f"{amount:,}", f"{numbers['shares'][name]:.1%}"] for name, amount in numbers["model"].items()]
    return [
        Part(say("layer", d_model=numbers["d_model"], d_ff=numbers["d_ff"]), rows),
        Part(say("positions", layer=numbers["layer"], apart=numbers["position_wise"])),
        Part(say("model", symbols=SYMBOLS, whole=numbers["whole"]), model),
    ]


EXAMPLE = Example(name="parameters", compute=compute, show=show)
