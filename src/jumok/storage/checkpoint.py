"""A run on disk: recipe, vocabulary, weights and state; each folder is complete or ignored.

    RUN/recipe.toml  vocabulary.model  events.jsonl  losses.tsv  tensorboard/
        checkpoints/step-00001200/{model,optimizer,mean}.safetensors  state.json  MANIFEST.json
        snapshots/step-00000128/{model.safetensors, MANIFEST.json}  (storage/snapshots.py)
        model/{recipe.toml, vocabulary.model, model.safetensors, card.json, MANIFEST.json}

bundle.py makes folders complete or ignored; this module adds their tensors.  Reading never allocates more than the
recipe implies: shapes are compared before bytes are read.
"""

import errno
import json
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

import jumok
from jumok.config.recipe import Recipe
from jumok.errors import DiskError, JumokError, ModelFileError
from jumok.models import build
from jumok.storage import bundle
from jumok.storage.bundle import (
    WEIGHTS,
    check_format,
    check_header,
    read_json,
    saved_recipe,
    step_of,
    verify,
    write_file,
)
from jumok.text.vocabulary import Vocabularies

BLOCK = 1 << 22  # bytes of double precision that averaging holds at a time; more does not fit the cache and is slower
OPTIMIZER, MEAN = "optimizer.safetensors", "mean.safetensors"
TRAINING = (OPTIMIZER, MEAN)  # files that resuming needs and averaging does not
FULL = 2  # newest checkpoints that training can be resumed from; older ones keep only their weights
TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "I64": torch.int64,
    "BOOL": torch.bool,
}


def write_whole(folder: Path, tensors: Mapping[str, Mapping[str, Tensor]], files: Mapping[str, bytes]) -> None:
    """Write a folder with these safetensors and other files; it appears complete or not at all."""
    with bundle.replace_folder(folder) as partial:
        for name, group in tensors.items():
            try:
                save_file({key: value.detach().contiguous() for key, value in group.items()}, str(partial / name))
            except SafetensorError as error:
                raise OSError(str(error)) from error
        for name, content in files.items():
            write_file(partial / name, content)


