"""Edits that change the model itself, so that kernels, training and every engine follow them.

    with change(model, Edits(heads={("encoder", 0, 1)})):
        translator.translate(…)          # with the kernels
    unmask(model)                        # for good, before training

A head that is off has zeros in its columns of W^O: what the head computes no longer matters.  All other edits need a
reading (passes.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from jumok.inside.edits import Edits
from jumok.inside.passes import find_sizes
from jumok.models.transformer import Transformer
from jumok.nn.attention import EVERYTHING, Mask


@contextmanager
def change(model: Any, edits: Edits) -> Iterator[None]:
    """Switch heads off in the weights of a model while inside."""
    assert edits.is_weights or not edits, "other edits need a reading"
    find_sizes(model).check(edits)
    saved: list[tuple[Tensor, slice, Tensor]] = []
    try:
        with torch.inference_mode(False), torch.no_grad():  # so that the kernels notice that weights have changed
            for kind, layer, head in sorted(edits.heads):
                attention = list_attentions(model, kind)[layer]
                weight, columns = attention.output.weight, slice(head * attention.d_v, (head + 1) * attention.d_v)
                saved.append((weight, columns, weight[:, columns].clone()))
                weight[:, columns] = 0.0
        yield
    finally:
        with torch.inference_mode(False), torch.no_grad():
            for weight, columns, before in saved:
                weight[:, columns] = before


def list_attentions(model: Any, kind: str) -> list[Any]:
    """The attention of a kind of every layer."""
    if isinstance(model, Transformer):
        layers = model.encoder if kind == "encoder" else model.decoder
    else:
        layers = model.blocks if kind == "decoder" else model.encoder.layers
    return [layer.cross if kind == "cross" else layer.attention for layer in layers]


class Unmasked(Transformer):
    """A Transformer whose decoder sees the whole target in training."""

    def decode(self, target: Tensor, memory: Tensor, memory_mask: Mask) -> Tensor:
        x = self.target(target)  # (B, T, D)
        for layer in self.decoder:
            x = layer(x, EVERYTHING, memory, memory_mask)  # (B, T, D)
        states: Tensor = self.decoder_norm(x)
        return states


def unmask(model: Any) -> None:
    """Let every position of the decoder attend to all others in training; stepping does not change."""
    model.__class__ = Unmasked
