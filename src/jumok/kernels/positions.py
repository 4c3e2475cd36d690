"""Positions as arrays: what nn/positions.py makes of torch, for the engines that run without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jumok.config.sections import TransformerConfig

if TYPE_CHECKING:
    from jumok.kernels.pack import Weights


def added(weights: Weights, model: TransformerConfig, side: str, length: int) -> np.ndarray | None:
    """The vectors (length, D) that are added to the embeddings of a side, or None."""
    if model.positions in ("rotary", "none"):
        return None
    if model.positions == "learned":
        table = weights.take(f"{side}.positions.weight", model.longest, model.d_model)
        return np.ascontiguousarray(table[np.minimum(np.arange(length), len(table) - 1)])  # the last one repeats
    return waves(length, model.d_model)


def waves(length: int, width: int) -> np.ndarray:
    """The paper's sinusoids (length, width), in double, then rounded."""
    angle = np.arange(length)[:, None] / 10_000.0 ** (np.arange(0, width, 2) / width)
    table = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, -1)[:, :width]
    return np.ascontiguousarray(table, dtype=np.float32)


def turns(model: TransformerConfig, length: int) -> np.ndarray | None:
    """Cosine and signed sine (length, 2, K) by which queries and keys turn, or None."""
    if model.positions != "rotary":
        return None
    pairs = waves(length, model.key_width).reshape(length, -1, 2)
    sin, cos = pairs[:, :, 0], pairs[:, :, 1]
    both = [np.stack([cos, cos], axis=-1), np.stack([-sin, sin], axis=-1)]
    return np.ascontiguousarray(np.stack([one.reshape(length, -1) for one in both], axis=1))
