"""Stopping: one value that says whether the user asked to stop, created by the signal handler, passed to long work.

Code that only loops does not depend on it.  It takes an iterable, which its caller wraps in `watch`; or it is a
generator that yields several times per second and returns its result, which its caller runs with `finish`.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


class Stopped(Exception):
    """The user asked to stop: the work has ended early and left everything as it was before."""


class Stop:
    """Whether the user asked to stop; `asked` is called at every check, so it must be fast."""

    def __init__(self, asked: Callable[[], bool] = lambda: False) -> None:
        self.asked = asked

    def __call__(self) -> bool:
        return self.asked()

    def check(self) -> None:
        """Raise `Stopped` if the user asked to stop."""
        if self.asked():
            raise Stopped

    def watch(self, items: Iterable[T], every: int = 1) -> Iterator[T]:
        """The same items, with a check after each `every` of them; a generator is closed if the loop ends early."""
        try:
            for count, item in enumerate(items, start=1):
                if count % every == 0 and self.asked():
                    raise Stopped
                yield item
        finally:
            if isinstance(items, Generator):
                items.close()

    def finish(self, steps: Generator[Any, None, T]) -> T:
        """The return value of a generator, with a check after each of its steps."""
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
