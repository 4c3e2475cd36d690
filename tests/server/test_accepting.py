"""Connections that wait are all accepted at once, however long a round of the event loop takes."""

import asyncio
import socket
import time

import pytest
import uvloop

from jumok.server.accepting import Acceptor

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class Greeter(asyncio.Protocol):
    """Says hello to whoever connects."""

    made = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        Greeter.made += 1
        assert isinstance(transport, asyncio.WriteTransport) or hasattr(transport, "write")
        transport.write(b"hello")  # type: ignore[attr-defined]


@pytest.mark.parametrize("loop", LOOPS)
def test_waiting_connections_are_accepted_in_a_few_rounds(loop):
    async def run() -> int:
        Greeter.made = 0
        with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
            listener.setblocking(False)
            clients = [socket.create_connection(listener.getsockname()) for _ in range(60)]
            acceptor = Acceptor(listener, Greeter)
            for _ in range(6):
                await asyncio.sleep(0)
                time.sleep(0.01)  # a long round
            made = Greeter.made
            await asyncio.sleep(0.05)
            assert all([await asyncio.to_thread(client.recv, 5) == b"hello" for client in clients])
            acceptor.close()
            await acceptor.wait_closed()
            for client in clients:
                client.close()
            await asyncio.sleep(0.05)
            return made

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        assert runner.run(run()) == 60


def test_after_closing_nobody_is_accepted():
    async def run() -> int:
        Greeter.made = 0
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            acceptor = Acceptor(listener, Greeter)
            acceptor.close()
            with socket.create_connection(listener.getsockname()):
                await asyncio.sleep(0.1)
        return Greeter.made

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(run()) == 0
