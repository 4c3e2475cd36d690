"""Snapshots of a run while it trains: when they are taken, and which are removed (storage/snapshots.py)."""

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import nn

from jumok.errors import DiskError
from jumok.runs.context import Context
from jumok.runs.trainee import Trainee
from jumok.storage import bundle, snapshots
from jumok.storage.checkpoint import FULL, RunFolder


@dataclass
class Snapshots:
    """Keeps at most `most` snapshots of a model in the folder of its run, and a few more until the next checkpoint.

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
        if not self.most or not snapshots.is_candidate(step):
            return
        try:
            snapshots.write(self.folder.path, step, self.model)
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
            snapshots.remove_others(self.folder.path, self._wanted(step))

    def end(self, step: int) -> None:
        """Remove all snapshots but those of a run that ended at this step."""
        if self.most:
            snapshots.remove_others(self.folder.path, snapshots.choose(step, self.most))

    def _wanted(self, step: int) -> set[int]:
        """Steps of the snapshots of this step, and of some that a resumed run would have."""
        wanted = set(snapshots.choose(step, self.most))
        saved = [bundle.step_of(path) for path in self.folder.steps()[-FULL:]]
        earlier = {other for last in saved if last < step for other in snapshots.choose(last, self.most)}
        return wanted | set(sorted(earlier - wanted)[-snapshots.SPARE :])


def make_snapshots(trainee: Trainee, folder: RunFolder, context: Context) -> Snapshots:
    """The snapshots of a run; only the first of several processes takes any."""
    most = trainee.recipe.training.snapshots if context.world.first else 0
    return Snapshots(folder, trainee.model, most, context.report)
