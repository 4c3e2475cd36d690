"""Decoding step by step: what went in, what came out, and the likeliest words.

A search knows subwords.  Here each of the likeliest next subwords is continued to the end of its word; equal words are
merged, and a word has the probability of all its subwords and of ending there.  In Korean these words are eojeol.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jumok.errors import UsageError
from jumok.inside.arrays import find_largest, round_number, softmax
from jumok.inside.edits import NOTHING, Edits
from jumok.inside.inspector import Steps, find_inspector
from jumok.inside.subject import Subject, read_source
from jumok.inside.tokens import describe_tokens
from jumok.text.symbols import END, NEVER, START
from jumok.text.vocabulary import Vocabulary

FAN = 4  # subwords that are continued, for each word that is asked for
LONGEST = 12  # subwords of a word; a longer one is shown unfinished
STEPS = 64  # that are shown at once


class Continuation(NamedTuple):
    """A word that may come next."""

    text: str
    probability: float
    pieces: list[str]


def list_steps(
    subject: Subject,
    text: str,
    target: Sequence[int],
    edits: Edits = NOTHING,
    *,
    at: int | None = None,
    count: int = 5,
) -> list[dict[str, Any]]:
    """Each step of a translation that is given as ids, or one of them: input, output, likeliest subwords and words."""
    if at is not None and not 0 <= at <= len(target):
        raise UsageError("inside.no_such_step", step=at, last=len(target))
    vocabulary = subject.vocabularies.target
    fed = describe_tokens(vocabulary, [START, *target])
    output = describe_tokens(vocabulary, [*target, END])
    steps = []
    source = [] if subject.recipe.data.text is not None else read_source(subject, text, edits)
    for number, probabilities, words in _walk(subject, source, target, edits, at=at, count=count):
        top = find_largest(probabilities, count)
        chances = zip(describe_tokens(vocabulary, top), probabilities[top].tolist(), strict=True)
        steps.append({
            "at": number,
            "in": fed[number],
            "out": output[number] | {"probability": round_number(float(probabilities[output[number]["id"]]))},
            "pieces": [piece | {"probability": round_number(chance)} for piece, chance in chances],
            "words": [word._asdict() for word in words],
        })  # fmt: skip
    return steps


def _walk(
    subject: Subject,
    source: Sequence[int],
    target: Sequence[int],
    edits: Edits,
    *,
    at: int | None,
    count: int,
) -> Iterator[tuple[int, np.ndarray, list[Continuation]]]:
    """Yield steps: their number, the probabilities of all subwords (V,) and the likeliest words."""
    vocabulary = subject.vocabularies.target
    begins = np.array([surface.startswith(" ") for surface in vocabulary.surfaces()])
    begins[END] = True
    last = min(len(target), STEPS - 1) if at is None else at
    inspector, room = find_inspector(subject), last + 1 + LONGEST
    with inspector.open_steps([*source, END], edits.inner, rows=FAN * count, room=room) as steps:
        for number, token in enumerate([START, *target][: last + 1]):
            [logits] = steps.step([token])
            if at is None or number == at:
                probabilities = softmax(logits)
                words = complete(steps, probabilities, vocabulary, begins, target[:number], count)
                yield number, probabilities, words


def complete(
    steps: Steps,
    probabilities: np.ndarray,
    vocabulary: Vocabulary,
    begins: np.ndarray,
    before: Sequence[int],
    count: int,
) -> list[Continuation]:
    """The likeliest words after the ids `before`, given the probabilities (V,) of the next subword; best first."""
    allowed = probabilities.copy()
    allowed[list(NEVER)] = 0.0
    paths = [[token] for token in find_largest(allowed, FAN * count) if allowed[token] > 0.0]
    chances = [float(allowed[token]) for [token] in paths]
    finish(steps, paths, chances, begins)
    begun = [place for place, token in enumerate(before) if begins[token]]
    current = list(before[begun[-1] if begun else 0 :])
    merged: dict[str, Continuation] = {}
    for path, chance in zip(paths, chances, strict=True):
        whole = path if begins[path[0]] else [*current, *path]
        text = "⟨end⟩" if path == [END] else vocabulary.decode(whole)
        if not text:  # a space alone, or bytes that are no character
            continue
        known = merged.get(text)
        if known is None:
            merged[text] = Continuation(text, chance, vocabulary.pieces(path))
        else:  # the same word in other subwords
            merged[text] = known._replace(probability=known.probability + chance)
    return sorted(merged.values(), key=lambda word: -word.probability)[:count]


def finish(steps: Steps, paths: list[list[int]], chances: list[float], begins: np.ndarray) -> None:
    """Continue every path to the end of its word, greedily, in place; multiply its chance by what that takes."""
    open_rows = [row for row, path in enumerate(paths) if path != [END]]
    if not open_rows:
        return
    branch = steps.select([0] * len(open_rows))
    for _ in range(LONGEST):
        logits = branch.step([paths[row][-1] for row in open_rows])
        logits[:, list(NEVER)] = -np.inf
        probabilities = softmax(logits)  # (N, V)
        ends = probabilities[:, begins].sum(axis=1).tolist()  # the next subword begins another word
        best, stay = probabilities.argmax(axis=1).tolist(), []
        for place, (row, token) in enumerate(zip(open_rows, best, strict=True)):
            if begins[token]:
                chances[row] *= ends[place]
            else:
                paths[row].append(token)
                chances[row] *= float(probabilities[place, token])
                stay.append(place)
        if not stay:
            return
        if len(stay) < len(open_rows):
            branch, open_rows = branch.select(stay), [open_rows[place] for place in stay]
