"""The structures of the kernels that models in torch call, field by field as in c/kernels.h.

Those of a search are in structs.py, so that translating does not load these.
"""

from __future__ import annotations

import ctypes

from jumok.kernels import structs
from jumok.kernels.structs import FLOAT, LONG, POINTER


class AttentionTask(ctypes.Structure):
    """Which queries attend to which keys."""

    _fields_ = [
        *((name, LONG) for name in ("rows", "heads", "d_k", "d_v")),
        *((name, POINTER) for name in ("queries", "keys", "lengths", "rotary")),
        *((name, LONG) for name in ("q_stride", "k_stride", "v_stride", "causal", "longest")),
        ("factor", FLOAT),
    ]


class PassTask(ctypes.Structure):
    """A training pass through a whole Transformer."""

    _fields_ = [
        ("layers", LONG * 2),
        *((name, LONG) for name in ("d_model", "heads", "d_k", "d_v", "d_ff", "pre", "rows", "grid", "longest")),
        *((name, POINTER * 2) for name in ("starts", "ids", "places", "positions")),
        *((name, POINTER) for name in ("rotary", "weights", "gradients", "keys", "rates")),
        *((name, FLOAT) for name in ("factor", "scale", "eps")),
    ]


class StepTask(ctypes.Structure):
    """One step of a decoder."""

    _fields_ = [
        *((name, LONG) for name in ("rows", "at", "capacity", "source")),
        *((name, POINTER) for name in ("tokens", "origin", "sentence", "lengths", "position")),
    ]


STRUCTURES = structs.STRUCTURES | {
    "attention_task": AttentionTask,
    "pass_task": PassTask,
    "step_task": StepTask,
}  # all of them, by their names in C
