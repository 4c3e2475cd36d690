"""An engine process as the front process sees it: started, given jobs, watched, ended."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jumok.processes import module_command
from jumok.service.calls import pack_arguments
from jumok.service.frames import Frame, FrontProtocol, pack
from jumok.service.jobs import Job
from jumok.service.slots import Slots
from jumok.service.values import pack_constraints, pack_contents, pack_options

MODULE = "jumok.service.engine"
PATIENCE = 0.01  # seconds between two looks at a process that is about to exit


class EngineHandle:
    """One engine process and the jobs that it has."""

    def __init__(self, configuration: Mapping[str, Any], alone: Callable[[Job], bool] = lambda job: False) -> None:
        """Start the process; `alone` says of a job whether it must be the only one of its group."""
        self.slots, self._alone = Slots(), alone
        self.jobs: dict[int, Job] = {}
        self.models: dict[str, dict[str, Any]] = {}
        self.stuck = 0.0  # seconds for which one of its threads has not got on
        self.heard = self.started = time.monotonic()
        self.is_ready = self.is_closing = self.is_lost = False
        self._numbers = 0
        self._protocol: FrontProtocol | None = None
        self._connection, theirs = socket.socketpair()
        command, environment = module_command(MODULE)
        descriptors = (theirs.fileno(), self.slots.descriptor)
        self.process = subprocess.Popen(
            [*command, *map(str, descriptors), str(os.getpid())],
            env={"MALLOC_ARENA_MAX": "1"} | environment, pass_fds=descriptors, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        theirs.close()
        self._connection.sendall(pack(["configure", dict(configuration)]))

    @property
    def pid(self) -> int:
        return self.process.pid

    async def attach(
        self, receive: Callable[[EngineHandle, Frame], None], lose: Callable[[EngineHandle], None]
    ) -> None:
        """Read its frames with the running event loop from now on."""

        def take(frame: Frame) -> None:
            self.heard = time.monotonic()
            receive(self, frame)

        def end() -> None:
            if not self.is_lost:
                self.is_lost = True
                lose(self)

        loop = asyncio.get_running_loop()
        self._connection.setblocking(False)
        _, self._protocol = await loop.create_connection(lambda: FrontProtocol(take, end), sock=self._connection)

    def has_room(self, jobs: int) -> bool:
        return self.slots.free >= jobs

    def submit(self, jobs: Iterable[Job]) -> None:
        """Send jobs: sentences that ask for the same in one frame."""
        frames: dict[Any, Frame] = {}
        for job in jobs:
            self._numbers += 1
            job.number, job.slot = self._numbers, self.slots.take()
            self.jobs[job.number] = job
            if job.call is not None:
                verb, arguments = job.call
                frame = ["call", job.number, job.slot, job.deadline, job.model, verb, pack_arguments(arguments)]
                frames[job.number] = frame
                continue
            assert job.ask is not None
            ask = job.ask
            together = (job.model, job.bulk, ask.options, ask.contents)
            if (known := frames.get(together)) is None:
                options, contents = pack_options(ask.options), pack_contents(ask.contents)
                known = frames[together] = ["work", job.model, job.bulk, options, contents, []]
            bound, alone = pack_constraints(ask.constraints), self._alone(job)
            known[-1].append([job.number, job.slot, job.deadline, ask.text, bound, alone, job.live is not None])
        for frame in frames.values():
            self._send(frame)

    def _send(self, frame: Frame) -> None:
        if self._protocol is not None:
            self._protocol.send(frame)

    def take_done(self, number: int) -> Job | None:
        """Return the job of a reply, which the process no longer has."""
        job = self.jobs.pop(number, None)
        if job is not None:
            self.slots.release(job.slot)
        return job

    def stop(self, jobs: Iterable[Job]) -> None:
        """Tell the process to give up those of these jobs that it has; it still replies to each."""
        for job in jobs:
            if self.jobs.get(job.number) is job:
                self.slots.stop(job.slot)

    def is_running(self, job: Job) -> bool:
        """Return whether a thread works, or worked when the process died, on a job."""
        return self.slots.is_running(job.slot)

    def count_running(self) -> int:
        return sum(map(self.is_running, self.jobs.values()))

    def quit(self) -> None:
        """Let the process finish what it has and exit."""
        self.is_closing = True
        self._send(["quit"])

    def kill(self) -> None:
        """End the process at once; `lose` is called when its connection closes."""
        self.process.kill()

    async def wait(self, seconds: float) -> None:
        """Wait until the process has exited; kill it after some seconds."""
        limit = time.monotonic() + seconds
        while self.process.poll() is None:
            if time.monotonic() > limit:
                self.process.kill()
            await asyncio.sleep(PATIENCE)
        if self._protocol is not None and self._protocol.transport is not None:
            self._protocol.transport.close()
        else:
            self._connection.close()
        self.slots.close()
