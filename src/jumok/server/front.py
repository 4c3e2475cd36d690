"""What the handlers of a server share: its settings, its models, its state on disk, its counters."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from jumok.server.classroom import Classroom
from jumok.server.files import JobRunner
from jumok.server.keys import KeyFile
from jumok.server.lag import Lag
from jumok.server.languages import Languages
from jumok.server.logs import Log
from jumok.server.metrics import Metrics
from jumok.server.refusals import Refusal
from jumok.server.state import State
from jumok.server.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
    from typing import Any

    from jumok.documents.glossary import Glossary
    from jumok.server.access import Access
    from jumok.server.settings import Settings
    from jumok.service.metrics import Metrics as Counts
    from jumok.service.metrics import Sample
    from jumok.service.models import ServedModel
    from jumok.service.values import Answer, Ask, Partial

MOST_LAG = 0.006  # seconds that a round of the event loop may take before requests are refused, if there is
CROWD = 64  # so many requests at the same time; a busy machine makes rounds long as well
ROUNDS = 12  # of the event loop, from a new connection to the last byte of an answer
MOST_WAIT = 0.085  # seconds that these rounds and the queue may take together in a crowd, where a round takes more than
SHORT_LAG = 0.0025  # so many seconds; else the service decides alone, which knows what is urgent


class Service(Protocol):
    """The part of `jumok.service.service.Service` that a server uses; tests have their own."""

    @property
    def models(self) -> Mapping[str, ServedModel]: ...

    @property
    def metrics(self) -> Counts: ...

    def gauges(self) -> Iterator[tuple[str, list[Sample]]]: ...

    async def translate(
        self, model: str, asks: Sequence[Ask], *, deadline: float, bulk: bool = False
    ) -> list[Answer]: ...

    def stream(self, model: str, ask: Ask, *, deadline: float) -> AsyncIterator[Partial]: ...

    async def call(self, model: str, verb: str, arguments: Mapping[str, Any], *, deadline: float) -> Any: ...

    def stream_call(
        self, model: str, verb: str, arguments: Mapping[str, Any], *, deadline: float
    ) -> AsyncIterator[str]: ...

    def expected_wait(self, model: str) -> float: ...

    async def reload(self, model: str) -> None: ...


class Front:
    """One server."""

    access: Access

    def __init__(self, settings: Settings, service: Service, log: Log | None = None) -> None:
        self.settings, self.service, self.log = settings, service, log or Log()
        self.keys = KeyFile(settings.keys_file)
        self.metrics, self.state = Metrics(), State(settings)
        self.languages, self.jobs = Languages(service), JobRunner(self)
        self.lag = Lag()
        self.workspace = Workspace(settings, self.state)
        self.classroom = Classroom() if settings.classroom else None
        self.background = set[asyncio.Task[None]]()  # what goes on after an answer
        self.active = 0  # requests that are being answered
        self.closing = False
        self.started = asyncio.Event()  # set when the models are loaded

    @property
    def ready(self) -> bool:
        """Whether requests should be sent here: models are loaded, and the server is not closing."""
        return self.started.is_set() and not self.closing and all(model.ready for model in self.service.models.values())

    async def wait_until_started(self, deadline: float) -> None:
        """Let a request that came before the models wait for them."""
        if self.started.is_set():
            return
        try:
            async with asyncio.timeout(max(0.0, deadline - monotonic())):
                await self.started.wait()
        except TimeoutError:
            raise Refusal(503, "server.loading").retry_after(1) from None

    def check_load(self, deadline: float) -> None:
        """Refuse a request that could not be answered in time by any model, before its body is read.

        A request waits in rounds of the event loop and in the queue of a model.  Where the model is fast, this process
        is the bottleneck, and rounds become long: the queue is then shorter by what the rounds take.
        """
        wait = min((self.service.expected_wait(name) for name in self.service.models), default=0.0)
        lag = self.lag.seconds
        too_long = lag > MOST_LAG or (lag > SHORT_LAG and wait + ROUNDS * lag > MOST_WAIT)
        crowded = self.active > CROWD and too_long
        if crowded or wait > deadline - monotonic():
            raise Refusal(429, "server.overloaded").retry_after(max(1.0, wait))

    def find_glossary(self, name: str, source: str, target: str) -> Glossary:
        """Return the terms of a stored glossary for a pair of languages."""
        if self.state.glossaries.find(name) is None:
            raise Refusal(404, "server.no_such_glossary")
        glossary = self.state.glossaries.find_glossary(name, source, target)
        if glossary is None:
            raise Refusal(400, "server.wrong_glossary", source=source, target=target)
        return glossary
