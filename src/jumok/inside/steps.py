"""Decoding step by step: what went in, what came out, and the likeliest words.

A search knows subwords.  Here each of the likeliest next subwords is continued to the end of its word; equal words are
merged, and a word has the probability of all its subwords and of ending there.  In Korean these words are eojeol.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from jumok.errors import UsageError
from jumok.inside.arrays import round_number
from jumok.inside.edits import NOTHING, Edits
from jumok.inside.passes import Edited
from jumok.inside.subject import Subject, find_model, limit_threads, read_source
from jumok.inside.tokens import describe_tokens
from jumok.models.base import END, START
from jumok.text.symbols import NEVER
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
    vocabulary, model = subject.vocabularies.target, find_model(subject)
    fed = describe_tokens(vocabulary, [START, *target])
    output = describe_tokens(vocabulary, [*target, END])
    steps = []
    with limit_threads(), torch.inference_mode():
        source = [] if subject.recipe.data.text is not None else read_source(subject, text, edits)
        for number, probabilities, words in _walk(subject, model, source, target, edits, at=at, count=count):
            top = probabilities.topk(min(count, len(probabilities)))
            pieces = describe_tokens(vocabulary, top.indices.tolist())
            chances = zip(pieces, top.values.tolist(), strict=True)
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
    model: Any,
    source: Sequence[int],
    target: Sequence[int],
    edits: Edits,
    *,
    at: int | None,
    count: int,
) -> Iterator[tuple[int, Tensor, list[Continuation]]]:
    """Yield steps: their number, the probabilities of all subwords (V,) and the likeliest words."""
    if not hasattr(model, "start"):
        raise UsageError("inside.says_nothing", kind=subject.recipe.model.kind)
    machine: Any = Edited(model, edits.inner) if edits.inner else model
    vocabulary = subject.vocabularies.target
    begins = torch.tensor([surface.startswith(" ") for surface in vocabulary.surfaces()])
    begins[END] = True
    state = machine.start(torch.tensor([[*source, END]]))
    last = min(len(target), STEPS - 1) if at is None else at
    for number, token in enumerate([START, *target][: last + 1]):
        logits, state = machine.step(torch.tensor([token]), state)
        if at is None or number == at:
            logits = logits[0].float()
            probabilities = logits.softmax(dim=-1)
            words = complete(machine, state, probabilities, vocabulary, begins, target[:number], count)
            yield number, probabilities, words


def complete(
    machine: Any,
    state: Any,
    probabilities: Tensor,
    vocabulary: Vocabulary,
    begins: Tensor,
    before: Sequence[int],
    count: int,
) -> list[Continuation]:
    """The likeliest words after the ids `before`, given the probabilities (V,) of the next subword; best first."""
    allowed = probabilities.clone()
    allowed[list(NEVER)] = 0.0
    top = allowed.topk(min(FAN * count, len(allowed)))
    paths = [[token] for token, chance in zip(top.indices.tolist(), top.values.tolist(), strict=True) if chance > 0.0]
    chances = top.values.tolist()[: len(paths)]
    finish(machine, state, paths, chances, begins)
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


def finish(machine: Any, state: Any, paths: list[list[int]], chances: list[float], begins: Tensor) -> None:
    """Continue every path to the end of its word, greedily, in place; multiply its chance by what that takes."""
    open_rows = [row for row, path in enumerate(paths) if path != [END]]
    if not open_rows:
        return
    state = state.select(torch.zeros(len(open_rows), dtype=torch.long))
    for _ in range(LONGEST):
        logits, state = machine.step(torch.tensor([paths[row][-1] for row in open_rows]), state)
        logits[:, list(NEVER)] = -torch.inf
        probabilities = logits.float().softmax(dim=-1)  # (N, V)
        ends = (probabilities * begins).sum(dim=1).tolist()  # the next subword begins another word
        best = probabilities.max(dim=1)
        stay = []
        for place, (row, token, chance) in enumerate(
            zip(open_rows, best.indices.tolist(), best.values.tolist(), strict=True)
        ):
            if begins[token]:
                chances[row] *= ends[place]
            else:
                paths[row].append(token)
                chances[row] *= chance
                stay.append(place)
        if not stay:
            return
        if len(stay) < len(open_rows):
            state, open_rows = state.select(torch.tensor(stay)), [open_rows[place] for place in stay]
