"""Admission under overload, simulated: no process, no clock, the queue and the estimates of the service.

Threads take groups from the service's own queue.  A group of n sentences takes (0.65 + 0.35 n) times as long as one
sentence, with some noise; replies reach the front process up to 30 ms later, as when its event loop is busy.
"""

import heapq
import random
from dataclasses import dataclass, field

import pytest

from jumok.service.admission import Backlog, Limits, Speed, count_units
from jumok.service.waiting import Item, Waiting

GROUP = 12
THREADS = 2
LIMITS = Limits()


@dataclass
class Simulation:
    """A server with one model that takes `alone` seconds for one sentence."""

    alone: float
    lag: float = 0.03  # seconds until the front process has read a reply, at most
    chance: random.Random = field(default_factory=lambda: random.Random(5))
    seconds: list[tuple[float, float]] = field(default_factory=list)  # moment and time of each answer
    refused: int = 0

    @property
    def capacity(self) -> float:
        """Sentences per second in full groups."""
        return THREADS * GROUP / (self.alone * (0.65 + 0.35 * GROUP))

    def run(self, load: float, until: float, slower_from: float = float("inf")) -> None:
        """Offer a load, as a share of the capacity; from a moment on, everything takes twice as long."""
        waiting, speed, backlog = Waiting(THREADS), Speed(), Backlog(THREADS)
        speed.begin("m", 4, self.alone, count_units(["x" * 40]))
        admitted: dict[int, tuple[float, float]] = {}  # moment, cost
        events: list[tuple[float, int, str, list[Item]]] = [(0.0, 0, "arrive", [])]
        free, number, began = THREADS, 0, dict[int, float]()

        def push(at: float, kind: str, items: list[Item]) -> None:
            nonlocal number
            number += 1
            heapq.heappush(events, (at, number, kind, items))

        while events:
            now, _, kind, items = heapq.heappop(events)
            if kind == "arrive" and now < until:
                push(now + self.chance.expovariate(load * self.capacity), "arrive", [])
                text = "x" * self.chance.randint(20, 60)
                cost = count_units([text]) * speed.estimate("m", 4)
                wait, own = backlog.wait(False), cost / THREADS
                if backlog.sentences[False] and wait > LIMITS.allow(own):
                    self.refused += 1
                else:
                    item = Item(number, 0, "k", text, 0.0, False, GROUP)
                    admitted[item.number] = now, cost
                    backlog.add(False, cost)
                    waiting.put([item])
            elif kind == "translated":
                free += 1
                push(now + self.chance.uniform(0.0, self.lag), "answered", items)
            elif kind == "answered":
                speed.measure("m", 4, began.pop(items[0].number), count_units([item.text for item in items]))
                for item in items:
                    at, cost = admitted.pop(item.number)
                    backlog.remove(False, cost)
                    self.seconds.append((now, now - at))
            while free and len(waiting):
                group = waiting.take() or []
                free -= 1
                took = self.alone * (0.65 + 0.35 * len(group)) * self.chance.uniform(0.8, 1.3)
                began[group[0].number] = took = took * (2.0 if now > slower_from else 1.0)
                push(now + took, "translated", group)

    def percentile(self, share: float, since: float, until: float = float("inf")) -> float:
        times = sorted(seconds for at, seconds in self.seconds if since <= at < until)
        return times[int(share * len(times))]


@pytest.mark.parametrize(
    ("alone", "goodput", "seconds"), [(0.002, 0.9, 2.0), (0.006, 0.9, 4.0), (0.02, 0.6, 8.0), (0.05, 0.4, 20.0)]
)
def test_at_three_times_the_capacity_answers_come_within_0_2_seconds_for_fast_and_slow_models(alone, goodput, seconds):
    """A slow model cannot have full groups in so short a time: its goodput is a part of its capacity."""
    server = Simulation(alone)
    server.run(3.0, seconds)
    assert server.refused > len(server.seconds)
    assert server.percentile(0.99, since=seconds / 4) <= 0.21
    assert len(server.seconds) / seconds >= goodput * server.capacity


def test_a_machine_that_becomes_slower_has_fewer_requests_waiting():
    server = Simulation(0.006)
    server.run(3.0, 9.0, slower_from=3.0)
    assert server.percentile(0.99, since=5.0) <= 0.21
    assert server.percentile(0.5, since=5.0) <= 1.3 * server.percentile(0.5, since=1.0, until=3.0)


def test_replies_that_the_front_process_reads_late_make_the_queue_shorter():
    server = Simulation(0.006, lag=0.12)
    server.run(3.0, 4.0)
    assert server.percentile(0.99, since=1.0) <= 0.21  # not 0.09 more


def test_below_the_capacity_hardly_anything_is_refused():
    for alone in (0.002, 0.006):
        server = Simulation(alone)
        server.run(0.7, 4.0)
        assert server.refused < 0.01 * len(server.seconds)
