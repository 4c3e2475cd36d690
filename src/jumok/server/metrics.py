"""Metrics in Prometheus' text format.  Labels are names of APIs, status codes and models: no addresses, no keys."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator

SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
Labels = tuple[tuple[str, str], ...]


class Counter:
    """Numbers that only grow, one for each combination of labels."""

    kind = "counter"

    def __init__(self, name: str, explanation: str) -> None:
        self.name, self.explanation = name, explanation
        self.values: defaultdict[Labels, float] = defaultdict(float)

    def add(self, amount: float = 1, **labels: str) -> None:
        """Count."""
        self.values[tuple(labels.items())] += amount

    def total(self, **labels: str) -> float:
        """Return the sum over all combinations that have these labels."""
        return sum(value for key, value in self.values.items() if labels.items() <= dict(key).items())

    def lines(self) -> Iterator[str]:
        """Yield the metric as text."""
        yield from head(self.name, self.kind, self.explanation)
        for labels, value in sorted(self.values.items()) or [((), 0.0)]:
            yield f"{self.name}{write_labels(labels)} {value:g}"


class Histogram:
    """How often values fell into each of several ranges."""

    def __init__(self, name: str, explanation: str, bounds: tuple[float, ...] = SECONDS) -> None:
        self.name, self.explanation, self.bounds = name, explanation, bounds
        self.counts: defaultdict[Labels, list[int]] = defaultdict(lambda: [0] * (len(bounds) + 1))
        self.sums: defaultdict[Labels, float] = defaultdict(float)

    def observe(self, value: float, **labels: str) -> None:
        """Count a value."""
        key = tuple(labels.items())
        self.counts[key][bisect_left(self.bounds, value)] += 1
        self.sums[key] += value

    def lines(self) -> Iterator[str]:
        """Yield the metric as text."""
        yield from head(self.name, "histogram", self.explanation)
        for key, counts in sorted(self.counts.items()):
            total = 0
            for bound, count in zip((*self.bounds, float("inf")), counts, strict=True):
                total += count
                edge = "+Inf" if bound == float("inf") else f"{bound:g}"
                yield f"{self.name}_bucket{write_labels((*key, ('le', edge)))} {total}"
            yield f"{self.name}_sum{write_labels(key)} {self.sums[key]:.6f}"
            yield f"{self.name}_count{write_labels(key)} {total}"


def head(name: str, kind: str, explanation: str) -> Iterator[str]:
    """Yield the two comment lines of a metric."""
    yield f"# HELP {name} {explanation}"
    yield f"# TYPE {name} {kind}"


def write_labels(labels: Iterable[tuple[str, str]]) -> str:
    """Return labels in braces, with quotes and line ends escaped."""
    parts = [f'{name}="{escape(value)}"' for name, value in labels]
    return f"{{{','.join(parts)}}}" if parts else ""


def escape(value: str) -> str:
    """Return the value of a label as the format wants it."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Metrics:
    """Everything that a server counts."""

    def __init__(self) -> None:
        self.requests = Counter("jumok_requests_total", "Requests by API and status.")
        self.seconds = Histogram("jumok_request_seconds", "Seconds from the first byte to the end of the answer.")
        self.cancelled = Counter("jumok_requests_cancelled_total", "Requests whose client left before the answer.")
        self.shed = Counter("jumok_requests_shed_total", "Requests refused because of load or rate (429).")
        self.texts = Counter("jumok_texts_total", "Texts translated, by API.")
        self.characters = Counter("jumok_characters_total", "Characters translated, by API.")
        self.faults = Counter("jumok_faults_total", "Errors nobody expected, by kind.")

    def lines(self, extra: Iterable[str] = ()) -> Iterator[str]:
        """Yield all metrics as text; `extra` are those of the service."""
        for metric in vars(self).values():
            yield from metric.lines()
        yield from extra
