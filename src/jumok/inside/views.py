"""What a page asks about a sentence, as plain values: the overview, one block, its steps.

    view = overview(translator, "A man rides a bike.")        # tokens, words, all weights, the map
    block(translator, text, "encoder.0.attention", translation=view["translation"], head=1, at=3)

Indices count from 0.  A reading of one sentence takes milliseconds, so nothing is kept between calls.  No torch where
the kernels translate.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from jumok.errors import UnknownName, UsageError
from jumok.inside import figure
from jumok.inside.arrays import find_largest, pack, round_number, softmax
from jumok.inside.edits import NOTHING, Edits
from jumok.inside.inspector import Factor, Inspector, Outline, Trace, Values, find_inspector
from jumok.inside.steps import list_steps
from jumok.inside.subject import Subject, Translation, check_length, read_source, read_target, translate
from jumok.inside.tokens import describe_tokens, list_words
from jumok.reports.attention import LANGUAGES
from jumok.text.symbols import END, MASK, START

MOST_TOKENS = 60  # of both sides; above, the weights of one layer are given
TOP = 20  # symbols of an output that are shown
HEADWISE = ("q", "k", "v", "q_turned", "k_turned", "products", "scores", "mask", "weights", "mixed")
MATRICES = {  # value of a block: the matrix that makes it, its input, and which of its packed parts it is
    ("attention", "q"): ("qkv", "input", 0), ("attention", "k"): ("qkv", "input", 1),
    ("attention", "v"): ("qkv", "input", 2), ("attention", "output"): ("output", "joined", 0),
    ("cross", "q"): ("query", "input", 0), ("cross", "k"): ("memory", "memory", 0),
    ("cross", "v"): ("memory", "memory", 1), ("cross", "output"): ("output", "joined", 0),
    ("feed_forward", "inner"): ("inner", "input", 0), ("feed_forward", "output"): ("outer", "active", 0),
}  # fmt: skip


@dataclass(frozen=True)
class Sentence:
    """A sentence that was read: its ids, its translation, and what the model made of them."""

    inspector: Inspector
    source: list[int]
    target: list[int]
    given: bool  # whether the translation was given
    trace: Trace

    @property
    def outline(self) -> Outline:
        return self.inspector.outline


def check_language(language: str) -> None:
    """Refuse a language that the texts do not have."""
    if language not in LANGUAGES:
        raise UnknownName("inside.unknown_language", language, LANGUAGES)


def read_sentence(
    subject: Subject,
    text: str,
    translation: Translation | None = None,
    edits: Edits = NOTHING,
    only: Collection[str] | None = None,
) -> Sentence:
    """Read a text and its translation: the one given, or the greedy one of the model with its edits.

    Of the blocks that are not named in `only`, the values may be left out.
    """
    inspector, source = find_inspector(subject), read_source(subject, text, edits)
    given = translation is not None
    if inspector.outline.fills:
        target = subject.vocabularies.target.encode_parts(text.split("<mask>"), MASK)
        source, pair = [], ([END], target)
    else:
        if subject.recipe.data.text is not None:  # a language model: the text is what it reads
            source, target, given = [], subject.vocabularies.target.encode(text), False
        elif translation is None:
            target = list(inspector.translate([source], edits)[0].body)
        else:
            target = read_target(subject, translation)
        pair = [*source, END], [START, *target]
    if not source and not target:
        raise UsageError("inside.nothing_to_read")
    check_length(target)
    return Sentence(inspector, source, target, given, inspector.read(*pair, edits.inner, only))


def overview(
    subject: Subject,
    text: str,
    translation: Translation | None = None,
    edits: Edits = NOTHING,
    *,
    language: str = "en",
    drawing: bool = True,
    layer: int | None = None,
    kind: str | None = None,
) -> dict[str, Any]:
    """Return a sentence with its tokens and all weights; with the map of the model if a `drawing` is asked for.

    `layer` and `kind` are the only ones whose weights are wanted.
    """
    check_language(language)
    sentence = read_sentence(subject, text, translation, edits, only=())
    trace, outline, target = sentence.trace, sentence.outline, subject.vocabularies.target
    view: dict[str, Any] = {
        "text": text,
        "read": subject.vocabularies.source.decode(sentence.source) if edits.shuffle is not None else text,
        "translation": target.decode(sentence.target) if trace.logits is not None else "",
        "given": sentence.given,
        "kind": outline.kind,
        "lacks": figure.say_what_lacks(outline, language),
        "tokens": {side: describe_tokens(_vocabulary(subject, side), ids) for side, ids in trace.tokens.items()},
        "words": {side: list_words(_vocabulary(subject, side), ids) for side, ids in trace.tokens.items()},
        "output": _describe_output(subject, sentence),
        "maps": _pack_maps(trace, layer, kind),
    }
    if drawing:
        view |= {"map": figure.draw(outline, language), "switches": figure.list_switches(outline, language)}
    return view


def _vocabulary(subject: Subject, side: str) -> Any:
    both = subject.vocabularies
    return both.source if side in ("source", "line") else both.target


def _describe_output(subject: Subject, sentence: Sentence) -> list[dict[str, Any]]:
    """What came out at each position of the target, with its probability."""
    if sentence.trace.logits is None:
        return []
    ids = [*sentence.target, END]
    chances = softmax(sentence.trace.logits)[np.arange(len(ids)), ids]
    tokens = describe_tokens(subject.vocabularies.target, ids)
    return [
        token | {"probability": round_number(chance)} for token, chance in zip(tokens, chances.tolist(), strict=True)
    ]


def _pack_maps(trace: Trace, layer: int | None, only: str | None) -> dict[str, Any]:
    """The weights of all heads, of one layer where it is asked for or the sentence is long."""
    if only is not None and only not in trace.maps:
        raise UnknownName("inside.unknown_kind", only, trace.maps)
    long = sum(map(len, trace.tokens.values())) > MOST_TOKENS
    of_kind = {kind: trace.weights(kind) for kind in trace.maps}  # (L, H, R, C) each
    most = max(map(len, of_kind.values()), default=0)
    if layer is not None and not 0 <= layer < most:
        raise UsageError("inside.no_layer", layer=layer, last=most - 1)
    maps = {}
    for kind, (rows, columns) in trace.maps.items():
        if only not in (None, kind):
            continue
        weights = of_kind[kind]
        count = len(weights)
        chosen = list(range(count)) if layer is None and not long else [layer or 0]
        chosen = [one for one in chosen if one < count]
        maps[kind] = {
            "rows": rows, "columns": columns, "of": count, "layers": chosen, "heads": weights.shape[1],
            "weights": pack(weights[chosen]),
        }  # fmt: skip
    return maps


def steps(
    subject: Subject,
    text: str,
    translation: Translation | None = None,
    edits: Edits = NOTHING,
    *,
    at: int | None = None,
    count: int = 5,
) -> dict[str, Any]:
    """Return the steps of a translation, the one given or the model's own."""
    vocabulary = subject.vocabularies.target
    if subject.recipe.data.text is not None:
        target = vocabulary.encode(text)
    elif translation is None:
        target = list(translate(subject, [read_source(subject, text, edits)], edits)[0].body)
    else:
        target = read_target(subject, translation)
    check_length(target)
    listed = list_steps(subject, text, target, edits, at=at, count=count)
    return {"translation": vocabulary.decode(target), "of": len(target) + 1, "steps": listed}


