"""A run on disk: recipe, vocabulary, weights and state; whole or ignored, never half.

    RUN/recipe.toml  vocabulary.model  events.jsonl  tensorboard/
        checkpoints/step-00001200/{model,optimizer,mean}.safetensors  state.json  MANIFEST.json
        model/{recipe.toml, vocabulary.model, model.safetensors, card.json, MANIFEST.json}

A folder is written beside its place, every file flushed, the manifest of sizes and hashes last, then renamed.
Reading never runs code and never allocates more than the recipe implies: shapes are compared before bytes are read.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from jumok.config import Recipe, read_recipe
from jumok.errors import DiskError, JumokError, ModelFileError
from jumok.models import build
from jumok.text.vocabulary import Vocabularies

MANIFEST = "MANIFEST.json"


def write_whole(place: Path, tensors: Mapping[str, Mapping[str, Tensor]], files: Mapping[str, bytes]) -> None:
    """Make the folder `place` with these safetensors and other files; it appears whole or not at all."""
    beside = place.with_name(place.name + ".partial")
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        for name, group in tensors.items():
            save_file({key: value.detach().contiguous() for key, value in group.items()}, str(beside / name))
            _sync(beside / name)
        for name, content in files.items():
            _write(beside / name, content)
        listed = {path.name: {"size": path.stat().st_size, "sha256": _sha256(path)} for path in sorted(beside.iterdir())}
        _write(beside / MANIFEST, json.dumps(listed, indent=1).encode())
        if place.exists():
            shutil.rmtree(place)
        beside.rename(place)
        _sync(place.parent)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(beside, ignore_errors=True)
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DiskError(f"cannot save: {reason}", where=f"in {place}", hint="try: df -h; free some space") from None


def verify(folder: Path) -> None:
    """Compare a folder with its manifest; a `ModelFileError` says what is wrong."""
    try:
        listed = json.loads((folder / MANIFEST).read_text())
        for name, told in listed.items():
            path = folder / name
            if Path(name).name != name or path.is_symlink():
                raise ModelFileError(f"{name} points out of its folder", where=f"in {folder}")
            if path.stat().st_size != told["size"]:
                raise ModelFileError(f"{name} has {path.stat().st_size:,} bytes, not {told['size']:,}", where=f"in {folder}")
            if _sha256(path) != told["sha256"]:
                raise ModelFileError(f"{name} is not the file that was saved", where=f"in {folder}")
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelFileError(f"not a whole checkpoint: {error}", where=f"in {folder}") from None


def read_tensors(path: Path, expected: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file; with `expected` names, shapes and types must be just these."""
    try:
        with safe_open(str(path), framework="pt") as file:
            names = set(file.keys())
            if expected is not None:
                if names != set(expected):
                    odd = sorted(names ^ set(expected))[0]
                    raise ModelFileError(f"the weights do not fit the recipe: {odd!r} is on one side only", where=f"in {path}")
                for name, tensor in expected.items():
                    shape = tuple(file.get_slice(name).get_shape())
                    if shape != tuple(tensor.shape):
                        wanted = tuple(tensor.shape)
                        raise ModelFileError(f"{name} is {shape}, the recipe says {wanted}", where=f"in {path}")
            return {name: file.get_tensor(name) for name in sorted(names)}
    except (SafetensorError, OSError) as error:
        raise ModelFileError(f"cannot read the weights: {error}", where=f"in {path}") from None


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and running statistics by name; tied tensors once."""
    persistent = model.state_dict(keep_vars=True)
    named = dict(model.named_parameters())
    buffers = {name: value for name, value in persistent.items() if not isinstance(value, nn.Parameter)}
    return {name: value.detach() for name, value in (named | buffers).items()}


@torch.no_grad()
def set_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    for name, value in weights(model).items():
        value.copy_(tensors[name])


def average(groups: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several models' weights, in double (section 6.1: the last 5 checkpoints of base, 20 of big)."""
    return {
        name: torch.stack([group[name].double() for group in groups]).mean(dim=0).to(first.dtype)
        for name, first in groups[0].items()
    }


@dataclass(frozen=True)
class Checkpoint:
    """One verified checkpoint."""

    folder: Path
    state: dict[str, Any]

    @property
    def step(self) -> int:
        return int(self.state["progress"]["step"])


