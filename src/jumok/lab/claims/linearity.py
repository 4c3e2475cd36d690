"""With fixed weights attention is linear, and two layers are one; the feed-forward net makes a model nonlinear."""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean
from typing import Any

import torch
from torch import Tensor

from jumok import messages
from jumok.keys import key
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab
from jumok.lab.standing import Standing, over_seeds, tell_runs
from jumok.lab.thresholds import Limits
from jumok.lab.toys import table
from jumok.lab.toys.fitting import fit
from jumok.lab.wording import Text, Words
from jumok.models import build
from jumok.nn.attention import EVERYTHING, SelfAttention, attend, merge_heads
from jumok.reports.charts import bars_svg

WORDS, LIMITS = Words.read("linearity"), Limits.read("linearity")
TOKENS = 12
Map = Callable[[Tensor], Tensor]


def freeze(attention: SelfAttention, x: Tensor) -> Map:
    """The layer as a function of its values, with the attention weights of x."""
    q, k, v = attention.split(x)
    _, weights = attend(q, k, v)

    def mix(values: Tensor) -> Tensor:
        _, _, v = attention.split(values)
        return attention.output(merge_heads(weights @ v))

    return mix


def nonlinearity(function: Map, draw: torch.Generator, like: Tensor) -> float:
    """The distance of f(ax + by) from a f(x) + b f(y), relative to its norm: 0 for a linear map."""
    x, y = (torch.randn(like.shape, generator=draw, dtype=like.dtype) for _ in range(2))
    whole, parts = function(0.7 * x - 1.3 * y), 0.7 * function(x) - 1.3 * function(y)
    return float((whole - parts).norm() / whole.norm())


def one_matrix(function: Map, draw: torch.Generator, width: int) -> float:
    """The relative error of the best single matrix for a function, on vectors that were not used to fit it."""
    x = torch.randn(40 * width, width, generator=draw, dtype=torch.float64)
    y = function(x[None])[0]
    half = len(x) // 2
    matrix = torch.linalg.lstsq(x[:half], y[:half]).solution
    return float((x[half:] @ matrix - y[half:]).norm() / y[half:].norm())


@torch.no_grad()
def measure_pieces(lab: Lab, activation: str) -> dict[str, float]:
    """The nonlinearity of each part of a new encoder; its biases are 0, so that linear means through the origin."""
    torch.manual_seed(lab.seed)
    config = lab.recipe({"model.activation": activation}).model.model_copy(update={"encoder_layers": 2})
    model = build(config, 40, 40).double().eval()
    draw = torch.Generator().manual_seed(key(lab.seed, "linearity"))
    width = model.config.d_model
    x = torch.randn(1, TOKENS, width, generator=draw, dtype=torch.float64)
    first, second = model.encoder
    attention, following = freeze(first.attention, x), freeze(second.attention, x)
    return {
        "attention": nonlinearity(attention, draw, x),
        "two": nonlinearity(lambda x: following(attention(x)), draw, x),
        "net": nonlinearity(lambda x: first.feed_forward(attention(x)), draw, x),
        "free": nonlinearity(lambda x: first.attention(x, EVERYTHING), draw, x),
        "matrix": one_matrix(first.feed_forward, draw, width),
    }


def count_saved(lab: Lab) -> float:
    """The share of the network's parameters that one matrix would save: two of d·d_ff against one of d·d."""
    model: Any = lab.recipe().model
    return 1 - model.d_model / (2 * model.d_ff)


def train_cell(lab: Lab, weights: str, net: str) -> list[float]:
    """The share of an arbitrary table that a layer learns, for every seed; each seed has its own table."""
    shares = []
    for seed in lab.toy_seeds():
        a, b, values = table.draw_table(seed)
        module = fit(
            lambda: table.Reader(weights, net),
            lambda generator, a=a, b=b, values=values: ((a, b), values),  # type: ignore[misc]
            steps=lab.steps(table.STEPS), seed=seed, check=lab.stop.check,
        )  # fmt: skip
        shares.append(table.measure_right(module, seed))
    return shares


