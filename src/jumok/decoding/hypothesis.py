"""What search gives out, whichever engine searches; no torch."""

from collections.abc import Iterable
from dataclasses import dataclass

from jumok.text.vocabulary import END, PAD, SPECIALS, START, UNKNOWN

NEVER = (PAD, UNKNOWN, START, *range(4, SPECIALS))  # no output holds these


@dataclass(frozen=True)
class Hypothesis:
    """Output ids without START, with END where it was reached; `score` is what search ranked by.

    What was found without probabilities is not `scored`: its numbers are nan.
    """

    ids: tuple[int, ...]
    score: float
    log_probability: float
    token_scores: tuple[float, ...] = ()
    scored: bool = True

    @property
    def ended(self) -> bool:
        return bool(self.ids) and self.ids[-1] == END

    @property
    def body(self) -> tuple[int, ...]:
        """Ids without END."""
        return self.ids[:-1] if self.ended else self.ids


def length_penalty(length: int, alpha: float) -> float:
    """((5 + n) / 6)^alpha: what log P is divided by (Wu et al. 2016); n counts the END."""
    return float(((5.0 + length) / 6.0) ** alpha)


def ranked(found: Iterable[tuple[tuple[int, ...], float, tuple[float, ...]]], alpha: float) -> list[Hypothesis]:
    """Hypotheses of (ids, log P, log-probability of each token), best first."""
    made = [Hypothesis(ids, total / length_penalty(len(ids), alpha), total, gains) for ids, total, gains in found]
    return sorted(made, key=lambda one: -one.score)