class RunFolder:
    """Where a run lives."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / "checkpoints"
        self.events = self.path / "events.jsonl"
        self.tensorboard = self.path / "tensorboard"
        self.data = self.path / "data"
        self.bundle = self.path / "model"

    def begin(self, recipe: Recipe) -> None:
        """Make the folder and write the resolved recipe."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            _write(self.path / "recipe.toml", recipe.to_toml().encode())
        except OSError as error:
            raise DiskError(f"cannot write the run: {error.strerror}", where=f"in {self.path}") from None

    def recipe(self) -> Recipe:
        return read_recipe(self.path / "recipe.toml")

    def steps(self) -> list[Path]:
        """Folders that look like checkpoints, oldest first."""
        return sorted(self.checkpoints.glob("step-????????"))

    def save(
        self, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any], *, keep: int, best: int
    ) -> Path:
        """Write a checkpoint, then drop all but the newest `keep` and the best."""
        place = self.checkpoints / f"step-{step:08d}"
        write_whole(place, tensors, {"state.json": json.dumps(state, indent=1).encode()})
        old = [path for path in self.steps() if path != place and int(path.name[5:]) != best]
        for path in old[: max(0, len(old) - keep + 1)]:
            shutil.rmtree(path, ignore_errors=True)
        return place

    def newest(self) -> tuple[Checkpoint | None, list[JumokError]]:
        """The newest checkpoint that verifies, and why each newer one was refused."""
        refused: list[JumokError] = []
        for folder in reversed(self.steps()):
            try:
                return self.read(folder), refused
            except ModelFileError as error:
                refused.append(error)
        return None, refused

    @staticmethod
    def read(folder: Path) -> Checkpoint:
        """A checkpoint whose files are those of its manifest."""
        verify(folder)
        try:
            state = json.loads((folder / "state.json").read_text())
            return Checkpoint(folder, {**state, "progress": dict(state["progress"])})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelFileError(f"the state is not readable: {error}", where=f"in {folder}") from None


def export(
    place: Path, model_weights: Mapping[str, Tensor], recipe: Recipe, vocabularies: Vocabularies, card: Mapping[str, Any]
) -> None:
    """Write a bundle: all that translating needs, and nothing of training."""
    files = {
        "recipe.toml": recipe.to_toml().encode(),
        "card.json": json.dumps(card, indent=1, ensure_ascii=False).encode(),
        **vocabularies.files(),
    }
    write_whole(place, {"model.safetensors": model_weights}, files)


@dataclass(frozen=True)
class Bundle:
    """A model read from disk, ready to translate."""

    model: nn.Module
    recipe: Recipe
    vocabularies: Vocabularies
    card: dict[str, Any]
    folder: Path


def find_bundle(path: str | Path) -> Path:
    """The bundle of a run or of a bundle's own folder."""
    path = Path(path)
    for folder in (path / "model", path):
        if (folder / "model.safetensors").exists():
            return folder
    if RunFolder(path).steps():
        hint = f"try: jumok model average {path}"
        raise ModelFileError("the run has checkpoints but no finished model yet", where=f"in {path}", hint=hint)
    raise ModelFileError("there is no model", where=f"in {path}", hint="try: jumok train --help")


def load(path: str | Path) -> Bundle:
    """A bundle, verified; the weights must be those that the recipe and the vocabulary imply."""
    folder = find_bundle(path)
    verify(folder)
    recipe, vocabularies = read_recipe(folder / "recipe.toml"), Vocabularies.load(folder)
    try:
        card = json.loads((folder / "card.json").read_text())
    except (OSError, ValueError) as error:
        raise ModelFileError(f"the card is not readable: {error}", where=f"in {folder}") from None
    if not isinstance(card, dict) or card.get("vocabulary") != vocabularies.digest:
        raise ModelFileError("the vocabulary is not the one this model was trained with", where=f"in {folder}")
    model = build(recipe.model, len(vocabularies.source), len(vocabularies.target))
    set_weights(model, read_tensors(folder / "model.safetensors", weights(model)))
    return Bundle(model.eval(), recipe, vocabularies, card, folder)


def _write(path: Path, content: bytes) -> None:
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
