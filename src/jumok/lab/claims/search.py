"""A wider beam finds likelier translations and the length penalty longer ones; gains end soon (section 6.1)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from jumok import messages
from jumok.evaluation.metrics import bleu
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab
from jumok.lab.looking import Aligned
from jumok.lab.standing import Standing
from jumok.lab.thresholds import Limits
from jumok.lab.wording import Words
from jumok.reports.charts import field_svg, row_svg
from jumok.reports.curves import curves_svg
from jumok.translator import Translator

WORDS, LIMITS = Words.read("search"), Limits.read("search")
SENTENCES = 300
PAPER_ALPHA = 0.6


def run_search(model: Translator, phrases: Sequence[Aligned], beam: int, alpha: float) -> dict[str, Any]:
    """The translations of one search: BLEU, log-probability, length."""
    both, right = model.vocabularies, [phrase.korean for phrase in phrases]
    sources = [both.source.encode(phrase.english) for phrase in phrases]
    began = time.perf_counter()
    hypotheses = [nbest[0] for nbest in model.engine.decode(sources, model.options(beam=beam, length_penalty=alpha))]
    seconds = time.perf_counter() - began
    outputs = both.target.decode_all([hypothesis.body for hypothesis in hypotheses])
    wanted = sum(len(ids) for ids in both.target.encode_all(right))
    return {
        "beam": beam,
        "alpha": alpha,
        "bleu": bleu(outputs, right, tokenize="auto").value,
        "likely": sum(hypothesis.log_probability for hypothesis in hypotheses) / len(hypotheses),
        "length": sum(len(hypothesis.body) for hypothesis in hypotheses) / wanted,
        "seconds": seconds,
        "said": outputs,
    }


def measure(
    lab: Lab, *, widths: Sequence[int] = (1, 2, 4, 8, 16), alphas: Sequence[float] = (0.0, 0.6, 1.0, 1.5)
) -> dict[str, Any]:
    """`widths` of the beam and `alphas` of the length penalty; the middle width is the recommended one."""
    model = lab.train("plain", {"training.steps": lab.steps(700)}).model
    phrases = lab.phrases(SENTENCES)
    grid = []
    for beam in widths:
        lab.stop.check()
        lab.say(messages.text("lab.searching", beam=beam))
        grid.append([run_search(model, phrases, beam, alpha) for alpha in alphas])
    at = near(alphas)
    greedy, wide = (grid[row][at]["said"] for row in (0, len(widths) // 2))
    for result in (result for row in grid for result in row):
        del result["said"]
    changed = [row for row in range(len(phrases)) if greedy[row] != wide[row]]
    better = [row for row in changed if wide[row] == phrases[row].korean] or changed or [0]
    example = {"source": phrases[better[0]].english, "reference": phrases[better[0]].korean}
    return {
        "widths": list(widths),
        "alphas": list(alphas),
        "grid": grid,
        "sentences": len(phrases),
        "graded": lab.grade(model, SENTENCES, beam=4),
        "example": example | {"greedy": greedy[better[0]], "wide": wide[better[0]]},
    }


def near(alphas: Sequence[float]) -> int:
    """The index of the paper's length penalty, or of the nearest one."""
    return min(range(len(alphas)), key=lambda index: abs(alphas[index] - PAPER_ALPHA))


def column(numbers: Numbers, key: str, index: int) -> list[float]:
    """A number for every width, at one length penalty."""
    return [row[index][key] for row in numbers["grid"]]


def gains(numbers: Numbers, index: int) -> tuple[float, float]:
    """The gain of the middle beam over greedy search at one length penalty, and of the widest over the middle."""
    scores = column(numbers, "bleu", index)
    middle = scores[len(scores) // 2]
    return middle - scores[0], scores[-1] - middle


def ends_soon(first: float, then: float) -> bool:
    """Whether there is a gain, and little after it."""
    return first >= LIMITS["gain"] and then <= LIMITS["no_more"] * first


def check(numbers: Numbers) -> list[Check]:
    widths, alphas, middle = numbers["widths"], numbers["alphas"], len(numbers["widths"]) // 2
    likely = column(numbers, "likely", 0)
    lengths = [result["length"] for result in numbers["grid"][middle]]
    falls = max((before - after for before, after in pairwise(likely)), default=0.0)
    shorter = max((before - after for before, after in pairwise(lengths)), default=0.0)
    beams, slack = {"beam": widths[middle], "last": widths[-1]}, LIMITS["slack"]
    checks = [
        Check(
            WORDS("checks.likely", first=likely[0], last=likely[-1], width=widths[-1]),
            falls <= slack and likely[-1] > likely[0] + slack, "likely",
        ),
        Check(
            WORDS("checks.longer", low=alphas[0], high=alphas[-1], short=lengths[0], long=lengths[-1]),
            shorter <= 0.0 and lengths[-1] > lengths[0], "longer",
        ),
    ]  # fmt: skip
    for index, alpha in enumerate(alphas):
        first, then = gains(numbers, index)
        part = "paper" if index == near(alphas) else "other"
        checks.append(
            Check(WORDS("checks.gain", alpha=alpha, first=first, more=then, **beams), ends_soon(first, then), part)
        )
    return checks


def stand(numbers: Numbers) -> Standing:
    graded = numbers.get("graded", {})
    return Standing("phrasebook", "bleu", graded.get("bleu"), 1, graded.get("interval"))


def draw(numbers: Numbers, language: str) -> list[Picture]:
    def word(key: str, **values: Any) -> str:
        return WORDS(f"picture.{key}", **values).of(language)

    widths, alphas, grid = numbers["widths"], numbers["alphas"], numbers["grid"]
    rows = [word("beam", beam=width) for width in widths]
    columns = [word("alpha", alpha=alpha) for alpha in alphas]

    def field(key: str, scale: float, form: str) -> str:
        values = scale * np.array([[result[key] for result in row] for row in grid])
        return field_svg(values - values[0, 0], rows=rows, columns=columns, form=form, title=word(key))

    curves = {
        word("alpha", alpha=alpha): list(zip(map(float, widths), column(numbers, "likely", at), strict=True))
        for at, alpha in enumerate(alphas)
    }
    return [
        Picture(
            "search-fields",
            row_svg([field("bleu", 1.0, "{:+.2f}"), field("length", 100.0, "{:+.2f}")]),
            WORDS("picture.fields", bleu=grid[0][0]["bleu"], length=grid[0][0]["length"]),
        ),
        Picture(
            "search-likely",
            curves_svg(curves, x=word("axis"), y=word("likely"), log_x=True),
            WORDS("picture.likelier"),
        ),
    ]


def show(numbers: Numbers) -> Table:
    """A sentence that the wider beam translates otherwise."""
    names = ("source", "reference", "greedy", "wide")
    return Table([WORDS(f"shown.{key}") for key in names], [[numbers["example"][key] for key in names]])


def tabulate(numbers: Numbers) -> Table:
    titles = [WORDS(f"table.{key}") for key in ("beam", "alpha", "bleu", "likely", "length", "seconds")]
    rows = [
        [
            str(result["beam"]), f"{result['alpha']:g}", f"{result['bleu']:.2f}", f"{result['likely']:.3f}",
            f"{result['length']:.3f}", f"{result['seconds']:.2f}",
        ]
        for row in numbers["grid"] for result in row
    ]  # fmt: skip
    return Table(titles, rows)


CLAIM = Claim(
    name="search",
    words=WORDS,
    measure=measure,
    check=check,
    stand=stand,
    draw=draw,
    tabulate=tabulate,
    show=show,
    version=2,
    understands=(1,),
)
