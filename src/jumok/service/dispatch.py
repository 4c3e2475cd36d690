"""From a request to jobs and back: the cache, shared work, admission, the choice of the process, replies, deadlines."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from jumok.config.search import list_features
from jumok.errors import MissingPackage
from jumok.extras import hint, is_installed
from jumok.service import calls
from jumok.service.admission import Backlog, Limits, Speed, count_units
from jumok.service.cache import Cache
from jumok.service.errors import DeadlineExceeded, EngineLost, Overloaded, Poisoned, Refused, ServiceError, TooLong
from jumok.service.frames import Frame
from jumok.service.jobs import Job, Request
from jumok.service.metrics import Metrics
from jumok.service.models import ServedModel
from jumok.service.process import EngineHandle
from jumok.service.supervisor import Supervisor
from jumok.service.suspects import Suspects
from jumok.service.values import Answer, Ask, pack_constraints, pack_contents, unpack_translation

Live = Callable[[str], None]
TORCH = "/torch"  # added to the name of a model where the speed of torch is measured


def needs_torch(model: ServedModel, ask: Ask) -> bool:
    """Return whether only torch can answer.

    These requests may start its process: sampling (also mbr), groups, coverage, attention maps, and everything that is
    asked of a model which the native engine cannot run.  Of the calls, these are all that `native_engine` does not
    have, such as `attention` and `graph`, and the others where their options need torch.
    """
    if model.engine is None or ask.contents.attention or ask.options.mbr:
        return True
    if ask.contents.align and "align" not in model.calls:
        return True
    bound = [name for name, value in vars(ask.constraints).items() if value] if ask.constraints else []
    return any(feature not in model.features for feature in (*list_features(ask.options), *bound))


class Dispatcher:
    """What all requests share."""

    def __init__(self, threads: int, limits: Limits, metrics: Metrics) -> None:
        self.limits, self.metrics, self.speed, self.suspects = limits, metrics, Speed(), Suspects()
        self.cache = Cache(limits.cache)
        self.backlogs = {False: Backlog(threads), True: Backlog(1)}  # of the native process, and of torch
        self.supervisors: dict[bool, Supervisor] = {}
        self.begin_torch: Callable[[], None] = lambda: None
        self._shared: dict[Hashable, Job] = {}  # jobs that another request may join

    @property
    def pending(self) -> int:
        """Sentences and calls that were accepted and not answered."""
        return sum(sum(backlog.sentences.values()) for backlog in self.backlogs.values())

    def count_characters(self) -> int:
        """Return the characters of the sentences that were accepted and not answered."""
        handles = [handle for supervisor in self.supervisors.values() for handle in supervisor.handles]
        return sum(job.units for handle in handles for job in handle.jobs.values())

    def expected_wait(self, torch: bool) -> float:
        """Return the seconds until an interactive request would begin."""
        return self.supervisors[torch].pause + self.backlogs[torch].wait(False)

    # -- from a request to jobs

    async def translate(
        self, model: ServedModel, asks: Sequence[Ask], deadline: float, bulk: bool, live: Live | None = None
    ) -> list[Answer]:
        """Return an answer to every ask; `live` gets the text of a single one while it grows."""
        request, new, rows_of = Request.of(len(asks)), dict[Hashable, Job](), dict[Job, list[int]]()
        for row, ask in enumerate(asks):
            if needs_torch(model, ask):
                key: Hashable = (ask.options, ask.contents)
                job = new.get(key) or Job(model.name, "", deadline, self._end, call=_call_torch(ask), torch=True)
                _add_sentence(job, ask)
                new[key] = job
            else:
                key = (model.digest, ask.options, ask.constraints, ask.contents, ask.text)
                if (answer := self.cache.get(key)) is not None:
                    self.metrics.cache_hits["cache"] += 1
                    request.finish(row, answer, shared=True)
                    continue
                if (known := new.get(key) or self._shared.get(key)) is not None:
                    self.metrics.cache_hits["shared"] += 1
                    job = known
                else:
                    units = count_units([ask.text])
                    job = Job(model.name, model.digest, deadline, self._end, ask, key=key, units=units, live=live)
                    new[key] = job
            rows_of.setdefault(job, []).append(row)
        jobs = list(new.values())
        self._admit(jobs, deadline, bulk)
        for job, rows in rows_of.items():
            request.wait_for(job, rows)
            job.deadline = max(job.deadline, deadline)
        self._submit(jobs)
        return await self.wait(request, deadline) if request.left else request.results

    async def call(
        self, model: ServedModel, verb: str, arguments: Mapping[str, Any], deadline: float, live: Live | None = None
    ) -> Any:
        """Return the result of a call, as plain values."""
        options = arguments.get("options")
        torch = verb not in model.calls or (options is not None and needs_torch(model, Ask("", options)))
        units = calls.count_work(verb, arguments)
        digest = "" if torch else model.digest
        job = Job(model.name, digest, deadline, self._end, call=(verb, dict(arguments)), torch=torch, units=units)
        job.live = live
        request = Request.of(1)
        self._admit([job], deadline, bulk=False)
        request.wait_for(job, [0])
        self._submit([job])
        return (await self.wait(request, deadline))[0]

    async def wait(self, request: Request, deadline: float) -> list[Any]:
        """Wait for a request; whatever ends it, work that nobody else waits for is stopped."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(max(0.0, deadline - time.monotonic()), self._expire, request)
        try:
            return await request.future
        except asyncio.CancelledError:
            self.metrics.cancelled += 1
            raise
        except DeadlineExceeded:  # whichever process noticed it first
            self.metrics.expired += 1
            raise
        finally:
            timer.cancel()
            if orphans := request.leave():
                self.stop(orphans)

    def _expire(self, request: Request) -> None:
        if not request.future.done():
            request.fail(DeadlineExceeded("service.deadline"))

    def stop(self, jobs: Sequence[Job]) -> None:
        """Stop jobs that nobody waits for."""
        self.metrics.stopped += len(jobs)
        for job in jobs:
            if self._shared.get(job.key) is job:
                del self._shared[job.key]
        for torch, supervisor in self.supervisors.items():
            if some := [job for job in jobs if job.torch == torch]:
                supervisor.stop(some)

    # -- admission

    def _admit(self, jobs: Sequence[Job], deadline: float, bulk: bool) -> None:
        """Set the class of jobs, or raise an error if they cannot be done in time; nothing is accepted by halves."""
        now = time.monotonic()
        if deadline <= now:
            self.metrics.expired += 1
            raise DeadlineExceeded("service.deadline")
        for torch in {job.torch for job in jobs}:
            some = [job for job in jobs if job.torch == torch]
            if torch:
                _check_torch()
            for job in some:
                job.cost = job.units * self.speed.estimate(job.model + TORCH * torch, job.beam)
                if self.suspects.any and self.suspects.is_poisoned(job.fingerprint()):
                    self.metrics.poisoned += 1
                    raise Poisoned("service.poisoned")
            self._admit_work(some, torch, deadline - now, bulk)

    def _admit_work(self, jobs: Sequence[Job], torch: bool, seconds: float, bulk: bool) -> None:
        backlog, pause = self.backlogs[torch], self.supervisors[torch].pause
        own = sum(job.cost for job in jobs) / backlog.threads
        bulk = bulk or own > self.limits.long
        wait = pause + backlog.wait(bulk)
        idle = not any(backlog.sentences.values()) and not pause
        full = sum(backlog.sentences.values()) + len(jobs) > self.limits.sentences
        late = wait + own > seconds or (not bulk and wait > self.limits.allow(own))
        if (late and not idle) or full:
            self.metrics.shed += 1
            raise Overloaded("service.overloaded", wait=wait, retry_after=float(max(1, math.ceil(wait))))
        for job in jobs:
            job.bulk = bulk

    def _submit(self, jobs: Sequence[Job]) -> None:
        """Give jobs to their processes."""
        now = time.monotonic()
        for job in jobs:
            job.submitted = now
            self.backlogs[job.torch].add(job.bulk, job.cost)
            if job.key is not None and not job.torch:
                self._shared[job.key] = job
        for torch in {job.torch for job in jobs}:
            if torch:
                self.begin_torch()
            self.supervisors[torch].submit([job for job in jobs if job.torch == torch])

    def _end(self, job: Job) -> None:
        """Forget a job that no process has any more."""
        self.backlogs[job.torch].remove(job.bulk, job.cost)
        if self._shared.get(job.key) is job:
            del self._shared[job.key]

    # -- replies

    def receive(self, handle: EngineHandle, frame: Frame) -> None:
        """Take the replies to a group of jobs."""
        _, began, seconds, count, replies = frame
        units, measured = 0, None
        for number, outcome, *values in replies:
            job = handle.take_done(number)
            if job is None:
                continue
            if outcome == "ok":
                units, measured = units + job.units, job if job.units else measured
                self.metrics.seconds["queue"].add(max(0.0, began - job.submitted))
                if self.suspects.any:
                    self.suspects.acquit(job.fingerprint())
            self._settle(handle, job, outcome, values)
        if measured is not None:
            self.metrics.batch_sentences.add(count)
            self.metrics.seconds["decode"].add(seconds, count)
            self.speed.measure(measured.model + TORCH * measured.torch, measured.beam, seconds, units)

    def _settle(self, handle: EngineHandle, job: Job, outcome: str, values: list[Any]) -> None:
        match outcome:
            case "ok" if job.ask is not None:
                packed, faults, read, tokens = values
                self.metrics.read(len(job.ask.text), read)
                answer = Answer(unpack_translation(packed, job.ask.text), job.digest, tuple(faults))
                self.metrics.decode_tokens[job.model] += tokens
                self.metrics.flagged.update((fault, job.model) for fault in faults)
                self.cache.put(job.key, answer)
                job.finish(answer)
            case "ok" if job.call is not None and job.call[0] == "translate":
                digest, translations = values[0]
                texts = job.call[1]["texts"]
                job.finish_all(
                    [
                        Answer(unpack_translation(packed, text), digest, tuple(faults))
                        for text, (packed, faults) in zip(texts, translations, strict=True)
                    ]
                )
            case "ok":
                job.finish(values[0])
            case "expired" if job.waiters and job.deadline > time.monotonic():
                self.supervisors[job.torch].submit([job])  # a request with a later deadline has joined
            case "stopped":
                job.fail(EngineLost("service.engine_lost"))
            case _:
                job.fail(_error(outcome, values))


def _error(outcome: str, values: list[Any]) -> ServiceError:
    """Return the error that a reply stands for."""
    match outcome:
        case "expired":
            return DeadlineExceeded("service.deadline")
        case "too_long":
            return TooLong("service.too_long", tokens=values[0], most=values[1])
        case "refused":
            _, reason, location, advice = values
            return Refused("service.refused", reason=reason, location=location, advice=advice)
    return EngineLost("service.failed")


def _check_torch() -> None:
    """Refuse what needs torch where it is not installed."""
    if not is_installed("torch"):
        error = MissingPackage("engines.no_torch", advice=hint("torch"))
        raise Refused("service.refused", reason=error.what, location=error.where, advice=error.hint)


def _call_torch(ask: Ask) -> tuple[str, dict[str, Any]]:
    """Return the call that translates sentences with the options of this one."""
    arguments = {"texts": [], "constraints": [], "options": ask.options, "contents": pack_contents(ask.contents)}
    return "translate", arguments


def _add_sentence(job: Job, ask: Ask) -> None:
    """Add a sentence to the call of a job."""
    assert job.call is not None
    job.call[1]["texts"].append(ask.text)
    job.call[1]["constraints"].append(pack_constraints(ask.constraints))
    job.units += count_units([ask.text])
