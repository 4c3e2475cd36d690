"""What the kernels know of a Transformer: which recipes they support, and names, shapes and structures of its weights.

Everything that packs weights or passes them to the kernels uses this description; no torch.  A structure has the fields
of c/kernels.h, one by one, which a test compares.  That of a task is in the module that fills it; whoever calls the
kernels keeps the memory alive that its pointers refer to.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import NamedTuple

from jumok.config.sections import ModelConfig, TransformerConfig
from jumok.kernels.library import FLOAT, LONG, POINTER
from jumok.messages import Message

SIDES = ("encoder", "decoder")
EMBEDDINGS = {"encoder": "source", "decoder": "target"}
EPS = 1e-5  # added to the variance in every norm


class Dense(ctypes.Structure):
    """A packed matrix and its bias."""

    _fields_ = [("packed", POINTER), ("bias", POINTER), ("width", LONG), ("height", LONG)]


class NormWeights(ctypes.Structure):
    """The weights of a layer norm."""

    _fields_ = [("gain", POINTER), ("shift", POINTER)]


class LayerWeights(ctypes.Structure):
    """The weights of one layer, with the keys and values it has computed."""

    _fields_ = [
        *((name, Dense) for name in ("qkv", "self_output", "query", "key_value", "cross_output", "inner", "outer")),
        ("norms", NormWeights * 3),
        ("cache", POINTER),
        ("memory", POINTER),
    ]


class Stack(ctypes.Structure):
    """All layers of an encoder or a decoder."""

    _fields_ = [
        *((name, LONG) for name in ("layers", "d_model", "heads", "d_k", "d_v", "pre")),
        ("table", POINTER),
        ("rotary", POINTER),
        ("last", NormWeights),
        ("output", Dense),
        ("each", ctypes.POINTER(LayerWeights)),
        *((name, FLOAT) for name in ("factor", "scale", "eps")),
    ]


class Matrix(NamedTuple):
    """A matrix of a layer: its field in the structure of the kernels, its name in the model, its shape."""

    field: str
    name: str
    rows: int
    columns: int


class Layout(NamedTuple):
    """The sizes of a Transformer, and the weights of one layer of each side."""

    d_k: int
    d_v: int
    factor: float  # by which the scores of attention are multiplied
    layers: dict[str, int]
    matrices: dict[str, list[Matrix]]
    norms: dict[str, list[str]]


def find_obstacle(config: ModelConfig, *, training: bool = False) -> Message | None:
    """Return why the kernels cannot run a model; None if they can."""
    if not isinstance(config, TransformerConfig):
        return Message("kernels.other_kind", {"kind": config.kind})
    if any(width % 8 != 0 for width in head_widths(config)):
        return Message("kernels.head_width")
    if training and config.positions == "learned":
        return Message("kernels.no_setting_in_training", {"setting": f"positions={config.positions!r}"})
    unsupported = {
        f"norm={config.norm!r}": config.norm != "layer",
        f"join={config.join!r}": config.join != "add",
        f"score={config.score!r}": config.score == "additive",
        f"activation={config.activation!r}": config.activation != "relu",
        "residual=false": not config.residual,
    }
    settings = [setting for setting, used in unsupported.items() if used]
    return Message("kernels.no_setting", {"setting": settings[0]}) if settings else None


def describe(config: TransformerConfig) -> Layout:
    """Return the layout of a model, by which its weights are packed."""
    d_k, d_v = head_widths(config)
    return Layout(
        d_k=d_k,
        d_v=d_v,
        factor=scale_of_scores(config),
        layers={side: count_layers(config, side) for side in SIDES},
        matrices={side: list_matrices(config, decoder=side == "decoder") for side in SIDES},
        norms={side: list_norms(decoder=side == "decoder") for side in SIDES},
    )


def head_widths(config: TransformerConfig) -> tuple[int, int]:
    """Return the width of a head's keys and of its values."""
    return config.head_widths


def list_matrices(config: TransformerConfig, *, decoder: bool) -> list[Matrix]:
    """List the matrices of one layer in the order in which they are used."""
    width, (keys, values) = config.d_model, (config.heads * each for each in head_widths(config))
    attention = [Matrix("qkv", "attention.qkv", 2 * keys + values, width)]
    attention += [Matrix("self_output", "attention.output", width, values)]
    cross = [Matrix("query", "cross.query", keys, width), Matrix("key_value", "cross.memory", keys + values, width)]
    cross += [Matrix("cross_output", "cross.output", width, values)]
    network = [Matrix("inner", "feed_forward.inner", config.d_ff, width)]
    network += [Matrix("outer", "feed_forward.outer", width, config.d_ff)]
    return [*attention, *(cross if decoder else []), *network]


def list_norms(*, decoder: bool) -> list[str]:
    """List the residual paths of one layer, each of which has a norm, in the order in which they are used."""
    return ["attention_path", *(["cross_path"] if decoder else []), "feed_forward_path"]


def count_layers(config: TransformerConfig, side: str) -> int:
    """Return how many layers a side has."""
    return config.encoder_layers if side == "encoder" else config.decoder_layers


def walk(config: TransformerConfig) -> Iterator[str]:
    """Yield the modules whose weight and bias a training pass reads, in its order; "" where it has no norm."""
    for side in SIDES:
        decoder = side == "decoder"
        for number in range(count_layers(config, side)):
            path, norms = "", iter(list_norms(decoder=decoder))
            for matrix in list_matrices(config, decoder=decoder):
                part = matrix.name.partition(".")[0]
                if path and part != path:
                    yield f"{side}.{number}.{next(norms)}.norm"
                path = part
                yield f"{side}.{number}.{matrix.name}"
            yield f"{side}.{number}.{next(norms)}.norm"
        yield f"{side}_norm" if config.norm_place == "pre" else ""


def list_dropouts(config: TransformerConfig) -> list[str]:
    """List the dropout modules in the order in which they are applied."""
    names = []
    for side in SIDES:
        names.append(f"{EMBEDDINGS[side]}.dropout")
        for number in range(count_layers(config, side)):
            names += [f"{side}.{number}.{path}.dropout" for path in list_norms(decoder=side == "decoder")]
    return names


def scale_of_scores(config: TransformerConfig) -> float:
    """Return the factor of the scores of attention: 1 / √d_k, or 1 where they are not scaled."""
    return 1.0 if config.score == "dot" else head_widths(config)[0] ** -0.5