def read_tensors(path: Path, expected: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file; with `expected`, names, shapes and types must be exactly these."""
    with _open(path, expected) as file:
        return {name: file.get_tensor(name) for name in sorted(file.keys())}


@contextmanager
def _open(path: Path, expected: Mapping[str, Tensor] | None) -> Iterator[Any]:
    """An open safetensors file with the `expected` names, shapes and types; no tensor is read yet."""
    try:
        check_header(path)
        with safe_open(str(path), framework="pt") as file:
            if expected is not None:
                names = set(file.keys())
                compare({name: _outline(file.get_slice(name)) for name in names}, expected, path)
            yield file
    except (SafetensorError, OSError) as error:
        raise ModelFileError("storage.cannot_read_weights", reason=error, file=path) from None


def compare(outlines: Mapping[str, tuple[Any, ...]], expected: Mapping[str, Tensor], file: Path) -> None:
    """Refuse tensors, known by (shape, type), that are not those expected."""
    for name in sorted(outlines.keys() ^ expected.keys()):
        if name in outlines:
            raise ModelFileError("storage.unknown_tensor", tensor=name, file=file)
        raise ModelFileError("storage.missing_tensor", tensor=name, file=file)
    for name, tensor in expected.items():
        shape, kind = outlines[name]
        if (shape, kind) != (tuple(tensor.shape), tensor.dtype):
            raise ModelFileError(
                "storage.wrong_tensor", tensor=name, shape=shape, type=kind, expected_shape=tuple(tensor.shape),
                expected_type=tensor.dtype, file=file,
            )  # fmt: skip


def _outline(part: Any) -> tuple[tuple[int, ...], Any]:
    """Shape and type of a tensor that is still on disk."""
    return tuple(part.get_shape()), TYPES.get(part.get_dtype(), part.get_dtype())


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
    """The mean of several models' weights, in double precision (section 6.1: the last 5 checkpoints; 20 of big)."""
    return {name: _mean([group[name] for group in groups]) for name in groups[0]}


def average_files(paths: Sequence[Path], expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same mean, bit for bit, from safetensors files that are read a few rows at a time.

    Memory holds the mean and at most `BLOCK` bytes of the models, regardless of their number.
    """
    with ExitStack() as stack:
        files = [stack.enter_context(_open(path, expected)) for path in paths]
        mean = {}
        for name, like in expected.items():
            if like.numel() * 8 * len(files) <= BLOCK:
                mean[name] = _mean([file.get_tensor(name) for file in files])
                continue
            slices = [file.get_slice(name) for file in files]
            mean[name] = torch.empty(like.shape, dtype=like.dtype)
            rows = max(1, BLOCK // (8 * len(files) * like[0].numel()))
            for start in range(0, len(like), rows):
                stop = min(len(like), start + rows)
                mean[name][start:stop] = _mean([part[start:stop] for part in slices])
        return mean


def _mean(tensors: Sequence[Tensor]) -> Tensor:
    """The mean of tensors of one shape, in double precision; no element depends on the others."""
    return torch.stack([tensor.double() for tensor in tensors]).mean(dim=0).to(tensors[0].dtype)


@dataclass(frozen=True)
class Checkpoint:
    """One verified checkpoint."""

    folder: Path
    state: dict[str, Any]

    @property
    def step(self) -> int:
        return int(self.state["progress"]["step"])

    @property
    def losses(self) -> int:
        """Bytes of the loss log when the checkpoint was saved."""
        size = self.state.get("losses", 0)
        return size if isinstance(size, int) and size >= 0 else 0

    def tensors(self, name: str, expected: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """The tensors of one of its files; with `expected`, it must hold exactly these names, shapes and types.

        Otherwise it may be as large as the state of an optimizer: two values for every weight.
        """
        size, model_size = ((self.folder / file).stat().st_size for file in (name, WEIGHTS))
        if expected is None and size > 2 * model_size + bundle.HEADER:
            raise ModelFileError("storage.large_state", file=name, folder=self.folder)
        return read_tensors(self.folder / name, expected)


class RunFolder:
    """The folder of a run: the paths in it, and its checkpoints."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / "checkpoints"
        self.events = self.path / "events.jsonl"
        self.losses = self.path / "losses.tsv"
        self.tensorboard = self.path / "tensorboard"
        self.data = self.path / "data"
        self.bundle = self.path / "model"

    def claim(self) -> None:
        """Create the folder, and repair what a killed run has left in it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not os.access(self.path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            for folder in (self.path, self.checkpoints, self.data, self.path / "snapshots"):
                bundle.tidy(folder)
        except OSError as error:
            raise self._cannot_write(error) from None

    def _cannot_write(self, error: OSError) -> DiskError:
        parent = shlex.quote(str(self.path.parent))
        return DiskError("storage.cannot_write_run", reason=error.strerror, folder=self.path, parent=parent)

    def begin(self, recipe: Recipe) -> None:
        """Create the folder and write the resolved recipe."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write_file(self.path / "recipe.toml", recipe.to_toml().encode())
        except OSError as error:
            raise self._cannot_write(error) from None

    def begun(self) -> bool:
        """Whether a run has begun in this folder."""
        return (self.path / "recipe.toml").exists()

    def recipe(self) -> Recipe:
        return saved_recipe(self.path)

    def steps(self) -> list[Path]:
        """Folders that look like checkpoints, oldest first."""
        return bundle.checkpoints(self.path)

    def save(
        self, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any], *, keep: int, best: int
    ) -> Path:
        """Write a checkpoint, then remove all but the newest `keep` and the best; older ones keep only their weights.

        Those saved between two validations are removed first, so that the others are those of a run without stops.
        """
        folder = self.checkpoints / f"step-{step:08d}"
        content = {"format": bundle.FORMAT, **state}
        write_whole(folder, tensors, {"state.json": json.dumps(content, indent=1).encode()})
        passing = set(self.passing())
        old = [path for path in self.steps() if step_of(path) < step and step_of(path) != best and path not in passing]
        retained = keep if folder in passing else keep - 1
        for path in [*(passing - {folder}), *old[: max(0, len(old) - retained)]]:
            shutil.rmtree(path, ignore_errors=True)
        for path in [path for path in self.steps() if step_of(path) <= step][:-FULL]:
            with suppress(ModelFileError, OSError):  # a damaged checkpoint stays as it is, since it is never read
                bundle.drop(path, TRAINING)
        return folder

    def passing(self) -> Iterator[Path]:
        """Checkpoints without a validation, saved because the run was stopped or because time had passed."""
        for path in self.steps():
            with suppress(ModelFileError):
                if read_json(path / "state.json").get("passing"):
                    yield path

    def newest(self) -> tuple[Checkpoint | None, list[JumokError]]:
        """The newest checkpoint that verifies and can be resumed, and why each newer one was refused."""
        refused: list[JumokError] = []
        newest = self.last(1, refused=refused, full=True)
        return (newest[0] if newest else None), refused

    def last(
        self,
        count: int,
        *,
        until: int | None = None,
        due: bool = False,
        full: bool = False,
        refused: list[JumokError] | None = None,
    ) -> list[Checkpoint]:
        """The newest `count` checkpoints that verify, newest first; errors of others are added to `refused`.

        With `due`, only those that every run of the recipe has, stopped or not; with `full`, only those that training
        can be resumed from.
        """
        verified: list[Checkpoint] = []
        for folder in reversed(self.steps()):
            if len(verified) == count:
                break
            if until is not None and step_of(folder) > until:
                continue
            try:
                checkpoint = self.read(folder, full=full)
            except ModelFileError as error:
                if refused is not None:
                    refused.append(error)
                continue
            if not (due and checkpoint.state.get("passing")):
                verified.append(checkpoint)
        return verified

    @staticmethod
    def read(folder: Path, *, full: bool = True) -> Checkpoint:
        """A checkpoint whose files are those of its manifest; if `full`, training can be resumed from it."""
        listed = verify(folder, (WEIGHTS, "state.json"))
        if full and OPTIMIZER not in listed:
            raise ModelFileError("storage.weights_only", manifest=bundle.MANIFEST, file=OPTIMIZER, folder=folder)
        if full and MEAN not in listed and os.path.lexists(folder / MEAN):
            raise ModelFileError("storage.not_listed", manifest=bundle.MANIFEST, file=MEAN, folder=folder)
        state = read_json(folder / "state.json")
        check_format(state, folder / "state.json")
        progress = state.get("progress")
        if not isinstance(progress, dict) or type(progress.get("step")) is not int:
            raise ModelFileError("storage.no_progress", file="state.json", folder=folder)
        if progress["step"] != step_of(folder):
            raise ModelFileError("storage.other_step", file="state.json", folder=folder)
        return Checkpoint(folder, state)


def export(
    folder: Path,
    model_weights: Mapping[str, Tensor],
    recipe: Recipe,
    vocabularies: Vocabularies,
    card: Mapping[str, Any],
    more: Mapping[str, bytes] | None = None,
) -> None:
    """Write a bundle: everything that translating needs, and nothing of training; `more` are further files."""
    files = {
        "recipe.toml": recipe.to_toml().encode(),
        "card.json": bundle.card_bytes({"format": bundle.FORMAT, **card}),
        **vocabularies.files(),
        **(more or {}),
    }
    write_whole(folder, {WEIGHTS: model_weights}, files)


@dataclass(frozen=True, kw_only=True)
class Loaded(bundle.Bundle):
    """A bundle and its model, ready to translate."""

    model: nn.Module


def load(path: str | Path) -> Loaded:
    """A bundle, verified; the weights must be those that the recipe and the vocabulary imply."""
    return with_model(bundle.read(path))


def with_model(saved: bundle.Bundle) -> Loaded:
    """A bundle together with its model."""
    tensors = read_tensors(saved.folder / WEIGHTS, weights(build(saved.recipe.model, *saved.sizes, device="meta")))
    model = build(saved.recipe.model, *saved.sizes)
    set_weights(model, tensors)
    return Loaded(**{field.name: getattr(saved, field.name) for field in fields(saved)}, model=model.eval())


def maker(recipe: Recipe) -> dict[str, Any]:
    """The first entries of a card: the recipe, its languages if they are known, the date and the version."""
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    languages = {} if recipe.languages.pair is None else {"languages": list(recipe.languages.pair)}
    return {"name": recipe.name, **languages, "made": today, "by": f"jumok {jumok.__version__}"}
