"""One vector for a whole sentence is too little when the sentence is long; attention corrects that (sections 1 and 2).

A recurrent network reads letters and says them again.  Without attention its decoder gets one vector, whatever the
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
from jumok.lab.wording import Text, Words
from jumok.models.base import END
from jumok.reports.attention import curves_svg

WORDS = Words.read("bottleneck")
TASK = "reverse"
STRINGS = 700
LANES = ("without", "with")


def vectors(run: Trained) -> list[list[int]]:
    """How many vectors of the source the decoder can look at, by length."""
    model = run.model.model.eval()
    with torch.no_grad():
        return [
            [n, model.start(torch.tensor([[8] * n + [END]])).memory.words.shape[2]]  # as many, and the end
            for n in range(4, 11)
        ]


def letters(said: Sequence[str], wanted: Sequence[str]) -> dict[int, float]:
    """The share of letters that stand where they should, by length."""
    right: dict[int, list[float]] = defaultdict(list)
    for one, other in zip(said, wanted, strict=True):
        answer, truth = one.split(), other.split()
        hits = sum(a == b for a, b in zip(answer, truth, strict=False))
        right[len(truth)].append(hits / max(len(truth), len(answer)))
    return {n: sum(right[n]) / len(right[n]) for n in sorted(right)}


def tried(lab: Lab, name: str, changes: Mapping[str, Any]) -> tuple[Trained, dict[str, Any]]:
    """One model: letters right by length."""
    run = lab.train(name, lab.task(TASK, {**changes, "training.steps": lab.steps(600)}))
    pairs = phrasebook.task(TASK, STRINGS, seed=lab.seed + 1_000)
    said = [one.text for one in run.model.translate([source for source, _ in pairs], beam=1, details=False)]
    right = letters(said, [target for _, target in pairs])
    longest = max(range(len(pairs)), key=lambda at: len(pairs[at][0]))
    return run, {
        "right": [[n, 100 * share] for n, share in right.items()],
        "whole": 100 * sum(one == target for one, (_, target) in zip(said, pairs, strict=True)) / len(pairs),
        "shown": [*pairs[longest], said[longest]],
    }


def measure(lab: Lab, *, without: str = "none", width: int = 64) -> dict[str, Any]:
    """`without`: the attention of the network that is said to have none; `width`: numbers in its one vector."""
    found: dict[str, Any] = {}
    for lane, attention in zip(LANES, (without, "additive"), strict=True):
        changes = {"model.kind": "rnn", "model.attention": attention, "model.d_model": width, "model.dropout": 0.0}
        changes |= {"model.encoder_layers": 1, "model.decoder_layers": 1}
        run, numbers = tried(lab, f"rnn attention {attention}", changes)
        found["width"] = lab.recipe(changes).model.d_model
        found[lane] = {"attention": attention, "vectors": vectors(run)} | numbers
    return found


def ends(lane: Mapping[str, Any]) -> tuple[float, float]:
    """Letters right in short and in long strings: means of the two shortest and of the two longest."""
    shares = [share for _, share in lane["right"]]
    return sum(shares[:2]) / 2, sum(shares[-2:]) / 2


def judge(numbers: Numbers) -> list[Check]:
    without, with_ = numbers["without"], numbers["with"]
    (short, long), (other_short, other_long) = ends(without), ends(with_)
    one = {count for _, count in without["vectors"]} == {1}
    each = all(count == n + 1 for n, count in with_["vectors"])
    n, looked = with_["vectors"][-1]
    seen = {"n": n, "without": without["vectors"][-1][1], "with_": looked}
    return [
        Check(WORDS("checks.vectors", width=numbers["width"], **seen), one and each),
        Check(WORDS("checks.falls", short=short, long=long), short - long >= 10),
        Check(
            WORDS("checks.stays", short=other_short, long=other_long), other_short - other_long <= (short - long) / 2
        ),
        Check(WORDS("checks.apart", without=long, with_=other_long), other_long - long >= 10),
    ]


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


CLAIM = Claim(name="bottleneck", words=WORDS, measure=measure, judge=judge, draw=draw, tabulate=tabulate)
