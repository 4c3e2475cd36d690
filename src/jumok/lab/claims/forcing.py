"""Taught with the right words before it, used with its own: what teacher forcing gives and hides (section 3)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from jumok.data.batches import pad
from jumok.decoding.hypothesis import NEVER
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab
from jumok.lab.looking import Aligned
from jumok.lab.wording import Text, Words
from jumok.models.base import END, PAD, START
from jumok.reports.attention import curves_svg
from jumok.reports.charts import bars_svg
from jumok.translator import Translator

WORDS = Words.read("forcing")
SENTENCES = 400
TIMED = 64  # sentences that are timed
TIMES = 5
ENOUGH = 20  # sentences that a position must have to be drawn


class Batch(NamedTuple):
    """Sentences as the model reads them, and what it should say."""

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


class Counted:
    """A model whose passes through the decoder, one behind the other, are counted."""

    def __init__(self, module: Any) -> None:
        self.module, self.passes = module, 0

    def together(self, batch: Batch) -> Tensor:
        """Logits (B, T, V) of all positions at once: every position gets the right words before it."""
        self.passes += 1
        memory, padding = self.module.encode(batch.source)
        logits: Tensor = self.module.project(self.module.decode(batch.target, memory, padding))
        return logits

    def one_by_one(self, batch: Batch, follow: Callable[[int, Tensor], Tensor]) -> None:
        """Position by position; `follow` says, from a position and its logits (B, V), which words are read next."""
        state, token = self.module.start(batch.source), batch.target[:, 0]
        for place in range(batch.labels.shape[1]):
            logits, state = self.module.step(token, state)
            self.passes += 1
            token = follow(place, logits)


def likeliest(logits: Tensor) -> Tensor:
    """The word that would be said."""
    allowed = logits.clone()
    allowed[..., list(NEVER)] = -torch.inf
    return allowed.argmax(dim=-1)


@torch.inference_mode()
def run_forced(module: Any, batch: Batch) -> Tensor:
    """What the model says (B, T) when it reads the right words."""
    return likeliest(Counted(module).together(batch))


@torch.inference_mode()
def run_free(module: Any, batch: Batch, feed: str) -> Tensor:
    """What the model says (B, T) when it reads its own words, or those of the `reference`; PAD behind its end."""
    said: list[Tensor] = []
    ended = torch.zeros(len(batch.source), dtype=torch.bool)

    def follow(place: int, logits: Tensor) -> Tensor:
        nonlocal ended
        word = likeliest(logits)
        said.append(word.masked_fill(ended, PAD))
        if feed == "reference":
            return batch.labels[:, place].masked_fill(batch.labels[:, place] == END, PAD)
        ended = ended | (word == END)
        return word.masked_fill(ended, END)

    Counted(module).one_by_one(batch, follow)
    return torch.stack(said, dim=1)


def share(right: Tensor, of: Tensor) -> float:
    return float((right & of).sum() / of.sum().clamp(min=1))


def in_order(said: Sequence[int], right: Sequence[int]) -> int:
    """How many of the right words are said in the right order, wherever they stand (longest common subsequence)."""
    row = [0] * (len(right) + 1)
    for word in said:
        before = list(row)
        for place, wanted in enumerate(right):
            row[place + 1] = before[place] + 1 if word == wanted else max(row[place], before[place + 1])
    return row[-1]


def compared(batch: Batch, forced: Tensor, free: Tensor) -> dict[str, Any]:
    """Both ways of feeding against the reference: overall, by position, early and late, behind the first mistake."""
    real = batch.labels != PAD  # (B, T)
    hits = {"forced": forced == batch.labels, "free": free == batch.labels}
    length, place = real.sum(dim=1, keepdim=True), torch.arange(real.shape[1])[None]
    alive = (hits["free"] | ~real).cumprod(dim=1).bool()  # (B, T) nothing wrong so far
    behind = real & ~torch.cat([torch.ones_like(alive[:, :1]), alive[:, :-1]], dim=1)  # (B, T) of the first mistake
    counted = [t for t in range(real.shape[1]) if int(real[:, t].sum()) >= min(ENOUGH, len(real))]
    early, late = 3 * place < length, 3 * (place + 1) > 2 * length  # the first and the last third
    parts = {"early": real & early, "late": real & late, "behind": behind}
    moved = sum(
        in_order(free[row][first:].tolist(), batch.labels[row][first:][real[row][first:]].tolist())
        for row in range(len(real))
        for first in [int((~behind[row] & real[row]).sum())]
        if behind[row].any()
    )
    return {
        **{name: share(hit, real) for name, hit in hits.items()},
        "moved": moved / max(1, int(behind.sum())),
        **{part: {name: share(hit, where) for name, hit in hits.items()} for part, where in parts.items()},
        "places": [
            {"place": t + 1, **{name: share(hit[:, t], real[:, t]) for name, hit in hits.items()},
             "alive": share(alive[:, t], real[:, t])}
            for t in counted
        ],
        "whole": float(alive[:, -1].float().mean()),
    }  # fmt: skip


def timed(module: Any, batch: Batch) -> dict[str, Any]:
    """The same logits in one pass and in many: how many passes, how long, how far apart.

    Both ways run the same layers, with gradients as in training; the kernels that translate are left aside.
    """
    logits: dict[str, list[Tensor]] = {}

    def together(model: Counted) -> None:
        logits["together"] = list(model.together(batch).unbind(dim=1))

    def one_by_one(model: Counted) -> None:
        made = logits["one_by_one"] = []

        def follow(place: int, now: Tensor) -> Tensor:
            made.append(now)
            return batch.target[:, min(place + 1, batch.target.shape[1] - 1)]

        model.one_by_one(batch, follow)

    found: dict[str, Any] = {}
    for way in (together, one_by_one):
        seconds = []
        for _ in range(TIMES):
            model, began = Counted(module), time.perf_counter()
            way(model)
            seconds.append(time.perf_counter() - began)
        found[way.__name__] = {"passes": model.passes, "seconds": min(seconds)}
    one, many = (torch.stack(logits[name], dim=1).detach().softmax(-1)[batch.labels != PAD] for name in found)
    return found | {"difference": float((one - many).abs().max())}


def shown(model: Translator, phrases: Sequence[Aligned], batch: Batch, forced: Tensor, free: Tensor) -> dict[str, str]:
    """A sentence that goes astray when the model reads its own words."""
    wrong = {name: ((said != batch.labels) & (batch.labels != PAD)).sum(dim=1) for name, said in
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
    """`feed`: what the model reads when it runs free: its own words, or those of the reference."""
    model = lab.train("plain", {"training.steps": lab.steps(700)}).model
    phrases = lab.phrases(SENTENCES)
    batch = Batch.of(model, phrases)
    module = model.model.eval()
    forced, free = run_forced(module, batch), run_free(module, batch, feed)
    return compared(batch, forced, free) | {
        "sentences": len(phrases),
        "time": timed(module, Batch.of(model, phrases[:TIMED])),
        "example": shown(model, phrases, batch, forced, free),
    }


def judge(numbers: Numbers) -> list[Check]:
    behind, early, late, clock = (numbers[key] for key in ("behind", "early", "late", "time"))
    gaps = {name: part["forced"] - part["free"] for name, part in (("early", early), ("late", late))}
    one, many = clock["together"], clock["one_by_one"]
    ratio = many["seconds"] / one["seconds"]
    return [
        Check(
            WORDS("checks.gap", forced=numbers["forced"], free=numbers["free"]),
            numbers["forced"] >= numbers["free"] + 0.02,
        ),
        Check(
            WORDS("checks.behind", **behind, moved=numbers["moved"]),
            behind["forced"] >= behind["free"] + 0.1 and behind["forced"] > numbers["moved"],
        ),
        Check(WORDS("checks.late", **gaps), gaps["late"] >= gaps["early"] + 0.05),
        Check(
            WORDS("checks.same", one=one["passes"], many=many["passes"], difference=clock["difference"]),
            one["passes"] == 1 and many["passes"] > 1 and clock["difference"] < 1e-3,
        ),
        Check(WORDS("checks.time", ratio=ratio), ratio >= 1.5),
    ]


def draw(numbers: Numbers, language: str) -> list[Picture]:
    def word(key: str) -> str:
        return WORDS(f"picture.{key}").of(language)

    curves = {
        word(name): [(float(one["place"]), 100 * one[name]) for one in numbers["places"]]
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
        [WORDS("table.place", place=one["place"]), *(f"{one[name]:.1%}" for name in ("forced", "free", "alive"))]
        for one in numbers["places"][::3]
    ]
    return Table(titles, rows)


CLAIM = Claim(name="forcing", words=WORDS, measure=measure, judge=judge, draw=draw, tabulate=tabulate)
