"""A Transformer packed for translating: its weights and positions as the kernels read them; no torch.

The weights are a copy, except for the embeddings, which are read from the arrays given.  The result of a hypothesis
does not depend on the rest of the batch, bit for bit.  Positions are the numbers of nn/positions.py, computed without
torch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from jumok.config.search import SearchOptions
from jumok.config.sections import TransformerConfig
from jumok.kernels import layout
from jumok.kernels.layout import Dense, LayerWeights, NormWeights, Stack
from jumok.kernels.searching import BoundModel, Course, RawHypothesis, Shortlist, search

if TYPE_CHECKING:
    from jumok.kernels.editing import Edit
    from jumok.kernels.forcing import Pair
    from jumok.kernels.reading import Note, Numbers, Walk
    from jumok.kernels.ruling import Rules

    class Weights(Protocol):
        """Weights by name."""

        @property
        def names(self) -> Collection[str]: ...

        def take(self, name: str, *shape: int) -> np.ndarray:
            """Return the tensor of this name, which must have this shape."""
            ...


class Packed:
    """The weights of a model in the structures of the kernels."""

    def __init__(self, library: Any, config: TransformerConfig, symbols: tuple[int, int], weights: Weights) -> None:
        self.library, self.config, self.symbols, self.weights = library, config, symbols, weights
        self.layout = layout.describe(config)
        self.width = config.heads * (self.layout.d_k + self.layout.d_v)  # of the keys and values of a position
        self._tables: dict[str, np.ndarray | None] = {}
        self._alive: list[Any] = []  # arrays whose addresses the structures contain
        self.matrix = self._take("matrix", symbols[1], config.d_model)
        self.encoder, self.decoder = (
            self._stack(side, self._embeddings(side, count)) for side, count in zip(layout.SIDES, symbols, strict=True)
        )
        self.decoder.output = self._dense(self.matrix, None)

    def search(
        self,
        sources: Sequence[Sequence[int]],
        limits: Sequence[int],
        options: SearchOptions,
        *,
        shortlist: Shortlist | None = None,
        rules: Rules | None = None,
        course: Course = Course(),
    ) -> list[list[RawHypothesis]]:
        """Translate sources (with their END) in one call; see `searching.search`."""
        with self._bind_model(sources, max(limits, default=0)) as model:
            return search(model, sources, limits, options, shortlist=shortlist, rules=rules, course=course)

    def score(self, pairs: Sequence[Pair], start: int, *, threads: int | None = None) -> list[list[float]]:
        """Return the log-probabilities of given translations; see `forcing.score`."""
        from jumok.kernels import forcing

        with self._bind_model([source for source, _ in pairs], self._longest(pairs)) as model:
            return forcing.score(model, pairs, start, threads=threads)

    def attend(
        self, pairs: Sequence[Pair], start: int, layer: int, head: int | None, *, threads: int | None = None
    ) -> list[np.ndarray]:
        """Return the attention of given translations over their sources; see `forcing.attend`."""
        from jumok.kernels import forcing

        if not 0 <= layer < self.decoder.layers or not -1 < (head or 0) < self.decoder.heads:
            raise IndexError(f"there is no head {head} in layer {layer}")
        with self._bind_model([source for source, _ in pairs], self._longest(pairs)) as model:
            return forcing.attend(model, pairs, start, layer, head, threads=threads)

    def read(
        self, source: Sequence[int], target: Sequence[int], wanted: Collection[Note] = (), edits: Sequence[Edit] = ()
    ) -> Numbers:
        """Read a source with its END and a target from START on; see `reading.read`."""
        from jumok.kernels import reading

        self._check(target, self.symbols[1])
        with self._bind_model([source], len(target)) as model:
            return reading.read(model, source, target, wanted, edits)

    @contextmanager
    def walk(self, source: Sequence[int], edits: Sequence[Edit], *, rows: int, room: int) -> Iterator[Walk]:
        """Provide the steps of translations of a source (with its END) while the body runs; see `reading.Walk`."""
        from jumok.kernels.reading import Walk

        with self._bind_model([source], room) as model:
            yield Walk(model, source, edits, rows=rows, room=room)

    def _longest(self, pairs: Sequence[Pair]) -> int:
        """Return the length of the longest target; their ids must be symbols."""
        for _, target in pairs:
            self._check(target, self.symbols[1])
        return max((len(target) for _, target in pairs), default=0)

    @staticmethod
    def _check(ids: Sequence[int], symbols: int) -> None:
        if min(ids) < 0 or max(ids) >= symbols:
            raise IndexError(f"ids from {min(ids)} to {max(ids)} do not fit {symbols} symbols")

    @contextmanager
    def _bind_model(self, sources: Sequence[Sequence[int]], target: int) -> Iterator[BoundModel]:
        """Provide the model with positions for these sources and for targets of this length, while the body runs."""
        for ids in sources:
            self._check(ids, self.symbols[0])
        lengths = max(map(len, sources), default=0), target
        turns = self.turns(max(lengths))
        encoder, decoder = (self.bind(stack, turns) for stack in (self.encoder, self.decoder))
        sides = zip(layout.EMBEDDINGS.values(), lengths, strict=True)
        vectors = [self.positions(side, length) for side, length in sides]  # another thread may replace the tables
        yield BoundModel(
            self.library, encoder, decoder, *(None if table is None else table.ctypes.data for table in vectors)
        )

    def turns(self, length: int) -> np.ndarray | None:
        """Return the angles of at least the first positions, where positions are rotary."""
        if self.config.positions != "rotary":
            return None
        return self._grow("turns", length, lambda size: compute_turns(size, self.layout.d_k))

    def positions(self, side: str, length: int) -> np.ndarray | None:
        """Return vectors (·, D) to add to the embeddings of at least the first positions of a side, or None."""
        return self._grow(side, length, lambda size: compute_positions(self.weights, self.config, side, size))

    def _grow(self, name: str, length: int, compute: Callable[[int], np.ndarray | None]) -> np.ndarray | None:
        """Return a table of positions, computed once, and again when it is too short."""
        table = self._tables.get(name)
        if name not in self._tables or (table is not None and len(table) < length):
            table = self._tables[name] = compute(max(64, 2 * length))
        return table

    def bind(
        self, stack: Stack, turns: np.ndarray | None, caches: Sequence[int] = (), memories: Sequence[int] = ()
    ) -> Stack:
        """Return a copy of a stack that uses the caches and memories at these addresses."""
        layers = (LayerWeights * stack.layers)(*stack.each[: stack.layers])
        for layer, cache in zip(layers, caches, strict=False):
            layer.cache = cache
        for layer, memory in zip(layers, memories, strict=False):
            layer.memory = memory
        bound = Stack.from_buffer_copy(stack)
        bound.each, bound.rotary = layers, None if turns is None else turns.ctypes.data
        return bound

    def _take(self, name: str, *shape: int) -> np.ndarray:
        return self.weights.take(name, *shape)

    def _take_if_present(self, name: str, *shape: int) -> np.ndarray | None:
        return self._take(name, *shape) if name in self.weights.names else None

    def _embeddings(self, side: str, symbols: int) -> np.ndarray:
        """Return the embeddings of a side, which may be the output matrix."""
        table = self._take_if_present(f"{layout.EMBEDDINGS[side]}.weight", symbols, self.config.d_model)
        return self.matrix if table is None else table

    def _dense(self, weight: np.ndarray, bias: np.ndarray | None) -> Dense:
        height, width = weight.shape
        packed = np.empty(self.library.jk_packed_size(width, height), np.float32)
        self.library.jk_pack_weight(packed.ctypes.data, weight.ctypes.data, width, height)
        self._alive += [packed, bias]
        return Dense(packed.ctypes.data, None if bias is None else bias.ctypes.data, width, height)

    def _linear(self, name: str, rows: int, columns: int) -> Dense:
        bias = self._take_if_present(f"{name}.bias", rows)
        return self._dense(self._take(f"{name}.weight", rows, columns), bias)

    def _norm(self, name: str) -> NormWeights:
        gain, shift = (self._take(f"{name}.{part}", self.config.d_model) for part in ("weight", "bias"))
        self._alive += [gain, shift]
        return NormWeights(gain.ctypes.data, shift.ctypes.data)

    def _layer(self, side: str, number: int) -> LayerWeights:
        name = f"{side}.{number}"
        matrices = {
            field: self._linear(f"{name}.{part}", rows, columns)
            for field, part, rows, columns in self.layout.matrices[side]
        }
        norms = [self._norm(f"{name}.{path}.norm") for path in self.layout.norms[side]]
        if side == "encoder":
            norms.insert(1, NormWeights())  # its layers have no attention over the source
        return LayerWeights(**matrices, norms=(NormWeights * 3)(*norms))

    def _stack(self, side: str, table: np.ndarray) -> Stack:
        config, sizes, count = self.config, self.layout, self.layout.layers[side]
        each = (LayerWeights * count)(*(self._layer(side, number) for number in range(count)))
        self._alive += [each, table]
        return Stack(
            layers=count, d_model=config.d_model, heads=config.heads, d_k=sizes.d_k, d_v=sizes.d_v,
            pre=config.norm_place == "pre", table=table.ctypes.data, each=each, factor=sizes.factor,
            scale=config.d_model**0.5, eps=layout.EPS,
            last=self._norm(f"{side}_norm") if config.norm_place == "pre" else NormWeights(),
        )  # fmt: skip


def compute_positions(weights: Weights, model: TransformerConfig, side: str, length: int) -> np.ndarray | None:
    """Return the vectors (length, D) that are added to the embeddings of a side, or None."""
    if model.positions in ("rotary", "none"):
        return None
    if model.positions == "learned":
        table = weights.take(f"{side}.positions.weight", model.longest, model.d_model)
        return np.ascontiguousarray(table[np.minimum(np.arange(length), len(table) - 1)])  # the last row repeats
    return compute_sinusoids(length, model.d_model)


def compute_sinusoids(length: int, width: int) -> np.ndarray:
    """Return the paper's sinusoids (length, width), computed in double precision, then rounded."""
    angle = np.arange(length)[:, None] / 10_000.0 ** (np.arange(0, width, 2) / width)
    table = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, -1)[:, :width]
    return np.ascontiguousarray(table, dtype=np.float32)


def compute_turns(length: int, width: int) -> np.ndarray:
    """Return the cosine and the signed sine (length, 2, K) by which rotary positions turn queries and keys."""
    pairs = compute_sinusoids(length, width).reshape(length, -1, 2)
    sin, cos = pairs[:, :, 0], pairs[:, :, 1]
    both = [np.stack([cos, cos], axis=-1), np.stack([-sin, sin], axis=-1)]
    return np.ascontiguousarray(np.stack([part.reshape(length, -1) for part in both], axis=1))
