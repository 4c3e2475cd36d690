"""A walk through one attention: from the tokens of a sentence to its next word, with the numbers of one head.

    walk = take_walk(translator, "A man rides a bike.", spot=Spot(kind="cross", head=1, at=2), language="ko")
    print("\\n".join(to_lines(walk)))
    walk_page(walk)                    # the same as one HTML file

Every number is that of the model: a walk only chooses which of a reading's values are shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jumok.errors import UnknownName, UsageError
from jumok.inside import figure
from jumok.inside.arrays import find_largest
from jumok.inside.edits import NOTHING, Edits
from jumok.inside.figure import word
from jumok.inside.inspector import Values
from jumok.inside.steps import list_steps
from jumok.inside.subject import Subject, Translation
from jumok.inside.tokens import describe_tokens
from jumok.inside.views import Sentence, check_language, read_sentence

SHOWN = 6  # components of a vector that are shown
TERMS = 4  # terms of a sum that are written out
WORDS = 5


@dataclass(frozen=True)
class Vector:
    """The first components of a vector, what it is, and how many there are in all."""

    label: str
    numbers: list[float]
    size: int


@dataclass(frozen=True)
class Part:
    """One step of a walk."""

    heading: str
    type: str = ""  # of the block: its formula and code; or weights, the row of a map
    lines: list[str] = field(default_factory=list)
    vectors: list[Vector] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)


@dataclass(frozen=True)
class Walk:
    """The whole walk, and the figure of its model."""

    text: str
    translation: str
    language: str
    kind: str
    layer: int
    head: int
    at: int
    parts: list[Part]
    figure: dict[str, Any]
    lacks: str | None
    weights: list[list[float]]  # of the head, (T, S)
    row_labels: list[str]
    column_labels: list[str]
    numbers: dict[str, Any]  # of the row, in full


@dataclass(frozen=True)
class Look:
    """What a walk is about: one row of one head."""

    sentence: Sentence
    values: Values
    name: str
    kind: str
    layer: int
    head: int
    at: int
    rows: list[dict[str, Any]]
    columns: list[dict[str, Any]]
    language: str

    def say(self, key: str, **values: Any) -> str:
        return word(f"walk.{key}", self.language, **values)

    def show(self, label: str, vector: np.ndarray) -> Vector:
        return Vector(label, [float(number) for number in vector[:SHOWN]], len(vector))

    def take(self, name: str) -> np.ndarray:
        """A value of the head at the row: (K,) or (S,); of keys and values all rows."""
        value: np.ndarray = self.values[name][self.head]
        return value if name in ("k", "v", "k_turned") else value[self.at]

    def rank(self, count: int) -> list[int]:
        """The keys that get most weight, most first."""
        return find_largest(self.take("weights"), count)


@dataclass(frozen=True, kw_only=True)
class Spot:
    """Which row of which head, from 0; without a kind it is cross-attention where the model has it."""

    kind: str | None = None
    layer: int = 0
    head: int = 0
    at: int | None = None  # the last if it is not given


def take_walk(
    subject: Subject,
    text: str,
    translation: Translation | None = None,
    *,
    spot: Spot | None = None,
    edits: Edits = NOTHING,
    language: str = "en",
) -> Walk:
    """Return the walk of one row of one head."""
    check_language(language)
    spot, sentence = spot or Spot(), read_sentence(subject, text, translation, edits)
    look = _choose(subject, sentence, spot, language)
    parts = [_tell_tokens(look), *_tell_embedding(look)]
    if (norm := sentence.trace.blocks.get(f"{look.name}.norm")) is not None and _comes_before(look):
        parts.append(_tell_block(look, f"{look.name}.norm", norm))
    if "q" in look.values:
        parts += [_tell_queries(look), _tell_scores(look)]
    parts += [_tell_weights(look), *_tell_rest(look)]
    if sentence.trace.logits is not None:
        parts += _tell_output(subject, text, look, edits)
    target = subject.vocabularies.target
    return Walk(
        text=text, translation=target.decode(sentence.target) if sentence.trace.logits is not None else "",
        language=language, kind=look.kind, layer=look.layer, head=look.head, at=look.at, parts=parts,
        figure=figure.draw(sentence.outline, language), lacks=figure.say_what_lacks(sentence.outline, language),
        weights=look.values["weights"][look.head].tolist(), row_labels=[token["text"] for token in look.rows],
        column_labels=[token["text"] for token in look.columns],
        numbers={name: _plain(look, name) for name in ("q", "k", "v", "products", "scores", "weights", "mixed")
                 if name in look.values},
    )  # fmt: skip


def _plain(look: Look, name: str) -> Any:
    return look.take(name).tolist()


def _choose(subject: Subject, sentence: Sentence, spot: Spot, language: str) -> Look:
    """Return the row of the head that is asked for; errors count from 1, as people do."""
    trace, layer, head = sentence.trace, spot.layer, spot.head
    if not trace.maps:
        raise UsageError("inside.no_attention", kind=sentence.outline.kind)
    kind = spot.kind or ("cross" if "cross" in trace.maps else next(iter(trace.maps)))
    if kind not in trace.maps:
        raise UnknownName("inside.unknown_kind", kind, trace.maps)
    name = f"decoder.{layer}.cross" if kind == "cross" else f"{kind}.{layer}.attention"
    if name not in trace.blocks:
        raise UsageError("inside.no_such_part", part="layer", number=layer + 1, last=len(trace.weights(kind)))
    values = trace.blocks[name]
    heads, rows = values["weights"].shape[:2]
    at = rows - 1 if spot.at is None else spot.at
    if not 0 <= head < heads:
        raise UsageError("inside.no_such_part", part="head", number=head + 1, last=heads)
    if not 0 <= at < rows:
        raise UsageError("inside.no_such_part", part="position", number=at + 1, last=rows)
    sides = []
    for side in trace.maps[kind]:
        vocabulary = subject.vocabularies.target if side == "target" else subject.vocabularies.source
        sides.append(describe_tokens(vocabulary, trace.tokens[side]))
    return Look(sentence, values, name, kind, layer, head, at, sides[0], sides[1], language)


# ------------------------------------------------------------------------------------------------- its parts


def _tell_tokens(look: Look) -> Part:
    sides = [look.columns] if look.kind != "cross" else [look.columns, look.rows]
    lines = ["  ".join(f"{number}·{token['text']}" for number, token in enumerate(side, start=1)) for side in sides]
    return Part(look.say("tokens"), lines=lines)


def _tell_embedding(look: Look) -> list[Part]:
    """The vector of the token that asks, before the first layer."""
    blocks = look.sentence.trace.blocks
    side = "line" if "line.embedding" in blocks else "source" if look.kind == "encoder" else "target"
    values, token = blocks.get(f"{side}.embedding", {}), look.rows[look.at]["text"]
    if "row" not in values:
        return []
    row, scaled = values["row"][look.at], values["scaled"][look.at]
    biggest = int(np.abs(row).argmax())
    scale = float(scaled[biggest] / row[biggest]) if float(row[biggest]) else 1.0
    vectors = [look.show("E", row), look.show(f"× {scale:.3f}", scaled)]
    lines = []
    if (positions := blocks.get(f"{side}.positions")) is not None:
        table = positions["position"]
        vectors += [look.show("+ PE", table[look.at]), look.show("=", positions["output"][look.at])]
        lines.append(look.say("position"))
    return [Part(look.say("embedding", token=token, scale=scale), "embedding", lines, vectors)]


def _comes_before(look: Look) -> bool:
    """Whether the norm of the attention comes before it (pre-norm)."""
    names = look.sentence.trace.names
    return names.index(f"{look.name}.norm") < names.index(look.name)


def _tell_queries(look: Look) -> Part:
    """q of the row, k and v of the keys that get most weight."""
    key = "query_cross" if look.kind == "cross" else "query"
    line = look.say(key, at=look.at + 1, token=look.rows[look.at]["text"])
    vectors = [look.show("x", look.values["input"][look.at])] if "input" in look.values else []
    vectors.append(look.show("q", look.take("q")))
    for place in look.rank(2):
        name = look.columns[place]["text"]
        vectors += [look.show(f"{sign} {name}", look.take(sign)[place]) for sign in ("k", "v")]
    if "q_turned" in look.values:
        [best] = look.rank(1)
        vectors += [
            look.show(f"q · {look.say('turned')}", look.take("q_turned")),
            look.show(f"k {look.columns[best]['text']}", look.take("k_turned")[best]),
        ]
    heading = look.say(look.kind, layer=look.layer + 1, head=look.head + 1)
    return Part(heading, figure.find_type(look.name, look.sentence.outline.kind), [line], vectors)


def _tell_scores(look: Look) -> Part:
    """The dot product with the strongest key, written out, and the scale."""
    [best], lines = look.rank(1), []
    if "products" in look.values:
        q, k = (look.take(f"{sign}_turned" if f"{sign}_turned" in look.values else sign) for sign in "qk")
        terms = " + ".join(f"{float(a):.3f}×{float(b):.3f}" for a, b in zip(q[:TERMS], k[best][:TERMS], strict=True))
        terms += " + …" if len(q) > TERMS else ""
        value = float(look.take("products")[best])
        lines.append(look.say("product", token=look.columns[best]["text"], terms=terms, value=value))
        if is_scaled(look):
            lines.append(look.say("scaled", root=len(q) ** 0.5))
    else:
        lines.append(look.say("additive"))
    if "mask" in look.values and not bool(look.take("mask").all()):
        lines.append(look.say("masked", at=look.at + 1))
    return Part(look.say("products"), "", lines)


def is_scaled(look: Look) -> bool:
    """Whether the scores of a look were divided by the root of d_k."""
    products, scores = look.values["products"], look.values["scores"]
    return np.allclose(scores, products / look.values["q"].shape[-1] ** 0.5, rtol=1e-5, atol=0.0)


def _tell_weights(look: Look) -> Part:
    """The whole row: products, scores, weights."""
    names = [name for name in ("products", "scores", "weights") if name in look.values]
    titles = {"products": look.say("dot"), "scores": look.say("score"), "weights": look.say("weight")}
    allowed = look.take("mask").tolist() if "mask" in look.values else [True] * len(look.columns)
    rows = []
    for place, token in enumerate(look.columns):
        cells = [f"{float(look.take(name)[place]):.4f}" for name in names]
        if not allowed[place] and "scores" in names:
            cells[names.index("scores")] = "−∞"
        rows.append([f"{place + 1}·{token['text']}", *cells])
    weights = look.take("weights")
    lines = []
    if "v" in look.values:
        order = look.rank(TERMS)
        terms = " + ".join(f"{float(weights[place]):.3f}·v({look.columns[place]['text']})" for place in order)
        lines.append(look.say("mixed", terms=terms))
    vectors = [look.show("Σ αv", look.take("mixed"))] if "mixed" in look.values else []
    heading = look.say("softmax", total=float(weights.sum()))
    return Part(heading, "weights", lines, vectors, [look.say("read"), *(titles[name] for name in names)], rows)


def _tell_rest(look: Look) -> list[Part]:
    """W^O, and the blocks after the attention to the end of its layer, in the order of the model."""
    blocks, name, parts = look.sentence.trace.blocks, look.name, list[Part]()
    if "joined" in look.values:
        heads = len(look.values["weights"])
        output = look.show("W^O", look.values["output"][look.at])
        parts.append(Part(look.say("joined", heads=heads), "", [], [output]))
    names, layer = list(blocks), name.rpartition(".")[0]
    for block in names[names.index(name) + 1 :]:
        if not block.startswith(f"{layer}."):
            break
        if "output" in blocks[block]:
            parts.append(_tell_block(look, block, blocks[block]))
    return parts


def _tell_block(look: Look, block: str, values: Values) -> Part:
    """One block after, or before, the attention: what it returns at the position of the row."""
    output = look.show("=", values["output"][look.at])
    kind = figure.find_type(block, look.sentence.outline.kind)
    if kind == "add":
        return Part(look.say("added"), kind, [], [output])
    if kind == "norm":
        numbers = {key: float(values[key][look.at, 0]) for key in ("mean", "deviation") if key in values}
        heading = look.say("normed", **numbers) if len(numbers) == 2 else look.say("normed_short")
        return Part(heading, kind, [], [output])
    if kind == "feed_forward":
        active = values["active"][look.at]
        heading = look.say("fed", inner=len(active), active=int((active > 0).sum()))
        return Part(heading, kind, [], [output])
    return Part(word(f"type.{kind}.name", look.language), kind, [], [output])


def _tell_output(subject: Subject, text: str, look: Look, edits: Edits) -> list[Part]:
    """The likeliest next tokens and words after the position of the decoder, or after START."""
    at = look.at if look.kind != "encoder" and "target" in look.sentence.trace.maps[look.kind] else 0
    at = min(at, len(look.sentence.target))
    [step] = list_steps(subject, text, look.sentence.target, edits, at=at, count=WORDS)
    before = " ".join(token["text"] for token in describe_tokens(
        subject.vocabularies.target, look.sentence.target[:at])[-3:]) or step["in"]["text"]  # fmt: skip
    pieces = [[piece["text"], _percent(piece["probability"])] for piece in step["pieces"]]
    words = [[one["text"], _percent(one["probability"])] for one in step["words"]]
    titles = [look.say("read"), look.say("probability")]
    return [
        Part(look.say("logits", at=at + 1), "output", [], [], titles, pieces),
        Part(look.say("next", before=before), "softmax", [], [], [look.say("word"), look.say("probability")], words),
    ]


def _percent(chance: float | None) -> str:
    return "–" if chance is None else f"{chance:.1%}"
