"""Trained on correct prefixes, used with its own outputs: what teacher forcing brings and hides (section 3)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from jumok.data.batches import pad
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab
from jumok.lab.looking import Aligned
from jumok.lab.standing import Standing
from jumok.lab.thresholds import Limits
from jumok.lab.wording import Text, Words
from jumok.models.base import END, PAD, START
from jumok.reports.charts import bars_svg
from jumok.reports.curves import curves_svg
from jumok.text.symbols import NEVER
from jumok.translator import Translator

WORDS, LIMITS = Words.read("forcing"), Limits.read("forcing")
SENTENCES = 400
TIMED = 64  # sentences that are timed
TIMES = 5
ENOUGH = 20  # least number of sentences for a position to be drawn


class Batch(NamedTuple):
    """Sentences as the model reads them, and the labels."""

    source: Tensor  # (B, S)
    target: Tensor  # (B, T) begins with START
    labels: Tensor  # (B, T) ends with END

    @classmethod
    def of(cls, model: Translator, phrases: Sequence[Aligned]) -> Batch:
        both = model.vocabularies
        source = pad([both.source.encode(phrase.english) for phrase in phrases], after=END)
        labels = pad([both.target.encode(phrase.korean) for phrase in phrases], after=END)
        target = torch.full_like(labels, PAD)
        target[:, 0] = START
        target[:, 1:] = labels[:, :-1].masked_fill(labels[:, :-1] == END, PAD)
        return cls(source, target, labels)


class PassCounter:
    """A model that counts consecutive passes through its decoder."""

    def __init__(self, module: Any) -> None:
        self.module, self.passes = module, 0

    def together(self, batch: Batch) -> Tensor:
        """Logits (B, T, V) of all positions at once, from the correct prefixes."""
        self.passes += 1
        memory, padding = self.module.encode(batch.source)
        logits: Tensor = self.module.project(self.module.decode(batch.target, memory, padding))
        return logits

    def one_by_one(self, batch: Batch, follow: Callable[[int, Tensor], Tensor]) -> None:
        """Decode position by position; `follow` chooses the next inputs from a position and its logits (B, V)."""
        state, token = self.module.start(batch.source), batch.target[:, 0]
        for position in range(batch.labels.shape[1]):
            logits, state = self.module.step(token, state)
            self.passes += 1
            token = follow(position, logits)


def pick_likeliest(logits: Tensor) -> Tensor:
    """The likeliest token that search may generate."""
    allowed = logits.clone()
    allowed[..., list(NEVER)] = -torch.inf
    return allowed.argmax(dim=-1)


@torch.inference_mode()
def run_forced(module: Any, batch: Batch) -> Tensor:
    """Outputs (B, T) of the model with correct prefixes."""
    return pick_likeliest(PassCounter(module).together(batch))


@torch.inference_mode()
def run_free(module: Any, batch: Batch, feed: str) -> Tensor:
    """Outputs (B, T) of the model with its own outputs, or those of the `reference`, as prefix; PAD after END."""
    outputs: list[Tensor] = []
    ended = torch.zeros(len(batch.source), dtype=torch.bool)

    def follow(position: int, logits: Tensor) -> Tensor:
        nonlocal ended
        word = pick_likeliest(logits)
        outputs.append(word.masked_fill(ended, PAD))
        if feed == "reference":
            return batch.labels[:, position].masked_fill(batch.labels[:, position] == END, PAD)
        ended = ended | (word == END)
        return word.masked_fill(ended, END)

    PassCounter(module).one_by_one(batch, follow)
    return torch.stack(outputs, dim=1)


def share(right: Tensor, of: Tensor) -> float:
    return float((right & of).sum() / of.sum().clamp(min=1))


def in_order(output: Sequence[int], right: Sequence[int]) -> int:
    """The number of right words in the right order, at any position (longest common subsequence)."""
    row = [0] * (len(right) + 1)
    for word in output:
        before = list(row)
        for position, wanted in enumerate(right):
            row[position + 1] = before[position] + 1 if word == wanted else max(row[position], before[position + 1])
    return row[-1]


def compare(batch: Batch, forced: Tensor, free: Tensor) -> dict[str, Any]:
    """Accuracy with both kinds of prefix: overall, by position, early and late, after the first mistake."""
    real = batch.labels != PAD  # (B, T)
    hits = {"forced": forced == batch.labels, "free": free == batch.labels}
    length, position = real.sum(dim=1, keepdim=True), torch.arange(real.shape[1])[None]
    alive = (hits["free"] | ~real).cumprod(dim=1).bool()  # (B, T) no mistake so far
    after = real & ~torch.cat([torch.ones_like(alive[:, :1]), alive[:, :-1]], dim=1)  # (B, T) after the first mistake
    drawn = [t for t in range(real.shape[1]) if int(real[:, t].sum()) >= min(ENOUGH, len(real))]
    early, late = 3 * position < length, 3 * (position + 1) > 2 * length  # the first and the last third
    parts = {"early": real & early, "late": real & late, "behind": after}
    moved = sum(
        in_order(free[row][first:].tolist(), batch.labels[row][first:][real[row][first:]].tolist())
        for row in range(len(real))
        for first in [int((~after[row] & real[row]).sum())]
        if after[row].any()
    )
    return {
        **{name: share(hit, real) for name, hit in hits.items()},
        "moved": moved / max(1, int(after.sum())),
        **{part: {name: share(hit, where) for name, hit in hits.items()} for part, where in parts.items()},
        "places": [
            {"place": t + 1, **{name: share(hit[:, t], real[:, t]) for name, hit in hits.items()},
             "alive": share(alive[:, t], real[:, t])}
            for t in drawn
        ],
        "whole": float(alive[:, -1].float().mean()),
    }  # fmt: skip


def time_passes(module: Any, batch: Batch) -> dict[str, Any]:
    """The same logits in one pass and in many: numbers of passes, seconds, largest difference of probabilities.

    Both run the same layers, with gradients as in training, and without the kernels for translation.
    """
    logits: dict[str, list[Tensor]] = {}

    def together(model: PassCounter) -> None:
        logits["together"] = list(model.together(batch).unbind(dim=1))

    def one_by_one(model: PassCounter) -> None:
        steps = logits["one_by_one"] = []

        def follow(position: int, now: Tensor) -> Tensor:
            steps.append(now)
            return batch.target[:, min(position + 1, batch.target.shape[1] - 1)]

        model.one_by_one(batch, follow)

    times: dict[str, Any] = {}
    for run in (together, one_by_one):
        seconds = []
        for _ in range(TIMES):
            model, began = PassCounter(module), time.perf_counter()
            run(model)
            seconds.append(time.perf_counter() - began)
        times[run.__name__] = {"passes": model.passes, "seconds": min(seconds)}
    single, many = (torch.stack(logits[name], dim=1).detach().softmax(-1)[batch.labels != PAD] for name in times)
    return times | {"difference": float((single - many).abs().max())}


def pick_example(
    model: Translator, phrases: Sequence[Aligned], batch: Batch, forced: Tensor, free: Tensor
) -> dict[str, str]:
    """A sentence that goes wrong when the model reads its own outputs."""
    wrong = {name: ((outputs != batch.labels) & (batch.labels != PAD)).sum(dim=1) for name, outputs in
             (("forced", forced), ("free", free))}  # fmt: skip
    row = int(((wrong["free"] - wrong["forced"]) * 100 - (batch.labels != PAD).sum(dim=1)).argmax())
    real = batch.labels[row] != PAD

    def text(ids: Tensor) -> str:
        return model.vocabularies.target.decode([token for token in ids.tolist() if token not in (PAD, END)])

    return {
        "source": phrases[row].english,
        "reference": phrases[row].korean,
        "forced": text(forced[row][real]),
        "free": text(free[row]),
    }


def measure(lab: Lab, *, feed: str = "own") -> dict[str, Any]:
    """`feed`: the prefixes in free running: own outputs, or the reference."""
    model = lab.train("plain", {"training.steps": lab.steps(700)}).model
    phrases = lab.phrases(SENTENCES)
    batch = Batch.of(model, phrases)
    module = model.model.eval()
    forced, free = run_forced(module, batch), run_free(module, batch, feed)
    return compare(batch, forced, free) | {
        "sentences": len(phrases),
        "graded": lab.grade(model),
        "time": time_passes(module, Batch.of(model, phrases[:TIMED])),
        "example": pick_example(model, phrases, batch, forced, free),
    }


def check(numbers: Numbers) -> list[Check]:
    after, early, late, clock = (numbers[key] for key in ("behind", "early", "late", "time"))
    gaps = {name: part["forced"] - part["free"] for name, part in (("early", early), ("late", late))}
    single, many = clock["together"], clock["one_by_one"]
    ratio = many["seconds"] / single["seconds"]
    return [
        Check(
            WORDS("checks.gap", forced=numbers["forced"], free=numbers["free"]),
            numbers["forced"] >= numbers["free"] + LIMITS["gap"],
        ),
        Check(
            WORDS("checks.behind", **after, moved=numbers["moved"]),
            after["forced"] >= after["free"] + LIMITS["behind"] and after["forced"] > numbers["moved"],
        ),
        Check(WORDS("checks.late", **gaps), gaps["late"] >= gaps["early"] + LIMITS["late"]),
        Check(
            WORDS("checks.same", one=single["passes"], many=many["passes"], difference=clock["difference"]),
            single["passes"] == 1 and many["passes"] > 1 and clock["difference"] < LIMITS["same"],
        ),
        Check(WORDS("checks.time", ratio=ratio), ratio >= LIMITS["time"]),
    ]


def stand(numbers: Numbers) -> Standing:
    graded = numbers.get("graded", {})
    return Standing("phrasebook", "bleu", graded.get("bleu"), 1, graded.get("interval"))


def draw(numbers: Numbers, language: str) -> list[Picture]:
    def word(key: str) -> str:
        return WORDS(f"picture.{key}").of(language)

    curves = {
        word(name): [(float(point["place"]), 100 * point[name]) for point in numbers["places"]]
        for name in ("forced", "free", "alive")
    }
    parts = {
        word(part): {word(name): 100 * numbers[part][name] for name in ("forced", "free")}
        for part in ("early", "late", "behind")
    }
    clock = {word(name): {word("milliseconds"): 1000 * numbers["time"][name]["seconds"]} for name in
             ("together", "one_by_one")}  # fmt: skip
    return [
        Picture(
            "forcing-places",
            curves_svg(curves, x=word("place"), y=word("right")),
            WORDS("picture.places", **numbers["example"]),
        ),
        Picture("forcing-parts", bars_svg(parts, x=word("right"), form="{:.1f}"), WORDS("picture.parts")),
        Picture("forcing-time", bars_svg(clock, x=word("milliseconds"), form="{:.1f}"), WORDS("picture.time")),
    ]


def tabulate(numbers: Numbers) -> Table:
    titles = [WORDS(f"table.{key}") for key in ("where", "forced", "free", "alive")]
    rows: list[list[str | Text]] = [
        [WORDS("table.all"), f"{numbers['forced']:.1%}", f"{numbers['free']:.1%}", f"{numbers['whole']:.1%}"]
    ]
    rows += [
        [WORDS(f"table.{part}"), f"{numbers[part]['forced']:.1%}", f"{numbers[part]['free']:.1%}", ""]
        for part in ("early", "late", "behind")
    ]
    rows += [
        [WORDS("table.place", place=point["place"]), *(f"{point[name]:.1%}" for name in ("forced", "free", "alive"))]
        for point in numbers["places"][::3]
    ]
    return Table(titles, rows)


CLAIM = Claim(
    name="forcing",
    words=WORDS,
    measure=measure,
    check=check,
    stand=stand,
    draw=draw,
    tabulate=tabulate,
    version=2,
    understands=(1,),
)
