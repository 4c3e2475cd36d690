"""The structures that only some calls pass to the kernels, field by field as in c/kernels.h; no torch.

Those of every search are in structs.py, so that translating without constraints does not load these.
"""

from __future__ import annotations

import ctypes

from jumok.kernels import structs
from jumok.kernels.structs import FLOAT, LONG, POINTER


class AutomatonTable(ctypes.Structure):
    """An automaton over the text of an output."""

    _fields_ = [
        *((name, LONG) for name in ("states", "width", "start")),
        *((name, POINTER) for name in ("symbols", "next", "flags")),
    ]


class SearchRules(ctypes.Structure):
    """What translations must and must not contain."""

    _fields_ = [
        ("min_length", LONG),
        ("no_repeat", LONG),
        *((name, POINTER) for name in ("prefix_begins", "prefixes")),
        *((name, POINTER) for name in ("phrase_begins", "phrase_offsets", "phrase_tokens", "phrase_states")),
        *((name, POINTER) for name in ("openings", "forbidding")),
        ("ending", LONG),
        *((name, POINTER) for name in ("automata", "unit_begins", "units")),
    ]


class ForceTask(ctypes.Structure):
    """Given translations whose log-probabilities or attention are asked for."""

    _fields_ = [
        *((name, LONG) for name in ("sentences", "start", "threads", "layer", "head")),
        *((name, POINTER) for name in ("tokens", "begins", "targets", "target_begins")),
        *((name, POINTER) for name in ("source_positions", "target_positions")),
        *((name, POINTER) for name in ("gains", "weights", "weight_begins")),
    ]


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


class EditTable(ctypes.Structure):
    """One edit of a model."""

    _fields_ = [*((name, LONG) for name in ("kind", "part", "layer", "head", "query", "size")), ("weights", POINTER)]


class EditList(ctypes.Structure):
    """The edits of a model."""

    _fields_ = [("count", LONG), ("each", ctypes.POINTER(EditTable))]


class ReadTask(ctypes.Structure):
    """One pair that is read, and where the numbers go."""

    _fields_ = [
        ("source_length", LONG),
        ("target_length", LONG),
        *((name, POINTER) for name in ("source", "target", "source_positions", "target_positions", "edits", "notes")),
        *((name, POINTER) for name in ("memory", "hidden", "logits")),
    ]


class EditedStep(ctypes.Structure):
    """One step of a decoder with edits."""

    _fields_ = [(name, POINTER) for name in ("step", "edits", "prefixes", "positions")]


STRUCTURES = structs.STRUCTURES | {
    "automaton": AutomatonTable,
    "search_rules": SearchRules,
    "force_task": ForceTask,
    "attention_task": AttentionTask,
    "pass_task": PassTask,
    "step_task": StepTask,
    "edit": EditTable,
    "edit_list": EditList,
    "read_task": ReadTask,
    "edited_step": EditedStep,
}  # all of them, by their names in C
