"""Label smoothing makes a model less sure: its perplexity is worse and its translations are better (section 5.4).

The last part can only be tested on a model that is overconfident, so the calibration error comes first.
"""

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
from jumok.lab.standing import Standing, over_seeds
from jumok.lab.thresholds import Limits
from jumok.lab.wording import Text, Words
from jumok.models.base import PAD
from jumok.reports.charts import bars_svg
from jumok.reports.curves import curves_svg
from jumok.translator import Translator

WORDS, LIMITS = Words.read("smoothing"), Limits.read("smoothing")
PAIRS, SENTENCES, BINS = 4_000, 500, 10
KEYS = ("perplexity", "bleu", "sure", "right", "calibration")
DECIDING_UPDATES, DECIDING_SEEDS = 9_600, 5  # of a run that would decide whether BLEU gets better, and how many of each


@torch.no_grad()
def certainty(model: Translator, pairs: Sequence[Pair]) -> dict[str, Any]:
    """For all next words of the references: the mean probability of the likeliest word, how often it is right, the
    distribution of these probabilities over ten bins, and the expected calibration error.

    The latter is the distance between confidence and accuracy in each bin, weighted by the share of words in it (Guo et
    al. 2017).
    """
    sources = model.vocabularies.source.encode_all([pair.source for pair in pairs])
    targets = model.vocabularies.target.encode_all([pair.target for pair in pairs])
    source, target, labels = teacher_force(sources, targets)
    module = model.model.eval()
    real = labels != PAD  # (B, T)
    sure, word = module.project(module.hidden(source, target)[real]).softmax(dim=-1).max(dim=-1)  # (N,)
    right = (word == labels[real]).float()
    spread = torch.histc(sure.float(), BINS, 0.0, 1.0) / len(sure)
    return {
        "sure": float(sure.mean()),
        "right": float(right.mean()),
        "spread": spread.tolist(),
        "calibration": calibration_error(sure.float(), right),
    }


def calibration_error(sure: torch.Tensor, right: torch.Tensor) -> float:
    """The expected calibration error of confidences (N,) of which each is right (1) or wrong (0), over ten bins.

    >>> round(calibration_error(torch.tensor([0.95, 0.95]), torch.tensor([1.0, 0.0])), 2)
    0.45
    """
    bins = (sure * BINS).long().clamp(max=BINS - 1)  # (N,)
    gaps = torch.zeros(BINS).index_add_(0, bins, sure - right)
    return float(gaps.abs().sum() / len(sure))


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
    return {
        "perplexity": scores.perplexity, "bleu": scores.bleu, "seconds": run.seconds / lab.steps(600),
        **certainty(run.model, pairs),
    }  # fmt: skip


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


def hours_to_decide(numbers: Numbers) -> float:
    """Hours on this machine of runs that would decide, by the time of an update here."""
    seconds = mean(run["seconds"] for name in ("with", "without") for run in numbers[name]["runs"])
    return 2 * DECIDING_SEEDS * DECIDING_UPDATES * seconds / 3_600


def check(numbers: Numbers) -> list[Check]:
    with_, without = numbers["with"], numbers["without"]
    more, error = gain(numbers)

    def compare(key: str, holds: bool | None, decide: Text | None = None, **more: Any) -> Check:
        values = {"with_": with_[key], "without": without[key], "smoothing": with_["smoothing"], **more}
        return Check(WORDS(f"checks.{key}", **values), holds, key, decide)

    surplus = without["sure"] - without["right"]
    overconfident = surplus >= LIMITS["overconfident"]
    size = {"updates": DECIDING_UPDATES, "seeds": DECIDING_SEEDS, "hours": hours_to_decide(numbers)}
    bleu = {"error": error, "gain": more, "calibration": without["calibration"], "surplus": 100 * surplus}
    return [
        compare("sure", with_["sure"] < without["sure"] - LIMITS["less_sure"]),
        compare("perplexity", with_["perplexity"] > LIMITS["perplexity"] * without["perplexity"]),
        compare("bleu", more > error if overconfident else None,
                None if overconfident else WORDS("decide.bleu", **size), **bleu),
    ]  # fmt: skip


def stand(numbers: Numbers) -> Standing:
    runs = [run["bleu"] for run in numbers["without"]["runs"]]
    return Standing("phrasebook", "bleu", mean(runs), len(runs), over_seeds(runs), "seeds")


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
    pairs = list(zip(numbers["with"]["runs"], numbers["without"]["runs"], strict=True))
    gains = {
        WORDS("picture.seed_of", seed=number).of(language): {"BLEU": with_["bleu"] - without["bleu"]}
        for number, (with_, without) in enumerate(pairs, 1)
    }
    return [
        Picture("smoothing-sure", bars_svg(shares, x="%", form="{:.1f}"), WORDS("picture.sureness")),
        Picture("smoothing-spread", curves_svg(spread, x=word("probability"), y=word("share")), WORDS("picture.bins")),
        Picture("smoothing-perplexity", bars_svg(perplexity, x=word("perplexity")), WORDS("picture.worse")),
        Picture("smoothing-bleu", bars_svg(gains, x=word("difference"), form="{:+.1f}"), WORDS("picture.better")),
    ]


def tabulate(numbers: Numbers) -> Table:
    titles = [WORDS(f"table.{key}") for key in ("smoothing", "seed", "perplexity")]
    titles += [Text("BLEU", "BLEU"), WORDS("table.sure"), WORDS("table.right"), WORDS("table.calibration")]
    rows = [
        [
            f"{lane['smoothing']:g}", str(number), f"{run['perplexity']:.3f}", f"{run['bleu']:.1f}",
            f"{run['sure']:.1%}", f"{run['right']:.1%}", f"{run['calibration']:.3f}",
        ]
        for lane in (numbers["without"], numbers["with"])
        for number, run in enumerate(lane["runs"], 1)
    ]  # fmt: skip
    return Table(titles, rows)


CLAIM = Claim(
    name="smoothing", words=WORDS, measure=measure, check=check, stand=stand, draw=draw, tabulate=tabulate, version=2
)
