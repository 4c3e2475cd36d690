"""What a hypothesis may not do next: rules over candidates, applied after the softmax so that scores stay the model's.

A rule gets the logits (N, V) of a step and what is known then, and sets what is forbidden to minus infinity in place.

Shapes   N rows (hypotheses) · V vocabulary · t tokens so far
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor

from jumok.text.boundaries import alone, parts

MINUS = -float("inf")


@dataclass(frozen=True)
class Moment:
    """What a rule may know: the number of the step, the tokens of every row so far, and whose rows they are."""

    step: int
    history: Tensor  # (N, t)
    sentence: Tensor  # (N,)


Rule = Callable[[Tensor, Moment], None]
Ruling = Callable[[Sequence[int], Sequence[int]], Rule]  # for sentences by their rows, and the longest they may become


def of_copies(rule: Rule, origin: Tensor) -> Rule:
    """The rule where sentence b is a copy of sentence origin[b] of those that the rule was made for."""
    return lambda logits, now: rule(logits, replace(now, sentence=origin[now.sentence]))


def never(tokens: Sequence[int]) -> Rule:
    """Forbid tokens at every step, e.g. padding and the start symbol."""
    listed = list(tokens)

    def rule(logits: Tensor, now: Moment) -> None:
        logits[:, listed] = MINUS

    return rule


def at_least(length: int, end: int) -> Rule:
    """Forbid the end before `length` tokens."""

    def rule(logits: Tensor, now: Moment) -> None:
        if now.step < length:
            logits[:, end] = MINUS

    return rule


def begin_with(prefixes: Sequence[Sequence[int]]) -> Rule:
    """Sentence b begins with the tokens prefixes[b]; what follows is free."""
    longest = max(map(len, prefixes), default=0)
    table = torch.full((len(prefixes), longest), -1)
    for row, prefix in zip(table, prefixes, strict=True):
        row[: len(prefix)] = torch.tensor(list(prefix), dtype=torch.long)

    def rule(logits: Tensor, now: Moment) -> None:
        if now.step >= longest:
            return
        wanted = table.to(logits.device)[now.sentence, now.step]  # (N,) or -1
        bound = (wanted >= 0).nonzero().squeeze(1)
        kept = logits[bound, wanted[bound]]
        logits[bound] = MINUS
        logits[bound, wanted[bound]] = kept

    return rule


def no_repeats(size: int) -> Rule:
    """No `size` tokens in a row come twice."""

    def rule(logits: Tensor, now: Moment) -> None:
        for row, history in enumerate(now.history.tolist()):
            tail = history[len(history) - size + 1 :]
            said = [history[i + size - 1] for i in range(len(history) - size + 1) if history[i : i + size - 1] == tail]
            logits[row, said] = MINUS

    return rule


class Words:
    """Words that may not be said, whatever subwords they are put together from.

    For every place in a word that a text may have come to, `Words` knows the tokens that would finish it there, and
    those are forbidden.  "dogs" can be said where "dog" cannot, but not as "dog" and "s": a hypothesis that had come to
    "dog" could only go on with whatever makes another word of it.
    `surfaces` are the tokens as text, words beginning with a space.
    """

    def __init__(self, surfaces: Sequence[str]) -> None:
        self.surfaces = list(surfaces)
        self.finishing = cache(self._finishing)
        self.within = cache(self._within)

    def _finishing(self, word: str, done: int) -> list[int]:
        """Tokens that finish a word of which `done` characters stand, and say nothing more or something apart."""
        rest = word[done:]
        behind = ((token, text[len(rest) :]) for token, text in enumerate(self.surfaces) if text.startswith(rest))
        return [token for token, more in behind if not more or parts(word[-1], more[0])]

    def _within(self, word: str) -> list[int]:
        """Tokens that hold the word and the end of what is before it."""
        sought = re.compile(re.escape(word))
        return [
            token
            for token, surface in enumerate(self.surfaces)
            if any(match.start() > 0 and alone(surface, *match.span()) for match in sought.finditer(surface))
        ]

    def text(self, tokens: Sequence[int]) -> str:
        return "".join(self.surfaces[token] for token in tokens)

    def forbidden(self, tokens: Sequence[int], word: str) -> list[int]:
        """What may not follow these tokens, so that the word is not said."""
        text = " " + self.text(tokens)
        found = list(self.within(word))
        for done in range(min(len(word) - 1, len(text)) + 1):
            start = len(text) - done
            if text.endswith(word[:done]) and (start == 0 or parts(text[start - 1], word[0])):
                found += self.finishing(word, done)
        return found

    def rule(self, words: Sequence[Sequence[str]]) -> Rule:
        """Sentence b does not say any of words[b]."""

        def rule(logits: Tensor, now: Moment) -> None:
            for row, (sentence, history) in enumerate(zip(now.sentence.tolist(), now.history.tolist(), strict=True)):
                for word in words[sentence]:
                    logits[row, self.forbidden(history, word)] = MINUS

        return rule
