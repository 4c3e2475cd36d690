"""Ways of telling positions, on a task in which only the distance counts (section 3.5, table 3 row E).

One attention layer must say the symbol two places to the left (toys/lookup.py), with and without layer norm, and then
in strings twice as long as those of training.
"""

from __future__ import annotations

from statistics import mean
from typing import Any

import torch

from jumok import messages
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab
from jumok.lab.standing import Standing, over_seeds, tell_runs
from jumok.lab.thresholds import Limits
from jumok.lab.toys import lookup
from jumok.lab.toys.fitting import fit
from jumok.lab.wording import Text, Words
from jumok.nn.positions import sinusoid
from jumok.reports.charts import bars_svg, field_svg

WORDS, LIMITS = Words.read("positions"), Limits.read("positions")
NORMS = ("bare", "norm")  # without and with layer norm before the attention


def train_kind(lab: Lab, kind: str, *, norm: bool) -> dict[str, Any]:
    """Train one kind of positions with every seed: what it gets right within the lengths of training and beyond."""
    runs = []
    for seed in lab.toy_seeds():
        module = fit(
            lambda: lookup.LookUp(kind, norm=norm),
            lambda generator: lookup.strings(generator, lookup.BATCH, lookup.LENGTH),
            steps=lab.steps(lookup.STEPS), seed=seed, check=lab.stop.check,
        )  # fmt: skip
        runs.append(lookup.describe(module, seed + 1))
    return {"kind": kind} | {part: [run[part] for run in runs] for part in ("within", "beyond")}


def measure(lab: Lab, *, without: str = "none", number: str = "number") -> dict[str, Any]:
    """`without`: the positions of the layer that should have none; `number`: of the one that should have the bare t."""
    chosen = {kind: {"none": without, "number": number}.get(kind, kind) for kind in lookup.KINDS}
    lanes: dict[str, Any] = {}
    for norm in NORMS:
        lab.say(messages.text("lab.training", model=f"positions {norm}"))
        lanes[norm] = {name: train_kind(lab, kind, norm=norm == "norm") for name, kind in chosen.items()}
    seeds = lab.toy_seeds()
    written = {part: [lookup.point_back(length, seed) for seed in seeds]
               for part, length in (("within", lookup.LENGTH), ("beyond", lookup.LONG))}  # fmt: skip
    matrix = [[round(value, 3) for value in row] for row in sinusoid(0, 64, 64).tolist()]
    return {"lanes": lanes, "written": written, "length": lookup.LENGTH, "long": lookup.LONG, "matrix": matrix}


def right(numbers: Numbers, norm: str, kind: str, part: str = "within") -> float:
    """The share of right answers of one kind, the mean over the seeds."""
    return mean(numbers["lanes"][norm][kind][part])


def lengths(numbers: Numbers) -> dict[str, int]:
    """The number of places in training, the first beyond them, and the number in the longer strings."""
    return {"length": numbers["length"], "first": numbers["length"] + 1, "long": numbers["long"]}


def check(numbers: Numbers) -> list[Check]:
    length, long = numbers["length"], numbers["long"]
    bare = {kind: right(numbers, "bare", kind) for kind in lookup.KINDS}
    normed = {kind: right(numbers, "norm", kind) for kind in lookup.KINDS}
    far = {kind: right(numbers, "bare", kind, "beyond") for kind in lookup.KINDS}
    written, solved = mean(numbers["written"]["beyond"]), bare["sinusoidal"] >= LIMITS["solved"]

    def build(key: str, part: str, holds: bool, one: float, other: float, **more: Any) -> Check:
        return Check(
            WORDS(f"checks.{key}", one=one, other=other, length=length, first=length + 1, long=long, **more),
            holds,
            part,
        )

    gaps = {name: lane["sinusoidal"] - lane["number"] for name, lane in (("bare", bare), ("norm", normed))}
    return [
        build("none", "needed", solved and bare["none"] <= LIMITS["lost"], bare["none"], bare["sinusoidal"]),
        build("learned", "alike", solved and abs(bare["learned"] - bare["sinusoidal"]) <= LIMITS["alike"],
              bare["learned"], bare["sinusoidal"]),
        build("number", "number", gaps["bare"] >= LIMITS["worse"], bare["number"], bare["sinusoidal"]),
        build("normed", "number", gaps["norm"] >= LIMITS["worse"], normed["number"], normed["sinusoidal"]),
        build("can", "can", written >= LIMITS["written"], written, far["learned"]),
        build("does", "does", far["sinusoidal"] >= LIMITS["carried"] * bare["sinusoidal"] > 0, far["sinusoidal"],
              bare["sinusoidal"], rotary=far["rotary"], alibi=far["alibi"]),
    ]  # fmt: skip


def stand(numbers: Numbers) -> Standing:
    runs = numbers["lanes"]["bare"]["sinusoidal"]["within"]
    return Standing("toy", "right", mean(runs), len(runs), over_seeds(runs), "seeds")


def draw(numbers: Numbers, language: str) -> list[Picture]:
    def word(name: str) -> str:
        return WORDS(f"picture.{name}", **lengths(numbers)).of(language)

    matrix = torch.tensor(numbers["matrix"]).T.numpy()  # a row for each dimension
    within = {
        word(kind): {word(norm): 100 * right(numbers, norm, kind) for norm in NORMS} for kind in lookup.KINDS
    }  # fmt: skip
    beyond = {
        word(kind): {word(part): 100 * right(numbers, "bare", kind, part) for part in ("within", "beyond")}
        for kind in lookup.KINDS
    }
    beyond[word("written")] = {word(part): 100 * mean(numbers["written"][part]) for part in ("within", "beyond")}
    field = field_svg(matrix, x=word("place"), y=word("dimension"))
    return [
        Picture("positions-matrix", field, WORDS("picture.matrix")),
        Picture("positions-within", bars_svg(within, x=word("right"), form="{:.0f}"), WORDS("picture.bars")),
        Picture("positions-beyond", bars_svg(beyond, x=word("right"), form="{:.0f}"), WORDS("picture.longer")),
    ]


def tabulate(numbers: Numbers) -> Table:
    words = lengths(numbers)
    titles = [WORDS(f"table.{name}", **words) for name in ("kind", "bare_within", "norm_within", "bare_beyond")]
    lanes = numbers["lanes"]
    rows: list[list[str | Text]] = [
        [WORDS(f"picture.{kind}", **words), tell_runs(lanes["bare"][kind]["within"]),
         tell_runs(lanes["norm"][kind]["within"]), tell_runs(lanes["bare"][kind]["beyond"])]
        for kind in lookup.KINDS
    ]  # fmt: skip
    written = numbers["written"]
    rows.append([WORDS("picture.written"), tell_runs(written["within"]), "–", tell_runs(written["beyond"])])
    return Table(titles, rows)


CLAIM = Claim(
    name="positions", words=WORDS, measure=measure, check=check, stand=stand, draw=draw, tabulate=tabulate, version=2
)
