"""Word alignment of a sentence and its translation, from the attention of one head and a lexicon; no torch.

    a(t, s)             attention of target piece t to source piece s, from a forced pass
    P(t | s), P(s | t)  how likely one subword is a translation of the other (data/lexicon.py)

Two hidden Markov models (data/markov.py) read the sentences.  One observes the target pieces, which come from source
pieces by a(t, s) · P(t | s); the other the source pieces, which come from target pieces by a(t, s) · P(s | t).  Each
target word chooses the source word of the largest posterior in the first, each source word the target word of the
largest in the second.  Links that both choose are kept; then every word that still has none gets its choice, the most
certain first.  A word that is apart from the rest of its source word's translation goes to a neighbour if that one
translates the word next to it in the source: in 모자 세 개 the counter 개 depends on "hats", but belongs to "three".
A word that translates a preposition, and whose other forms translate the noun, belongs to both, and so does the rest of
the noun's translation: 하윤 씨에게 is "to" as well as "Hayun", as 하윤 씨는 is "Hayun".

A model of an earlier version has no jumps, and a very long pair would take too long: there, a(t, s) · P(t | s) is
normalised over the source and a(t, s) · P(s | t) over the target, and these decide.

Observed pieces without a letter or digit do not count in a word that has others: the full stops of both sentences
attend to each other, and would link their last words.

`score_heads` says which head fits a lexicon best: that head aligns, chosen without gold alignments when a run ends.

Shapes   T target pieces · S source pieces · W words of one side · L layers · H heads
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jumok.data.lexicon import Lexicon
from jumok.data.markov import Jumps, find_posteriors, is_small
from jumok.text.boundaries import is_unspaced, units_of

if TYPE_CHECKING:
    from jumok.evaluation.alignment import Links

UNSURE, OVERLOOKED = 1e-2, 5e-3  # added to every attention weight, without jumps and with: a head may overlook a word
RELATED = 0.05  # least probability of other forms of a word, by which it belongs to a source word
UNLISTED, RARE = 1e-4, 1e-7  # added to every probability: a lexicon does not list rare translations


class Evidence(NamedTuple):
    """What a lexicon knows of two sentences."""

    forward: np.ndarray  # (T, S) P(target | source)
    backward: np.ndarray  # (T, S) P(source | target)
    reading: Reading | None = None
    forms: np.ndarray | None = None  # (T, S) P(another form of the target's word | source); see text/endings.py


class Reading(NamedTuple):
    """The subwords of two sentences, and how the states of each side's jump."""

    source: Sequence[int]
    target: Sequence[int]
    jumps: tuple[Jumps, Jumps]  # where targets are observed, and where sources are


def link(
    weights: np.ndarray,
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    evidence: Evidence | None = None,
) -> Links:
    """Return links (source word, target word), counted from 0; every word that has letters has one.

    Words are the units of text/boundaries.py: words between spaces, characters in a text without spaces.

    `weights` (T, S) is attention over subword pieces, which may include </s>.  Without evidence attention alone
    decides.
    """
    if weights.shape != (len(target_pieces), len(source_pieces)):
        raise ValueError(f"weights are {weights.shape}, pieces are ({len(target_pieces)}, {len(source_pieces)})")
    sources, source_sums, _ = _gather(source_pieces)
    targets, target_sums, all_targets = _gather(target_pieces)
    if not sources or not targets:
        return set()
    attention = np.asarray(weights, dtype=np.float64)  # (T, S)
    if evidence is not None and evidence.reading is not None:
        to_source, to_target = _read(attention, evidence, evidence.reading)
        from_targets = all_targets
    else:
        used = np.outer(target_sums.sum(axis=1), source_sums.sum(axis=1)) > 0  # (T, S)
        to_source, to_target = _normalise(attention, evidence, used)
        from_targets = target_sums
    forward = (target_sums / target_sums.sum(axis=0)).T @ to_source @ source_sums  # (targets, sources)
    backward = from_targets.T @ to_target @ (source_sums / source_sums.sum(axis=0))  # (targets, sources)
    links = _merge(forward, backward)
    if evidence is not None and evidence.reading is not None:
        links = _join(links, forward, backward)
    if evidence is not None and evidence.forms is not None:
        first = evidence.forms[all_targets.argmax(axis=0)]  # (targets, S), of the first piece of each word
        related = np.stack([(first * column).max(axis=1) for column in source_sums.T], axis=1)  # (targets, sources)
        links = _share(links, forward, backward, related)
    return {pair for s, t in links for pair in product(sources[s], targets[t])}


def _read(attention: np.ndarray, evidence: Evidence, reading: Reading) -> tuple[np.ndarray, np.ndarray]:
    """Return the posteriors (T, S) of source pieces given a target piece, and of target pieces given a source piece."""
    attended = attention + OVERLOOKED  # (T, S)
    to_source = find_posteriors(attended * (evidence.forward + RARE), reading.target, reading.jumps[0])
    to_target = find_posteriors((attended * (evidence.backward + RARE)).T, reading.source, reading.jumps[1])
    return to_source, to_target.T


