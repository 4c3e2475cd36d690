"""Edits of a packed Transformer, as the kernels read them: what is switched off or changed while it computes; no torch.

    Edit("silence", "cross", layer=0, head=1)           # one head gives zeros to W^O
    Edit("no_positions")                                # everywhere

All bounds are checked twice: here, with an error, and in C, which then computes nothing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jumok.kernels.library import LONG, POINTER
from jumok.kernels.searching import BoundModel, address_of

PARTS = ("encoder", "decoder", "cross")  # enum part in kernels.h
KINDS = (
    "silence", "weights", "skip", "no_mask", "no_positions", "no_scale", "no_residual", "no_norm",
)  # fmt: skip  # enum edit_kind
ALL = -1


class EditTable(ctypes.Structure):
    """One edit of a model."""

    _fields_ = [*((name, LONG) for name in ("kind", "part", "layer", "head", "query", "size")), ("weights", POINTER)]


class EditList(ctypes.Structure):
    """The edits of a model."""

    _fields_ = [("count", LONG), ("each", ctypes.POINTER(EditTable))]


class Edit(NamedTuple):
    """One change of a model; without a part, a layer, a head or a query it is that of all of them."""

    kind: str
    part: str | None = None
    layer: int = ALL
    head: int = ALL
    query: int = ALL
    weights: tuple[float, ...] = ()  # of the first keys, with the kind "weights"; others get 0


def pack(model: BoundModel, edits: Sequence[Edit]) -> tuple[EditList, list[Any]]:
    """Return edits as the kernels read them, and what must stay alive with them; a wrong one is an `IndexError`."""
    arrays = [np.array(one.weights, np.float32) for one in edits]
    each = (EditTable * len(edits))(*(_pack_one(model, one, array) for one, array in zip(edits, arrays, strict=True)))
    packed = EditList(len(edits), each)
    bad = model.library.jk_find_bad_edit(*map(ctypes.byref, (model.encoder, model.decoder, packed)))
    if bad != -1:
        raise IndexError(f"the model has nothing that {edits[bad]} could change")
    return packed, [arrays, each]


def _pack_one(model: BoundModel, edit: Edit, weights: np.ndarray) -> EditTable:
    layers, heads, part = 0, 0, ALL  # an edit of all parts is one of all their layers and heads
    if edit.part in PARTS:
        stack = model.encoder if edit.part == "encoder" else model.decoder
        layers, heads, part = stack.layers, stack.heads, PARTS.index(edit.part)
    known = edit.kind in KINDS and (edit.part is None or part != ALL)
    if not known or not ALL <= edit.layer < layers or not ALL <= edit.head < heads or edit.query < ALL:
        raise IndexError(f"the model has nothing that {edit} could change")
    return EditTable(KINDS.index(edit.kind), part, edit.layer, edit.head, edit.query, len(weights), address_of(weights))
