"""Rules for the next token of a hypothesis, applied after the softmax so that scores stay the model's.

A rule gets the logits (N, V) of a step and the `Moment`, and sets forbidden logits to minus infinity in place.

Shapes   N rows (hypotheses) · V vocabulary · t tokens so far
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from jumok.text.automata import FREE, Automaton

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


def forbid_words(automata: Sequence[Automaton | None], end: int) -> Rule:
    """Forbid what automaton b excludes in sentence b (`text.automata.Forbidder`)."""
    states: dict[tuple[int, ...], int] = {}  # after a sentence's number and the tokens of a row

    def find(sentence: int, history: Sequence[int], automaton: Automaton) -> int:
        if not history:
            return automaton.start
        key = (sentence, *history)
        if key not in states:
            states[key] = automaton.follow(find(sentence, history[:-1], automaton), history[-1])
        return states[key]

    def rule(logits: Tensor, now: Moment) -> None:
        for row, (sentence, history) in enumerate(zip(now.sentence.tolist(), now.history.tolist(), strict=True)):
            if (automaton := automata[sentence]) is not None:
                exclude(logits[row], automaton.exclude(find(sentence, history, automaton), end))

    return rule


def exclude(logits: Tensor, tokens: np.ndarray) -> None:
    """Set the logits (V,) of some tokens (V,) to minus infinity, in place."""
    logits[torch.from_numpy(tokens).to(logits.device)] = MINUS


@dataclass(frozen=True)
class Prefixes:
    """How each sentence begins: with tokens, then with a text that an automaton allows in any division into tokens.

    A prefix comes before all other rules: where they would exclude every token that continues it, they are ignored.
    """

    tokens: Sequence[Sequence[int]]
    openings: Sequence[Automaton | None]
    end: int

    def guard(self, rules: Sequence[Rule]) -> Rule:
        """Return the rule that applies others after, and as far as possible inside, the prefixes."""

        def rule(logits: Tensor, now: Moment) -> None:
            size = logits.shape[-1]
            excluded = {
                row: tokens for row in range(len(logits)) if (tokens := self._exclude(row, now, size)) is not None
            }
            before = {row: logits[row].clone() for row in excluded}
            for other in rules:
                other(logits, now)
            for row, tokens in excluded.items():
                exclude(logits[row], tokens)
                if not bool((logits[row] > MINUS).any()):
                    logits[row] = before[row]
                    exclude(logits[row], tokens)

        return rule

    def _exclude(self, row: int, now: Moment, size: int) -> np.ndarray | None:
        """Return the tokens (V,) that do not continue the prefix of a row; None after its end."""
        sentence, history = int(now.sentence[row]), now.history[row].tolist()
        tokens, opening = self.tokens[sentence], self.openings[sentence]
        if now.step < len(tokens):
            excluded = np.ones(size, bool)
            excluded[tokens[now.step]] = False
            return excluded
        if opening is None:
            return None
        state = opening.start
        for token in history[len(tokens) :]:
            state = opening.read(state, token) or FREE
        return None if state == FREE else opening.exclude(state, self.end)


@dataclass(frozen=True)
class Rulebook:
    """The rules of a search, and the prefixes that come before them."""

    rules: Sequence[Rule] = ()
    prefixes: Prefixes | None = None

    def list_all(self, *more: Rule) -> list[Rule]:
        """Return all rules in the order in which they are applied, with others of the search itself."""
        rules = [*self.rules, *more]
        return rules if self.prefixes is None else [self.prefixes.guard(rules)]