def _normalise(attention: np.ndarray, evidence: Evidence | None, used: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the same (T, S) by the product of attention and lexicon alone."""
    chances = (1.0, 1.0) if evidence is None else (evidence.forward + UNLISTED, evidence.backward + UNLISTED)
    to_source, to_target = (np.where(used, (attention + UNSURE) * each, 0.0) for each in chances)
    to_source = to_source / np.maximum(to_source.sum(axis=1, keepdims=True), 1e-300)
    to_target = to_target / np.maximum(to_target.sum(axis=0, keepdims=True), 1e-300)
    return to_source, to_target


class Gathered(NamedTuple):
    """The words of one side, W in number, and the pieces of each as 0 or 1 (pieces, W)."""

    units: list[range]  # what each word is in a link: itself, or the characters of a subword in a text without spaces
    counting: np.ndarray  # pieces that count for a word: those with letters or digits, where it has any
    belonging: np.ndarray  # all pieces of a word


def _gather(pieces: Sequence[str]) -> Gathered:
    """Return the words of pieces; in a text without spaces each subword is one, with the punctuation after it."""
    spoken = np.array([any(map(str.isalnum, piece)) for piece in pieces], dtype=bool)
    units, words = list[range](), np.full(len(pieces), -1)
    ranges = units_of(pieces)
    by_piece = any(stop - start > 1 for start, stop in ranges) or is_unspaced("".join(pieces))
    for piece, (start, stop) in enumerate(ranges):
        if start == stop:
            continue
        if not units or (start >= units[-1].stop and (not by_piece or spoken[piece])):
            units.append(range(start, stop))
        elif not by_piece or spoken[piece]:
            units[-1] = range(units[-1].start, max(units[-1].stop, stop))
        words[piece] = len(units) - 1
    belonging = words[:, None] == np.arange(len(units))  # (pieces, W)
    has_letters = (belonging & spoken[:, None]).any(axis=0)  # (W,)
    counting = np.where(has_letters[None, :], belonging & spoken[:, None], belonging)
    return Gathered(units, counting.astype(np.float64), belonging.astype(np.float64))


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


def _join(links: set[tuple[int, int]], forward: np.ndarray, backward: np.ndarray) -> set[tuple[int, int]]:
    """Return links in which fewer source words have a translation in several pieces.

    The piece that both directions choose, or else the likeliest, stays.  A word of another one that has no other link
    goes to a source word of its neighbours, of those next to its own the likeliest, of equal ones the left neighbour's.
    """
    joined, likely = set(links), forward + backward  # (targets, sources)
    of: dict[int, set[int]] = {}
    for s, t in links:
        of.setdefault(t, set()).add(s)
    mutual = (forward == forward.max(axis=1, keepdims=True)) & (backward == backward.max(axis=0, keepdims=True))
    for source in sorted({s for s, _ in links}):
        pieces = _find_pieces([t for s, t in joined if s == source])
        main = max(pieces, key=lambda piece: (bool(mutual[piece, source].any()), float(likely[piece, source].sum())))
        for target in (t for piece in pieces if piece is not main for t in piece if of[t] == {source}):
            near = [(s, n < target) for n in (target - 1, target + 1) for s in of.get(n, ()) if abs(s - source) == 1]
            if near:
                nearest, _ = max(near, key=lambda one: (float(likely[target, one[0]]), one[1], one[0]))
                joined = joined - {(source, target)} | {(nearest, target)}
                of[target] = {nearest}
    return joined


def _share(
    links: set[tuple[int, int]], forward: np.ndarray, backward: np.ndarray, related: np.ndarray
) -> set[tuple[int, int]]:
    """Return links with those of words whose other forms translate the source word of the word before.

    A source word beside that one, which has no other translation, then has both words.
    """
    of, to = dict[int, set[int]](), dict[int, set[int]]()
    for s, t in links:
        of.setdefault(t, set()).add(s)
        to.setdefault(s, set()).add(t)
    shared = set(links)
    for target in range(1, len(related)):
        source = int(related[target].argmax())
        mutual = forward[target - 1].argmax() == source and backward[:, source].argmax() == target - 1
        if related[target, source] < RELATED or not mutual or source in of[target]:
            continue
        shared.add((source, target))
        shared |= {(s, target - 1) for s in of[target] if abs(s - source) == 1 and to[s] == {target}}
    return shared


def _find_pieces(words: Sequence[int]) -> list[list[int]]:
    """Return words as runs of neighbours, in ascending order."""
    pieces: list[list[int]] = []
    for word in sorted(words):
        if pieces and pieces[-1][-1] == word - 1:
            pieces[-1].append(word)
        else:
            pieces.append([word])
    return pieces


def find_evidence(
    lexicon: Lexicon | None,
    source: Sequence[int],
    target: Sequence[int],
    forms: Mapping[int, Sequence[int]] | None = None,
) -> Evidence | None:
    """Return what a lexicon knows of two sentences' subwords; None without probabilities.

    `forms` are those of the target's vocabulary.
    """
    if lexicon is None or lexicon.tables is None:
        return None
    forward, backward = lexicon.tables
    chances = forward.find(source, target), backward.find(target, source).T
    sizes = len(source), len(target)
    if lexicon.jumps is None or not all(sizes) or not (is_small(*sizes) and is_small(*sizes[::-1])):
        return Evidence(*chances)
    others = [forms.get(int(one), ()) if forms else () for one in target]
    related = None
    if any(others):
        related = np.stack(
            [forward.find(source, some).sum(axis=0) if some else np.zeros(len(source)) for some in others]
        )
    return Evidence(*chances, Reading(source, target, lexicon.jumps), related)


def score_heads(cross: np.ndarray, evidence: Evidence) -> np.ndarray:
    """Return how well each head (L, H) agrees with a lexicon on one sentence, as a sum over its target pieces.

    `cross` (L, H, T, S) is cross-attention without the rows and columns of </s>.  A head gets, for each target piece,
    the attention that it pays to the source pieces which the lexicon links it to, by √(P(t | s) · P(s | t)).
    """
    together = np.sqrt((evidence.forward + UNLISTED) * (evidence.backward + UNLISTED))  # (T, S)
    together = together / together.sum(axis=1, keepdims=True)  # (T, S)
    scores: np.ndarray = (cross * together).sum(axis=(2, 3))  # (L, H)
    return scores
