"""Two diagrams that charts cannot draw: figure 1 of the paper as boxes, and the tree of a beam search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jumok.reports.drawing import FONT, GREY, PALETTE, display_width, escape, svg_page

WIDE, HIGH, GAP = 214.0, 34.0, 14.0
LEFT, RIGHT = 150.0, 540.0  # the left edges of both columns
SIDE = 22.0  # between a layer's boxes and the dashed frame around it; residual connections run there
INK = {"attention": PALETTE[0], "masked": PALETTE[1], "cross": PALETTE[2]}  # the three attentions
FATES = {"living": PALETTE[0], "ended": PALETTE[2], "pruned": GREY}


class Box(NamedTuple):
    """A box of figure 1: its type, what is written in it, and the text beside it."""

    type: str
    text: str
    note: str = ""


def draw_box(box: Box, x: float, y: float, *, bright: bool) -> list[str]:
    """A box and the note outside of it."""
    ink = INK.get(box.type, GREY)
    fill = ".28" if box.type in INK else ".10" if bright else ".04"
    middle = y + HIGH / 2
    body = [
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{WIDE:.0f}" height="{HIGH:.0f}" rx="6" fill="{ink}" '
        f'fill-opacity="{fill}" stroke="{ink}"/>',
        f'<text x="{x + WIDE / 2:.0f}" y="{middle:.0f}" dy=".35em" text-anchor="middle">{escape(box.text)}</text>',
    ]
    if box.note:
        at, anchor = (x - SIDE - 8, "end") if x == LEFT else (x + WIDE + SIDE + 8, "start")
        body.append(
            f'<text x="{at:.0f}" y="{middle:.0f}" dy=".35em" text-anchor="{anchor}" fill="{ink}" font-weight="600">'
            f"{escape(box.note)}</text>"
        )
    return body


def draw_column(boxes: Sequence[Box], x: float, bottom: float, times: str, *, bright: bool) -> list[str]:
    """The boxes of a column, the arrows between them, residual connections, and a frame around the layer."""
    line, step, body = f'stroke="{GREY}" fill="none" stroke-width="1.6"', HIGH + GAP, []
    adds = [number for number, box in enumerate(boxes) if box.type == "add"]
    for number, box in enumerate(boxes):
        y = bottom - number * step
        if number:
            body.append(f'<path d="M{x + WIDE / 2:.0f} {y + HIGH + GAP:.0f}v{-GAP:.0f}" {line}/>')
        body += draw_box(box, x, y, bright=bright)
        if box.type == "add":  # from below the sub-layer, around it
            around = f"M{x + WIDE / 2:.0f} {y + step + HIGH + GAP / 2:.0f}H{x - 11:.0f}V{y + HIGH / 2:.0f}h11"
            body.append(f'<path d="{around}" {line}/><path d="M{x:.0f} {y + HIGH / 2:.0f}l-7 -4v8z" fill="{GREY}"/>')
    first, last = bottom - (adds[0] - 1) * step, bottom - adds[-1] * step
    size = f'width="{WIDE + 2 * SIDE:.0f}" height="{first - last + HIGH + 18:.0f}"'
    body.append(f'<rect x="{x - SIDE:.0f}" y="{last - 9:.0f}" {size} rx="10" stroke-dasharray="5 4" {line}/>')
    at, anchor = (x - SIDE - 8, "end") if x == LEFT else (x + WIDE + SIDE + 8, "start")
    body.append(f'<text x="{at:.0f}" y="{last + HIGH / 2:.0f}" text-anchor="{anchor}">{escape(times)}</text>')
    return body


def figure_svg(encoder: Sequence[Box], decoder: Sequence[Box], times: str, *, title: str, bright: bool = True) -> str:
    """Figure 1: two columns of boxes from the bottom up, with the arrow from the encoder to cross-attention.

    The first and the last box of a column are what goes in and, on the right, what comes out.
    """
    margin = SIDE + 20 + 7.8 * max([display_width(box.note) for box in encoder] or [0])
    shift = max(0.0, margin - LEFT + 12)
    step, upper = HIGH + GAP, 56.0
    bottom = upper + step * (len(decoder) - 1)
    body = [f'<g font-family="{FONT}" font-size="14" fill="{GREY}" transform="translate({shift:.0f} 0)">']
    body.append(f'<text x="{24 - shift:.0f}" y="28" font-size="17" font-weight="600">{escape(title)}</text>')
    for x, boxes in ((LEFT, encoder), (RIGHT, decoder)):
        body += draw_column(boxes, x, bottom, times, bright=bright)
    top = bottom - (len(encoder) - 1) * step
    cross = next(number for number, box in enumerate(decoder) if box.type == "cross")
    across, middle = (LEFT + WIDE + RIGHT) / 2, bottom - cross * step + HIGH / 2
    arrow = f"M{LEFT + WIDE / 2:.0f} {top:.0f}v-26H{across:.0f}V{middle:.0f}H{RIGHT:.0f}"
    body.append(f'<path d="{arrow}" stroke="{INK["cross"]}" fill="none" stroke-width="2.4"/>')
    body.append(f'<path d="M{RIGHT:.0f} {middle:.0f}l-9 -5v10z" fill="{INK["cross"]}"/>')
    wide = (
        shift
        + RIGHT
        + WIDE
        + SIDE
        + 28
        + 7.8 * max(display_width(text) for text in (times, *(box.note for box in decoder)))
    )
    return svg_page(wide, bottom + HIGH + 24, [*body, "</g>"], title)


def tree_svg(nodes: Sequence[Mapping[str, Any]], legend: Mapping[str, str], *, title: str) -> str:
    """The continuations that a beam considered, from left to right; thin lines lead to those that it dropped."""
    children: dict[int, list[int]] = {}
    for number, node in enumerate(nodes):
        children.setdefault(node["parent"], []).append(number)
    rows: dict[int, float] = {}
    leaves = 0

    def place(number: int) -> float:
        nonlocal leaves
        below = [place(child) for child in children.get(number, [])]
        if not below:
            leaves += 1
        rows[number] = sum(below) / len(below) if below else leaves - 1.0
        return rows[number]

    place(-1)
    step, across, upper = 44.0, 170.0, 96.0

    def locate(number: int) -> tuple[float, float]:
        depth = -1 if number < 0 else int(nodes[number]["step"])
        return 50 + (depth + 1) * across, upper + rows[number] * step

    body = [f'<g font-family="{FONT}" font-size="14" fill="{GREY}">']
    body.append(f'<text x="24" y="28" font-size="17" font-weight="600">{escape(title)}</text>')
    for number, (fate, text) in enumerate(legend.items()):
        at = 30 + number * 170
        body.append(
            f'<circle cx="{at}" cy="54" r="7" fill="{FATES[fate]}"/><text x="{at + 14}" y="59">{escape(text)}</text>'
        )
    for number, node in enumerate(nodes):
        (a, b), (c, d) = locate(node["parent"]), locate(number)
        ink = FATES[node["fate"]]
        dash = ' stroke-dasharray="4 4"' if node["fate"] == "pruned" else ""
        bend = f"M{a + 14:.0f} {b:.0f}C{a + 70:.0f} {b:.0f} {c - 70:.0f} {d:.0f} {c - 14:.0f} {d:.0f}"
        body.append(f'<path d="{bend}" fill="none" stroke="{ink}" stroke-width="{1 + 5 * node["gain"]:.1f}"{dash}/>')
    for number, node in [(-1, {"word": "", "fate": "pruned", "p": 1.0}), *enumerate(nodes)]:
        x, y = locate(number)
        ink = FATES[node["fate"]]
        body.append(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="14" fill="{ink}"/>')
        body.append(f'<text x="{x:.0f}" y="{y:.0f}" dy=".35em" text-anchor="middle" fill="#fff">{node["word"]}</text>')
        if number >= 0:
            body.append(f'<text x="{x + 19:.0f}" y="{y:.0f}" dy="1.25em" font-size="12">{node["p"]:.3f}</text>')
    wide = 50 + across * (max(node["step"] for node in nodes) + 1) + 90
    return svg_page(max(wide, 48 + 9.5 * display_width(title)), upper + leaves * step, [*body, "</g>"], title)
