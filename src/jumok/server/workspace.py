"""What a server knows of runs: those below its workspace and of its models, and an index of each that was opened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from jumok.monitor.runs import Run, find_runs
from jumok.server.children import Children
from jumok.server.frames import Frames
from jumok.server.refusals import Refusal

if TYPE_CHECKING:
    from jumok.monitor.index import Index
    from jumok.server.settings import Settings
    from jumok.server.state import State

T = TypeVar("T")
FRESH = 1.0  # seconds for which the list of runs is not made again
OPEN = 8  # indices in memory
FIRST = 0.6  # seconds that a request reads a run that was never opened; what is left is read in the background
SLICE = 0.2
FOLLOWERS = 64  # streams of events at the same time


class Opened:
    """The index of a run, used by one thread at a time."""

    def __init__(self, run: Run, file: Path) -> None:
        self.run, self.file, self.turn = run, file, asyncio.Lock()
        self.index: Index | None = None
        self.saved = -1  # bytes of the logs when the index was saved
        self.reading: asyncio.Task[None] | None = None

    async def look(self, draw: Callable[[Index], T]) -> T:
        """Return what a function makes of the index, after it has read what is new."""
        async with self.turn:
            complete = await asyncio.to_thread(self._refresh, FIRST)
            assert self.index is not None
            result = await asyncio.to_thread(draw, self.index)
        if not complete and (self.reading is None or self.reading.done()):
            self.reading = asyncio.create_task(self._finish())
        return result

    async def _finish(self) -> None:
        """Read the rest of a long run."""
        complete = False
        while not complete:
            async with self.turn:
                complete = await asyncio.to_thread(self._refresh, SLICE)
            await asyncio.sleep(0.01)

    def _refresh(self, seconds: float) -> bool:
        from jumok.monitor import index_file  # numpy is loaded when the first run is opened

        if self.index is None:
            self.index = index_file.load(self.run.folder, self.file)
        complete = self.index.refresh(seconds)
        read = self.index.events.place + self.index.losses.place
        if complete and read > 1.02 * self.saved + 100_000:
            index_file.save(self.index, self.file)
            self.saved = read
        return complete


class Workspace:
    """The runs that a server shows."""

    def __init__(self, settings: Settings, state: State) -> None:
        self.folder = settings.workspace.resolve() if settings.workspace is not None else None
        self.models = {name: Path(folder).absolute() for name, folder in settings.models.items()}
        self.cache = state.folder / "curves"
        self.children = Children(state.folder / "work")
        self.pages, self.faults = state.folder / "pages", state.folder / "errors"
        self.frames = Frames()
        self.films: dict[Any, list[dict[str, Any]]] = {}
        self.followers = 0
        self._runs: list[Run] = []
        self._looked = float("-inf")
        self._opened: dict[str, Opened] = {}

    @property
    def place(self) -> Path:
        """The folder in which texts are listed and runs are started; a refusal where there is none."""
        if self.folder is None:
            raise Refusal(404, "server.no_workspace")
        return self.folder

    async def list(self, *, fresh: bool = False) -> list[Run]:
        """Return all runs."""
        if fresh or monotonic() - self._looked > FRESH:
            self._runs = await asyncio.to_thread(find_runs, self.folder, self.models)
            self._looked = monotonic()
        return self._runs

    async def find(self, id: str) -> Run:
        """Return the run with an id."""
        for fresh in (False, True):
            for run in await self.list(fresh=fresh):
                if run.id == id:
                    return run
        raise Refusal(404, "server.no_such_run")

    def open(self, run: Run) -> Opened:
        """Return the index of a run; the one that was not used for longest is given up."""
        from jumok.monitor import index_file

        opened = self._opened.pop(run.id, None) or Opened(run, index_file.name_file(self.cache, run.folder))
        self._opened[run.id] = opened
        while len(self._opened) > OPEN:
            idle = next((one for one in self._opened.values() if not one.turn.locked()), None)
            if idle is None:
                break
            del self._opened[idle.run.id]
        return opened
