"""Without the causal mask the decoder copies the answer in training and fails in use (section 3.2.3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from jumok.inside.edits import NOTHING, Edits
from jumok.inside.passes import decode, encode
from jumok.inside.reading import Reader
from jumok.inside.surgery import unmask
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab, Trained
from jumok.lab.wording import Text, Words
from jumok.models import build
from jumok.models.base import START
from jumok.reports.attention import heatmap_svg
from jumok.reports.charts import bars_svg
from jumok.reports.curves import curves_svg

TOKENS = 10
WORDS = Words.read("mask")
SENTENCES = 200


def map_gradients(lab: Lab, *, mask: bool) -> list[list[float]]:
    """The norm of the gradient of output t (row) with respect to decoder input j (column); rows sum to 1."""
    torch.manual_seed(lab.seed)
    model = build(lab.recipe({"model.dropout": 0.0}).model, 40, 40).double()
    reader = Reader(NOTHING if mask else Edits(off=frozenset({"mask"})))
    source = torch.arange(8, 14)[None]
    target = torch.cat([torch.tensor([START]), torch.arange(10, 10 + TOKENS - 1)])[None]
    rows = []
    memory, padding = encode(reader, model, source)
    states = decode(reader, model, target, memory, padding)
    vectors = reader.find_vectors("target")
    direction = torch.randn(states.shape[-1], dtype=states.dtype, generator=torch.Generator().manual_seed(1))
    for t in range(TOKENS):
        [gradient] = torch.autograd.grad((states[0, t] * direction).sum(), vectors, retain_graph=True)
        sizes = gradient[0].norm(dim=-1)
        rows.append((sizes / sizes.sum()).tolist())
    return rows


def measure_run(lab: Lab, run: Trained, *, mask: bool) -> dict[str, Any]:
    map_ = map_gradients(lab, mask=mask)
    last = [loss for _, loss in run.losses[-20:]]
    return {
        "mask": mask,
        "loss": sum(last) / len(last),
        "losses": [[step, loss] for step, loss in run.losses[:: max(1, len(run.losses) // 60)]],
        "bleu": lab.bleu(run.model, SENTENCES),
        "felt": map_,
        "future": sum(map_[t][j] for t in range(TOKENS) for j in range(t + 1, TOKENS)) / TOKENS,
        "said": [
            answer.text for answer in run.model.translate([pair.source for pair in lab.pairs(SENTENCES)[:3]], beam=1)
        ],
    }


def measure(lab: Lab, *, masks: tuple[bool, bool] = (True, False)) -> dict[str, Any]:
    """`masks`: whether the two models, which should be with and without a mask, have one."""
    changes = {"training.steps": lab.steps(700), "training.label_smoothing": 0.0}
    results = {}
    for name, mask in zip(("with", "without"), masks, strict=True):
        run = lab.train(f"{name} mask", changes) if mask else lab.train(f"{name} mask", changes, surgery=unmask)
        results[name] = measure_run(lab, run, mask=mask)
    results["source"] = [pair.source for pair in lab.pairs(SENTENCES)[:3]]  # type: ignore[assignment]
    return results


def check(numbers: Numbers) -> list[Check]:
    with_, without = numbers["with"], numbers["without"]

    def compare(key: str, name: str, holds: bool) -> Check:
        return Check(WORDS(f"checks.{key}", with_=with_[name], without=without[name]), holds)

    return [
        compare("loss", "loss", without["loss"] < 0.5 * with_["loss"]),
        compare("bleu", "bleu", without["bleu"] < 0.5 * with_["bleu"]),
        compare("gradient", "future", with_["future"] == 0.0 and without["future"] > 0.05),
    ]


def draw(numbers: Numbers, language: str) -> list[Picture]:
    names = {which: WORDS(f"picture.{which}").of(language) for which in ("with", "without")}
    losses = {name: [tuple(point) for point in numbers[which]["losses"]] for which, name in names.items()}
    updates, loss = WORDS("picture.updates").of(language), WORDS("picture.loss").of(language)
    bars = {name: {"BLEU": numbers[which]["bleu"]} for which, name in names.items()}
    places = [str(t + 1) for t in range(TOKENS)]
    maps = {which: heatmap_svg(np.array(numbers[which]["felt"]), places, places, title=names[which]) for which in names}
    return [
        Picture("mask-loss", curves_svg(losses, x=updates, y=loss), WORDS("picture.losses")),
        Picture("mask-bleu", bars_svg(bars, x="BLEU"), WORDS("picture.bleu")),
        *(Picture(f"mask-gradient-{which}", svg, WORDS("picture.gradient")) for which, svg in maps.items()),
    ]


def tabulate(numbers: Numbers) -> Table:
    titles = [WORDS("table.mask"), WORDS("table.loss"), Text("BLEU", "BLEU"), WORDS("table.future")]
    rows: list[list[str | Text]] = [
        [
            WORDS(f"table.{'yes' if lane['mask'] else 'no'}"),
            f"{lane['loss']:.3f}",
            f"{lane['bleu']:.1f}",
            f"{lane['future']:.1%}",
        ]
        for lane in (numbers["with"], numbers["without"])
    ]
    return Table(titles, rows)


CLAIM = Claim(name="mask", words=WORDS, measure=measure, check=check, draw=draw, tabulate=tabulate)
