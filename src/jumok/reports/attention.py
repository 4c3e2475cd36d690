"""Attention maps from plain data, as SVG, for the terminal and as one HTML file, which is made of the studio's parts.

Figures 3 to 5 of the paper are such pictures.  Nothing here depends on a model: weights are numpy arrays, pieces are
strings as SentencePiece writes them, and the results are strings.

Shapes   L layers · H heads · S source · T target · R rows (queries) · C columns (keys)
Promise  no NaN reaches a picture, and no text can become markup: pieces are untrusted everywhere
Not here the source of the weights (models/, engines/), writing files (cli/main.py), the studio (studio/).
"""

import base64
import hashlib
import html
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np

from jumok.errors import UnknownName, UsageError
from jumok.messages import Message
from jumok.reports.drawing import FONT, clean, display_width, escape, fit, svg_page, ticks

KINDS = ("encoder", "decoder", "cross")
LANGUAGES = ("en", "ko")
SPECIAL = {"<s>": "⟨start⟩", "</s>": "⟨end⟩", "<unk>": "⟨unknown⟩", "<pad>": "⟨padding⟩"}
SPECIAL |= {"<sep>": "⟨line⟩", "<cls>": "⟨class⟩", "<mask>": "⟨mask⟩"}
NARROWEST = 20  # columns of a terminal below which a map is refused
BLOCKS = " ░▒▓█"
RAMP_256 = (234, 235, 236, 23, 24, 30, 31, 37, 73, 79, 115, 151, 187, 230)  # xterm colours, each lighter than the last
RAMP = ((251, 251, 248), (207, 228, 233), (112, 180, 199), (32, 119, 153), (11, 52, 86))  # RGB, paper to ink


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
        """The pieces of the rows (queries) and of the columns (keys)."""
        rows = self.source if kind == "encoder" else self.target
        return rows, self.fed if kind == "decoder" else self.source

    def map(self, kind: str = "cross", *, layer: int | None = None, head: int | None = None) -> np.ndarray:
        """One map (R, C); None takes the mean over layers or heads.  Indices count from 0."""
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
    """One map for the terminal, at most `width` columns wide; colours span 0 to the largest weight.

    With colour, weights of at least 10 % are printed as percentages.  Without colour the text has no escape sequences
    and the shades are " ░▒▓█".  A sentence too long for the width is split into bands of columns.
    """
    if width < NARROWEST:
        raise UsageError("reports.too_narrow", width=width, least=NARROWEST)
    matrix = view.map(kind, layer=layer, head=head)  # (R, C)
    rows, columns = ([_plain(display_piece(piece)) for piece in pieces] for pieces in view.labels(kind))
    top = float(matrix.max()) or 1.0
    margin = min(max(map(display_width, rows)), 14, width // 3) + 1
    ramp = "".join(_cell(step / 4 * top, top, 2, color, number=False) for step in range(5))
    name = {"encoder": "Encoder self-attention", "decoder": "Decoder self-attention", "cross": "Cross-attention"}[kind]
    caption = f"{name} · {_which(view, kind, layer, head)}"
    legend = f"0 {ramp} {top:.2f}"  # 17 columns
    on_one_line = display_width(caption) + 20 <= width
    lines = [f"{caption}   {legend}"] if on_one_line else [fit(caption, width).rstrip(), legend]
    for band in _bands([display_width(label) for label in columns], width - margin):
        lines += ["", " " * margin + "".join(fit(columns[c], size - 1) + " " for c, size in band).rstrip()]
        for label, weights in zip(rows, matrix, strict=True):
            cells = "".join(_cell(float(weights[c]), top, size, color) for c, size in band)
            lines.append(fit(label, margin - 1) + " " + (cells if color else cells.rstrip()))
    return "\n".join(lines)


def attention_page(views: Iterable[AttentionView], *, title: str = "Attention", language: str = "en") -> str:
    """One self-contained HTML page to explore the attention of several sentences; works offline and from file://.

    The weights are embedded as JSON, in thousandths, flat in the order (L, H, R, C).  The page is a build of the
    studio's parts (`find_parts`); where that is missing, a simpler one that needs no build.
    """
    if language not in LANGUAGES:
        raise UnknownName("reports.unknown_language", language, LANGUAGES)
    data = {"title": clean(title), "language": language, "views": [_page_data(view) for view in views]}
    if not data["views"]:
        raise UsageError("reports.no_views")
    # Inside a script element only "<" can end the data; ">" and "&" are escaped so that nothing looks like markup.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    text = re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text)
    values = {"language": language, "title": html.escape(clean(title)), "data": text}
    parts = find_parts()
    if parts is not None:
        script, sheet = parts
        values |= {"script": script, "sheet": sheet, "policy": _allow(script, sheet)}
    name = "assets/attention.html" if parts is None else "assets/attention_studio.html"
    template = resources.files("jumok.reports").joinpath(name).read_text(encoding="utf-8")
    # In one pass, so that nothing inside a value is substituted.
    return re.sub(r"\{\{(language|title|data|script|sheet|policy)\}\}", lambda match: values[match[1]], template)


def find_parts() -> tuple[str, str] | None:
    """Return the script and the style sheet that tools/studio.py builds for the page; None where they are missing."""
    folder = resources.files("jumok") / "built"
    try:
        script, sheet = ((folder / f"attention.{kind}").read_text(encoding="utf-8") for kind in ("js", "css"))
    except OSError:
        return None
    return script.rstrip("\n"), sheet.rstrip("\n")


def _allow(script: str, sheet: str) -> str:
    """The policy of a page that runs this script, has this style and asks for nothing."""
    code, style = (
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in (script, sheet)
    )
    return (
        f"default-src 'none'; script-src {code}; style-src {style}; img-src data:; base-uri 'none'; form-action 'none'"
    )


def heatmap_svg(
    matrix: np.ndarray, rows: Sequence[str], columns: Sequence[str], *, title: str = "", most: float = 0.0
) -> str:
    """One attention map as a standalone SVG, dark on light, with a scale from 0 to a round number above the maximum.

    The scale goes at least to `most`, so that maps that stand side by side can share one.
    """
    weights = _check(np.asarray(matrix, dtype=np.float64), Message("reports.the_map"))
    if not weights.size or weights.shape != (len(rows), len(columns)):
        raise UsageError("reports.wrong_names", shape=weights.shape, rows=len(rows), columns=len(columns))
    row_labels, column_labels = (
        [display_piece(piece).strip() or "␣" for piece in pieces] for pieces in (rows, columns)
    )
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
    top = ticks(0, max(most, float(weights.max())) or 1.0, 4)[-1]
    paths: dict[str, list[str]] = {}
    for (r, c), weight in np.ndenumerate(weights):
        square = f"M{left + c * cell:.1f} {y0 + r * cell:.1f}h{cell:.1f}v{cell:.1f}h{-cell:.1f}z"
        paths.setdefault(_ink(round(weight / top * 48) / 48), []).append(square)
    body = [
        f'<rect width="100%" height="100%" fill="#fff"/><g font-family="{FONT}" font-size="{size:.1f}" fill="#22262b">'
    ]
    if title:
        body.append(f'<text x="{left:.1f}" y="28" font-size="16" font-weight="600">{escape(title)}</text>')
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
        body.append(f'<text x="{left - 7:.1f}" y="{y:.1f}" dy=".35em" text-anchor="end">{escape(label)}</text>')
    for c, label in enumerate(column_labels):
        transform = f"translate({left + (c + 0.5) * cell:.1f} {y0 - 6:.1f}) rotate(-{angle})"
        body.append(f'<text transform="{transform}" dy=".2em">{escape(label)}</text>')
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


def display_piece(piece: str) -> str:
    """A piece in readable form: "▁" is a space, "</s>" is ⟨end⟩, control characters are �.

    >>> display_piece("▁man"), display_piece("ing"), display_piece("</s>"), display_piece("▁")
    (' man', 'ing', '⟨end⟩', '␣')
    """
    return SPECIAL.get(piece) or ("␣" if piece == "▁" else clean(piece.replace("▁", " ")))


def _check(weights: np.ndarray, array: Message) -> np.ndarray:
    """The weights, clipped to 0..1; values that are not weights are refused, so that no NaN is drawn."""
    if weights.size and not (np.isfinite(weights).all() and weights.min() > -0.01 and weights.max() < 1.01):
        raise UsageError("reports.not_weights", array=array)
    clipped: np.ndarray = np.clip(weights, 0.0, 1.0)
    return clipped


def _plain(text: str) -> str:
    """`text` without invisible characters on whose width terminals disagree: joiners, selectors, directions."""
    return "".join(c for c in text if unicodedata.category(c) != "Cf" and not "\ufe00" <= c <= "\ufe0f")


def _sentence(pieces: Iterable[str]) -> str:
    return clean("".join(piece for piece in pieces if piece not in SPECIAL).replace("▁", " ").strip())


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


def _bands(needed: Sequence[int], width: int) -> list[list[tuple[int, int]]]:
    """Columns as (index, width) in as few bands as possible; labels are shortened to 5 before a second band is used."""
    sizes = [max(3, columns) + 1 for columns in needed]
    cap = next((cap for cap in range(14, 5, -1) if sum(min(size, cap) for size in sizes) <= width), 7)
    bands: list[list[tuple[int, int]]] = [[]]
    for index, size in enumerate(min(size, cap, width) for size in sizes):
        if bands[-1] and sum(taken for _, taken in bands[-1]) + size > width:
            bands.append([])
        bands[-1].append((index, size))
    return bands


def _page_data(view: AttentionView) -> dict[str, object]:
    maps = {}
    for kind in view.kinds:
        weights: np.ndarray = getattr(view, kind)
        thousandths = np.rint(weights.astype(np.float64) * 1000).astype(int).ravel().tolist()
        maps[kind] = {"layers": weights.shape[0], "heads": weights.shape[1], "weights": thousandths}
    pieces = {name: [display_piece(piece) for piece in getattr(view, name)] for name in ("source", "target", "fed")}
    text, translation = view.text or _sentence(view.source), view.translation or _sentence(view.target)
    return {"text": clean(text), "translation": clean(translation), **pieces, "maps": maps}


def _ink(level: float) -> str:
    """The colour of a level 0..1 between paper and ink."""
    position = max(0.0, min(1.0, level)) * (len(RAMP) - 1)
    low = min(int(position), len(RAMP) - 2)
    mixed = (round(a + (b - a) * (position - low)) for a, b in zip(RAMP[low], RAMP[low + 1], strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)
