"""Edits: what is switched off or changed inside a model while it reads, as one value.  No torch.

    Edits(heads={("cross", 0, 2)})             # the third head of the decoder's first cross-attention is silent
    Edits(off={"positions", "residual"})
    Edits.of({"layers": [["encoder", 1]], "shuffle": 7})

Layers, heads, queries and keys are counted from 0.  Where the kernels translate, they apply all edits, by the table in
native_inspector.py; in torch models reading.py does, and surgery.py turns some into changes of the model itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from random import Random
from typing import Any

from jumok.errors import UnknownName, UsageError

KINDS = ("encoder", "decoder", "cross")  # of attention; layers are those of the first two
SWITCHES = ("mask", "positions", "scale", "residual", "norm")  # what can be switched off everywhere
LONGER, EXTRA = 1.5, 10  # how much longer than its source the output of an edited model may become: times, plus


def limit_length(tokens: int) -> int:
    """The longest output of an edited model for a source of so many tokens: a broken model may never end."""
    return round(LONGER * tokens) + EXTRA


@dataclass(frozen=True)
class Row:
    """The weights of one query, instead of those that its softmax gives; they are divided by their sum."""

    kind: str
    layer: int
    head: int
    query: int
    weights: tuple[float, ...]  # of the keys from the first on; those that are not given are 0

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Row:
        """Return the row that plain values describe."""
        try:
            weights = tuple(float(weight) for weight in values["weights"])
            layer, head, query = (int(values[name]) for name in ("layer", "head", "query"))
            row = cls(str(values["kind"]), layer, head, query, weights)
        except (KeyError, TypeError, ValueError):
            raise UsageError("inside.bad_row") from None
        if not weights or not all(math.isfinite(weight) and weight >= 0.0 for weight in weights) or not sum(weights):
            raise UsageError("inside.bad_weights")
        return row

    @property
    def shares(self) -> tuple[float, ...]:
        """The weights, which sum to 1."""
        total = sum(self.weights)
        return tuple(weight / total for weight in self.weights)


@dataclass(frozen=True, kw_only=True)
class Edits:
    """All that is changed in a model; nothing by default."""

    heads: frozenset[tuple[str, int, int]] = frozenset()  # kind, layer, head: gives zeros to W^O
    layers: frozenset[tuple[str, int]] = frozenset()  # encoder or decoder, layer: passes its input on
    off: frozenset[str] = frozenset()  # of SWITCHES
    rows: tuple[Row, ...] = ()
    shuffle: int | None = None  # seed of another order of the source words

    def __post_init__(self) -> None:
        for name in ("heads", "layers", "off"):
            object.__setattr__(self, name, frozenset(getattr(self, name)))
        object.__setattr__(self, "rows", tuple(self.rows))
        for switch in self.off:
            if switch not in SWITCHES:
                raise UnknownName("inside.unknown_switch", switch, SWITCHES)
        for kind in [*(head[0] for head in self.heads), *(row.kind for row in self.rows)]:
            if kind not in KINDS:
                raise UnknownName("inside.unknown_kind", kind, KINDS)
        for stack, _ in self.layers:
            if stack not in KINDS[:2]:
                raise UnknownName("inside.unknown_stack", stack, KINDS[:2])

    def __bool__(self) -> bool:
        return self != NOTHING

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Edits:
        """Return the edits that plain values describe, such as those of JSON."""
        known = [one.name for one in fields(cls)]
        for name in values:
            if name not in known:
                raise UnknownName("inside.unknown_edit", name, known)
        try:
            return cls(
                heads=frozenset((str(kind), int(layer), int(head)) for kind, layer, head in values.get("heads", ())),
                layers=frozenset((str(stack), int(layer)) for stack, layer in values.get("layers", ())),
                off=frozenset(map(str, values.get("off", ()))),
                rows=tuple(map(Row.of, values.get("rows", ()))),
                shuffle=None if values.get("shuffle") is None else int(values["shuffle"]),
            )
        except (TypeError, ValueError) as error:
            raise UsageError("inside.bad_edits", reason=error) from None

    def to_json(self) -> dict[str, Any]:
        """Return the edits as plain values; those that change nothing are left out."""
        values: dict[str, Any] = {
            "heads": [list(head) for head in sorted(self.heads)],
            "layers": [list(layer) for layer in sorted(self.layers)],
            "off": sorted(self.off),
            "rows": [vars(row) | {"weights": list(row.weights)} for row in self.rows],
            "shuffle": self.shuffle,
        }
        return {name: value for name, value in values.items() if value not in ([], None)}

    @property
    def inner(self) -> Edits:
        """The edits of the model itself: words are shuffled before it reads them."""
        return replace(self, shuffle=None)

    @property
    def is_weights(self) -> bool:
        """Whether edits of the model are changes of its weights: heads alone."""
        return bool(self.heads) and self.inner == Edits(heads=self.heads)

    def silent(self, kind: str, layer: int) -> list[int]:
        """Return the heads of an attention that are switched off."""
        return sorted(head for one, place, head in self.heads if (one, place) == (kind, layer))

    def rows_of(self, kind: str, layer: int) -> list[Row]:
        """Return the rows of an attention that are given."""
        return [row for row in self.rows if (row.kind, row.layer) == (kind, layer)]

    def skips(self, stack: str, layer: int) -> bool:
        """Whether a layer passes its input on."""
        return (stack, layer) in self.layers


NOTHING = Edits()


@dataclass(frozen=True)
class Sizes:
    """What there is to edit in a model: how many layers of each stack, and heads of each kind of attention."""

    layers: Mapping[str, int] = field(default_factory=dict)  # encoder, decoder
    heads: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # kind of attention: layers and heads
    switches: frozenset[str] = frozenset()

    def check(self, edits: Edits) -> None:
        """Raise `UsageError` where an edit names something that the model does not have."""
        for kind, layer, head in sorted({*edits.heads, *((row.kind, row.layer, row.head) for row in edits.rows)}):
            layers, heads = self.heads.get(kind, (0, 0))
            if not (0 <= layer < layers and 0 <= head < heads):
                raise UsageError("inside.no_such_head", kind=kind, layer=layer, head=head, layers=layers, heads=heads)
        for stack, layer in sorted(edits.layers):
            if not 0 <= layer < self.layers.get(stack, 0):
                raise UsageError("inside.no_such_layer", stack=stack, layer=layer, layers=self.layers.get(stack, 0))
        for switch in sorted(edits.off):
            if switch not in self.switches:
                switches = ", ".join(sorted(self.switches)) or "-"
                raise UsageError("inside.no_such_switch", switch=switch, switches=switches)


def divide(ids: Sequence[int], begins: Sequence[bool]) -> list[list[int]]:
    """Return the ids of a sentence, a list for each word; begins[id] says whether a word begins with it."""
    groups: list[list[int]] = []
    for token in ids:
        if begins[token] or not groups:
            groups.append([])
        groups[-1].append(token)
    return groups


def shuffle(groups: Sequence[list[int]], seed: int) -> list[int]:
    """Return the ids of all words of a sentence in another order, unless its words are all the same."""
    order = list(groups)
    while order == list(groups) and len(set(map(tuple, groups))) > 1:
        Random(seed).shuffle(order)
        seed += 1
    return flatten(order)


def flatten(groups: Iterable[Sequence[int]]) -> list[int]:
    """Return the ids of words, one after the other."""
    return [token for group in groups for token in group]
