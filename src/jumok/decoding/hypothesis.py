"""The result of a search, the same for all engines; no torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jumok.text.symbols import END


@dataclass(frozen=True)
class Hypothesis:
    """Output ids without START, with END where it was reached; `score` is what search ranked by.

    A hypothesis whose probabilities were not computed is not `scored`: its numbers are nan.
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

    @classmethod
    def scored_by(cls, ids: Sequence[int], token_scores: Sequence[float], length_penalty: float) -> Hypothesis:
        """Return the hypothesis with these tokens and their log-probabilities, which add up to its own."""
        total = sum(token_scores)
        return cls(tuple(ids), penalize(total, len(ids), length_penalty), total, tuple(token_scores))


def penalize(log_probability: float, length: int, length_penalty: float) -> float:
    """Return log P / ((5 + n) / 6)^alpha (Wu et al. 2016), where alpha is the length penalty and n counts the END."""
    return log_probability / float(((5.0 + length) / 6.0) ** length_penalty)


def rank(
    hypotheses: Iterable[tuple[tuple[int, ...], float, tuple[float, ...]]], length_penalty: float
) -> list[Hypothesis]:
    """Return hypotheses, best first, from (ids, log P, log-probability of each token)."""
    ranked = [
        Hypothesis(ids, penalize(total, len(ids), length_penalty), total, gains) for ids, total, gains in hypotheses
    ]
    return sorted(ranked, key=lambda h: -h.score)
