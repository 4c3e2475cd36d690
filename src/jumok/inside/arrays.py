"""Tensors as plain values of JSON: shape, and float32 (or one byte each, for masks) in base 64."""

from __future__ import annotations

import base64
from typing import Any

import torch
from torch import Tensor


def pack(tensor: Tensor) -> dict[str, Any]:
    """Return a tensor as its shape and its bytes, little-endian, in base 64."""
    if tensor.dtype == torch.bool:
        return {"shape": list(tensor.shape), "type": "u1", "data": _encode(tensor.to(torch.uint8))}
    return {"shape": list(tensor.shape), "data": _encode(tensor.float())}


def _encode(tensor: Tensor) -> str:
    array = tensor.detach().cpu().contiguous().numpy()
    return base64.b64encode(array.astype(array.dtype.newbyteorder("<")).tobytes()).decode()


def round_number(value: float) -> float | None:
    """Return a number that JSON can write; None where it is not finite."""
    return value if value - value == 0.0 else None
