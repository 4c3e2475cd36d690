"""The learning rate of every update: equation 3, or a rise to a peak and a fall that ends with the run.

Paper: section 5.3, equation 3.  A `Course` says where the run ends.  A run limited by minutes finds out only on the way
how many updates it has; each new course begins at the rate of the one before, so that the rate never jumps.
"""

import math
from dataclasses import dataclass


def noam(step: int, *, d_model: int, warmup: int) -> float:
    """d_model^-0.5 · min(step^-0.5, step · warmup^-1.5): equation 3; rises for `warmup` steps, then falls."""
    if warmup == 0:
        return float(d_model**-0.5 * step**-0.5)
    return float(d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))


@dataclass(frozen=True)
class Course:
    """Where the rate goes from update `since` on: up to the peak at `warmup`, down until `horizon`."""

    horizon: int = 0  # the last update; 0 while it is unknown
    warmup: int = 0
    since: int = 0
    risen: float = 0.0  # share of the peak at `since`, if that is before `warmup`
    left: float = 1.0  # share of the fall that was still to come at `since`, or at `warmup` if that is later

    def remaining(self, step: int) -> float:
        """Share of the fall that is still to come at update `step`."""
        if self.horizon == 0:
            return self.left
        turn = max(self.since, self.warmup)
        return self.left * max(0.0, (self.horizon - step + 1) / max(1, self.horizon - turn))


@dataclass(frozen=True)
class Schedule:
    """The learning rate as a function of the update and of the course of the run."""

    kind: str
    d_model: int
    warmup: int
    peak: float | None

    def course(self, horizon: int) -> Course:
        """The course of a run of `horizon` updates, known from the beginning (0 if it is not)."""
        return Course(horizon, self._warmup(horizon))

    def turn(self, course: Course, step: int, horizon: int) -> Course:
        """The course that continues after update `step` without a jump and ends at `horizon`.

        A warm-up that the new horizon makes shorter rises at most twice as fast as before.
        """
        if step >= course.warmup:
            return Course(horizon, course.warmup, step, left=course.remaining(step + 1))
        warmup = max(step + 1, self._warmup(horizon))
        if course.horizon:
            warmup = max(warmup, step + (course.warmup - step + 1) // 2)
        rising = course.risen + (1.0 - course.risen) * (step - course.since) / (course.warmup - course.since)
        return Course(horizon, warmup, step, rising, course.left)

    def rate(self, step: int, course: Course) -> float:
        """The rate of update `step` (from 1)."""
        if self.kind == "noam":
            top = noam(max(1, self.warmup), d_model=self.d_model, warmup=self.warmup)
            return noam(step, d_model=self.d_model, warmup=self.warmup) * ((self.peak or top) / top)
        peak = self.peak or noam(max(1, self.warmup), d_model=self.d_model, warmup=self.warmup)
        if step <= course.warmup:
            low = peak * course.risen
            return low + (peak - low) * (step - course.since) / (course.warmup - course.since)
        left = course.remaining(step)
        shape = {"constant": 1.0, "linear": left, "cosine": 0.5 - 0.5 * math.cos(math.pi * left)}
        return peak * max(0.01, shape[self.kind])

    def _warmup(self, horizon: int) -> int:
        """A quarter of a short run at most."""
        return min(self.warmup, max(1, horizon // 4)) if horizon else self.warmup
