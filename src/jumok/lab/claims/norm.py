"""Layer norm uses one word, batch norm all sentences of a batch (section 3.1), which hurts in small batches.

Perplexity and BLEU need not agree about it, so both are judged, in parts of their own.
"""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

import torch

from jumok.data.batches import pad
from jumok.data.made import phrasebook
from jumok.evaluation.evaluate import perplexity_of
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab, Trained
from jumok.lab.standing import Standing, tell_bleu
from jumok.lab.thresholds import Limits
from jumok.lab.wording import Text, Words
from jumok.models.base import END
from jumok.reports.charts import bars_svg
from jumok.reports.curves import curves_svg
from jumok.translator import Translator

WORDS, LIMITS = Words.read("norm"), Limits.read("norm")
SENTENCES = 200
COMPANY = (1, 3, 7, 15, 31, 63)  # numbers of other sentences in the batch
SHOWN = 7  # the number that is checked
SAMPLES = 12  # random batches of each size
UPDATES = {"small": (128, 800), "large": (1_024, 350)}  # tokens per update, and updates


@torch.no_grad()
def measure_disturbance(model: Translator, seed: int) -> list[list[float]]:
    """How much the encoder's output for one sentence in training mode depends on the rest of the batch.

    For each number of neighbours: the standard deviation over several batches, relative to that of all vectors, in
    double precision.
    """
    phrases = phrasebook.phrases("test", 200, seed=seed)
    ids = model.vocabularies.source.encode_all([phrase.english for phrase in phrases])
    module = deepcopy(model.model).double().train()
    random, shares = Random(seed), []
    for neighbours in COMPANY:
        vectors = []
        for _ in range(SAMPLES):
            memory, _ = module.encode(pad([ids[0], *random.sample(ids[1:], neighbours)], after=END))
            vectors.append(memory[0, : len(ids[0]) + 1])
        stacked = torch.stack(vectors)  # (draws, S, D)
        shares.append([neighbours, float(stacked.std(dim=0).mean() / stacked.std())])
    return shares


def score(lab: Lab, run: Trained) -> dict[str, Any]:
    """Perplexity and BLEU on unseen sentences."""
    pairs = lab.pairs(SENTENCES)
    return {"perplexity": perplexity_of(run.model, pairs), **lab.grade(run.model, SENTENCES)}


def train_norm(lab: Lab, norm: str) -> dict[str, Any]:
    """Train with one norm, with small and with large batches, and measure the influence of neighbours."""
    results: dict[str, Any] = {"norm": norm}
    for size, (tokens, updates) in UPDATES.items():
        changes = {
            "model.norm": norm,
            "training.tokens_per_update": tokens,
            "data.tokens_per_batch": tokens,
            "training.steps": lab.steps(updates),
            "training.validations": 1,
        }
        run = lab.train(f"{norm} norm, {tokens} tokens", changes)
        results[size] = score(lab, run)
        if size == "large":
            results["disturbed"] = measure_disturbance(run.model, lab.seed)
    return results


def measure(lab: Lab, *, norms: tuple[str, str] = ("layer", "batch")) -> dict[str, Any]:
    """`norms`: of the models that should have layer and batch norm."""
    return {name: train_norm(lab, norm) for name, norm in zip(("layer", "batch"), norms, strict=True)}


def worse(numbers: Numbers, size: str) -> float:
    """The ratio of the perplexities of batch norm and layer norm."""
    return float(numbers["batch"][size]["perplexity"] / numbers["layer"][size]["perplexity"])


def company(lane: Numbers) -> float:
    """The influence of `SHOWN` neighbours on a sentence."""
    return float(dict(map(tuple, lane["disturbed"]))[SHOWN])


def check(numbers: Numbers) -> list[Check]:
    layer, batch = numbers["layer"], numbers["batch"]
    moved = {"layer": company(layer), "batch": company(batch), "neighbours": SHOWN}
    small = {name: numbers[name]["small"]["perplexity"] for name in ("layer", "batch")}
    ratios = {size: worse(numbers, size) for size in UPDATES}
    scores = {f"{name}_{size}": numbers[name][size]["bleu"] for name in ("layer", "batch") for size in UPDATES}
    better = all(layer[size]["bleu"] > batch[size]["bleu"] for size in UPDATES)
    alone = moved["layer"] < LIMITS["none"] and moved["batch"] > LIMITS["neighbours"]
    return [
        Check(WORDS("checks.neighbours", **moved), alone, "neighbours"),
        Check(
            WORDS("checks.small", tokens=UPDATES["small"][0], **small), ratios["small"] > LIMITS["small"], "perplexity"
        ),
        Check(WORDS("checks.larger", **ratios), ratios["small"] > LIMITS["larger"] * ratios["large"], "perplexity"),
        Check(WORDS("checks.bleu", **scores), better, "bleu"),
    ]


def stand(numbers: Numbers) -> Standing:
    best = max((numbers[which]["large"] for which in ("layer", "batch")), key=lambda lane: float(lane["bleu"]))
    return Standing("phrasebook", "bleu", best["bleu"], 1, best.get("interval"))


def draw(numbers: Numbers, language: str) -> list[Picture]:
    def word(key: str, **values: Any) -> str:
        return WORDS(f"picture.{key}", **values).of(language)

    norms = {name: word(name) for name in ("layer", "batch")}
    moved = {
        name: [(count, 100 * share) for count, share in numbers[which]["disturbed"]] for which, name in norms.items()
    }
    bars = {
        word("tokens", tokens=tokens): {name: numbers[which][size]["perplexity"] for which, name in norms.items()}
        for size, (tokens, _) in UPDATES.items()
    }
    scores = {
        word("tokens", tokens=tokens): {name: numbers[which][size]["bleu"] for which, name in norms.items()}
        for size, (tokens, _) in UPDATES.items()
    }
    return [
        Picture("norm-company", curves_svg(moved, x=word("neighbours"), y=word("moved")), WORDS("picture.company")),
        Picture("norm-batches", bars_svg(bars, x=word("perplexity")), WORDS("picture.batches")),
        Picture("norm-bleu", bars_svg(scores, x="BLEU", form="{:.1f}"), WORDS("picture.bleu")),
    ]


def tabulate(numbers: Numbers) -> Table:
    titles = [WORDS(f"table.{key}") for key in ("model", "tokens", "perplexity")] + [Text("BLEU", "BLEU")]
    rows: list[list[str | Text]] = [
        [
            WORDS(f"picture.{which}"), f"{tokens:,}", f"{numbers[which][size]['perplexity']:.3f}",
            tell_bleu(numbers[which][size]),
        ]
        for size, (tokens, _) in UPDATES.items()
        for which in ("layer", "batch")
    ]  # fmt: skip
    return Table(titles, rows)


CLAIM = Claim(
    name="norm", words=WORDS, measure=measure, check=check, stand=stand, draw=draw, tabulate=tabulate, version=2
)
