"""Work in progress, in the front process: jobs that an engine process has, and the requests that wait for them.

Requests for the same sentence share a job.  A job that nobody waits for any more is stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from jumok.service.values import Answer, Ask


@dataclass(eq=False, slots=True)
class Job:
    """One sentence, or one call, that an engine process is to answer."""

    model: str
    digest: str  # of the model that is to answer; empty if any version may
    deadline: float  # of the request that waits longest
    end: Callable[[Job], None]  # is called once, when no process has the job any more
    ask: Ask | None = None
    call: tuple[str, dict[str, Any]] | None = None  # verb and arguments
    key: Hashable = None  # the same for jobs with the same answer; None where answers are not shared
    torch: bool = False
    bulk: bool = False
    units: int = 0  # of work (admission.py)
    cost: float = 0.0  # seconds of a thread that it was expected to take
    live: Callable[[str], None] | None = None  # gets the text while it is being made
    waiters: dict[Request, list[int]] = field(default_factory=dict)
    number: int = 0
    slot: int = -1
    submitted: float = 0.0
    stopped: bool = False
    ended: bool = False

    @property
    def beam(self) -> int:
        options = self.ask.options if self.ask is not None else self.call[1].get("options") if self.call else None
        return 1 if options is None else int(options.beam)

    def fingerprint(self) -> bytes:
        """Return a hash of the model and all that is asked of it."""
        return fingerprint(self.model, self.call if self.ask is None else self.ask)

    def finish(self, answer: Any) -> None:
        """Give the answer to everyone who waits."""
        for position, (request, rows) in enumerate(self.waiters.items()):
            for row in rows:
                request.finish(row, answer, self, shared=position > 0 or row != rows[0])
        self._end()

    def finish_all(self, answers: list[Answer]) -> None:
        """Give each of its sentences an answer, where a call translates several."""
        for request, rows in self.waiters.items():
            for row, answer in zip(rows, answers, strict=True):
                request.finish(row, answer, self, shared=False)
        self._end()

    def fail(self, error: Exception) -> None:
        for request in list(self.waiters):
            request.fail(error)
        self._end()

    def drop(self) -> None:
        """End a job that nobody waits for."""
        self._end()

    def _end(self) -> None:
        self.waiters.clear()
        if not self.ended:
            self.ended = True
            self.end(self)


def fingerprint(model: str, asked: Any) -> bytes:
    """Return a hash of what is asked of a model."""
    return blake2b(repr((model, asked)).encode("utf-8", "surrogatepass"), digest_size=16).digest()


@dataclass(eq=False, slots=True)
class Request:
    """A list of sentences, or one call, that a client waits for."""

    future: asyncio.Future[list[Any]]
    results: list[Any]
    left: int
    jobs: set[Job] = field(default_factory=set)

    @classmethod
    def of(cls, count: int) -> Request:
        """Return a request with so many results to wait for, in the running event loop."""
        return cls(asyncio.get_running_loop().create_future(), [None] * count, count)

    def wait_for(self, job: Job, rows: list[int]) -> None:
        job.waiters[self] = rows
        self.jobs.add(job)

    def finish(self, row: int, answer: Any, job: Job | None = None, *, shared: bool) -> None:
        """Note a result; `shared` says that the work was not done for this request."""
        self.results[row] = replace(answer, cached=True) if shared and isinstance(answer, Answer) else answer
        self.left -= 1
        if job is not None:
            self.jobs.discard(job)
        if not self.left and not self.future.done():
            self.future.set_result(self.results)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def leave(self) -> list[Job]:
        """Stop waiting; return the jobs that nobody waits for now."""
        orphans = []
        for job in self.jobs:
            job.waiters.pop(self, None)
            if not job.waiters:
                orphans.append(job)
        self.jobs.clear()
        return orphans
