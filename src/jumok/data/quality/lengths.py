"""Lengths of the pairs of a prepared folder in subwords, for `jumok data stats FOLDER`, in bounded memory."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from jumok.data.prepare.folder import PREPARED, load
from jumok.data.store import Store, StoredSide

TOGETHER = 1 << 20  # pairs counted at a time
EDGES = (1, 6, 11, 21, 31, 51, 76, 101, 151, 201, 301, 501, 1_001)  # least lengths of the bars
WIDTH = 24  # characters of the longest bar
SHARES = (0.05, 0.5, 0.95, 0.99)


def find_prepared(path: str | Path) -> Path | None:
    """The prepared folder at a path: itself, or that of a run; None if there is none."""
    folders = (Path(path), Path(path) / "data" / "prepared")
    return next((folder for folder in folders if (folder / PREPARED).is_file()), None)


@dataclass(frozen=True)
class LengthStats:
    """The number of pairs of each length, for both sides."""

    name: str
    pairs: int
    read: int  # pairs of the text
    left_out: dict[str, int]
    counts: tuple[np.ndarray, np.ndarray]  # by length

    def percentile(self, side: int, share: float) -> int:
        """The length that this share of the sentences does not exceed."""
        return int(np.searchsorted(np.cumsum(self.counts[side]), share * self.pairs))

    def bars(self) -> list[tuple[str, int, int]]:
        """Ranges of lengths, with the number of sources and targets in each; empty ranges at the end are left out."""
        most = max(map(len, self.counts))
        edges = [edge for edge in EDGES if edge < most] or [1]
        ranges = pairwise([*edges, most + 1])
        rows = [(first, last - 1, *(int(side[first:last].sum()) for side in self.counts)) for first, last in ranges]
        return [(f"{first}–{last}" if last > first else f"{first}", ours, theirs) for first, last, ours, theirs in rows]

    def to_json(self) -> dict[str, Any]:
        shares = {f"p{round(100 * share)}": share for share in SHARES}
        return {
            "name": self.name,
            "pairs": self.pairs,
            "read": self.read,
            "left_out": self.left_out,
            "subwords_per_sentence": {
                side: {name: self.percentile(number, share) for name, share in shares.items()}
                for number, side in enumerate(("source", "target"))
            },
            "histogram": [{"subwords": name, "source": ours, "target": theirs} for name, ours, theirs in self.bars()],
        }

    def lines(self) -> list[str]:
        """The counts as a table and a histogram."""
        rows = [f"{self.name}: {self.pairs:,} of {self.read:,} pairs train"]
        rows += [f"  {count:>12,} left out: {reason}" for reason, count in self.left_out.items()]
        rows.append(f"  {'subwords a sentence':<22}{'source':>14}{'target':>14}")
        for share in SHARES:
            source, target = (self.percentile(side, share) for side in range(2))
            rows.append(f"  {f'p{round(100 * share)}':<22}{source:>14,}{target:>14,}")
        bars = self.bars()
        most = max(max(ours, theirs) for _, ours, theirs in bars)
        for name, ours, theirs in bars:
            rows.append(f"  {name:<22}{ours:>14,}{theirs:>14,}  {'#' * round(WIDTH * theirs / max(1, most))}".rstrip())
        return rows


def measure(folder: Path) -> LengthStats:
    """The lengths of all pairs of a prepared folder."""
    made = load(folder)
    counts = tuple(_count(made.store, side) for side in (made.store.source, made.store.target))
    summary = made.summary
    return LengthStats(str(folder), len(made.store), summary["pairs"], summary["left_out"], (counts[0], counts[1]))


def _count(store: Store, side: StoredSide) -> np.ndarray:
    counts = np.zeros(1, np.int64)
    for start in range(0, len(store), TOGETHER):
        part = np.bincount(side.lengths(start, min(len(store), start + TOGETHER)))
        size = max(len(counts), len(part))
        counts = np.pad(counts, (0, size - len(counts))) + np.pad(part, (0, size - len(part)))
    return counts
