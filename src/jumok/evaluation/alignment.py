"""Word alignment from attention, and its error rate against gold links.

Shapes   T target pieces · S source pieces
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from jumok.errors import DataError
from jumok.text.boundaries import words_of

if TYPE_CHECKING:
    from jumok.reports.attention import AttentionView

Links = set[tuple[int, int]]


def alignment_error_rate(
    links: Sequence[Links], sure: Sequence[Links], possible: Sequence[Links] | None = None
) -> float:
    """AER (Och & Ney 2003): 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|) over all sentences, 0 is best.

    Every sure link is also possible; without `possible` only sure links are.  0 if there is nothing to link.
    """
    possible = sure if possible is None else possible
    if not len(links) == len(sure) == len(possible):
        raise DataError("evaluation.unequal_alignments", alignments=len(links), sure=len(sure), possible=len(possible))
    hits = total = 0
    for linked, certain, allowed in zip(links, sure, possible, strict=True):
        hits += len(linked & certain) + len(linked & (allowed | certain))
        total += len(linked) + len(certain)
    return 1 - hits / total if total else 0.0


def word_links(weights: np.ndarray, source_words: Sequence[int], target_words: Sequence[int]) -> Links:
    """Links (source word, target word): each target word to the source word it attends to most.

    `weights` (T, S) is attention over subword pieces; `source_words[s]` is the word that piece s belongs to, -1 for
    none (such as </s>).  Weights are summed over the pieces of a source word and averaged over those of a target word.
    A target word that attends to no source word has no link; of equal weights the first word wins.
    """
    if weights.shape != (len(target_words), len(source_words)):
        raise ValueError(f"weights are {weights.shape}, words are ({len(target_words)}, {len(source_words)})")
    sources, targets = np.asarray(source_words, dtype=int), np.asarray(target_words, dtype=int)
    words = np.unique(sources[sources >= 0])
    links = set()
    for target in np.unique(targets[targets >= 0]):
        attention = weights[targets == target].mean(axis=0)  # (S,)
        summed = [attention[sources == source].sum() for source in words]
        if summed and max(summed) > 0:
            links.add((int(words[int(np.argmax(summed))]), int(target)))
    return links


class Attends(Protocol):
    """A model that gives its attention."""

    def attention(self, text: str, translation: str | None = None) -> "AttentionView": ...


def alignment_errors(model: Attends, phrases: Sequence[Any]) -> np.ndarray:
    """Alignment error rate (layers, heads) of cross-attention against gold word links, reference translations forced.

    `phrases` have `english`, `korean` and `alignment`, as those of the phrasebook do.
    """
    gold = [set(phrase.alignment) for phrase in phrases]
    links: dict[tuple[int, int], list[Links]] = {}
    for phrase in phrases:
        view = model.attention(phrase.english, phrase.korean)
        source, target = words_of(view.source), words_of(view.target)
        for layer, head in np.ndindex(*view.cross.shape[:2]):
            links.setdefault((layer, head), []).append(word_links(view.cross[layer, head], source, target))
    rates = np.zeros((max(l for l, _ in links) + 1, max(h for _, h in links) + 1))
    for position, linked in links.items():
        rates[position] = alignment_error_rate(linked, gold)
    return rates
