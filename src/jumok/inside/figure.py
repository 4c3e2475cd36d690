"""Figure 1 of this model, as data: its blocks in the order in which they are computed, drawn from the model itself.

    figure = draw(inspector.outline, "ko")
    figure["blocks"][0]           # id, type, stack, layer, parameters, shape
    figure["types"]["norm"]       # name, formula, line of code, and how it departs from the paper

What the paper's figure has and the model does not is there too, marked `absent`.  No torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from jumok.inside.formulas import FORMULAS
from jumok.inside.inspector import Outline
from jumok.reports.wording import Words, korean

WORDS = Words.read("inside", "inside/words")
LAB = {  # the claim of the lab that a switch is about
    "heads": "heads", "layers": "table-3", "mask": "mask", "positions": "positions", "scale": "scale",
    "residual": "residual", "norm": "norm", "rows": "alignment", "shuffle": "order",
}  # fmt: skip
LETTERS = {"source": "S", "encoder": "S", "target": "T", "decoder": "T", "output": "T", "softmax": "T", "line": "P"}


class Departure(NamedTuple):
    """How a type of block departs from the paper: the text, its formula, and what the paper has instead.

    Where it is not the block itself that departs but its place, `here` shows the place.
    """

    key: str
    formula: str
    paper: str
    here: str = ""


PRE_NORM = Departure("pre", "norm", "post-norm", "pre-norm")
PRE_ADD = Departure("pre", "add", "post-norm", "pre-norm")


def word(key: str, language: str, **values: Any) -> str:
    """A text of this room."""
    return WORDS(key, **values).of(language)


def draw(outline: Outline, language: str = "en") -> dict[str, Any]:
    """Return the map of a model: blocks, their types, and the sizes of the whole."""
    blocks = list(_list_blocks(outline))
    departures = find_departures(outline)
    types = {}
    for name in dict.fromkeys(block["type"] for block in blocks):
        departure = departures.get(name)
        where = outline.code.get(name)
        types[name] = {
            "name": word(f"type.{name}.name", language),
            "says": word(f"type.{name}.says", language),
            "formula": FORMULAS[departure.formula if departure else _usual(name)],
            "code": None if where is None else where._asdict(),
            "departs": word(f"departs.{departure.key}", language) if departure else None,
            "here": FORMULAS[departure.here] if departure and departure.here else None,
            "paper": FORMULAS[departure.paper] if departure else None,
        }
    sizes = describe_sizes(outline.config, language)
    return {"kind": outline.kind, "shape": sizes, "parameters": outline.total, "blocks": blocks, "types": types}


def describe_sizes(config: Any, language: str) -> str:
    """Return the sizes of a model in words; those of models without heads as the recipe names them."""
    fields = type(config).model_fields
    if not {"heads", "d_model", "d_ff"} <= fields.keys():
        return getattr(config, "shape", "")
    width, _ = getattr(config, "head_widths", (config.d_model // config.heads, 0))
    common = {"d_model": config.d_model, "d_ff": config.d_ff, "heads": config.heads, "width": width}
    if hasattr(config, "encoder_layers"):
        return word("shape.two", language, encoder=config.encoder_layers, decoder=config.decoder_layers, **common)
    return word("shape.one", language, layers=config.layers, **common)


def _usual(name: str) -> str:
    return {"feed_forward": "feed-forward", "cross": "attention"}.get(name, name)


def _list_blocks(outline: Outline) -> Iterator[dict[str, Any]]:
    ids = [name for name, _ in outline.blocks]
    for place, (name, width) in enumerate(outline.blocks):
        stack, *rest = name.split(".")
        letter = "P" if outline.in_line else LETTERS[stack]
        layer = int(rest[0]) if rest and rest[0].isdigit() else None
        yield {
            "id": name, "type": find_type(name, outline.kind), "stack": stack, "layer": layer,
            "parameters": outline.parameters.get(name, 0), "shape": "" if width is None else f"{letter} × {width}",
        }  # fmt: skip
        if outline.kind == "transformer":
            for absent in _list_absent(outline.config, name, ids[place + 1 :]):
                yield {"id": absent, "type": find_type(absent, outline.kind), "stack": stack, "layer": layer,
                       "parameters": 0, "shape": "", "absent": True}  # fmt: skip


def _list_absent(config: Any, name: str, after: list[str]) -> Iterator[str]:
    """What figure 1 has after a block and this model does not."""
    if name.endswith(".embedding") and name.replace("embedding", "positions") not in after:
        yield name.replace("embedding", "positions")
    if name.endswith((".attention", ".cross", ".feed_forward")):
        if not config.residual:
            yield f"{name}.add"
        if config.norm == "none":
            yield f"{name}.norm"


def find_type(name: str, kind: str) -> str:
    """The type of a block of a model of some kind."""
    last = name.rpartition(".")[2]
    if last == "attention":
        return "masked" if name.startswith("decoder") else "attention"
    return "hop" if last == "cross" and kind == "memory" else last


def find_departures(outline: Outline) -> dict[str, Departure]:
    """Which types of blocks are not the paper's, and how."""
    config, departures = outline.config, dict[str, Departure]()
    if config.kind == "transformer":
        _compare_with_paper(config, departures)
    elif config.kind == "gpt":
        departures = {"norm": PRE_NORM, "add": PRE_ADD,
                 "masked": Departure("no_encoder", "masked", "masked"),
                 "feed_forward": Departure("gelu", "feed-forward-gelu", "feed-forward")}  # fmt: skip
        if config.positions != "sinusoidal":
            departures["embedding"] = Departure("unscaled", "embedding-plain", "embedding")
            _compare_positions(config, departures)
        if config.tied == "none":
            departures["output"] = Departure("untied", "output-untied", "output")
    elif outline.sizes.layers:  # an encoder alone
        departures = {"attention": Departure("bidirectional", "attention", "attention"),
                 "embedding": Departure("segments", "embedding-segments", "embedding"),
                 "feed_forward": Departure("gelu", "feed-forward-gelu", "feed-forward")}  # fmt: skip
        _compare_positions(config, departures)
    return departures


