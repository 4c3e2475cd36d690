"""Word alignment of a sentence and its translation, from the attention of one head and a lexicon; no torch.

    a(t, s)           attention of target piece t to source piece s, from a forced pass
    P(t | s), P(s | t)  how likely one subword is a translation of the other (data/lexicon.py)

Each target word chooses the source word of the largest a(t, s) · P(t | s), normalised over the source; each source
word chooses the target word of the largest a(t, s) · P(s | t), normalised over the target.  Links that both choose are
kept; then every word that still has none gets its choice, the most certain first.

Pieces without a letter or digit do not count in a word that has others: the full stops of both sentences attend to
each other, and would link their last words.

`score_heads` says which head fits a lexicon best: that head aligns, chosen without gold alignments when a run ends.

Shapes   T target pieces · S source pieces · W words of one side · L layers · H heads
"""

from collections.abc import Sequence

import numpy as np

from jumok.data.lexicon import Lexicon
from jumok.evaluation.alignment import Links
from jumok.text.boundaries import words_of

UNSURE = 1e-2  # added to every attention weight: a head may overlook a word
UNLISTED = 1e-4  # added to every probability: a lexicon does not list rare translations


def link(
    weights: np.ndarray,
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    chances: tuple[np.ndarray, np.ndarray] | None = None,
) -> Links:
    """Return links (source word, target word), words counted from 0 by spaces; every word that has letters has one.

    `weights` (T, S) is attention over subword pieces, which may include </s>.  `chances` are P(target | source) and
    P(source | target), both (T, S); without them attention alone decides.
    """
    if weights.shape != (len(target_pieces), len(source_pieces)):
        raise ValueError(f"weights are {weights.shape}, pieces are ({len(target_pieces)}, {len(source_pieces)})")
    sources, source_sums = _gather(source_pieces)
    targets, target_sums = _gather(target_pieces)
    if not len(sources) or not len(targets):
        return set()
    attention = np.asarray(weights, dtype=np.float64) + UNSURE  # (T, S)
    used = np.outer(target_sums.sum(axis=1), source_sums.sum(axis=1)) > 0  # (T, S)
    to_source, to_target = (attention * (1.0 if p is None else p + UNLISTED) for p in (chances or (None, None)))
    to_source, to_target = np.where(used, to_source, 0.0), np.where(used, to_target, 0.0)
    to_source = to_source / np.maximum(to_source.sum(axis=1, keepdims=True), 1e-300)
    to_target = to_target / np.maximum(to_target.sum(axis=0, keepdims=True), 1e-300)
    forward = (target_sums / target_sums.sum(axis=0)).T @ to_source @ source_sums  # (targets, sources)
    backward = target_sums.T @ to_target @ (source_sums / source_sums.sum(axis=0))  # (targets, sources)
    return {(int(sources[s]), int(targets[t])) for s, t in _merge(forward, backward)}


def _gather(pieces: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the words (W,) of pieces, and which pieces belong to which word as 0 or 1 (pieces, W)."""
    words = np.array(words_of(pieces), dtype=int)
    spoken = np.array([any(map(str.isalnum, piece)) for piece in pieces], dtype=bool)
    numbers = np.unique(words[words >= 0])
    belongs = words[:, None] == numbers[None, :]  # (pieces, W)
    has_letters = (belongs & spoken[:, None]).any(axis=0)  # (W,)
    sums = np.where(has_letters[None, :], belongs & spoken[:, None], belongs).astype(np.float64)
    return numbers, sums


def _merge(forward: np.ndarray, backward: np.ndarray) -> set[tuple[int, int]]:
    """Return the links that both directions choose, and the choice of each word that has none, most certain first."""
    chosen = {(int(s), t): float(forward[t, s]) for t, s in enumerate(forward.argmax(axis=1))}
    returned = {(s, int(t)): float(backward[t, s]) for s, t in enumerate(backward.argmax(axis=0))}
    links = chosen.keys() & returned.keys()
    sources, targets = {s for s, _ in links}, {t for _, t in links}
    certainty = {one: max(chosen.get(one, 0.0), returned.get(one, 0.0)) for one in chosen.keys() | returned.keys()}
    for source, target in sorted(certainty.keys() - links, key=lambda one: (-certainty[one], one)):
        if source not in sources or target not in targets:
            links.add((source, target))
            sources.add(source)
            targets.add(target)
    return links


def find_chances(
    lexicon: Lexicon | None, source: Sequence[int], target: Sequence[int]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return P(target | source) and P(source | target) of two sentences' subwords, (T, S) each; None if unknown."""
    if lexicon is None or lexicon.tables is None:
        return None
    forward, backward = lexicon.tables
    return forward.find(source, target), backward.find(target, source).T


def score_heads(cross: np.ndarray, chances: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return how well each head (L, H) agrees with a lexicon on one sentence, as a sum over its target pieces.

    `cross` (L, H, T, S) is cross-attention without the rows and columns of </s>.  A head gets, for each target piece,
    the attention that it pays to the source pieces which the lexicon links it to, by √(P(t | s) · P(s | t)).
    """
    together = np.sqrt((chances[0] + UNLISTED) * (chances[1] + UNLISTED))  # (T, S)
    together = together / together.sum(axis=1, keepdims=True)  # (T, S)
    scores: np.ndarray = (cross * together).sum(axis=(2, 3))  # (L, H)
    return scores
