"""What edits cost: BLEU of greedy translations on validation pairs, beside the model as it is, with 95 % intervals."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jumok.data.corpora import Pair
from jumok.errors import UsageError
from jumok.evaluation.significance import find_interval, resample
from jumok.inside.edits import NOTHING, Edits, divide, shuffle
from jumok.inside.inspector import go_on
from jumok.inside.subject import Subject, translate

PAIRS = 500  # of the validation set, from its beginning
SAME = "no difference"


@dataclass(frozen=True)
class Cost:
    """BLEU before and after edits; differences are after less before."""

    pairs: int
    before: float
    after: float
    before_interval: tuple[float, float]
    after_interval: tuple[float, float]
    interval: tuple[float, float]  # of the difference, paired bootstrap
    changed: int  # translations that are not the same
    signature: str
    seconds: float

    @property
    def difference(self) -> float:
        return self.after - self.before

    @property
    def verdict(self) -> str:
        """lower, higher, or no difference where the interval contains 0."""
        low, high = self.interval
        return "lower" if high < 0.0 else "higher" if low > 0.0 else SAME

    def to_json(self) -> dict[str, Any]:
        """The cost as plain values."""
        sides = {
            "before": {"bleu": self.before, "interval": self.before_interval},
            "after": {"bleu": self.after, "interval": self.after_interval},
        }
        return {
            "pairs": self.pairs, **sides, "difference": self.difference, "interval": self.interval,
            "verdict": self.verdict, "changed": self.changed, "signature": self.signature,
            "seconds": round(self.seconds, 3),
        }  # fmt: skip


def score(subject: Subject, pairs: Sequence[Pair], edits: Edits, check: Callable[[], None] = go_on) -> Cost:
    """Translate pairs with and without edits; compare both with the references.

    `check` is called now and then and may raise an exception to stop the work.
    """
    if edits.rows:
        raise UsageError("inside.rows_are_of_one_sentence")
    began = time.monotonic()
    vocabulary, references = subject.vocabularies, [pair.target for pair in pairs]
    sources = vocabulary.source.encode_all([pair.source for pair in pairs])
    edited = sources
    if edits.shuffle is not None:
        begins = vocabulary.source.begins()
        edited = [shuffle(divide(ids, begins), edits.shuffle + row) for row, ids in enumerate(sources)]
    before, after = (
        vocabulary.target.decode_all([hypothesis.body for hypothesis in translate(subject, ids, some, check)])
        for ids, some in ((sources, NOTHING), (edited, edits))
    )
    resampled = resample([after, before], references)
    (ours, theirs), (first, second) = resampled.samples, resampled.scores
    return Cost(
        pairs=len(pairs), before=second.value, after=first.value, before_interval=find_interval(theirs),
        after_interval=find_interval(ours), interval=find_interval(ours - theirs),
        changed=sum(one != other for one, other in zip(before, after, strict=True)), signature=first.signature,
        seconds=time.monotonic() - began,
    )  # fmt: skip
