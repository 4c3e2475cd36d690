"""Folders that are complete or ignored, and the bundle of a finished model; no torch, no numpy.

    RUN/model/{recipe.toml, vocabulary.model, model.safetensors, shortlist.safetensors, card.json, MANIFEST.json}

A folder is written under another name, every file flushed, the manifest of sizes and hashes last, then renamed.
Reading never runs code: sizes and hashes are compared first, the rest is TOML and JSON with closed schemas.  A file
that the manifest does not list is never read, nor one that is larger than the recipe implies, nor through a link.
Weights are read as arrays in storage/tensors.py, as tensors in storage/checkpoint.py.
"""

import difflib
import hashlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumok.config.recipe import Recipe, read_recipe
from jumok.config.sections import CleaningConfig
from jumok.errors import DiskError, JumokError, MissingPackage, ModelFileError
from jumok.text.vocabulary import Vocabularies

MANIFEST = "MANIFEST.json"
WEIGHTS = "model.safetensors"
SHORTLIST = "shortlist.safetensors"
FORMAT = 1  # of bundles and checkpoints, said in card.json and state.json; where nothing is said it is 1
NAME = re.compile(r"(?!\.+$)[A-Za-z0-9_.-]{1,100}")
FILES = 64  # that a manifest may list
JSON = 1_000_000  # bytes of a JSON file, at most
BEFORE = {"data": {"clean": dict.fromkeys(CleaningConfig.model_fields, False)}}  # what recipes meant that do not say it
HEADER = 8_000_000  # bytes of names and shapes before the tensors of a file, at most
OTHER = 64_000_000  # bytes of a file that this version does not read


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """All that translating needs, verified; the weights are still on disk."""

    recipe: Recipe
    vocabularies: Vocabularies
    card: dict[str, Any]
    folder: Path
    sizes: tuple[int, int]  # symbols of the source and of the target


def read(path: str | Path) -> Bundle:
    """Return the bundle of a run folder or of its own folder: every file is the one that was saved."""
    folder = find(path)
    listed = manifest(folder)
    first = [
        "card.json",
        "recipe.toml",
        *_vocabulary_files(folder, listed),
    ]  # the sizes of the others follow from these
    for name in first:
        check(folder, listed, name, most=OTHER)
    card = read_json(folder / "card.json")
    check_format(card, folder / "card.json")
    recipe, vocabularies = (known := saved_recipe(folder)), Vocabularies.load(folder, breaks=known.vocabulary.breaks)
    if card.get("vocabulary") != vocabularies.digest:
        raise ModelFileError("the vocabulary is not the one this model was trained with", where=f"in {folder}")
    sizes = len(vocabularies.source), len(vocabularies.target)
    weights = 4 * recipe.model.parameters(*sizes)
    large = {WEIGHTS: HEADER + weights, SHORTLIST: HEADER + 2_048 * sizes[0]}
    optional = [SHORTLIST] if os.path.lexists(folder / SHORTLIST) else []
    for name in dict.fromkeys([WEIGHTS, *optional, *listed]):
        if name not in first:
            check(folder, listed, name, most=large.get(name, OTHER))
    if (size := (folder / WEIGHTS).stat().st_size) < weights // 4:
        what = f"the weights do not fit the recipe: {WEIGHTS} has {size:,} bytes where it implies about {weights:,}"
        raise ModelFileError(what, where=f"in {folder}")
    return Bundle(recipe=recipe, vocabularies=vocabularies, card=card, folder=folder, sizes=sizes)


def _vocabulary_files(folder: Path, listed: Collection[str]) -> Collection[str]:
    """Return the files that `Vocabularies.load` reads."""
    joint = "vocabulary.model" in listed or os.path.lexists(folder / "vocabulary.model")
    return ["vocabulary.model"] if joint else ["vocabulary.source.model", "vocabulary.target.model"]


def find(path: str | Path) -> Path:
    """Return the folder of a bundle, from a run folder or from itself."""
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
    """List the folders of a run that look like checkpoints, oldest first."""
    folders = [path for path in (run / "checkpoints").glob("step-*") if re.fullmatch(r"step-[0-9]{8,}", path.name)]
    return sorted(folders, key=step_of)


def step_of(folder: Path) -> int:
    """Return the step in the name of a checkpoint."""
    return int(folder.name.removeprefix("step-"))


def saved_recipe(folder: Path) -> Recipe:
    """Return the recipe that a run or bundle was made with; a bad one is a bad model file, not bad usage."""
    path = folder / "recipe.toml"
    try:
        _check_own(path)
        return read_recipe(path, missing=BEFORE)
    except MissingPackage:  # the recipe is good, but its model is of a kind that needs torch
        raise
    except JumokError as error:
        raise ModelFileError(error.what, where=error.where) from None


def is_older(folder: Path) -> bool:
    """Return whether a run began before pairs were cleaned; it continues without."""
    try:
        text = (folder / "recipe.toml").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return "[data]" in text and "[data.clean]" not in text


