"""Attention of a trained model over sentences with gold alignments, by pieces and by words.

Shapes   L layers · H heads · R rows (queries) · C columns (keys), pieces or words
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Protocol

import numpy as np

from jumok.data.made import phrasebook
from jumok.data.made.grammar.draft import Draft
from jumok.evaluation.alignment import Attends
from jumok.reports.attention import AttentionView
from jumok.text.boundaries import SPACE, words_of
from jumok.translator import Translator


class Aligned(Protocol):
    """A sentence, its translation, and which words of the two belong together."""

    @property
    def english(self) -> str: ...
    @property
    def korean(self) -> str: ...
    @property
    def alignment(self) -> tuple[tuple[int, int], ...]: ...


def drafts(name: str) -> Iterator[Draft]:
    """An endless stream of test sentences of the phrasebook, with their grammar; `name` is the seed."""
    random = Random(name)
    while True:
        draft = phrasebook.draft_sentence(random)
        if phrasebook.fits_length(draft.spell()[0]) and phrasebook.split_of(draft) == "test":
            yield draft


def constituents(draft: Draft) -> list[int]:
    """The constituent of each English word: VERB, SUBJECT, … of grammar/draft.py."""
    return [(mask.bit_length() - 1) // 4 * 4 for text, mask in draft.english_pieces() for _ in text.split()]


def is_mark(piece: str) -> bool:
    """Whether a piece is punctuation."""
    return bool(piece.strip(SPACE)) and not any(map(str.isalnum, piece)) and piece not in ("<s>", "</s>")


def views(model: Attends, phrases: Sequence[Aligned]) -> list[AttentionView]:
    """All attention maps of every sentence with its reference; on one thread, which is fastest for single sentences."""
    import torch

    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        return [model.attention(phrase.english, phrase.korean) for phrase in phrases]
    finally:
        torch.set_num_threads(threads)


def untrain(model: Translator, seed: int) -> Translator:
    """Replace the weights of a model by new ones, to see what heads do by chance; returns the same translator."""
    import torch

    from jumok.engines.torch_engine import TorchEngine
    from jumok.models import build

    torch.manual_seed(seed)
    both = model.vocabularies
    new = build(model.recipe.model, len(both.source), len(both.target)).eval()
    model.engine = TorchEngine(new, surfaces=model.engine.surfaces)
    return model


def by_words(weights: np.ndarray, rows: Sequence[int], columns: Sequence[int]) -> np.ndarray:
    """Maps (…, R, C) over pieces as maps over words: the mean over queries, the sum over keys.

    `rows` and `columns` give the word of each piece; pieces with -1 belong to none and are left out.
    """
    maps: np.ndarray = _member(rows, mean=True) @ weights @ _member(columns, mean=False).T
    return maps


def _member(words: Sequence[int], *, mean: bool) -> np.ndarray:
    """(words, pieces): which piece belongs to which word."""
    given = np.asarray(words, dtype=int)
    member: np.ndarray = (np.arange(max(given.max(initial=-1) + 1, 1))[:, None] == given).astype(np.float64)
    if mean:
        member = member / np.maximum(1.0, member.sum(axis=1, keepdims=True))
    return member


def encoder_by_words(view: AttentionView) -> np.ndarray:
    """Encoder attention between the words of the source (L, H, words, words), without END and punctuation.

    A comma is not counted with the name before it: attending to commas tells that a person is addressed, not who.
    """
    words = [-1 if is_mark(piece) else word for piece, word in zip(view.source, words_of(view.source), strict=True)]
    return by_words(view.encoder, words, words)


def gold(phrase: Aligned, rows: int, columns: int) -> np.ndarray:
    """(words of the translation, words of the source): 1 where the two belong together."""
    links = np.zeros((rows, columns))
    for source, target in phrase.alignment:
        if target < rows and source < columns:
            links[target, source] = 1.0
    return links


def all_heads(shape: Sequence[int]) -> list[tuple[int, int]]:
    """Layer and head of every map, first layer first."""
    return [(layer, head) for layer in range(shape[0]) for head in range(shape[1])]


def to_lists(values: Any, digits: int = 4) -> Any:
    """An array as plain lists of short numbers."""
    return np.round(np.asarray(values, dtype=np.float64), digits).tolist()
