"""Rules for the next token of a hypothesis, applied after the softmax so that scores stay the model's.

A rule gets the logits (N, V) of a step and the `Moment`, and sets forbidden logits to minus infinity in place.

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


def apply_to_copies(rule: Rule, origin: Tensor) -> Rule:
    """Return the rule for copies of sentences, where copy b is of sentence origin[b]."""
    return lambda logits, now: rule(logits, replace(now, sentence=origin[now.sentence]))


def forbid_tokens(tokens: Sequence[int]) -> Rule:
    """Forbid tokens at every step, e.g. padding and the start symbol."""
    listed = list(tokens)

    def rule(logits: Tensor, now: Moment) -> None:
        logits[:, listed] = MINUS

    return rule


def require_length(length: int, end: int) -> Rule:
    """Forbid END before `length` tokens."""

    def rule(logits: Tensor, now: Moment) -> None:
        if now.step < length:
            logits[:, end] = MINUS

    return rule


def begin_with(prefixes: Sequence[Sequence[int]]) -> Rule:
    """Make sentence b begin with the tokens prefixes[b]; after them every token is allowed."""
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


def forbid_repeats(size: int) -> Rule:
    """Forbid n-grams of this size to occur twice."""

    def rule(logits: Tensor, now: Moment) -> None:
        for row, history in enumerate(now.history.tolist()):
            tail = history[len(history) - size + 1 :]
            repeated = [
                history[i + size - 1] for i in range(len(history) - size + 1) if history[i : i + size - 1] == tail
            ]
            logits[row, repeated] = MINUS

    return rule


class Words:
    """Forbids words, in any division into subwords.

    Where the text so far ends inside a forbidden word, the tokens that would complete the word are forbidden.  Where
    "dog" is forbidden, "dogs" is allowed, but not as "dog" and "s", because "dog" alone is never completed.
    `surfaces` are the tokens as text, words beginning with a space.
    """

    def __init__(self, surfaces: Sequence[str]) -> None:
        self.surfaces = list(surfaces)
        self.find_completing = cache(self._find_completing)
        self.find_containing = cache(self._find_containing)

    def _find_completing(self, word: str, done: int) -> list[int]:
        """Return tokens that complete a word after its first `done` characters; another word may follow."""
        rest = word[done:]
        after = ((token, text[len(rest) :]) for token, text in enumerate(self.surfaces) if text.startswith(rest))
        return [token for token, more in after if not more or is_boundary(word[-1], more[0])]

    def _find_containing(self, word: str) -> list[int]:
        """Return tokens that contain the word, but not at their beginning."""
        pattern = re.compile(re.escape(word))
        return [
            token
            for token, surface in enumerate(self.surfaces)
            if any(match.start() > 0 and is_whole_word(surface, *match.span()) for match in pattern.finditer(surface))
        ]

    def text(self, tokens: Sequence[int]) -> str:
        """Return tokens as text."""
        return "".join(self.surfaces[token] for token in tokens)

    def list_forbidden(self, tokens: Sequence[int], word: str) -> list[int]:
        """Return the tokens that may not follow these, because the word would appear."""
        text = " " + self.text(tokens)
        forbidden = list(self.find_containing(word))
        for done in range(min(len(word) - 1, len(text)) + 1):
            start = len(text) - done
            if text.endswith(word[:done]) and (start == 0 or is_boundary(text[start - 1], word[0])):
                forbidden += self.find_completing(word, done)
        return forbidden

    def make_rule(self, words: Sequence[Sequence[str]]) -> Rule:
        """Return the rule that forbids words[b] in sentence b."""

        def rule(logits: Tensor, now: Moment) -> None:
            for row, (sentence, history) in enumerate(zip(now.sentence.tolist(), now.history.tolist(), strict=True)):
                for word in words[sentence]:
                    logits[row, self.list_forbidden(history, word)] = MINUS

        return rule
