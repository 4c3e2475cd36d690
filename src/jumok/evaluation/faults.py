"""The sentences of a validation set that a model translates worst, and why they stand out.

    faults = find_faults(translator, pairs)
    sort(faults, "chrf")[:10]

Four orders: lowest chrF; too long for its source; too sure (a high probability and a low chrF); copied from the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from math import exp
from typing import Any

from jumok.data.corpora import Pair
from jumok.evaluation import metrics
from jumok.evaluation.evaluate import Translates

ORDERS = ("chrf", "long", "sure", "copied")
SHORTEST = 4  # characters of a word that counts as copied; names and numbers are copied rightly


@dataclass(frozen=True)
class Fault:
    """One sentence: source, reference, translation, and its measures."""

    row: int  # in the validation set, from 0
    source: str
    reference: str
    text: str
    chrf: float  # 0 to 100
    ratio: float  # characters of the translation over those of the reference
    probability: float  # of a token, on average
    copied: float  # share of the source's longer words that stand in the translation but not in the reference

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def find_faults(
    model: Translates, pairs: Sequence[Pair], *, progress: Callable[[int], None] = lambda sentences: None
) -> list[Fault]:
    """Translate all pairs greedily and measure each of them."""
    translated = model.lines((pair.source for pair in pairs), progress=progress, beam=1)
    faults = []
    for row, (pair, one) in enumerate(zip(pairs, translated, strict=True)):
        tokens = max(1, len(one.token_scores))
        faults.append(
            Fault(
                row=row, source=pair.source, reference=pair.target, text=one.text,
                chrf=round(metrics.chrf([one.text], [pair.target]).value, 2),
                ratio=round((len(one.text) + 1) / (len(pair.target) + 1), 3),
                probability=round(exp(one.log_probability / tokens), 4),
                copied=round(share_copied(pair, one.text), 3),
            )
        )  # fmt: skip
    return faults


def share_copied(pair: Pair, text: str) -> float:
    """Return the share of the source's longer words that the translation has and the reference has not."""
    words = {word for word in _words(pair.source) if len(word) >= SHORTEST and word.isalpha()}
    wrong = words & set(_words(text)) - set(_words(pair.target))
    return len(wrong) / len(words) if words else 0.0


def _words(text: str) -> list[str]:
    return [word.strip(".,;:!?\"'()[]").casefold() for word in text.split()]


def sort(faults: Iterable[Fault], order: str) -> list[Fault]:
    """Return the faults in one of the orders, worst first; ties stay in the order of the set."""
    keys: dict[str, Callable[[Fault], float]] = {
        "chrf": lambda fault: fault.chrf,
        "long": lambda fault: -fault.ratio,
        "sure": lambda fault: fault.chrf - 100 * fault.probability,
        "copied": lambda fault: -fault.copied,
    }
    return sorted(faults, key=keys[order])
