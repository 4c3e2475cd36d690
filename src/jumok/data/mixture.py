"""The order of pairs in training: windows of blocks from all parts of all corpora, in given shares.

A corpus is divided into blocks of consecutive rows.  Every epoch takes the number of blocks of each corpus that its
share gives, from an endless sequence of passes over the corpus, each in a new random order: a corpus with a large share
is seen several times per epoch, one with a small share once in several epochs, and no pair is seen twice before all
have been seen once.  The blocks of an epoch are distributed evenly, so that each window is a fair mixture, and any run
of consecutive batches in a window is one too.
"""

from collections.abc import Sequence

import numpy as np

from jumok.keys import generator

BLOCK = 4_096  # rows that stay together
CLASSES = 8  # classes of length, and of composition, by which batches are distributed

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
        by_rows: bool = True,
    ) -> None:
        """`corpora` are first rows, numbers of rows and shares.

        Without shares, each corpus is seen in proportion to its size to the power 1 / `temperature`.  Stores made
        before shares were counted `by_rows` count blocks, of which the last one of a corpus is shorter.
        """
        self.corpora, self.seed = [(first, rows) for first, rows, _ in corpora], seed
        self.blocks_of = [-(-rows // BLOCK) for _, rows in self.corpora]
        self.taken = _count_blocks(corpora, self.blocks_of, temperature, by_rows)
        self.windows = max(1, -(-sum(self.taken) // max(1, window // BLOCK)))
        self.ends = np.array([first + rows for first, rows in self.corpora])

    def blocks(self, epoch: int, window: int) -> list[Span]:
        """The spans of rows that make up a window, in the order of the store."""
        spans: list[Span] = []
        for number, taken in enumerate(self.taken):
            start, stop = window * taken // self.windows, (window + 1) * taken // self.windows
            spans += self._take(number, epoch * taken + start, epoch * taken + stop)
        return sorted(spans)

    def _take(self, number: int, start: int, stop: int) -> list[Span]:
        """Blocks start … stop - 1 of the endless sequence of passes over a corpus."""
        first, rows = self.corpora[number]
        count = self.blocks_of[number]
        spans: list[Span] = []
        while start < stop:
            turn, offset = divmod(start, count)
            order = generator(self.seed, "blocks", number, turn).permutation(count)
            chosen = order[offset : offset + stop - start]
            spans += [(first + b * BLOCK, first + min(rows, (b + 1) * BLOCK)) for b in chosen.tolist()]
            start += len(chosen)
        return spans

    def spread(self, batches: Sequence[np.ndarray], rng: np.random.Generator) -> np.ndarray:
        """An order for batches that are sorted by length, in which the kinds of batches are evenly distributed.

        Batches of similar length and composition are of one kind; random jitter keeps the order from being regular.
        """
        corpora = [
            np.bincount(np.searchsorted(self.ends, rows, side="right"), minlength=len(self.ends)) for rows in batches
        ]
        shares = np.array(corpora) / np.array([len(rows) for rows in batches])[:, None]
        length = np.arange(len(batches)) * CLASSES // max(1, len(batches))
        kinds = np.concatenate([length[:, None], np.rint(shares * CLASSES).astype(np.int64)], axis=1)
        _, kind, counts = np.unique(kinds, axis=0, return_inverse=True, return_counts=True)
        kind = kind.reshape(-1)
        order = np.lexsort((rng.random(len(kind)), kind))
        rank = np.arange(len(kind)) - np.repeat(np.cumsum(counts) - counts, counts)
        position = np.empty(len(kind))
        position[order] = (rank + rng.random(len(kind))) / counts[kind[order]]
        return np.argsort(position, kind="stable")


def _count_blocks(
    corpora: Sequence[tuple[int, int, float | None]], blocks: Sequence[int], temperature: float | None, by_rows: bool
) -> list[int]:
    """The number of blocks that an epoch takes of each corpus; in all, about as many rows as there are."""
    given = [share for _, _, share in corpora]
    if len(corpora) == 1 or (temperature is None and all(share is None for share in given)):
        return list(blocks)
    rows = np.array([rows for _, rows, _ in corpora], float)
    if all(share is not None for share in given):
        wanted = np.array(given, float)
    else:
        wanted = rows ** (1.0 / (temperature or 1.0))
    wanted /= wanted.sum()
    if not by_rows:
        return [max(1, round(share * sum(blocks))) for share in wanted.tolist()]
    per_block = rows / np.maximum(1, blocks)
    taken = wanted * rows.sum() / np.maximum(1.0, per_block)
    return [max(1, round(count)) for count in taken.tolist()]
