"""What a run keeps of itself: checkpoints and the loss log, saved, found again, and compared with where it is now."""

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

import jumok
from jumok import events
from jumok.errors import DiskError, JumokError, ModelFileError, UsageError
from jumok.events import LossLog, Silence
from jumok.kernels import library
from jumok.runs import finished
from jumok.runs.context import Context
from jumok.runs.trainee import Trainee
from jumok.storage import checkpoint
from jumok.storage.checkpoint import FULL, Checkpoint, RunFolder
from jumok.training.budget import Pace
from jumok.training.distributed import World
from jumok.training.optim import Optimizer, RunningMean
from jumok.training.progress import Progress

UPDATES_A_MINUTE = 1_200  # at most: what logs are told to take in a run that is limited by minutes
SMALL, HEADER = 16_384, 600  # bytes of a checkpoint besides its values: manifest and state; names of each weight
UNSAVED_LIMIT = 3  # checkpoints in a row that a disk may refuse


@dataclass(frozen=True)
class Disk:
    """Bytes on the disk of a run: what it takes at most, what is there already, and what is free."""

    checkpoints: int
    model: int
    logs: int
    there: int
    free: int

    @property
    def need(self) -> int:
        """What it may take beyond what is there."""
        return max(0, self.checkpoints + self.model - self.there) + self.logs


