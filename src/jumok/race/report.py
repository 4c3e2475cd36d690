"""A race as one page that needs nothing else: who learnt what in how long, what it costs, what they say and look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jumok.reports.attention import curves_svg, heatmap_svg
from jumok.reports.page import document, safe

Rows = Sequence[Mapping[str, Any]]


def page(figures: Mapping[str, Any]) -> str:
    """The report of a race."""
    rows, here = figures["contenders"], figures["machine"]
    names = ", ".join(row["name"] for row in rows)
    words = f"{names}: each {figures['budget']}, one after the other, on the same text with the same vocabulary. "
    words += f"{here['processor']}, {here['cores']} cores. Scores are those of {figures['pairs']:,} validation pairs."
    body = [f"<h1>Race</h1><p class='soft'>{safe(words)}</p>", "<h2>Result</h2>", table(rows)]
    body += ["<h2>Learning</h2>", *learning(rows), "<h2>Cost and length</h2>", *lengths(rows)]
    body += ["<h2>What they say</h2>", said(rows), *looks(rows)]
    return document(names, "".join(body))


def columns() -> dict[str, tuple[Callable[[Mapping[str, Any]], float | None], str, int]]:
    """Of the table: title, where its figure is, how it is written, and whether more (1) or less (-1) is better."""

    def translating(beam: int) -> Callable[[Mapping[str, Any]], float]:
        return lambda row: float(row["translating"][f"beam {beam}"]["sentences_per_second"])

    return {
        "right %": (lambda row: row["scores"].get("accuracy"), "{:.1f}", 1),
        "BLEU": (lambda row: row["scores"]["bleu"]["value"], "{:.2f}", 1),
        "chrF": (lambda row: row["scores"]["chrf"]["value"], "{:.2f}", 1),
        "perplexity": (lambda row: row["scores"]["perplexity"], "{:.2f}", -1),
        "parameters": (lambda row: row["parameters"], "{:,.0f}", 0),
        "updates": (lambda row: row["steps"], "{:,.0f}", 0),
        "tokens/s, training": (lambda row: row["training_tokens_per_second"], "{:,.0f}", 1),
        "memory MB": (lambda row: row["memory"] and row["memory"] / 1e6, "{:,.0f}", -1),
        "sentences/s, greedy": (translating(1), "{:,.0f}", 1),
        "sentences/s, beam 5": (translating(5), "{:,.0f}", 1),
    }


def told(rows: Rows) -> dict[str, tuple[Callable[[Mapping[str, Any]], float | None], str, int]]:
    """The columns in which there is something to tell."""
    return {title: one for title, one in columns().items() if any(one[0](row) is not None for row in rows)}


def cells(row: Mapping[str, Any], rows: Rows) -> dict[str, str]:
    """A contender's figures in words, by title."""
    found = {title: (read(row), form) for title, (read, form, _) in told(rows).items()}
    return {title: "–" if value is None else form.format(value) for title, (value, form) in found.items()}


def table(rows: Rows) -> str:
    """Everybody's figures, the best of each column marked."""
    titles = told(rows)
    best = {}
    for title, (read, _, sign) in titles.items():
        values = [value for row in rows if (value := read(row)) is not None]
        best[title] = max(values, key=lambda value: sign * value) if sign and values else None
    lines = ["<tr><th>model</th>" + "".join(f"<th>{title}</th>" for title in titles) + "</tr>"]
    for row in rows:
        shown = cells(row, rows)
        marks = [" class='best'" if titles[title][0](row) == best[title] is not None else "" for title in titles]
        figures = "".join(f"<td{mark}>{shown[title]}</td>" for title, mark in zip(titles, marks, strict=True))
        lines.append(f"<tr><td title='{safe(row['shape'])}'>{safe(row['name'])}</td>{figures}</tr>")
    return f"<div class='wide'><table>{''.join(lines)}</table></div>"


def learning(rows: Rows) -> list[str]:
    """BLEU (or right answers) and loss against the clock and against tokens."""
    quality = "bleu" if any("bleu" in point for row in rows for point in row["curve"]) else "accuracy"
    words = {"bleu": "BLEU, greedy", "accuracy": "right answers, %", "loss": "validation loss"}
    pictures = []
    for score in (quality, "loss"):
        for axis, title in (("minutes", "minutes"), ("tokens", "target tokens (thousands)")):
            scale = 1e-3 if axis == "tokens" else 1.0
            series = {
                row["name"]: [(scale * point[axis], point[score]) for point in row["curve"] if score in point]
                for row in rows
            }
            if any(series.values()):
                pictures.append(curves_svg(series, x=title, y=words[score]))
    return [f"<div class='pair'>{''.join(f'<div>{one}</div>' for one in pictures)}</div>"]


def lengths(rows: Rows) -> list[str]:
    """How time grows with the length of a sentence, on scales where a straight line is a power."""
    marks = {"training_us": "training: µs a target token", "translating_ms": "translating: ms a token, four sentences"}
    pictures = []
    for name, title in marks.items():
        series = {row["name"]: [(point["length"], point[name]) for point in row["growth"]] for row in rows}
        if any(series.values()):
            pictures.append(curves_svg(series, x="tokens of source and of target", y=title, log=True))
    return [f"<div class='pair'>{''.join(f'<div>{one}</div>' for one in pictures)}</div>"]


def said(rows: Rows) -> str:
    """The same sentences by everybody, beam 5."""
    lines = []
    for number, sample in enumerate(rows[0]["samples"]):
        lines.append(f"<tr><td>source</td><td>{safe(sample['source'])}</td></tr>")
        lines.append(f"<tr><td>reference</td><td>{safe(sample['reference'])}</td></tr>")
        lines += [
            f"<tr><td>{safe(row['name'])}</td><td>{safe(row['samples'][number]['text'])}</td></tr>" for row in rows
        ]
        lines.append("<tr><td colspan='2'>&nbsp;</td></tr>")
    return f"<table class='said'>{''.join(lines)}</table>"


def looks(rows: Rows) -> list[str]:
    """What each looks at while it translates one sentence: the mean of all layers and heads."""
    pictures = [
        f"<div>{heatmap_svg(np.array(one['weights']), one['target'], one['source'], title=row['name'])}</div>"
        for row in rows
        if (one := row["attention"]) is not None
    ]
    return ["<h2>What they look at</h2>", f"<div class='pair'>{''.join(pictures)}</div>"] if pictures else []


def summary(figures: Mapping[str, Any]) -> list[str]:
    """The table as text, for a terminal and for a diary: Markdown."""
    rows = figures["contenders"]
    titles = ["model", *told(rows)]
    lines = [[row["name"], *cells(row, rows).values()] for row in rows]
    marks = ["---", *["---:"] * (len(titles) - 1)]
    return [f"| {' | '.join(titles)} |", f"|{'|'.join(marks)}|", *(f"| {' | '.join(line)} |" for line in lines)]
