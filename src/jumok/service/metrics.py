"""Counters and histograms of the service as plain values; printing them is the server's work."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SENTENCES = (1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 24.0, 48.0)


class Histogram:
    """How often values were at most each of some bounds."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.counts, self.sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    @property
    def count(self) -> int:
        return sum(self.counts)

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Yield (bound, how many values were at most that); the last bound is infinite."""
        total = 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            total += count
            yield bound, total


class Sample(NamedTuple):
    """One line of a metric: its labels and its value."""

    labels: dict[str, str]
    value: float


@dataclass
class Metrics:
    """What the service counts; names are those that /metrics prints after `jumok_`."""

    decode_tokens: Counter[str] = field(default_factory=Counter)  # by model; of the output
    sentences: Counter[str] = field(default_factory=Counter)  # answered, by model, cache included
    cancelled: int = 0  # requests that were given up; the server prints those whose client left, by API
    stopped: int = 0  # sentences and calls that nobody waited for any more
    expired: int = 0  # requests whose deadline passed
    shed: int = 0  # requests refused because of load
    cache_hits: Counter[str] = field(default_factory=Counter)  # "cache" or "shared"
    engine_restarts: Counter[str] = field(default_factory=Counter)  # "native" or "torch"
    engine_lost: int = 0  # sentences that were being translated when their process died
    poisoned: int = 0  # requests refused because they killed an engine process twice
    reloads: Counter[str] = field(default_factory=Counter)  # by model
    flagged: Counter[tuple[str, str]] = field(default_factory=Counter)  # answers, by fault and model
    batch_sentences: Histogram = field(default_factory=lambda: Histogram(SENTENCES))
    seconds: dict[str, Histogram] = field(
        default_factory=lambda: {stage: Histogram(SECONDS) for stage in ("queue", "decode", "total")}
    )

    characters: int = 0  # that were read, and their subwords
    subwords: int = 0

    def read(self, characters: int, subwords: int) -> None:
        """Note how many subwords a text had."""
        self.characters += characters
        self.subwords += subwords

    def estimate_subwords(self, characters: int) -> int:
        """Return about how many subwords so many characters are, by the texts so far."""
        return round(characters * self.subwords / self.characters) if self.characters else characters // 4

    def counters(self) -> Iterator[tuple[str, list[Sample]]]:
        """Yield the name and the samples of every counter, for printing."""
        for name in ("stopped", "expired", "shed", "engine_lost", "poisoned"):
            yield f"{name}_total", [Sample({}, getattr(self, name))]
        for name, label in (
            ("decode_tokens", "model"),
            ("sentences", "model"),
            ("cache_hits", "kind"),
            ("engine_restarts", "engine"),
            ("reloads", "model"),
        ):
            counted: Counter[str] = getattr(self, name)
            yield f"{name}_total", [Sample({label: key}, count) for key, count in sorted(counted.items())]
        flagged = [Sample({"flag": flag, "model": model}, n) for (flag, model), n in sorted(self.flagged.items())]
        yield "flagged_total", flagged
