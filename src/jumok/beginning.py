"""How a run begins: its recipe from what was asked for, and weights of a finished run that its model begins with."""

from pathlib import Path
from typing import Any

import torch

from jumok import bundle, checkpoint, recipes
from jumok.bundle import Bundle
from jumok.data import corpora
from jumok.errors import UsageError
from jumok.recipe import Recipe


def choose(
    source: str | None = None,
    target: str | None = None,
    *,
    recipe: str | Recipe = "tiny",
    minutes: float | None = None,
    steps: int | None = None,
    epochs: int | None = None,
    tokens: int | None = None,
    model: str | None = None,
    begin: str | Path | None = None,
    changes: dict[str, Any] | None = None,
    **data: Any,
) -> Recipe:
    """A recipe with the user's text and limits; further keywords are keys of its data section.

    Another `model` comes with its own section; sizes are those of the run that is begun with, if there is one.
    """
    chosen = recipes.get(recipe) if isinstance(recipe, str) else recipe
    if model is not None and model != chosen.model.kind:
        chosen = chosen.change({"model.kind": model, "name": f"{chosen.name}-{model}"})
    if begin is not None:
        given = bundle.read(begin).recipe.model
        common = type(chosen.model).model_fields.keys() & type(given).model_fields.keys() - {"kind", "tied"}
        chosen = chosen.change({f"model.{name}": getattr(given, name) for name in sorted(common)})
    wanted: dict[str, Any] = {f"data.{name}": str(value) for name, value in data.items() if value is not None}
    if isinstance(recipe, str) and recipe in recipes.names():
        wanted |= corpora.usual(data.get("corpus"), data.get("text"))
    if source is not None or target is not None or data.get("table") is not None or data.get("text") is not None:
        wanted |= {"data.corpus": None, "data.source": source and str(source), "data.target": target and str(target)}
    limits = {"minutes": minutes, "epochs": epochs, "tokens": tokens}
    if steps is not None or any(value is not None for value in limits.values()):
        wanted |= {f"training.{name}": value for name, value in limits.items()}
        wanted["training.steps"] = 10**9 if steps is None else steps
    return chosen.change(wanted | (changes or {}))


@torch.no_grad()
def inherit(found: Bundle, model: torch.nn.Module) -> None:
    """Give a new model the weights of a finished one, by name, wherever they fit."""
    given, fitting = checkpoint.with_model(found).model.state_dict(), 0
    for name, tensor in checkpoint.weights(model).items():
        if name in given and given[name].shape == tensor.shape:
            tensor.copy_(given[name])
            fitting += 1
    if not fitting:
        raise UsageError(
            f"no weight of a {found.recipe.model.kind} fits into this model",
            where=f"in {found.folder}",
            hint="try: the same sizes, or another --from",
        )
