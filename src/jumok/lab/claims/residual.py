"""Residual connections carry words and gradients through a deep stack (section 3.1): without them neither arrives."""

from __future__ import annotations

from math import log10
from typing import Any

import torch
from torch.nn import functional as F

from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.claims.warmup import WARMUP, deep, learnt
from jumok.lab.laboratory import Lab
from jumok.lab.wording import Text, Words
from jumok.models import build
from jumok.nn.attention import EVERYTHING
from jumok.reports.attention import curves_svg
from jumok.reports.charts import bars_svg

WORDS = Words.read("residual")
LAYERS, SYMBOLS, SENTENCES, TOKENS = 12, 300, 16, 10
LANES = (("layer", True), ("layer", False), ("none", False))  # norm, residual; the paper's stack comes first


def through(lab: Lab, *, norm: str, residual: bool) -> dict[str, Any]:
    """A new stack of 12 layers: at its entrance and after each layer, how large the gradient of the loss is there,
    and how much of the vectors of a sentence is not the same in all its words."""
    torch.manual_seed(lab.seed)
    sizes = {"encoder_layers": LAYERS, "decoder_layers": 1, "d_model": 64, "d_ff": 256, "heads": 4, "dropout": 0.0}
    kinds = {"norm": norm, "norm_place": "post", "residual": residual}
    model = build(lab.recipe().model.model_copy(update=sizes | kinds), SYMBOLS, SYMBOLS).double()
    draw = torch.Generator().manual_seed(lab.seed)
    source, target = (torch.randint(8, SYMBOLS, (SENTENCES, TOKENS), generator=draw) for _ in range(2))
    places = [model.source(source)]
    for layer in model.encoder:
        places.append(layer(places[-1], EVERYTHING))
    states = model.decode(target, places[-1], EVERYTHING)
    loss = F.cross_entropy(model.project(states).flatten(0, 1), target.flatten())
    gradients = torch.autograd.grad(loss, places)
    return {
        "norm": norm,
        "residual": residual,
        "gradients": [float(one.norm()) for one in gradients],
        "different": [different(one.detach()) for one in places],
    }


def different(vectors: torch.Tensor) -> float:
    """Of vectors (B, T, D), the share of their length that is not that of the mean word of their sentence."""
    own = vectors - vectors.mean(dim=1, keepdim=True)
    return float(own.norm() / vectors.norm())


def measure(lab: Lab, *, without: bool = False) -> dict[str, Any]:
    """`without`: whether the stacks that are said to have no residual connections have them all the same."""
    lanes = [through(lab, norm=norm, residual=residual or without) for norm, residual in LANES]
    runs = {
        name: learnt(deep(lab, f"residual {residual}", WARMUP, {"model.residual": residual}))
        for name, residual in (("with", True), ("without", without))
    }
    return {"paper": lanes[0], "normed": lanes[1], "bare": lanes[2], **runs}


def arrives(lane: Numbers) -> float:
    """The gradient at the entrance, as a share of that at the end."""
    return float(lane["gradients"][0] / lane["gradients"][-1])


def power(value: float) -> float:
    """The power of ten that a value is; what is nothing but rounding counts as the least."""
    return log10(max(1e-16, value))


def judge(numbers: Numbers) -> list[Check]:
    paper, normed, bare = (numbers[name] for name in ("paper", "normed", "bare"))
    with_, without = numbers["with"], numbers["without"]
    shares = {"with_": arrives(paper), "without": arrives(bare)}
    words = {"with_": paper["different"][-1], "without": normed["different"][-1]}
    unseen = {"with_": with_["unseen"], "without": without["unseen"]}
    return [
        Check(WORDS("checks.gradient", **shares), 0.1 < shares["with_"] < 10.0 and shares["without"] < 0.01),
        Check(WORDS("checks.words", **words), words["with_"] > 1e-2 and words["without"] < 1e-6),
        Check(WORDS("checks.learns", **unseen), unseen["without"] > 1.5 * unseen["with_"]),
    ]


def draw(numbers: Numbers, language: str) -> list[Picture]:
    def word(key: str) -> str:
        return WORDS(f"picture.{key}").of(language)

    lanes = {word(name): numbers[name] for name in ("paper", "normed", "bare")}
    sizes = {
        name: [(float(place), power(size / lane["gradients"][-1])) for place, size in enumerate(lane["gradients"])]
        for name, lane in lanes.items()
    }
    shares = {
        name: [(float(place), power(share)) for place, share in enumerate(lane["different"])]
        for name, lane in lanes.items()
    }
    losses = {word(which): [tuple(point) for point in numbers[which]["losses"]] for which in ("with", "without")}
    bars = {word(which): {"BLEU": numbers[which]["bleu"]} for which in ("with", "without")}
    layer = word("layer")
    return [
        Picture("residual-gradient", curves_svg(sizes, x=layer, y=word("size")), WORDS("picture.gradients")),
        Picture("residual-words", curves_svg(shares, x=layer, y=word("different")), WORDS("picture.words")),
        Picture("residual-loss", curves_svg(losses, x=word("updates"), y=word("loss")), WORDS("picture.losses")),
        Picture("residual-bleu", bars_svg(bars, x="BLEU"), WORDS("picture.bleu")),
    ]


def tabulate(numbers: Numbers) -> Table:
    titles = [WORDS(f"table.{key}") for key in ("stack", "gradient", "words")]
    rows: list[list[str | Text]] = [
        [WORDS(f"picture.{name}"), f"{arrives(numbers[name]):.2g}", f"{numbers[name]['different'][-1]:.1e}"]
        for name in ("paper", "normed", "bare")
    ]
    return Table(titles, rows)


CLAIM = Claim(name="residual", words=WORDS, measure=measure, judge=judge, draw=draw, tabulate=tabulate)
