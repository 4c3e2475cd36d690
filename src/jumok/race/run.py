"""`jumok race`: from models, a text and a budget to a report; the same command continues a race that was stopped.

result = run(models=["transformer", "rnn"], out="runs/race", source="train.en", target="train.de", minutes=15)
result.report                       # a page
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import jumok
from jumok import machine, messages
from jumok.config.keywords import RaceKeywords
from jumok.config.recipe import Recipe
from jumok.data import resolve
from jumok.data.corpora import Pair
from jumok.errors import ModelFileError, Resumable, UsageError
from jumok.evaluation.evaluate import evaluate
from jumok.race import measure, report
from jumok.race.contenders import Contender, contenders
from jumok.race.lanes import Follow, Lane, curve, lanes, race
from jumok.stopping import Stop, Stopped
from jumok.storage import bundle
from jumok.storage.checkpoint import weights
from jumok.translator import Translator

SPEED = 200  # validation sentences for timing translation
SAMPLES = 6  # sentences that are shown
BEAM = 5


class Result(NamedTuple):
    """A finished race."""

    folder: Path
    figures: dict[str, Any]

    @property
    def report(self) -> Path:
        return self.folder / "report.html"


def run(
    *,
    models: Sequence[str],
    out: str | Path = "runs/race",
    recipe: str | Recipe = "tiny",
    follow: Follow = lambda contender, event: None,
    say: Callable[[str], None] = lambda text: None,
    stop: Callable[[], bool] = lambda: False,
    lengths: Sequence[int] = measure.LENGTHS,
    **chosen: Unpack[RaceKeywords],
) -> Result:
    """Train every model, measure all of them, and write the report; `chosen` as in `contenders`."""
    folder, field = Path(out), contenders(recipe, models, **chosen)
    check_folder(folder, field)
    tracks = lanes(folder, field)
    race(tracks, follow=follow, stop=stop)
    pairs = validation(field[0].recipe)
    try:
        rows = [measured(lane, pairs, lengths, say=say, stop=Stop(stop)) for lane in tracks]
    except Stopped:
        raise Resumable("race.stopped_measuring", folder=folder) from None
    figures = {
        "race": jumok.__version__, "machine": asdict(machine.describe()), "recipe": field[0].recipe.name,
        "budget": budget(field[0].recipe), "seeds": list(chosen.get("seeds", (1,))), "pairs": len(pairs),
        "contenders": rows,
    }  # fmt: skip
    bundle.write_file(folder / "report.json", json.dumps(figures, ensure_ascii=False, indent=1).encode())
    bundle.write_file(folder / "report.html", report.page(figures).encode())
    return Result(folder, figures)


def check_folder(folder: Path, field: Sequence[Contender]) -> None:
    """Refuse a folder with another race; note the contenders in a new one."""
    without = {"training": {"snapshots"}}  # earlier races did not have them
    recipes = {contender.name: contender.recipe.model_dump(mode="json", exclude=without) for contender in field}
    note = folder / "race.json"
    if note.is_file():
        try:
            before = json.loads(note.read_bytes())
        except ValueError:
            raise ModelFileError("race.bad_note", folder=folder) from None
        if before != recipes:
            raise UsageError("race.another_race", folder=folder)
    folder.mkdir(parents=True, exist_ok=True)
    bundle.write_file(note, json.dumps(recipes, indent=1).encode())


def budget(recipe: Recipe) -> str:
    """The budget of every contender in words."""
    training = recipe.training
    limits = {"minutes": training.minutes, "target tokens": training.tokens, "passes": training.epochs}
    words = [f"{value:,g} {name}" for name, value in limits.items() if value is not None]
    return " and ".join(words or [f"{training.steps:,} updates"])


def validation(recipe: Recipe) -> list[Pair]:
    """The validation pairs, or some training pairs if there are none."""
    train, valid = resolve.resolve_one(recipe.data, recipe.seed)
    return list(islice(valid or train, 1_000))


def measured(
    lane: Lane, pairs: Sequence[Pair], lengths: Sequence[int], *, say: Callable[[str], None], stop: Stop
) -> dict[str, Any]:
    """All figures of one contender; saved in its folder, so that it is measured once."""
    path = lane.folder / "measured.json"
    if path.is_file():
        return dict(json.loads(path.read_bytes()))
    stop.check()
    say(messages.text("race.measuring", model=lane.contender.name))
    model = Translator.load(lane.folder, engine="torch")  # the one engine that runs all kinds of models
    card = model.card
    sources = [pair.source for pair in pairs]
    figures = {
        "name": lane.contender.name,
        "kind": model.recipe.model.kind,
        "shape": model.recipe.model.shape,
        "seed": model.recipe.seed,
        "parameters": sum(tensor.numel() for tensor in weights(model.model).values()),
        "memory": lane.memory,
        "curve": curve(lane.history()),
        "training_tokens_per_second": speed(lane.history()),
        "minutes": card["minutes"],
        "steps": card["steps"],
        "weights": card["weights"],
        "scores": evaluate(model, pairs=pairs, beam=BEAM, perplexity=True).to_json(),
        "translating": measure.time_translation(model, sources[:SPEED]),
        "samples": samples(model, pairs),
        "attention": attention(model, pairs),
        "growth": measure.growth(lane.contender.recipe, lengths=stop.watch(lengths)),
    }
    bundle.write_file(path, json.dumps(figures, ensure_ascii=False).encode())
    return figures


def speed(events: Iterable[dict[str, Any]]) -> float:
    """Target tokens per second of a typical update."""
    steps = [(event["step"], event["seconds"], event["tokens"]) for event in events if event["event"] == "step"]
    # Logs do not have every update, so times are divided by differences of step.
    taken = [(later[1] - earlier[1]) / (later[0] - earlier[0]) for earlier, later in pairwise(steps)]
    if not taken:
        return 0.0
    usual = statistics.median(taken)  # the time after a validation includes the validation
    return statistics.mean(tokens for _, _, tokens in steps) / usual if usual > 0 else 0.0


def samples(model: Translator, pairs: Sequence[Pair]) -> list[dict[str, str]]:
    """Some evenly spaced sentences with references and translations."""
    few = [pairs[row * len(pairs) // SAMPLES] for row in range(min(SAMPLES, len(pairs)))]
    translations = model.translate([pair.source for pair in few], beam=BEAM, details=False)
    return [
        {"source": pair.source, "reference": pair.target, "text": translation.text}
        for pair, translation in zip(few, translations, strict=True)
    ]


def attention(model: Translator, pairs: Sequence[Pair]) -> dict[str, Any] | None:
    """Cross-attention of one sentence of medium length; None for models without."""
    lengths = sorted(pairs, key=lambda pair: len(pair.source))
    try:
        view = model.attention(lengths[len(lengths) // 3].source)
    except UsageError:
        return None
    if "cross" not in view.kinds:
        return None
    return {"source": [*view.source], "target": [*view.target], "weights": view.map("cross").round(4).tolist()}