@dataclass
class Keeper:
    """Saves a run and restores it.

    `surroundings` are all that the bytes of the result depend on besides the recipe; where a checkpoint comes from
    others, an `exact` run does not go on.  Of the checkpoints that were due, the newest `keep` stay, and the best.
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
    exact: bool = False
    unsaved: int = field(default=0, init=False)  # checkpoints in a row that the disk did not take

    def restore(self) -> Progress:
        """Restore the newest checkpoint that verifies; say which were refused and why.  Without one, begin."""
        found, refused = self._newest()
        for error in refused:
            self.report("note", text=f"refused a checkpoint: {error.what} ({error.where})")
        if found is None:
            self.losses.begin(0)
            return Progress()
        if found.state.get("vocabulary") != self.vocabulary:
            raise ModelFileError("the checkpoint belongs to another vocabulary", where=f"in {found.folder}")
        self.compare(found)
        if not self.losses.begin(found.losses):
            self.report("note", text=f"{self.folder.losses.name} is shorter than the checkpoint knows; it begins anew")
        expected = checkpoint.weights(self.model)
        checkpoint.set_weights(self.model, found.tensors("model.safetensors", expected))
        self.optimizer.restore(found.tensors("optimizer.safetensors", self.optimizer.tensors()))
        if self.mean is not None and (found.folder / "mean.safetensors").exists():
            self.mean.tensors.update(found.tensors("mean.safetensors", expected))
        self.report("stage", text=f"Continuing from step {found.step:,}")
        return finished.progress_of(found)

    def _newest(self) -> tuple[Checkpoint | None, list[JumokError]]:
        """What rank 0 finds, in every process."""
        found, refused = self.folder.newest() if self.world.first else (None, [])
        name = self.world.share(None if found is None else found.folder.name)
        if name is not None and found is None:
            found = self.folder.read(self.folder.checkpoints / name)
        return found, refused

    def compare(self, found: Checkpoint) -> None:
        """Say where a checkpoint comes from other surroundings than these; an exact run does not go on there."""
        now = self.surroundings
        other = [name for name, value in now.items() if not is_same(found.state.get(name, value), value)]
        if not other:
            return
        words = {"data": "the training text is another"}
        told = ", ".join(words.get(name, f"{name} {found.state[name]}, now {now[name]}") for name in other)
        what = f"this run began elsewhere ({told}): it will not end with the same bytes"
        if self.exact:
            hint = "try: the same text, machine and threads as before, or the same without --exact"
            raise UsageError(what, where=f"in {found.folder}", hint=hint)
        self.report("note", text=what)

    def save(self, progress: Progress) -> None:
        """Write a checkpoint; a disk that refuses three in a row ends the run."""
        if not self.world.first:
            return
        weights, began = checkpoint.weights(self.model), time.monotonic()
        tensors = {"model.safetensors": weights, "optimizer.safetensors": self.optimizer.tensors()}
        if self.mean is not None:
            tensors["mean.safetensors"] = {name: self.mean.tensors[name] for name in weights}
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
            self.report("note", text=f"{error.what} ({error.where}); training goes on from memory")
            return
        self.unsaved = 0
        self.report("checkpoint", step=progress.counts.step, seconds=round(time.monotonic() - began, 3))

    def _write(self, progress: Progress, tensors: Mapping[str, Mapping[str, Tensor]], state: dict[str, Any]) -> None:
        """Once more where it failed once: what was in the way may have been for a moment."""
        for attempt in (1, 2):
            try:
                state["losses"] = self.losses.sync()
                self.folder.save(progress.counts.step, tensors, state, keep=self.keep, best=progress.best.step)
                return
            except DiskError:
                if attempt == 2:
                    raise

    def size(self) -> int:
        """Bytes of a checkpoint: weights, two moments of each, and their running mean if there is one."""
        return sum(self._sizes) * (3 if self.mean is None else 4)

    @cached_property
    def _sizes(self) -> list[int]:
        """Bytes of each weight."""
        return [4 * tensor.numel() for tensor in checkpoint.weights(self.model).values()]

    def disk(self, *, logs: int = 0, beside: int = 0) -> Disk:
        """What the run takes at most; a model has `beside` its weights so many bytes, and may replace an earlier one.

        There are the checkpoints that can be resumed and one that is being written; of those to average, of the best
        and of one between validations there are the weights.
        """
        small = SMALL + HEADER * len(self._sizes)
        one, weights = self.size() + small, sum(self._sizes) + small
        folders = (self.folder.checkpoints, self.folder.bundle)
        files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        return Disk(
            checkpoints=(FULL + 1) * one + self.keep * weights,
            model=2 * (weights + beside),
            logs=logs,
            there=sum(path.stat().st_size for path in files),
            free=shutil.disk_usage(self.folder.path.absolute()).free,
        )

    def check_disk(self, *, logs: int, beside: int, begun: bool) -> None:
        """Say what the run will take and what is free; a run that could not save a single checkpoint does not begin."""
        disk, one = self.disk(logs=logs, beside=beside), self.size()
        need, free = spell_bytes(disk.need), spell_bytes(disk.free)
        self.report("disk", **asdict(disk), need=disk.need)
        self.report("stage", text=f"Disk: at most {need} more for checkpoints, model and logs; {free} free")
        where, hint = f"in {self.folder.path}", "try: another --out, or free some space"
        if disk.free < one and not begun:
            what = f"not even one checkpoint fits on the disk: it takes {spell_bytes(one)}, and {free} are free"
            raise DiskError(what, where=where, hint=hint)
        if disk.free < disk.need:
            self.report("note", text=f"the disk may become full {where}; {hint}, or --set training.average=1")


def make_keeper(trainee: Trainee, folder: RunFolder, context: Context, losses: LossLog | Silence) -> Keeper:
    """The keeper of a run."""
    return Keeper(
        folder, trainee.model, trainee.optimizer, trainee.mean, trainee.prepared.vocabularies.digest,
        surroundings(trainee.prepared.digest, context), losses=losses, report=context.report, world=context.world,
        keep=max(2, trainee.recipe.training.average), exact=context.exact,
    )  # fmt: skip


def surroundings(data: str, context: Context) -> dict[str, Any]:
    """All that the bytes of the result depend on besides the recipe."""
    return {
        "data": data,
        "torch": torch.__version__,
        "threads": torch.get_num_threads() * context.world.size,
        "kernels": library.build_id() or False,
        "device": str(context.device),
    }


def check_disk(trainee: Trainee, keeper: Keeper, pace: Pace, progress: Progress, context: Context) -> None:
    """Say what the run will need of the disk; refuse to begin where not even one checkpoint fits."""
    if not context.world.first:
        return
    training, last = trainee.recipe.training, pace.limits.last
    if training.minutes is not None:
        last = min(last, progress.counts.step + round(UPDATES_A_MINUTE * training.minutes))
    beside = sum(map(len, trainee.prepared.vocabularies.files().values()))
    if trainee.prepared.shortlist is not None:
        beside += trainee.prepared.shortlist.stat().st_size
    logs = events.most_bytes(max(0, last - progress.counts.step), training.validations)
    keeper.check_disk(logs=logs, beside=beside, begun=progress.counts.step > 0)


def spell_bytes(size: int) -> str:
    """A number of bytes as 3.2 GB or 15 MB."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB" if size >= 1e7 else f"{size / 1e6:.1f} MB"


def is_same(before: Any, now: Any) -> bool:
    """Whether two surroundings agree; earlier versions recorded whether there were kernels, not which ones."""
    return bool(before == (bool(now) if isinstance(before, bool) else now))
