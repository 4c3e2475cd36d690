"""Dot products grow with d_k and saturate the softmax; dividing by sqrt(d_k) prevents it (section 3.2.1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from jumok.keys import key
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab, Trained
from jumok.lab.standing import Standing
from jumok.lab.thresholds import Limits
from jumok.lab.wording import Text, Words
from jumok.nn.attention import CrossAttention, SelfAttention
from jumok.nn.variants import Dot
from jumok.reports.charts import bars_svg
from jumok.reports.curves import curves_svg

WORDS, LIMITS = Words.read("scale"), Limits.read("scale")
WIDTHS = (4, 8, 16, 32, 64, 128, 256, 512, 1_024)
QUERIES, KEYS = 500, 32
RATES = (3e-3, 8e-3)  # the better learning rate counts for each score
SIZES: dict[str, Any] = {"model.heads": 1, "model.d_k": 256, "model.d_v": 64}


def products(width: int, seed: int) -> Tensor:
    """Dot products of random queries with separate random keys; all components have variance 1."""
    draw = torch.Generator().manual_seed(key(seed, "scale", width))
    q, k = (torch.randn(QUERIES, count, width, generator=draw) for count in (1, KEYS))
    return (q @ k.transpose(1, 2))[:, 0].double()  # (queries, keys)


def measure_saturation(scores: Tensor, width: int) -> dict[str, float]:
    """The variance of scores, the sharpness of their softmax, and the sensitivity of the weights to the scores."""
    weights = scores.softmax(dim=-1)
    entropy = -(weights * weights.clamp_min(1e-300).log()).sum(dim=-1) / math.log(KEYS)
    jacobian = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None, :]
    sensitivity = jacobian.flatten(1).norm(dim=1)
    return {
        "width": width,
        "variance": float(scores.var()),
        "largest": float(weights.amax(dim=-1).mean()),
        "entropy": float(entropy.mean()),
        "gradient": float(sensitivity.median()),
        "gradient_mean": float(sensitivity.mean()),
    }


def scores_of(power: float) -> Callable[[Any], None]:
    """Surgery that divides q·k by d_k to this power in all attention of a model."""

    def change(model: Any) -> None:
        for module in model.modules():
            if isinstance(module, SelfAttention | CrossAttention):
                module.score = Dot(module.d_k**-power)

    return change


def train_power(lab: Lab, power: float, rate: float) -> Trained:
    """A run with one wide head; powers that no recipe has are set by surgery."""
    score = {0.5: "scaled-dot", 0.0: "dot"}.get(power)
    changes = SIZES | {"training.peak": rate, "training.steps": lab.steps(300), "model.score": score or "scaled-dot"}
    if score is not None:
        return lab.train(f"score {score} {rate:g}", changes)
    run = lab.train(f"score power {power:g} {rate:g}", changes, surgery=scores_of(power))
    scores_of(power)(run.model.model)
    return run


def compare_rates(lab: Lab, power: float) -> dict[str, Any]:
    """The final training loss for each learning rate, and the better run."""
    runs: list[dict[str, Any]] = []
    for rate in RATES:
        run = train_power(lab, power, rate)
        last = [loss for _, loss in run.losses[-20:]]
        thinned = run.losses[:: max(1, len(run.losses) // 60)]
        runs.append({"rate": rate, "loss": sum(last) / len(last), "losses": [list(point) for point in thinned]})
    best = min(runs, key=lambda run: run["loss"])
    return {"power": power, "runs": runs, "best": best, **lab.grade(train_power(lab, power, best["rate"]).model, 200)}


def measure(lab: Lab, *, power: float = 0.5, without: float = 0.0) -> dict[str, Any]:
    """`power`: scores are divided by d_k to this power; `without`: the same for the other lane."""
    drawn = {width: products(width, lab.seed) for width in WIDTHS}
    return {
        name: {
            "power": value,
            "random": [measure_saturation(scores * width**-value, width) for width, scores in drawn.items()],
            "learnt": compare_rates(lab, value),
        }
        for name, value in (("with", power), ("without", without))
    }


def slope(rows: list[dict[str, float]]) -> float:
    """The exponent with which the variance of scores grows with the width."""
    x, y = ([math.log(row[name]) for row in rows] for name in ("width", "variance"))
    middle = sum(x) / len(x)
    return sum((a - middle) * b for a, b in zip(x, y, strict=True)) / sum((a - middle) ** 2 for a in x)


def check(numbers: Numbers) -> list[Check]:
    with_, without = numbers["with"], numbers["without"]
    last, bare = with_["random"][-1], without["random"][-1]
    grows, stays = slope(without["random"]), slope(with_["random"])
    best, worse = with_["learnt"]["best"]["loss"], without["learnt"]["best"]["loss"]

    def build(name: str, holds: bool, **values: Any) -> Check:
        return Check(WORDS(f"checks.{name}", width=WIDTHS[-1], **values), holds)

    straight = max(abs(grows - 1.0), abs(stays)) < LIMITS["exponent"]
    corner = bare["largest"] > LIMITS["saturated"] and last["largest"] < LIMITS["open"]
    flat = bare["gradient"] < LIMITS["gradient"] * last["gradient"]
    return [
        build("variance", straight, grows=grows, stays=round(stays, 2) + 0.0),
        build("largest", corner, with_=last["largest"], without=bare["largest"]),
        build("gradient", flat, with_=last["gradient"], without=bare["gradient"]),
        build("learnt", best < LIMITS["loss"] * worse, with_=best, without=worse, d_k=SIZES["model.d_k"]),
    ]


def stand(numbers: Numbers) -> Standing:
    best = numbers["with"]["learnt"]
    return Standing("phrasebook", "bleu", best.get("bleu"), 1, best.get("interval"))


def draw(numbers: Numbers, language: str) -> list[Picture]:
    def word(name: str) -> str:
        return WORDS(f"picture.{name}").of(language)

    lanes = [(word(which), numbers[which]) for which in ("with", "without")]
    variance = {name: [(row["width"], row["variance"]) for row in lane["random"]] for name, lane in lanes}
    weights = {name: [(math.log2(row["width"]), row["largest"]) for row in lane["random"]] for name, lane in lanes}
    gradients: dict[str, dict[str, float]] = {f"d_k = {row['width']}": {} for row in numbers["with"]["random"]}
    for name, lane in lanes:
        for row in lane["random"]:
            gradients[f"d_k = {row['width']}"][name] = row["gradient"]
    losses = {
        f"{name}, {run['rate']:g}": [tuple(point) for point in run["losses"]]
        for name, lane in lanes
        for run in lane["learnt"]["runs"]
    }
    return [
        Picture("scale-variance", curves_svg(variance, x="d_k", y=word("variance"), log=True), WORDS("picture.grows")),
        Picture("scale-largest", curves_svg(weights, x=word("doublings"), y=word("largest")), WORDS("picture.corner")),
        Picture("scale-gradient", bars_svg(gradients, x=word("gradient"), form="{:.2g}"), WORDS("picture.felt")),
        Picture("scale-loss", curves_svg(losses, x=word("updates"), y=word("loss")), WORDS("picture.losses")),
    ]


def tabulate(numbers: Numbers) -> Table:
    names = ("variance", "largest", "entropy", "gradient")
    titles = [Text("d_k", "d_k")] + [
        Text(*(f"{word}: {lane}" for word, lane in zip(WORDS(f"table.{name}"), WORDS(f"table.{which}"), strict=True)))
        for name in names
        for which in ("with", "without")
    ]
    rows = [
        [str(row["width"])]
        + [
            f"{scores[name]:.1f}" if name == "variance" else f"{scores[name]:.3g}"
            for name in names
            for scores in (row, bare)
        ]
        for row, bare in zip(numbers["with"]["random"], numbers["without"]["random"], strict=True)
    ]
    return Table(titles, rows)


CLAIM = Claim(
    name="scale",
    words=WORDS,
    measure=measure,
    check=check,
    stand=stand,
    draw=draw,
    tabulate=tabulate,
    version=2,
    understands=(1,),
)
