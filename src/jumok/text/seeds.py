"""Seeds of a unigram vocabulary: the parts of words that repeat.

A part is a sequence of at most 16 characters of a word, with ▁ before its first character.  It is counted as often as
the words that contain it.  A part that is always followed by the same character is left out in favour of the longer
one, as in a suffix tree.  Parts of increasing length are distinguished by hashes, and only those that repeat are
extended.

Shapes   C characters of all words · A positions where a part still repeats · G groups of equal parts
"""

from collections.abc import Sequence

import numpy as np

from jumok.text.boundaries import SPACE

LONGEST = 16  # most characters of a subword, the limit of SentencePiece
_FIRST, _BASE = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


def repeated_parts(words: Sequence[str], counts: Sequence[int], *, most: int) -> list[tuple[str, int]]:
    """Parts of two or more characters with their counts, ordered by the characters they cover, at most `most`."""
    text = "\0".join(f"{SPACE}{word}" for word in words) + "\0"
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)  # (C,)
    ends = np.flatnonzero(codes == 0)
    sizes = np.diff(np.concatenate([[-1], ends]))
    weights = np.repeat(np.asarray(counts, np.int64), sizes)
    left = np.repeat(ends, sizes) - np.arange(len(codes))  # characters from here to the end of the word
    single = codes.astype(np.uint64) * _FIRST
    alive = np.flatnonzero(left > 0)  # (A,)
    hashes = single[alive]
    parts: list[tuple[int, np.ndarray, np.ndarray]] = []
    shorter: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None = None
    for length in range(1, LONGEST + 2):
        if length > 1:
            fits = left[alive] >= length
            alive = alive[fits]
            hashes = hashes[fits] * _BASE + single[alive + length - 1]
        group, first, frequency = _group(hashes, weights[alive])
        if shorter is not None:
            positions, groups, starts, before = shorter
            longest = np.zeros(len(before), np.int64)  # count of the most frequent continuation
            if len(alive):
                np.maximum.at(longest, groups[np.searchsorted(positions, alive)], frequency[group])
            selected = (longest < before) & (before >= 2)
            if length > 2:
                parts.append((length - 1, starts[selected], before[selected]))
        shorter = alive, group, alive[first], frequency
        repeats = frequency[group] >= 2
        if not repeats.any():
            break
        alive, hashes = alive[repeats], hashes[repeats]
    return _select(text, parts, most)


def _group(hashes: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The group (A,) of each position, the first position of each group (G,) and its weight (G,)."""
    if not len(hashes):
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    is_first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    starts = np.flatnonzero(is_first)
    group = np.empty(len(hashes), np.int64)
    group[order] = np.cumsum(is_first) - 1
    return group, order[starts], np.add.reduceat(weights[order], starts)


def _select(text: str, parts: list[tuple[int, np.ndarray, np.ndarray]], most: int) -> list[tuple[str, int]]:
    """The parts that cover most characters, as strings with their counts."""
    if not parts:
        return []
    lengths = np.concatenate([np.full(len(starts), length) for length, starts, _ in parts])
    starts = np.concatenate([starts for _, starts, _ in parts])
    counts = np.concatenate([counts for _, _, counts in parts])
    order = np.lexsort((starts, -lengths * counts))[:most]
    rows = zip(starts[order].tolist(), lengths[order].tolist(), counts[order].tolist(), strict=True)
    return [(text[start : start + length], count) for start, length, count in rows]
