"""Progress of a stage of preparation: an event when it begins, then twice a second with share, rate and time left."""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from jumok.messages import Message

EVERY = 0.5  # least seconds between two reports

Report = Callable[..., None]
T = TypeVar("T")


@dataclass
class Stage:
    """A stage of work that reports its progress: share done, count, time left."""

    report: Report
    name: str
    text: str
    unit: str = "pairs"
    line: Message | None = None  # reported before, for those who see no progress
    began: float = field(default_factory=time.monotonic)
    reported: float = field(default_factory=time.monotonic)  # time of the last report
    skipped: float = 0.0  # share that an earlier attempt has done
    passed: int = 0  # and the count of it
    count: int = 0
    total: int = 0  # the count when all is done: it then follows from the share

    def __post_init__(self) -> None:
        if self.line is not None:
            self.report("stage", text=self.line)
        self._tell(0.0, 0.0, None)

    def __call__(self, share: float, count: int | None = None) -> None:
        """Report the share that is done, unless the last report was a moment ago."""
        self.count = max(self.count, round(share * self.total)) if count is None else count
        now = time.monotonic()
        if now - self.reported < EVERY:
            return
        self.reported = now
        seconds, gained = now - self.began, share - self.skipped
        left = seconds * (1.0 - share) / gained if gained > 0.005 else None
        self._tell(share, seconds, left)

    def _tell(self, share: float, seconds: float, left: float | None) -> None:
        rate = max(0, self.count - self.passed) / seconds if self.count and seconds > 0.0 else None
        self.report(
            "progress", stage=self.name, text=self.text, share=round(min(1.0, share), 4), count=self.count,
            unit=self.unit, rate=None if rate is None else round(rate, 1), seconds=round(seconds, 1),
            left=None if left is None else round(left, 1),
        )  # fmt: skip

    def follow(self, items: Sequence[T]) -> Iterator[T]:
        """The same items; progress is reported as they are taken."""
        for done, item in enumerate(items):
            self(done / len(items))
            yield item

    def through(self, steps: Generator[float, None, T], first: float, last: float) -> Generator[float, None, T]:
        """The same steps, each a share of the work; their progress is reported as that from `first` to `last`."""
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

    def count_up(self, steps: Generator[int, None, T], size: int, *, before: int = 0) -> Generator[int, None, T]:
        """The same steps, each a part of `size` in all; `before` was done before them."""
        done = before
        try:
            while True:
                part = next(steps)
                done += part
                self(done / max(1, size), done)
                yield part
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            steps.close()

    def span(self, first: float, last: float) -> Callable[[float], None]:
        """A function that reports shares of a part of the work, which is that from `first` to `last`."""
        return lambda share: self(first + share * (last - first))

    def skip(self, share: float, count: int = 0) -> None:
        """Note that an earlier attempt has done this share, and so many."""
        self.skipped, self.passed = share, count
        self(share, count or None)
