"""Sentences that were being translated when an engine process died; one that was there twice is refused for an hour.

Only hashes are stored.  A suspect is translated alone, so that those who were merely in the same group clear
themselves: once it is answered, it is no suspect any more.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

HOUR = 3_600.0
MOST = 10_000
DEATHS = 2


class Suspects:
    """How often each sentence was on the desk of a process that died."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._deaths: OrderedDict[bytes, tuple[int, float]] = OrderedDict()

    @property
    def any(self) -> bool:
        """Whether there are suspects."""
        return bool(self._deaths)

    def _count(self, digest: bytes) -> int:
        deaths, last = self._deaths.get(digest, (0, 0.0))
        if deaths and self._clock() - last > HOUR:
            del self._deaths[digest]
            return 0
        return deaths

    def accuse(self, digest: bytes) -> None:
        """Note that a sentence was being translated when a process died."""
        deaths = self._count(digest)
        self._deaths[digest] = (deaths + 1, self._clock())
        self._deaths.move_to_end(digest)
        while len(self._deaths) > MOST:
            self._deaths.popitem(last=False)

    def acquit(self, digest: bytes) -> None:
        """Note that a sentence was answered."""
        self._deaths.pop(digest, None)

    def is_suspect(self, digest: bytes) -> bool:
        return self._count(digest) > 0

    def is_poisoned(self, digest: bytes) -> bool:
        return self._count(digest) >= DEATHS
