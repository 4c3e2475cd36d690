"""The newest model of a run that is still being trained: its finished model, or its newest complete checkpoint."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumok.storage.bundle import Bundle

MANIFEST, WEIGHTS = "MANIFEST.json", "model.safetensors"


def list_models(run: Path) -> list[tuple[int, Path]]:
    """List the model and the checkpoints of a run that look complete, newest first, with the time of each.

    It is the time of the weights: training rewrites the manifest of an older checkpoint when it drops its optimizer.
    """
    folders = [run / "model"]
    try:
        with os.scandir(run / "checkpoints") as entries:
            folders += [Path(entry.path) for entry in entries if entry.name.removeprefix("step-").isdecimal()]
    except OSError:
        pass
    models = []
    for folder in folders:
        try:
            (folder / MANIFEST).stat()  # it is written last
            models.append(((folder / WEIGHTS).stat().st_mtime_ns, folder))
        except OSError:  # not complete, or removed meanwhile
            continue
    return sorted(models, reverse=True)


def find_newest(run: Path) -> Bundle:
    """Return the newest model of a run that can be read; a `ModelFileError` if there is none."""
    from jumok.errors import ModelFileError
    from jumok.storage import bundle

    refused: ModelFileError | None = None
    for _, folder in list_models(run):
        try:
            return bundle.read(folder) if folder.name == "model" else read_checkpoint(run, folder)
        except ModelFileError as error:  # training may have removed the checkpoint
            refused = refused or error
    raise refused or ModelFileError("service.nothing_to_follow", folder=run)


def read_checkpoint(run: Path, folder: Path) -> Bundle:
    """Return a checkpoint of a run as a bundle: its weights with the run's recipe and vocabulary; no torch."""
    from jumok.storage import bundle
    from jumok.text.vocabulary import Vocabularies

    listed = bundle.verify(folder, (bundle.WEIGHTS, "state.json"))
    bundle.check_format(bundle.read_json(folder / "state.json"), folder / "state.json")
    recipe = bundle.saved_recipe(run)
    vocabularies = Vocabularies.load(run, breaks=recipe.vocabulary.breaks)
    sizes = len(vocabularies.source), len(vocabularies.target)
    bundle.check(folder, listed, bundle.WEIGHTS, most=bundle.HEADER + 4 * recipe.model.parameters(*sizes))
    card = {"step": bundle.step_of(folder)}
    return bundle.Bundle(recipe=recipe, vocabularies=vocabularies, card=card, folder=folder, sizes=sizes)
