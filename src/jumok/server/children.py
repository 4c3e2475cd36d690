"""Other processes of a server: the only place where it starts any.

    task = await children.start("train", "runs/tiny", ["train", "--source", …], folder=workspace)
    async for line in children.read(["film", str(run), "-", "--json"], stdin=text): …

Every one is `python -m jumok` with a list of arguments: there is no shell, and a name that looks like an option or a
command is still one argument.  Trainings are sessions of their own and outlive the server; all others end with it.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import Any

from jumok.server.refusals import Refusal

MOST = 4  # trainings and claims at the same time
LISTED = 50  # tasks that are remembered
WAITING = 3  # short calls that may wait for the one that runs
LINE = 1 << 24  # bytes of a line of output
TAIL = 20_000  # bytes of a log that are shown


@dataclass
class Task:
    """A training or a claim that this server has started."""

    id: str
    kind: str
    name: str
    log: Path
    process: asyncio.subprocess.Process
    detached: bool
    began: float = field(default_factory=time)

    @property
    def running(self) -> bool:
        return self.process.returncode is None

    def describe(self) -> dict[str, Any]:
        """Return what a list of tasks shows of it."""
        return {
            "id": self.id, "kind": self.kind, "name": self.name, "began": round(self.began, 1),
            "running": self.running, "code": self.process.returncode,
        }  # fmt: skip

    def read_tail(self, place: int | None = None) -> tuple[str, int]:
        """Return the output after a place, or its end, and where it ends."""
        try:
            with open(self.log, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - TAIL, 0 if place is None else min(place, size)))
                return file.read(TAIL).decode("utf-8", "replace"), size
        except OSError:
            return "", 0


class Children:
    """The processes of one server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tasks: dict[str, Task] = {}
        self.turn, self.waiting = asyncio.Semaphore(1), 0
        self.short: set[asyncio.subprocess.Process] = set()

    async def launch(
        self, arguments: Sequence[str], *, stdin: int, stdout: Any, folder: Path | None = None, detached: bool = False
    ) -> asyncio.subprocess.Process:
        """Start `jumok ARGUMENTS`."""
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUNBUFFERED": "1"}
        quiet = stdout if detached or stdout is not asyncio.subprocess.PIPE else asyncio.subprocess.DEVNULL
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "jumok", *arguments, stdin=stdin, stdout=stdout, stderr=quiet, cwd=folder,
            env=environment, start_new_session=detached, limit=LINE,
        )  # fmt: skip

    async def start(
        self, kind: str, name: str, arguments: Sequence[str], *, folder: Path, detached: bool = False
    ) -> Task:
        """Start a task, whose output goes to a file."""
        if sum(task.running for task in self.tasks.values()) >= MOST:
            raise Refusal(429, "server.too_many_tasks", limit=MOST).retry_after(30)
        id = secrets.token_hex(8)
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        log = self.folder / f"{id}.log"
        with open(log, "wb") as output:
            process = await self.launch(
                arguments, stdin=asyncio.subprocess.DEVNULL, stdout=output, folder=folder, detached=detached
            )
        self.tasks[id] = task = Task(id, kind, name, log, process, detached)
        for old in [one for one in self.tasks.values() if not one.running][: max(0, len(self.tasks) - LISTED)]:
            self.tasks.pop(old.id).log.unlink(missing_ok=True)
        return task

    def list_running(self, kind: str) -> list[Task]:
        """Return the tasks of a kind that have not ended."""
        return [task for task in self.tasks.values() if task.kind == kind and task.running]

    async def read(self, arguments: Sequence[str], *, stdin: str = "") -> AsyncIterator[str]:
        """Yield the lines that a short call prints; they are made one call after the other.

        A call whose reader leaves is killed.  One that fails ends with a refusal.
        """
        if self.waiting >= WAITING:
            raise Refusal(429, "server.overloaded").retry_after(5)
        self.waiting += 1
        try:
            await self.turn.acquire()
        finally:
            self.waiting -= 1
        try:
            pipe = asyncio.subprocess.PIPE
            process = await self.launch(arguments, stdin=pipe, stdout=pipe)
            self.short.add(process)
            try:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(stdin.encode("utf-8", "replace"))
                process.stdin.close()
                while line := await process.stdout.readline():
                    yield line.decode("utf-8", "replace").rstrip("\n")
                if await process.wait():
                    raise Refusal(422, "server.task_failed")
            finally:
                self.short.discard(process)
                await end(process)
        finally:
            self.turn.release()

    def close(self) -> None:
        """End everything but trainings."""
        for process in [*self.short, *(task.process for task in self.tasks.values() if not task.detached)]:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGTERM)


async def end(process: asyncio.subprocess.Process) -> None:
    """Kill a process that is still there."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
