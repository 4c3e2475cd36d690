"""Counts of n-grams with numpy: what BLEU and chrF are computed from, faster than sacreBLEU counts and equal to it.

Shapes   N symbols of all sentences
Not here the scores themselves (metrics.py); numpy is imported inside functions
"""

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

BLEU_ORDER = 4


def count_for_bleu(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> list[float]:
    """sacreBLEU's statistics of BLEU: lengths of both sides, then matching and all n-grams by order."""
    import numpy as np

    known: dict[str, int] = {}
    both = chain(hypotheses, references)
    numbers = np.array([known.setdefault(token, len(known)) for text in both for token in text], np.int64)
    ours, theirs = (np.array([len(text) for text in side]) for side in (hypotheses, references))
    totals = [int(np.maximum(ours - n, 0).sum()) for n in range(BLEU_ORDER)]
    return [int(ours.sum()), int(theirs.sum()), *_count_matches(numbers, ours, theirs, order=BLEU_ORDER), *totals]


def count_for_chrf(hypotheses: Sequence[str], references: Sequence[str], *, order: int) -> list[float]:
    """For each order: n-grams of the hypotheses, of the references, and those that match."""
    import numpy as np

    characters = "".join([*hypotheses, *references]).encode("utf-32-le", "surrogatepass")
    ours, theirs = (np.array([len(text) for text in side]) for side in (hypotheses, references))
    matches = _count_matches(np.frombuffer(characters, "<u4").astype(np.int64), ours, theirs, order=order)
    counts: list[float] = []
    for n, match in enumerate(matches):
        long_enough = theirs > n  # sacreBLEU ignores a hypothesis whose reference has no such n-gram
        counts += [int(np.maximum(ours - n, 0)[long_enough].sum()), int(np.maximum(theirs - n, 0).sum()), match]
    return counts


def _count_matches(symbols: "np.ndarray", ours: "np.ndarray", theirs: "np.ndarray", *, order: int) -> list[int]:
    """How many n-grams of each order the hypotheses share with their references, with multiplicity.

    `symbols` (N,) are all hypotheses and then all references, with these lengths, as numbers from 0.  An n-gram is
    identified by the number of its first n - 1 symbols and its last symbol; these are sorted, and only n-grams that
    both sides have are extended to the next order.
    """
    import numpy as np

    lengths, base = np.concatenate([ours, theirs]), int(symbols.max(initial=0)) + 1
    position = np.arange(len(symbols))
    ends = np.repeat(np.cumsum(lengths), lengths)
    mine = position < ours.sum()
    gram = np.repeat(np.tile(np.arange(len(ours)), 2), lengths)  # the empty n-gram of each pair
    matches = []
    for n in range(order):
        fits = position + n < ends[position]
        position, gram = position[fits], gram[fits]
        distinct, gram = np.unique(gram * base + symbols[position + n], return_inverse=True)
        sides = (np.bincount(gram[side], minlength=len(distinct)) for side in (mine[position], ~mine[position]))
        shared = np.minimum(*sides)
        matches.append(int(shared.sum()))
        both = shared[gram] > 0
        position, gram = position[both], gram[both]
    return matches


def chrf_matrix(texts: Sequence[str], *, order: int = 6, beta: float = 2.0) -> "np.ndarray":
    """Sentence chrF (n, n) of every text against every other: row i as the hypothesis, column j as the reference.

    The same numbers as sacreBLEU's sentence chrF, computed at once for a few dozen similar sentences.
    """
    import numpy as np

    bare = ["".join(text.split()) for text in texts]
    precision, recall, orders = (np.zeros((len(bare), len(bare))) for _ in range(3))
    for size in range(1, order + 1):
        numbers: dict[str, int] = {}
        grams = [[numbers.setdefault(t[i : i + size], len(numbers)) for i in range(len(t) - size + 1)] for t in bare]
        counts = np.zeros((len(bare), max(1, len(numbers))), dtype=np.uint16)
        for row, numbered in zip(counts, grams, strict=True):
            row[:] = np.bincount(numbered, minlength=counts.shape[1])
        totals = counts.sum(axis=1).astype(float)
        match = np.stack([np.minimum(row, counts).sum(axis=1) for row in counts])
        both = (totals[:, None] > 0) & (totals[None] > 0)
        orders += both
        precision += np.where(both, match / np.maximum(totals[:, None], 1.0), 0.0)
        recall += np.where(both, match / np.maximum(totals[None], 1.0), 0.0)
    precision, recall = precision / np.maximum(orders, 1.0), recall / np.maximum(orders, 1.0)
    below = beta**2 * precision + recall
    return np.where(below > 0, 100.0 * (1.0 + beta**2) * precision * recall / np.where(below > 0, below, 1.0), 0.0)