# ------------------------------------------------------------------------------------------------- one block


def block(
    subject: Subject,
    text: str,
    name: str,
    translation: Translation | None = None,
    edits: Edits = NOTHING,
    *,
    head: int = 0,
    at: int | None = None,
    cell: tuple[str, int, int | None] | None = None,
) -> dict[str, Any]:
    """Return the values of one block: those of a head at all positions, all others at position `at`.

    `cell` is the name of a value, a component of it and a position (`at` if None), whose dot product is wanted.
    """
    sentence = read_sentence(subject, text, translation, edits, only={name})
    trace = sentence.trace
    if name not in trace.names:
        raise UnknownName("inside.unknown_block", name, trace.names)
    values, kind = trace.blocks[name], figure.find_type(name, sentence.outline.kind)
    rows = find_rows(values)
    at = rows - 1 if at is None else at
    if not 0 <= at < rows:
        raise UsageError("inside.no_position", position=at, last=rows - 1)
    heads = len(values["weights"]) if "weights" in values else 0  # of an attention
    if heads and not 0 <= head < heads:
        raise UsageError("inside.no_head", head=head, last=heads - 1)
    side = trace.maps.get(_kind_of(name), (None, None))
    result: dict[str, Any] = {"block": name, "type": kind, "head": head, "heads": heads, "at": at,
                              "rows": side[0], "columns": side[1]}  # fmt: skip
    if name in ("output", "softmax"):
        result |= _describe_top(subject, trace, at)
        values = {"input": values["input"]} if name == "output" else {}
    result["values"] = {key: pack(_cut(key, value, head, at)) for key, value in values.items()}
    if cell is not None:
        value, index, place = cell
        position = at if place is None else place
        result["cell"] = open_cell(sentence, name, (value, index), head, position)
    return result


