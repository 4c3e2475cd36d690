"""A run folder in use: locked, claimed by one recipe, and refused if it holds another run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple

from jumok.config.recipe import Recipe
from jumok.config.sections import UNCLEANED, DataConfig, LanguagesConfig
from jumok.data import resolve, stdin
from jumok.data.languages import find_languages
from jumok.disk.locks import lock
from jumok.errors import ModelFileError, Resumable, UsageError
from jumok.runs.context import Context
from jumok.stopping import Stopped
from jumok.storage import bundle
from jumok.storage.checkpoint import RunFolder
from jumok.training.distributed import World


@contextmanager
def hold(folder: RunFolder, context: Context) -> Iterator[None]:
    """Lock the folder for all processes of the run; a stop is raised as `Resumable`, and logs are closed."""
    locked = lock(folder.path, "the run", note=context.note) if context.world.first else nullcontext()
    with locked:
        try:
            yield
        except Stopped:
            raise resumable(folder.path) from None
        finally:
            context.report.close()


def resumable(folder: Path) -> Resumable:
    """The error for work that was stopped on request before training."""
    return Resumable("runs.stopped_early", folder=folder)


class Texts(NamedTuple):
    """The data section of a recipe: as it was given, and with standard input named by its copy."""

    given: DataConfig
    named: DataConfig


def settle_data(recipe: Recipe, folder: RunFolder) -> tuple[Recipe, Texts]:
    """Return the recipe as it is saved, and its data section as it was given.

    Runs that began before there was cleaning continue without it; languages are found unless they are given; standard
    input is named by its copy; addresses are saved without their secrets.
    """
    if bundle.is_older(folder.path):
        recipe = recipe.change(UNCLEANED)
    named = stdin.replace_stdin(recipe.data, folder.data)
    saved = recipe.model_copy(update={"data": resolve.redact_addresses(named)})
    return saved.model_copy(update={"languages": _settle_languages(saved, folder)}), Texts(recipe.data, named)


def _settle_languages(recipe: Recipe, folder: RunFolder) -> LanguagesConfig:
    """Return the languages that were given, or else those of the run so far, or those that its text names."""
    tags = recipe.languages.model_dump(exclude_none=True)
    if recipe.languages.pair is None and folder.begun():
        with suppress(ModelFileError):  # reported by `claim` if the folder has checkpoints
            before = folder.recipe()
            if without_limits(before) == without_limits(recipe):
                tags = before.languages.model_dump(exclude_none=True) | tags
    if len(tags) < 2 and (pair := find_languages(recipe.data)) is not None:
        tags = dict(zip(("source", "target"), pair, strict=True)) | tags
    return LanguagesConfig.model_validate(tags)


def claim(folder: RunFolder, recipe: Recipe, world: World) -> None:
    """Refuse a folder that holds another run, or that cannot be written."""
    if folder.begun() and folder.steps() and without_limits(folder.recipe()) != without_limits(recipe):
        raise UsageError("runs.other_recipe", folder=folder.path)
    if world.first:
        folder.claim()


def without_limits(recipe: Recipe) -> dict[str, Any]:
    """A recipe without what may change when a run is resumed: limits, what it saves, names of languages."""
    values = recipe.model_dump(exclude={"languages"})
    for name in ("steps", "epochs", "tokens", "minutes", "until_bleu", "patience", "save_minutes", "snapshots"):
        del values["training"][name]
    return values
