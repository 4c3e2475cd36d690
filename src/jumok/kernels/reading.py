"""One pair read by the kernels, with the numbers they compute on the way; and steps of a decoder with edits; no torch.

    numbers = packed.read(source, target, {("decoder.0.cross", "weights")}, edits)
    numbers.notes["decoder.0.cross", "weights"]         # (H, T, S)

The names of parts are those of stacks (encoder, decoder) and of their sub-layers (encoder.0.attention, …,
decoder.3.cross, decoder.3.feed_forward).  c/kernels.h says what each note is.

Shapes   S source · T target · R rows (S or T) · H heads · K width of a key · E width of a value · D width
         F feed-forward · V vocabulary · N hypotheses
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jumok.kernels.editing import Edit, pack
from jumok.kernels.library import LONG, POINTER
from jumok.kernels.searching import BoundModel, address_of

if TYPE_CHECKING:
    from jumok.kernels.layout import Stack

NOTES = (
    "input", "q", "k", "v", "q_turned", "k_turned", "products", "scores", "weights", "mixed", "joined", "inner",
    "active", "output", "total", "mean", "deviation", "normed",
)  # fmt: skip  # enum note in kernels.h
SUBLAYERS = {"encoder": ("attention", "feed_forward"), "decoder": ("attention", "cross", "feed_forward")}

Note = tuple[str, str]  # the part that computes it, and its name


class ReadTask(ctypes.Structure):
    """One pair that is read, and where the numbers go."""

    _fields_ = [
        ("source_length", LONG),
        ("target_length", LONG),
        *((name, POINTER) for name in ("source", "target", "source_positions", "target_positions", "edits", "notes")),
        *((name, POINTER) for name in ("memory", "hidden", "logits")),
    ]


class StepTask(ctypes.Structure):
    """One step of a decoder."""

    _fields_ = [
        *((name, LONG) for name in ("rows", "at", "capacity", "source")),
        *((name, POINTER) for name in ("tokens", "origin", "sentence", "lengths", "position")),
    ]


class EditedStep(ctypes.Structure):
    """One step of a decoder with edits."""

    _fields_ = [(name, POINTER) for name in ("step", "edits", "prefixes", "positions")]


class Numbers(NamedTuple):
    """What the kernels have made of a pair."""

    memory: np.ndarray  # (S, D)
    hidden: np.ndarray  # (T, D)
    logits: np.ndarray  # (T, V)
    notes: dict[Note, np.ndarray]


def list_parts(encoder: Stack, decoder: Stack) -> Iterator[str]:
    """Yield the parts whose notes can be taken, in the order of the kernels."""
    for side, stack in (("encoder", encoder), ("decoder", decoder)):
        yield side
        for layer in range(stack.layers):
            yield from (f"{side}.{layer}.{sublayer}" for sublayer in SUBLAYERS[side])


def find_shape(stack: Stack, part: str, note: str, source: int, target: int) -> tuple[int, ...]:
    """Return the shape of a note for these numbers of tokens."""
    rows = source if part.startswith("encoder") else target
    keys = source if part.endswith(".cross") else rows
    heads, d_k, d_v = stack.heads, stack.d_k, stack.d_v
    if note in ("q", "k", "q_turned", "k_turned"):
        return rows, heads, d_k
    if note in ("products", "scores", "weights"):
        return heads, rows, keys
    if note in ("v", "mixed"):
        return rows, heads, d_v
    widths = {"joined": heads * d_v, "mean": 1, "deviation": 1}
    if note in ("inner", "active"):
        return rows, stack.each[0].inner.height
    return rows, widths.get(note, stack.d_model)


def bind_memories(decoder: Stack, memories: Sequence[np.ndarray]) -> None:
    """Let the layers of a decoder that was bound read these memories."""
    for layer, memory in enumerate(memories):
        decoder.each[layer].memory = address_of(memory)


def read(
    model: BoundModel,
    source: Sequence[int],
    target: Sequence[int],
    wanted: Collection[Note] = (),
    edits: Sequence[Edit] = (),
) -> Numbers:
    """Read a source with its END and a target from START on; without a target only the source is read.

    Notes that a model does not take, such as those of a norm that is off, hold nothing.  Keys and values of
    cross-attention are those of its memory: (S, H, K) and (S, H, E).
    """
    encoder, decoder = model.encoder, model.decoder
    sizes, width = (len(source), len(target)), decoder.heads * (decoder.d_k + decoder.d_v)
    memories = [np.empty((len(source), width), np.float32) for _ in range(decoder.layers)]
    bind_memories(decoder, memories)
    notes: dict[Note, np.ndarray] = {}
    parts = list(list_parts(encoder, decoder))
    table = np.zeros((len(parts), len(NOTES)), np.uint64)
    for part, note in wanted:
        if not (part.endswith(".cross") and note in ("k", "v")):
            stack = encoder if part.startswith("encoder") else decoder
            array = notes[part, note] = np.zeros(find_shape(stack, part, note, *sizes), np.float32)
            table[parts.index(part), NOTES.index(note)] = address_of(array)
    ids = [np.array(tokens, np.int64) for tokens in (source, target)]
    memory, hidden, logits = (
        np.empty(shape, np.float32)
        for shape in (
            (len(source), encoder.d_model), (len(target), decoder.d_model), (len(target), decoder.output.height),
        )
    )  # fmt: skip
    packed, _alive = pack(model, edits)
    task = ReadTask(
        *sizes, *map(address_of, ids), model.sources, model.targets, ctypes.addressof(packed), address_of(table),
        *map(address_of, (memory, hidden, logits)),
    )  # fmt: skip
    if model.library.jk_read(ctypes.byref(encoder), ctypes.byref(decoder), ctypes.byref(task)):
        raise IndexError(f"a pair of {sizes[0]} and {sizes[1]} tokens cannot be read")
    notes |= {one: _cut_memory(decoder, memories, one) for one in wanted if one not in notes}
    return Numbers(memory, hidden, logits, notes)


def _cut_memory(decoder: Stack, memories: Sequence[np.ndarray], note: Note) -> np.ndarray:
    """Return the keys or the values of a layer's memory: (S, H, K) or (S, H, E)."""
    memory, keys = memories[int(note[0].split(".")[1])], decoder.heads * decoder.d_k
    part = memory[:, :keys] if note[1] == "k" else memory[:, keys:]
    return part.reshape(len(memory), decoder.heads, -1)


