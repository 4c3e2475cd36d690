"""How late the event loop is, so that a server whose own process is the bottleneck refuses early, too.

A queue in front of the models is known by its length.  What waits in sockets is not: when more requests arrive than the
process can even read, a round of the event loop takes longer and longer, and every request takes several rounds.  A
timer that should fire every few milliseconds tells how long a round is.
"""

from __future__ import annotations

import asyncio
from time import monotonic

BEAT = 0.01  # seconds between two looks
FADING = 0.8  # a long round counts for a while, so that what piled up during it is refused as well


class Lag:
    """Measures the event loop that it was started on."""

    def __init__(self) -> None:
        self.seconds = 0.0  # how long rounds take at present

    def start(self) -> None:
        """Begin to measure the running loop."""
        loop = asyncio.get_running_loop()
        self._wait(loop)

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.call_later(BEAT, self._look, loop, monotonic() + BEAT)  # uvloop's own clock stands still in a round

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self.seconds = max(monotonic() - due, FADING * self.seconds)
        self._wait(loop)