def measure(lab: Lab, *, activation: str = "linear") -> dict[str, Any]:
    """`activation`: of the networks that should be linear, linear or relu."""
    lab.say(messages.text("lab.training", model="linearity"))
    lanes = {name: measure_pieces(lab, chosen) for name, chosen in (("linear", activation), ("relu", "relu"))}
    cells = {
        f"{weights}_{net}": train_cell(lab, weights, activation if net == "linear" else net)
        for weights, net in table.CELLS
    }
    return {"bent": lanes, "cells": cells, "saved": count_saved(lab), "symbols": table.SYMBOLS}


def check(numbers: Numbers) -> list[Check]:
    straight, bends = numbers["bent"]["linear"], numbers["bent"]["relu"]
    fixed, exact = max(straight["attention"], straight["two"]), LIMITS["exact"]
    cells = {name: mean(shares) for name, shares in numbers["cells"].items()}

    def compare(name: str, part: str, holds: bool) -> Check:
        values = {"without": cells[f"{name}_linear"], "with_": cells[f"{name}_relu"], "symbols": numbers["symbols"]}
        return Check(WORDS(f"checks.{name}", **values), holds, part)

    return [
        Check(WORDS("checks.attention", worst=fixed), fixed < exact, "theorem"),
        Check(WORDS("checks.one", net=straight["net"], matrix=straight["matrix"]),
              max(straight["net"], straight["matrix"]) < exact, "theorem"),
        Check(WORDS("checks.relu", net=bends["net"], matrix=bends["matrix"]),
              min(bends["net"], bends["matrix"]) > LIMITS["bends"], "theorem"),
        compare("frozen", "net",
                cells["frozen_linear"] <= LIMITS["lost"] and cells["frozen_relu"] >= LIMITS["solved"]),
        compare("softmax", "net", cells["softmax_relu"] >= cells["softmax_linear"] + LIMITS["better"]),
    ]  # fmt: skip


def stand(numbers: Numbers) -> Standing:
    runs = numbers["cells"]["frozen_relu"]
    return Standing("toy", "right", mean(runs), len(runs), over_seeds(runs), "seeds")


def draw(numbers: Numbers, language: str) -> list[Picture]:
    def word(name: str) -> str:
        return WORDS(f"picture.{name}").of(language)

    bent = numbers["bent"]
    names = {word(kind): bent[kind] for kind in ("linear", "relu")}
    bars = {
        word("attention"): {word("linear"): bent["linear"]["attention"]},
        word("two"): {word("linear"): bent["linear"]["two"]},
        word("net"): {name: lane["net"] for name, lane in names.items()},
        word("matrix"): {name: lane["matrix"] for name, lane in names.items()},
        word("free"): {word("linear"): bent["linear"]["free"]},
    }
    cells = {
        word(weights): {word(net): 100 * mean(numbers["cells"][f"{weights}_{net}"]) for net in ("linear", "relu")}
        for weights in ("frozen", "softmax")
    }
    return [
        Picture("linearity", bars_svg(bars, x=word("bent"), form="{:.2g}"), WORDS("picture.bars")),
        Picture("linearity-table", bars_svg(cells, x=word("right"), form="{:.0f}"), WORDS("picture.cells")),
    ]


def tabulate(numbers: Numbers) -> Table:
    titles = [WORDS(f"table.{name}") for name in ("weights", "net", "right", "seeds")]
    rows: list[list[str | Text]] = [
        [WORDS(f"picture.{weights}"), WORDS(f"picture.{net}"), tell_runs(shares), ", ".join(f"{s:.0%}" for s in shares)]
        for weights, net in table.CELLS
        for shares in [numbers["cells"][f"{weights}_{net}"]]
    ]
    return Table(titles, rows)


CLAIM = Claim(
    name="linearity", words=WORDS, measure=measure, check=check, stand=stand, draw=draw, tabulate=tabulate, version=2
)
