"""Folders that are whole or ignored, and what they say of a model; no torch, no numpy.

    RUN/model/{recipe.toml, vocabulary.model, model.safetensors, card.json, MANIFEST.json}

A folder is written beside its place, every file flushed, the manifest of sizes and hashes last, then renamed.
Reading never runs code: sizes and hashes are compared first, what is left is TOML and JSON with closed schemas.
Weights are read as arrays in weights.py, as tensors in checkpoint.py.
"""

import difflib
import hashlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumok.config import Recipe, read_recipe
from jumok.errors import DiskError, JumokError, ModelFileError
from jumok.text.vocabulary import Vocabularies

MANIFEST = "MANIFEST.json"
WEIGHTS = "model.safetensors"


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """All that translating needs, verified; the weights are still on the disk."""

    recipe: Recipe
    vocabularies: Vocabularies
    card: dict[str, Any]
    folder: Path

    @property
    def sizes(self) -> tuple[int, int]:
        """Symbols of the source and of the target."""
        return len(self.vocabularies.source), len(self.vocabularies.target)


def read(path: str | Path) -> Bundle:
    """The bundle of a run folder or of its own folder: every file is the one that was saved."""
    folder = find(path)
    verify(folder, ("recipe.toml", "card.json", WEIGHTS))
    card, recipe = read_json(folder / "card.json"), saved_recipe(folder)
    vocabularies = Vocabularies.load(folder)
    if card.get("vocabulary") != vocabularies.digest:
        raise ModelFileError("the vocabulary is not the one this model was trained with", where=f"in {folder}")
    return Bundle(recipe=recipe, vocabularies=vocabularies, card=card, folder=folder)


def find(path: str | Path) -> Path:
    """The bundle of a run or of a bundle's own folder."""
    path = Path(path)
    for folder in (path / "model", path, path / "model.before"):  # the last, if killed while the first was replaced
        if (folder / MANIFEST).exists() or (folder / WEIGHTS).exists():
            return folder
    if checkpoints(path):
        hint = f"try: jumok model average {shlex.quote(str(path))}"
        raise ModelFileError("the run has checkpoints but no finished model yet", where=f"in {path}", hint=hint)
    if path.exists():
        raise ModelFileError("there is no model in this folder", where=f"in {path}", hint="try: jumok train --help")
    near = difflib.get_close_matches(str(path), map(str, path.parent.glob("*")), n=1)
    hint = f"did you mean {near[0]}?" if near else "try: jumok train --help"
    raise ModelFileError(f"there is no folder {path}", where=f"in {path.parent.absolute()}", hint=hint)


def checkpoints(run: Path) -> list[Path]:
    """Folders of a run that look like checkpoints, oldest first."""
    found = [path for path in (run / "checkpoints").glob("step-*") if re.fullmatch(r"step-[0-9]{8,}", path.name)]
    return sorted(found, key=step_of)


def step_of(folder: Path) -> int:
    """The step that a checkpoint's name tells."""
    return int(folder.name.removeprefix("step-"))


def saved_recipe(folder: Path) -> Recipe:
    """The recipe that a run or bundle was made with; a bad one is a bad model file, not bad usage."""
    try:
        return read_recipe(folder / "recipe.toml")
    except JumokError as error:
        raise ModelFileError(error.what, where=error.where) from None


def make_whole(place: Path, fill: Callable[[Path], None]) -> None:
    """Make the folder `place` of the files that `fill` writes into the folder it gets; whole, or not at all."""
    beside, before = place.with_name(place.name + ".partial"), place.with_name(place.name + ".before")
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        fill(beside)
        paths = sorted(beside.iterdir())
        for path in paths:
            _sync(path)
        listed = {path.name: {"size": path.stat().st_size, "sha256": _sha256(path)} for path in paths}
        write_file(beside / MANIFEST, json.dumps(listed, indent=1).encode())
        _sync(beside)
        if place.exists():
            shutil.rmtree(before, ignore_errors=True)
            place.rename(before)  # what was there stays whole until the new folder has its place
        beside.rename(place)
        _sync(place.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise DiskError(f"cannot save: {reason}", where=f"in {place}", hint="try: df -h; free some space") from None
    finally:
        if before.exists() and not place.exists():
            before.rename(place)
        for rest in (beside, before):
            shutil.rmtree(rest, ignore_errors=True)


def tidy(folder: Path) -> None:
    """Put right what a process that was killed has left: a folder that was being replaced is there again."""
    for before in folder.glob("*.before"):
        place = before.with_name(before.name.removesuffix(".before"))
        if not place.exists():
            before.rename(place)
    for pattern in ("*.before", "*.partial"):
        for rest in folder.glob(pattern):
            shutil.rmtree(rest, ignore_errors=True)


def verify(folder: Path, needed: Collection[str] = ()) -> None:
    """Compare a folder with its manifest, which must list the files `needed`; a `ModelFileError` says what is wrong."""

    def refuse(what: str) -> ModelFileError:
        return ModelFileError(what, where=f"in {folder}")

    listed = read_json(folder / MANIFEST)
    for name in needed:
        if name not in listed:
            raise refuse(f"{MANIFEST} does not list {name}")
    for name, told in listed.items():
        path = folder / name
        if not re.fullmatch(r"[\w.-]+", name) or path.is_symlink():
            raise refuse(f"{name!r} points out of its folder")
        if not path.is_file():
            raise refuse(f"{name} is missing")
        if not isinstance(told, dict) or not isinstance(told.get("size"), int):
            raise refuse(f"{MANIFEST} does not say how large {name} is")
        if path.stat().st_size != told["size"]:
            raise refuse(f"{name} has {path.stat().st_size:,} bytes, not {told['size']:,}")
        try:
            if _sha256(path) != told.get("sha256"):
                raise refuse(f"{name} is not the file that was saved")
        except OSError as error:
            raise refuse(f"cannot read {name}: {error.strerror}") from None


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file of at most 16 MB."""
    try:
        if path.is_symlink() or not path.is_file():
            raise ModelFileError(
                f"there is no {path.name}: never finished, or not made by jumok", where=f"in {path.parent}"
            )
        if path.stat().st_size > 16_000_000:
            raise ModelFileError(f"{path.name} is larger than any that jumok makes", where=f"in {path.parent}")
        values = json.loads(path.read_bytes())
    except OSError as error:
        raise ModelFileError(f"cannot read {path.name}: {error.strerror}", where=f"in {path.parent}") from None
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path.name} is not JSON: {error}", where=f"in {path.parent}") from None
    if not isinstance(values, dict):
        raise ModelFileError(f"{path.name} is not a JSON object", where=f"in {path.parent}")
    return values


def write_file(path: Path, content: bytes) -> None:
    """A file, whole or not at all."""
    beside = path.with_name(path.name + ".tmp")
    with open(beside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
