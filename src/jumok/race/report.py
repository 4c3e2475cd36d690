"""A race as one self-contained page: scores, learning curves, cost, sample translations, attention maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jumok import messages
from jumok.reports.attention import heatmap_svg
from jumok.reports.curves import curves_svg
from jumok.reports.page import document, safe

Rows = Sequence[Mapping[str, Any]]


def page(figures: Mapping[str, Any]) -> str:
    """The report of a race."""
    rows, here = figures["contenders"], figures["machine"]
    names = ", ".join(row["name"] for row in rows)
    words = messages.text(
        "race.setup", names=names, budget=figures["budget"], processor=here["processor"], cores=here["cores"],
        pairs=figures["pairs"],
    )  # fmt: skip
    body = [f"<h1>{messages.text('race.title')}</h1><p class='soft'>{safe(words)}</p>"]
    body += [f"<h2>{messages.text('race.result')}</h2>", table(rows)]
    body += [f"<h2>{messages.text('race.learning')}</h2>", *learning_curves(rows)]
    body += [f"<h2>{messages.text('race.cost')}</h2>", *lengths(rows)]
    body += [f"<h2>{messages.text('race.says')}</h2>", samples(rows), *maps(rows)]
    return document(names, "".join(body), language=messages.spoken())


def columns() -> dict[str, tuple[Callable[[Mapping[str, Any]], float | None], str, int]]:
    """The columns by title: the value of a row, its format, and whether more (1) or less (-1) is better."""

    def sentences_per_second(beam: int) -> Callable[[Mapping[str, Any]], float]:
        return lambda row: float(row["translating"][f"beam {beam}"]["sentences_per_second"])

    return {
        messages.text("race.right"): (lambda row: row["scores"].get("accuracy"), "{:.1f}", 1),
        "BLEU": (lambda row: row["scores"]["bleu"]["value"], "{:.2f}", 1),
        "chrF": (lambda row: row["scores"]["chrf"]["value"], "{:.2f}", 1),
        messages.text("race.perplexity"): (lambda row: row["scores"]["perplexity"], "{:.2f}", -1),
        messages.text("race.parameters"): (lambda row: row["parameters"], "{:,.0f}", 0),
        messages.text("race.updates"): (lambda row: row["steps"], "{:,.0f}", 0),
        messages.text("race.training_speed"): (lambda row: row["training_tokens_per_second"], "{:,.0f}", 1),
        messages.text("race.memory"): (lambda row: row["memory"] and row["memory"] / 1e6, "{:,.0f}", -1),
        messages.text("race.greedy"): (sentences_per_second(1), "{:,.0f}", 1),
        messages.text("race.beam"): (sentences_per_second(5), "{:,.0f}", 1),
    }


def shown_columns(rows: Rows) -> dict[str, tuple[Callable[[Mapping[str, Any]], float | None], str, int]]:
    """The columns that have a value in at least one row."""
    return {title: column for title, column in columns().items() if any(column[0](row) is not None for row in rows)}


def cells(row: Mapping[str, Any], rows: Rows) -> dict[str, str]:
    """The formatted values of a contender, by title."""
    values = {title: (read(row), form) for title, (read, form, _) in shown_columns(rows).items()}
    return {title: "–" if value is None else form.format(value) for title, (value, form) in values.items()}


def table(rows: Rows) -> str:
    """The table of all contenders, with the best of each column marked."""
    titles = shown_columns(rows)
    best = {}
    for title, (read, _, sign) in titles.items():
        values = [value for row in rows if (value := read(row)) is not None]
        best[title] = max(values, key=lambda value: sign * value) if sign and values else None
    lines = [f"<tr><th>{messages.text('race.model')}</th>" + "".join(f"<th>{title}</th>" for title in titles) + "</tr>"]
    for row in rows:
        texts = cells(row, rows)
        marks = [" class='best'" if titles[title][0](row) == best[title] is not None else "" for title in titles]
        figures = "".join(f"<td{mark}>{texts[title]}</td>" for title, mark in zip(titles, marks, strict=True))
        lines.append(f"<tr><td title='{safe(row['shape'])}'>{safe(row['name'])}</td>{figures}</tr>")
    return f"<div class='wide'><table>{''.join(lines)}</table></div>"


def learning_curves(rows: Rows) -> list[str]:
    """BLEU (or accuracy) and loss against minutes and against tokens."""
    quality = "bleu" if any("bleu" in point for row in rows for point in row["curve"]) else "accuracy"
    words = {
        "bleu": messages.text("race.axis_bleu"), "accuracy": messages.text("race.axis_accuracy"),
        "loss": messages.text("race.axis_loss"),
    }  # fmt: skip
    axes = {"minutes": messages.text("race.axis_minutes"), "tokens": messages.text("race.axis_tokens")}
    pictures = []
    for score in (quality, "loss"):
        for axis, title in axes.items():
            scale = 1e-3 if axis == "tokens" else 1.0
            series = {
                row["name"]: [(scale * point[axis], point[score]) for point in row["curve"] if score in point]
                for row in rows
            }
            if any(series.values()):
                pictures.append(curves_svg(series, x=title, y=words[score]))
    return [f"<div class='pair'>{''.join(f'<div>{picture}</div>' for picture in pictures)}</div>"]


def lengths(rows: Rows) -> list[str]:
    """Time by length of the sentence on logarithmic scales, where a straight line is a power."""
    marks = {
        "training_us": messages.text("race.axis_training"),
        "translating_ms": messages.text("race.axis_translating"),
    }
    pictures = []
    for name, title in marks.items():
        series = {row["name"]: [(point["length"], point[name]) for point in row["growth"]] for row in rows}
        if any(series.values()):
            pictures.append(curves_svg(series, x=messages.text("race.axis_length"), y=title, log=True))
    return [f"<div class='pair'>{''.join(f'<div>{picture}</div>' for picture in pictures)}</div>"]


def samples(rows: Rows) -> str:
    """The same sentences translated by every contender, beam 5."""
    lines = []
    for number, sample in enumerate(rows[0]["samples"]):
        lines.append(f"<tr><td>{messages.text('race.source')}</td><td>{safe(sample['source'])}</td></tr>")
        lines.append(f"<tr><td>{messages.text('race.reference')}</td><td>{safe(sample['reference'])}</td></tr>")
        lines += [
            f"<tr><td>{safe(row['name'])}</td><td>{safe(row['samples'][number]['text'])}</td></tr>" for row in rows
        ]
        lines.append("<tr><td colspan='2'>&nbsp;</td></tr>")
    return f"<table class='said'>{''.join(lines)}</table>"


def maps(rows: Rows) -> list[str]:
    """The attention of each contender on one sentence: the mean of all layers and heads."""
    pictures = [
        f"<div>{heatmap_svg(np.array(view['weights']), view['target'], view['source'], title=row['name'])}</div>"
        for row in rows
        if (view := row["attention"]) is not None
    ]
    heading = f"<h2>{messages.text('race.looks')}</h2>"
    return [heading, f"<div class='pair'>{''.join(pictures)}</div>"] if pictures else []


def summary(figures: Mapping[str, Any]) -> list[str]:
    """The table in Markdown, for the terminal and for a log."""
    rows = figures["contenders"]
    titles = [messages.text("race.model"), *shown_columns(rows)]
    lines = [[row["name"], *cells(row, rows).values()] for row in rows]
    marks = ["---", *["---:"] * (len(titles) - 1)]
    return [f"| {' | '.join(titles)} |", f"|{'|'.join(marks)}|", *(f"| {' | '.join(line)} |" for line in lines)]
