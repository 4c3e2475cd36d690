"""A Transformer packed for translating: its weights as the kernels read them; no torch.

The weights are a copy, but for the embeddings, which are read where they are.  What comes out for a hypothesis does not
depend on what else is in the batch, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, Protocol

import numpy as np

from jumok.config.search import SearchOptions
from jumok.config.sections import TransformerConfig
from jumok.kernels import layout, positions
from jumok.kernels.searching import Found, Marks, Placed, Shortlist, at, search
from jumok.kernels.structs import Dense, LayerWeights, NormWeights, Stack


class Weights(Protocol):
    """Weights by name."""

    def __contains__(self, name: str) -> bool: ...

    def take(self, name: str, *shape: int) -> np.ndarray:
        """Return the tensor of this name, which must have this shape."""
        ...


class Packed:
    """The weights of a model in the structures of the kernels."""

    def __init__(self, library: Any, config: TransformerConfig, symbols: tuple[int, int], weights: Weights) -> None:
        self.library, self.config, self.symbols, self.weights = library, config, symbols, weights
        self.width = config.heads * (config.key_width + config.value_width)  # of keys and values
        self._tables: dict[str, np.ndarray | None] = {}
        self.kept: list[Any] = []  # what the structures have addresses of
        self.matrix = weights.take("matrix", symbols[1], config.d_model)
        self.encoder, self.decoder = (
            self._stack(side, self._table(side, count)) for side, count in zip(layout.SIDES, symbols, strict=True)
        )
        self.decoder.output = self._dense(self.matrix, None)

    def search(
        self,
        sources: Sequence[Sequence[int]],
        limits: Sequence[int],
        options: SearchOptions,
        *,
        marks: Marks,
        margin: float = inf,
        shortlist: Shortlist | None = None,
    ) -> list[list[Found]]:
        """Translate sources (with their END) in one call; see `searching.search`."""
        for ids in sources:
            if min(ids) < 0 or max(ids) >= self.symbols[0]:
                raise IndexError(f"ids from {min(ids)} to {max(ids)} do not fit {self.symbols[0]} symbols")
        lengths = max(map(len, sources), default=0), max(limits, default=0)
        sides = zip(layout.EMBEDDINGS.values(), lengths, strict=True)
        tables = self.turns(max(lengths)), *(self.positions(side, length) for side, length in sides)
        encoder, decoder = (self.place(stack, tables[0]) for stack in (self.encoder, self.decoder))
        first, second = (None if table is None else at(table) for table in tables[1:])
        model = Placed(self.library, encoder, decoder, first, second)
        return search(model, sources, limits, options, marks=marks, margin=margin, shortlist=shortlist)

    def turns(self, length: int) -> np.ndarray | None:
        """Angles of at least the first positions, where positions are rotary."""
        return self._grown("turns", length, lambda room: positions.turns(self.config, room))

    def positions(self, side: str, length: int) -> np.ndarray | None:
        """Vectors (·, D) that are added to the embeddings of at least the first positions of a side, or None."""
        return self._grown(side, length, lambda room: positions.added(self.weights, self.config, side, room))

    def _grown(self, name: str, length: int, make: Callable[[int], np.ndarray | None]) -> np.ndarray | None:
        """A table of positions, made once and again when it is too short."""
        table = self._tables.get(name)
        if name not in self._tables or (table is not None and len(table) < length):
            table = self._tables[name] = make(max(64, 2 * length))
        return table

    def place(
        self, stack: Stack, turns: np.ndarray | None, caches: Sequence[int] = (), memories: Sequence[int] = ()
    ) -> Stack:
        """Return a stack that works on the caches and memories at these addresses, and nobody else's."""
        layers = (LayerWeights * stack.layers)(*stack.each[: stack.layers])
        for layer, cache in zip(layers, caches, strict=False):
            layer.cache = cache
        for layer, memory in zip(layers, memories, strict=False):
            layer.memory = memory
        placed = Stack.from_buffer_copy(stack)
        placed.each, placed.rotary = layers, None if turns is None else at(turns)
        return placed

    def _table(self, side: str, symbols: int) -> np.ndarray:
        """The embeddings of a side, which may be the output matrix."""
        name = f"{layout.EMBEDDINGS[side]}.weight"
        return self.weights.take(name, symbols, self.config.d_model) if name in self.weights else self.matrix

    def _dense(self, weight: np.ndarray, bias: np.ndarray | None) -> Dense:
        height, width = weight.shape
        packed = np.empty(self.library.jk_packed_size(width, height), np.float32)
        self.library.jk_pack_weight(at(packed), at(weight), width, height)
        self.kept += [packed, bias]
        return Dense(at(packed), None if bias is None else at(bias), width, height)

    def _linear(self, name: str, rows: int, columns: int) -> Dense:
        bias = self.weights.take(f"{name}.bias", rows) if f"{name}.bias" in self.weights else None
        return self._dense(self.weights.take(f"{name}.weight", rows, columns), bias)

    def _norm(self, name: str) -> NormWeights:
        parts = [self.weights.take(f"{name}.{part}", self.config.d_model) for part in ("weight", "bias")]
        self.kept += parts
        return NormWeights(*map(at, parts))

    def _layer(self, name: str, *, decoder: bool) -> LayerWeights:
        matrices = {
            field: self._linear(f"{name}.{where}", rows, columns)
            for field, where, rows, columns in layout.list_matrices(self.config, decoder=decoder)
        }
        norms = [self._norm(f"{name}.{path}.norm") for path in layout.list_norms(decoder=decoder)]
        if not decoder:
            norms.insert(1, NormWeights())  # an encoder's layer has no attention over the source
        return LayerWeights(**matrices, norms=(NormWeights * 3)(*norms))

    def _stack(self, side: str, table: np.ndarray) -> Stack:
        config, count = self.config, layout.count_layers(self.config, side)
        each = (LayerWeights * count)(*(self._layer(f"{side}.{n}", decoder=side == "decoder") for n in range(count)))
        self.kept += [each, table]
        return Stack(
            layers=count, d_model=config.d_model, heads=config.heads, d_k=config.key_width, d_v=config.value_width,
            pre=config.norm_place == "pre", table=at(table), each=each, factor=layout.scale_of_scores(config),
            scale=config.d_model**0.5, eps=layout.EPS,
            last=self._norm(f"{side}_norm") if config.norm_place == "pre" else NormWeights(),
        )  # fmt: skip
