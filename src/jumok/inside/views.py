"""What a page asks about a sentence, as plain values: the overview, one block, its steps.

    view = overview(translator, "A man rides a bike.")        # tokens, words, all weights, the map
    block(translator, text, "encoder.0.attention", translation=view["translation"], head=1, at=3)

Indices count from 0.  A reading of one sentence takes milliseconds, so nothing is kept between calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from jumok.errors import UnknownName, UsageError
from jumok.inside import figure
from jumok.inside.arrays import pack, round_number
from jumok.inside.edits import NOTHING, Edits
from jumok.inside.kinds import find_parts
from jumok.inside.passes import Reading, read
from jumok.inside.steps import list_steps
from jumok.inside.subject import (
    Subject,
    Translation,
    check_length,
    find_model,
    limit_threads,
    read_source,
    read_target,
    translate,
)
from jumok.inside.tokens import describe_tokens, list_words
from jumok.models.base import END, MASK, START
from jumok.models.encoder import MaskedModel
from jumok.reports.attention import LANGUAGES

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

    model: Any
    source: list[int]
    target: list[int]
    given: bool  # whether the translation was given
    reading: Reading


def check_language(language: str) -> None:
    """Refuse a language that the texts do not have."""
    if language not in LANGUAGES:
        raise UnknownName("inside.unknown_language", language, LANGUAGES)


def read_sentence(
    subject: Subject, text: str, translation: Translation | None = None, edits: Edits = NOTHING
) -> Sentence:
    """Read a text and its translation: the one given, or the greedy one of the model with its edits."""
    model, source = find_model(subject), read_source(subject, text, edits)
    given = translation is not None
    if isinstance(model, MaskedModel):
        target = subject.vocabularies.target.encode_parts(text.split("<mask>"), MASK)
        source, pair = [], (torch.tensor([[END]]), torch.tensor([target]))
    else:
        if subject.recipe.data.text is not None:  # a language model: the text is what it reads
            source, target, given = [], subject.vocabularies.target.encode(text), False
        elif translation is None:
            target = list(translate(subject, [source], edits)[0].body)
        else:
            target = read_target(subject, translation)
        pair = torch.tensor([[*source, END]]), torch.tensor([[START, *target]])
    if not source and not target:
        raise UsageError("inside.nothing_to_read")
    check_length(target)
    with limit_threads(), torch.inference_mode():
        return Sentence(model, source, target, given, read(model, *pair, edits.inner))


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
    sentence = read_sentence(subject, text, translation, edits)
    reading, model, target = sentence.reading, sentence.model, subject.vocabularies.target
    view: dict[str, Any] = {
        "text": text,
        "read": subject.vocabularies.source.decode(sentence.source) if edits.shuffle is not None else text,
        "translation": target.decode(sentence.target) if reading.logits is not None else "",
        "given": sentence.given,
        "kind": model.config.kind,
        "lacks": figure.say_what_lacks(model, language),
        "tokens": {side: describe_tokens(_vocabulary(subject, side), ids) for side, ids in _list_ids(reading).items()},
        "words": {side: list_words(_vocabulary(subject, side), ids) for side, ids in _list_ids(reading).items()},
        "output": _describe_output(subject, sentence),
        "maps": _pack_maps(reading, layer, kind),
    }
    if drawing:
        view |= {"map": figure.draw(model, language), "switches": figure.list_switches(model, language)}
    return view


def _vocabulary(subject: Subject, side: str) -> Any:
    both = subject.vocabularies
    return both.source if side in ("source", "line") else both.target


def _list_ids(reading: Reading) -> dict[str, list[int]]:
    return {side: ids[0].tolist() for side, ids in reading.tokens.items()}


def _describe_output(subject: Subject, sentence: Sentence) -> list[dict[str, Any]]:
    """What came out at each position of the target, with its probability."""
    if sentence.reading.logits is None:
        return []
    ids = [*sentence.target, END]
    chances = sentence.reading.logits[0].float().softmax(dim=-1)[torch.arange(len(ids)), torch.tensor(ids)]
    tokens = describe_tokens(subject.vocabularies.target, ids)
    return [
        token | {"probability": round_number(chance)} for token, chance in zip(tokens, chances.tolist(), strict=True)
    ]


def _pack_maps(reading: Reading, layer: int | None, only: str | None) -> dict[str, Any]:
    """The weights of all heads, of one layer where it is asked for or the sentence is long."""
    if only is not None and only not in reading.maps:
        raise UnknownName("inside.unknown_kind", only, reading.maps)
    long = sum(ids.shape[1] for ids in reading.tokens.values()) > MOST_TOKENS
    most = max((reading.weights(kind).shape[1] for kind in reading.maps), default=0)
    if layer is not None and not 0 <= layer < most:
        raise UsageError("inside.no_layer", layer=layer, last=most - 1)
    maps = {}
    for kind, (rows, columns) in reading.maps.items():
        if only not in (None, kind):
            continue
        weights = reading.weights(kind)[0]  # (L, H, R, C)
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
    sentence = read_sentence(subject, text, translation, edits)
    reading = sentence.reading
    if name not in reading.blocks:
        raise UnknownName("inside.unknown_block", name, list(reading.blocks))
    values, kind = reading.blocks[name], figure.find_type(name, sentence.model)
    rows = find_rows(values)
    at = rows - 1 if at is None else at
    if not 0 <= at < rows:
        raise UsageError("inside.no_position", position=at, last=rows - 1)
    heads = values["weights"].shape[1] if "weights" in values else 0  # of an attention
    if heads and not 0 <= head < heads:
        raise UsageError("inside.no_head", head=head, last=heads - 1)
    side = reading.maps.get(_kind_of(name), (None, None))
    result: dict[str, Any] = {"block": name, "type": kind, "head": head, "heads": heads, "at": at,
                              "rows": side[0], "columns": side[1]}  # fmt: skip
    if name in ("output", "softmax"):
        result |= _describe_top(subject, reading, at)
        values = {"input": values["input"]} if name == "output" else {}
    result["values"] = {key: pack(_cut(key, value, head, at)) for key, value in values.items()}
    if cell is not None:
        value, index, place = cell
        position = at if place is None else place
        result["cell"] = open_cell(sentence.model, reading, name, (value, index), head, position)
    return result


def find_rows(values: dict[str, Tensor]) -> int:
    """How many positions a block has."""
    if "q" in values:
        return values["q"].shape[2]
    first = next(value for key, value in values.items() if key != "position")
    return first.shape[2] if first.dim() == 4 else first.shape[1]


def _kind_of(name: str) -> str:
    return "cross" if name.endswith(".cross") else name.partition(".")[0]


def _cut(key: str, value: Tensor, head: int, at: int) -> Tensor:
    """The part of a value that is shown: one head, or one position."""
    if key in HEADWISE and value.dim() == 4:
        return value[0, min(head, value.shape[1] - 1)]
    if value.dim() == 2:  # positions have no batch
        return value[at]
    return value[0, min(at, value.shape[1] - 1)]


def _describe_top(subject: Subject, reading: Reading, at: int) -> dict[str, Any]:
    assert reading.logits is not None
    logits = reading.logits[0, at].float()
    chances = logits.softmax(dim=-1)
    top = chances.topk(min(TOP, len(chances)))
    tokens = describe_tokens(subject.vocabularies.target, top.indices.tolist())
    numbers = zip(tokens, logits[top.indices].tolist(), top.values.tolist(), strict=True)
    listed = [
        token | {"logit": round_number(logit), "probability": round_number(chance)} for token, logit, chance in numbers
    ]
    return {"top": listed, "symbols": len(chances), "rest": round_number(1.0 - float(top.values.sum()))}


@torch.no_grad()
def open_cell(model: Any, reading: Reading, name: str, cell: tuple[str, int], head: int, at: int) -> dict[str, Any]:
    """The dot product behind one number: the input, the row of the matrix, the bias and their sum."""
    value, index = cell
    if name == "output":
        matrix, bias = model.output()
        at = min(max(at, 0), reading.hidden.shape[1] - 1)
        return _multiply(cell, reading.hidden[0, at], matrix, bias, index)
    kind = name.rpartition(".")[2]
    module = next(iter(find_parts(model).modules.get(name, [])), None)
    made = MATRICES.get((kind, value))
    if made is None or module is None or not hasattr(module, made[0]):
        raise UsageError("inside.no_product", value=value, block=name)
    linear, source = getattr(module, made[0]), _find_input(reading, name, made[1])
    blocks: Sequence[int] = linear.blocks
    size = blocks[made[2]] // (module.heads if value in ("q", "k", "v") else 1)
    if not 0 <= index < size:
        raise UsageError("inside.no_component", index=index, last=size - 1)
    row = sum(blocks[: made[2]]) + index + (head * size if value in ("q", "k", "v") else 0)
    if not 0 <= at < len(source):
        raise UsageError("inside.no_position", position=at, last=len(source) - 1)
    return _multiply(cell, source[at], linear.weight, linear.bias, row)


def _find_input(reading: Reading, name: str, value: str) -> Tensor:
    """What a matrix of a block is multiplied with (T, D); keys and values of cross-attention read the memory."""
    if value != "memory":
        return reading.blocks[name][value][0]
    last = "encoder.norm" if "encoder.norm" in reading.blocks else _last_of(reading, "encoder")
    return reading.blocks[last]["output"][0]


def _last_of(reading: Reading, stack: str) -> str:
    """The last block of a stack; where all its layers are off, the vectors that it was given."""
    names = [name for name in reading.blocks if name.startswith(f"{stack}.")]
    given = [name for name in reading.blocks if name.startswith("source.") and "output" in reading.blocks[name]]
    return [*given, *names][-1]


def _multiply(cell: tuple[str, int], vector: Tensor, matrix: Tensor, bias: Tensor | None, row: int) -> dict[str, Any]:
    if not 0 <= row < len(matrix):
        raise UsageError("inside.no_component", index=row, last=len(matrix) - 1)
    weights = matrix[row]
    offset = 0.0 if bias is None else float(bias[row])
    total = float((vector.float() * weights.float()).sum()) + offset
    return {"value": cell[0], "index": cell[1], "input": pack(vector), "weights": pack(weights),
            "bias": round_number(offset), "sum": round_number(total)}  # fmt: skip
