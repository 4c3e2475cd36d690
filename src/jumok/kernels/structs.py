"""Every structure that is handed to the kernels, field by field as in c/kernels.h; no torch.

A test compares their sizes with C's.  Whoever fills one keeps the memory behind its pointers alive during the call.
"""

from __future__ import annotations

import ctypes

POINTER, LONG, FLOAT, DOUBLE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_double


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


class StepTask(ctypes.Structure):
    """One step of a decoder."""

    _fields_ = [
        *((name, LONG) for name in ("rows", "at", "capacity", "source")),
        *((name, POINTER) for name in ("tokens", "origin", "sentence", "lengths", "position")),
    ]


class SearchTask(ctypes.Structure):
    """A search from sources to translations."""

    _fields_ = [
        *((name, LONG) for name in ("sentences", "beam", "best", "most", "exact", "start", "end")),
        *((name, POINTER) for name in ("tokens", "begins", "limits", "sources", "targets")),
        ("alpha", DOUBLE),
        ("margin", DOUBLE),
        ("never", POINTER),
        ("nevers", LONG),
        *((name, POINTER) for name in ("matrix", "list_begins", "list", "common")),
        ("commons", LONG),
        ("same", LONG),
        ("threads", LONG),
        *((name, POINTER) for name in ("ids", "sizes", "gains", "totals")),
    ]


STRUCTURES: dict[str, type[ctypes.Structure]] = {
    "attention_task": AttentionTask,
    "pass_task": PassTask,
    "dense": Dense,
    "norm_weights": NormWeights,
    "layer_weights": LayerWeights,
    "stack": Stack,
    "step_task": StepTask,
    "search_task": SearchTask,
}  # by their names in C
