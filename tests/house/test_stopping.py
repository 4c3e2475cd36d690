"""Stopping: whoever asks is heard within one step, and nobody below has to know of it."""

from collections.abc import Iterator

import pytest

from jumok.stopping import NEVER, Stop, Stopped


class After:
    """Somebody who asks to stop after so many looks."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def __call__(self) -> bool:
        self.left -= 1
        return self.left < 0


def work(steps: int, closed: list[bool]):
    """Work in steps that returns how many there were."""
    try:
        yield from range(steps)
        return steps
    finally:
        closed.append(True)


def test_what_nobody_stops_is_unchanged():
    assert list(NEVER.watch("abc")) == ["a", "b", "c"]
    assert NEVER.finish(work(3, [])) == 3
    NEVER.check()


def test_an_iterable_ends_at_the_first_look_after_somebody_asked():
    taken = []
    with pytest.raises(Stopped):
        taken += Stop(After(2)).watch("abcdef")
    seen: Iterator[str] = Stop(After(1)).watch("abcdef", every=2)
    assert [next(seen) for _ in range(3)] == ["a", "b", "c"]
    with pytest.raises(Stopped):
        next(seen)


def test_work_in_steps_is_closed_before_its_caller_hears_of_it():
    """Not only when the last reference to it is gone, as one from a traceback is not."""
    closed: list[bool] = []
    steps, items = work(9, closed), work(9, closed)
    with pytest.raises(Stopped):
        Stop(After(1)).finish(steps)
    assert closed == [True]
    with pytest.raises(Stopped):
        list(Stop(After(1)).watch(items))
    assert closed == [True, True]


def test_an_error_of_the_work_comes_through():
    def fails():
        yield
        raise ValueError("of the work")

    with pytest.raises(ValueError, match="of the work"):
        NEVER.finish(fails())
    with pytest.raises(ValueError, match="of the work"):
        list(NEVER.watch(fails()))
