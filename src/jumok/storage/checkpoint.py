"""A run on disk: recipe, vocabulary, weights and state; whole or ignored, never half.

    RUN/recipe.toml  vocabulary.model  events.jsonl  losses.tsv  tensorboard/
        checkpoints/step-00001200/{model,optimizer,mean}.safetensors  state.json  MANIFEST.json
        model/{recipe.toml, vocabulary.model, model.safetensors, card.json, MANIFEST.json}

How a folder is whole or ignored is in bundle.py; here are its tensors.  Reading never allocates more than the recipe
implies: shapes are compared before bytes are read.
"""

import errno
import json
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
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

BLOCK = 1 << 22  # bytes of double precision that averaging holds at a time; more is slower, it leaves the cache
OPTIMIZER, MEAN = "optimizer.safetensors", "mean.safetensors"
TRAINING = (OPTIMIZER, MEAN)  # what a checkpoint needs for training to go on, and averaging does not
FULL = 2  # newest checkpoints that training can be resumed from; older ones keep their weights alone
TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "I64": torch.int64,
    "BOOL": torch.bool,
}


def write_whole(place: Path, tensors: Mapping[str, Mapping[str, Tensor]], files: Mapping[str, bytes]) -> None:
    """Make the folder `place` with these safetensors and other files; it appears whole or not at all."""
    with bundle.writing_whole(place) as folder:
        for name, group in tensors.items():
            try:
                save_file({key: value.detach().contiguous() for key, value in group.items()}, str(folder / name))
            except SafetensorError as error:
                raise OSError(str(error)) from error
        for name, content in files.items():
            write_file(folder / name, content)


