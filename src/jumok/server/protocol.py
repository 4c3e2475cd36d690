"""The connection of one client: uvicorn's protocol with bounds on headers, time and the number of connections.

uvicorn reads headers without a limit of bytes and of time.  Here a client has `header_seconds` for its headers and
`body_seconds` for its body; headers beyond `header_bytes` are answered with 431; and where there are too many
connections, the one that has waited longest for its client is closed.

A busy process may see that a time is over before it reads what has arrived meanwhile: the event loop looks at timers
first.  Then the bytes are read before the connection is closed, so that no request is lost that came in time.
"""

from __future__ import annotations

import asyncio
import select
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from jumok.server.settings import Limits

SPARE = 5.0  # seconds that the application has for its own answer to a slow body before the connection is cut
SOON = 0.001  # seconds after which the event loop has read what had arrived
CLOSED = getattr(select, "POLLRDHUP", 0)  # Linux has it
REASONS = {400: b"invalid HTTP request", 408: b"request took too long", 431: b"headers are too large"}


class Guard:
    """What all connections of a server share: the limits, and who is waiting for its client, oldest first."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.waiting: dict[GuardedProtocol, None] = {}
        self.refused = 0  # connections that were closed because there were too many

    def make_protocol(self) -> type[asyncio.Protocol]:
        """Return the protocol that uvicorn makes for each connection."""
        return cast("type[asyncio.Protocol]", type("Guarded", (GuardedProtocol,), {"guard": self}))


class GuardedProtocol(HttpToolsProtocol):
    """One connection."""

    guard: Guard

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.timer: asyncio.TimerHandle | None = None  # for headers, then for the body
        self.in_headers, self.header_bytes = True, 0
        self.refusal = 400  # the status of the answer to what cannot be parsed
        self.active: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        guard = self.guard
        if len(self.connections) > guard.limits.connections:
            guard.refused += 1
            oldest = next(iter(guard.waiting), self)
            oldest.transport.abort()
            if oldest is self:
                return
        guard.waiting[self] = None
        self._start_timer(guard.limits.header_seconds, self._close_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self.guard.waiting.pop(self, None)
        for cycle in (self.active, *(cycle for cycle, _ in self.pipeline)):  # uvicorn tells only the last of a pipeline
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self.pipeline.clear()
        super().connection_lost(exc)

    def has_left(self) -> bool:
        """Return whether the client has closed the connection, also where the event loop has not noticed it yet.

        A request and the end of its connection often arrive together when the server is busy; the event loop reads the
        end a round later, when the request would have been worked on.
        """
        if self.transport.is_closing():
            return True
        poll = select.poll()
        poll.register(self.transport.get_extra_info("socket").fileno(), CLOSED)
        return bool(poll.poll(0)) if CLOSED else False

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing() or self.parser is None:
            return
        if self.in_headers:
            self.header_bytes += len(data)
            if self.timer is None:
                self._start_timer(self.guard.limits.header_seconds, self._close_slow)
        super().data_received(data)
        if self.in_headers and self.header_bytes > self.guard.limits.header_bytes and not self.transport.is_closing():
            self.refusal = 431
            self.send_400_response("")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["jumok.abort"] = self.transport.abort  # type: ignore[typeddict-unknown-key]
        self.scope["jumok.has_left"] = self.has_left  # type: ignore[typeddict-unknown-key]
        self.in_headers, self.parsed = True, 0

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def _count(self, size: int) -> None:
        """Refuse headers that are too large although they arrived at once."""
        self.parsed += size
        if self.parsed > self.guard.limits.header_bytes:
            self.refusal = 431
            raise ValueError("headers are too large")  # ends the parser, which makes uvicorn answer

    def on_headers_complete(self) -> None:
        self.in_headers, self.header_bytes = False, 0
        self._start_timer(self.guard.limits.body_seconds + SPARE, self.transport.abort)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._stop_timer()
        self.in_headers = True
        self.guard.waiting.pop(self, None)
        super().on_message_complete()
        if self.active is None or self.active.response_complete:
            self.guard.waiting[self] = None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.pipeline and not self.transport.is_closing():
            self.guard.waiting[self] = None

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self.active = cycle
        super()._start_asgi_task(cycle, app)

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, or too much of it, with 400, 408 or 431 and close."""
        if self.active is not None and self.active.response_started and not self.active.response_complete:
            self.transport.close()  # the answer to the request before is on its way; another one would corrupt it
            return
        reason = b'{"error":"' + REASONS[self.refusal] + b'"}'
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(reason)
        self.transport.write(STATUS_LINE[self.refusal] + head + reason)
        self.transport.close()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that has been idle, unless a request has arrived that was not read yet."""
        if self._has_unread():
            self.timeout_keep_alive_task = self.loop.call_later(SOON, super().timeout_keep_alive_handler)
        else:
            super().timeout_keep_alive_handler()

    def _has_unread(self) -> bool:
        """Return whether bytes have arrived, or the end of the connection, that the event loop has not read."""
        if self.transport.is_closing():
            return False
        poll = select.poll()
        poll.register(self.transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def _start_timer(self, seconds: float, act: Any) -> None:
        self._stop_timer()
        self.timer = self.loop.call_later(seconds, self._end_timer, act)

    def _end_timer(self, act: Any) -> None:
        """Do what a timer is for, after what has arrived in time was read."""
        if self._has_unread():
            self.timer = self.loop.call_later(SOON, act)
        else:
            act()

    def _stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _close_silent(self) -> None:
        """Close a connection on which the first request never ended; one without a byte gets no answer."""
        if self.header_bytes:
            self._close_slow()
        else:
            self.transport.close()

    def _close_slow(self) -> None:
        """Answer headers that take too long with 408."""
        self.refusal = 408
        self.send_400_response("")
