"""Bars, coloured matrices and links between words as SVG, legible on white and on black."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from jumok.reports.drawing import FONT, GREY, PALETTE, display_width, escape, svg_page, ticks

COLD, PAPER, WARM = (33, 102, 172), (247, 247, 247), (178, 24, 43)  # colours below, at and above 0


def bars_svg(
    rows: Mapping[str, Mapping[str, float]], *, x: str = "", title: str = "", form: str = "{:.3g}", least: float = 0.0
) -> str:
    """Horizontal bars: a group for each row, with a labelled bar for each name.

    The axis begins at `least`.  A value that is not finite has no bar and is labelled "–".
    """
    names = list(dict.fromkeys(name for values in rows.values() for name in values))
    finite = [value for values in rows.values() for value in values.values() if np.isfinite(value)] or [1.0]
    marks = ticks(min(least, *finite) if len(finite) > 1 else min(least, finite[0]), max(least, *finite), 6)
    low, high = marks[0], marks[-1]
    left, wide, thick = 24 + 7.4 * max(map(display_width, rows)), 560.0, 20.0 if len(names) == 1 else 16.0
    upper = (48.0 if title else 16.0) + (24.0 if len(names) > 1 else 0.0)
    gap = 12.0
    high_of = len(names) * thick + gap
    body = [f'<g font-family="{FONT}" font-size="13" fill="{GREY}">']
    if title:
        body.append(f'<text x="16" y="28" font-size="16" font-weight="600">{escape(title)}</text>')
    if len(names) > 1:
        at = left
        for index, name in enumerate(names):
            ink = PALETTE[index % len(PALETTE)]
            body.append(f'<rect x="{at:.0f}" y="{upper - 22:.0f}" width="12" height="12" fill="{ink}"/>')
            body.append(f'<text x="{at + 17:.0f}" y="{upper - 11:.0f}">{escape(name)}</text>')
            at += 40 + 7.4 * display_width(name)

    def locate(value: float) -> float:
        return left + wide * (value - low) / (high - low)

    bottom = upper + len(rows) * high_of
    for mark in marks:
        at = locate(mark)
        body.append(f'<path d="M{at:.1f} {upper:.1f}V{bottom:.1f}" stroke="{GREY}" stroke-opacity=".25" fill="none"/>')
        body.append(f'<text x="{at:.1f}" y="{bottom + 18:.1f}" text-anchor="middle">{mark:,.10g}</text>')
    for row, (label, values) in enumerate(rows.items()):
        y = upper + row * high_of + gap / 2
        middle = y + len(names) * thick / 2
        body.append(f'<text x="{left - 10:.1f}" y="{middle:.1f}" dy=".35em" text-anchor="end">{escape(label)}</text>')
        for index, name in enumerate(names):
            value, top = values.get(name, float("nan")), y + index * thick
            if name not in values:
                continue
            ink, visible = PALETTE[index % len(PALETTE)], np.isfinite(value)
            start, end = sorted((locate(max(low, 0.0) if low <= 0 else low), locate(value) if visible else locate(low)))
            if visible:
                body.append(
                    f'<rect x="{start:.1f}" y="{top + 1:.1f}" width="{max(1.0, end - start):.1f}" '
                    f'height="{thick - 2:.1f}" fill="{ink}"/>'
                )
            words = form.format(value) if visible else "–"
            body.append(
                f'<text x="{end + 6:.1f}" y="{top + thick / 2:.1f}" dy=".35em" font-weight="600">{words}</text>'
            )
    body.append(f'<text x="{left + wide / 2:.1f}" y="{bottom + 40:.1f}" text-anchor="middle">{escape(x)}</text>')
    return svg_page(left + wide + 80, bottom + (52 if x else 30), [*body, "</g>"], title or x or "Bars")


def field_svg(
    values: np.ndarray,
    *,
    x: str = "",
    y: str = "",
    title: str = "",
    columns: Sequence[str] = (),
    rows: Sequence[str] = (),
    form: str = "",
) -> str:
    """A matrix as colours: blue below 0, red above, white at 0; with `form` the numbers are written into the cells.

    Row 0 is at the top.  `rows` and `columns` are labels; without labels, some are numbered.  A key below the matrix
    says which colour is which number.
    """
    field = np.nan_to_num(np.asarray(values, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    top = float(np.abs(field).max()) or 1.0
    high, wide = field.shape
    cell_w = round(max(2.0, min(64.0 if form else 26.0, 680 / wide)), 1)  # tenths, as drawn: no gaps
    cell_h = round(max(2.0, min(26.0, 420 / high)), 1) if not form else 24.0
    left = 34 + 7.4 * max([display_width(name) for name in rows] or [len(str(high))])
    slant = 6.0 * max([display_width(name) for name in columns] or [0])
    upper = (48.0 if title else 20.0) + (slant + 10 if columns else 18)
    cells: dict[str, list[str]] = {}
    for (r, c), value in np.ndenumerate(field):
        shape = f"M{left + c * cell_w:.1f} {upper + r * cell_h:.1f}h{cell_w:.1f}v{cell_h:.1f}h{-cell_w:.1f}z"
        cells.setdefault(_diverging_color(round(value / top * 32) / 32), []).append(shape)
    body = [f'<g font-family="{FONT}" font-size="12" fill="{GREY}">']
    if title:
        body.append(f'<text x="16" y="28" font-size="16" font-weight="600">{escape(title)}</text>')
    body += ['<g shape-rendering="crispEdges">']
    body += [f'<path fill="{ink}" d="{"".join(shapes)}"/>' for ink, shapes in cells.items()] + ["</g>"]
    if form:
        for (r, c), value in np.ndenumerate(np.asarray(values, dtype=np.float64)):
            ink = "#fff" if abs(value) / top > 0.6 else "#22262b"
            words = form.format(value) if np.isfinite(value) else "–"
            body.append(
                f'<text x="{left + (c + 0.5) * cell_w:.1f}" y="{upper + (r + 0.5) * cell_h:.1f}" dy=".35em" '
                f'text-anchor="middle" fill="{ink}">{words}</text>'
            )
    for r, name in _label_rows(rows, high):
        position = f'x="{left - 8:.1f}" y="{upper + (r + 0.5) * cell_h:.1f}" dy=".35em"'
        body.append(f'<text {position} text-anchor="end">{escape(name)}</text>')
    for c, name in _label_rows(columns, wide):
        across = left + (c + 0.5) * cell_w
        if columns:
            body.append(f'<text transform="translate({across:.1f} {upper - 6:.1f}) rotate(-45)">{escape(name)}</text>')
        else:
            body.append(f'<text x="{across:.1f}" y="{upper - 6:.1f}" text-anchor="middle">{escape(name)}</text>')
    bottom = upper + high * cell_h
    body.append(
        f'<text x="{left + wide * cell_w / 2:.1f}" y="{bottom + 22:.1f}" text-anchor="middle">{escape(x)}</text>'
    )
    bottom += 22 if x else 4
    body += _key(left, bottom + 12, -top if field.min() < 0 else 0.0, top)
    bottom += 26
    rotation = f"translate(14 {upper + high * cell_h / 2:.1f}) rotate(-90)"
    body.append(f'<text transform="{rotation}" text-anchor="middle">{escape(y)}</text>')
    return svg_page(left + max(wide * cell_w + slant + 40, 360), bottom + 12, [*body, "</g>"], title or x or "Field")


def _key(left: float, upper: float, low: float, high: float) -> list[str]:
    """A row of swatches from the least to the largest colour, each with its number."""
    body = []
    for at, share in enumerate((0.0, 0.25, 0.5, 0.75, 1.0)):
        value, x = low + share * (high - low), left + 66 * at
        ink, words = _diverging_color(value / high), f"{value:.0f}" if high >= 10 else f"{value + 0.0:.2g}"
        body.append(f'<rect x="{x:.1f}" y="{upper:.1f}" width="14" height="14" fill="{ink}" stroke="{GREY}"/>')
        body.append(f'<text x="{x + 19:.1f}" y="{upper + 7:.1f}" dy=".35em">{words}</text>')
    return body


def _label_rows(names: Sequence[str], count: int) -> list[tuple[int, str]]:
    """Indices and their labels; a few numbers if there are no labels."""
    if names:
        return list(enumerate(names))
    return [(at, str(at)) for at in range(0, count, max(1, round(count / 8)))]


def _diverging_color(level: float) -> str:
    """The colour of a level -1..1."""
    end = WARM if level > 0 else COLD
    mixed = (round(a + (b - a) * min(1.0, abs(level))) for a, b in zip(PAPER, end, strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def links_svg(
    rows: Sequence[str],
    columns: Sequence[str],
    weights: np.ndarray,
    *,
    title: str = "",
    groups: Sequence[int] = (),
    bold: Sequence[int] = (),
) -> str:
    """Attention as the paper draws it: words on the left and on the right, lines as strong as the weights.

    Lines and words of row r have the colour of groups[r]; words whose indices are in `bold` are bold on both sides.
    """
    field = np.nan_to_num(np.asarray(weights, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0).clip(0.0, 1.0)
    step, upper = 26.0, 56.0 if title else 24.0
    left = 24 + 8.2 * max(map(display_width, rows), default=0)
    across = 240.0
    right = left + across
    body = [f'<g font-family="{FONT}" font-size="14" fill="{GREY}">']
    if title:
        body.append(f'<text x="16" y="28" font-size="16" font-weight="600">{escape(title)}</text>')

    def ink(row: int) -> str:
        return PALETTE[groups[row] % len(PALETTE)] if row < len(groups) else PALETTE[0]

    for (r, c), weight in np.ndenumerate(field):
        if weight < 0.02:
            continue
        a, b = upper + (r + 0.5) * step, upper + (c + 0.5) * step
        bend = (
            f"M{left:.1f} {a:.1f}C{left + across / 3:.1f} {a:.1f} {right - across / 3:.1f} {b:.1f} {right:.1f} {b:.1f}"
        )
        body.append(
            f'<path d="{bend}" fill="none" stroke="{ink(r)}" stroke-opacity="{weight:.2f}" '
            f'stroke-width="{1 + 5 * weight:.1f}"/>'
        )
    for names, x, anchor in ((rows, left - 8, "end"), (columns, right + 8, "start")):
        for at, name in enumerate(names):
            heavy = ' font-weight="700"' if at in bold else ""
            fill = f' fill="{ink(at)}"' if at < len(groups) else ""
            position = f'x="{x:.1f}" y="{upper + (at + 0.5) * step:.1f}" dy=".35em" text-anchor="{anchor}"'
            body.append(f"<text {position}{heavy}{fill}>{escape(name)}</text>")
    wide = right + 24 + 8.2 * max(map(display_width, columns), default=0)
    high = upper + step * max(len(rows), len(columns)) + 16
    return svg_page(max(wide, 32 + 9.2 * display_width(title)), high, [*body, "</g>"], title or "Attention")


def row_svg(pictures: Sequence[str], *, title: str = "") -> str:
    """Several pictures in one row."""
    body, at, high = [], 0.0, 0.0
    for picture in pictures:
        head, _, inner = picture[picture.index("<svg") :].partition(">")
        wide, tall = (float(re.findall(f'{side}="([0-9.]+)"', head)[0]) for side in ("width", "height"))
        inner = re.sub("<title>.*?</title>", "", inner.strip(), count=1).removesuffix("</svg>")
        body.append(f'<g transform="translate({at:.0f} 0)">{inner}</g>')
        at, high = at + wide + 12, max(high, tall)
    return svg_page(max(1.0, at - 12), max(1.0, high), body, title or "Pictures")
