"""Shared parts of all drawings: colours, fonts, widths of text, round numbers for axes, the frame of an SVG file."""

import html
import math
import re
import unicodedata
from collections.abc import Sequence

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")  # Okabe & Ito, legible on white and black
FONT = "system-ui,'Noto Sans','Noto Sans KR','Noto Sans CJK KR','Apple SD Gothic Neo','Malgun Gothic',sans-serif"
GREY = "#747982"  # contrast of at least 4 to 1 with white and with #0d1117


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


def clean(text: str) -> str:
    """`text` without characters that XML, UTF-8 or terminals refuse: controls, lone surrogates, non-characters."""
    text = re.sub("[\t\n\r\u2028\u2029]", " ", unicodedata.normalize("NFC", text))
    return re.sub("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "�", text)


def escape(text: str) -> str:
    """Text for SVG, cleaned and with markup escaped."""
    return html.escape(clean(text))


def svg_page(width: float, height: float, body: Sequence[str], label: str) -> str:
    """A whole SVG file of this size; `label` is its title."""
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(label)}">'
    return "\n".join([head, f"<title>{escape(label)}</title>", *body, "</svg>"]) + "\n"


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
