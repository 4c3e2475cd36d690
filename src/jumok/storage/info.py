"""What a finished model is, in words and numbers; its weights are not loaded, and torch is not needed."""

from math import prod
from pathlib import Path
from typing import Any

from jumok.storage import bundle, tensors


def describe(path: str | Path) -> dict[str, Any]:
    """What `jumok model info` prints: recipe, sizes, and what training wrote on the model's card."""
    found = bundle.read(path)
    model, vocabularies = found.recipe.model, found.vocabularies
    parameters = sum(map(prod, tensors.read(found).shapes.values()))
    size = (found.folder / bundle.WEIGHTS).stat().st_size
    symbols = (
        f"{len(vocabularies.source):,} joint"
        if vocabularies.joint
        else " + ".join(f"{len(side):,}" for side in (vocabularies.source, vocabularies.target))
    )
    return {
        "folder": str(found.folder),
        "recipe": found.recipe.name,
        "model": f"{model.kind}: {model.shape}",
        "parameters": f"{parameters:,} ({size / 1e6:.1f} MB)",
        "vocabulary": f"{symbols} subwords ({found.recipe.vocabulary.kind})",
        **{name: value for name, value in found.card.items() if name not in ("format", "name", "vocabulary")},
    }
