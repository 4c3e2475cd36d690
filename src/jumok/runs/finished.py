"""A run that has ended: its model, its progress, and the candidates for a finished model."""

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
Candidate = tuple[str, dict[str, Tensor]]  # name and weights


@dataclass(frozen=True)
class Finished:
    """A run that has ended: the progress of its last checkpoint and the card of its model."""

    progress: Progress
    card: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of its model among the candidates of the run that continues it."""
        weights = str(self.card["weights"])
        return weights if weights.startswith("earlier") else f"earlier model ({weights})"

    @property
    def scores(self) -> dict[str, float]:
        """Scores of its model on `pairs` validation pairs."""
        return dict(self.card["valid"][self.card["weights"]])

    @property
    def pairs(self) -> int:
        return int(self.card["valid_pairs"])

    def candidate(self, folder: RunFolder, model: nn.Module) -> Candidate:
        """Its model as a candidate."""
        bundle.verify(folder.bundle, (WEIGHTS,))
        tensors = checkpoint.read_tensors(folder.bundle / WEIGHTS, checkpoint.weights(model))
        return self.name, tensors


def find_finished(folder: RunFolder) -> Finished | None:
    """The run in a folder, if it has ended: its model is from the step of its newest complete checkpoint."""
    if not folder.bundle.is_dir():
        return None
    try:
        bundle.verify(folder.bundle, ("card.json", WEIGHTS))
        card = bundle.read_json(folder.bundle / "card.json")
    except ModelFileError:
        return None
    newest, _ = folder.newest()
    if newest is None or card.get("steps") != newest.step or not _is_complete(card):
        return None
    return Finished(read_progress(newest), card)


def read_progress(saved: Checkpoint) -> Progress:
    """The progress of a checkpoint; a value that is not a number is a bad model file."""
    values, file = saved.state["progress"], "state.json"
    course = values.get("course") or {}
    numbers = {**{name: value for name, value in values.items() if name not in ("course", "best")}}
    numbers |= {"best": values.get("best") or 0.0, **(course if isinstance(course, dict) else {"course": None})}
    wrong = next((name for name, value in numbers.items() if not _is_number(value)), None)
    if wrong is not None:
        raise ModelFileError("runs.not_a_number", file=file, field=wrong, folder=saved.folder)
    try:
        return Progress.from_json(values)
    except TypeError as error:
        raise ModelFileError("runs.bad_progress", file=file, reason=error, folder=saved.folder) from None


def _is_complete(card: dict[str, Any]) -> bool:
    """Whether a card has everything that a run which continues this one needs."""
    valid, name = card.get("valid"), card.get("weights")
    scores = valid.get(name) if isinstance(valid, dict) and isinstance(name, str) else None
    return (
        isinstance(scores, dict)
        and {"loss", "perplexity"} <= scores.keys()
        and all(map(_is_number, [*scores.values(), card.get("valid_pairs")]))
        and isinstance(card.get("ended_by"), str)
    )


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and abs(value) < MOST  # type: ignore[arg-type]  # False for NaN


def find_limit(recipe: Recipe, earlier: Finished, context: Context) -> str | None:
    """The limit of the recipe that a finished run has reached; None if it can train further."""
    minutes = recipe.training.minutes
    reason = find_reached(limits_of(recipe), earlier.progress)
    if reason is None and minutes is not None and not context.more and minutes * 60.0 <= earlier.progress.minutes.until:
        return "minutes"
    return reason


def report_finished(folder: RunFolder, earlier: Finished, reason: str, context: Context) -> None:
    """Report that a run is finished, and how to train it further."""
    steps, epochs = earlier.progress.counts.step, earlier.progress.counts.epoch
    option = {"steps": f"--steps {2 * steps}", "epochs": f"--epochs {2 * epochs}", "minutes": "--minutes 10"}
    option |= {
        "tokens": f"--tokens {2 * earlier.progress.counts.tokens}",
        "bleu": "a higher --until-bleu",
        "patience": "a larger --set training.patience=N",
    }
    context.say(
        f"This run is finished: {steps:,} steps, ended by {earlier.card['ended_by']}; the model is in "
        f"{folder.bundle}. To continue: the same command with {option[reason]}"
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
    """Weights that may become the finished model, the likeliest first; each is read only when it is needed.

    Where validations used only a part of the pairs (not the `whole`), the best of them is uncertain, so the last
    weights come first.
    """
    expected = checkpoint.weights(model)
    other = [] if progress.best.step in (0, progress.counts.step) else folder.last(1, until=progress.best.step)
    best = ((f"checkpoint {saved.step}", saved.tensors(WEIGHTS, expected)) for saved in other)
    if not (whole and other):  # cloned, because the model will be given other weights
        yield f"checkpoint {progress.counts.step}", {name: value.clone() for name, value in expected.items()}
    else:
        yield next(best)
    if earlier is not None:
        yield earlier.candidate(folder, model)
    if mean is not None:
        yield "running mean", {name: mean.tensors[name].clone() for name in expected}
    last = folder.last(average, until=progress.counts.step, due=True)
    if len(last) > 1:
        mean_of_files = checkpoint.average_files([saved.folder / WEIGHTS for saved in last], expected)
        yield f"mean of the last {len(last)} checkpoints", mean_of_files
    yield from best