def find_rows(values: Values) -> int:
    """How many positions a block has."""
    first = values["q"] if "q" in values else next(value for key, value in values.items() if key != "position")
    return first.shape[1] if first.ndim == 3 else len(first)


def _kind_of(name: str) -> str:
    return "cross" if name.endswith(".cross") else name.partition(".")[0]


def _cut(key: str, value: np.ndarray, head: int, at: int) -> np.ndarray:
    """The part of a value that is shown: one head, or one position."""
    place = head if key in HEADWISE and value.ndim == 3 else at
    part: np.ndarray = value[min(place, len(value) - 1)]
    return part


def _describe_top(subject: Subject, trace: Trace, at: int) -> dict[str, Any]:
    assert trace.logits is not None
    logits = trace.logits[at]
    chances = softmax(logits)
    top = find_largest(chances, TOP)
    tokens = describe_tokens(subject.vocabularies.target, top)
    numbers = zip(tokens, logits[top].tolist(), chances[top].tolist(), strict=True)
    listed = [
        token | {"logit": round_number(logit), "probability": round_number(chance)} for token, logit, chance in numbers
    ]
    return {"top": listed, "symbols": len(chances), "rest": round_number(1.0 - float(chances[top].sum()))}


def open_cell(sentence: Sentence, name: str, cell: tuple[str, int], head: int, at: int) -> dict[str, Any]:
    """The dot product behind one number: the input, the row of the matrix, the bias and their sum."""
    (value, index), trace = cell, sentence.trace
    if name == "output":
        factor = sentence.inspector.find_factor(name, "")
        assert factor is not None, "models whose output can be asked for have its matrix"
        return _multiply(cell, trace.hidden[min(max(at, 0), len(trace.hidden) - 1)], factor, index)
    made = MATRICES.get((name.rpartition(".")[2], value))
    factor = None if made is None else sentence.inspector.find_factor(name, made[0])
    if made is None or factor is None:
        raise UsageError("inside.no_product", value=value, block=name)
    source = trace.memory if made[1] == "memory" else trace.blocks[name][made[1]]
    assert source is not None, "a block that reads a memory has one"
    heads = factor.heads if value in ("q", "k", "v") else 1
    size = factor.blocks[made[2]] // heads
    if not 0 <= index < size:
        raise UsageError("inside.no_component", index=index, last=size - 1)
    row = sum(factor.blocks[: made[2]]) + index + (head * size if heads > 1 else 0)
    if not 0 <= at < len(source):
        raise UsageError("inside.no_position", position=at, last=len(source) - 1)
    return _multiply(cell, source[at], factor, row)


def _multiply(cell: tuple[str, int], vector: np.ndarray, factor: Factor, row: int) -> dict[str, Any]:
    if not 0 <= row < len(factor.weight):
        raise UsageError("inside.no_component", index=row, last=len(factor.weight) - 1)
    weights = factor.weight[row]
    offset = 0.0 if factor.bias is None else float(factor.bias[row])
    with np.errstate(all="ignore"):  # numbers of a broken model may not be finite
        total = float(vector @ weights) + offset
    return {"value": cell[0], "index": cell[1], "input": pack(vector), "weights": pack(weights),
            "bias": round_number(offset), "sum": round_number(total)}  # fmt: skip
