"""The service: models by name, requests in, answers out; one asyncio process that never loads torch.

A request is admitted if its work can be done in time (admission.py).  Sentences that were translated before, or that
another request is waiting for, cost nothing (cache.py, jobs.py).  The rest goes to the native engine process at once,
whose threads take sentences of all requests together.  What only torch can do goes to a second process, which is
started when it is first needed (`needs_torch`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jumok.errors import MissingPackage
from jumok.extras import hint, is_installed
from jumok.machine import cores
from jumok.service import calls
from jumok.service.admission import Limits, count_units
from jumok.service.dispatch import Dispatcher
from jumok.service.errors import Closing, EngineLost, Overloaded
from jumok.service.follow import list_models
from jumok.service.metrics import Metrics, Sample
from jumok.service.models import ServedModel, describe_model, find, read_entries, route
from jumok.service.supervisor import Supervisor
from jumok.service.values import WARM_TEXT, Answer, Ask, Partial

LOOK = 1.0  # seconds between two looks at the runs that are followed, and at an idle process


@dataclass(frozen=True, kw_only=True)
class ServiceOptions:
    """How the service runs."""

    threads: int = 0  # search threads; 0 is one per core
    shortlist: bool = False  # choose among likely words only
    deterministic: bool = False  # answers of torch do not depend on the rest of the batch either
    torch_idle: float = 600.0  # seconds without work after which the process with torch ends; 0 is never
    limits: Limits = field(default_factory=Limits)


class Service:
    """Models that translate, for many clients at once."""

    def __init__(
        self, models: Sequence[str], *, follow: Sequence[str] = (), options: ServiceOptions | None = None
    ) -> None:
        """Serve `name=folder` or `folder` each; of the runs to `follow`, the newest checkpoint."""
        self.options = options or ServiceOptions()
        self.entries = {entry.name: entry for entry in read_entries(models, follow)}
        self.models: dict[str, ServedModel] = {name: ServedModel(name) for name in self.entries}
        self.metrics, self.threads = Metrics(), self.options.threads or cores()
        self.dispatcher = Dispatcher(self.threads, self.options.limits, self.metrics)
        self.native, self.torch = self._supervise("native"), self._supervise("torch")
        self.dispatcher.supervisors = {False: self.native, True: self.torch}
        self.dispatcher.begin_torch = self._begin_torch
        self._seen: dict[str, Any] = {}  # newest models of the runs that are followed
        self._tasks: list[asyncio.Task[None]] = []
        self._torch_only: set[str] = set()
        self._torch_begun = self._closing = False

    def _supervise(self, kind: str) -> Supervisor:
        return Supervisor(
            kind,
            lambda: self._configure(kind),
            suspects=self.dispatcher.suspects,
            metrics=self.metrics,
            done=self.dispatcher.receive,
            changed=self._update_models,
        )

    def _configure(self, kind: str) -> dict[str, Any]:
        """Return the configuration of an engine process."""
        torch = kind == "torch"
        engine = {"engine": "torch" if torch else "auto", "deterministic": self.options.deterministic}
        return {
            "kind": kind,
            "threads": 1 if torch else self.threads,
            "engine": engine if torch else engine | {"shortlist": self.options.shortlist},
            "models": [
                {
                    "name": entry.name,
                    "folder": entry.folder,
                    "follow": entry.follow,
                    "eager": entry.name in self._torch_only,
                }
                for entry in self.entries.values()
            ],
        }

    # -- life

    def launch(self) -> None:
        """Start the engine process; needs no event loop, so that it loads while the program imports the rest."""
        self.native.launch()

    async def start(self) -> None:
        """Wait until the models are loaded; a `ModelRefused` says which cannot be."""
        self._seen, self._reloading = self._look(), asyncio.Lock()
        await self.native.start()
        self._torch_only = self.entries.keys() - self._described().keys()
        if self._torch_only:
            if not is_installed("torch"):
                raise MissingPackage("engines.no_torch", advice=hint("torch"))
            self._torch_begun = True
            await self.torch.start()
        if self._seen:
            self._tasks.append(asyncio.get_running_loop().create_task(self._follow()))
        if self.options.torch_idle and not self._torch_only:
            self._tasks.append(asyncio.get_running_loop().create_task(self._rest_torch()))

    async def close(self, grace: float) -> None:
        """Accept nothing more, finish what was accepted within `grace` seconds, and end all processes."""
        self._closing = True
        for task in self._tasks:
            task.cancel()
        limit = time.monotonic() + grace
        while self.dispatcher.pending and time.monotonic() < limit:
            await asyncio.sleep(0.01)
        await asyncio.gather(self.native.close(), self.torch.close())

    def _begin_torch(self) -> None:
        """Start the process with torch, once."""
        if not self._torch_begun:
            self._torch_begun = True
            self.torch.begin()

    async def _rest_torch(self) -> None:
        """End the process with torch whenever it has been idle for long; the next request that needs it starts it."""
        while True:
            await asyncio.sleep(min(LOOK, self.options.torch_idle))
            if self.torch.count_idle() > self.options.torch_idle and not self._reloading.locked():
                self._torch_begun = False
                self.torch.rest()

    # -- newer models

    async def reload(self, model: str) -> None:
        """Load the newest version of a model in a new process and switch to it; no request notices."""
        find(self.models, model)
        async with self._reloading:
            await self.native.replace()
            if self._torch_begun:
                await self.torch.replace()
        self.metrics.reloads[model] += 1

    def _look(self) -> dict[str, Any]:
        """Return the newest model of every run that is followed."""
        followed = (entry for entry in self.entries.values() if entry.follow)
        return {entry.name: list_models(Path(entry.folder))[:1] for entry in followed}

    async def _follow(self) -> None:
        """Reload whenever a run has saved a newer model."""
        while True:
            await asyncio.sleep(LOOK)
            newest = self._look()
            name = next((name for name, some in newest.items() if some and some != self._seen.get(name)), None)
            if name is not None:
                try:
                    await self.reload(name)
                except Exception:  # the run may be replacing its checkpoint: look again
                    continue
                self._seen = newest

    def _described(self) -> dict[str, Mapping[str, Any]]:
        """Return what the processes say about the models."""
        described: dict[str, Mapping[str, Any]] = {}
        for supervisor in (self.torch, self.native):
            if supervisor.current is not None:
                described |= supervisor.current.models
        return described

    def _update_models(self) -> None:
        """Take over what a new process says about its models."""
        for name, values in self._described().items():
            before, model = self.models[name], describe_model(self.entries[name], values)
            self.models[name] = model
            if model.digest != before.digest and values.get("seconds"):
                units = count_units([WARM_TEXT])
                self.dispatcher.speed.begin(name, model.options.beam, values["seconds"], units)

    def gauges(self) -> Iterator[tuple[str, list[Sample]]]:
        """Yield the name and the samples of what is true at the moment, for printing."""
        dispatcher = self.dispatcher
        running = sum(handle.count_running() for handle in (*self.native.handles, *self.torch.handles))
        yield "queue_sentences", [Sample({}, max(0, dispatcher.pending - running))]
        yield "queue_tokens", [Sample({}, self.metrics.estimate_subwords(dispatcher.count_characters()))]
        yield "running_sentences", [Sample({}, running)]
        yield "cache_bytes", [Sample({}, dispatcher.cache.bytes)]
        yield "cache_entries", [Sample({}, len(dispatcher.cache))]
        supervisors = (self.native, self.torch)
        yield "engine_up", [Sample({"engine": one.kind}, float(one.current is not None)) for one in supervisors]
        ready = (model for model in self.models.values() if model.ready)
        yield "model_info", [Sample({"model": one.name, "pair": one.pair, "digest": one.digest}, 1.0) for one in ready]

    # -- requests

    def route(self, source: str | None, target: str | None, name: str | None = None) -> ServedModel:
        """Return the model of a name, or the first that translates between two languages."""
        return route(self.models, source, target, name)

    def expected_wait(self, model: str) -> float:
        """Return the seconds until an interactive request for a model would begin."""
        torch = find(self.models, model).engine is None
        return self.dispatcher.expected_wait(torch)

    def _accept(self, name: str) -> ServedModel:
        """Return a model that takes requests now."""
        model = find(self.models, name)
        if self._closing:
            raise Closing("service.closing", retry_after=5.0)
        if not model.ready:
            raise Overloaded("service.not_ready", model=name, retry_after=1.0)
        return model

    async def translate(self, model: str, asks: Sequence[Ask], *, deadline: float, bulk: bool = False) -> list[Answer]:
        """Return an answer to every ask, in their order; `deadline` is a time of `time.monotonic`.

        Cancelling this stops the sentences that no other request waits for, at the next step of the search.
        """
        began, served = time.monotonic(), self._accept(model)
        answers = await self.dispatcher.translate(served, [_complete(ask) for ask in asks], deadline, bulk)
        if len({answer.digest for answer in answers}) > 1:  # torch has loaded a newer model than the native process
            raise EngineLost("service.engine_lost")
        self.metrics.sentences[model] += len(answers)
        self.metrics.seconds["total"].add(time.monotonic() - began)
        return answers

    async def stream(self, model: str, ask: Ask, *, deadline: float) -> AsyncIterator[Partial]:
        """Yield the beginning of a translation as it grows; the last one has the answer.

        With a beam it is what all hypotheses share, so that nothing is ever taken back.
        """
        served, parts = self._accept(model), asyncio.Queue[str]()
        work = asyncio.ensure_future(
            self.dispatcher.translate(served, [_complete(ask)], deadline, bulk=False, live=parts.put_nowait)
        )
        async for text in _watch(parts, work):
            yield Partial(text)
        answer = work.result()[0]
        yield Partial(answer.translation.text, answer)

    async def call(self, model: str, verb: str, arguments: Mapping[str, Any], *, deadline: float) -> Any:
        """Return the result of one of `calls.PUBLIC`, as the method of `Translator` with this name gives it.

        `count` is the number of subwords of each of the `texts` on a `side`, source or target.
        """
        calls.check_verb(verb)
        result = await self.dispatcher.call(self._accept(model), verb, arguments, deadline)
        return calls.unpack_result(verb, result, arguments)

    async def stream_call(
        self, model: str, verb: str, arguments: Mapping[str, Any], *, deadline: float
    ) -> AsyncIterator[str]:
        """Yield the text of a call that makes one (generate), each time the whole text so far."""
        calls.check_verb(verb)
        served, parts = self._accept(model), asyncio.Queue[str]()
        work = asyncio.ensure_future(self.dispatcher.call(served, verb, arguments, deadline, live=parts.put_nowait))
        text = ""
        async for text in _watch(parts, work):
            yield text
        if work.result() != text:
            yield work.result()


def _complete(ask: Ask) -> Ask:
    """Return what is asked for with the details that attention and alignment include."""
    contents = ask.contents
    if (contents.align or contents.attention) and not contents.details:
        return replace(ask, contents=replace(contents, details=True))
    return ask


async def _watch(parts: asyncio.Queue[str], work: asyncio.Future[Any]) -> AsyncIterator[str]:
    """Yield what is put into a queue until the work is done; leaving early cancels the work."""
    try:
        while not work.done():
            getting = asyncio.ensure_future(parts.get())
            try:
                await asyncio.wait((getting, work), return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not getting.done():
                    getting.cancel()
            if getting.done() and not getting.cancelled():
                yield getting.result()
    finally:
        if not work.done():
            work.cancel()
