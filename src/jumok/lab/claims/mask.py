"""Without the causal mask the decoder copies the answer in training and fails in use (section 3.2.3)."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch

from jumok.data.corpora import Pair
from jumok.inside.edits import NOTHING, Edits
from jumok.inside.passes import decode, encode
from jumok.inside.reading import Reader
from jumok.inside.surgery import unmask
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab, Trained
from jumok.lab.standing import Standing
from jumok.lab.thresholds import Limits
from jumok.lab.wording import Text, Words
from jumok.models import build
from jumok.models.base import END, START
from jumok.reports.attention import heatmap_svg
from jumok.reports.charts import bars_svg, row_svg
from jumok.reports.curves import curves_svg

TOKENS = 10
CUT = 60  # characters of a translation that the page shows
WORDS, LIMITS = Words.read("mask"), Limits.read("mask")
SENTENCES, MAPPED, SHOWN = 200, 20, 3  # translated; whose gradients are measured; that the page shows


def map_gradients(model: Any, source: torch.Tensor, target: torch.Tensor, *, mask: bool) -> list[list[float]]:
    """The norm of the gradient of output t (row) with respect to decoder input j (column); rows sum to 1."""
    reader = Reader(NOTHING if mask else Edits(off=frozenset({"mask"})))
    rows = []
    memory, padding = encode(reader, model, source)
    states = decode(reader, model, target, memory, padding)
    vectors = reader.find_vectors("target")
    direction = torch.randn(states.shape[-1], dtype=states.dtype, generator=torch.Generator().manual_seed(1))
    for t in range(target.shape[1]):
        [gradient] = torch.autograd.grad((states[0, t] * direction).sum(), vectors, retain_graph=True)
        sizes = gradient[0].norm(dim=-1)
        rows.append((sizes / sizes.sum()).tolist())
    return rows


def map_untrained(lab: Lab, *, mask: bool) -> list[list[float]]:
    """The gradients of a new model."""
    torch.manual_seed(lab.seed)
    model = build(lab.recipe({"model.dropout": 0.0}).model, 40, 40).double()
    target = torch.cat([torch.tensor([START]), torch.arange(10, 10 + TOKENS - 1)])[None]
    return map_gradients(model, torch.arange(8, 14)[None], target, mask=mask)


def map_trained(run: Trained, pairs: Sequence[Pair], *, mask: bool) -> list[list[list[float]]]:
    """The gradients of a trained model, over unseen sentences."""
    model, both = deepcopy(run.model.model).double().eval(), run.model.vocabularies
    maps = []
    for pair in pairs:
        source = torch.tensor([[*both.source.encode(pair.source), END]])
        target = torch.tensor([[START, *both.target.encode(pair.target)]])
        maps.append(map_gradients(model, source, target, mask=mask))
    return maps


def future_share(rows: Sequence[Sequence[float]]) -> float:
    """The share of an output's gradient that comes from later inputs."""
    return sum(sum(row[t + 1 :]) for t, row in enumerate(rows)) / len(rows)


