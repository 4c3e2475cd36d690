"""One vector for a whole sentence is too little for long sentences; attention removes the bottleneck (sections 1, 2).

A recurrent network reads letters and reverses them.  Without attention its decoder gets a single vector at every
length; with attention, one for each letter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from jumok.data.made import phrasebook
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab, Trained
from jumok.lab.standing import Standing, of_share
from jumok.lab.thresholds import Limits
from jumok.lab.wording import Text, Words
from jumok.models.base import END
from jumok.reports.curves import curves_svg

WORDS, LIMITS = Words.read("bottleneck"), Limits.read("bottleneck")
TASK = "reverse"
STRINGS = 700
LANES = ("without", "with")


def vectors(run: Trained) -> list[list[int]]:
    """The number of source vectors that the decoder can attend to, by length."""
    model = run.model.model.eval()
    with torch.no_grad():
        return [
            [n, model.start(torch.tensor([[8] * n + [END]])).memory.values.shape[2]]  # the letters and END
            for n in range(4, 11)
        ]


def letters(outputs: Sequence[str], wanted: Sequence[str]) -> dict[int, float]:
    """The share of letters in the right position, by length."""
    right: dict[int, list[float]] = defaultdict(list)
    for output, target in zip(outputs, wanted, strict=True):
        answer, truth = output.split(), target.split()
        hits = sum(a == b for a, b in zip(answer, truth, strict=False))
        right[len(truth)].append(hits / max(len(truth), len(answer)))
    return {n: sum(right[n]) / len(right[n]) for n in sorted(right)}


def train_lane(lab: Lab, name: str, changes: Mapping[str, Any]) -> tuple[Trained, dict[str, Any]]:
    """Train a model; returns the run, its accuracy by length and an example."""
    run = lab.train(name, lab.task(TASK, {**changes, "training.steps": lab.steps(600)}))
    pairs = phrasebook.task(TASK, STRINGS, seed=lab.seed + 1_000)
    outputs = [answer.text for answer in run.model.translate([source for source, _ in pairs], beam=1, details=False)]
    right = letters(outputs, [target for _, target in pairs])
    longest = max(range(len(pairs)), key=lambda at: len(pairs[at][0]))
    return run, {
        "right": [[n, 100 * share] for n, share in right.items()],
        "whole": 100 * sum(output == target for output, (_, target) in zip(outputs, pairs, strict=True)) / len(pairs),
        "shown": [*pairs[longest], outputs[longest]],
    }


def measure(lab: Lab, *, without: str = "none", width: int = 64) -> dict[str, Any]:
    """`without`: the attention of the network that should have none; `width`: the size of its single vector."""
    results: dict[str, Any] = {}
    for lane, attention in zip(LANES, (without, "additive"), strict=True):
        changes = {"model.kind": "rnn", "model.attention": attention, "model.d_model": width, "model.dropout": 0.0}
        changes |= {"model.encoder_layers": 1, "model.decoder_layers": 1}
        run, numbers = train_lane(lab, f"rnn attention {attention}", changes)
        results["width"] = lab.recipe(changes).model.d_model
        results[lane] = {"attention": attention, "vectors": vectors(run)} | numbers
    return results


def ends(lane: Mapping[str, Any]) -> tuple[float, float]:
    """The share of right letters in short and in long strings: means of the two shortest and two longest lengths."""
    shares = [share for _, share in lane["right"]]
    return sum(shares[:2]) / 2, sum(shares[-2:]) / 2


def check(numbers: Numbers) -> list[Check]:
    without, with_ = numbers["without"], numbers["with"]
    (short, long), (other_short, other_long) = ends(without), ends(with_)
    single = {count for _, count in without["vectors"]} == {1}
    each = all(count == n + 1 for n, count in with_["vectors"])
    n, looked = with_["vectors"][-1]
    seen = {"n": n, "without": without["vectors"][-1][1], "with_": looked}
    fall = 100 * LIMITS["gap"]
    return [
        Check(WORDS("checks.vectors", width=numbers["width"], **seen), single and each),
        Check(WORDS("checks.falls", short=short, long=long), short - long >= fall),
        Check(
            WORDS("checks.stays", short=other_short, long=other_long),
            other_short - other_long <= LIMITS["stays"] * (short - long),
        ),
        Check(WORDS("checks.apart", without=long, with_=other_long), other_long - long >= 100 * LIMITS["gap"]),
    ]


def stand(numbers: Numbers) -> Standing:
    best = numbers["with"]["whole"] / 100
    return Standing("letters", "right", best, 1, of_share(best, STRINGS))


def draw(numbers: Numbers, language: str) -> list[Picture]:
    names = {lane: WORDS(f"picture.{lane}").of(language) for lane in LANES}
    n = WORDS("picture.n").of(language)
    return [
        Picture(
            f"bottleneck-{key}",
            curves_svg(
                {name: [(a, b) for a, b in numbers[lane][key]] for lane, name in names.items()},
                x=n,
                y=WORDS(f"picture.{key}").of(language),
            ),
            WORDS(f"picture.{key}_seen"),
        )
        for key in ("right", "vectors")
    ]


def tabulate(numbers: Numbers) -> Table:
    lengths = [n for n, _ in numbers["with"]["right"]]
    titles = [WORDS("table.lane"), *(Text(str(n), str(n)) for n in lengths), WORDS("table.whole")]
    rows: list[list[str | Text]] = [
        [
            WORDS(f"picture.{lane}"),
            *(f"{share:.0f}" for _, share in numbers[lane]["right"]),
            f"{numbers[lane]['whole']:.0f}",
        ]
        for lane in LANES
    ]
    return Table(titles, rows)


CLAIM = Claim(
    name="bottleneck",
    words=WORDS,
    measure=measure,
    check=check,
    stand=stand,
    draw=draw,
    tabulate=tabulate,
    version=2,
    understands=(1,),
)
