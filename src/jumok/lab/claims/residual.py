"""Residual connections carry words and gradients through a deep stack (section 3.1); both are lost without them."""

from __future__ import annotations

from math import log10
from typing import Any

import torch
from torch.nn import functional as F

from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.claims.warmup import STRINGS, WARMUP, summarize, train_deep
from jumok.lab.laboratory import Lab
from jumok.lab.standing import Standing, of_share
from jumok.lab.thresholds import Limits
from jumok.lab.wording import Text, Words
from jumok.models import build
from jumok.nn.attention import EVERYTHING
from jumok.reports.charts import bars_svg
from jumok.reports.curves import curves_svg

WORDS, LIMITS = Words.read("residual"), Limits.read("residual")
LAYERS, SYMBOLS, SENTENCES, TOKENS = 12, 300, 16, 10
LANES = {  # norm, its place, residual
    "paper": ("layer", "post", True),
    "pre": ("layer", "pre", True),
    "normed": ("layer", "post", False),
    "bare": ("none", "post", False),
}


def measure_stack(lab: Lab, *, norm: str, place: str, residual: bool) -> dict[str, Any]:
    """Measure a new stack of 12 layers, at its input and after each layer: the norm of the gradient of the loss, and
    the share of the vectors in which the words of a sentence differ."""
    torch.manual_seed(lab.seed)
    sizes = {"encoder_layers": LAYERS, "decoder_layers": 1, "d_model": 64, "d_ff": 256, "heads": 4, "dropout": 0.0}
    kinds = {"norm": norm, "norm_place": place, "residual": residual}
    model = build(lab.recipe().model.model_copy(update=sizes | kinds), SYMBOLS, SYMBOLS).double()
    draw = torch.Generator().manual_seed(lab.seed)
    source, target = (torch.randint(8, SYMBOLS, (SENTENCES, TOKENS), generator=draw) for _ in range(2))
    outputs = [model.source(source)]
    for layer in model.encoder:
        outputs.append(layer(outputs[-1], EVERYTHING))
    states = model.decode(target, outputs[-1], EVERYTHING)
    loss = F.cross_entropy(model.project(states).flatten(0, 1), target.flatten())
    gradients = torch.autograd.grad(loss, outputs)
    return {
        "norm": norm,
        "residual": residual,
        "gradients": [float(gradient.norm()) for gradient in gradients],
        "different": [variation(output.detach()) for output in outputs],
    }


def variation(vectors: torch.Tensor) -> float:
    """The norm of vectors (B, T, D) less the mean of their sentence, relative to their norm."""
    own = vectors - vectors.mean(dim=1, keepdim=True)
    return float(own.norm() / vectors.norm())


def measure(lab: Lab, *, without: bool = False) -> dict[str, Any]:
    """`without`: whether the stacks that should have no residual connections have them after all."""
    lanes = {
        name: measure_stack(lab, norm=norm, place=place, residual=residual or without)
        for name, (norm, place, residual) in LANES.items()
    }
    runs = {
        name: summarize(lab, train_deep(lab, f"residual {residual}", WARMUP, {"model.residual": residual}))
        for name, residual in (("with", True), ("without", without))
    }
    return {**lanes, **runs}


def gradient_share(lane: Numbers) -> float:
    """The gradient at the input, relative to that at the output."""
    return float(lane["gradients"][0] / lane["gradients"][-1])


def power(value: float) -> float:
    """The decimal logarithm of a value, at least -16: smaller values are rounding errors."""
    return log10(max(1e-16, value))


def check(numbers: Numbers) -> list[Check]:
    paper, normed, bare = (numbers[name] for name in ("paper", "normed", "bare"))
    with_, without = numbers["with"], numbers["without"]
    shares = {"with_": gradient_share(paper), "without": gradient_share(bare)}
    words = {"with_": paper["different"][-1], "without": normed["different"][-1]}
    unseen = {"with_": with_["unseen"], "without": without["unseen"]}
    same_size = LIMITS["least"] < shares["with_"] < LIMITS["most"]
    return [
        Check(WORDS("checks.gradient", **shares), same_size and shares["without"] < LIMITS["lost"]),
        Check(WORDS("checks.words", **words), words["with_"] > LIMITS["words"] and words["without"] < LIMITS["alike"]),
        Check(WORDS("checks.learns", **unseen), unseen["without"] > LIMITS["learns"] * unseen["with_"]),
    ]


def stand(numbers: Numbers) -> Standing:
    best = numbers["with"]["whole"]
    return Standing("letters", "right", best, 1, of_share(best, STRINGS))


def draw(numbers: Numbers, language: str) -> list[Picture]:
    def word(key: str) -> str:
        return WORDS(f"picture.{key}").of(language)

    lanes = {word(name): numbers[name] for name in LANES}
    sizes = {
        name: [(float(depth), power(size / lane["gradients"][-1])) for depth, size in enumerate(lane["gradients"])]
        for name, lane in lanes.items()
    }
    shares = {
        name: [(float(depth), power(share)) for depth, share in enumerate(lane["different"])]
        for name, lane in lanes.items()
    }
    losses = {word(which): [tuple(point) for point in numbers[which]["losses"]] for which in ("with", "without")}
    bars = {word(which): {"%": 100 * numbers[which]["letters"]} for which in ("with", "without")}
    layer = word("layer")
    return [
        Picture("residual-gradient", curves_svg(sizes, x=layer, y=word("size")), WORDS("picture.gradients")),
        Picture("residual-words", curves_svg(shares, x=layer, y=word("different")), WORDS("picture.words")),
        Picture("residual-loss", curves_svg(losses, x=word("updates"), y=word("loss")), WORDS("picture.losses")),
        Picture("residual-letters", bars_svg(bars, x=word("letters"), form="{:.0f}"), WORDS("picture.right")),
    ]


def tabulate(numbers: Numbers) -> Table:
    titles = [WORDS(f"table.{key}") for key in ("stack", "gradient", "words")]
    rows: list[list[str | Text]] = [
        [WORDS(f"picture.{name}"), f"{gradient_share(numbers[name]):.2g}", f"{numbers[name]['different'][-1]:.1e}"]
        for name in LANES
    ]
    return Table(titles, rows)


CLAIM = Claim(
    name="residual", words=WORDS, measure=measure, check=check, stand=stand, draw=draw, tabulate=tabulate, version=2
)
