"""Keeps one engine process running: starts it, restarts it when it dies or hangs, replaces it by a newer one.

What happens to the jobs of a process that died: those that its threads worked on fail at once, the others wait for the
next process, unless that one has another model.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from jumok.service.errors import EngineLost, ModelRefused, ServiceError
from jumok.service.frames import Frame
from jumok.service.jobs import Job
from jumok.service.metrics import Metrics
from jumok.service.process import EngineHandle
from jumok.service.suspects import Suspects

BEAT = 1.0  # seconds between two looks at the process
SILENCE = {"native": 5.0, "torch": 60.0}  # seconds without a sign of life, or stuck, after which it is killed
LOADING = 60.0  # the same before it is ready
STEADY = 1.0  # a process that lived longer than this after it was ready is replaced without delay
DELAY, LONGEST_DELAY = 0.25, 30.0  # seconds before the second try to start one, and before any

Configuration = Mapping[str, Any]
Done = Callable[[EngineHandle, Frame], None]


class Supervisor:
    """One kind of engine process, "native" or "torch"."""

    def __init__(
        self,
        kind: str,
        configure: Callable[[], Configuration],
        *,
        suspects: Suspects,
        metrics: Metrics,
        done: Done,
        changed: Callable[[], None],
    ) -> None:
        """`done` gets the replies; `changed` is called when there are new models."""
        self.kind, self._configure, self._suspects, self._metrics = kind, configure, suspects, metrics
        self._done, self._changed = done, changed
        self.current: EngineHandle | None = None
        self.handles: set[EngineHandle] = set()  # processes that have not exited
        self.parked: list[Job] = []  # jobs without a process
        self._launched: EngineHandle | None = None
        self._readiness: dict[EngineHandle, asyncio.Future[None]] = {}
        self._ready_at, self._used_at, self._failures, self._next_try = 0.0, 0.0, 0, 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = self._watching = False

    # -- starting and replacing

    def launch(self) -> None:
        """Start the process; needs no event loop."""
        if self._launched is None:
            self._launched = self._make()

    def _make(self) -> EngineHandle:
        def is_suspect(job: Job) -> bool:
            return self._suspects.any and self._suspects.is_suspect(job.fingerprint())

        handle = EngineHandle(self._configure(), is_suspect)
        self.handles.add(handle)
        return handle

    async def start(self) -> None:
        """Wait until the process is ready; a `ModelRefused` says why it cannot be."""
        self.launch()
        handle, self._launched = self._launched, None
        assert handle is not None
        await self._bring_up(handle)
        self._switch(handle)
        self._begin_watch()

    def begin(self) -> None:
        """Start the process in the background, and try again until it is ready."""
        self._run(self._restart())
        self._begin_watch()

    def _begin_watch(self) -> None:
        """Watch the processes, from the first one on."""
        if not self._watching:
            self._watching = True
            self._run(self._watch())

    def rest(self) -> None:
        """End a process that has nothing to do; `begin` starts another one."""
        handle, self.current = self.current, None
        if handle is not None:
            self._run(self._retire(handle))

    async def _bring_up(self, handle: EngineHandle) -> None:
        """Wait until a process is ready; where that fails, it is gone."""
        ready = self._readiness[handle] = asyncio.get_running_loop().create_future()
        try:
            await handle.attach(self._receive, self._lose)
            await ready
        except BaseException:
            handle.kill()
            self._run(self._bury(handle))
            raise
        finally:
            del self._readiness[handle]

    def _switch(self, handle: EngineHandle) -> None:
        """Give new jobs to this process from now on."""
        self.current, self._ready_at = handle, time.monotonic()
        self._changed()
        parked, self.parked = self.parked, []
        self.submit(parked)

    async def replace(self) -> None:
        """Start a process with the newest models, switch to it, and let the old one finish."""
        handle = self._make()
        await self._bring_up(handle)
        if self._closing:
            handle.quit()
            return
        old = self.current
        self._switch(handle)
        if old is not None:
            self._run(self._retire(old))

    async def _retire(self, handle: EngineHandle) -> None:
        while handle.jobs and not handle.is_lost:
            await asyncio.sleep(0.02)
        handle.quit()
        await self._bury(handle, seconds=5.0)

    async def _restart(self) -> None:
        """Try to start a process until one is ready."""
        while not self._closing and self.current is None:
            delay = min(LONGEST_DELAY, DELAY * 2.0 ** (self._failures - 1)) if self._failures else 0.0
            self._next_try = time.monotonic() + delay
            await asyncio.sleep(delay)
            handle = self._make()
            try:
                await self._bring_up(handle)
            except (ModelRefused, ServiceError):
                self._failures += 1
                continue
            if self.current is None:
                self._switch(handle)
            else:  # a newer model was loaded meanwhile
                self._run(self._retire(handle))

    def count_idle(self) -> float:
        """Return the seconds since the process that runs was ready or answered; 0 if it has one or none runs."""
        if self.current is None or self.current.jobs or self.parked:
            return 0.0
        return time.monotonic() - max(self._ready_at, self._used_at)

    @property
    def pause(self) -> float:
        """Seconds until a process is started again; 0 while one runs or starts."""
        return 0.0 if self.current is not None else max(0.0, self._next_try - time.monotonic())

    # -- jobs

    def submit(self, jobs: Sequence[Job]) -> None:
        """Give jobs to the process, or hold them until there is one."""
        if self.current is None:
            self.parked += jobs
            return
        fitting = []
        for job in jobs:
            known = self.current.models.get(job.model)
            if known is not None and job.digest and known["digest"] != job.digest:
                self._fail(job)  # its request may have answers of the earlier model
            else:
                fitting.append(job)
        self.current.submit(fitting)

    def stop(self, jobs: Sequence[Job]) -> None:
        """Give up jobs that nobody waits for."""
        for job in jobs:
            job.stopped = True
        for handle in self.handles:
            handle.stop(jobs)
        parked, self.parked = self.parked, [job for job in self.parked if not job.stopped]
        for job in parked:
            if job.stopped:
                job.drop()

    def _fail(self, job: Job) -> None:
        self._metrics.engine_lost += 1
        job.fail(EngineLost("service.engine_lost"))

    # -- what the process says

    def _receive(self, handle: EngineHandle, frame: Frame) -> None:
        match frame[0]:
            case "done":
                self._used_at = time.monotonic()
                self._done(handle, frame)
            case "part":
                job = handle.jobs.get(frame[1])
                if job is not None and job.live is not None:
                    job.live(frame[2])
            case "beat":
                handle.stuck = frame[1]
            case "ready":
                handle.models = {model["name"]: model for model in frame[1]}
                handle.is_ready = True
                if not (ready := self._readiness[handle]).done():
                    ready.set_result(None)
            case "failed":
                what, where, hint, code = frame[1:]
                error = ModelRefused("service.model_refused", reason=what, location=where, advice=hint)
                error.code = code
                if not (ready := self._readiness[handle]).done():
                    ready.set_exception(error)

    def _lose(self, handle: EngineHandle) -> None:
        """Settle the jobs of a process whose connection has closed, and start another one."""
        ready = self._readiness.get(handle)
        if ready is not None and not ready.done():
            handle.process.kill()
            ready.set_exception(ModelRefused("service.engine_failed", status=handle.process.poll()))
        left, handle.jobs = list(handle.jobs.values()), {}
        waiting = []
        for job in left:
            if handle.is_running(job):
                self._suspects.accuse(job.fingerprint())
            elif not job.stopped:
                waiting.append(job)
                continue
            self._fail(job)
        if handle is self.current:
            self.current = None
            if not self._closing:
                steady = time.monotonic() - self._ready_at > STEADY
                self._failures = 0 if steady else self._failures + 1
                self._metrics.engine_restarts[self.kind] += 1
                self._run(self._restart())
            self._run(self._bury(handle))
        self.submit(waiting)

    async def _watch(self) -> None:
        """Kill a process that gives no sign of life, or one of whose threads is stuck."""
        before = time.monotonic()
        while not self._closing:
            await asyncio.sleep(BEAT)
            now = time.monotonic()
            late, before = now - before > 2 * BEAT, now
            if late:  # this process did not run either
                continue
            for handle in list(self.handles):
                silence = SILENCE[self.kind]
                if handle.stuck > silence or now - handle.heard > (silence if handle.is_ready else LOADING):
                    handle.kill()

    # -- ending

    async def _bury(self, handle: EngineHandle, seconds: float = 1.0) -> None:
        """Wait until a process is gone."""
        await handle.wait(seconds)
        self.handles.discard(handle)

    async def close(self) -> None:
        """End all processes; jobs that they still have fail."""
        self._closing = True
        for task in list(self._tasks):
            task.cancel()
        if self._launched is not None:
            self._launched.kill()
        for handle in list(self.handles):
            handle.quit()
        await asyncio.gather(*(self._bury(handle, 2.0) for handle in list(self.handles)))
        for job in self.parked:
            self._fail(job)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
