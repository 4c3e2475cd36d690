"""With fixed weights attention is linear, and two layers are one; the feed-forward net makes a model nonlinear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from jumok.data.corpora import Pair
from jumok.data.made import phrasebook
from jumok.keys import key
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab, Trained, exact_share
from jumok.lab.wording import Text, Words
from jumok.models import build
from jumok.nn.attention import EVERYTHING, SelfAttention, attend, merge_heads
from jumok.reports.charts import bars_svg
from jumok.reports.curves import curves_svg

WORDS = Words.read("linearity")
TOKENS, SENTENCES, UNSEEN_SEED = 12, 200, 1_000
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


def outcome(run: Trained) -> dict[str, Any]:
    """The loss on unseen sentences, the learning curve, and the number of parameters."""
    return {
        "loss": run.scores["loss"],
        "losses": [list(point) for point in run.losses[:: max(1, len(run.losses) // 60)]],
        "parameters": sum(weight.numel() for weight in run.model.model.parameters()),
    }


def lane(lab: Lab, activation: str) -> dict[str, Any]:
    """One activation: the nonlinearity of its parts, and the results of two runs."""
    chosen = {"model.activation": activation}
    phrases = lab.train(f"activation {activation}", chosen | {"training.steps": lab.steps(700)})
    sorting = lab.train(f"sort {activation}", lab.task("sort", chosen | {"training.steps": lab.steps(400)}))
    drawn = phrasebook.task("sort", max(10, SENTENCES), seed=UNSEEN_SEED + lab.seed)
    unseen = [Pair(source, target, row) for row, (source, target) in enumerate(drawn, 1)]
    return {
        "activation": activation,
        "bent": measure_pieces(lab, activation),
        "phrasebook": outcome(phrases) | {"bleu": lab.bleu(phrases.model, SENTENCES)},
        "sort": outcome(sorting) | {"right": exact_share(sorting.model, unseen)},
    }


def measure(lab: Lab, *, activation: str = "linear") -> dict[str, Any]:
    """`activation`: that of the lane that should be linear."""
    return {"linear": lane(lab, activation), "relu": lane(lab, "relu")}


def check(numbers: Numbers) -> list[Check]:
    linear, relu = numbers["linear"], numbers["relu"]
    straight, bends = linear["bent"], relu["bent"]
    fixed = max(straight["attention"], straight["two"])
    checks = [
        Check(WORDS("checks.attention", worst=fixed), fixed < 1e-9),
        Check(
            WORDS("checks.one", net=straight["net"], matrix=straight["matrix"]),
            max(straight["net"], straight["matrix"]) < 1e-9,
        ),
        Check(WORDS("checks.relu", net=bends["net"], matrix=bends["matrix"]), min(bends["net"], bends["matrix"]) > 0.1),
    ]
    for task, score in (("phrasebook", "bleu"), ("sort", "right")):
        with_, without = relu[task], linear[task]
        values = {"with_": with_["loss"], "without": without["loss"], "good": with_[score], "poor": without[score]}
        checks.append(Check(WORDS(f"checks.{task}", **values), with_["loss"] < 0.95 * without["loss"]))
    return checks


def draw(numbers: Numbers, language: str) -> list[Picture]:
    def word(name: str) -> str:
        return WORDS(f"picture.{name}").of(language)

    linear, relu = numbers["linear"], numbers["relu"]
    names = {word("linear"): linear, word("relu"): relu}
    bars = {
        word("attention"): {word("linear"): linear["bent"]["attention"]},
        word("two"): {word("linear"): linear["bent"]["two"]},
        word("net"): {name: lane["bent"]["net"] for name, lane in names.items()},
        word("matrix"): {name: lane["bent"]["matrix"] for name, lane in names.items()},
        word("free"): {word("linear"): linear["bent"]["free"]},
    }
    pictures = [Picture("linearity", bars_svg(bars, x=word("bent"), form="{:.2g}"), WORDS("picture.bars"))]
    for task in ("phrasebook", "sort"):
        losses = {name: [tuple(point) for point in lane[task]["losses"]] for name, lane in names.items()}
        svg = curves_svg(losses, x=word("updates"), y=word("loss"))
        pictures.append(Picture(f"linearity-{task}", svg, WORDS(f"picture.{task}")))
    return pictures


def tabulate(numbers: Numbers) -> Table:
    titles = [WORDS(f"table.{name}") for name in ("activation", "weights", "phrasebook")]
    titles += [Text("BLEU", "BLEU"), WORDS("table.sort"), WORDS("table.right")]
    names = {kind: WORDS(f"picture.{kind}") for kind in ("linear", "relu")}
    rows = [
        [
            names.get(lane["activation"], lane["activation"]),
            f"{lane['phrasebook']['parameters']:,}",
            f"{lane['phrasebook']['loss']:.3f}",
            f"{lane['phrasebook']['bleu']:.1f}",
            f"{lane['sort']['loss']:.3f}",
            f"{lane['sort']['right']:.0%}",
        ]
        for lane in (numbers["linear"], numbers["relu"])
    ]
    return Table(titles, rows)


CLAIM = Claim(name="linearity", words=WORDS, measure=measure, check=check, draw=draw, tabulate=tabulate)
