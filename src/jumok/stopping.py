"""Stopping: one value says whether somebody asked for it; whoever hears the signal makes it and hands it to long work.

Code that merely loops does not know of it.  It takes an iterable, which its caller wraps in `watch`; or it is a
generator that yields several times a second and returns its result, which its caller runs with `finish`.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


class Stopped(Exception):
    """Somebody asked to stop: what was being done has ended early, and everything is as it was before it began."""


class Stop:
    """Whether somebody asked to stop; `asked` is called every time, so it must be quick."""

    def __init__(self, asked: Callable[[], bool] = lambda: False) -> None:
        self.asked = asked

    def __call__(self) -> bool:
        return self.asked()

    def check(self) -> None:
        """Raise `Stopped` if somebody asked."""
        if self.asked():
            raise Stopped

    def watch(self, items: Iterable[T], every: int = 1) -> Iterator[T]:
        """The same items, with a check at every so many of them; a generator that is left early is closed."""
        try:
            for count, item in enumerate(items, start=1):
                if count % every == 0 and self.asked():
                    raise Stopped
                yield item
        finally:
            if isinstance(items, Generator):
                items.close()

    def finish(self, steps: Generator[Any, None, T]) -> T:
        """What a generator returns, with a check after each of its steps."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            if self.asked():
                steps.close()
                raise Stopped


NEVER = Stop()
