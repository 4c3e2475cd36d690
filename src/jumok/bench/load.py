"""Load for an HTTP server from a light client: requests at given times, whether or not earlier ones were answered.

    client = Client("127.0.0.1", 5000)
    phase = await client.offer(requests, rate=200.0, seconds=10.0)       # open loop, Poisson arrivals
    phase = await client.saturate(requests, connections=16, seconds=10)  # closed loop: the most the server answers

A closed loop slows down with the server and hides how long people would wait.  In an open loop, a request's time counts
from the moment at which it was due, so that waiting for a connection counts as well.  The client parses only what it
needs and takes about 50 µs of processor time per request, which is reported with each phase.

A server closes connections that are idle for long, perhaps just when a request is on its way.  With `repeat`, such a
request is sent once more on a new connection, as other clients do, if no byte of an answer had arrived; `repeated`
counts them.
"""

from __future__ import annotations

import asyncio
import gc
import math
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

IDLE = 10.0  # seconds after which a connection is not used again, because servers close idle ones
LOST = 0  # the status of a request whose connection broke, or which was not answered in time
HEAD_END = b"\r\n\r\n"
Received = tuple[int, bytes, bytes]  # status, head, body
NOTHING: Received = (LOST, b"", b"")


@dataclass(frozen=True)
class Request:
    """The bytes of a request, the number of its text and the number of sentences in it."""

    content: bytes
    number: int
    sentences: int = 1


@dataclass(frozen=True)
class Reply:
    """The answer to a request."""

    number: int
    status: int
    head: bytes  # status line and headers, in lower case
    body: bytes
    due: float  # seconds since the beginning of the phase
    seconds: float  # from that moment to the last byte of the answer


@dataclass
class Phase:
    """What happened during one load."""

    seconds: float
    offered: float | None  # requests per second; None in a closed loop
    replies: list[Reply] = field(default_factory=list)
    sentences: int = 0  # in requests that were answered with 200
    processor: float = 0.0  # share of a core that the client used

    @property
    def statuses(self) -> dict[int, int]:
        return dict(sorted(Counter(reply.status for reply in self.replies).items()))

    @property
    def accepted(self) -> list[Reply]:
        return [reply for reply in self.replies if reply.status == 200]

    @property
    def rate(self) -> float:
        """Requests per second that were answered with 200."""
        return len(self.accepted) / self.seconds

    def percentile(self, share: float) -> float:
        """Seconds within which this share (in per cent) of the accepted requests was answered; nan if none was."""
        times = sorted(reply.seconds for reply in self.accepted)
        return times[math.ceil(share / 100 * len(times)) - 1] if times else math.nan

    def figures(self) -> dict[str, Any]:
        return {
            "offered_per_second": self.offered,
            "requests": len(self.replies),
            "statuses": {str(status): count for status, count in self.statuses.items()},
            "requests_per_second": self.rate,
            "sentences_per_second": self.sentences / self.seconds,
            **{f"milliseconds_p{share}": 1e3 * self.percentile(share) for share in (50, 95, 99)},
            "client_cores": self.processor,
        }


def post(host: str, path: str, body: bytes, *, key: str | None = None) -> bytes:
    """Return the bytes of a JSON request on a connection that stays open."""
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += [f"Authorization: Bearer {key}"] if key else []
    return "\r\n".join(lines).encode() + HEAD_END + body


