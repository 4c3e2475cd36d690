"""What all pages of the course have in common: texts with numbers in them, tables, and a page of paper size A4."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from jumok.errors import UsageError
from jumok.lab.notes.numbers import read_value
from jumok.reports.page import document, safe

LANGUAGES = ("ko", "en")
EXTREMES = ("lowest", "highest")
KINDS = {
    "encoder": "인코더 셀프 어텐션|encoder self-attention",
    "decoder": "디코더 셀프 어텐션|decoder self-attention",
    "cross": "크로스 어텐션|cross-attention",
}
PLACE = re.compile(r"\{(\w+)((?:\[[^\]]*\])*)(?::([^{}]+))?\}")
BLANK = "?"  # a cell that begins with it is empty on the worksheet and filled in the key
STYLE = """
@page{size:A4;margin:13mm 15mm}
body{max-width:180mm;padding:1.2rem;font-size:10.5pt;line-height:1.42}:lang(ko){word-break:keep-all}
h1{font-size:16pt}h2{font-size:11.5pt;margin:.75rem 0 .2rem}p,li{max-width:none;margin:.15rem 0}
ol,ul{margin:.1rem 0;padding-left:1.3rem}
table{width:auto;margin:.25rem 0 .35rem}
th,td{padding:.12rem .4rem;border:1px solid var(--line);text-align:center;min-width:2em}
td.blank{background:var(--panel)}.tables{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem}
.caption{font-size:9.5pt;color:var(--soft);margin:.25rem 0 0}
.space{border:1px solid var(--line);padding:.2rem .4rem;font-size:9.5pt;color:var(--soft)}
.line{border-bottom:1px solid var(--soft);height:6.4mm}.name{float:right;font-size:9.5pt;color:var(--soft)}
.soft{font-size:9.5pt}summary{cursor:pointer}.right{font-weight:600}
@media print{:root{--ink:#000;--soft:#444;--line:#999;--paper:#fff;--panel:#fff}
body{padding:0;max-width:none}a{text-decoration:none}}
"""


def read_texts(name: str) -> dict[str, Any]:
    """A file of this room."""
    text = resources.files("jumok").joinpath(f"lab/course/{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def read_values(paths: Mapping[str, str], docs: Path) -> dict[str, Any]:
    """The values of some names, from the findings on disk."""
    return {name: find_value(path, docs) for name, path in paths.items()}


def find_value(path: str, docs: Path) -> Any:
    """What a path leads to; "lowest:" and "highest:" before it find the head without which BLEU is so."""
    first, _, rest = path.partition(":")
    if first not in EXTREMES:
        return read_value(path, docs)
    without, kind = read_value(rest, docs), rest.rpartition("/")[2]
    kinds = without if isinstance(without, Mapping) else {kind: without}
    return find_head(kinds, highest=first == "highest")


def find_head(kinds: Mapping[str, Sequence[Sequence[Mapping[str, float]]]], *, highest: bool) -> dict[str, Any]:
    """The head of all kinds, layers and places without which BLEU is lowest or highest, counted from 1."""
    heads: list[dict[str, Any]] = [
        {"bleu": one["bleu"], "kind": kind, "layer": layer, "head": head}
        for kind, layers in kinds.items()
        for layer, row in enumerate(layers, start=1)
        for head, one in enumerate(row, start=1)
    ]
    best = max(heads, key=lambda one: one["bleu"]) if highest else min(heads, key=lambda one: one["bleu"])
    names = {language: pick(KINDS[str(best["kind"])], language) for language in LANGUAGES}
    english = f"head {best['head']} of layer {best['layer']} ({names['en']})"
    return best | {"ko": f"{names['ko']} {best['layer']}층의 {best['head']}번 헤드", "en": english}


def fill(text: str, values: Mapping[str, Any]) -> str:
    """A text with its placeholders filled: {name}, {name[key][0]:.2f}.  Other braces stay."""

    def replace(match: re.Match[str]) -> str:
        name, keys, form = match.groups()
        value: Any = values
        for key in (name, *re.findall(r"\[([^\]]*)\]", keys)):
            try:
                value = value[int(key)] if isinstance(value, list) else value[key]
            except (KeyError, IndexError, ValueError, TypeError):
                raise UsageError("lab.bad_placeholder", place=match[0], text=text) from None
        return format(value, form or "")

    return PLACE.sub(replace, text)


def pick(text: str, language: str) -> str:
    """The side of "한국어|English" that is in a language; a text without "|" is the same in both."""
    korean, bar, english = text.partition("|")
    return english if bar and language == "en" else korean


def table(spec: Mapping[str, Any], values: Mapping[str, Any], docs: Path, language: str, *, key: bool) -> str:
    """A table as HTML; its blanks are filled in the key alone, and `wide` millimetres wide on the worksheet."""
    style = f" style='min-width:{spec['wide']}mm;height:7mm'" if "wide" in spec and not key else ""
    rows = cells_of(spec, values, docs, language)
    html = []
    for number, row in enumerate(rows):
        cells = []
        for place, cell in enumerate(row):
            blank = cell.startswith(BLANK)
            text = cell.removeprefix(BLANK) if key or not blank else ""
            tag = "th" if number == 0 or place == 0 else "td"
            cells.append(f"<{tag}{f' class=blank{style}' if blank else ''}>{safe(text) or '&nbsp;'}</{tag}>")
        html.append(f"<tr>{''.join(cells)}</tr>")
    caption = safe(fill(pick(spec["caption"], language), values))
    return f"<div><p class='caption'>{caption}</p><table>{''.join(html)}</table></div>"


def cells_of(spec: Mapping[str, Any], values: Mapping[str, Any], docs: Path, language: str) -> list[list[str]]:
    """The rows of a table, titles first: of a matrix in a finding, or as they are written."""
    if "cells" in spec:
        return [[fill(pick(cell, language), values) for cell in row] for row in spec["cells"]]
    matrix = read_value(spec["source"], docs)
    matrix = matrix if isinstance(matrix[0], list) else [matrix]
    mark = BLANK if spec.get("blank") else ""
    titles = ["", *(pick(name, language) for name in spec["columns"])]
    names = [pick(name, language) for name in spec["rows"]]
    body = [[name, *(mark + format(one, spec["form"]) for one in row)] for name, row in zip(names, matrix, strict=True)]
    return [titles, *body]


def items(texts: Sequence[str], tag: str = "ul") -> str:
    """A list as HTML."""
    return f"<{tag}>{''.join(f'<li>{mark_code(text)}</li>' for text in texts)}</{tag}>"


def mark_code(text: str) -> str:
    """Text with what stands between backticks as code."""
    parts = safe(text).split("`")
    return "".join(f"<code>{part}</code>" if place % 2 else part for place, part in enumerate(parts))


def paper(title: str, body: str, language: str) -> str:
    """One page."""
    return document(title, body, language=language, style=STYLE)
