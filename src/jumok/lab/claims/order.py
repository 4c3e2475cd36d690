"""Without positions the encoder is a bag of words (section 3.5): shuffle a sentence and nothing changes."""

from __future__ import annotations

from random import Random
from typing import Any

import torch

from jumok.config.search import SearchOptions
from jumok.inside.edits import divide, flatten, shuffle
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab
from jumok.lab.standing import Standing
from jumok.lab.thresholds import Limits
from jumok.lab.wording import Text, Words
from jumok.models.base import END
from jumok.reports.charts import bars_svg
from jumok.translator import Translator

WORDS, LIMITS = Words.read("order"), Limits.read("order")
SENTENCES = 200
EXAMPLE = "He hits me with a pie."


@torch.no_grad()
def shift(model: Translator, sentence: str, seed: int) -> float:
    """The change of the encoder's vector of a token, in standard deviations, when the tokens are shuffled."""
    plain = [*model.vocabularies.source.encode(sentence), END]
    order = [*Random(seed).sample(range(len(plain) - 1), len(plain) - 1), len(plain) - 1]
    module = model.model.eval()
    before = module.encode(torch.tensor([plain]))[0][0]
    after = module.encode(torch.tensor([[plain[at] for at in order]]))[0][0]
    return float((after - before[order]).abs().mean() / before.std())


def translate_shuffled(model: Translator) -> dict[str, str]:
    """The sentence of the notes, its shuffled tokens, and the translations of both."""
    vocabulary = model.vocabularies.source
    ids = vocabulary.encode(EXAMPLE)
    mixed = shuffle(divide(ids, vocabulary.begins()), 1)
    before, after = model.vocabularies.target.decode_all(
        [hypotheses[0].body for hypotheses in model.engine.decode([ids, mixed], SearchOptions(beam=1))]
    )
    return {"source": EXAMPLE, "shuffled": vocabulary.decode(mixed), "before": before, "after": after}


def train_lane(lab: Lab, name: str, positions: str) -> dict[str, Any]:
    """Train a model; measure BLEU, the change of vectors, and the share of unchanged translations after shuffling."""
    run = lab.train(name, {"model.positions": positions, "training.steps": lab.steps(700)})
    model, pairs = run.model, lab.pairs(SENTENCES)
    vocabulary = model.vocabularies.source
    begins = vocabulary.begins()
    groups = [divide(vocabulary.encode(pair.source), begins) for pair in pairs]
    mixed = [shuffle(each, row) for row, each in enumerate(groups)]
    plain = [flatten(each) for each in groups]
    outputs, again = (
        model.vocabularies.target.decode_all(
            [hypotheses[0].body for hypotheses in model.engine.decode(ids, SearchOptions(beam=1))]
        )
        for ids in (plain, mixed)
    )
    examples = [
        {"source": pair.source, "shuffled": model.vocabularies.source.decode(ids), "before": before, "after": after}
        for pair, ids, before, after in list(zip(pairs, mixed, outputs, again, strict=True))[:3]
    ]
    return {
        "positions": positions,
        **lab.grade(model, SENTENCES),
        "moved": sum(shift(model, pair.source, row) for row, pair in enumerate(pairs[:50])) / 50,
        "example": shift(model, EXAMPLE, 1),
        "same": sum(map(str.__eq__, outputs, again)) / len(outputs),
        "shown": [translate_shuffled(model), *examples],
    }


def measure(lab: Lab, *, without: str = "none") -> dict[str, Any]:
    return {
        "without": train_lane(lab, f"positions {without}", without),
        "with": train_lane(lab, "positions sinusoidal", "sinusoidal"),
    }


def check(numbers: Numbers) -> list[Check]:
    without, sinusoids = numbers["without"], numbers["with"]
    few, far = sinusoids["same"] <= LIMITS["sinusoids_same"], sinusoids["moved"] > LIMITS["sinusoids_moved"]
    return [
        Check(WORDS("checks.same", **without), without["same"] >= LIMITS["same"]),
        Check(WORDS("checks.vectors", **without), without["moved"] < LIMITS["vectors"]),
        Check(WORDS("checks.sinusoids", **sinusoids), few and far),
    ]


def stand(numbers: Numbers) -> Standing:
    best = numbers["with"]
    return Standing("phrasebook", "bleu", best["bleu"], 1, best.get("interval"))


def draw(numbers: Numbers, language: str) -> list[Picture]:
    names = {"without": WORDS("picture.none"), "with": WORDS("picture.sinusoidal")}
    bars = {
        WORDS(f"picture.{key}").of(language): {
            name.of(language): 100 * numbers[which][key] for which, name in names.items()
        }
        for key in ("same", "moved")
    }
    return [Picture("order", bars_svg(bars, form="{:.1f}"), WORDS("picture.caption"))]


def show(numbers: Numbers) -> Table:
    """What both models make of sentences and of the same words in another order; the first is that of the notes."""
    titles = [WORDS(f"shown.{key}") for key in ("source", "without", "with")]
    rows: list[list[str | Text]] = []
    for bare, seeing in zip(numbers["without"]["shown"], numbers["with"]["shown"], strict=True):
        rows += [[bare["source"], bare["before"], seeing["before"]], [bare["shuffled"], bare["after"], seeing["after"]]]
    return Table(titles, rows)


def tabulate(numbers: Numbers) -> Table:
    titles = [WORDS("table.positions"), WORDS("table.same"), WORDS("table.moved"), Text("BLEU", "BLEU")]
    names = {kind: WORDS(f"picture.{kind}") for kind in ("none", "sinusoidal")}
    rows = [
        [
            names.get(lane["positions"], lane["positions"]),
            f"{lane['same']:.1%}",
            f"{lane['moved']:.2e}",
            f"{lane['bleu']:.1f}",
        ]
        for lane in (numbers["without"], numbers["with"])
    ]
    return Table(titles, rows)


CLAIM = Claim(
    name="order",
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
