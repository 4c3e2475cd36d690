"""Checkpoints and the loss log of a run: saving, restoring, and comparing them with the present machine and text."""

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

import jumok
from jumok import events, machine
from jumok.errors import DiskError, JumokError, ModelFileError, UsageError
from jumok.events import LossLog, Silence
from jumok.kernels import library
from jumok.messages import Message
from jumok.runs import finished
from jumok.runs.context import Context
from jumok.runs.trainee import Trainee
from jumok.storage import checkpoint, snapshots
from jumok.storage.bundle import WEIGHTS
from jumok.storage.checkpoint import FULL, MEAN, OPTIMIZER, Checkpoint, RunFolder
from jumok.training.budget import Pace
from jumok.training.distributed import World
from jumok.training.optim import Optimizer, RunningMean
from jumok.training.progress import Progress

UPDATES_PER_MINUTE = 1_200  # upper bound, for the size of the logs of a run limited by minutes
SMALL, HEADER = 16_384, 600  # bytes of a checkpoint besides its values: for manifest and state, and for each weight
UNSAVED_LIMIT = 3  # failed checkpoints in a row that end a run


@dataclass(frozen=True)
class Disk:
    """Disk space of a run in bytes."""

    checkpoints: int  # at most
    model: int  # at most
    snapshots: int  # at most
    logs: int  # at most
    there: int  # in files that exist already
    free: int

    @property
    def need(self) -> int:
        """Bytes that the run may still need."""
        return max(0, self.checkpoints + self.model + self.snapshots - self.there) + self.logs


