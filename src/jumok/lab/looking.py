"""Attention of a trained model over sentences whose words' translations are known: piece by piece and word by word.

Shapes   L layers · H heads · R rows (who looks) · C columns (what is looked at), pieces or words
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
    """Sentences of the phrasebook with their grammar, without end, that no model has read; `name` seeds them."""
    random = Random(name)
    while True:
        draft = phrasebook.draft_sentence(random)
        english, korean = draft.spell()
        unseen = not phrasebook.held_out().isdisjoint(draft.combinations)
        long = phrasebook.SHORTEST <= len(english.split()) <= phrasebook.LONGEST
        if long and phrasebook.split_of(korean, unseen) == "test":
            yield draft


def constituents(draft: Draft) -> list[int]:
    """The constituent of each English word: VERB, SUBJECT, … of grammar/draft.py."""
    return [(mask.bit_length() - 1) // 4 * 4 for text, mask in draft.english_pieces() for _ in text.split()]


def is_mark(piece: str) -> bool:
    """Whether a piece is a comma, a stop or the like."""
    return bool(piece.strip(SPACE)) and not any(map(str.isalnum, piece)) and piece not in ("<s>", "</s>")


def views(model: Attends, phrases: Sequence[Aligned]) -> list[AttentionView]:
    """All maps of every sentence, with its right translation; on one thread, for a sentence is too small for more."""
    import torch

    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        return [model.attention(phrase.english, phrase.korean) for phrase in phrases]
    finally:
        torch.set_num_threads(threads)


def blank(model: Translator, seed: int) -> Translator:
    """The same model before its first update, in its place: what heads do by accident."""
    import torch

    from jumok.engines.torch_engine import TorchEngine
    from jumok.models import build

    torch.manual_seed(seed)
    both = model.vocabularies
    new = build(model.recipe.model, len(both.source), len(both.target)).eval()
    model.engine = TorchEngine(new, surfaces=model.engine.surfaces)
    return model


def by_words(weights: np.ndarray, rows: Sequence[int], columns: Sequence[int]) -> np.ndarray:
    """Maps (…, R, C) over pieces as maps over words: the mean of those that look, the sum of what is looked at.

    `rows` and `columns` say to which word each piece belongs, -1 for none, which are left out.
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
    """How the words of the source look at each other (L, H, words, words); the end and all marks are left out.

    A comma is no part of the name before it: a head that looks at commas knows that somebody is called, not who.
    """
    words = [-1 if is_mark(piece) else word for piece, word in zip(view.source, words_of(view.source), strict=True)]
    return by_words(view.encoder, words, words)


def gold(phrase: Aligned, rows: int, columns: int) -> np.ndarray:
    """(words of the translation, words of the source): 1 where the two belong together."""
    found = np.zeros((rows, columns))
    for source, target in phrase.alignment:
        if target < rows and source < columns:
            found[target, source] = 1.0
    return found


def places(shape: Sequence[int]) -> list[tuple[int, int]]:
    """Layer and head of every map, first layer first."""
    return [(layer, head) for layer in range(shape[0]) for head in range(shape[1])]


def rounded(values: Any, digits: int = 4) -> Any:
    """An array as plain lists of short numbers."""
    return np.round(np.asarray(values, dtype=np.float64), digits).tolist()
