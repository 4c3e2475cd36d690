"""A high learning rate needs a warm-up (section 5.3, equation 3); reached at once, the same rate does harm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab, Trained
from jumok.lab.wording import Text, Words
from jumok.reports.charts import bars_svg
from jumok.reports.curves import curves_svg
from jumok.training.schedule import noam

WORDS = Words.read("warmup")
PEAK, WARMUP, UPDATES = 2e-3, 150, 600
DEEP: dict[str, Any] = {  # as deep as the paper's model and as there: post-norm, Adam, no clipping
    "model.encoder_layers": 6,
    "model.decoder_layers": 6,
    "model.d_ff": 128,
    "model.norm_place": "post",
    "training.schedule": "constant",
    "training.peak": PEAK,
    "training.clip": 0.0,
    "training.label_smoothing": 0.0,
    "training.tokens_per_update": 512,
    "data.tokens_per_batch": 512,
    "training.validations": 1,
}
D_MODEL, LAST = 512, 20_000  # the paper's base model; updates in the picture
DRAWN = (2_000, 4_000, 8_000)  # warm-ups; the paper's is in the middle


def train_deep(lab: Lab, name: str, warmup: int, changes: Mapping[str, Any] | None = None) -> Trained:
    """A run of 6 + 6 layers that learns to write letters backwards; its first `warmup` updates raise the rate."""
    length = {"training.steps": lab.steps(UPDATES), "training.warmup": lab.steps(warmup) if warmup else 0}
    return lab.train(name, lab.task("reverse", {**DEEP, **length, **(changes or {})}))


def summarize(run: Trained) -> dict[str, Any]:
    """The learning curve of a run, its final training loss, and its scores on unseen sentences."""
    last = [loss for _, loss in run.losses[-20:]]
    return {
        "losses": smooth(run.losses, max(1, len(run.losses) // 60)),
        "loss": sum(last) / len(last),
        "unseen": run.scores["loss"],
        "bleu": run.scores["bleu"],
    }


def smooth(losses: Sequence[tuple[int, float]], width: int) -> list[list[float]]:
    """Means of `width` neighbouring losses, at the last update of each group."""
    parts = [losses[at : at + width] for at in range(0, len(losses), width)]
    return [[part[-1][0], sum(loss for _, loss in part) / len(part)] for part in parts]


def equation() -> list[dict[str, Any]]:
    """Equation 3 for the paper's base model: for each warm-up the curve, its peak and the update of the peak."""
    curves = []
    for warmup in DRAWN:
        rates = [noam(step, d_model=D_MODEL, warmup=warmup) for step in range(1, LAST + 1)]
        curve = [[step, 1e4 * rates[step - 1]] for step in range(100, LAST + 1, 100)]
        curves.append({"warmup": warmup, "peak": max(rates), "at": rates.index(max(rates)) + 1, "curve": curve})
    return curves


def train_warmup(lab: Lab, warmup: int) -> dict[str, Any]:
    """Train with this warm-up: the summary of the run, and the rate of every update."""
    run = train_deep(lab, f"warm-up {warmup}", warmup)
    rates = [update["rate"] for update in run.updates]
    thin = max(1, len(rates) // 60)
    return summarize(run) | {
        "warmup": warmup,
        "peak": max(rates),
        "at": rates.index(max(rates)) + 1,
        "rates": [[step + 1, 1e3 * rates[step]] for step in range(0, len(rates), thin)],
    }


def measure(lab: Lab, *, warmups: tuple[int, int] = (WARMUP, 0)) -> dict[str, Any]:
    """`warmups`: of the run that should have one, and of the run that should have none, in updates."""
    with_, without = (train_warmup(lab, warmup) for warmup in warmups)
    return {"equation": equation(), "with": with_, "without": without}


def check(numbers: Numbers) -> list[Check]:
    with_, without = numbers["with"], numbers["without"]
    exact = all(curve["at"] == curve["warmup"] for curve in numbers["equation"])
    paper = numbers["equation"][1]
    same = abs(with_["peak"] - without["peak"]) < 1e-9 and with_["at"] > without["at"] == 1

    def compare(key: str, holds: bool) -> Check:
        return Check(WORDS(f"checks.{key}", with_=with_[key], without=without[key]), holds)

    return [
        Check(WORDS("checks.equation", at=paper["at"], peak=paper["peak"]), exact),
        Check(WORDS("checks.rate", peak=with_["peak"], at=with_["at"]), same),
        compare("unseen", without["unseen"] > 1.2 * with_["unseen"]),
        compare("bleu", without["bleu"] < with_["bleu"] - 5.0),
    ]


def draw(numbers: Numbers, language: str) -> list[Picture]:
    def word(key: str, **values: Any) -> str:
        return WORDS(f"picture.{key}", **values).of(language)

    names = {which: word(which, updates=numbers[which]["at"]) for which in ("with", "without")}
    losses = {name: [tuple(point) for point in numbers[which]["losses"]] for which, name in names.items()}
    rates = {name: [tuple(point) for point in numbers[which]["rates"]] for which, name in names.items()}
    curves = {
        word("warmup", updates=result["warmup"]): [tuple(point) for point in result["curve"]]
        for result in numbers["equation"]
    }
    bars = {name: {"BLEU": numbers[which]["bleu"]} for which, name in names.items()}
    updates = word("updates")
    return [
        Picture("warmup-equation", curves_svg(curves, x=updates, y=word("rate4")), WORDS("picture.equation")),
        Picture("warmup-rates", curves_svg(rates, x=updates, y=word("rate3")), WORDS("picture.rates")),
        Picture("warmup-loss", curves_svg(losses, x=updates, y=word("loss")), WORDS("picture.losses")),
        Picture("warmup-bleu", bars_svg(bars, x="BLEU"), WORDS("picture.bleu")),
    ]


def tabulate(numbers: Numbers) -> Table:
    titles = [WORDS(f"table.{key}") for key in ("warmup", "peak", "loss", "unseen")] + [Text("BLEU", "BLEU")]
    rows = [
        [
            str(lane["warmup"]),
            f"{lane['peak']:.4f}",
            f"{lane['loss']:.3f}",
            f"{lane['unseen']:.3f}",
            f"{lane['bleu']:.1f}",
        ]
        for lane in (numbers["with"], numbers["without"])
    ]
    return Table(titles, rows)


CLAIM = Claim(name="warmup", words=WORDS, measure=measure, check=check, draw=draw, tabulate=tabulate)
