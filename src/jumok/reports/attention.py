"""Attention and learning curves made visible: plain data to SVG, to the terminal and to one HTML file.

Figures 3 to 5 of the paper are such pictures.  Nothing here knows a model: weights come in as numpy arrays and
pieces as SentencePiece writes them, strings come out.

Shapes   L layers · H heads · S source · T target · R rows (who looks) · C columns (what is looked at)
Promise  no NaN reaches a picture, no sentence can break out of one: pieces are untrusted text everywhere
Not here where the weights come from (models/, engines/), writing files (cli/main.py), the studio (studio/).
"""

import html
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise

import numpy as np

from jumok.errors import UnknownName, UsageError
from jumok.messages import Message

KINDS = ("encoder", "decoder", "cross")
LANGUAGES = ("en", "ko")
SPECIAL = {"<s>": "⟨start⟩", "</s>": "⟨end⟩", "<unk>": "⟨unknown⟩", "<pad>": "⟨padding⟩"}
SPECIAL |= {"<sep>": "⟨line⟩", "<cls>": "⟨class⟩", "<mask>": "⟨mask⟩"}
NARROWEST = 20  # columns of a terminal below which a map is refused
BLOCKS = " ░▒▓█"
BARS = "▁▂▃▄▅▆▇█"
RAMP_256 = (234, 235, 236, 23, 24, 30, 31, 37, 73, 79, 115, 151, 187, 230)  # xterm colours, each lighter than the last
RAMP = ((251, 251, 248), (207, 228, 233), (112, 180, 199), (32, 119, 153), (11, 52, 86))  # RGB, paper to ink
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")  # Okabe & Ito, legible on white and black
FONT = "system-ui,'Noto Sans','Noto Sans KR','Noto Sans CJK KR','Apple SD Gothic Neo','Malgun Gothic',sans-serif"
GREY = "#747982"  # contrast of at least 4 to 1 with white and with #0d1117


