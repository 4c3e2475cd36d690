"""How far a stage of preparation is: an event twice a second with the share done, the rate and the time left."""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

EVERY = 0.5  # seconds between two reports

Report = Callable[..., None]
T = TypeVar("T")


@dataclass
class Stage:
    """A stretch of work that is reported as it goes on: share done, rate, time left."""

    report: Report
    name: str
    text: str
    unit: str = "pairs"
    began: float = field(default_factory=time.monotonic)
    told: float = field(default_factory=time.monotonic)
    behind: float = 0.0  # share that was done before: a resumed stage
    count: int = 0

    def __call__(self, share: float, count: int | None = None) -> None:
        """Tell how far it is, if that was not told just now."""
        self.count = self.count if count is None else count
        now = time.monotonic()
        if now - self.told < EVERY:
            return
        self.told = now
        seconds, gained = now - self.began, share - self.behind
        left = seconds * (1.0 - share) / gained if gained > 0.005 else None
        self.report(
            "progress", stage=self.name, text=self.text, share=round(min(1.0, share), 4), count=self.count,
            unit=self.unit, seconds=round(seconds, 1), left=None if left is None else round(left, 1),
        )  # fmt: skip

    def follow(self, items: Sequence[T]) -> Iterator[T]:
        """The same items, reported as they are taken."""
        for done, item in enumerate(items):
            self(done / len(items))
            yield item

    def through(self, steps: Generator[float, None, T], first: float, last: float) -> Generator[float, None, T]:
        """The same steps, each a share of the work, reported as what lies between two shares of the stage."""
        try:
            while True:
                share = next(steps)
                self(first + share * (last - first))
                yield share
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            steps.close()

    def skip(self, share: float) -> None:
        """This much was there already."""
        self.behind = share
