"""Rules for the next token of a hypothesis, applied after the softmax so that scores stay the model's.

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

from jumok.text.boundaries import is_boundary, is_whole_word

MINUS = -float("inf")


@dataclass(frozen=True)
class Moment:
    """What a rule may know: the step, the tokens of every row so far, and the sentence of each row."""

    step: int
    history: Tensor  # (N, t)
    sentence: Tensor  # (N,)


Rule = Callable[[Tensor, Moment], None]
Ruling = Callable[[Sequence[int], Sequence[int]], Rule]  # from the rows of sentences and their limits


def of_copies(rule: Rule, origin: Tensor) -> Rule:
    """Return a rule for copies of sentences: copy b is of sentence origin[b]."""
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
        allowed = logits[bound, wanted[bound]]
        logits[bound] = MINUS
        logits[bound, wanted[bound]] = allowed

    return rule


def no_repeats(size: int) -> Rule:
    """Forbid that an n-gram of this size comes twice."""

    def rule(logits: Tensor, now: Moment) -> None:
        for row, history in enumerate(now.history.tolist()):
            tail = history[len(history) - size + 1 :]
            repeated = [
                history[i + size - 1] for i in range(len(history) - size + 1) if history[i : i + size - 1] == tail
            ]
            logits[row, repeated] = MINUS

    return rule


class Words:
    """Forbids words, whatever subwords they consist of.

    Wherever a text may end inside a word, the tokens that would complete the word are forbidden.  "dogs" is allowed
    where "dog" is forbidden, but not as "dog" and "s", because "dog" alone is never completed.
    `surfaces` are the tokens as text, words beginning with a space.
    """

    def __init__(self, surfaces: Sequence[str]) -> None:
        self.surfaces = list(surfaces)
        self.finishing = cache(self._finishing)
        self.within = cache(self._within)

    def _finishing(self, word: str, done: int) -> list[int]:
        """Return tokens that complete a word of which `done` characters are there, followed at most by another word."""
        rest = word[done:]
        after = ((token, text[len(rest) :]) for token, text in enumerate(self.surfaces) if text.startswith(rest))
        return [token for token, more in after if not more or is_boundary(word[-1], more[0])]

    def _within(self, word: str) -> list[int]:
        """Return tokens that contain the word after something else."""
        sought = re.compile(re.escape(word))
        return [
            token
            for token, surface in enumerate(self.surfaces)
            if any(match.start() > 0 and is_whole_word(surface, *match.span()) for match in sought.finditer(surface))
        ]

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens."""
        return "".join(self.surfaces[token] for token in tokens)

    def forbidden(self, tokens: Sequence[int], word: str) -> list[int]:
        """Return the tokens that may not follow these, lest the word appear."""
        text = " " + self.text(tokens)
        forbidden = list(self.within(word))
        for done in range(min(len(word) - 1, len(text)) + 1):
            start = len(text) - done
            if text.endswith(word[:done]) and (start == 0 or is_boundary(text[start - 1], word[0])):
                forbidden += self.finishing(word, done)
        return forbidden

    def rule(self, words: Sequence[Sequence[str]]) -> Rule:
        """Return the rule that sentence b contains none of words[b]."""

        def rule(logits: Tensor, now: Moment) -> None:
            for row, (sentence, history) in enumerate(zip(now.sentence.tolist(), now.history.tolist(), strict=True)):
                for word in words[sentence]:
                    logits[row, self.forbidden(history, word)] = MINUS

        return rule