def read_tensors(path: Path, expected: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file; with `expected` names, shapes and types must be just these."""
    with _open(path, expected) as file:
        return {name: file.get_tensor(name) for name in sorted(file.keys())}


@contextmanager
def _open(path: Path, expected: Mapping[str, Tensor] | None) -> Iterator[Any]:
    """An open safetensors file; with `expected` names, shapes and types are just these.  Nothing is read yet."""
    try:
        check_header(path)
        with safe_open(str(path), framework="pt") as file:
            if expected is not None:
                names = set(file.keys())
                compare({name: _outline(file.get_slice(name)) for name in names}, expected, where=f"in {path}")
            yield file
    except (SafetensorError, OSError) as error:
        raise ModelFileError(f"cannot read the weights: {error}", where=f"in {path}") from None


def compare(found: Mapping[str, tuple[Any, ...]], expected: Mapping[str, Tensor], *, where: str) -> None:
    """Refuse tensors, known by (shape, type), that are not those expected."""
    for name in sorted(found.keys() ^ expected.keys()):
        which = "unknown to the recipe" if name in found else "missing in the file"
        raise ModelFileError(f"the weights do not fit the recipe: {name!r} is {which}", where=where)
    for name, tensor in expected.items():
        wanted = (tuple(tensor.shape), tensor.dtype)
        if found[name] != wanted:
            (shape, kind), (right, sort) = found[name], wanted
            what = f"the weights do not fit the recipe: {name} is {shape} {kind}, not {right} {sort}"
            raise ModelFileError(what, where=where)


def _outline(part: Any) -> tuple[tuple[int, ...], Any]:
    """Shape and type of a tensor that has not been read."""
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
    """The mean of several models' weights, in double (section 6.1: the last 5 checkpoints of base, 20 of big)."""
    return {name: _mean([group[name] for group in groups]) for name in groups[0]}


def average_files(paths: Sequence[Path], expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same bits from safetensors files, read a few rows at a time.

    Memory holds the mean and at most `BLOCK` bytes of the models, however many there are.
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
    """The mean of tensors of one shape, in double; each element is the same in a part as in the whole."""
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
        """Bytes of the loss log when it was saved."""
        size = self.state.get("losses", 0)
        return size if isinstance(size, int) and size >= 0 else 0

    def tensors(self, name: str, expected: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """One of its safetensors files; with `expected` it must hold just these names, shapes and types.

        Without, it is at most as large as what an optimizer remembers of a model: two values of every weight.
        """
        size, model = ((self.folder / one).stat().st_size for one in (name, WEIGHTS))
        if expected is None and size > 2 * model + bundle.HEADER:
            raise ModelFileError(f"{name} is larger than any that fits the weights", where=f"in {self.folder}")
        return read_tensors(self.folder / name, expected)


class RunFolder:
    """Where a run lives."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / "checkpoints"
        self.events = self.path / "events.jsonl"
        self.losses = self.path / "losses.tsv"
        self.tensorboard = self.path / "tensorboard"
        self.data = self.path / "data"
        self.bundle = self.path / "model"

    def claim(self) -> None:
        """Make the folder, and put right what a killed run has left in it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not os.access(self.path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            for folder in (self.path, self.checkpoints, self.data):
                bundle.tidy(folder)
        except OSError as error:
            raise self._refused(error) from None

    def _refused(self, error: OSError) -> DiskError:
        hint = f"try: ls -ld {shlex.quote(str(self.path.parent))}, or another --out"
        return DiskError(f"cannot write the run: {error.strerror}", where=f"in {self.path}", hint=hint)

    def begin(self, recipe: Recipe) -> None:
        """Make the folder and write the resolved recipe."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write_file(self.path / "recipe.toml", recipe.to_toml().encode())
        except OSError as error:
            raise self._refused(error) from None

    def begun(self) -> bool:
        """Whether a run has been here."""
        return (self.path / "recipe.toml").exists()

    def recipe(self) -> Recipe:
        return saved_recipe(self.path)

    def steps(self) -> list[Path]:
        """Folders that look like checkpoints, oldest first."""
        return bundle.checkpoints(self.path)

    def save(
        self, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any], *, keep: int, best: int
    ) -> Path:
        """Write a checkpoint, then drop all but the newest `keep` and the best; older ones keep their weights alone.

        Those made between two validations go first, so that the others are those of a run that never stopped.
        """
        place = self.checkpoints / f"step-{step:08d}"
        told = {"format": bundle.FORMAT, **state}
        write_whole(place, tensors, {"state.json": json.dumps(told, indent=1).encode()})
        passing = set(self.passing())
        old = [path for path in self.steps() if step_of(path) < step and step_of(path) != best and path not in passing]
        kept = keep if place in passing else keep - 1
        for path in [*(passing - {place}), *old[: max(0, len(old) - kept)]]:
            shutil.rmtree(path, ignore_errors=True)
        for path in [path for path in self.steps() if step_of(path) <= step][:-FULL]:
            with suppress(ModelFileError, OSError):  # a damaged one stays as it is; nobody will read it
                bundle.drop(path, TRAINING)
        return place

    def passing(self) -> Iterator[Path]:
        """Checkpoints that were not due: saved because the run was stopped, or because time had passed."""
        for path in self.steps():
            with suppress(ModelFileError):
                if read_json(path / "state.json").get("passing"):
                    yield path

    def newest(self) -> tuple[Checkpoint | None, list[JumokError]]:
        """The newest checkpoint that verifies and can be resumed, and why each newer one was refused."""
        refused: list[JumokError] = []
        found = self.last(1, refused=refused, full=True)
        return (found[0] if found else None), refused

    def last(
        self,
        count: int,
        *,
        until: int | None = None,
        due: bool = False,
        full: bool = False,
        refused: list[JumokError] | None = None,
    ) -> list[Checkpoint]:
        """The newest `count` checkpoints that verify, newest first; why others do not is added to `refused`.

        With `due`, only those that every run of the recipe has, stopped or not; with `full`, only those that training
        can be resumed from.
        """
        found: list[Checkpoint] = []
        for folder in reversed(self.steps()):
            if len(found) == count:
                break
            if until is not None and step_of(folder) > until:
                continue
            try:
                one = self.read(folder, full=full)
                found += [] if due and one.state.get("passing") else [one]
            except ModelFileError as error:
                if refused is not None:
                    refused.append(error)
        return found

    @staticmethod
    def read(folder: Path, *, full: bool = True) -> Checkpoint:
        """A checkpoint whose files are those of its manifest; `full`, it has all that training needs to go on."""
        listed = verify(folder, (WEIGHTS, "state.json"))
        if full and OPTIMIZER not in listed:
            what = f"{bundle.MANIFEST} does not list {OPTIMIZER}: this checkpoint has kept its weights only"
            raise ModelFileError(what, where=f"in {folder}")
        if full and MEAN not in listed and os.path.lexists(folder / MEAN):
            raise ModelFileError(f"{bundle.MANIFEST} does not list {MEAN}", where=f"in {folder}")
        state = read_json(folder / "state.json")
        check_format(state, folder / "state.json")
        progress = state.get("progress")
        if not isinstance(progress, dict) or type(progress.get("step")) is not int:
            raise ModelFileError("state.json does not say how far the run has come", where=f"in {folder}")
        if progress["step"] != step_of(folder):
            raise ModelFileError("state.json is that of another step", where=f"in {folder}")
        return Checkpoint(folder, state)


def export(
    place: Path,
    model_weights: Mapping[str, Tensor],
    recipe: Recipe,
    vocabularies: Vocabularies,
    card: Mapping[str, Any],
    more: Mapping[str, bytes] | None = None,
) -> None:
    """Write a bundle: all that translating needs, and nothing of training; `more` are further files."""
    files = {
        "recipe.toml": recipe.to_toml().encode(),
        "card.json": json.dumps({"format": bundle.FORMAT, **card}, indent=1, ensure_ascii=False).encode(),
        **vocabularies.files(),
        **(more or {}),
    }
    write_whole(place, {"model.safetensors": model_weights}, files)


@dataclass(frozen=True, kw_only=True)
class Loaded(bundle.Bundle):
    """A bundle and its model, ready to translate."""

    model: nn.Module


def load(path: str | Path) -> Loaded:
    """A bundle, verified; the weights must be those that the recipe and the vocabulary imply."""
    return with_model(bundle.read(path))


def with_model(found: bundle.Bundle) -> Loaded:
    """A bundle with its weights read."""
    tensors = read_tensors(found.folder / WEIGHTS, weights(build(found.recipe.model, *found.sizes, device="meta")))
    model = build(found.recipe.model, *found.sizes)
    set_weights(model, tensors)
    return Loaded(**vars(found), model=model.eval())


def average_run(path: str | Path, *, last: int, out: Path | None = None) -> Path:
    """Make a model from the mean of a run's last whole checkpoints, in RUN/model unless `out` is given."""
    run = RunFolder(path)
    refused: list[JumokError] = []
    whole = run.last(last, due=True, refused=refused) or run.last(last)
    if not whole:
        raise (
            refused[0]
            if refused
            else ModelFileError("there is no checkpoint", where=f"in {run.checkpoints}", hint="try: jumok train --help")
        )
    recipe = run.recipe()
    vocabularies = Vocabularies.load(run.path, breaks=recipe.vocabulary.breaks)
    expected = weights(build(recipe.model, len(vocabularies.source), len(vocabularies.target), device="meta"))
    mean = average_files([one.folder / WEIGHTS for one in whole], expected)
    card = maker(recipe) | {
        "weights": f"mean of the checkpoints {', '.join(str(one.step) for one in reversed(whole))}",
        "vocabulary": vocabularies.digest,
    }
    place = out or run.bundle
    export(place, mean, recipe, vocabularies, card)
    return place


def maker(recipe: Recipe) -> dict[str, Any]:
    """The first lines of a card: what, when, by which version."""
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    return {"name": recipe.name, "made": today, "by": f"jumok {jumok.__version__}"}
