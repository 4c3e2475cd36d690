"""A service without engines, and a client without sockets: what tests of the server's adapters need.

    front, app = pretend_server()
    answer = ask(app, "POST", "/translate", {"q": "a b", "source": "en", "target": "de"})
    assert answer.json == {"translatedText": "A B"}

The pretended translation of a text is the text in capitals, word by word, so that tests can tell where it came from.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from jumok.config.search import SearchOptions
from jumok.server.app import Application
from jumok.server.front import Front
from jumok.server.settings import Settings
from jumok.server.table import list_routes
from jumok.service.metrics import Metrics, Sample
from jumok.service.models import ServedModel
from jumok.service.values import Answer, Ask, Partial
from jumok.translation import Translation, Word

DIGEST = "0123456789abcdef" * 4


def served(name: str, source: str | None, target: str | None, **values: Any) -> ServedModel:
    return ServedModel(name, source, target, digest=DIGEST, ready=True, options=SearchOptions(beam=2), **values)


class PretendService:
    """Translates into capitals; `wait`, `delay` and `error` make it slow or fail."""

    def __init__(self) -> None:
        pairs = [("en", "de"), ("de", "en"), ("en", "ko")]
        self.models = {f"{source}-{target}": served(f"{source}-{target}", source, target) for source, target in pairs}
        self.models["poet"] = served("poet", None, None, kind="gpt", generates=True)
        self.wait, self.delay = 0.0, 0.0
        self.error: Exception | None = None
        self.asked: list[Ask] = []
        self.calls: list[tuple[str, str, Mapping[str, Any]]] = []
        self.cancelled = 0
        self.metrics = Metrics()

    def gauges(self) -> Iterator[tuple[str, list[Sample]]]:
        yield "queue_sentences", [Sample({}, 0.0)]

    async def _work(self) -> None:
        try:
            if self.delay:
                await asyncio.sleep(self.delay)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error

    async def translate(self, model: str, asks: Sequence[Ask], *, deadline: float, bulk: bool = False) -> list[Answer]:
        self.asked += asks
        await self._work()
        return [Answer(pretend(ask), DIGEST) for ask in asks]

    async def stream(self, model: str, ask: Ask, *, deadline: float) -> AsyncIterator[Partial]:
        self.asked.append(ask)
        await self._work()
        whole = pretend(ask)
        words = whole.text.split(" ")
        for count in range(1, len(words)):
            yield Partial(" ".join(words[:count]))
        yield Partial(whole.text, Answer(whole, DIGEST))

    async def call(self, model: str, verb: str, arguments: Mapping[str, Any], *, deadline: float) -> Any:
        self.calls.append((model, verb, arguments))
        await self._work()
        if verb == "generate":
            return " and then" * arguments["length"]
        if verb == "count":
            return [len(text.split()) for text in arguments["texts"]]
        if verb == "score":
            return [
                Translation(s, t, -1.0, -2.0) for s, t in zip(arguments["sources"], arguments["targets"], strict=True)
            ]
        if verb in ("inside", "block", "steps", "break", "cost", "warm"):
            return {"verb": verb, "model": model, **arguments}
        if verb == "graph":
            return [{"token": 5, "piece": "a", "parent": None, "score": float("nan")}]
        return [Translation(arguments["text"], arguments.get("prefix", "") + "X", -1.0, -1.0)]

    async def stream_call(
        self, model: str, verb: str, arguments: Mapping[str, Any], *, deadline: float
    ) -> AsyncIterator[str]:
        self.calls.append((model, verb, arguments))
        for count in range(1, arguments["length"] + 1):
            yield " and then" * count

    def expected_wait(self, model: str) -> float:
        return self.wait

    async def reload(self, model: str) -> None:
        await self._work()


def pretend(ask: Ask) -> Translation:
    """The sentence in capitals; alternatives have a number, required phrases come last."""
    text = " ".join([ask.text.upper(), *ask.constraints.require]) if ask.constraints.require else ask.text.upper()
    words = text.split()
    others = tuple(Translation(ask.text, f"{text} {n}", -2.0, -4.0) for n in range(1, ask.options.n_best))
    return Translation(
        ask.text, text, -1.0, -2.0, alternatives=others,
        tokens=tuple(words) if ask.contents.details else (),
        token_scores=tuple(-0.5 for _ in words) if ask.contents.details else (),
        words=tuple(Word(word, 0.5) for word in words) if ask.contents.details else (),
        alignment=tuple((n, n) for n in range(len(words))) if ask.contents.align else None,
    )  # fmt: skip


def pretend_server(**settings: Any) -> tuple[Front, Application]:
    """A server over the pretended service; settings as on the command line."""
    front = Front(Settings().change(**settings), PretendService())
    front.started.set()
    return front, Application(front, list_routes())


@dataclass
class Reply:
    """What a client got."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    sent: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


def ask(
    app: Application, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None,
    form: Any = None, leaves_after: float | None = None, scope: Mapping[str, Any] | None = None,
) -> Reply:  # fmt: skip
    """Send one request to an application: JSON, a form, or raw bytes."""
    path, _, query = path.partition("?")
    given = {"host": "localhost:5000"} | {name.lower(): value for name, value in (headers or {}).items()}
    raw = b""
    if form is not None:
        raw, kind = urlencode(form, doseq=True).encode(), "application/x-www-form-urlencoded"
        given.setdefault("content-type", kind)
    elif isinstance(body, bytes):
        raw = body
    elif body is not None:
        raw = json.dumps(body).encode()
        given.setdefault("content-type", "application/json")
    if raw:
        given.setdefault("content-length", str(len(raw)))
    whole = {
        "type": "http", "http_version": "1.1", "method": method, "path": path, "query_string": query.encode(),
        "scheme": "http", "server": ("127.0.0.1", 5000), "client": ("127.0.0.1", 40_000),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items()],
    }  # fmt: skip
    return asyncio.run(_ask(app, whole | dict(scope or {}), raw, leaves_after))


async def _ask(app: Application, scope: Mapping[str, Any], raw: bytes, leaves_after: float | None) -> Reply:
    reply, read = Reply(), False

    async def receive() -> dict[str, Any]:
        nonlocal read
        if not read:
            read = True
            return {"type": "http.request", "body": raw, "more_body": False}
        await asyncio.sleep(3_600 if leaves_after is None else leaves_after)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        reply.sent.append(message)
        if message["type"] == "http.response.start":
            reply.status = message["status"]
            reply.headers = {name.decode(): value.decode("latin-1") for name, value in message["headers"]}
        else:
            reply.body += message.get("body", b"")

    await app(scope, receive, send)
    return reply
