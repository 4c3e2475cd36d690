"""How a run ends: which weights may become the finished model, and what a folder tells of a run that has ended."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from jumok.config.recipe import Recipe
from jumok.errors import ModelFileError
from jumok.runs.context import Context
from jumok.storage import bundle, checkpoint
from jumok.storage.bundle import WEIGHTS
from jumok.storage.checkpoint import Checkpoint, RunFolder
from jumok.training.budget import limits_of
from jumok.training.loop import find_reached
from jumok.training.optim import RunningMean
from jumok.training.progress import Progress

MOST = 1e18  # no count, score or time of a run is larger
Candidate = tuple[str, dict[str, Tensor]]  # weights and what they are called


@dataclass(frozen=True)
class Finished:
    """A run that has ended: the progress of its last checkpoint and the card of its model."""

    progress: Progress
    card: dict[str, Any]

    @property
    def name(self) -> str:
        """What its model is called among the candidates of the run that continues it."""
        weights = str(self.card["weights"])
        return weights if weights.startswith("earlier") else f"earlier model ({weights})"

    @property
    def scores(self) -> dict[str, float]:
        """Of its model, on `pairs` validation pairs."""
        return dict(self.card["valid"][self.card["weights"]])

    @property
    def pairs(self) -> int:
        return int(self.card["valid_pairs"])

    def candidate(self, folder: RunFolder, model: nn.Module) -> Candidate:
        """Its model."""
        bundle.verify(folder.bundle, ("model.safetensors",))
        tensors = checkpoint.read_tensors(folder.bundle / "model.safetensors", checkpoint.weights(model))
        return self.name, tensors


def finished(folder: RunFolder) -> Finished | None:
    """The run in a folder, if it has ended: its model was made at the step of its newest whole checkpoint."""
    if not folder.bundle.is_dir():
        return None
    try:
        bundle.verify(folder.bundle, ("card.json", "model.safetensors"))
        card = bundle.read_json(folder.bundle / "card.json")
    except ModelFileError:
        return None
    found, _ = folder.newest()
    if found is None or card.get("steps") != found.step or not _tells(card):
        return None
    return Finished(progress_of(found), card)


def progress_of(found: Checkpoint) -> Progress:
    """How far the run of a checkpoint had come; numbers throughout, or it is a bad model file."""
    told, where = found.state["progress"], f"in {found.folder}"
    course = told.get("course") or {}
    numbers = {**{name: value for name, value in told.items() if name not in ("course", "best")}}
    numbers |= {"best": told.get("best") or 0.0, **(course if isinstance(course, dict) else {"course": None})}
    wrong = next((name for name, value in numbers.items() if not _is_number(value)), None)
    if wrong is not None:
        raise ModelFileError(f"state.json: {wrong} is no number that a run has", where=where)
    try:
        return Progress.from_json(told)
    except TypeError as error:
        raise ModelFileError(f"state.json does not say how far the run has come: {error}", where=where) from None


def _tells(card: dict[str, Any]) -> bool:
    """Whether a card says all that a run which goes on must know of the model before it."""
    valid, name = card.get("valid"), card.get("weights")
    scores = valid.get(name) if isinstance(valid, dict) and isinstance(name, str) else None
    return (
        isinstance(scores, dict)
        and {"loss", "perplexity"} <= scores.keys()
        and all(map(_is_number, [*scores.values(), card.get("valid_pairs")]))
        and isinstance(card.get("ended_by"), str)
    )


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and abs(value) < MOST  # type: ignore[arg-type]  # which no NaN is


def nothing_left(recipe: Recipe, found: Finished, context: Context) -> str | None:
    """The limit of the recipe that a finished run has reached, if it leaves nothing to do."""
    minutes = recipe.training.minutes
    reason = find_reached(limits_of(recipe), found.progress)
    if reason is None and minutes is not None and not context.more and minutes * 60.0 <= found.progress.minutes.until:
        return "minutes"
    return reason


def tell_finished(folder: RunFolder, found: Finished, reason: str, context: Context) -> None:
    """Say that a run is finished, and how to train it further."""
    steps, epochs = found.progress.counts.step, found.progress.counts.epoch
    option = {"steps": f"--steps {2 * steps}", "epochs": f"--epochs {2 * epochs}", "minutes": "--minutes 10"}
    option |= {
        "tokens": f"--tokens {2 * found.progress.counts.tokens}",
        "bleu": "a higher --until-bleu",
        "patience": "a larger --set training.patience=N",
    }
    context.say(
        f"This run is finished: {steps:,} steps, ended by {found.card['ended_by']}; the model is in "
        f"{folder.bundle}. To go on: the same command with {option[reason]}"
    )


def candidates(
    folder: RunFolder,
    model: nn.Module,
    mean: RunningMean | None,
    progress: Progress,
    *,
    average: int,
    whole: bool,
    earlier: Finished | None = None,
) -> Iterator[Candidate]:
    """Weights that may become the finished model, the likeliest first; each is read when it is asked for.

    Where validations saw a part of the pairs only (not the `whole`), the best of them is a guess: last weights first.
    """
    expected = checkpoint.weights(model)
    other = [] if progress.best.step in (0, progress.counts.step) else folder.last(1, until=progress.best.step)
    best = ((f"checkpoint {one.step}", one.tensors(WEIGHTS, expected)) for one in other)
    if not (whole and other):  # the model has its last weights now, and will have others
        yield f"checkpoint {progress.counts.step}", {name: value.clone() for name, value in expected.items()}
    else:
        yield next(best)
    if earlier is not None:
        yield earlier.candidate(folder, model)
    if mean is not None:
        yield "running mean", {name: mean.tensors[name].clone() for name in expected}
    kept = folder.last(average, until=progress.counts.step, due=True)
    if len(kept) > 1:
        mean_of_files = checkpoint.average_files([one.folder / WEIGHTS for one in kept], expected)
        yield f"mean of the last {len(kept)} checkpoints", mean_of_files
    yield from best
