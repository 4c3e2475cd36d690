"""Folders that are complete or ignored, and the bundle of a finished model; no torch, no numpy.

    RUN/model/{recipe.toml, vocabulary.model, model.safetensors, shortlist.safetensors, known.bin, card.json,
               MANIFEST.json}

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
from functools import cached_property
from pathlib import Path
from typing import Any

from jumok.config.recipe import Recipe, read_recipe
from jumok.config.sections import LONGEST_TAG, TAG, CleaningConfig, TransformerConfig
from jumok.errors import DiskError, JumokError, MissingPackage, ModelFileError
from jumok.messages import Message
from jumok.text.vocabulary import Vocabularies

MANIFEST = "MANIFEST.json"
WEIGHTS = "model.safetensors"
SHORTLIST = "shortlist.safetensors"
FORMAT = 1  # format number of bundles and checkpoints, in card.json and state.json; a file without one has format 1
NAME = re.compile(r"(?!\.+$)[A-Za-z0-9_.-]{1,100}")
FILES = 64  # most files of a manifest
JSON = 1_000_000  # most bytes of a JSON file
BEFORE = {"data": {"clean": dict.fromkeys(CleaningConfig.model_fields, False)}}  # defaults of recipes before cleaning
HEADER = 8_000_000  # most bytes of names and shapes before the tensors of a file
OTHER = 64_000_000  # most bytes of a file whose size does not follow from the recipe
LARGEST = 10**18  # numbers beyond this are not printed


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """Everything that translating needs, verified; the weights are still on disk."""

    recipe: Recipe
    vocabularies: Vocabularies
    card: dict[str, Any]
    folder: Path
    sizes: tuple[int, int]  # symbols of the source and of the target
    aligning: tuple[int, int] | None = None  # layer and head, from 0, of the cross-attention that aligns words

    @cached_property
    def languages(self) -> tuple[str, str] | None:
        """The BCP 47 tags of source and target, such as ("en", "de"); None if they are unknown.

        Models of earlier versions name no languages in card and recipe; the names of their training files may.
        """
        if (given := self.card.get("languages")) is not None:
            return given[0], given[1]
        if (pair := self.recipe.languages.pair) is not None:
            return pair
        from jumok.storage.languages import guess_languages  # the table of all languages, which translating never needs

        return guess_languages(self.recipe.data)


def read(path: str | Path) -> Bundle:
    """Return the bundle of a run folder, or in a model folder itself: every file is the one that was saved."""
    folder = find(path)
    listed = manifest(folder)
    first = ["card.json", "recipe.toml", *_vocabulary_files(folder, listed)]  # the sizes of the others follow from them
    for name in first:
        check(folder, listed, name, most=OTHER)
    card = read_json(folder / "card.json")
    check_format(card, folder / "card.json")
    _check_languages(card, folder)
    recipe = saved_recipe(folder)
    vocabularies = Vocabularies.load(folder, breaks=recipe.vocabulary.breaks)
    if card.get("vocabulary") != vocabularies.digest:
        raise ModelFileError("storage.wrong_vocabulary", folder=folder)
    sizes = len(vocabularies.source), len(vocabularies.target)
    weights = 4 * recipe.model.parameters(*sizes)
    large = {WEIGHTS: HEADER + weights, SHORTLIST: HEADER + 2_048 * sizes[0]}
    optional = [SHORTLIST] if os.path.lexists(folder / SHORTLIST) else []
    for name in dict.fromkeys([WEIGHTS, *optional, *listed]):
        if name not in first:
            check(folder, listed, name, most=large.get(name, OTHER))
    if (size := (folder / WEIGHTS).stat().st_size) < weights // 4:
        raise ModelFileError("storage.wrong_size", file=WEIGHTS, size=size, expected=weights, folder=folder)
    return Bundle(
        recipe=recipe, vocabularies=vocabularies, card=card, folder=folder, sizes=sizes,
        aligning=_read_aligning(card, recipe, folder),
    )  # fmt: skip


def _check_languages(card: Mapping[str, Any], folder: Path) -> None:
    """Refuse a card whose `languages` are not two tags in the form that a recipe has them in."""
    given = card.get("languages")
    if given is None or (
        isinstance(given, list)
        and len(given) == 2
        and all(isinstance(tag, str) and len(tag) <= LONGEST_TAG and re.fullmatch(TAG, tag) for tag in given)
    ):
        return
    raise ModelFileError("storage.bad_languages", file="card.json", folder=folder)


def _read_aligning(card: Mapping[str, Any], recipe: Recipe, folder: Path) -> tuple[int, int] | None:
    """Return the layer and the head in `aligning` of a card, which must be those of a head of the model."""
    given = card.get("aligning")
    if given is None:
        return None
    if isinstance(given, dict) and given.keys() == {"layer", "head"} and isinstance(recipe.model, TransformerConfig):
        layer, head = given["layer"], given["head"]
        sizes = (layer, recipe.model.decoder_layers), (head, recipe.model.heads)
        if all(type(number) is int and 0 <= number < size for number, size in sizes):
            return layer, head
    raise ModelFileError("storage.bad_aligning", file="card.json", folder=folder)


def _vocabulary_files(folder: Path, listed: Collection[str]) -> Collection[str]:
    """Return the files that `Vocabularies.load` reads."""
    joint = "vocabulary.model" in listed or os.path.lexists(folder / "vocabulary.model")
    return ["vocabulary.model"] if joint else ["vocabulary.source.model", "vocabulary.target.model"]


def find(path: str | Path) -> Path:
    """Return the folder of a bundle, given it or its run folder."""
    path = Path(path)
    for folder in (path / "model", path, path / "model.before"):  # the last if a process was killed while replacing
        if (folder / MANIFEST).exists() or (folder / WEIGHTS).exists():
            return folder
    if checkpoints(path):
        raise ModelFileError("storage.no_finished_model", folder=path, quoted=shlex.quote(str(path)))
    if path.exists():
        raise ModelFileError("storage.no_model", folder=path)
    close = difflib.get_close_matches(str(path), map(str, path.parent.glob("*")), n=1)
    advice = Message("storage.did_you_mean", {"folder": close[0]}) if close else Message("storage.try_training")
    raise ModelFileError("storage.no_folder", folder=path, parent=path.parent.absolute(), advice=advice)


def checkpoints(run: Path) -> list[Path]:
    """List the folders of a run that look like checkpoints, oldest first."""
    folders = [path for path in (run / "checkpoints").glob("step-*") if re.fullmatch(r"step-[0-9]{8,}", path.name)]
    return sorted(folders, key=step_of)


def step_of(folder: Path) -> int:
    """Return the step in the name of a checkpoint."""
    return int(folder.name.removeprefix("step-"))


def saved_recipe(folder: Path) -> Recipe:
    """Return the recipe of a run or bundle; one that cannot be read is a bad model file, not bad usage."""
    path = folder / "recipe.toml"
    try:
        _check_regular(path)
        return read_recipe(path, missing=BEFORE)
    except (MissingPackage, ModelFileError):  # the recipe may be good, but its kind of model needs torch
        raise
    except JumokError as error:
        raise ModelFileError("storage.bad_recipe", reason=error.what, location=error.where) from None


def is_older(folder: Path) -> bool:
    """Return whether a run began with a version that did not clean pairs; it continues without cleaning."""
    try:
        text = (folder / "recipe.toml").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return "[data]" in text and "[data.clean]" not in text


@contextmanager
def replace_folder(target: Path) -> Iterator[Path]:
    """Yield a folder to write files into, which replaces `target` when the block ends: completely or not at all."""
    partial, before = target.with_name(target.name + ".partial"), target.with_name(target.name + ".before")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        yield partial
        paths = sorted(partial.iterdir())
        for path in paths:
            sync(path)
        ours = [path for path in paths if NAME.fullmatch(path.name)]  # other files are not listed, so never read
        listed = {path.name: {"size": path.stat().st_size, "sha256": _sha256(path)} for path in ours}
        write_file(partial / MANIFEST, json.dumps(listed, indent=1).encode())
        sync(partial)
        if target.exists():
            shutil.rmtree(before, ignore_errors=True)
            target.rename(before)  # the earlier folder stays complete until the new one has its name
        partial.rename(target)
        sync(target.parent)
    except OSError as error:
        raise DiskError("storage.cannot_save", reason=error.strerror or str(error), folder=target) from None
    finally:
        if before.exists() and not target.exists():
            before.rename(target)
        for leftover in (partial, before):
            shutil.rmtree(leftover, ignore_errors=True)


def rewrite(folder: Path, files: Mapping[str, bytes]) -> None:
    """Replace or add files of a complete folder, which has all of the new content or none of it."""
    listed = verify(folder)
    with replace_folder(folder) as partial:
        for name in listed:
            if name not in files:
                shutil.copyfile(folder / name, partial / name)
        for name, content in files.items():
            write_file(partial / name, content)


def card_bytes(card: Mapping[str, Any]) -> bytes:
    """Return the content of card.json."""
    return json.dumps(card, indent=1, ensure_ascii=False).encode()


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
    """Restore folders that a killed process was replacing, and remove those that it was writing."""
    for before in folder.glob("*.before"):
        target = before.with_name(before.name.removesuffix(".before"))
        if not target.exists():
            before.rename(target)
    for pattern in ("*.before", "*.partial"):
        for leftover in folder.glob(pattern):
            shutil.rmtree(leftover, ignore_errors=True)


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
        raise ModelFileError("storage.too_many_files", manifest=MANIFEST, files=len(listed), folder=folder)
    for name in listed:
        if not NAME.fullmatch(name):
            raise ModelFileError("storage.outside_folder", manifest=MANIFEST, entry=name[:100], folder=folder)
    return listed


def check(folder: Path, listed: Mapping[str, Any], name: str, *, most: int | None = None) -> None:
    """Refuse a file that is not the one listed, or larger than `most`, before it is read."""
    path = folder / name
    if name not in listed:
        raise ModelFileError("storage.not_listed", manifest=MANIFEST, file=name, folder=folder)
    entry = listed[name]
    if not isinstance(entry, dict) or type(entry.get("size")) is not int:
        raise ModelFileError("storage.no_size", manifest=MANIFEST, file=name, folder=folder)
    try:
        _check_regular(path)
        size = path.stat().st_size
        if size != entry["size"]:
            expected = _spell(entry["size"])
            raise ModelFileError("storage.other_size", file=name, size=size, expected=expected, folder=folder)
        if most is not None and size > most:
            raise ModelFileError("storage.too_large", file=name, size=size, folder=folder)
        if _sha256(path) != entry.get("sha256"):
            raise ModelFileError("storage.other_content", file=name, folder=folder)
    except OSError as error:
        raise ModelFileError("storage.cannot_read", file=name, reason=error.strerror, folder=folder) from None


def check_format(values: Mapping[str, Any], path: Path) -> None:
    """Refuse a file of a later version, by the format number in card.json or state.json."""
    version = values.get("format", FORMAT)
    if type(version) is not int or version < 1:
        raise ModelFileError("storage.no_format", file=path.name, folder=path.parent)
    if version > FORMAT:
        raise ModelFileError(
            "storage.newer_format", file=path.name, version=_spell(version), known_version=FORMAT, folder=path.parent
        )


def check_header(path: Path) -> None:
    """Refuse a safetensors file whose list of tensors is longer than that of any model."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
    if length > HEADER:
        raise ModelFileError("storage.long_header", file=path.name, size=length, folder=path.parent)


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file of at most 1 MB."""
    try:
        _check_regular(path)
        if path.stat().st_size > JSON:
            raise ModelFileError("storage.large_json", file=path.name, folder=path.parent)
        values = json.loads(path.read_bytes())
    except OSError as error:
        reason = error.strerror
        raise ModelFileError("storage.cannot_read", file=path.name, reason=reason, folder=path.parent) from None
    except (ValueError, RecursionError) as error:
        raise ModelFileError("storage.not_json", file=path.name, reason=error, folder=path.parent) from None
    if not isinstance(values, dict):
        raise ModelFileError("storage.not_json_object", file=path.name, folder=path.parent)
    return values


def _check_regular(path: Path) -> None:
    """Refuse a name that is not a regular file in this folder: missing, a link, a folder or a pipe."""
    if path.is_symlink():
        raise ModelFileError("storage.link", file=path.name, folder=path.parent)
    if not path.is_file():
        if path.name == MANIFEST:
            raise ModelFileError("storage.no_manifest", file=path.name, folder=path.parent)
        raise ModelFileError("storage.missing", file=path.name, folder=path.parent)


def _spell(number: int) -> Message:
    """A number from a file for an error message; it may have thousands of digits."""
    if abs(number) < LARGEST:
        return Message("storage.number", {"number": number})
    return Message("storage.unlimited")


def write_file(path: Path, content: bytes) -> None:
    """Write a file, completely or not at all."""
    partial = path.with_name(path.name + ".tmp")
    with open(partial, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


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
