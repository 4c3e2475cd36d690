"""How good the models of a claim are: how much of what is possible on their data, of how many seeds, how certain.

    Standing("phrasebook", "bleu", 56.1, interval=(53.0, 59.2))

A comparison of half-trained models tells which one learns faster, not what a part is for; so every page says how far
its models are from the best that the data allow.

Not here verdicts (claim.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import mean, stdev
from typing import Any, NamedTuple

from jumok.lab.wording import Words

WORDS = Words.read("pages")
POSSIBLE = {"bleu": 100.0, "right": 1.0, "f1": 100.0}
FORMS = {"bleu": "{:.1f}", "right": "{:.0%}", "f1": "{:.1f}"}
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}  # the 97.5 % quantile of Student's t by the number of values
NORMAL = 1.96  # that of the normal distribution
Interval = tuple[float, float]


class Standing(NamedTuple):
    """What the best model of a claim reaches, and what that number rests on."""

    ground: str  # toy, letters, phrasebook, real; none if nothing is trained
    score: str = "right"  # bleu, right or f1
    reached: float | None = None
    seeds: int = 1
    interval: Sequence[float] | None = None  # 95 %
    over: str = "sentences"  # what the interval is about: sentences or seeds

    def tell(self, scale: str, language: str) -> list[str]:
        """The standing as sentences."""
        form = FORMS[self.score]
        ground = WORDS(f"ground.{self.ground}").of(language)
        texts = [WORDS("standing.ground", ground=ground).of(language)]
        if self.reached is not None:
            values = {"reached": form.format(self.reached), "possible": form.format(POSSIBLE[self.score])}
            key = "real" if (self.ground, self.score) == ("real", "bleu") else self.score
            texts.append(WORDS(f"standing.{key}", **values).of(language))
        elif self.ground not in ("none", "toy"):
            texts.append(WORDS("standing.unknown").of(language))
        texts.append(WORDS("standing.one" if self.seeds == 1 else "standing.several", seeds=self.seeds).of(language))
        if self.interval is not None:
            low, high = (form.format(max(0.0, min(value, POSSIBLE[self.score]))) for value in self.interval)
            texts.append(WORDS(f"standing.over_{self.over}", low=low, high=high).of(language))
        elif self.reached is not None:
            texts.append(WORDS("standing.no_interval").of(language))
        return [*texts, WORDS("standing.scale", scale=scale).of(language)]


def over_seeds(values: Sequence[float]) -> Interval | None:
    """The 95 % interval of the mean of a few seeds, by Student's t; None for a single one.

    >>> [round(end, 2) for end in over_seeds([0.5, 0.6, 0.7])]
    [0.35, 0.85]
    """
    if len(values) < 2:
        return None
    half = STUDENT.get(len(values), NORMAL) * stdev(values) / sqrt(len(values))
    return mean(values) - half, mean(values) + half


def of_share(share: float, count: int) -> Interval:
    """Wilson's 95 % interval of a share of `count` cases; it is not empty for 0 and 1.

    >>> [round(end, 3) for end in of_share(1.0, 100)]
    [0.963, 1.0]
    """
    square = NORMAL**2
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = NORMAL / (1 + square / count) * sqrt(share * (1 - share) / count + square / (4 * count**2))
    return middle - half, middle + half


def tell_runs(values: Sequence[float]) -> str:
    """The mean of the shares of a few seeds, and its 95 % interval.

    >>> tell_runs([0.30, 0.31, 0.32])
    '31% (29–33%)'
    """
    interval = over_seeds(values)
    if interval is None:
        return f"{mean(values):.0%}"
    low, high = (100 * max(0.0, min(1.0, end)) for end in interval)
    return f"{mean(values):.0%} ({low:.0f}–{high:.0f}%)"


def tell_bleu(graded: Mapping[str, Any]) -> str:
    """A BLEU and, if there is one, its 95 % interval.

    >>> tell_bleu({"bleu": 54.2, "interval": [51.0, 57.5]})
    '54.2 (51.0–57.5)'
    """
    interval = graded.get("interval")
    return f"{graded['bleu']:.1f}" + (f" ({interval[0]:.1f}–{interval[1]:.1f})" if interval else "")
