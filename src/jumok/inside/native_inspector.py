"""A Transformer that is looked at through the kernels: readings, edits, searches and steps without torch.

`KERNEL_EDITS` is the table of the edits that the kernels apply; what is not in it is left to torch.  Which models they
know is said in kernels/layout.py.

Shapes   H heads · T queries · S keys · D width · V vocabulary
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from jumok.config.search import SearchOptions
from jumok.config.sections import TransformerConfig
from jumok.decoding.hypothesis import Hypothesis, rank
from jumok.inside.arrays import softmax
from jumok.inside.edits import NOTHING, SWITCHES, Edits, Sizes, limit_length
from jumok.inside.inspector import Factor, Ids, Outline, Trace, Values, go_on
from jumok.inside.places import Where, find_code
from jumok.kernels import layout
from jumok.kernels.editing import Edit
from jumok.kernels.reading import SUBLAYERS, Note, Numbers
from jumok.kernels.searching import Course
from jumok.text.symbols import END

if TYPE_CHECKING:
    from jumok.config.sections import DecodingConfig
    from jumok.engines.native_engine import NativeEngine
    from jumok.kernels.reading import Walk

KERNEL_EDITS = {  # edit of edits.py: that of the kernels
    "heads": "silence", "layers": "skip", "rows": "weights", "mask": "no_mask", "positions": "no_positions",
    "scale": "no_scale", "residual": "no_residual", "norm": "no_norm",
}  # fmt: skip
AT_ONCE = 96  # sentences that are translated between two checks
SIDES = {"source": "encoder", "target": "decoder"}
MAPS = {"encoder": ("source", "source"), "decoder": ("target", "target"), "cross": ("target", "source")}
MATCHING = (  # notes that are values of the same name
    "input", "q", "k", "v", "q_turned", "k_turned", "products", "scores", "weights", "mixed", "joined", "output",
)  # fmt: skip
HEADS = ("q", "k", "v", "q_turned", "k_turned", "mixed")  # (·, H, ·) in the kernels, (H, ·, ·) in a trace

Sources = dict[str, Note]  # value of a block: the note that it is


def to_kernel_edits(edits: Edits) -> list[Edit]:
    """Return the edits of a model as the kernels read them."""
    listed = [Edit(KERNEL_EDITS["heads"], kind, layer, head) for kind, layer, head in sorted(edits.heads)]
    listed += [Edit(KERNEL_EDITS["layers"], stack, layer) for stack, layer in sorted(edits.layers)]
    listed += [Edit(KERNEL_EDITS[switch]) for switch in sorted(edits.off)]
    listed += [Edit(KERNEL_EDITS["rows"], row.kind, row.layer, row.head, row.query, row.shares) for row in edits.rows]
    return listed


def find_sizes(config: TransformerConfig) -> Sizes:
    """What there is to edit in a Transformer that the kernels know."""
    layers = {side: layout.count_layers(config, side) for side in layout.SIDES}
    stacks = {"encoder": layers["encoder"], "decoder": layers["decoder"], "cross": layers["decoder"]}
    lacking = {"positions": config.positions == "none", "scale": config.score != "scaled-dot"}
    switches = frozenset(switch for switch in SWITCHES if not lacking.get(switch))
    return Sizes(layers, {kind: (count, config.heads) for kind, count in stacks.items()}, switches)


def list_blocks(config: TransformerConfig, edits: Edits = NOTHING) -> Iterator[tuple[str, Sources]]:
    """Yield the blocks of a model with edits, in the order of the computation, and the notes of the kernels in them."""
    for side, stack in SIDES.items():
        yield f"{side}.embedding", {"row": (stack, "input"), "scaled": (stack, "output")}
        if config.positions not in ("none", "rotary") and "positions" not in edits.off:
            yield f"{side}.positions", {"input": (stack, "output"), "output": (stack, "total")}
        x: Note = (stack, "total")  # what the next sub-layer is given
        for layer in range(layout.count_layers(config, stack)):
            for sublayer in () if edits.skips(stack, layer) else SUBLAYERS[stack]:
                name = f"{stack}.{layer}.{sublayer}"
                yield from _list_sublayer(config, edits, name, x)
                x = (name, "normed" if config.norm_place == "post" and "norm" not in edits.off else "total")
        if config.norm_place == "pre" and "norm" not in edits.off:
            yield f"{stack}.norm", _describe_norm(stack, x)
    yield "output", {}
    yield "softmax", {}


def _list_sublayer(config: TransformerConfig, edits: Edits, name: str, x: Note) -> Iterator[tuple[str, Sources]]:
    before, norms = config.norm_place == "pre", "norm" not in edits.off
    if norms and before:
        yield f"{name}.norm", _describe_norm(name, x)
    if name.endswith(".feed_forward"):
        values = {key: (name, key) for key in ("input", "inner", "active", "output")}
    else:
        turned = config.positions == "rotary" and "positions" not in edits.off and not name.endswith(".cross")
        values = {key: (name, key) for key in MATCHING if turned or not key.endswith("_turned")}
    yield name, values
    if "residual" not in edits.off:
        yield f"{name}.add", {"input": x, "sublayer": (name, "output"), "output": (name, "total")}
    if norms and not before:
        yield f"{name}.norm", _describe_norm(name, (name, "total"))


def _describe_norm(part: str, given: Note) -> Sources:
    return {"input": given, **{key: (part, key) for key in ("mean", "deviation")}, "output": (part, "normed")}


class NativeSteps:
    """Hypotheses whose past is in the caches of a walk of the kernels."""

    def __init__(self, walk: Walk, tokens: np.ndarray, origin: np.ndarray) -> None:
        self.walk, self.tokens, self.origin = walk, tokens, origin  # (N, t), (N, room)

    def step(self, tokens: Ids) -> np.ndarray:
        self.tokens = np.concatenate([self.tokens, np.array(tokens, np.int64)[:, None]], axis=1)
        logits = self.walk.step(self.tokens, self.origin)
        self.origin[:, self.tokens.shape[1] - 1] = np.arange(len(tokens))
        return logits

    def select(self, rows: Ids) -> NativeSteps:
        return NativeSteps(self.walk, self.tokens[list(rows)], self.origin[list(rows)])


class NativeInspector:
    """Looks at a model of the native engine; a shortlist is not used."""

    def __init__(self, engine: NativeEngine, decoding: DecodingConfig) -> None:
        self.packed, self.decoding, self.config = engine.packed, decoding, engine.packed.config

    @cached_property
    def outline(self) -> Outline:
        config, last = self.config, ("output", "softmax")
        names = [name for name, _ in list_blocks(config)]
        blocks = [(name, self.packed.symbols[1] if name in last else config.d_model) for name in names]
        parameters = self._count_parameters()
        path = "PreNorm" if config.norm_place == "pre" else "PostNorm"
        code: list[Where] = [
            ("output", "models.transformer.Transformer.project", "return"),
            ("add", f"nn.layers.{path}.forward", "return"),
            ("norm", "nn.layers.LayerNorm", "class "),
            ("feed_forward", "nn.layers.FeedForward.forward", "self.outer"),
        ]
        if config.positions == "rotary":
            code.append(("positions", "nn.variants.Rotary.forward", "x * cos"))
        return Outline(config, find_sizes(config), blocks, parameters, sum(parameters.values()), find_code(code))

    def _count_parameters(self) -> dict[str, int]:
        """The parameters of each block; a matrix that is also an embedding counts there."""
        config, symbols = self.config, self.packed.symbols
        sides = zip(SIDES, symbols, strict=True)
        counts = {f"{side}.embedding": size * config.d_model for side, size in sides}
        if config.tied == "all":
            counts["target.embedding"] = 0
        counts["output"] = symbols[1] * config.d_model if config.tied == "none" else 0
        if config.positions == "learned":
            counts |= {f"{side}.positions": config.longest * config.d_model for side in SIDES}
        for side in layout.SIDES:
            for number in range(layout.count_layers(config, side)):
                for matrix in self.packed.layout.matrices[side]:
                    name = f"{side}.{number}.{matrix.name.partition('.')[0]}"
                    size = matrix.rows * (matrix.columns + (1 if self._has_bias(side, number, matrix.name) else 0))
                    counts[name] = counts.get(name, 0) + size
                    counts[f"{name}.norm"] = 2 * config.d_model
            if config.norm_place == "pre":
                counts[f"{side}.norm"] = 2 * config.d_model
        return counts

    def _has_bias(self, side: str, layer: int, name: str) -> bool:
        return f"{side}.{layer}.{name}.bias" in self.packed.weights.names

    def read(self, source: Ids, target: Ids, edits: Edits = NOTHING, only: Collection[str] | None = None) -> Trace:
        find_sizes(self.config).check(edits)
        listed = dict(list_blocks(self.config, edits))
        chosen = {
            name: values if only is None or name in only else _keep_weights(values) for name, values in listed.items()
        }
        wanted = {note for values in chosen.values() for note in values.values()}
        numbers = self.packed.read(source, target, wanted, to_kernel_edits(edits))
        blocks = {
            name: self._make_values(name, values, numbers, edits)
            for name, values in chosen.items()
            if values or name in ("output", "softmax")
        }
        return Trace(
            names=tuple(listed), blocks=blocks, tokens={"source": list(source), "target": list(target)}, maps=MAPS,
            hidden=numbers.hidden, memory=numbers.memory, logits=numbers.logits,
        )  # fmt: skip

    def _make_values(self, name: str, sources: Sources, numbers: Numbers, edits: Edits) -> Values:
        """The values of a block, from the notes of the kernels."""
        if name == "output":
            return {"input": numbers.hidden, "output": numbers.logits}
        if name == "softmax":
            return {"input": numbers.logits, "output": softmax(numbers.logits)}
        values: Values = {}
        is_masked = name.startswith("decoder") and name.endswith(".attention") and "mask" not in edits.off
        for key, note in sources.items():
            array = numbers.notes[note]
            values[key] = array.transpose(1, 0, 2) if note[1] in HEADS else array
            if key == "scores" and is_masked:
                values["mask"] = np.broadcast_to(np.tri(array.shape[1], dtype=np.bool_), array.shape)
        if name.endswith(".positions"):
            side, rows = name.partition(".")[0], len(values["output"])
            table = self.packed.positions(side, rows)
            assert table is not None, "positions that are added have a table"
            values = {"input": values["input"], "position": table[:rows], "output": values["output"]}
        return values

    def translate(
        self, sources: Sequence[Ids], edits: Edits = NOTHING, check: Callable[[], None] = go_on
    ) -> list[Hypothesis]:
        find_sizes(self.config).check(edits.inner)
        options = SearchOptions(beam=1, extra_length=self.decoding.extra_length)
        course = Course(threads=1, edits=to_kernel_edits(edits.inner))
        bounded = bool(edits.inner) and not edits.is_weights
        results: list[Hypothesis] = []
        for first in range(0, len(sources), AT_ONCE):
            check()
            some = sources[first : first + AT_ONCE]
            limits = [len(ids) + options.extra_length for ids in some]
            if bounded:
                limits = [min(limit, limit_length(len(ids))) for limit, ids in zip(limits, some, strict=True)]
            hypotheses = self.packed.search([[*ids, END] for ids in some], limits, options, course=course)
            results += (rank(several, options.length_penalty)[0] for several in hypotheses)
        return results

    @contextmanager
    def open_steps(self, source: Ids, edits: Edits, *, rows: int, room: int) -> Iterator[NativeSteps]:
        find_sizes(self.config).check(edits)
        with self.packed.walk(source, to_kernel_edits(edits), rows=rows, room=room) as walk:
            yield NativeSteps(walk, np.zeros((1, 0), np.int64), np.zeros((1, room), np.int64))

    def find_factor(self, block: str, name: str) -> Factor | None:
        heads, weights = self.config.heads, self.packed.weights
        if block == "output":
            return Factor(self.packed.matrix, None, [len(self.packed.matrix)])
        stack, _, rest = block.partition(".")
        part = rest.partition(".")[2]
        matrix = next((one for one in self.packed.layout.matrices[stack] if one.name == f"{part}.{name}"), None)
        if matrix is None:
            return None
        keys, values = (heads * width for width in layout.head_widths(self.config))
        parts = {"qkv": [keys, keys, values], "memory": [keys, values]}.get(name, [matrix.rows])
        weight = weights.take(f"{block}.{name}.weight", matrix.rows, matrix.columns)
        bias = weights.take(f"{block}.{name}.bias", matrix.rows) if f"{block}.{name}.bias" in weights.names else None
        return Factor(weight, bias, parts, heads)


def _keep_weights(values: Sources) -> Sources:
    """Of the values of a block that is not asked for, the weights of attention."""
    return {key: note for key, note in values.items() if key == "weights"}
