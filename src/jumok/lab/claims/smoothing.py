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
from jumok.reports.attention import curves_svg
from jumok.reports.charts import bars_svg
from jumok.translator import Translator

WORDS = Words.read("smoothing")
PAIRS, SENTENCES, BINS = 4_000, 500, 10
KEYS = ("perplexity", "bleu", "sure", "right")


@torch.no_grad()
def certainty(model: Translator, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Of all next words of the references: how probable the likeliest word is, how often it is the right one, and
    how the probabilities are spread over ten bins."""
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


def tried(lab: Lab, smoothing: float, seed: int) -> dict[str, Any]:
    """One run: perplexity, BLEU and how sure it is, on unseen sentences."""
    changes = {
        "seed": seed,
        "data.pairs": PAIRS,
        "training.label_smoothing": smoothing,
        "training.steps": lab.steps(600),
        "training.validations": 1,
    }
    run = lab.train(f"smoothing {smoothing}, seed {seed}", changes)
    pairs = lab.pairs(SENTENCES)
    found = evaluate(run.model, pairs=pairs, beam=4, perplexity=True)
    return {"perplexity": found.perplexity, "bleu": found.bleu, **certainty(run.model, pairs)}


def measure(lab: Lab, *, smoothings: tuple[float, float] = (0.0, 0.1), seeds: int = 3) -> dict[str, Any]:
    """`smoothings`: of the models that are said to have none, and of those that are; `seeds` of each are trained."""
    found: dict[str, Any] = {}
    for name, smoothing in zip(("without", "with"), smoothings, strict=True):
        runs = [tried(lab, smoothing, lab.seed + number) for number in range(seeds)]
        middle = {key: mean(run[key] for run in runs) for key in KEYS}
        spread = [mean(bars) for bars in zip(*(run["spread"] for run in runs), strict=True)]
        found[name] = {"smoothing": smoothing, "runs": runs, **middle, "spread": spread}
    return found


def gain(numbers: Numbers) -> tuple[float, float]:
    """What smoothing brings in BLEU, and the standard error of that over the seeds (0 of a single one)."""
    pairs = zip(numbers["with"]["runs"], numbers["without"]["runs"], strict=True)
    gains = [with_["bleu"] - without["bleu"] for with_, without in pairs]
    return mean(gains), stdev(gains) / sqrt(len(gains)) if len(gains) > 1 else 0.0


def judge(numbers: Numbers) -> list[Check]:
    with_, without = numbers["with"], numbers["without"]
    more, error = gain(numbers)

    def told(key: str, holds: bool, **more: Any) -> Check:
        values = {"with_": with_[key], "without": without[key], "smoothing": with_["smoothing"], **more}
        return Check(WORDS(f"checks.{key}", **values), holds)

    return [
        told("sure", with_["sure"] < without["sure"] - 0.02),
        told("perplexity", with_["perplexity"] > 1.02 * without["perplexity"]),
        told("bleu", more > error, error=error, gain=more),
    ]


def draw(numbers: Numbers, language: str) -> list[Picture]:
    def word(key: str) -> str:
        return WORDS(f"picture.{key}").of(language)

    names = {which: word(which) for which in ("without", "with")}
    spread = {
        name: [((place + 0.5) / BINS, 100 * share) for place, share in enumerate(numbers[which]["spread"])]
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
            f"{one['smoothing']:g}", str(number), f"{run['perplexity']:.3f}", f"{run['bleu']:.1f}",
            f"{run['sure']:.1%}", f"{run['right']:.1%}",
        ]
        for one in (numbers["without"], numbers["with"])
        for number, run in enumerate(one["runs"], 1)
    ]  # fmt: skip
    return Table(titles, rows)


CLAIM = Claim(name="smoothing", words=WORDS, measure=measure, judge=judge, draw=draw, tabulate=tabulate)
