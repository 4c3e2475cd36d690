"""Ways of telling positions, within the lengths of training and beyond them (section 3.5, table 3 row E)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import torch

from jumok.data.corpora import Pair
from jumok.data.made import phrasebook
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab
from jumok.lab.wording import Text, Words
from jumok.nn.positions import sinusoid
from jumok.reports.attention import curves_svg
from jumok.reports.charts import bars_svg, field_svg
from jumok.translator import Translator

WORDS = Words.read("positions")
LENGTHS = tuple(range(4, 17))  # letters; training has 4 to 10 of them
LONGEST = 10
EACH = 60  # sentences of each length
KINDS: dict[str, dict[str, str]] = {
    "sinusoidal": {"model.positions": "sinusoidal"},
    "concatenated": {"model.positions": "sinusoidal", "model.join": "concatenate"},
    "learned": {"model.positions": "learned"},
    "rotary": {"model.positions": "rotary"},
    "appended": {"model.positions": "appended", "model.join": "concatenate"},
    "none": {"model.positions": "none"},
}


def sentences(length: int, seed: int) -> list[Pair]:
    """Letters to reverse, so many in each sentence; no run has seen them."""
    random = Random(f"positions/{length}/{seed}")
    drawn = [random.choices(phrasebook.ALPHABET, k=length) for _ in range(EACH)]
    return [Pair(" ".join(letters), " ".join(letters[::-1]), row) for row, letters in enumerate(drawn, 1)]


def placed(said: str, wanted: str) -> float:
    """The share of letters that stand where they should."""
    letters, right = said.split(), wanted.split()
    return sum(a == b for a, b in zip(letters, right, strict=False)) / len(right)


def by_length(lab: Lab, model: Translator) -> dict[str, list[float]]:
    """For every length: sentences that come out exactly right, letters in their place, and length of the answer."""
    found: dict[str, list[float]] = {"right": [], "letters": [], "said": []}
    for length in LENGTHS:
        lab.stop.check()
        pairs = sentences(length, lab.seed)
        said = [one.text for one in model.translate([pair.source for pair in pairs], beam=1, details=False)]
        found["right"].append(sum(text == pair.target for text, pair in zip(said, pairs, strict=True)) / EACH)
        found["letters"].append(sum(placed(text, pair.target) for text, pair in zip(said, pairs, strict=True)) / EACH)
        found["said"].append(sum(len(text.split()) for text in said) / EACH)
    return found


def mean(values: Sequence[float], *, beyond: bool) -> float:
    """Over the lengths of training, or over those beyond them."""
    chosen = [value for length, value in zip(LENGTHS, values, strict=True) if (length > LONGEST) is beyond]
    return sum(chosen) / len(chosen)


def tried(lab: Lab, kind: str) -> dict[str, Any]:
    changes = {"training.steps": lab.steps(500), "training.validations": 1}
    run = lab.train(f"reverse {kind}", lab.task("reverse", KINDS[kind] | changes))
    found = by_length(lab, run.model)
    parts = {
        f"{name}_{part}": mean(found[name], beyond=part == "beyond")
        for name in ("right", "letters")
        for part in ("within", "beyond")
    }
    return {"kind": kind, "loss": run.scores["loss"], **found, **parts}


def measure(lab: Lab, *, without: str = "none") -> dict[str, Any]:
    """`without`: what the model has that is said to have no positions."""
    lanes = {kind: tried(lab, without if kind == "none" else kind) for kind in KINDS}
    matrix = [[round(value, 3) for value in row] for row in sinusoid(0, 64, 64).tolist()]
    return {"lanes": lanes, "lengths": list(LENGTHS), "longest": LONGEST, "matrix": matrix}


def judge(numbers: Numbers) -> list[Check]:
    lanes, longest = numbers["lanes"], numbers["longest"]
    none, sinusoids, learned, number = (lanes[kind] for kind in ("none", "sinusoidal", "learned", "appended"))

    def told(key: str, holds: bool, one: Numbers, part: str) -> Check:
        values = {"one": one[f"right_{part}"], "sinusoidal": sinusoids[f"right_{part}"], "longest": longest}
        return Check(WORDS(f"checks.{key}", **values), holds)

    near = abs(learned["right_within"] - sinusoids["right_within"])
    carried = sinusoids["right_beyond"] >= 0.5 * sinusoids["right_within"] > 0
    return [
        told("none", none["right_within"] <= 0.05 and sinusoids["right_within"] >= 0.9, none, "within"),
        told("learned", near <= 0.05 and sinusoids["right_within"] >= 0.9, learned, "within"),
        told("number", number["right_within"] <= sinusoids["right_within"] - 0.05, number, "within"),
        told("outgrown", learned["right_beyond"] <= 0.1 * learned["right_within"], learned, "beyond"),
        told("beyond", carried, sinusoids, "beyond"),
    ]


def draw(numbers: Numbers, language: str) -> list[Picture]:
    def said(name: str) -> str:
        return WORDS(f"picture.{name}").of(language)

    def curves(name: str) -> str:
        lines = {
            said(kind): [
                (length, 100 * value) for length, value in zip(numbers["lengths"], one[name], strict=True)
            ]
            for kind, one in numbers["lanes"].items()
        }  # fmt: skip
        return curves_svg(lines, x=said("length"), y=said(name))

    matrix = torch.tensor(numbers["matrix"]).T.numpy()  # a row for each dimension
    bars = {
        said(kind): {said(part): 100 * one[f"letters_{part}"] for part in ("within", "beyond")}
        for kind, one in numbers["lanes"].items()
    }
    return [
        Picture("positions-matrix", field_svg(matrix, x=said("place"), y=said("dimension")), WORDS("picture.matrix")),
        Picture("positions-right", curves("right"), WORDS("picture.curves", longest=numbers["longest"])),
        Picture("positions-letters", curves("letters"), WORDS("picture.places")),
        Picture("positions-bars", bars_svg(bars, x=said("letters"), form="{:.0f}"), WORDS("picture.bars")),
    ]


def tabulate(numbers: Numbers) -> Table:
    columns = ("right_within", "right_beyond", "letters_within", "letters_beyond")
    titles = [WORDS(f"table.{name}") for name in ("kind", "loss", *columns)]
    rows: list[list[str | Text]] = [
        [WORDS(f"picture.{kind}"), f"{one['loss']:.3f}", *(f"{one[name]:.0%}" for name in columns)]
        for kind, one in numbers["lanes"].items()
    ]
    return Table(titles, rows)


CLAIM = Claim(name="positions", words=WORDS, measure=measure, judge=judge, draw=draw, tabulate=tabulate)
