"""One request and its answer: reading a body within its limits, and working only while the client is there.

The body is read completely before the work begins; from then on the next thing a client can do is leave, and
`until_gone` cancels the work at once when it does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from starlette.datastructures import Headers

from jumok.server.refusals import ClientGone, Refusal
from jumok.server.settings import Limits

T = TypeVar("T")
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
FIELDS = 1_000  # most parameters of a query string or a form


@dataclass(frozen=True)
class Answer:
    """An answer that is complete, or whose pieces follow."""

    status: int
    body: bytes | AsyncIterator[bytes]
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


class Exchange:
    """A request as it arrives, and the way back to its client."""

    def __init__(self, scope: Mapping[str, Any], receive: Receive, send: Send, limits: Limits) -> None:
        self.scope, self.receive, self._send, self.limits = scope, receive, send, limits
        self.began, self.began_answer, self.complete = monotonic(), False, False
        self.method: str = scope["method"]
        self.headers = Headers(scope=dict(scope))

    def parse_query(self) -> list[tuple[str, str]]:
        """Return the parameters of the query string."""
        return parse_pairs(self.scope.get("query_string", b""))

    @property
    def has_body(self) -> bool:
        """Whether the headers announce a body."""
        return "transfer-encoding" in self.headers or self.headers.get("content-length", "0") != "0"

    async def read_chunks(self, limit: int) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives; refuse one that is too large or too slow."""
        length = self.headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit() and len(length) < 20):
            raise Refusal(400, "server.bad_length")
        if int(length) > limit:
            raise Refusal(413, "server.body_too_large", limit=limit)
        read, until = 0, self.began + self.limits.body_seconds
        while True:
            try:
                async with asyncio.timeout(max(0.0, until - monotonic())):
                    message = await self.receive()
            except TimeoutError:
                raise Refusal(408, "server.body_too_slow").add_header("connection", "close") from None
            if message["type"] == "http.disconnect":
                raise ClientGone
            chunk: bytes = message.get("body", b"")
            read += len(chunk)
            if read > limit:
                raise Refusal(413, "server.body_too_large", limit=limit).add_header("connection", "close")
            if chunk:
                yield chunk
            if not message.get("more_body", False):
                return

    async def read_body(self, limit: int) -> bytes:
        """Return the whole body."""
        return b"".join([chunk async for chunk in self.read_chunks(limit)])

    def has_left(self) -> bool:
        """Return whether the client has closed its connection."""
        return bool(self.scope.get("jumok.has_left", lambda: False)())

    async def until_gone(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the work returns; cancel it as soon as the client closes its connection."""
        task, gone = asyncio.ensure_future(work), asyncio.ensure_future(self._wait_until_gone())
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise ClientGone
        finally:
            gone.cancel()
            if not task.done():
                task.cancel()
                with suppress(BaseException):  # nobody is left to hear of it
                    await task

    async def _wait_until_gone(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def answer(self, answer: Answer, headers: Mapping[str, str]) -> None:
        """Send an answer; a client that does not read it in time is disconnected."""
        merged = {"content-type": answer.media_type} | dict(headers) | dict(answer.headers)
        if isinstance(answer.body, bytes) and answer.status != 204:
            merged["content-length"] = str(len(answer.body))
        if answer.status == 204:
            del merged["content-type"]
        encoded = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in merged.items()]
        self.began_answer = True
        await self.send({"type": "http.response.start", "status": answer.status, "headers": encoded})
        if isinstance(answer.body, bytes):
            await self.send({"type": "http.response.body", "body": b"" if answer.status == 204 else answer.body})
        else:
            async for piece in answer.body:
                await self.send({"type": "http.response.body", "body": piece, "more_body": True})
            await self.send({"type": "http.response.body", "body": b""})
        self.complete = True

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send one message; cut the connection if the client does not read."""
        try:
            async with asyncio.timeout(self.limits.send_seconds):
                await self._send(message)
        except TimeoutError:
            self.abort()
            raise ClientGone from None

    def abort(self) -> None:
        """Cut the connection."""
        self.scope.get("jumok.abort", lambda: None)()


def parse_pairs(raw: bytes) -> list[tuple[str, str]]:
    """Return names and values of a query string or a form; bytes that are not UTF-8 become U+FFFD."""
    try:
        return parse_qsl(raw.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=FIELDS)
    except ValueError:
        raise Refusal(400, "server.too_many_fields", limit=FIELDS) from None
