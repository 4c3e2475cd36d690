"""Additive attention costs as much as dot products in theory, and far more in practice (section 3.2.1).

    dot        q·k: one matrix product; only the scores (B, H, T, S) are stored
    additive   w·tanh(q + k): needs a vector for every pair of positions, (B, H, T, S, K)

Both run in plain torch, as the formulas are written.  Then models learn the phrasebook with either score; with wide
keys, models learn to reverse letters with additive attention and with unscaled dot products.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from jumok import messages
from jumok.kernels import library
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab, Trained
from jumok.lab.standing import Standing
from jumok.lab.thresholds import Limits
from jumok.lab.wording import Text, Words
from jumok.models import build
from jumok.models.base import END, START
from jumok.nn.attention import Score, attend
from jumok.nn.variants import SCORES
from jumok.reports.curves import curves_svg

WORDS, LIMITS = Words.read("additive"), Limits.read("additive")
HEADS, D_K = 8, 64  # those of the paper's base model
WIDE = 256
SENTENCES = 200
LANES = ("dot", "additive")


def run_attention(score: Score, given: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """Compute equation 1 with this score, and its gradients."""
    q, k, v = given
    mixed, _ = attend(q, k, v, score=score)
    mixed.sum().backward()
    return mixed


def vectors(n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of one sentence."""
    generator = torch.Generator().manual_seed(n)
    samples = (torch.randn(1, HEADS, n, D_K, generator=generator) for _ in range(3))
    q, k, v = (vector.requires_grad_() for vector in samples)
    return q, k, v


def products(score: Score, n: int) -> int:
    """Multiply-adds of the products that make the scores."""
    q, k, _ = vectors(n)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        score(q, k)
    return int(counter.get_total_flops()) // 2


def saved_bytes(score: Score, n: int) -> int:
    """Bytes saved for the backward pass."""
    storages: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run_attention(score, vectors(n))
    return sum(storages.values())


def seconds(score: Score, n: int, repeats: int = 5) -> list[float]:
    """Seconds of several forward and backward passes."""
    given, taken = vectors(n), []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        run_attention(score, given)
        taken.append(time.perf_counter() - began)
    return taken[1:]


