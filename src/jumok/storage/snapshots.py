"""Snapshots: the weights of a run in half precision at a few steps, spaced by the logarithm of the step.

    RUN/snapshots/step-00000128/{model.safetensors, MANIFEST.json}

They show how a run learned; training never reads them.  Which steps have one depends on the step alone: candidates lie
on a fixed logarithmic grid, and where there are too many, the one between the nearest neighbours is removed.  A run
that does not know its last step therefore has evenly spaced ones at any time, and interruptions do not change them.
"""

import math
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from pathlib import Path

import torch
from torch import Tensor, nn

from jumok.errors import DiskError
from jumok.storage import bundle
from jumok.storage.bundle import WEIGHTS, step_of
from jumok.storage.checkpoint import FULL, RunFolder, read_tensors, set_weights, weights, write_whole

SPARE = 8  # snapshots beyond the limit, which a run that is resumed from a checkpoint would need
LARGEST = 65_504.0  # of half precision
FOLDER = "snapshots"


@dataclass
class Snapshots:
    """Takes at most `most` snapshots of a model in training, and holds a few more until the next checkpoint.

    A run that is killed begins again at a checkpoint.  Those snapshots that it has there without being killed are
    therefore not removed before a newer checkpoint exists, so that it ends with the same ones.
    """

    folder: RunFolder
    model: nn.Module
    most: int
    report: Callable[..., None]
    failed: bool = field(default=False, init=False)

    def take(self, step: int) -> None:
        """Save the weights after an update if this step has a snapshot; a full disk costs the snapshot alone."""
        if not self.most or not is_candidate(step):
            return
        try:
            write(self.folder.path, step, self.model)
        except DiskError as error:
            if not self.failed:
                self.report("note", text=f"{error.what} ({error.where}); training continues without this snapshot")
            self.failed = True
        self.thin(step)

    def thin(self, step: int) -> None:
        """Remove the snapshots that neither a run at this step has, nor one that is resumed.

        At the beginning of an attempt these are what an earlier one has taken after this step.
        """
        if self.most:
            remove_others(self.folder.path, self._wanted(step))

    def end(self, step: int) -> None:
        """Remove all snapshots but those of a run that ended at this step."""
        if self.most:
            remove_others(self.folder.path, choose(step, self.most))

    def _wanted(self, step: int) -> set[int]:
        """Steps of the snapshots of this step, and of some that a resumed run would have."""
        wanted = set(choose(step, self.most))
        saved = [step_of(path) for path in self.folder.steps()[-FULL:]]
        earlier = {other for last in saved if last < step for other in choose(last, self.most)}
        return wanted | set(sorted(earlier - wanted)[-SPARE:])


def candidates(last: int) -> Iterator[int]:
    """Yield the steps up to `last` at which a snapshot is taken: the whole numbers below 2 to the power of n / 4."""
    before = 0
    for power in count():
        step = math.isqrt(math.isqrt(1 << power))
        if step > last:
            return
        if step != before:
            yield step
        before = step


def is_candidate(step: int) -> bool:
    """Whether a snapshot is taken at this step."""
    return step > 0 and next((other for other in candidates(step) if other == step), None) is not None


@lru_cache(maxsize=256)
def choose(last: int, most: int) -> tuple[int, ...]:
    """The steps of the snapshots that a run has after step `last`: at most `most`, the first and the newest included.

    >>> choose(100, 6)
    (1, 2, 4, 11, 26, 90)
    """
    chosen: list[int] = []
    for step in candidates(last) if most else ():
        chosen.append(step)
        if len(chosen) > most:
            inner = range(1, len(chosen) - 1) if most > 1 else range(1)
            del chosen[min(inner, key=lambda place: chosen[place + 1] / chosen[max(0, place - 1)])]
    return tuple(chosen)


def find_folders(run: Path) -> list[Path]:
    """List the complete snapshots of a run, oldest first; their content is verified when they are read."""
    folders = [path for path in (run / FOLDER).glob("step-*") if re.fullmatch(r"step-[0-9]{8,15}", path.name)]
    return sorted((path for path in folders if (path / bundle.MANIFEST).is_file()), key=step_of)


def write(run: Path, step: int, model: nn.Module) -> Path:
    """Save the present weights; the folder appears complete or not at all."""
    folder = run / FOLDER / f"step-{step:08d}"
    write_whole(folder, {WEIGHTS: {name: _halve(value) for name, value in weights(model).items()}}, {})
    return folder


def remove_others(run: Path, wanted: Collection[int]) -> None:
    """Remove all snapshots but those of the steps that are wanted."""
    for folder in find_folders(run):
        if step_of(folder) not in wanted:
            shutil.rmtree(folder, ignore_errors=True)


@torch.no_grad()
def restore(folder: Path, model: nn.Module) -> None:
    """Give a model the weights of a snapshot, which is compared with its manifest first."""
    bundle.verify(folder, (WEIGHTS,))
    expected: Mapping[str, Tensor] = {name: _outline(value) for name, value in weights(model).items()}
    set_weights(model, read_tensors(folder / WEIGHTS, expected))


def _halve(value: Tensor) -> Tensor:
    """A tensor in half precision; numbers beyond its range become the largest, whole numbers stay as they are."""
    return value.clamp(-LARGEST, LARGEST).half() if value.is_floating_point() else value


def _outline(value: Tensor) -> Tensor:
    """A tensor without values that has the shape and type of what a snapshot holds."""
    return torch.empty(value.shape, dtype=torch.float16 if value.is_floating_point() else value.dtype, device="meta")
