"""A description of a finished model; its weights are not loaded, and torch is not needed."""

from math import prod
from pathlib import Path
from typing import Any

from jumok.storage import bundle, tensors

SHOWN = {"format", "name", "vocabulary", "languages"}  # entries of a card that have a line of their own


def describe(path: str | Path) -> dict[str, Any]:
    """The lines of `jumok model info`: recipe, sizes, and the model's card as training wrote it."""
    saved = bundle.read(path)
    model, vocabularies = saved.recipe.model, saved.vocabularies
    parameters = sum(map(prod, tensors.read(saved).shapes.values()))
    size = (saved.folder / bundle.WEIGHTS).stat().st_size
    symbols = (
        f"{len(vocabularies.source):,} joint"
        if vocabularies.joint
        else " + ".join(f"{len(side):,}" for side in (vocabularies.source, vocabularies.target))
    )
    return {
        "folder": str(saved.folder),
        "recipe": saved.recipe.name,
        "languages": list(saved.languages) if saved.languages else None,
        "model": f"{model.kind}: {model.shape}",
        "parameters": f"{parameters:,} ({size / 1e6:.1f} MB)",
        "vocabulary": f"{symbols} subwords ({saved.recipe.vocabulary.kind})",
        **{name: value for name, value in saved.card.items() if name not in SHOWN},
    }
