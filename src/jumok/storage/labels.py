"""Labels of finished models that can be written later: their languages; no torch."""

from contextlib import nullcontext
from pathlib import Path

from jumok.config.recipe import Recipe
from jumok.disk.locks import lock
from jumok.errors import ModelFileError
from jumok.storage import bundle
from jumok.text.languages import canonical


def set_languages(path: str | Path, source: str, target: str) -> list[Path]:
    """Set the languages of a run, also of one without a finished model, or of a bundle; return the folders changed.

    A run that is resumed afterwards keeps them.  The folder of the model is complete at any moment.
    """
    run, (source, target) = Path(path), (canonical(source), canonical(target))
    is_run = (run / "recipe.toml").is_file() and not (run / bundle.MANIFEST).is_file()
    changed = []
    with lock(run, "the run", option="folder") if is_run else nullcontext():
        if is_run:
            recipe = _name(bundle.saved_recipe(run), source, target)
            bundle.write_file(run / "recipe.toml", recipe.to_toml().encode())
            changed.append(run)
        try:
            saved = bundle.read(run)
        except ModelFileError as error:
            if is_run and error.key == "storage.no_finished_model":  # it gets a model when the run ends
                return changed
            raise
        recipe = _name(saved.recipe, source, target)
        card = {**saved.card, "languages": [source, target]}
        files = {"recipe.toml": recipe.to_toml().encode(), "card.json": bundle.card_bytes(card)}
        bundle.rewrite(saved.folder, files)
    return [*changed, saved.folder]


def _name(recipe: Recipe, source: str, target: str) -> Recipe:
    return recipe.change({"languages.source": source, "languages.target": target})
