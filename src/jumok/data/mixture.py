"""Which pairs come when: windows made of blocks from every part of every corpus, in given shares.

A corpus is cut into blocks of consecutive rows.  Every epoch takes as many blocks of each corpus as its share says,
from an endless sequence of passes over it, each in an order of its own: a corpus with a large share is seen several
times in an epoch, one with a small share once in several epochs, and no pair is seen twice before all have been seen
once.  The blocks of an epoch are dealt out evenly, so each window is a fair mixture, and so is every stretch of batches
in a window.
"""

from collections.abc import Sequence

import numpy as np

from jumok.keys import generator

BLOCK = 4_096  # rows that stay together
CLASSES = 8  # of length, and of composition, that batches are told apart by when they are spread

Span = tuple[int, int]  # first row, and the row after the last


class Mixture:
    """The windows of a store of one corpus or several."""

    def __init__(
        self,
        corpora: Sequence[tuple[int, int, float | None]],
        *,
        seed: int,
        window: int,
        temperature: float | None = None,
    ) -> None:
        """`corpora` are first rows, numbers of rows and shares.  Without shares each corpus is seen in proportion to
        its size to the power 1 / `temperature`."""
        self.corpora, self.seed = [(first, rows) for first, rows, _ in corpora], seed
        self.blocks_of = [-(-rows // BLOCK) for _, rows in self.corpora]
        self.taken = _taken(corpora, self.blocks_of, temperature)
        self.windows = max(1, -(-sum(self.taken) // max(1, window // BLOCK)))
        self.ends = np.array([first + rows for first, rows in self.corpora])

    def blocks(self, epoch: int, window: int) -> list[Span]:
        """The stretches of rows that make up a window, in the order of the store."""
        found: list[Span] = []
        for number, taken in enumerate(self.taken):
            start, stop = window * taken // self.windows, (window + 1) * taken // self.windows
            found += self._stretch(number, epoch * taken + start, epoch * taken + stop)
        return sorted(found)

    def _stretch(self, number: int, start: int, stop: int) -> list[Span]:
        """Blocks start … stop - 1 of the endless row of passes over a corpus."""
        first, rows = self.corpora[number]
        count = self.blocks_of[number]
        found: list[Span] = []
        while start < stop:
            walk, at = divmod(start, count)
            order = generator(self.seed, "blocks", number, walk).permutation(count)
            chosen = order[at : at + stop - start]
            found += [(first + b * BLOCK, first + min(rows, (b + 1) * BLOCK)) for b in chosen.tolist()]
            start += len(chosen)
        return found

    def spread(self, batches: Sequence[np.ndarray], rng: np.random.Generator) -> np.ndarray:
        """An order of batches, sorted by length, in which every stretch has its share of each kind.

        Batches of like length and like composition are a kind; each kind is dealt out evenly, jittered by chance.
        """
        belongs = [
            np.bincount(np.searchsorted(self.ends, rows, side="right"), minlength=len(self.ends)) for rows in batches
        ]
        shares = np.array(belongs) / np.array([len(rows) for rows in batches])[:, None]
        length = np.arange(len(batches)) * CLASSES // max(1, len(batches))
        kinds = np.concatenate([length[:, None], np.rint(shares * CLASSES).astype(np.int64)], axis=1)
        _, kind, counts = np.unique(kinds, axis=0, return_inverse=True, return_counts=True)
        kind = kind.reshape(-1)
        order = np.lexsort((rng.random(len(kind)), kind))
        rank = np.arange(len(kind)) - np.repeat(np.cumsum(counts) - counts, counts)
        place = np.empty(len(kind))
        place[order] = (rank + rng.random(len(kind))) / counts[kind[order]]
        return np.argsort(place, kind="stable")


def _taken(
    corpora: Sequence[tuple[int, int, float | None]], blocks: Sequence[int], temperature: float | None
) -> list[int]:
    """How many blocks of each corpus an epoch takes; as many in all as there are."""
    given = [share for _, _, share in corpora]
    if len(corpora) == 1 or (temperature is None and all(share is None for share in given)):
        return list(blocks)
    rows = np.array([rows for _, rows, _ in corpora], float)
    if all(share is not None for share in given):
        wanted = np.array(given, float)
    else:
        wanted = rows ** (1.0 / (temperature or 1.0))
    wanted /= wanted.sum()
    total = sum(blocks)
    return [max(1, round(share * total)) for share in wanted.tolist()]
