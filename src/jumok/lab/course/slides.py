"""Figures for slides, as SVG in Korean and English, with numbers from the worked examples.

for name, picture in draw_all(docs, "ko").items(): …

The charts are those of reports/; figure 1 and the tree of a search are in diagrams.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jumok.lab.course.diagrams import Box, figure_svg, tree_svg
from jumok.lab.course.sheet import fill, pick, read_texts
from jumok.lab.notes.numbers import read_value
from jumok.lab.wording import Words
from jumok.nn.positions import sinusoid
from jumok.reports.charts import field_svg, row_svg
from jumok.reports.curves import curves_svg
from jumok.reports.drawing import escape

POSITIONS, WIDTH = 50, 64  # of the heat map
INSIDE = Words.read("inside", "inside/words")


class Material:
    """The texts of this room in one language, and the findings that figures are drawn from."""

    def __init__(self, docs: Path, language: str) -> None:
        self.texts, self.docs, self.language = read_texts("slides"), docs, language

    def __call__(self, group: str, key: str, **values: Any) -> str:
        return fill(pick(self.texts[group][key], self.language), values)

    def type(self, name: str) -> str:
        """The name of a block, as the studio has it."""
        return INSIDE(f"type.{name}.name").of(self.language)

    def read(self, path: str) -> Any:
        return read_value(path, self.docs)


def list_boxes(say: Material, *, notes: bool) -> tuple[list[Box], list[Box]]:
    """The boxes of both columns, from the bottom up."""

    def named(kind: str) -> Box:
        note = {"attention": "encoder", "masked": "decoder", "cross": "cross"}.get(kind, "")
        return Box(kind, say.type(kind), say("block", note) if notes and note else "")

    add = Box("add", say("block", "add-norm"))
    start = [named("embedding"), named("positions")]
    encoder = [Box("in", say("block", "source")), *start, named("attention"), add, named("feed_forward"), add]
    layer = [named("masked"), add, named("cross"), add, named("feed_forward"), add]
    ends = [Box("output", say("block", "output")), named("softmax"), Box("out", say("block", "probabilities"))]
    return encoder, [Box("in", say("block", "target")), *start, *layer, *ends]


def draw_figure(say: Material) -> str:
    times = say("block", "times", layers=say.read("example:parameters/layers"))
    return figure_svg(*list_boxes(say, notes=False), times, title=say("title", "figure-1"))


def draw_three(say: Material) -> str:
    times = say("block", "times", layers=say.read("example:parameters/layers"))
    return figure_svg(*list_boxes(say, notes=True), times, title=say("title", "three-attentions"), bright=False)


def draw_attention(say: Material) -> str:
    keys, queries = ["k₁", "k₂", "k₃"], ["q₁", "q₂", "q₃"]
    d_k = say.read("example:attention/d_k")
    parts = []
    for name, form in (("products", "{:.0f}"), ("scores", "{:.1f}"), ("weights", "{:.3f}"), ("mixed", "{:.2f}")):
        columns = ["1", "2"] if name == "mixed" else keys
        rows = ["a₁", "a₂", "a₃"] if name == "mixed" else queries
        values = np.array(say.read(f"example:attention/{name}"))
        parts.append(field_svg(values, rows=rows, columns=columns, form=form, title=say("part", name, d_k=d_k)))
    return row_svg(parts, title=say("title", "attention"))


def draw_norms(say: Material) -> str:
    rows = [say("part", "sample", number=number) for number in (1, 2, 3)]
    columns = [say("part", "feature", number=number) for number in range(1, 7)]
    parts = []
    for path, name, form in (("samples", "given", "{:.0f}"), ("batch/output", "batch", "{:.2f}"),
                             ("layer/output", "layer", "{:.2f}")):  # fmt: skip
        values = np.array(say.read(f"example:norms/{path}"))
        parts.append(field_svg(values, rows=rows, columns=columns, form=form, title=say("part", name)))
    return row_svg(parts, title=say("title", "norms"))


def draw_positions(say: Material) -> str:
    table = sinusoid(0, POSITIONS, WIDTH).numpy()  # (T, D)
    return field_svg(table, x=say("part", "dimension"), y=say("part", "position"), title=say("title", "positions"))


def draw_mask(say: Material) -> str:
    rows, columns = ([f"{side}{sub}" for sub in "₁₂₃₄"] for side in "qk")
    parts = [
        field_svg(np.array(say.read(f"example:circle/{name}/weights")), rows=rows, columns=columns, form="{:.2f}",
                  title=say("part", name))
        for name in ("without", "with")
    ]  # fmt: skip
    return row_svg(parts, title=say("title", "mask"))


def draw_tree(say: Material) -> str:
    legend = {"living": say("part", "kept"), "ended": say("part", "ended"), "pruned": say("part", "pruned")}
    return tree_svg(say.read("example:tree/tree"), legend, title=say("title", "beam-tree"))


def draw_distance(say: Material) -> str:
    lanes: Mapping[str, Mapping[str, Any]] = say.read("example:distance/lanes")
    series = {
        say("lane", name): [
            (float(far), math.log10(one) if one else math.inf) for far, one in lane["untrained"].items()
        ]
        for name, lane in lanes.items()
    }
    return curves_svg(series, x=say("part", "distance"), y=say("part", "gradient"), title=say("title", "distance"))


FIGURES: Mapping[str, Callable[[Material], str]] = {
    "figure-1": draw_figure, "three-attentions": draw_three, "attention": draw_attention, "norms": draw_norms,
    "positions": draw_positions, "mask": draw_mask, "beam-tree": draw_tree, "distance": draw_distance,
}  # fmt: skip


def draw_all(docs: Path, language: str) -> dict[str, str]:
    """Every figure by its name, with the licence in its description."""
    say = Material(docs, language)
    licence = f"</title>\n<desc>{escape(say.texts['licence'])}</desc>"
    return {name: draw(say).replace("</title>", licence, 1) for name, draw in FIGURES.items()}