def _compare_positions(config: Any, departures: dict[str, Departure]) -> None:
    keys = {"rotary": "rotary", "learned": "learned", "appended": "appended"}
    if config.positions in keys:
        departures["positions"] = Departure(keys[config.positions], f"positions-{config.positions}", "positions")
    elif config.positions == "none":
        departures["positions"] = Departure("no_positions", "embedding", "positions")
    elif getattr(config, "join", "add") == "concatenate":
        departures["positions"] = Departure("concatenated", "positions-concatenated", "positions")


def _compare_with_paper(config: Any, departures: dict[str, Departure]) -> None:
    """What a recipe of the Transformer has that is not the paper's."""
    _compare_positions(config, departures)
    if config.score != "scaled-dot":
        for kind, usual in (("attention", "attention"), ("masked", "masked"), ("cross", "attention")):
            departures[kind] = Departure(config.score, f"{usual}-{config.score}", usual)
    if config.activation != "relu":
        departures["feed_forward"] = Departure(config.activation, f"feed-forward-{config.activation}", "feed-forward")
    if not config.residual:
        departures["add"] = Departure("no_residual", "add", "add")
    if config.norm_place == "pre":
        departures["norm"] = PRE_NORM
        departures.setdefault("add", PRE_ADD)
    if config.norm != "layer":
        formula = "norm-rms" if config.norm == "rms" else "norm"
        departures["norm"] = Departure("no_norm" if config.norm == "none" else config.norm, formula, "norm")
    if config.tied == "none":
        departures["output"] = Departure("untied", "output-untied", "output")
    if config.tied == "target":
        departures["embedding"] = Departure("target_tied", "embedding", "embedding")


def say_what_lacks(outline: Outline, language: str = "en") -> str | None:
    """One line about what this kind of model does not have; None where it has all of figure 1."""
    kind = outline.kind
    if kind == "rnn" and outline.config.attention == "none":
        kind = "rnn_blind"
    return word(f"lacks.{kind}", language) or None


def list_switches(outline: Outline, language: str = "en") -> list[dict[str, Any]]:
    """What can be broken, what the paper and the notes claim about it (texts of the lab), and whether it is there."""
    sizes, switches = outline.sizes, []
    for name, claim in LAB.items():
        there = name in sizes.switches or (name in ("heads", "layers", "rows") and bool(sizes.layers))
        there = there or (name == "shuffle" and outline.speaks)
        texts = Words.read(claim)
        origin = (korean(where) if language == "ko" else where for where in (texts.paper, texts.notes))
        paper, notes = origin
        switches.append({
            "id": name, "title": word(f"switch.{name}", language), "available": there,
            "why": None if there else word("why.none" if sizes.layers else "why.kind", language),
            "claim": texts("claim").of(language), "meaning": texts("meaning").of(language),
            "paper": paper, "notes": notes, "lab": claim,
        })  # fmt: skip
    return switches