def update(lab: Lab, score: str, length: int) -> float:
    """Seconds of an update of the lab's model on 1,024 tokens in sentences of this length, in plain torch."""
    torch.manual_seed(lab.seed)
    model, taken = build(lab.recipe({"model.score": score}).model, 1_000, 1_000), []
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(8, 1_000, (1_024 // length, length), generator=generator)
    source[:, -1] = END
    target = source.roll(1, dims=1)
    target[:, 0] = START
    for _ in range(4):
        began = time.perf_counter()
        model.project(model.hidden(source, target)).sum().backward()
        taken.append(time.perf_counter() - began)
    return min(taken[1:])


def cost(lab: Lab, score: str, longest: int) -> dict[str, Any]:
    """The cost of one attention with this score by length, and of an update of a model with it."""
    module = SCORES[score](HEADS, D_K)
    costs: dict[str, Any] = {"products": [], "bytes": [], "seconds": []}
    for n in (2**power for power in range(3, longest.bit_length())):
        lab.stop.check()
        costs["products"].append([n, products(module, n)])
        costs["bytes"].append([n, saved_bytes(module, n)])
        taken = seconds(module, n)
        costs["seconds"].append([n, median(taken)])
        costs["timings"] = taken  # in the end those of the longest
    return costs | {"update": update(lab, score, 16)}


def train_score(lab: Lab, score: str) -> dict[str, Any]:
    """Train a model with this score: its loss, BLEU and learning curve after the same number of updates."""
    run = lab.train(f"score {score}", {"model.score": score, "training.steps": lab.steps(700)})
    return {"loss": run.scores["loss"], **lab.grade(run.model, SENTENCES), "losses": smooth(run)}


def smooth(run: Trained, points: int = 50) -> list[list[float]]:
    """Training losses, averaged over neighbouring updates."""
    size = max(1, len(run.losses) // points)
    groups = [run.losses[at : at + size] for at in range(0, len(run.losses), size)]
    return [[group[-1][0], sum(loss for _, loss in group) / len(group)] for group in groups]


def wide(lab: Lab, score: str) -> dict[str, Any]:
    """Train one head with wide keys to reverse letters, with the same number of updates for every score."""
    changes = {"model.score": score, "model.heads": 1, "model.d_k": WIDE, "training.steps": lab.steps(200)}
    run = lab.train(f"wide keys, score {score}", lab.task("reverse", changes))
    return {"score": score, "loss": run.scores["loss"], "losses": smooth(run)}


def measure(lab: Lab, *, additive: str = "additive", longest: int = 256) -> dict[str, Any]:
    """`additive`: the score in the lane of additive attention; `longest`: the longest length that is timed."""
    scores = {"dot": "scaled-dot", "additive": additive}
    numbers: dict[str, Any] = {}
    with library.without():
        for name, score in scores.items():
            lab.say(messages.text("lab.timing", score=score))
            numbers[name] = {"score": score} | cost(lab, score, longest)
    for name, score in scores.items():
        numbers[name] |= train_score(lab, score)
    return numbers | {"wide": {"unscaled": wide(lab, "dot"), "additive": wide(lab, additive)}}


def by_the_clock(numbers: Numbers) -> dict[str, float]:
    """Training losses when the model with dot products has finished, and the updates of the other by then."""
    dot, other = numbers["dot"], numbers["additive"]
    ratio = other["update"] / dot["update"]
    done = dot["losses"][-1][0] / ratio
    reached = [loss for step, loss in other["losses"] if step <= done] or [other["losses"][0][1]]
    return {
        "ratio": ratio,
        "done": done,
        "all": dot["losses"][-1][0],
        "dot": dot["losses"][-1][1],
        "other": reached[-1],
    }


def check(numbers: Numbers) -> list[Check]:
    dot, other, wide_runs = numbers["dot"], numbers["additive"], numbers["wide"]
    n = dot["seconds"][-1][0]
    ratios = {key: other[key][-1][1] / dot[key][-1][1] for key in ("products", "bytes", "seconds")}
    clocks = ratio_range(numbers)
    memory = {"dot": _mega(dot), "additive": _mega(other)}
    losses, clock = {name: run["loss"] for name, run in wide_runs.items()}, by_the_clock(numbers)
    return [
        Check(
            WORDS("checks.products", n=n, ratio=ratios["products"]),
            LIMITS["fewest"] <= ratios["products"] <= LIMITS["most"],
        ),
        Check(WORDS("checks.seconds", ratio=ratios["seconds"], **clocks), ratios["seconds"] >= LIMITS["seconds"]),
        Check(WORDS("checks.bytes", ratio=ratios["bytes"], **memory), ratios["bytes"] >= LIMITS["bytes"]),
        Check(
            WORDS("checks.quality", dot=dot["bleu"], additive=other["bleu"]),
            dot["bleu"] >= other["bleu"] - LIMITS["bleu"],
        ),
        Check(WORDS("checks.clock", **clock), clock["dot"] < clock["other"]),
        Check(WORDS("checks.wide", d_k=WIDE, **losses), losses["additive"] < LIMITS["wide"] * losses["unscaled"]),
    ]


def ratio_range(numbers: Numbers) -> dict[str, float]:
    """The least and the largest ratio of two timings of the longest length."""
    dot, other = (numbers[name].get("timings", [numbers[name]["seconds"][-1][1]]) for name in LANES)
    return {"low": min(other) / max(dot), "high": max(other) / min(dot)}


def _mega(lane: Mapping[str, Any]) -> float:
    return float(lane["bytes"][-1][1] / 1e6)


def stand(numbers: Numbers) -> Standing:
    best = max((numbers[lane] for lane in LANES), key=lambda lane: float(lane["bleu"]))
    return Standing("phrasebook", "bleu", best["bleu"], 1, best.get("interval"))


def draw(numbers: Numbers, language: str) -> list[Picture]:
    names = {name: WORDS(f"picture.{name}").of(language) for name in (*LANES, "unscaled")}

    def word(key: str) -> str:
        return WORDS(f"picture.{key}").of(language)

    def chart(key: str, factor: float) -> str:
        series = {names[lane]: [(a, factor * b) for a, b in numbers[lane][key]] for lane in LANES}
        return curves_svg(series, x=word("n"), y=word(key), log=True)

    by_time = {
        names[lane]: [(step * numbers[lane]["update"], loss) for step, loss in numbers[lane]["losses"]]
        for lane in LANES
    }
    by_update = {names[lane]: [(a, b) for a, b in run["losses"]] for lane, run in numbers["wide"].items()}
    clock = curves_svg(by_time, x=word("clock"), y=word("loss"))
    updates = curves_svg(by_update, x=word("updates"), y=word("loss"))
    return [
        Picture("additive-seconds", chart("seconds", 1000), WORDS("picture.seconds_seen")),
        Picture("additive-bytes", chart("bytes", 1e-6), WORDS("picture.bytes_seen")),
        Picture("additive-clock", clock, WORDS("picture.clock_seen", ratio=by_the_clock(numbers)["ratio"])),
        Picture("additive-wide", updates, WORDS("picture.wide_seen")),
    ]


def tabulate(numbers: Numbers) -> Table:
    n = numbers["dot"]["seconds"][-1][0]
    titles = [
        WORDS("table.score"), WORDS("table.seconds", n=n), WORDS("table.bytes", n=n), WORDS("table.update"),
        WORDS("table.loss"), Text("BLEU", "BLEU"), WORDS("table.wide"),
    ]  # fmt: skip
    rows: list[list[str | Text]] = []
    for lane in (*LANES, "unscaled"):
        cells = ["–"] * 5
        if run := numbers.get(lane):
            cells = [f"{1000 * run['seconds'][-1][1]:.1f}", f"{_mega(run):.1f}", f"{1000 * run['update']:.0f}"]
            cells += [f"{run['loss']:.3f}", f"{run['bleu']:.1f}"]
        last = numbers["wide"].get(lane)
        rows.append([WORDS(f"picture.{lane}"), *cells, f"{last['loss']:.3f}" if last else "–"])
    return Table(titles, rows)


CLAIM = Claim(
    name="additive",
    words=WORDS,
    measure=measure,
    check=check,
    stand=stand,
    draw=draw,
    tabulate=tabulate,
    version=2,
    understands=(1,),
)
