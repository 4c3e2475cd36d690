"""Accepting connections: as many as wait, in every round of the event loop.

uvloop's own servers accept one connection per round.  When a round takes 50 ms because many requests are being
answered, that is 20 connections per second: those of new clients wait for seconds, while clients that are connected
are served.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

MOST = 256  # connections accepted in one round
PAUSE = 0.1  # seconds after an error of the system, such as too many open files


class Acceptor:
    """Accepts the connections of a listening socket; closes like a server of asyncio."""

    def __init__(
        self, listener: socket.socket, make_protocol: Callable[[], asyncio.Protocol], tls: ssl.SSLContext | None = None
    ) -> None:
        self.listener, self._make_protocol, self._tls = listener, make_protocol, tls
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._resume()

    def _resume(self) -> None:
        if not self._closed:
            self._loop.add_reader(self.listener, self._accept)

    def _accept(self) -> None:
        for _ in range(MOST):
            try:
                connection, _ = self.listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                self._loop.remove_reader(self.listener)
                self._loop.call_later(PAUSE, self._resume)
                return
            connection.setblocking(False)
            task = self._loop.create_task(self._connect(connection))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _connect(self, connection: socket.socket) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(self._make_protocol, connection, ssl=self._tls)
        except OSError:  # the client has gone, or does not speak TLS
            connection.close()

    def close(self) -> None:
        """Accept no more."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self.listener)

    async def wait_closed(self) -> None:
        """Wait for connections that are being set up."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=PAUSE)