class Walk:
    """Steps of one translation with edits: one hypothesis goes on, and from each of its steps others may branch off.

    A branch ends before the walk goes on: both write to the same caches.
    """

    def __init__(self, model: BoundModel, source: Sequence[int], edits: Sequence[Edit], *, rows: int, room: int):
        """`rows` are the most hypotheses of a branch, `room` the most positions of any."""
        decoder = model.decoder
        width = decoder.heads * (decoder.d_k + decoder.d_v)
        self.model, self.edits, self.room = model, edits, room
        self.memories = [np.empty((len(source), width), np.float32) for _ in range(decoder.layers)]
        self.caches = [np.zeros((rows, room, width), np.float32) for _ in range(decoder.layers)]
        self.lengths = np.array([len(source)], np.int64)
        bind_memories(decoder, self.memories)
        for layer, cache in enumerate(self.caches):
            decoder.each[layer].cache = address_of(cache)
        self._packed, self._alive = pack(model, edits)
        ids = np.array(source, np.int64)
        task = ReadTask(
            len(source), 0, address_of(ids), None, model.sources, model.targets, ctypes.addressof(self._packed)
        )
        if model.library.jk_read(ctypes.byref(model.encoder), ctypes.byref(decoder), ctypes.byref(task)):
            raise IndexError(f"a source of {len(source)} tokens cannot be read")

    def step(self, tokens: np.ndarray, origin: np.ndarray) -> np.ndarray:
        """Return the logits (N, V) after the last of tokens (N, t + 1), whose past is in slots origin (N, room)."""
        rows, length = tokens.shape
        if length > self.room or rows > len(self.caches[0]) or origin.shape != (rows, self.room):
            raise IndexError(f"{rows} hypotheses of {length} tokens have no room")
        decoder, last = self.model.decoder, np.ascontiguousarray(tokens[:, -1])
        if last.min() < 0 or last.max() >= decoder.output.height:
            raise IndexError(f"ids from {last.min()} to {last.max()} do not fit {decoder.output.height} symbols")
        prefixes, sentence = np.zeros((rows, self.room), np.int64), np.zeros(rows, np.int64)
        prefixes[:, :length] = tokens
        step = StepTask(
            rows, length - 1, self.room, len(self.memories[0]), *map(address_of, (last, origin, sentence, self.lengths))
        )
        logits = np.empty((rows, decoder.output.height), np.float32)
        task = EditedStep(
            ctypes.addressof(step), ctypes.addressof(self._packed), address_of(prefixes), self.model.targets
        )
        self.model.library.jk_read_rows(address_of(logits), ctypes.byref(decoder), ctypes.byref(task), 0, rows)
        return logits
