"""Before and after: one sentence translated greedily by a model as it is, and by the same model with edits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from jumok.decoding.hypothesis import Hypothesis
from jumok.inside.arrays import log_softmax, round_number
from jumok.inside.edits import NOTHING, Edits
from jumok.inside.subject import Subject, Translation, read_source, translate
from jumok.inside.tokens import find_words, list_words
from jumok.inside.views import read_sentence
from jumok.text.symbols import END


def compare(subject: Subject, text: str, edits: Edits, translation: Translation | None = None) -> dict[str, Any]:
    """Return the translations with and without edits, and how probable the first is by both models."""
    before = translate(subject, [read_source(subject, text)])[0]
    source = read_source(subject, text, edits)
    after = translate(subject, [source], edits)[0]
    sides = [_describe(subject, hypothesis) for hypothesis in (before, after)]
    names = [[word["text"] for word in side["words"]] for side in sides]
    forced = before.body if translation is None else translation
    return {
        "before": sides[0],
        "after": sides[1],
        "changed": find_changes(names[0], names[1]),
        "source": subject.vocabularies.source.decode(source) if edits.shuffle is not None else None,
        "forced": _force(subject, text, forced, edits),
    }


def find_changes(before: Sequence[str], after: Sequence[str]) -> list[int]:
    """The places of words in `after` that are not in `before`, in its order."""
    matching = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    same = {place for _, start, size in matching for place in range(start, start + size)}
    return [place for place in range(len(after)) if place not in same]


def _describe(subject: Subject, hypothesis: Hypothesis) -> dict[str, Any]:
    """A translation with the probability of each word."""
    vocabulary, body = subject.vocabularies.target, list(hypothesis.body)
    scores = hypothesis.token_scores[: len(body)]
    return {
        "text": vocabulary.decode(body),
        "score": round_number(hypothesis.score),
        "log_probability": round_number(hypothesis.log_probability),
        "words": _list_probabilities(vocabulary, body, scores),
        "ended": hypothesis.ended,
    }


def _list_probabilities(vocabulary: Any, ids: list[int], scores: Any) -> list[dict[str, Any]]:
    """The words of ids with the product of the probabilities of their tokens."""
    texts, members = list_words(vocabulary, ids), find_words(vocabulary.pieces(ids), ids)
    totals = [0.0] * len(texts)
    for word, score in zip(members, scores, strict=True):
        if word >= 0:
            totals[word] += score
    return [
        {"text": text, "probability": round_number(math.exp(min(0.0, total)))}
        for text, total in zip(texts, totals, strict=True)
    ]


def _force(subject: Subject, text: str, translation: Translation, edits: Edits) -> list[dict[str, Any]]:
    """The probability of each word of a given translation, by the model and by the edited model."""
    lists = []
    for some in (NOTHING, edits):
        sentence = read_sentence(subject, text, translation, some, only=())
        assert sentence.trace.logits is not None
        ids = [*sentence.target, END]
        chances = log_softmax(sentence.trace.logits)[np.arange(len(ids)), ids]
        lists.append(_list_probabilities(subject.vocabularies.target, sentence.target, chances.tolist()[:-1]))
    return [
        {"text": one["text"], "before": one["probability"], "after": other["probability"]}
        for one, other in zip(*lists, strict=True)
    ]
