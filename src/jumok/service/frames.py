"""Frames between the front process and an engine process: four bytes of length, then JSON.

A frame is a list whose first item names it.  JSON preserves every float and every string, lone surrogates included,
and reading it cannot do anything but return plain values, whatever an engine process sends.
"""

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any, cast

Frame = list[Any]
HEADER = struct.Struct("<I")
ENCODER = json.JSONEncoder(separators=(",", ":"))
LARGEST = 1 << 30  # bytes of a frame


def pack(frame: Frame) -> bytes:
    """Return the bytes of a frame."""
    content = ENCODER.encode(frame).encode()
    return HEADER.pack(len(content)) + content


class Unpacker:
    """Turns bytes, in pieces of any size, into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that are complete with these bytes."""
        self._buffer += data
        frames, start = [], 0
        while len(self._buffer) - start >= HEADER.size:
            (size,) = HEADER.unpack_from(self._buffer, start)
            if size > LARGEST:
                raise ValueError(f"a frame of {size} bytes")
            stop = start + HEADER.size + size
            if len(self._buffer) < stop:
                break
            frames.append(json.loads(self._buffer[start + HEADER.size : stop]))
            start = stop
        del self._buffer[:start]
        return frames


class Channel:
    """The end of an engine process: blocking, written by several threads."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection, self._lock, self._unpacker = connection, threading.Lock(), Unpacker()

    def send(self, frame: Frame) -> None:
        content = pack(frame)
        with self._lock:
            self.connection.sendall(content)

    def receive(self) -> list[Frame] | None:
        """Wait for frames; None when the other end has closed."""
        data = self.connection.recv(1 << 18)
        return self._unpacker.feed(data) if data else None


class FrontProtocol(asyncio.Protocol):
    """The end of the front process; works with any event loop."""

    def __init__(self, receive: Callable[[Frame], None], lose: Callable[[], None]) -> None:
        self._receive, self._lose, self._unpacker = receive, lose, Unpacker()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's class is not a subclass

    def data_received(self, data: bytes) -> None:
        for frame in self._unpacker.feed(data):
            self._receive(frame)

    def connection_lost(self, error: Exception | None) -> None:
        self._lose()

    def send(self, frame: Frame) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(pack(frame))
