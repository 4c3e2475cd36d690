"""How a run ends: which weights may become the finished model, and what a folder tells of a run that has ended."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from jumok import bundle, checkpoint
from jumok.checkpoint import RunFolder
from jumok.errors import ModelFileError
from jumok.training.optim import RunningMean
from jumok.training.pace import Progress

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
    try:
        bundle.verify(folder.bundle, ("card.json", "model.safetensors"))
        card = bundle.read_json(folder.bundle / "card.json")
    except ModelFileError:
        return None
    needed = ("weights", "ended_by", "valid", "valid_pairs")
    found, _ = folder.newest()
    if found is None or card.get("steps") != found.step or not all(name in card for name in needed):
        return None
    return Finished(Progress.from_json(found.state["progress"]), card)


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
    last = {name: value.clone() for name, value in expected.items()}
    other = [] if progress.best_step in (0, progress.step) else folder.last(1, until=progress.best_step)
    best = [(f"checkpoint {one.step}", one.tensors("model.safetensors", expected)) for one in other]
    yield best[0] if whole and best else (f"checkpoint {progress.step}", last)
    if earlier is not None:
        yield earlier.candidate(folder, model)
    if mean is not None:
        yield "running mean", {name: mean.tensors[name].clone() for name in expected}
    kept = [one.tensors("model.safetensors", expected) for one in folder.last(average, until=progress.step, due=True)]
    if len(kept) > 1:
        yield f"mean of the last {len(kept)} checkpoints", checkpoint.average(kept)
    if not whole:
        yield from best
