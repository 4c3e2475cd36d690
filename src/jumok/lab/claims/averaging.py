"""The mean of the last checkpoints is better than the last one (section 6.1) while the learning rate is high."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

from torch import Tensor

from jumok.data.corpora import Pair
from jumok.evaluation.evaluate import evaluate, perplexity_of
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab, grade_outputs
from jumok.lab.standing import Standing
from jumok.lab.thresholds import Limits
from jumok.lab.wording import Text, Words
from jumok.reports.charts import bars_svg
from jumok.reports.curves import curves_svg
from jumok.storage.bundle import WEIGHTS
from jumok.storage.checkpoint import RunFolder, average, set_weights, weights
from jumok.translator import Translator

WORDS, LIMITS = Words.read("averaging"), Limits.read("averaging")
SENTENCES = 300
SAVED, PAPER = 8, 5  # checkpoints that are saved; the paper averages five
COUNTS = (1, 2, 3, 5, 8)
ALONG = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)  # 0: the last checkpoint, 1: the mean of five
Weights = Mapping[str, Tensor]


def combine_checkpoints(checkpoints: Sequence[Weights], count: int, combine: str) -> Weights:
    """The mean of the newest `count` checkpoints (newest first), or of as many copies of the last one."""
    chosen = checkpoints[:count] if combine == "mean" else [checkpoints[0]] * count
    return average(chosen)


def score_weights(model: Translator, tensors: Weights, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Loss and BLEU (greedy) on these pairs with these weights."""
    set_weights(model.model, tensors)
    return {
        "loss": log(perplexity_of(model, pairs)),
        **grade_outputs(evaluate(model, pairs=pairs, beam=1).hypotheses, [pair.target for pair in pairs]),
    }


def loss(model: Translator, tensors: Weights, pairs: Sequence[Pair]) -> float:
    """The loss on these pairs with these weights."""
    set_weights(model.model, tensors)
    scores = model.score([pair.source for pair in pairs], [pair.target for pair in pairs])
    return -sum(score.log_probability for score in scores) / sum(len(score.tokens) for score in scores)


def measure(lab: Lab, *, combine: str = "mean") -> dict[str, Any]:
    """`combine`: "mean" of the last checkpoints, or "last", which averages copies of the last one."""
    changes = {
        "training.schedule": "constant",
        "training.warmup": 50,
        "training.steps": lab.steps(700),
        "training.validations": 20,
        "training.valid_pairs": 20,
        "training.average": SAVED,
    }
    run = lab.train("constant rate", changes)
    model, pairs = run.model, lab.pairs(SENTENCES)
    folders = RunFolder(run.folder).last(SAVED, due=True)
    expected = weights(model.model)
    checkpoints = [folder.tensors(WEIGHTS, expected) for folder in folders]
    singles = [
        score_weights(model, checkpoint, pairs) | {"step": folder.step}
        for checkpoint, folder in zip(checkpoints, folders, strict=True)
    ]
    means = []
    for count in COUNTS:
        lab.stop.check()
        if count <= len(checkpoints):
            means.append(
                {"count": count, **score_weights(model, combine_checkpoints(checkpoints, count, combine), pairs)}
            )
    centre = combine_checkpoints(checkpoints, min(PAPER, len(checkpoints)), combine)
    valley = [[share, loss(model, interpolate(checkpoints[0], centre, share), pairs)] for share in ALONG]
    return {"combine": combine, "singles": singles[::-1], "means": means, "valley": valley}


def interpolate(first: Weights, second: Weights, share: float) -> Weights:
    """Weights at this share of the distance from the first to the second."""
    return {name: value.lerp(second[name], share) for name, value in first.items()}


def of_five(numbers: Numbers) -> Numbers:
    """The mean of five checkpoints, as in the paper, or of the largest number below that was measured."""
    largest: Numbers = [mean for mean in numbers["means"] if mean["count"] <= PAPER][-1]
    return largest


def check(numbers: Numbers) -> list[Check]:
    last, mean = numbers["singles"][-1], of_five(numbers)
    five = numbers["singles"][-mean["count"] :]
    best = min(single["loss"] for single in five)
    losses = {"count": mean["count"], "last": last["loss"], "mean": mean["loss"], "best": best}
    scores = {"count": mean["count"], "last": last["bleu"], "mean": mean["bleu"]}
    return [
        Check(WORDS("checks.loss", **losses), mean["loss"] < min(best, LIMITS["loss"] * last["loss"])),
        Check(WORDS("checks.bleu", **scores), mean["bleu"] > last["bleu"] + LIMITS["bleu"]),
    ]


def stand(numbers: Numbers) -> Standing:
    best = max((*numbers["singles"], *numbers["means"]), key=lambda each: float(each["bleu"]))
    return Standing("phrasebook", "bleu", best["bleu"], 1, best.get("interval"))


def draw(numbers: Numbers, language: str) -> list[Picture]:
    def word(key: str, **values: Any) -> str:
        return WORDS(f"picture.{key}", **values).of(language)

    singles = [(row["step"], row["loss"]) for row in numbers["singles"]]
    first, last = singles[0][0], singles[-1][0]
    level = of_five(numbers)
    mean = [(first, level["loss"]), (last, level["loss"])]
    curves = {word("single"): singles, word("mean", count=level["count"]): mean}
    bars = {word("mean", count=row["count"]): {"BLEU": row["bleu"]} for row in numbers["means"]}
    valley = {word("valley"): [tuple(point) for point in numbers["valley"]]}
    return [
        Picture("averaging-loss", curves_svg(curves, x=word("updates"), y=word("loss")), WORDS("picture.losses")),
        Picture("averaging-bleu", bars_svg(bars, x="BLEU", form="{:.1f}"), WORDS("picture.bleu")),
        Picture("averaging-valley", curves_svg(valley, x=word("along"), y=word("loss")), WORDS("picture.along_way")),
    ]


def tabulate(numbers: Numbers) -> Table:
    titles = [WORDS("table.weights"), WORDS("table.loss"), Text("BLEU", "BLEU")]
    rows: list[list[str | Text]] = [
        [WORDS("table.checkpoint", step=row["step"]), f"{row['loss']:.3f}", f"{row['bleu']:.1f}"]
        for row in numbers["singles"]
    ]
    rows += [
        [WORDS("picture.mean", count=row["count"]), f"{row['loss']:.3f}", f"{row['bleu']:.1f}"]
        for row in numbers["means"][1:]
    ]
    return Table(titles, rows)


CLAIM = Claim(
    name="averaging",
    words=WORDS,
    measure=measure,
    check=check,
    stand=stand,
    draw=draw,
    tabulate=tabulate,
    version=2,
    understands=(1,),
)
