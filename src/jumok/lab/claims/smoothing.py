"""Label smoothing makes a model less sure: its perplexity is worse and its translations are better (section 5.4)."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import mean, stdev
from typing import Any

import torch

from jumok.data.batches import teacher_force
from jumok.data.corpora import Pair
from jumok.evaluation.evaluate import evaluate
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab
from jumok.lab.wording import Text, Words
from jumok.models.base import PAD
from jumok.reports.charts import bars_svg
from jumok.reports.curves import curves_svg
from jumok.translator import Translator

WORDS = Words.read("smoothing")
PAIRS, SENTENCES, BINS = 4_000, 500, 10
KEYS = ("perplexity", "bleu", "sure", "right")


@torch.no_grad()
def certainty(model: Translator, pairs: Sequence[Pair]) -> dict[str, Any]:
    """For all next words of the references: the mean probability of the likeliest word, how often it is right, and
    the distribution of these probabilities over ten bins."""
    sources = model.vocabularies.source.encode_all([pair.source for pair in pairs])
    targets = model.vocabularies.target.encode_all([pair.target for pair in pairs])
    source, target, labels = teacher_force(sources, targets)
    module = model.model.eval()
    real = labels != PAD  # (B, T)
    sure, word = module.project(module.hidden(source, target)[real]).softmax(dim=-1).max(dim=-1)  # (N,)
    spread = torch.histc(sure.float(), BINS, 0.0, 1.0) / len(sure)
    return {
        "sure": float(sure.mean()),
        "right": float((word == labels[real]).float().mean()),
        "spread": spread.tolist(),
    }


def train_run(lab: Lab, smoothing: float, seed: int) -> dict[str, Any]:
    """Train a model: perplexity, BLEU and confidence on unseen sentences."""
    changes = {
        "seed": seed,
        "data.pairs": PAIRS,
        "training.label_smoothing": smoothing,
        "training.steps": lab.steps(600),
        "training.validations": 1,
    }
    run = lab.train(f"smoothing {smoothing}, seed {seed}", changes)
    pairs = lab.pairs(SENTENCES)
    scores = evaluate(run.model, pairs=pairs, beam=4, perplexity=True)
    return {"perplexity": scores.perplexity, "bleu": scores.bleu, **certainty(run.model, pairs)}


def measure(lab: Lab, *, smoothings: tuple[float, float] = (0.0, 0.1), seeds: int = 3) -> dict[str, Any]:
    """`smoothings`: of the models that should have none, and of the others; `seeds`: runs of each."""
    results: dict[str, Any] = {}
    for name, smoothing in zip(("without", "with"), smoothings, strict=True):
        runs = [train_run(lab, smoothing, lab.seed + number) for number in range(seeds)]
        middle = {key: mean(run[key] for run in runs) for key in KEYS}
        spread = [mean(bars) for bars in zip(*(run["spread"] for run in runs), strict=True)]
        results[name] = {"smoothing": smoothing, "runs": runs, **middle, "spread": spread}
    return results


def gain(numbers: Numbers) -> tuple[float, float]:
    """The gain in BLEU from smoothing, and its standard error over the seeds (0 for a single one)."""
    pairs = zip(numbers["with"]["runs"], numbers["without"]["runs"], strict=True)
    gains = [with_["bleu"] - without["bleu"] for with_, without in pairs]
    return mean(gains), stdev(gains) / sqrt(len(gains)) if len(gains) > 1 else 0.0


def check(numbers: Numbers) -> list[Check]:
    with_, without = numbers["with"], numbers["without"]
    more, error = gain(numbers)

    def compare(key: str, holds: bool, **more: Any) -> Check:
        values = {"with_": with_[key], "without": without[key], "smoothing": with_["smoothing"], **more}
        return Check(WORDS(f"checks.{key}", **values), holds)

    return [
        compare("sure", with_["sure"] < without["sure"] - 0.02),
        compare("perplexity", with_["perplexity"] > 1.02 * without["perplexity"]),
        compare("bleu", more > error, error=error, gain=more),
    ]


def draw(numbers: Numbers, language: str) -> list[Picture]:
    def word(key: str) -> str:
        return WORDS(f"picture.{key}").of(language)

    names = {which: word(which) for which in ("without", "with")}
    spread = {
        name: [((number + 0.5) / BINS, 100 * share) for number, share in enumerate(numbers[which]["spread"])]
        for which, name in names.items()
    }
    shares = {
        word(key): {name: 100 * numbers[which][key] for which, name in names.items()} for key in ("sure", "right")
    }
    perplexity = {name: {word("perplexity"): numbers[which]["perplexity"]} for which, name in names.items()}
    bleu = {name: {"BLEU": numbers[which]["bleu"]} for which, name in names.items()}
    return [
        Picture("smoothing-sure", bars_svg(shares, x="%", form="{:.1f}"), WORDS("picture.sureness")),
        Picture("smoothing-spread", curves_svg(spread, x=word("probability"), y=word("share")), WORDS("picture.bins")),
        Picture("smoothing-perplexity", bars_svg(perplexity, x=word("perplexity")), WORDS("picture.worse")),
        Picture("smoothing-bleu", bars_svg(bleu, x="BLEU", form="{:.1f}"), WORDS("picture.better")),
    ]


def tabulate(numbers: Numbers) -> Table:
    titles = [WORDS(f"table.{key}") for key in ("smoothing", "seed", "perplexity")]
    titles += [Text("BLEU", "BLEU"), WORDS("table.sure"), WORDS("table.right")]
    rows = [
        [
            f"{lane['smoothing']:g}", str(number), f"{run['perplexity']:.3f}", f"{run['bleu']:.1f}",
            f"{run['sure']:.1%}", f"{run['right']:.1%}",
        ]
        for lane in (numbers["without"], numbers["with"])
        for number, run in enumerate(lane["runs"], 1)
    ]  # fmt: skip
    return Table(titles, rows)


CLAIM = Claim(name="smoothing", words=WORDS, measure=measure, check=check, draw=draw, tabulate=tabulate)
