"""The structures that every search passes to the kernels, field by field as in c/kernels.h; no torch.

Those of constraints, given translations, single operations, training passes and decoder steps are in task_structs.py.
A test compares all of them with C.  The caller keeps the memory that their pointers refer to alive during the call.
"""

from __future__ import annotations

import ctypes

POINTER, LONG, FLOAT, DOUBLE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_double


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
        *((name, POINTER) for name in ("rules", "edits", "stops", "order", "live")),
        ("live_width", LONG),
        *((name, POINTER) for name in ("ids", "sizes", "gains", "totals")),
    ]


STRUCTURES: dict[str, type[ctypes.Structure]] = {
    "dense": Dense,
    "norm_weights": NormWeights,
    "layer_weights": LayerWeights,
    "stack": Stack,
    "search_task": SearchTask,
}  # by their names in C
