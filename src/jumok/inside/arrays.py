"""Arrays as plain values of JSON: shape, and float32 (or one byte each, for masks) in base 64; softmax.  No torch."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np


def pack(array: np.ndarray) -> dict[str, Any]:
    """Return an array as its shape and its bytes, little-endian, in base 64."""
    if array.dtype == np.bool_:
        return {"shape": list(array.shape), "type": "u1", "data": _encode(array, "u1")}
    return {"shape": list(array.shape), "data": _encode(array, "<f4")}


def _encode(array: np.ndarray, kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(array, kind).tobytes()).decode()


def round_number(value: float) -> float | None:
    """Return a number that JSON can write; None where it is not finite."""
    return value if value - value == 0.0 else None


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Log-probabilities over the last axis, in float32; NaN where a logit is NaN or infinite."""
    with np.errstate(invalid="ignore", over="ignore"):
        shifted = logits.astype(np.float32) - logits.max(axis=-1, keepdims=True)
        result: np.ndarray = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        return result


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities over the last axis, in float32."""
    with np.errstate(invalid="ignore", over="ignore"):
        powers = np.exp(logits.astype(np.float32) - logits.max(axis=-1, keepdims=True))
        result: np.ndarray = powers / powers.sum(axis=-1, keepdims=True)
        return result


def find_largest(values: np.ndarray, count: int) -> list[int]:
    """The places of the largest of some numbers (V,), largest first; of equal ones the first place first."""
    count = min(count, len(values))
    some = np.argpartition(-values, count - 1)[:count] if count < len(values) else np.arange(len(values))
    return [int(place) for place in sorted(some.tolist(), key=lambda place: (-values[place], place))]