@dataclass
class Keeper:
    """Saves a run and restores it.

    The bytes of the result depend on the recipe and on `surroundings`; an `exact` run does not continue a checkpoint
    from other surroundings.  Of the checkpoints after validations, the newest `keep` and the best stay.
    """

    folder: RunFolder
    model: nn.Module
    optimizer: Optimizer
    mean: RunningMean | None
    vocabulary: str  # its digest
    surroundings: Mapping[str, Any]
    losses: LossLog | Silence
    report: Callable[..., None]
    world: World
    keep: int
    most_snapshots: int = 0
    exact: bool = False
    unsaved: int = field(default=0, init=False)  # failed checkpoints in a row

    def restore(self) -> Progress:
        """Restore the newest checkpoint that verifies, and report newer ones that do not; without one, begin."""
        saved, refused = self._newest()
        for error in refused:
            self.report("note", text=f"refused a checkpoint: {error.what} ({error.where})")
        if saved is None:
            self.losses.begin(0)
            return Progress()
        if saved.state.get("vocabulary") != self.vocabulary:
            raise ModelFileError("runs.other_vocabulary", folder=saved.folder)
        self.compare(saved)
        if not self.losses.begin(saved.losses):
            name = self.folder.losses.name
            self.report("note", text=f"{name} is shorter than when the checkpoint was saved; it begins again")
        expected = checkpoint.weights(self.model)
        checkpoint.set_weights(self.model, saved.tensors(WEIGHTS, expected))
        self.optimizer.restore(saved.tensors(OPTIMIZER, self.optimizer.tensors()))
        if self.mean is not None and (saved.folder / MEAN).exists():
            self.mean.tensors.update(saved.tensors(MEAN, expected))
        self.report("stage", text=f"Continuing from step {saved.step:,}")
        return finished.read_progress(saved)

    def _newest(self) -> tuple[Checkpoint | None, list[JumokError]]:
        """The checkpoint that rank 0 has chosen, in every process, and the errors of newer ones."""
        newest, refused = self.folder.newest() if self.world.first else (None, [])
        name = self.world.share(None if newest is None else newest.folder.name)
        if name is not None and newest is None:
            newest = self.folder.read(self.folder.checkpoints / name)
        return newest, refused

    def compare(self, saved: Checkpoint) -> None:
        """Report a checkpoint from other surroundings; an exact run refuses it."""
        now = self.surroundings
        changed = [name for name, value in now.items() if not is_same(saved.state.get(name, value), value)]
        if not changed:
            return
        differences = ", ".join(str(describe_change(name, saved.state[name], now[name])) for name in changed)
        error = UsageError("runs.other_surroundings", differences=differences, folder=saved.folder)
        if self.exact:
            raise error
        self.report("note", text=error.what)

    def save(self, progress: Progress) -> None:
        """Write a checkpoint; three failures in a row end the run.

        What validating and saving have freed goes back to the system, so that a run has the same size for weeks.
        """
        if not self.world.first:
            return
        try:
            self._save(progress)
        finally:
            machine.release_memory()

    def _save(self, progress: Progress) -> None:
        weights, began = checkpoint.weights(self.model), time.monotonic()
        tensors = {WEIGHTS: weights, OPTIMIZER: self.optimizer.tensors()}
        if self.mean is not None:
            tensors[MEAN] = {name: self.mean.tensors[name] for name in weights}
        state = {
            "progress": progress.to_json(),
            "passing": progress.plan.validated < progress.counts.step,
            "vocabulary": self.vocabulary,
            "version": jumok.__version__,
            **self.surroundings,
        }
        try:
            self._write(progress, tensors, state)
        except DiskError as error:
            self.unsaved += 1
            if self.unsaved == UNSAVED_LIMIT:
                raise
            self.report("note", text=f"{error.what} ({error.where}); training continues without it")
            return
        self.unsaved = 0
        self.report("checkpoint", step=progress.counts.step, seconds=round(time.monotonic() - began, 3))

    def _write(self, progress: Progress, tensors: Mapping[str, Mapping[str, Tensor]], state: dict[str, Any]) -> None:
        """Write the checkpoint, with a second attempt after an error, which may have been temporary."""
        for attempt in (1, 2):
            try:
                state["losses"] = self.losses.sync()
                self.folder.save(progress.counts.step, tensors, state, keep=self.keep, best=progress.best.step)
                return
            except DiskError:
                if attempt == 2:
                    raise

    def size(self) -> int:
        """Bytes of a checkpoint: weights, two moments for each, and their running mean if there is one."""
        return sum(self._sizes) * (3 if self.mean is None else 4)

    @cached_property
    def _sizes(self) -> list[int]:
        """Bytes of each weight."""
        return [4 * tensor.numel() for tensor in checkpoint.weights(self.model).values()]

    def disk(self, *, logs: int = 0, extra: int = 0) -> Disk:
        """Most disk space of the run; a model has `extra` bytes besides its weights, and may replace an earlier one.

        This counts complete checkpoints, including one that is being written, and the weights of those to average, of
        the best and of one between validations.
        """
        small = SMALL + HEADER * len(self._sizes)
        complete, weights = self.size() + small, sum(self._sizes) + small
        folders = (self.folder.checkpoints, self.folder.bundle, self.folder.path / snapshots.FOLDER)
        halves = self.most_snapshots + snapshots.SPARE + 1 if self.most_snapshots else 0
        files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        return Disk(
            checkpoints=(FULL + 1) * complete + self.keep * weights,
            model=2 * (weights + extra),
            snapshots=halves * (sum(self._sizes) // 2 + small),
            logs=logs,
            there=sum(path.stat().st_size for path in files),
            free=shutil.disk_usage(self.folder.path.absolute()).free,
        )

    def check_disk(self, *, logs: int, extra: int, begun: bool) -> None:
        """Report the disk space that the run needs; a run that could not save a single checkpoint does not begin."""
        disk, size = self.disk(logs=logs, extra=extra), self.size()
        need, free = spell_bytes(disk.need), spell_bytes(disk.free)
        self.report("disk", **asdict(disk), need=disk.need)
        self.report("stage", text=Message("runs.disk_needed", {"need": need, "free": free}))
        if disk.free < size and not begun:
            raise DiskError("runs.disk_too_small", needed=spell_bytes(size), free=free, folder=self.folder.path)
        if disk.free < disk.need:
            advice = "try: another --out, or free some space, or --set training.snapshots=0"
            self.report("note", text=f"the disk may become full in {self.folder.path}; {advice}")


def make_keeper(trainee: Trainee, folder: RunFolder, context: Context, losses: LossLog | Silence) -> Keeper:
    """The keeper of a run with its recipe, model and logs."""
    return Keeper(
        folder, trainee.model, trainee.optimizer, trainee.mean, trainee.prepared.vocabularies.digest,
        surroundings(trainee.prepared.digest, context), losses=losses, report=context.report, world=context.world,
        keep=max(2, trainee.recipe.training.average), most_snapshots=trainee.recipe.training.snapshots,
        exact=context.exact,
    )  # fmt: skip


def surroundings(data: str, context: Context) -> dict[str, Any]:
    """Everything besides the recipe that the bytes of the result depend on, as a checkpoint records it."""
    return {
        "data": data,
        "torch": torch.__version__,
        "threads": torch.get_num_threads() * context.world.size,
        "kernels": library.build_id() or False,
        "device": str(context.device),
    }


def check_disk(trainee: Trainee, keeper: Keeper, pace: Pace, progress: Progress, context: Context) -> None:
    """Report the disk space that the run needs; refuse to begin if not even one checkpoint fits."""
    if not context.world.first:
        return
    training, last = trainee.recipe.training, pace.limits.last
    if training.minutes is not None:
        last = min(last, progress.counts.step + round(UPDATES_PER_MINUTE * training.minutes))
    extra = sum(map(len, trainee.prepared.vocabularies.files().values()))
    if trainee.prepared.shortlist is not None:
        extra += trainee.prepared.shortlist.stat().st_size
    logs = events.most_bytes(max(0, last - progress.counts.step), training.validations)
    keeper.check_disk(logs=logs, extra=extra, begun=progress.counts.step > 0)


def spell_bytes(size: int) -> str:
    """A number of bytes as 3.2 GB or 15 MB."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB" if size >= 1e7 else f"{size / 1e6:.1f} MB"


def describe_change(name: str, before: Any, now: Any) -> Message:
    """One difference between recorded and present surroundings."""
    if name == "data":
        return Message("runs.other_text")
    return Message("runs.other_value", {"setting": name, "before": before, "now": now})


def is_same(before: Any, now: Any) -> bool:
    """Whether a recorded value is the present one; earlier versions recorded only whether there were kernels."""
    return bool(before == (bool(now) if isinstance(before, bool) else now))