def measure_run(lab: Lab, run: Trained, *, mask: bool) -> dict[str, Any]:
    map_, pairs = map_untrained(lab, mask=mask), lab.pairs(SENTENCES)
    trained = map_trained(run, pairs[:MAPPED], mask=mask)
    last = [loss for _, loss in run.losses[-20:]]
    return {
        "mask": mask,
        "loss": sum(last) / len(last),
        "losses": [[step, loss] for step, loss in run.losses[:: max(1, len(run.losses) // 60)]],
        **lab.grade(run.model, SENTENCES),
        "felt": map_,
        "future": future_share(map_),
        "trained": trained[0],
        "learned": sum(map(future_share, trained)) / len(trained),
        "said": [answer.text for answer in run.model.translate([pair.source for pair in pairs[:SHOWN]], beam=1)],
    }


def measure(lab: Lab, *, masks: tuple[bool, bool] = (True, False)) -> dict[str, Any]:
    """`masks`: whether the two models, which should be with and without a mask, have one."""
    changes = {"training.steps": lab.steps(700), "training.label_smoothing": 0.0}
    results = {}
    for name, mask in zip(("with", "without"), masks, strict=True):
        run = lab.train(f"{name} mask", changes) if mask else lab.train(f"{name} mask", changes, surgery=unmask)
        results[name] = measure_run(lab, run, mask=mask)
    shown = lab.pairs(SENTENCES)[:SHOWN]
    return results | {"source": [pair.source for pair in shown], "target": [pair.target for pair in shown]}


def check(numbers: Numbers) -> list[Check]:
    with_, without = numbers["with"], numbers["without"]

    def compare(key: str, name: str, holds: bool) -> Check:
        return Check(WORDS(f"checks.{key}", with_=with_[name], without=without[name]), holds)

    return [
        compare("loss", "loss", without["loss"] < LIMITS["loss"] * with_["loss"]),
        compare("bleu", "bleu", without["bleu"] < LIMITS["bleu"] * with_["bleu"]),
        compare("gradient", "future", with_["future"] == 0.0 and without["future"] > LIMITS["future"]),
        compare("learned", "learned", with_["learned"] == 0.0 and without["learned"] > LIMITS["trained"]),
    ]


def stand(numbers: Numbers) -> Standing:
    best = numbers["with"]
    return Standing("phrasebook", "bleu", best["bleu"], 1, best.get("interval"))


def draw(numbers: Numbers, language: str) -> list[Picture]:
    names = {which: WORDS(f"picture.{which}").of(language) for which in ("with", "without")}
    losses = {name: [tuple(point) for point in numbers[which]["losses"]] for which, name in names.items()}
    updates, loss = WORDS("picture.updates").of(language), WORDS("picture.loss").of(language)
    bars = {name: {"BLEU": numbers[which]["bleu"]} for which, name in names.items()}
    maps = {}
    for which, name in names.items():
        for key in ("felt", "trained"):
            places = [str(t + 1) for t in range(len(numbers[which][key]))]
            title = WORDS(f"picture.{key}", model=name).of(language)
            most = float(max(np.max(numbers[each][key]) for each in names))
            maps[which, key] = heatmap_svg(np.array(numbers[which][key]), places, places, title=title, most=most)
    fields = {key: row_svg([maps["with", key], maps["without", key]]) for key in ("trained", "felt")}
    return [
        Picture("mask-loss", curves_svg(losses, x=updates, y=loss), WORDS("picture.losses")),
        Picture("mask-bleu", bars_svg(bars, x="BLEU"), WORDS("picture.bleu")),
        Picture("mask-gradient-trained", fields["trained"], WORDS("picture.gradient_trained")),
        Picture("mask-gradient-new", fields["felt"], WORDS("picture.gradient")),
    ]


def show(numbers: Numbers) -> Table:
    """What both models say; the one without a mask often repeats a word, so what is said is cut."""
    titles = [WORDS(f"shown.{key}") for key in ("source", "target", "with", "without")]
    outputs = [
        [textwrap.shorten(text, CUT, placeholder=" …") for text in numbers[which]["said"]]
        for which in ("with", "without")
    ]
    return Table(titles, [list(row) for row in zip(numbers["source"], numbers["target"], *outputs, strict=True)])


def tabulate(numbers: Numbers) -> Table:
    titles = [
        WORDS("table.mask"),
        WORDS("table.loss"),
        Text("BLEU", "BLEU"),
        WORDS("table.learned"),
        WORDS("table.future"),
    ]
    rows: list[list[str | Text]] = [
        [
            WORDS(f"table.{'yes' if lane['mask'] else 'no'}"),
            f"{lane['loss']:.3f}",
            f"{lane['bleu']:.1f}",
            f"{lane['learned']:.1%}",
            f"{lane['future']:.1%}",
        ]
        for lane in (numbers["with"], numbers["without"])
    ]
    return Table(titles, rows)


CLAIM = Claim(
    name="mask",
    words=WORDS,
    measure=measure,
    check=check,
    stand=stand,
    draw=draw,
    tabulate=tabulate,
    show=show,
    version=2,
)
