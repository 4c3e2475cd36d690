"""A high learning rate needs a warm-up (section 5.3, equation 3); reached at once, the same rate does harm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jumok.data.made import phrasebook
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab, Trained
from jumok.lab.standing import Standing, of_share
from jumok.lab.thresholds import Limits
from jumok.lab.wording import Text, Words
from jumok.reports.charts import bars_svg
from jumok.reports.curves import curves_svg
from jumok.training.schedule import noam

WORDS, LIMITS = Words.read("warmup"), Limits.read("warmup")
PEAK, WARMUP, UPDATES = 2e-3, 150, 600
PEAKS = (5e-4, 1e-3, 2e-3, 4e-3)  # the pairs of runs; PEAK was chosen for the verdict because the gap was largest there
STRINGS, UNSEEN_SEED = 200, 1_000
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


def summarize(lab: Lab, run: Trained) -> dict[str, Any]:
    """The learning curve of a run, its final training loss, and what it gets right of unseen strings."""
    last = [loss for _, loss in run.losses[-20:]]
    pairs = phrasebook.task("reverse", STRINGS, seed=UNSEEN_SEED + lab.seed)
    outputs = [answer.text for answer in run.model.translate([source for source, _ in pairs], beam=1, details=False)]
    letters = [share_in_place(output, wanted) for output, (_, wanted) in zip(outputs, pairs, strict=True)]
    return {
        "losses": smooth(run.losses, max(1, len(run.losses) // 60)),
        "loss": sum(last) / len(last),
        "unseen": run.scores["loss"],
        "letters": sum(letters) / len(letters),
        "whole": sum(share == 1.0 for share in letters) / len(letters),
    }


def share_in_place(output: str, wanted: str) -> float:
    """The share of letters in the right position."""
    answer, right = output.split(), wanted.split()
    return sum(a == b for a, b in zip(answer, right, strict=False)) / max(len(right), len(answer))


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


def train_warmup(lab: Lab, warmup: int, peak: float) -> dict[str, Any]:
    """Train with this warm-up and this highest rate: the summary of the run, and the rate of every update."""
    run = train_deep(lab, f"warm-up {warmup}, {peak:g}", warmup, {"training.peak": peak})
    rates = [update["rate"] for update in run.updates]
    thin = max(1, len(rates) // 60)
    return summarize(lab, run) | {
        "warmup": warmup,
        "peak": max(rates),
        "at": rates.index(max(rates)) + 1,
        "rates": [[step + 1, 1e3 * rates[step]] for step in range(0, len(rates), thin)],
    }


def measure(lab: Lab, *, warmups: tuple[int, int] = (WARMUP, 0), peaks: Sequence[float] = PEAKS) -> dict[str, Any]:
    """`warmups`: of the runs that should have one, and of those that should have none, in updates; `peaks`: of each."""
    pairs = [dict(zip(("with", "without"), (train_warmup(lab, each, peak) for each in warmups), strict=True))
             for peak in peaks]  # fmt: skip
    chosen = min(range(len(peaks)), key=lambda at: abs(peaks[at] - PEAK))
    return {"equation": equation(), "pairs": pairs, "judged": chosen, **pairs[chosen]}


def check(numbers: Numbers) -> list[Check]:
    with_, without = numbers["with"], numbers["without"]
    exact = all(curve["at"] == curve["warmup"] for curve in numbers["equation"])
    paper = numbers["equation"][1]
    same = abs(with_["peak"] - without["peak"]) < LIMITS["equal"] and with_["at"] > without["at"] == 1

    def compare(key: str, holds: bool) -> Check:
        return Check(WORDS(f"checks.{key}", with_=with_[key], without=without[key]), holds)

    return [
        Check(WORDS("checks.equation", at=paper["at"], peak=paper["peak"]), exact),
        Check(WORDS("checks.rate", peak=with_["peak"], at=with_["at"]), same),
        compare("unseen", without["unseen"] > LIMITS["unseen"] * with_["unseen"]),
        compare("letters", without["letters"] < with_["letters"] - LIMITS["letters"]),
    ]


def stand(numbers: Numbers) -> Standing:
    best = max(lane["whole"] for pair in numbers["pairs"] for lane in (pair["with"], pair["without"]))
    return Standing("letters", "right", best, 1, of_share(best, STRINGS))


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
    bars = {
        word("peak", peak=pair["with"]["peak"]): {
            word(f"lane_{which}"): 100 * pair[which]["letters"] for which in names
        }
        for pair in numbers["pairs"]
    }
    updates = word("updates")
    return [
        Picture("warmup-equation", curves_svg(curves, x=updates, y=word("rate4")), WORDS("picture.equation")),
        Picture("warmup-rates", curves_svg(rates, x=updates, y=word("rate3")), WORDS("picture.rates")),
        Picture("warmup-loss", curves_svg(losses, x=updates, y=word("loss")), WORDS("picture.losses")),
        Picture("warmup-letters", bars_svg(bars, x=word("letters"), form="{:.0f}"), WORDS("picture.pairs")),
    ]


def tabulate(numbers: Numbers) -> Table:
    titles = [WORDS(f"table.{key}") for key in ("warmup", "peak", "loss", "unseen", "letters", "whole")]
    rows: list[list[str | Text]] = [
        [
            str(lane["warmup"]), f"{lane['peak']:.4f}", f"{lane['loss']:.3f}", f"{lane['unseen']:.3f}",
            f"{lane['letters']:.0%}", f"{lane['whole']:.0%}",
        ]
        for pair in numbers["pairs"] for lane in (pair["with"], pair["without"])
    ]  # fmt: skip
    return Table(titles, rows)


CLAIM = Claim(
    name="warmup", words=WORDS, measure=measure, check=check, stand=stand, draw=draw, tabulate=tabulate, version=2
)
