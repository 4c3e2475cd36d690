"""The parts of words that repeat: what a unigram vocabulary begins with.

A part is a stretch of at most 16 characters inside a word (▁ before its first).  It counts as often as the words that
have it.  A part that is always followed by the same character is left out in favour of the longer one, as a suffix tree
would leave it out.  Parts of growing length are told apart by hashes, and only those that repeat are made longer.

Shapes   C characters of all words · A places that are still alive · G groups of equal parts
"""

from collections.abc import Sequence

import numpy as np

from jumok.text.boundaries import SPACE

LONGEST = 16  # characters of a subword, SentencePiece's own limit
_FIRST, _BASE = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


def repeated_parts(words: Sequence[str], counts: Sequence[int], *, most: int) -> list[tuple[str, int]]:
    """Parts of two characters or more with their counts, those that cover most characters first."""
    text = "\0".join(f"{SPACE}{word}" for word in words) + "\0"
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)  # (C,)
    ends = np.flatnonzero(codes == 0)
    sizes = np.diff(np.concatenate([[-1], ends]))
    weights = np.repeat(np.asarray(counts, np.int64), sizes)
    left = np.repeat(ends, sizes) - np.arange(len(codes))  # characters from here to the end of the word
    single = codes.astype(np.uint64) * _FIRST
    alive = np.flatnonzero(left > 0)  # (A,)
    hashes = single[alive]
    found: list[tuple[int, np.ndarray, np.ndarray]] = []
    shorter: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None = None
    for length in range(1, LONGEST + 2):
        if length > 1:
            fits = left[alive] >= length
            alive = alive[fits]
            hashes = hashes[fits] * _BASE + single[alive + length - 1]
        group, first, frequency = _group(hashes, weights[alive])
        if shorter is not None:
            places, belongs, starts, before = shorter
            longest = np.zeros(len(before), np.int64)  # the most frequent way to go on
            if len(alive):
                np.maximum.at(longest, belongs[np.searchsorted(places, alive)], frequency[group])
            kept = (longest < before) & (before >= 2)
            if length > 2:
                found.append((length - 1, starts[kept], before[kept]))
        shorter = alive, group, alive[first], frequency
        repeats = frequency[group] >= 2
        if not repeats.any():
            break
        alive, hashes = alive[repeats], hashes[repeats]
    return _best(text, found, most)


def _group(hashes: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The group (A,) of each place, the first place of each group (G,) and its weight (G,)."""
    if not len(hashes):
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    is_first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    starts = np.flatnonzero(is_first)
    group = np.empty(len(hashes), np.int64)
    group[order] = np.cumsum(is_first) - 1
    return group, order[starts], np.add.reduceat(weights[order], starts)


def _best(text: str, found: list[tuple[int, np.ndarray, np.ndarray]], most: int) -> list[tuple[str, int]]:
    """Strings of the parts that cover most characters."""
    if not found:
        return []
    lengths = np.concatenate([np.full(len(starts), length) for length, starts, _ in found])
    starts = np.concatenate([starts for _, starts, _ in found])
    counts = np.concatenate([counts for _, _, counts in found])
    order = np.lexsort((starts, -lengths * counts))[:most]
    rows = zip(starts[order].tolist(), lengths[order].tolist(), counts[order].tolist(), strict=True)
    return [(text[start : start + length], count) for start, length, count in rows]
