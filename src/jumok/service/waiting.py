"""The queue of an engine process: which waiting sentences a free thread translates together.

A thread that is free takes the oldest sentence, and with it those of the nearest length that ask for the same model
and options.  It never waits for more, and shares them with other threads that are free.  Interactive sentences go
before bulk ones, but bulk gets every eighth turn.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

BULK_TURN = 8  # bulk is served at least once in so many turns
NEXT_BULK = BULK_TURN - 1


@dataclass(eq=False, slots=True)
class Item:
    """A sentence, or another call, that waits for a thread."""

    number: int  # of the job, in the front process
    slot: int
    key: Hashable  # items of the same key may be translated together
    text: str
    deadline: float
    bulk: bool
    most: int = 1  # items in a group
    work: Any = None  # what the thread needs besides the text
    order: int = 0
    rank: tuple[int, int] = field(default=(0, 0))

    def __lt__(self, other: Item) -> bool:
        return self.rank < other.rank


class Waiting:
    """Items that wait; safe for threads."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._classes: dict[bool, OrderedDict[int, Item]] = {False: OrderedDict(), True: OrderedDict()}
        self._buckets: dict[tuple[bool, Hashable], list[Item]] = {}  # of one key, by length
        self._changed = threading.Condition()
        self._count = self._turns = 0
        self._idle = 0  # threads that wait
        self._closed = False

    def __len__(self) -> int:
        return sum(map(len, self._classes.values()))

    def put(self, items: Iterable[Item]) -> None:
        """Add items in the order of their arrival."""
        with self._changed:
            for item in items:
                self._count += 1
                item.order, item.rank = self._count, (len(item.text), self._count)
                self._classes[item.bulk][item.order] = item
                insort(self._buckets.setdefault((item.bulk, item.key), []), item)
            self._changed.notify(self.threads)

    def take(self) -> list[Item] | None:
        """Wait for items; return those to translate together, or None when the queue is closed and empty."""
        with self._changed:
            while not len(self):
                if self._closed:
                    return None
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            return self._choose()

    def close(self) -> None:
        """Let `take` return None once nothing waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _choose(self) -> list[Item]:
        """Remove and return the oldest item of the class whose turn it is, and its nearest neighbours by length."""
        bulk = bool(self._classes[True]) and (not self._classes[False] or self._turns >= NEXT_BULK)
        self._turns = 0 if bulk else self._turns + 1
        oldest = next(iter(self._classes[bulk].values()))
        bucket = self._buckets[bulk, oldest.key]
        size = min(oldest.most, -(-len(bucket) // (1 + self._idle)))  # leave their share to threads that are free too
        first = bisect_left(bucket, oldest.rank, key=lambda item: item.rank)
        last = first + 1
        length = len(oldest.text)
        while last - first < size:
            before = length - len(bucket[first - 1].text) if first else None
            after = len(bucket[last].text) - length if last < len(bucket) else None
            if after is None or (before is not None and before <= after):
                first -= 1
            else:
                last += 1
        chosen = bucket[first:last]
        del bucket[first:last]
        if not bucket:
            del self._buckets[bulk, oldest.key]
        for item in chosen:
            del self._classes[bulk][item.order]
        return chosen
