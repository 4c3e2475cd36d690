"""Position encodings, within the lengths of training and beyond (section 3.5, table 3 row E)."""

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
from jumok.reports.charts import bars_svg, field_svg
from jumok.reports.curves import curves_svg
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
    """Unseen sentences of this many letters, with their reversals."""
    random = Random(f"positions/{length}/{seed}")
    drawn = [random.choices(phrasebook.ALPHABET, k=length) for _ in range(EACH)]
    return [Pair(" ".join(letters), " ".join(letters[::-1]), row) for row, letters in enumerate(drawn, 1)]


def share_in_place(output: str, wanted: str) -> float:
    """The share of letters in the right position."""
    letters, right = output.split(), wanted.split()
    return sum(a == b for a, b in zip(letters, right, strict=False)) / len(right)


def by_length(lab: Lab, model: Translator) -> dict[str, list[float]]:
    """For every length: the share of exact sentences, of letters in place, and the mean length of outputs."""
    numbers: dict[str, list[float]] = {"right": [], "letters": [], "said": []}
    for length in LENGTHS:
        lab.stop.check()
        pairs = sentences(length, lab.seed)
        outputs = [answer.text for answer in model.translate([pair.source for pair in pairs], beam=1, details=False)]
        numbers["right"].append(sum(text == pair.target for text, pair in zip(outputs, pairs, strict=True)) / EACH)
        numbers["letters"].append(
            sum(share_in_place(text, pair.target) for text, pair in zip(outputs, pairs, strict=True)) / EACH
        )
        numbers["said"].append(sum(len(text.split()) for text in outputs) / EACH)
    return numbers


def mean(values: Sequence[float], *, beyond: bool) -> float:
    """The mean over the lengths of training, or over longer ones."""
    chosen = [value for length, value in zip(LENGTHS, values, strict=True) if (length > LONGEST) is beyond]
    return sum(chosen) / len(chosen)


def train_kind(lab: Lab, kind: str) -> dict[str, Any]:
    changes = {"training.steps": lab.steps(500), "training.validations": 1}
    run = lab.train(f"reverse {kind}", lab.task("reverse", KINDS[kind] | changes))
    numbers = by_length(lab, run.model)
    parts = {
        f"{name}_{part}": mean(numbers[name], beyond=part == "beyond")
        for name in ("right", "letters")
        for part in ("within", "beyond")
    }
    return {"kind": kind, "loss": run.scores["loss"], **numbers, **parts}


def measure(lab: Lab, *, without: str = "none") -> dict[str, Any]:
    """`without`: the positions of the model that should have none."""
    lanes = {kind: train_kind(lab, without if kind == "none" else kind) for kind in KINDS}
    matrix = [[round(value, 3) for value in row] for row in sinusoid(0, 64, 64).tolist()]
    return {"lanes": lanes, "lengths": list(LENGTHS), "longest": LONGEST, "matrix": matrix}


def check(numbers: Numbers) -> list[Check]:
    lanes, longest = numbers["lanes"], numbers["longest"]
    none, sinusoids, learned, number = (lanes[kind] for kind in ("none", "sinusoidal", "learned", "appended"))

    def compare(key: str, holds: bool, lane: Numbers, part: str) -> Check:
        values = {"one": lane[f"right_{part}"], "sinusoidal": sinusoids[f"right_{part}"], "longest": longest}
        return Check(WORDS(f"checks.{key}", **values), holds)

    near = abs(learned["right_within"] - sinusoids["right_within"])
    carried = sinusoids["right_beyond"] >= 0.5 * sinusoids["right_within"] > 0
    return [
        compare("none", none["right_within"] <= 0.05 and sinusoids["right_within"] >= 0.9, none, "within"),
        compare("learned", near <= 0.05 and sinusoids["right_within"] >= 0.9, learned, "within"),
        compare("number", number["right_within"] <= sinusoids["right_within"] - 0.05, number, "within"),
        compare("outgrown", learned["right_beyond"] <= 0.1 * learned["right_within"], learned, "beyond"),
        compare("beyond", carried, sinusoids, "beyond"),
    ]


def draw(numbers: Numbers, language: str) -> list[Picture]:
    def word(name: str) -> str:
        return WORDS(f"picture.{name}").of(language)

    def curves(name: str) -> str:
        lines = {
            word(kind): [
                (length, 100 * value) for length, value in zip(numbers["lengths"], lane[name], strict=True)
            ]
            for kind, lane in numbers["lanes"].items()
        }  # fmt: skip
        return curves_svg(lines, x=word("length"), y=word(name))

    matrix = torch.tensor(numbers["matrix"]).T.numpy()  # a row for each dimension
    bars = {
        word(kind): {word(part): 100 * lane[f"letters_{part}"] for part in ("within", "beyond")}
        for kind, lane in numbers["lanes"].items()
    }
    return [
        Picture("positions-matrix", field_svg(matrix, x=word("place"), y=word("dimension")), WORDS("picture.matrix")),
        Picture("positions-right", curves("right"), WORDS("picture.curves", longest=numbers["longest"])),
        Picture("positions-letters", curves("letters"), WORDS("picture.places")),
        Picture("positions-bars", bars_svg(bars, x=word("letters"), form="{:.0f}"), WORDS("picture.bars")),
    ]


def tabulate(numbers: Numbers) -> Table:
    columns = ("right_within", "right_beyond", "letters_within", "letters_beyond")
    titles = [WORDS(f"table.{name}") for name in ("kind", "loss", *columns)]
    rows: list[list[str | Text]] = [
        [WORDS(f"picture.{kind}"), f"{lane['loss']:.3f}", *(f"{lane[name]:.0%}" for name in columns)]
        for kind, lane in numbers["lanes"].items()
    ]
    return Table(titles, rows)


CLAIM = Claim(name="positions", words=WORDS, measure=measure, check=check, draw=draw, tabulate=tabulate)