@dataclass(frozen=True, eq=False)
class AttentionView:
    """Attention of one translated sentence as plain data.

    Row t of `decoder` and of `cross` is the step that produced target[t]; column j of `decoder` is fed[j].  A model
    without one of the three kinds (an RNN, a language model) passes an array with L = 0 for it.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    encoder: np.ndarray  # (L, H, S, S)
    decoder: np.ndarray  # (L, H, T, T)
    cross: np.ndarray  # (L, H, T, S)
    fed: tuple[str, ...] = ()
    text: str = ""
    translation: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "fed", tuple(self.fed) or ("<s>", *self.target)[: len(self.target)])
        for kind in KINDS:
            rows, columns = self.labels(kind)
            weights = np.asarray(getattr(self, kind), dtype=np.float32)
            if weights.ndim != 4 or (weights.size and weights.shape[2:] != (len(rows), len(columns))):
                raise UsageError(
                    "reports.wrong_shape", kind=kind, shape=weights.shape, rows=len(rows), columns=len(columns)
                )
            object.__setattr__(self, kind, _check(weights, Message("reports.attention", {"kind": kind})))
        if not self.kinds:
            raise UsageError("reports.no_attention")

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of attention this view has."""
        return tuple(kind for kind in KINDS if getattr(self, kind).size)

    def labels(self, kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The pieces of the rows (who looks) and of the columns (what is looked at)."""
        rows = self.source if kind == "encoder" else self.target
        return rows, self.fed if kind == "decoder" else self.source

    def map(self, kind: str = "cross", *, layer: int | None = None, head: int | None = None) -> np.ndarray:
        """One map (R, C); None takes the mean over layers or heads.  Indices are those of the arrays: 0 first."""
        if kind not in self.kinds:
            raise UnknownName("reports.unknown_kind", kind, self.kinds)
        weights: np.ndarray = getattr(self, kind)
        layers, heads = weights.shape[:2]
        if layer is not None and not -layers <= layer < layers:
            raise UsageError("reports.no_layer", index=layer, last=layers - 1)
        if head is not None and not -heads <= head < heads:
            raise UsageError("reports.no_head", index=head, last=heads - 1)
        for axis, index in enumerate((layer, head)):
            weights = weights if index is None else np.take(weights, [index], axis=axis)
        mean: np.ndarray = weights.mean(axis=(0, 1), dtype=np.float64)
        return mean


def terminal(
    view: AttentionView,
    kind: str = "cross",
    *,
    layer: int | None = None,
    head: int | None = None,
    width: int = 100,
    color: bool = True,
) -> str:
    """One map for the terminal, never wider than `width` columns; colours span 0 to the largest weight.

    With colour, weights of at least 10 % are printed as per cent.  Without it there is no escape sequence at all and
    the shades are " ░▒▓█".  A sentence too long for the width is cut into bands of columns, one below the other.
    """
    if width < NARROWEST:
        raise UsageError("reports.too_narrow", width=width, least=NARROWEST)
    matrix = view.map(kind, layer=layer, head=head)  # (R, C)
    rows, columns = ([_plain(shown(piece)) for piece in pieces] for pieces in view.labels(kind))
    top = float(matrix.max()) or 1.0
    margin = min(max(map(display_width, rows)), 14, width // 3) + 1
    ramp = "".join(_cell(step / 4 * top, top, 2, color, number=False) for step in range(5))
    name = {"encoder": "Encoder self-attention", "decoder": "Decoder self-attention", "cross": "Cross-attention"}[kind]
    caption = f"{name} · {_which(view, kind, layer, head)}"
    legend = f"0 {ramp} {top:.2f}"  # 17 columns
    room = display_width(caption) + 20 <= width
    lines = [f"{caption}   {legend}"] if room else [fit(caption, width).rstrip(), legend]
    for band in _bands([display_width(label) for label in columns], width - margin):
        lines += ["", " " * margin + "".join(fit(columns[c], size - 1) + " " for c, size in band).rstrip()]
        for label, weights in zip(rows, matrix, strict=True):
            cells = "".join(_cell(float(weights[c]), top, size, color) for c, size in band)
            lines.append(fit(label, margin - 1) + " " + (cells if color else cells.rstrip()))
    return "\n".join(lines)


def attention_page(views: Iterable[AttentionView], *, title: str = "Attention", language: str = "en") -> str:
    """One self-contained HTML page to explore the attention of several sentences; works offline and by file://.

    The weights are embedded as JSON, in thousandths, flat in the order (L, H, R, C).
    """
    if language not in LANGUAGES:
        raise UnknownName("reports.unknown_language", language, LANGUAGES)
    data = {"title": _clean(title), "language": language, "views": [_page_data(view) for view in views]}
    if not data["views"]:
        raise UsageError("reports.no_views")
    # Inside a script element only "<" can end the data; ">" and "&" are escaped so that nothing looks like markup.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    text = re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text)
    values = {"language": language, "title": html.escape(_clean(title)), "data": text}
    template = resources.files("jumok.reports").joinpath("assets/attention.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(language|title|data)\}\}", lambda match: values[match[1]], template)  # one pass: no recursion


def heatmap_svg(matrix: np.ndarray, rows: Sequence[str], columns: Sequence[str], *, title: str = "") -> str:
    """One attention map as a standalone SVG: ink on paper, a scale from 0 to a round number above the maximum."""
    weights = _check(np.asarray(matrix, dtype=np.float64), Message("reports.the_map"))
    if not weights.size or weights.shape != (len(rows), len(columns)):
        raise UsageError("reports.wrong_names", shape=weights.shape, rows=len(rows), columns=len(columns))
    row_labels, column_labels = ([shown(piece).strip() or "␣" for piece in pieces] for pieces in (rows, columns))
    cell = max(5.0, min(26.0, 900 / max(weights.shape)))
    size = max(5.0, min(13.0, cell * 0.85))
    longest_row, longest_column = (max(map(display_width, labels)) for labels in (row_labels, column_labels))
    left = 16 + longest_row * size * 0.6
    angle = 45 if cell > 20 else 90
    slant = longest_column * size * 0.6 * math.sin(math.radians(angle))
    y0 = 16 + (30 if title else 0) + slant + size
    wide, high = cell * len(columns), cell * len(rows)
    bar = left + wide + max(20.0, slant * math.cos(math.radians(angle)) * 1.42 - cell / 2 + 12)
    box = (max(bar + 52, left + display_width(title) * 9.2), y0 + max(high, 90) + 18)
    top = ticks(0, float(weights.max()) or 1.0, 4)[-1]
    paths: dict[str, list[str]] = {}
    for (r, c), weight in np.ndenumerate(weights):
        square = f"M{left + c * cell:.1f} {y0 + r * cell:.1f}h{cell:.1f}v{cell:.1f}h{-cell:.1f}z"
        paths.setdefault(_ink(round(weight / top * 48) / 48), []).append(square)
    body = [
        f'<rect width="100%" height="100%" fill="#fff"/><g font-family="{FONT}" font-size="{size:.1f}" fill="#22262b">'
    ]
    if title:
        body.append(f'<text x="{left:.1f}" y="28" font-size="16" font-weight="600">{escaped(title)}</text>')
    body += [
        '<g shape-rendering="crispEdges">',
        *(f'<path fill="{k}" d="{"".join(v)}"/>' for k, v in paths.items()),
        "</g>",
    ]
    body.append(
        f'<rect x="{left:.1f}" y="{y0:.1f}" width="{wide:.1f}" height="{high:.1f}" fill="none" stroke="#c3c8ce"/>'
    )
    for r, label in enumerate(row_labels):
        y = y0 + (r + 0.5) * cell
        body.append(f'<text x="{left - 7:.1f}" y="{y:.1f}" dy=".35em" text-anchor="end">{escaped(label)}</text>')
    for c, label in enumerate(column_labels):
        place = f"translate({left + (c + 0.5) * cell:.1f} {y0 - 6:.1f}) rotate(-{angle})"
        body.append(f'<text transform="{place}" dy=".2em">{escaped(label)}</text>')
    length = max(90.0, min(high, 260.0))
    for step in range(49):
        y = y0 + length * (1 - (step + 1) / 49)
        body.append(
            f'<rect x="{bar:.1f}" y="{y:.2f}" width="12" height="{length / 49 + 0.6:.2f}" fill="{_ink(step / 48)}"/>'
        )
    for tick in ticks(0, top, 4):
        y = y0 + length * (1 - tick / top)
        body.append(f'<text x="{bar + 18:.1f}" y="{y:.1f}" dy=".35em" font-size="11">{tick:g}</text>')
    return svg_page(*box, [*body, "</g>"], title or "Attention map")


def curves_svg(
    series: dict[str, list[tuple[float, float]]], *, x: str = "", y: str = "", title: str = "", log: bool = False
) -> str:
    """Learning curves as a standalone SVG without a background of its own: legible on white and on black.

    Lines are named at their ends.  A value that is not finite (a loss that diverged) leaves a gap.  On `log` scales,
    where a line's slope is an exponent, each mark is twice the one before it.
    """
    if log:
        series = {name: [(math.log2(a), math.log2(b)) for a, b in each if a > 0 < b] for name, each in series.items()}
    if not series:
        raise UsageError("reports.no_curves")
    points = {k: [(float(a), float(b)) for a, b in v if _drawable(a, b)] for k, v in series.items()}
    flat = [point for each in points.values() for point in each] or [(0.0, 0.0), (1.0, 1.0)]
    marks = doubles if log else ticks
    x_ticks, y_ticks = (marks(min(axis), max(axis), 6) for axis in zip(*flat, strict=True))

    def named(tick: float) -> str:
        return f"{2**tick if log else tick:,.10g}" if not log or tick >= -3 else f"1/{2**-tick:,.0f}"

    left, upper, wide = 42.0 + 7.0 * max(len(named(tick)) for tick in y_ticks), 52.0 if title else 20.0, 620.0
    high = max(300.0, 18.0 * len(series))
    low_x, high_x = min(a for a, _ in flat), max(a for a, _ in flat)
    low_x, high_x = (low_x, high_x) if low_x < high_x else (x_ticks[0], x_ticks[-1])

    def place(a: float, b: float) -> tuple[float, float]:
        across, up = (a - low_x) / (high_x - low_x), (b - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])
        return left + wide * across, upper + high * (1 - up)

    body = [f'<g font-family="{FONT}" font-size="12" fill="{GREY}" stroke-linejoin="round" stroke-linecap="round">']
    if title:
        body.append(f'<text x="{left}" y="26" font-size="16" font-weight="600">{escaped(title)}</text>')
    for tick in y_ticks:
        h = place(low_x, tick)[1]
        body.append(f'<path d="M{left} {h:.1f}h{wide}" stroke="{GREY}" stroke-opacity=".25" fill="none"/>')
        body.append(f'<text x="{left - 8}" y="{h:.1f}" dy=".35em" text-anchor="end">{named(tick)}</text>')
    for tick in (tick for tick in x_ticks if low_x <= tick <= high_x):
        body.append(
            f'<text x="{place(tick, 0)[0]:.1f}" y="{upper + high + 20:.1f}" text-anchor="middle">{named(tick)}</text>'
        )
    body.append(f'<text x="{left + wide / 2}" y="{upper + high + 42:.1f}" text-anchor="middle">{escaped(x)}</text>')
    turned = f"translate(14 {upper + high / 2}) rotate(-90)"
    body.append(f'<text transform="{turned}" text-anchor="middle">{escaped(y)}</text>')
    ends = []
    for index, (name, values) in enumerate(series.items()):
        ink = PALETTE[index % len(PALETTE)]
        dash = ("", ' stroke-dasharray="7 5"', ' stroke-dasharray="2 5"')[index // len(PALETTE) % 3]
        for run in _runs([place(a, b) if _drawable(a, b) else None for a, b in values]):
            if len(run) == 1:
                body.append(f'<circle cx="{run[0][0]:.1f}" cy="{run[0][1]:.1f}" r="3" fill="{ink}"/>')
            else:
                line = " ".join(f"{a:.1f},{b:.1f}" for a, b in run)
                body.append(f'<polyline points="{line}" fill="none" stroke="{ink}" stroke-width="2.2"{dash}/>')
        ends.append((place(*points[name][-1])[1] if points[name] else upper + high, name, ink))
    for h, name, ink in _spread(sorted(ends), 17.0, upper + high):
        body.append(
            f'<text x="{left + wide + 10}" y="{h:.1f}" dy=".35em" font-weight="600" fill="{ink}">{escaped(name)}</text>'
        )
    right = 24 + max(display_width(name) for name in series) * 7.8
    return svg_page(left + wide + right, upper + high + (56 if x else 34), [*body, "</g>"], title or "Curves")


def sparkline(values: Iterable[float], *, width: int = 40) -> str:
    """At most `width` bars ▁▂▃▄▅▆▇█ from the least to the greatest value; what is not finite is a blank.

    More values than bars: each bar is the mean of its share.
    """
    numbers = [float(value) for value in values]
    chunks = np.array_split(np.asarray(numbers), min(width, len(numbers))) if numbers and width > 0 else []
    finite = [chunk[np.isfinite(chunk)] for chunk in chunks]
    scale = max((float(np.abs(chunk).max()) for chunk in finite if chunk.size), default=1.0) or 1.0
    means = [float((chunk / scale).mean()) if chunk.size else math.nan for chunk in finite]
    low = min((mean for mean in means if mean == mean), default=0.0)
    span = max((mean for mean in means if mean == mean), default=0.0) - low or 1.0
    return "".join(BARS[min(7, int((mean - low) / span * 8))] if mean == mean else " " for mean in means)


def shown(piece: str) -> str:
    """A piece as people read it: "▁" is a space, "</s>" is ⟨end⟩, control characters are �.

    >>> shown("▁man"), shown("ing"), shown("</s>"), shown("▁")
    (' man', 'ing', '⟨end⟩', '␣')
    """
    return SPECIAL.get(piece) or ("␣" if piece == "▁" else _clean(piece.replace("▁", " ")))


def display_width(text: str) -> int:
    """Columns a terminal needs for `text`: two for a Korean syllable, none for a combining mark."""
    wide = (unicodedata.east_asian_width(c) in "WF" for c in text if unicodedata.category(c) not in ("Mn", "Me", "Cf"))
    return sum(2 if each else 1 for each in wide)


def fit(text: str, width: int) -> str:
    """`text` in exactly `width` columns: padded with spaces, or shortened with "…"."""
    if display_width(text) > width:
        while text and display_width(text) > width - 1:
            text = text[:-1]
        text = (text + "…")[: max(width, 0)]
    return text + " " * (width - display_width(text))


def _check(weights: np.ndarray, array: Message) -> np.ndarray:
    """The weights, clipped to 0..1; anything that is not a weight is refused, so that no NaN is ever drawn."""
    if weights.size and not (np.isfinite(weights).all() and weights.min() > -0.01 and weights.max() < 1.01):
        raise UsageError("reports.not_weights", array=array)
    clipped: np.ndarray = np.clip(weights, 0.0, 1.0)
    return clipped


def _clean(text: str) -> str:
    """`text` without what XML, UTF-8 or a terminal cannot bear: controls, lone surrogates, non-characters."""
    text = re.sub("[\t\n\r\u2028\u2029]", " ", unicodedata.normalize("NFC", text))
    return re.sub("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "�", text)


def _plain(text: str) -> str:
    """`text` without invisible characters whose width terminals disagree about: joiners, selectors, directions."""
    return "".join(c for c in text if unicodedata.category(c) != "Cf" and not "\ufe00" <= c <= "\ufe0f")


def _sentence(pieces: Iterable[str]) -> str:
    return _clean("".join(piece for piece in pieces if piece not in SPECIAL).replace("▁", " ").strip())


def _which(view: AttentionView, kind: str, layer: int | None, head: int | None) -> str:
    """The chosen layer and head in words, counted from 1."""
    layers, heads = getattr(view, kind).shape[:2]
    which = f"mean of {layers} layers" if layer is None else f"layer {layer % layers + 1}"
    return which + (f", mean of {heads} heads" if head is None else f", head {head % heads + 1}")


def _cell(weight: float, top: float, width: int, color: bool, *, number: bool = True) -> str:
    if not color:
        return BLOCKS[min(4, int(weight / top * 5))] * width
    level = min(len(RAMP_256) - 1, int(weight / top * len(RAMP_256)))
    label = f"{weight * 100:.0f}" if number and weight >= 0.1 else ""
    return f"\x1b[48;5;{RAMP_256[level]};38;5;{16 if level > 6 else 252}m{label:^{width}}\x1b[0m"


def _bands(widths: Sequence[int], room: int) -> list[list[tuple[int, int]]]:
    """Columns as (index, width) in as few bands as needed; labels shorten to 5 before there are two bands."""
    sizes = [max(3, width) + 1 for width in widths]
    cap = next((cap for cap in range(14, 5, -1) if sum(min(size, cap) for size in sizes) <= room), 7)
    bands: list[list[tuple[int, int]]] = [[]]
    for index, size in enumerate(min(size, cap, room) for size in sizes):
        if bands[-1] and sum(taken for _, taken in bands[-1]) + size > room:
            bands.append([])
        bands[-1].append((index, size))
    return bands


def _page_data(view: AttentionView) -> dict[str, object]:
    maps = {}
    for kind in view.kinds:
        weights: np.ndarray = getattr(view, kind)
        thousandths = np.rint(weights.astype(np.float64) * 1000).astype(int).ravel().tolist()
        maps[kind] = {"layers": weights.shape[0], "heads": weights.shape[1], "weights": thousandths}
    pieces = {name: [shown(piece) for piece in getattr(view, name)] for name in ("source", "target", "fed")}
    text, translation = view.text or _sentence(view.source), view.translation or _sentence(view.target)
    return {"text": _clean(text), "translation": _clean(translation), **pieces, "maps": maps}


def _ink(level: float) -> str:
    """The colour of a level 0..1 on the way from paper to ink."""
    place = max(0.0, min(1.0, level)) * (len(RAMP) - 1)
    low = min(int(place), len(RAMP) - 2)
    mixed = (round(a + (b - a) * (place - low)) for a, b in zip(RAMP[low], RAMP[low + 1], strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def ticks(low: float, high: float, count: int) -> list[float]:
    """About `count` round numbers whose first and last enclose low and high."""
    if high - low <= 1e-10 * max(abs(low), abs(high), 1e-280):
        pad = abs(low) / 2 if abs(low) > 1e-200 else 0.5
        low, high = low - pad, high + pad
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(nice for nice in (1, 2, 2.5, 5, 10) if nice * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


def doubles(low: float, high: float, count: int) -> list[float]:
    """Whole exponents from below `low` to above `high`, not many more than `count`."""
    first, last = math.floor(low), max(math.ceil(high), math.floor(low) + 1)
    step = max(1, round((last - first) / (1.6 * count)))
    return [float(tick) for tick in range(first, last + step, step)]


def _drawable(x: float, y: float) -> bool:
    """Finite, and far enough from the largest float for sums to be finite too."""
    return abs(x) < 1e300 and abs(y) < 1e300


def _runs(points: Iterable[tuple[float, float] | None]) -> list[list[tuple[float, float]]]:
    """The points between gaps."""
    runs: list[list[tuple[float, float]]] = [[]]
    for point in points:
        if point is None:
            runs.append([])
        else:
            runs[-1].append(point)
    return [run for run in runs if run]


def _spread(ends: list[tuple[float, str, str]], gap: float, bottom: float) -> list[tuple[float, str, str]]:
    """The labels moved apart by at least `gap`: down first, then the lot up again if the last fell off."""
    heights = [end[0] for end in ends]
    for index, _ in enumerate(pairwise(heights), 1):
        heights[index] = max(heights[index], heights[index - 1] + gap)
    heights[-1] = min(heights[-1], bottom)
    for index in range(len(heights) - 2, -1, -1):
        heights[index] = min(heights[index], heights[index + 1] - gap)
    return [(height, name, ink) for height, (_, name, ink) in zip(heights, ends, strict=True)]


def escaped(text: str) -> str:
    return html.escape(_clean(text))


def svg_page(width: float, height: float, body: Sequence[str], label: str) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escaped(label)}">'
    return "\n".join([head, f"<title>{escaped(label)}</title>", *body, "</svg>"]) + "\n"
