"""A model from the mean of a run's last checkpoints, with the shortlist and the aligning head that the run has."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from jumok.config.recipe import Recipe
from jumok.data import lexicon
from jumok.data.prepare import folder as prepared_folder
from jumok.disk.locks import lock
from jumok.engines.torch_engine import TorchEngine
from jumok.errors import JumokError, ModelFileError
from jumok.models import build
from jumok.runs.aligning import choose_head
from jumok.runs.preparation import FOLDER
from jumok.storage import bundle, checkpoint
from jumok.storage.bundle import WEIGHTS
from jumok.storage.checkpoint import RunFolder
from jumok.text.vocabulary import Vocabularies


def average_run(path: str | Path, *, last: int, out: Path | None = None) -> Path:
    """Make a model from the mean of a run's last complete checkpoints, in RUN/model unless `out` is given."""
    run = RunFolder(path)
    refused: list[JumokError] = []
    checkpoints = run.last(last, due=True, refused=refused) or run.last(last)
    if not checkpoints:
        raise refused[0] if refused else ModelFileError("storage.no_checkpoint", folder=run.checkpoints)
    recipe = run.recipe()
    vocabularies = Vocabularies.load(run.path, breaks=recipe.vocabulary.breaks)
    sizes = len(vocabularies.source), len(vocabularies.target)
    expected = checkpoint.weights(build(recipe.model, *sizes, device="meta"))
    mean = checkpoint.average_files([saved.folder / WEIGHTS for saved in checkpoints], expected)
    card = checkpoint.maker(recipe) | {
        "weights": f"mean of the checkpoints {', '.join(str(saved.step) for saved in reversed(checkpoints))}",
        "vocabulary": vocabularies.digest,
    }
    more, about = _align(run, recipe, vocabularies, mean)
    if out is not None:
        checkpoint.export(out, mean, recipe, vocabularies, card | about, more)
        return out
    with lock(run.path, "the run"):  # a run that ends meanwhile writes its own model
        checkpoint.export(run.bundle, mean, recipe, vocabularies, card | about, more)
    return run.bundle


def _align(
    run: RunFolder, recipe: Recipe, vocabularies: Vocabularies, mean: dict[str, Tensor]
) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return the file of the shortlist and the entry of the aligning head; nothing where the run has no shortlist.

    The head is chosen again for the new weights.  Without the prepared text, both are those of the finished model.
    """
    with suppress(ModelFileError, OSError):
        path = run.data / FOLDER if recipe.data.prepared is None else Path(recipe.data.prepared)
        content = (path / lexicon.FILE).read_bytes()
        prepared = prepared_folder.load(path, breaks=recipe.vocabulary.breaks)
        sizes = len(vocabularies.source), len(vocabularies.target)
        if prepared.vocabularies.digest == vocabularies.digest:
            model = build(recipe.model, *sizes)
            checkpoint.set_weights(model, mean)
            head = choose_head(TorchEngine(model.eval()), prepared.store, lexicon.Lexicon.from_bytes(content, sizes))
            return {lexicon.FILE: content}, {} if head is None else {"aligning": head}
    with suppress(ModelFileError, OSError):
        saved = bundle.read(run.bundle)
        content = (saved.folder / lexicon.FILE).read_bytes()
        if saved.vocabularies.digest == vocabularies.digest:
            return {lexicon.FILE: content}, {name: saved.card[name] for name in ("aligning",) if name in saved.card}
    return {}, {}
