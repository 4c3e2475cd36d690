"""A walk for the terminal and as one HTML file: the same parts, with formulas and code on the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jumok.inside.figure import word
from jumok.inside.walk import Part, Vector, Walk
from jumok.reports.attention import heatmap_svg
from jumok.reports.drawing import display_width, fit
from jumok.reports.page import document, safe

STYLE = """
body{font-size:18px}section{margin:2.2rem 0;border-top:1px solid var(--line);padding-top:.6rem}
.vector{font:.92em/1.7 ui-monospace,'DejaVu Sans Mono',monospace;overflow-x:auto;white-space:pre}
.vector b{font-weight:600}.code{color:var(--soft);font-size:.9rem}.departs{background:var(--best);padding:.6rem 1rem;
border-radius:.4rem;max-width:46rem}math{font-size:1.15em;margin:.6rem 0}td:first-child{text-align:left}
figure{margin:1.2rem 0}figure svg{max-width:100%;height:auto}:lang(ko){word-break:keep-all}
"""


def to_lines(walk: Walk) -> list[str]:
    """A walk as lines of text."""
    lines = [f"{walk.text} → {walk.translation}" if walk.translation else walk.text]
    lines += [walk.lacks] if walk.lacks else []
    for number, part in enumerate(walk.parts, start=1):
        lines += ["", f"{number}. {part.heading}"]
        lines += [f"   {line}" for line in part.lines]
        lines += _align_vectors(part.vectors, walk.language)
        lines += _align_rows(part)
    departing = [one for one in walk.figure["types"].values() if one["departs"]]
    if departing:
        lines += ["", word("walk.departures", walk.language)]
        lines += [f"   {one['name']}: {one['departs']}" for one in departing]
    return lines


def steps_to_lines(view: Mapping[str, Any], language: str) -> list[str]:
    """Every step of decoding (views.steps) as a row: what went in, what came out, the likeliest tokens."""
    titles = [word(f"walk.step_{name}", language) for name in ("number", "in", "out", "top")]
    rows = [titles]
    for step in view["steps"]:
        top = "  ".join(f"{piece['text']} {piece['probability']:.3f}" for piece in step["pieces"])
        rows.append([str(step["at"] + 1), step["in"]["text"], step["out"]["text"], top])
    widths = [max(display_width(row[column]) for row in rows) for column in range(3)]
    return ["  ".join([*map(fit, row, widths), row[3]]) for row in rows]


def _write(vector: Vector) -> str:
    numbers = "  ".join(f"{number:+.3f}" for number in vector.numbers)
    return numbers


def _align_vectors(vectors: list[Vector], language: str) -> list[str]:
    width = max((display_width(vector.label) for vector in vectors), default=0)
    lines = []
    for vector in vectors:
        more = "" if vector.size <= len(vector.numbers) else "  " + word("walk.and_more", language, count=vector.size)
        lines.append(f"   {vector.label}{' ' * (width - display_width(vector.label))}  {_write(vector)}{more}")
    return lines


def _align_rows(part: Part) -> list[str]:
    if not part.rows:
        return []
    cells = [part.titles, *part.rows]
    widths = [max(display_width(row[column]) for row in cells) for column in range(len(part.titles))]
    lines = []
    for row in cells:
        padded = [
            " " * (width - display_width(cell)) + cell if column else cell + " " * (width - display_width(cell))
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("   " + "  ".join(padded).rstrip())
    return lines


def walk_page(walk: Walk) -> str:
    """A walk as one HTML file that needs nothing else; formulas are MathML."""
    language, types = walk.language, walk.figure["types"]
    body = [f"<h1>{safe(walk.text)}</h1>", f"<p>{safe(walk.translation)}</p>" if walk.translation else ""]
    body += [f"<p class='soft'>{safe(walk.lacks)}</p>"] if walk.lacks else []
    parameters = word("walk.parameters", language, count=walk.figure["parameters"])
    body.append(f"<p class='soft'>{safe(walk.figure['shape'])} · {safe(parameters)}</p>")
    explained = set[str]()
    for number, part in enumerate(walk.parts, start=1):
        body.append(f"<section><h2>{number}. {safe(part.heading)}</h2>")
        if part.type in types and part.type not in explained:
            explained.add(part.type)
            body.append(_explain(types[part.type], language))
        body += [f"<p>{safe(line)}</p>" for line in part.lines]
        body += _draw_vectors(part.vectors, language)
        body += [_draw_table(part)] if part.rows else []
        body += [_draw_map(walk)] if part.type == "weights" else []
        body.append("</section>")
    body.append(_list_departures(walk))
    title = word("walk.title", language, text=walk.text)
    return document(title, "".join(body), language=language, style=STYLE)


def _explain(kind: dict[str, Any], language: str) -> str:
    """What a block does: a sentence, its formula and its line of code."""
    parts = [f"<p>{safe(kind['says'])}</p>", str(kind["formula"])]
    if kind["code"]:
        code = kind["code"]
        where = f"{code['file']}:{code['line']}"
        parts.append(
            f"<p class='code'>{word('walk.code', language)} {safe(where)} <code>{safe(code['text'])}</code></p>"
        )
    if kind["departs"]:
        papers = word("walk.papers", language)
        parts.append(f"<div class='departs'>{safe(kind['departs'])}<p>{safe(papers)}</p>{kind['paper']}</div>")
    return "".join(parts)


def _draw_vectors(vectors: list[Vector], language: str) -> list[str]:
    lines = []
    for vector in vectors:
        more = "" if vector.size <= len(vector.numbers) else "  " + word("walk.and_more", language, count=vector.size)
        lines.append(f"<div class='vector'><b>{safe(vector.label)}</b>  {safe(_write(vector) + more)}</div>")
    return lines


def _draw_table(part: Part) -> str:
    head = "".join(f"<th>{safe(title)}</th>" for title in part.titles)
    rows = "".join(f"<tr>{''.join(f'<td>{safe(cell)}</td>' for cell in row)}</tr>" for row in part.rows)
    return f"<div class='wide'><table><tr>{head}</tr>{rows}</table></div>"


def _draw_map(walk: Walk) -> str:
    """All weights of the head, of which the walk explains one row."""
    title = word(f"walk.{walk.kind}", walk.language, layer=walk.layer + 1, head=walk.head + 1)
    svg = heatmap_svg(np.array(walk.weights), walk.row_labels, walk.column_labels, title=title)
    caption = word("walk.sums", walk.language)
    return f"<figure>{svg[svg.index('<svg') :]}<figcaption>{safe(caption)}</figcaption></figure>"


def _list_departures(walk: Walk) -> str:
    items = "".join(
        f"<li><b>{safe(one['name'])}</b>: {safe(one['departs'])}</li>"
        for one in walk.figure["types"].values()
        if one["departs"]
    )
    heading = word("walk.departures", walk.language)
    return f"<section><h2>{safe(heading)}</h2><ul>{items}</ul></section>" if items else ""


def to_json(walk: Walk) -> dict[str, Any]:
    """A walk as plain values: the numbers of its row in full."""
    return {
        "text": walk.text, "translation": walk.translation, "kind": walk.kind, "layer": walk.layer + 1,
        "head": walk.head + 1, "at": walk.at + 1, "rows": walk.row_labels, "columns": walk.column_labels,
        "lacks": walk.lacks, **walk.numbers,
        "parts": [
            {"heading": part.heading, "type": part.type, "lines": part.lines, "titles": part.titles,
             "rows": part.rows, "vectors": [vars(vector) for vector in part.vectors]}
            for part in walk.parts
        ],
    }  # fmt: skip
