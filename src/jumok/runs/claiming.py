"""A run folder in use: locked, claimed by one recipe, and told apart from one that holds another run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from jumok.config.recipe import Recipe
from jumok.config.sections import UNCLEANED, DataConfig
from jumok.data import resolve, stdin
from jumok.disk.locks import lock
from jumok.errors import Resumable, UsageError
from jumok.runs.context import Context
from jumok.stopping import Stopped
from jumok.storage import bundle
from jumok.storage.checkpoint import RunFolder
from jumok.training.distributed import World


@contextmanager
def hold(folder: RunFolder, context: Context) -> Iterator[None]:
    """Lock the folder, for all processes of the run; what is stopped inside can be resumed, and logs are closed."""
    locked = lock(folder.path, "the run", note=context.note) if context.world.first else nullcontext()
    with locked:
        try:
            yield
        except Stopped:
            raise stopped(folder.path) from None
        finally:
            context.report.close()


def stopped(place: Path) -> Resumable:
    """The error for what was stopped on request."""
    hint = "run the same command again to continue"
    return Resumable("stopped; all that was made so far is kept", where=f"in {place}", hint=hint)


class Texts(NamedTuple):
    """The data section of a recipe: as it was given, and with standard input named by its copy."""

    given: DataConfig
    named: DataConfig


def settle_data(recipe: Recipe, folder: RunFolder) -> tuple[Recipe, Texts]:
    """Return the recipe as it may be written down, and its data as they were named.

    Runs begun before there was cleaning go on without; text from standard input is named by its copy; addresses may
    hold what no file may.
    """
    if bundle.is_older(folder.path):
        recipe = recipe.change(UNCLEANED)
    named = stdin.replace_stdin(recipe.data, folder.data)
    return recipe.model_copy(update={"data": resolve.redact_addresses(named)}), Texts(recipe.data, named)


def claim(folder: RunFolder, recipe: Recipe, world: World) -> None:
    """Refuse a folder that holds another run, or that cannot be written."""
    if folder.begun() and folder.steps() and comparable(folder.recipe()) != comparable(recipe):
        raise UsageError(
            "this folder holds a run with another recipe",
            where=f"in {folder.path}",
            hint="try: another --out, or the same recipe to continue that run",
        )
    if world.first:
        folder.claim()


def comparable(recipe: Recipe) -> dict[str, Any]:
    """A recipe without what may change between a stop and its continuation: the limits, and how often it is saved."""
    values = recipe.model_dump()
    for name in ("steps", "epochs", "tokens", "minutes", "until_bleu", "patience", "save_minutes"):
        del values["training"][name]
    return values
