"""Learning curves as SVG, and as one line of bars for the terminal."""

import math
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from jumok.errors import UsageError
from jumok.reports.drawing import FONT, GREY, PALETTE, display_width, escape, svg_page, ticks

Series = dict[str, list[tuple[float, float]]]  # points by the name of their line
BARS = "▁▂▃▄▅▆▇█"


def curves_svg(
    series: Series, *, x: str = "", y: str = "", title: str = "", log: bool = False, log_x: bool = False
) -> str:
    """Learning curves as a standalone SVG without background, legible on white and on black.

    Lines are labelled at their ends.  A value that is not finite (a loss that diverged) leaves a gap.  On `log` scales,
    where the slope of a line is an exponent, each mark is twice the one before; with `log_x` only across.
    """
    series = _rescale(series, log=log, log_x=log_x)
    if not series:
        raise UsageError("reports.no_curves")
    points = {k: [(float(a), float(b)) for a, b in v if _drawable(a, b)] for k, v in series.items()}
    flat = [point for each in points.values() for point in each] or [(0.0, 0.0), (1.0, 1.0)]
    across, up = zip(*flat, strict=True)
    x_ticks = (doubles if log or log_x else ticks)(min(across), max(across), 6)
    y_ticks = (doubles if log else ticks)(min(up), max(up), 6)

    def label(tick: float, doubling: bool = log) -> str:
        return f"{2**tick if doubling else tick:,.10g}" if not doubling or tick >= -3 else f"1/{2**-tick:,.0f}"

    left, upper, wide = 42.0 + 7.0 * max(len(label(tick)) for tick in y_ticks), 52.0 if title else 20.0, 620.0
    high = max(300.0, 18.0 * len(series))
    low_x, high_x = min(a for a, _ in flat), max(a for a, _ in flat)
    low_x, high_x = (low_x, high_x) if low_x < high_x else (x_ticks[0], x_ticks[-1])

    def locate(a: float, b: float) -> tuple[float, float]:
        across, up = (a - low_x) / (high_x - low_x), (b - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])
        return left + wide * across, upper + high * (1 - up)

    body = [f'<g font-family="{FONT}" font-size="12" fill="{GREY}" stroke-linejoin="round" stroke-linecap="round">']
    if title:
        body.append(f'<text x="{left}" y="26" font-size="16" font-weight="600">{escape(title)}</text>')
    for tick in y_ticks:
        h = locate(low_x, tick)[1]
        body.append(f'<path d="M{left} {h:.1f}h{wide}" stroke="{GREY}" stroke-opacity=".25" fill="none"/>')
        body.append(f'<text x="{left - 8}" y="{h:.1f}" dy=".35em" text-anchor="end">{label(tick)}</text>')
    for tick in (tick for tick in x_ticks if low_x <= tick <= high_x):
        place, words = f'x="{locate(tick, 0)[0]:.1f}" y="{upper + high + 20:.1f}"', label(tick, log or log_x)
        body.append(f'<text {place} text-anchor="middle">{words}</text>')
    body.append(f'<text x="{left + wide / 2}" y="{upper + high + 42:.1f}" text-anchor="middle">{escape(x)}</text>')
    rotation = f"translate(14 {upper + high / 2}) rotate(-90)"
    body.append(f'<text transform="{rotation}" text-anchor="middle">{escape(y)}</text>')
    ends = []
    for index, (name, values) in enumerate(series.items()):
        ink = PALETTE[index % len(PALETTE)]
        dash = ("", ' stroke-dasharray="7 5"', ' stroke-dasharray="2 5"')[index // len(PALETTE) % 3]
        for run in _runs([locate(a, b) if _drawable(a, b) else None for a, b in values]):
            if len(run) == 1:
                body.append(f'<circle cx="{run[0][0]:.1f}" cy="{run[0][1]:.1f}" r="3" fill="{ink}"/>')
            else:
                line = " ".join(f"{a:.1f},{b:.1f}" for a, b in run)
                body.append(f'<polyline points="{line}" fill="none" stroke="{ink}" stroke-width="2.2"{dash}/>')
        ends.append((locate(*points[name][-1])[1] if points[name] else upper + high, name, ink))
    for h, name, ink in _spread(sorted(ends), 17.0, upper + high):
        body.append(
            f'<text x="{left + wide + 10}" y="{h:.1f}" dy=".35em" font-weight="600" fill="{ink}">{escape(name)}</text>'
        )
    right = 24 + max(display_width(name) for name in series) * 7.8
    return svg_page(left + wide + right, upper + high + (56 if x else 34), [*body, "</g>"], title or "Curves")


def sparkline(values: Iterable[float], *, width: int = 40) -> str:
    """At most `width` bars ▁▂▃▄▅▆▇█ from the smallest to the largest value; values that are not finite are blank.

    With more values than bars, each bar is a mean of neighbours.
    """
    numbers = [float(value) for value in values]
    chunks = np.array_split(np.asarray(numbers), min(width, len(numbers))) if numbers and width > 0 else []
    finite = [chunk[np.isfinite(chunk)] for chunk in chunks]
    scale = max((float(np.abs(chunk).max()) for chunk in finite if chunk.size), default=1.0) or 1.0
    means = [float((chunk / scale).mean()) if chunk.size else math.nan for chunk in finite]
    low = min((mean for mean in means if mean == mean), default=0.0)
    span = max((mean for mean in means if mean == mean), default=0.0) - low or 1.0
    return "".join(BARS[min(7, int((mean - low) / span * 8))] if mean == mean else " " for mean in means)


def doubles(low: float, high: float, count: int) -> list[float]:
    """Whole exponents from below `low` to above `high`, about `count` of them."""
    first, last = math.floor(low), max(math.ceil(high), math.floor(low) + 1)
    step = max(1, round((last - first) / (1.6 * count)))
    return [float(tick) for tick in range(first, last + step, step)]


def _rescale(series: Series, *, log: bool, log_x: bool) -> Series:
    """The points with logarithms of what is drawn on a logarithmic scale; points that have none are left out."""
    if log:
        return {name: [(math.log2(a), math.log2(b)) for a, b in each if a > 0 < b] for name, each in series.items()}
    if log_x:
        return {name: [(math.log2(a), b) for a, b in each if a > 0] for name, each in series.items()}
    return series


def _drawable(x: float, y: float) -> bool:
    """Whether a point is finite, and small enough for sums to stay finite."""
    return abs(x) < 1e300 and abs(y) < 1e300


def _runs(points: Iterable[tuple[float, float] | None]) -> list[list[tuple[float, float]]]:
    """Runs of points between gaps."""
    runs: list[list[tuple[float, float]]] = [[]]
    for point in points:
        if point is None:
            runs.append([])
        else:
            runs[-1].append(point)
    return [run for run in runs if run]


def _spread(ends: list[tuple[float, str, str]], gap: float, bottom: float) -> list[tuple[float, str, str]]:
    """The labels moved apart by at least `gap`: downwards, then up again if the last is below the bottom."""
    heights = [end[0] for end in ends]
    for index, _ in enumerate(pairwise(heights), 1):
        heights[index] = max(heights[index], heights[index - 1] + gap)
    heights[-1] = min(heights[-1], bottom)
    for index in range(len(heights) - 2, -1, -1):
        heights[index] = min(heights[index], heights[index + 1] - gap)
    return [(height, name, ink) for height, (_, name, ink) in zip(heights, ends, strict=True)]
