"""The laboratory of claims: a folder, a scale, and small models that are trained once and reused.

    lab = Lab("runs/lab", scale="quick")
    run = lab.train("with positions", {"model.positions": "sinusoidal", "training.steps": lab.steps(400)})
    run.model.translate("He hits me."), run.losses, run.scores

Each training is an ordinary run in a separate folder (runs/experiment.py), so one that was stopped continues, and two
claims that need the same model share it.  Budgets are updates, not minutes: the same seed gives the same finding.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from jumok import messages
from jumok.config import presets
from jumok.config.recipe import Recipe, find_section
from jumok.config.sections import UNCLEANED
from jumok.data.corpora import Pair
from jumok.data.made import phrasebook
from jumok.data.made.phrasebook import Phrase
from jumok.errors import UnknownName, UsageError
from jumok.evaluation.evaluate import evaluate
from jumok.evaluation.significance import find_interval, resample
from jumok.events import Event, history, read_losses
from jumok.keys import key
from jumok.runs.context import Context
from jumok.runs.experiment import run
from jumok.stopping import Stop
from jumok.storage.checkpoint import RunFolder
from jumok.translator import Translator

Surgery = Callable[[Any], None]  # changes a new model in place, before its first update


class Scale(NamedTuple):
    """How long claims train: updates and sentences are multiplied by `factor`, which is 1 for `quick`."""

    name: str
    factor: float


SCALES = {scale.name: scale for scale in (Scale("quick", 1.0), Scale("minutes", 4.0), Scale("hours", 30.0))}

SMALL: dict[str, Any] = {  # English to Korean; some 15 seconds on two cores
    "name": "lab",
    "data.pairs": 20_000,
    "vocabulary.size": 1_000,
    "model.encoder_layers": 2,
    "model.decoder_layers": 2,
    "model.d_model": 64,
    "model.d_ff": 256,
    "model.heads": 4,
    "training.minutes": None,
    "training.steps": 400,
    "training.validations": 4,
    "training.average": 1,
    "training.valid_pairs": 200,
    "training.snapshots": 0,
}
TASK: dict[str, Any] = {  # ten letters, copied, reversed or sorted
    "vocabulary.size": 285,
    "vocabulary.at_most": True,
    "data.pairs": 10_000,
    "data.hold_out": 300,
    "decoding.extra_length": 10,
}


SAMPLES = 300  # of the sentences, for intervals


@dataclass(frozen=True)
class Trained:
    """A finished run."""

    folder: Path

    @cached_property
    def model(self) -> Translator:
        """Its finished model, with the torch engine, which supports every model."""
        return Translator.load(self.folder, engine="torch")

    @cached_property
    def events(self) -> list[Event]:
        return list(history(self.folder / "events.jsonl"))

    @cached_property
    def updates(self) -> list[dict[str, float]]:
        """Every update: step, epoch, loss, rate, norm, tokens."""
        return list(read_losses(self.folder / "losses.tsv"))

    @property
    def losses(self) -> list[tuple[int, float]]:
        """Update and training loss."""
        return [(int(update["step"]), update["loss"]) for update in self.updates]

    @property
    def validations(self) -> list[dict[str, Any]]:
        """Every validation: step, loss, perplexity, bleu."""
        return [event for event in self.events if event["event"] == "validation"]

    @property
    def seconds(self) -> float:
        """How long it was trained."""
        return float(next(event for event in reversed(self.events) if event["event"] == "finished")["wall"])

    @property
    def scores(self) -> dict[str, float]:
        """Scores of the finished model on the validation set: loss, perplexity, bleu (greedy)."""
        last = next(event for event in reversed(self.events) if event["event"] == "finished")
        return {name: last[name] for name in ("loss", "perplexity", "bleu", "accuracy") if name in last}


class Absent(UsageError):
    """A corpus that a claim needs and that is not part of jumok is missing."""


class Lab:
    """Everything a claim may use: recipes, trained models, sentences, corpora."""

    def __init__(
        self,
        folder: str | Path = "runs/lab",
        *,
        scale: str = "quick",
        factor: float | None = None,
        seed: int = 1,
        common: Mapping[str, Any] | None = None,
        data: Path | None = None,
        say: Callable[[str], None] = lambda text: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """`factor` replaces the scale's; `common` are changes to every run; `data` is the folder of real corpora."""
        if scale not in SCALES:
            raise UnknownName("lab.unknown_scale", scale, SCALES)
        self.folder, self.seed, self.data, self.say, self.stop = Path(folder), seed, data, say, Stop(stop)
        self.common = dict(common or {})
        self.used: dict[str, Trained] = {}  # the runs that the claim at hand asked for
        self.waited = 0.0  # seconds that it waited for them
        self.scale = SCALES[scale] if factor is None else Scale(f"{factor:g}", factor)

    def reseed(self, seed: int) -> Lab:
        """The same laboratory with another seed."""
        other = copy(self)
        other.seed, other.used = seed, {}
        return other

    def count_seconds(self, elapsed: float) -> float:
        """Seconds of a claim: what it measured itself, and the training of all models that it used, new or not."""
        seconds = elapsed - self.waited + sum(run.seconds for run in self.used.values())
        self.used, self.waited = {}, 0.0
        return seconds

    def toy_seeds(self, count: int = 3) -> list[int]:
        """Seeds of the repetitions of a toy task; no two seeds of the lab share one."""
        return [key(self.seed, "toy", number) for number in range(count)]

    def steps(self, quick: int) -> int:
        """The number of updates at this scale, given that at the quick one."""
        return max(1, round(quick * self.scale.factor))

    def recipe(self, changes: Mapping[str, Any] | None = None) -> Recipe:
        """The lab's small English-Korean recipe with changes; another `model.kind` ignores model keys that it lacks."""
        changes = changes or {}
        known = find_section(changes.get("model.kind", "transformer")).model_fields
        usual = {**UNCLEANED, **SMALL, "seed": self.seed, **changes, **self.common}
        every = max(1, round(usual["training.steps"] / usual["training.validations"]))
        # So that curves have their points, however long a validation takes.
        usual.setdefault("training.validate_every", every)
        fits = {
            key: value
            for key, value in usual.items()
            if key in changes or not key.startswith("model.") or key.removeprefix("model.") in known
        }
        return presets.demo().change(fits)

    def task(self, name: str, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Changes that turn the recipe into one for copy, reverse or sort."""
        return {"data.corpus": name, **TASK, **(changes or {})}

    def train(
        self, name: str, changes: Mapping[str, Any] | None = None, *, surgery: Surgery | None = None, **more: Any
    ) -> Trained:
        """The run of the lab's recipe with these changes, from the folder or trained now.

        `surgery` changes the new model in place; the recipe does not show it, so such runs need distinct names.
        """
        recipe = self.recipe(changes)
        values = recipe.model_dump(mode="json", exclude={"training": {"snapshots"}})
        identity = json.dumps([values, name if surgery else ""], sort_keys=True)
        out = self.folder / "runs" / f"{_plain(name)}-{hashlib.sha256(identity.encode()).hexdigest()[:10]}"
        same = sorted((self.folder / "runs").glob(f"*-{out.name[-10:]}"))
        out = same[0] if same else out  # trained by another claim under another name
        self.stop.check()
        self.say(messages.text("lab.training", model=name))
        folder, began = RunFolder(out), time.monotonic()
        run(recipe, folder, Context.of(folder, stop=self.stop, **more), inherit=surgery or (lambda model: None))
        self.waited += time.monotonic() - began
        self.used[out.name] = Trained(out)
        return self.used[out.name]

    def base(self) -> Trained:
        """The larger model of the lab, shared by claims that inspect a trained model."""
        return self.train("base", BASE | {"training.steps": self.steps(BASE["training.steps"])})

    def phrases(self, count: int, split: str = "test") -> list[Phrase]:
        """English and Korean sentences that no run has seen, with gold alignments."""
        return phrasebook.phrases(split, max(10, round(count * min(4.0, self.scale.factor))), seed=self.seed)

    def pairs(self, count: int, split: str = "test") -> list[Pair]:
        """The sentences of `phrases` as pairs."""
        return [Pair(phrase.english, phrase.korean, row) for row, phrase in enumerate(self.phrases(count, split), 1)]

    def bleu(self, model: Translator, count: int = 300) -> float:
        """BLEU of greedy search on unseen phrases."""
        return evaluate(model, self.pairs(count), beam=1).bleu

    def grade(self, model: Translator, count: int = 300, *, beam: int = 1) -> dict[str, Any]:
        """BLEU on unseen phrases, its 95 % interval over the sentences, and the share of exact translations."""
        pairs = self.pairs(count)
        outputs = evaluate(model, pairs, beam=beam).hypotheses
        return grade_outputs(outputs, [pair.target for pair in pairs])

    def corpus(self, *parts: str) -> Path:
        """A file or folder of real text below `data`, which is not part of jumok."""
        if self.data is None:
            raise Absent("lab.no_data_folder", corpus="/".join(parts))
        corpus = self.data.joinpath(*parts)
        if not corpus.exists():
            raise Absent("lab.missing_corpus", corpus="/".join(parts), folder=self.data)
        return corpus


BASE: dict[str, Any] = {
    "data.pairs": 40_000,
    "model.encoder_layers": 3,
    "model.decoder_layers": 3,
    "model.d_model": 128,
    "model.d_ff": 256,
    "training.optimizer": "muon",
    "training.peak": 1.6e-2,
    "training.warmup": 50,
    "training.steps": 500,
    "training.tokens_per_update": 2_048,
    "data.tokens_per_batch": 2_048,
}


def grade_outputs(outputs: Sequence[str], right: Sequence[str]) -> dict[str, Any]:
    """BLEU with its 95 % interval over sentences that are sampled again, and the share of exact translations."""
    resampled = resample([outputs], right, samples=SAMPLES)
    exact = sum(map(str.__eq__, outputs, right)) / max(1, len(right))
    interval = [round(end, 2) for end in find_interval(resampled.samples[0])]
    return {"bleu": resampled.scores[0].value, "interval": interval, "exact": exact}


def exact_share(model: Translator, pairs: Sequence[Pair]) -> float:
    """The share of sentences whose greedy translation equals the reference."""
    answers = model.translate([pair.source for pair in pairs], beam=1, details=False)
    return sum(answer.text == pair.target for answer, pair in zip(answers, pairs, strict=True)) / max(1, len(pairs))


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name.lower()).strip("-")
