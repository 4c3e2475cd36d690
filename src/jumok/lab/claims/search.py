"""A wider beam finds likelier translations and the length penalty longer ones; width helps only so far (6.1)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from jumok.evaluation.metrics import bleu
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab
from jumok.lab.looking import Aligned
from jumok.lab.wording import Words
from jumok.reports.attention import curves_svg
from jumok.reports.charts import beside_svg, field_svg
from jumok.translator import Translator

WORDS = Words.read("search")
SENTENCES = 300
PAPER_ALPHA = 0.6
SLACK = 1e-3  # of a log-probability: a beam that is wider may lose so little in the mean


def searched(model: Translator, phrases: Sequence[Aligned], beam: int, alpha: float) -> dict[str, Any]:
    """Translations found by one search: how good, how likely, how long."""
    both, right = model.vocabularies, [phrase.korean for phrase in phrases]
    sources = [both.source.encode(phrase.english) for phrase in phrases]
    began = time.perf_counter()
    found = [one[0] for one in model.engine.decode(sources, model.options(beam=beam, length_penalty=alpha))]
    seconds = time.perf_counter() - began
    said = both.target.decode_all([one.body for one in found])
    wanted = sum(len(ids) for ids in both.target.encode_all(right))
    return {
        "beam": beam,
        "alpha": alpha,
        "bleu": bleu(said, right, tokenize="auto").value,
        "likely": sum(one.log_probability for one in found) / len(found),
        "length": sum(len(one.body) for one in found) / wanted,
        "seconds": seconds,
        "said": said,
    }


def measure(
    lab: Lab, *, widths: Sequence[int] = (1, 2, 4, 8, 16), alphas: Sequence[float] = (0.0, 0.6, 1.0, 1.5)
) -> dict[str, Any]:
    """`widths` of the beam and `alphas` of the length penalty; the middle width is the one that is recommended."""
    model = lab.train("plain", {"training.steps": lab.steps(700)}).model
    phrases = lab.phrases(SENTENCES)
    grid = []
    for beam in widths:
        lab.stop.check()
        lab.say(f"beam {beam}")
        grid.append([searched(model, phrases, beam, alpha) for alpha in alphas])
    at = near(alphas)
    greedy, wide = (grid[row][at]["said"] for row in (0, len(widths) // 2))
    for one in (one for row in grid for one in row):
        del one["said"]
    changed = [row for row in range(len(phrases)) if greedy[row] != wide[row]]
    better = [row for row in changed if wide[row] == phrases[row].korean] or changed or [0]
    example = {"source": phrases[better[0]].english, "reference": phrases[better[0]].korean}
    return {
        "widths": list(widths),
        "alphas": list(alphas),
        "grid": grid,
        "sentences": len(phrases),
        "example": example | {"greedy": greedy[better[0]], "wide": wide[better[0]]},
    }


def near(alphas: Sequence[float]) -> int:
    """Where the paper's length penalty is, or the one nearest to it."""
    return min(range(len(alphas)), key=lambda place: abs(alphas[place] - PAPER_ALPHA))


def column(numbers: Numbers, key: str, place: int) -> list[float]:
    """A number by width, at one length penalty."""
    return [row[place][key] for row in numbers["grid"]]


def judge(numbers: Numbers) -> list[Check]:
    widths, alphas, middle = numbers["widths"], numbers["alphas"], len(numbers["widths"]) // 2
    likely = column(numbers, "likely", 0)
    lengths = [one["length"] for one in numbers["grid"][middle]]
    scores = column(numbers, "bleu", near(alphas))
    falls = max((before - after for before, after in pairwise(likely)), default=0.0)
    first, then = scores[middle] - scores[0], scores[-1] - scores[middle]
    shorter = max((before - after for before, after in pairwise(lengths)), default=0.0)
    told = {"beam": widths[middle], "last": widths[-1]}
    return [
        Check(
            WORDS("checks.likely", first=likely[0], last=likely[-1], width=widths[-1]),
            falls <= SLACK and likely[-1] > likely[0] + SLACK,
        ),
        Check(
            WORDS("checks.longer", low=alphas[0], high=alphas[-1], short=lengths[0], long=lengths[-1]),
            shorter <= 0.0 and lengths[-1] > lengths[0],
        ),
        Check(WORDS("checks.gain", **told, greedy=scores[0], wide=scores[middle]), first >= 0.3),
        Check(WORDS("checks.no_more", **told, more=then, first=first), first > 0 and then <= 0.25 * first),
    ]


def draw(numbers: Numbers, language: str) -> list[Picture]:
    def word(key: str, **values: Any) -> str:
        return WORDS(f"picture.{key}", **values).of(language)

    widths, alphas, grid = numbers["widths"], numbers["alphas"], numbers["grid"]
    rows = [word("beam", beam=width) for width in widths]
    columns = [word("alpha", alpha=alpha) for alpha in alphas]

    def field(key: str, scale: float, form: str) -> str:
        values = scale * np.array([[one[key] for one in row] for row in grid])
        return field_svg(values - values[0, 0], rows=rows, columns=columns, form=form, title=word(key))

    curves = {
        word("alpha", alpha=alpha): list(zip(map(float, widths), column(numbers, "likely", at), strict=True))
        for at, alpha in enumerate(alphas)
    }
    return [
        Picture(
            "search-fields",
            beside_svg([field("bleu", 1.0, "{:+.2f}"), field("length", 100.0, "{:+.2f}")]),
            WORDS("picture.fields", bleu=grid[0][0]["bleu"], length=grid[0][0]["length"]),
        ),
        Picture(
            "search-likely",
            curves_svg(curves, x=word("axis"), y=word("likely")),
            WORDS("picture.likelier", **numbers["example"]),
        ),
    ]


def tabulate(numbers: Numbers) -> Table:
    titles = [WORDS(f"table.{key}") for key in ("beam", "alpha", "bleu", "likely", "length", "seconds")]
    rows = [
        [
            str(one["beam"]), f"{one['alpha']:g}", f"{one['bleu']:.2f}", f"{one['likely']:.3f}",
            f"{one['length']:.3f}", f"{one['seconds']:.2f}",
        ]
        for row in numbers["grid"] for one in row
    ]  # fmt: skip
    return Table(titles, rows)


CLAIM = Claim(name="search", words=WORDS, measure=measure, judge=judge, draw=draw, tabulate=tabulate)
