"""`jumok race`: from models, a text and a budget to a report; stopped at any moment, the same command goes on.

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
from jumok import machine
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

SPEED = 200  # validation sentences with which translating is timed
SAMPLES = 6  # sentences that are shown
BEAM = 5


class Result(NamedTuple):
    """A race that is over."""

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
    claim(folder, field)
    tracks = lanes(folder, field)
    race(tracks, follow=follow, stop=stop)
    pairs = validation(field[0].recipe)
    try:
        rows = [measured(lane, pairs, lengths, say=say, stop=Stop(stop)) for lane in tracks]
    except Stopped:
        hint = "run the same command again to continue"
        raise Resumable("stopped while the runs were measured; all are kept", where=f"in {folder}", hint=hint) from None
    figures = {
        "race": jumok.__version__, "machine": asdict(machine.describe()), "recipe": field[0].recipe.name,
        "budget": budget(field[0].recipe), "seeds": list(chosen.get("seeds", (1,))), "pairs": len(pairs),
        "contenders": rows,
    }  # fmt: skip
    bundle.write_file(folder / "report.json", json.dumps(figures, ensure_ascii=False, indent=1).encode())
    bundle.write_file(folder / "report.html", report.page(figures).encode())
    return Result(folder, figures)


def claim(folder: Path, field: Sequence[Contender]) -> None:
    """A folder that holds another race is not touched."""
    told = {one.name: one.recipe.model_dump(mode="json") for one in field}
    note = folder / "race.json"
    if note.is_file():
        try:
            before = json.loads(note.read_bytes())
        except ValueError:
            raise ModelFileError("race.json is not JSON", where=f"in {folder}") from None
        if before != told:
            raise UsageError(
                "this folder holds another race",
                where=f"in {folder}",
                hint="try: another --out, or the same models, text and budget to go on with it",
            )
    folder.mkdir(parents=True, exist_ok=True)
    bundle.write_file(note, json.dumps(told, indent=1).encode())


def budget(recipe: Recipe) -> str:
    """What everybody had, in words."""
    training = recipe.training
    limits = {"minutes": training.minutes, "target tokens": training.tokens, "passes": training.epochs}
    words = [f"{value:,g} {name}" for name, value in limits.items() if value is not None]
    return " and ".join(words or [f"{training.steps:,} updates"])


def validation(recipe: Recipe) -> list[Pair]:
    """The pairs that validate, or some of those that train where no others are named."""
    train, valid = resolve.resolve_one(recipe.data, recipe.seed)
    return list(islice(valid or train, 1_000))


def measured(
    lane: Lane, pairs: Sequence[Pair], lengths: Sequence[int], *, say: Callable[[str], None], stop: Stop
) -> dict[str, Any]:
    """All that is told of one contender; kept in its folder, so that it is measured once."""
    kept = lane.folder / "measured.json"
    if kept.is_file():
        return dict(json.loads(kept.read_bytes()))
    stop.check()
    say(f"measuring {lane.contender.name}")
    model = Translator.load(lane.folder, engine="torch")  # the one engine that runs all kinds of models
    card = model.card
    sources = [pair.source for pair in pairs]
    found = {
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
        "translating": measure.translating(model, sources[:SPEED]),
        "samples": samples(model, pairs),
        "attention": attention(model, pairs),
        "growth": measure.growth(lane.contender.recipe, lengths=stop.watch(lengths)),
    }
    bundle.write_file(kept, json.dumps(found, ensure_ascii=False).encode())
    return found


def speed(events: Iterable[dict[str, Any]]) -> float:
    """Target tokens a second of a usual update."""
    steps = [(one["step"], one["seconds"], one["tokens"]) for one in events if one["event"] == "step"]
    taken = [(later[1] - one[1]) / (later[0] - one[0]) for one, later in pairwise(steps)]  # logs leave updates out
    if not taken:
        return 0.0
    usual = statistics.median(taken)  # an update after a validation has the validation's time, too
    return statistics.mean(tokens for _, _, tokens in steps) / usual if usual > 0 else 0.0


def samples(model: Translator, pairs: Sequence[Pair]) -> list[dict[str, str]]:
    """Some sentences, evenly spread, with their references and what the model says."""
    few = [pairs[row * len(pairs) // SAMPLES] for row in range(min(SAMPLES, len(pairs)))]
    said = model.translate([pair.source for pair in few], beam=BEAM, details=False)
    return [
        {"source": pair.source, "reference": pair.target, "text": one.text} for pair, one in zip(few, said, strict=True)
    ]


def attention(model: Translator, pairs: Sequence[Pair]) -> dict[str, Any] | None:
    """How one sentence of middling length is looked at while it is translated; None where nothing looks."""
    lengths = sorted(pairs, key=lambda pair: len(pair.source))
    try:
        view = model.attention(lengths[len(lengths) // 3].source)
    except UsageError:
        return None
    if "cross" not in view.kinds:
        return None
    return {"source": [*view.source], "target": [*view.target], "weights": view.map("cross").round(4).tolist()}
