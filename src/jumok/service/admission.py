"""Which requests are accepted: those whose work can be done in time, by the speed measured so far.

Work is counted in units: the characters of a sentence and a constant for the sentence itself.  Every group of
sentences that an engine process finishes tells how many seconds of a thread a unit takes, for its model and its beam.
Work counts as waiting until its reply has been read, so that a busy front process has a shorter queue as well.

With at most 0.1 s of work waiting, 99 of 100 answers come within 0.2 s of their admission, for fast and slow models
(tests/service/test_overload.py simulates it).  What else a request takes is HTTP, which server/front.py bounds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SENTENCE = 8  # units of a sentence besides its characters
MEMORY = 4_000.0  # units after which older measurements count for a third
USUAL = 1e-4  # seconds per unit before anything was measured: a sentence of 40 characters in 5 ms
LEAST_SHARE = 1 / 8  # of the threads that bulk work gets
PATIENT = 2.0  # an interactive request may wait so many times as long as it takes itself


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much may wait."""

    interactive: float = 0.1  # seconds of work that may wait before an interactive request is refused
    long: float = 0.1  # seconds of work beyond which a request is bulk, whoever sends it
    sentences: int = 32_768  # that may wait in all
    cache: int = 32 << 20  # bytes of answers that are kept

    def allow(self, own: float) -> float:
        """Return the longest wait of an interactive request that takes `own` seconds of all threads."""
        return max(self.interactive, PATIENT * own)


def count_units(texts: Iterable[str]) -> int:
    return sum(len(text) + SENTENCE for text in texts)


class Speed:
    """Seconds of a thread per unit of work, by model and beam; measured, and known roughly from the start."""

    def __init__(self) -> None:
        self._means: dict[tuple[str, int], float] = {}

    def begin(self, model: str, beam: int, seconds: float, units: int) -> None:
        """Note how long the warm-up took."""
        self._means[model, beam] = seconds / units

    def measure(self, model: str, beam: int, seconds: float, units: int) -> None:
        """Note how long a thread took for some units."""
        each, weight = seconds / units, units / (units + MEMORY)
        before = self.estimate(model, beam)
        self._means[model, beam] = before + weight * (each - before)

    def estimate(self, model: str, beam: int) -> float:
        """Return seconds per unit; of a beam that was not measured, in proportion to the nearest that was."""
        if (known := self._means.get((model, beam))) is not None:
            return known
        others = [
            (abs(width - beam), mean * beam / width) for (name, width), mean in self._means.items() if name == model
        ]
        return min(others)[1] if others else USUAL


class Backlog:
    """The work that waits or runs, in seconds of a thread, by class."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.seconds = {False: 0.0, True: 0.0}
        self.sentences = {False: 0, True: 0}

    def add(self, bulk: bool, seconds: float) -> None:
        self.seconds[bulk] += seconds
        self.sentences[bulk] += 1

    def remove(self, bulk: bool, seconds: float) -> None:
        self.sentences[bulk] -= 1
        self.seconds[bulk] = self.seconds[bulk] - seconds if self.sentences[bulk] else 0.0

    def wait(self, bulk: bool) -> float:
        """Return the seconds until work that is added now begins."""
        interactive = self.seconds[False] / self.threads
        if not bulk:
            return interactive
        # Interactive work goes first, but bulk work never gets less than its share.
        alone = self.seconds[True] / self.threads
        return min(interactive + alone, alone / LEAST_SHARE) if self.sentences[True] else interactive