@contextmanager
def writing_whole(place: Path) -> Iterator[Path]:
    """A folder to write files into, which becomes `place` when the block ends: whole, or not at all."""
    beside, before = place.with_name(place.name + ".partial"), place.with_name(place.name + ".before")
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        yield beside
        paths = sorted(beside.iterdir())
        for path in paths:
            sync(path)
        ours = [path for path in paths if NAME.fullmatch(path.name)]  # other files stay, unlisted
        listed = {path.name: {"size": path.stat().st_size, "sha256": _sha256(path)} for path in ours}
        write_file(beside / MANIFEST, json.dumps(listed, indent=1).encode())
        sync(beside)
        if place.exists():
            shutil.rmtree(before, ignore_errors=True)
            place.rename(before)  # what was there stays whole until the new folder has its place
        beside.rename(place)
        sync(place.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise DiskError(f"cannot save: {reason}", where=f"in {place}", hint="try: df -h; free some space") from None
    finally:
        if before.exists() and not place.exists():
            before.rename(place)
        for rest in (beside, before):
            shutil.rmtree(rest, ignore_errors=True)


def drop(folder: Path, names: Collection[str]) -> None:
    """Remove files from a complete folder, which stays complete: first from the manifest, then from the disk."""
    listed = manifest(folder)
    rest = {name: entry for name, entry in listed.items() if name not in names}
    if len(rest) < len(listed):
        write_file(folder / MANIFEST, json.dumps(rest, indent=1).encode())
        sync(folder)
    for name in names:
        (folder / name).unlink(missing_ok=True)


def tidy(folder: Path) -> None:
    """Repair what a killed process left behind: a folder that was being replaced is restored."""
    for before in folder.glob("*.before"):
        place = before.with_name(before.name.removesuffix(".before"))
        if not place.exists():
            before.rename(place)
    for pattern in ("*.before", "*.partial"):
        for rest in folder.glob(pattern):
            shutil.rmtree(rest, ignore_errors=True)


def verify(folder: Path, needed: Collection[str] = ()) -> Mapping[str, Any]:
    """Compare a folder with its manifest, which must list the files `needed`; a `ModelFileError` says what is wrong."""
    listed = manifest(folder)
    for name in {**dict.fromkeys(needed), **listed}:
        check(folder, listed, name)
    return listed


def manifest(folder: Path) -> Mapping[str, Any]:
    """Return a folder's manifest: at most 64 files, all in this folder."""
    listed = read_json(folder / MANIFEST)
    if len(listed) > FILES:
        raise ModelFileError(f"{MANIFEST} lists more files than jumok makes", where=f"in {folder}")
    for name in listed:
        if not NAME.fullmatch(name):
            raise ModelFileError(f"{name[:100]!r} points out of its folder", where=f"in {folder}")
    return listed


def check(folder: Path, listed: Mapping[str, Any], name: str, *, most: int | None = None) -> None:
    """Refuse a file that is not the one listed, or larger than `most`, before it is read."""

    def refuse(what: str) -> ModelFileError:
        return ModelFileError(what, where=f"in {folder}")

    path = folder / name
    if name not in listed:
        raise refuse(f"{MANIFEST} does not list {name}")
    entry = listed[name]
    if not isinstance(entry, dict) or type(entry.get("size")) is not int:
        raise refuse(f"{MANIFEST} does not say how large {name} is")
    try:
        _check_own(path)
        size = path.stat().st_size
        if size != entry["size"]:
            raise refuse(f"{name} has {size:,} bytes, not {_number(entry['size'])}")
        if most is not None and size > most:
            raise refuse(f"{name} is larger than any that fits the recipe: {size:,} bytes")
        if _sha256(path) != entry.get("sha256"):
            raise refuse(f"{name} is not the file that was saved")
    except OSError as error:
        raise refuse(f"cannot read {name}: {error.strerror}") from None


def check_format(values: Mapping[str, Any], path: Path) -> None:
    """Refuse what a later version made, by the format in its card.json or state.json."""
    version = values.get("format", FORMAT)
    if type(version) is not int or version < 1:
        raise ModelFileError(f"{path.name} does not say which format it has", where=f"in {path.parent}")
    if version > FORMAT:
        what = f"made by a newer jumok: {path.name} has the format {_number(version)}, not {FORMAT}"
        raise ModelFileError(what, where=f"in {path.parent}", hint="try: pip install -U jumok")


def check_header(path: Path) -> None:
    """Refuse a safetensors file whose list of tensors is longer than that of any model."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
    if length > HEADER:
        raise ModelFileError(f"{path.name} has a list of tensors of {length:,} bytes", where=f"in {path.parent}")


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file of at most 1 MB."""
    try:
        _check_own(path)
        if path.stat().st_size > JSON:
            raise ModelFileError(f"{path.name} is larger than any that jumok makes", where=f"in {path.parent}")
        values = json.loads(path.read_bytes())
    except OSError as error:
        raise ModelFileError(f"cannot read {path.name}: {error.strerror}", where=f"in {path.parent}") from None
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path.name} is not JSON: {error}", where=f"in {path.parent}") from None
    if not isinstance(values, dict):
        raise ModelFileError(f"{path.name} is not a JSON object", where=f"in {path.parent}")
    return values


def _check_own(path: Path) -> None:
    """Refuse a name that is not a file of this folder itself: nothing, a link, a folder, a pipe."""
    if path.is_symlink():
        raise ModelFileError(f"{path.name} is a link: it points out of its folder", where=f"in {path.parent}")
    if not path.is_file():
        unfinished = ": never finished, or not made by jumok" if path.name == MANIFEST else " or no file"
        raise ModelFileError(f"{path.name} is missing{unfinished}", where=f"in {path.parent}")


def _number(value: int) -> str:
    return f"{value:,}" if abs(value) < 10**18 else "endlessly many"


def write_file(path: Path, content: bytes) -> None:
    """Write a file, completely or not at all."""
    beside = path.with_name(path.name + ".tmp")
    with open(beside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