class Connection(asyncio.Protocol):
    """A connection that sends one request at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.buffer = bytearray()
        self.waiting: asyncio.Future[Received] | None = None
        self.open, self.answered = False, False  # whether bytes of an answer to the last request have arrived
        self.used = 0.0  # when its last request was answered

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.open = transport, True

    def connection_lost(self, error: Exception | None) -> None:
        self.open = False
        self._finish(NOTHING)

    def _finish(self, result: Received) -> None:
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(result)
        self.waiting = None

    def send(self, content: bytes) -> asyncio.Future[Received]:
        """Send a request; the future is its status, head and body."""
        self.waiting = asyncio.get_running_loop().create_future()
        self.buffer.clear()
        self.answered = False
        if self.open and self.transport is not None:
            self.transport.write(content)
            return self.waiting
        waiting = self.waiting
        self._finish(NOTHING)
        return waiting

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self.answered = True
        end = self.buffer.find(HEAD_END)
        if end < 0:
            return
        head = bytes(self.buffer[:end]).lower()
        at = head.find(b"content-length:")
        size = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(self.buffer) < end + 4 + size:
            return
        body = bytes(self.buffer[end + 4 : end + 4 + size])
        if b"connection: close" in head:
            self.open = False
        self._finish((int(head[9:12]), head, body))

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()


class Client:
    """Sends requests over as many connections as it needs."""

    def __init__(self, host: str, port: int, *, patience: float = 30.0, seed: int = 1, repeat: bool = False) -> None:
        """A request that is not answered after `patience` seconds is lost."""
        self.host, self.port, self.patience, self.random = host, port, patience, random.Random(seed)
        self.repeat = repeat  # whether to send a request again whose connection was closed before any answer
        self.idle: list[Connection] = []
        self.repeated = 0  # requests that were sent again because their connection had been closed as idle

    def _find_idle(self) -> Connection | None:
        """Return an open connection that was used not long ago."""
        while self.idle:
            connection = self.idle.pop()
            if connection.open and time.perf_counter() - connection.used <= IDLE:
                return connection
            connection.close()
        return None

    async def send(self, request: Request, due: float, began: float) -> Reply:
        """Send a request that was due at a moment, on a connection of its own while it is answered."""
        connection = self._find_idle()
        try:
            async with asyncio.timeout(self.patience):
                received = NOTHING if connection is None else await connection.send(request.content)
                if connection is None or (self.repeat and received is NOTHING and not connection.answered):
                    self.repeated += connection is not None
                    loop = asyncio.get_running_loop()
                    _, connection = await loop.create_connection(Connection, self.host, self.port)
                    received = await connection.send(request.content)
            status, head, body = received
        except (OSError, TimeoutError):
            if connection is not None:
                connection.close()
            return Reply(request.number, *NOTHING, due - began, time.perf_counter() - due)
        if connection.open:
            connection.used = time.perf_counter()
            self.idle.append(connection)
        return Reply(request.number, status, head, body, due - began, time.perf_counter() - due)

    async def offer(self, requests: Sequence[Request], *, rate: float, seconds: float) -> Phase:
        """Send requests at random times, `rate` per second on average, and wait for all answers."""
        times, at = [], self.random.expovariate(rate)
        while at < seconds:
            times.append(at)
            at += self.random.expovariate(rate)
        chosen = [requests[index % len(requests)] for index in range(len(times))]
        tasks: list[asyncio.Task[Reply]] = []

        async def run(began: float) -> list[Reply]:
            for request, at in zip(chosen, times, strict=True):
                if (delay := began + at - time.perf_counter()) > 0:
                    await asyncio.sleep(delay)
                tasks.append(asyncio.create_task(self.send(request, began + at, began)))
            return list(await asyncio.gather(*tasks))

        return await self._measure(run, requests, seconds, rate)

    async def saturate(self, requests: Sequence[Request], *, connections: int, seconds: float) -> Phase:
        """Send the next request as soon as one is answered, on so many connections."""

        async def run(began: float) -> list[Reply]:
            replies, position = list[Reply](), iter(range(10**9))

            async def repeat() -> None:
                while (now := time.perf_counter()) < began + seconds:
                    replies.append(await self.send(requests[next(position) % len(requests)], now, began))

            await asyncio.gather(*(repeat() for _ in range(connections)))
            return replies

        return await self._measure(run, requests, seconds, None)

    async def _measure(
        self,
        run: Callable[[float], Awaitable[list[Reply]]],
        requests: Sequence[Request],
        seconds: float,
        rate: float | None,
    ) -> Phase:
        gc.disable()  # with ten thousands of replies it stops the client for a tenth of a second
        try:
            began, processor = time.perf_counter(), time.process_time()
            replies = await run(began)
            wall = time.perf_counter() - began
        finally:
            gc.enable()
        sizes = {request.number: request.sentences for request in requests}
        phase = Phase(max(seconds, wall) if rate is None else seconds, rate, replies)
        phase.sentences = sum(sizes[reply.number] for reply in phase.accepted)
        phase.processor = (time.process_time() - processor) / wall
        return phase

    def close(self) -> None:
        for connection in self.idle:
            connection.close()
        self.idle.clear()
