"""Beam search for translations in which given phrases must appear, each once at least, in any order.

Dynamic beam allocation (Post and Vilar 2018): at every step the hypotheses of a sentence also try the next token of
each phrase that is still missing, and the beam is divided between hypotheses that have met as many tokens of the
phrases (a bank each), so that those that are ahead are not crowded out by those that are likely.  A sentence may end
when all of its phrases are met.  A beam with a place for every bank always gets there: the farthest hypothesis can go
on with what it lacks.

Scores are the model's, as everywhere.  Shapes   N rows (hypotheses) · V vocabulary
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from jumok.config.search import SearchOptions
from jumok.decoding.hypothesis import Hypothesis, penalize
from jumok.decoding.rules import MINUS, Moment, Rule
from jumok.decoding.search import Step, forbid
from jumok.models.base import END, START, State

Phrase = tuple[int, ...]


@dataclass(frozen=True)
class Progress:
    """Which phrases are still missing, and how far into one of them the hypothesis is."""

    missing: tuple[Phrase, ...]
    inside: Phrase = ()  # the phrase that has begun
    done: int = 0  # tokens of it
    met: int = 0  # tokens of whole phrases
    closed: bool = False  # the last token was the end of a phrase, so a new word must begin

    @property
    def bank(self) -> int:
        return self.met + self.done

    @property
    def complete(self) -> bool:
        return not self.missing

    def wanted(self) -> set[int]:
        """Tokens that bring it on."""
        return {self.inside[self.done]} if self.inside else {phrase[0] for phrase in self.missing}

    def after(self, token: int) -> Progress:
        """One token later; a phrase that breaks off is missing as before, and another may begin at once."""
        if self.inside and self.inside[self.done] == token:
            return self._at(self.inside, self.done + 1)
        for phrase in self.missing:
            if phrase[0] == token:
                return self._at(phrase, 1)
        return Progress(self.missing, met=self.met)

    def _at(self, phrase: Phrase, done: int) -> Progress:
        if done < len(phrase):
            return replace(self, inside=phrase, done=done, closed=False)
        left = list(self.missing)
        left.remove(phrase)
        return Progress(tuple(left), met=self.met + len(phrase), closed=True)


@dataclass(frozen=True)
class Living:
    """A hypothesis that goes on."""

    ids: tuple[int, ...]
    total: float
    gains: tuple[float, ...]
    progress: Progress


class Candidate(NamedTuple):
    total: float
    row: int  # among the rows of its sentence
    token: int
    gain: float
    progress: Progress


@torch.inference_mode()
def constrained(
    step: Step,
    state: State,
    limits: Sequence[int],
    phrases: Sequence[Sequence[Phrase]],
    options: SearchOptions,
    *,
    rules: Sequence[Rule] = (),
    inner: Tensor | None = None,
    device: torch.device | None = None,
) -> list[list[Hypothesis]]:
    """The n best hypotheses of each sentence that hold all of phrases[b], best first.

    A sentence has as many places as the beam and one for each token of its phrases.  `inner` (V,) is True for tokens
    that continue a word: none of them follows a phrase.  Limits grow where the phrases alone would not fit.
    """
    places = [options.beam + sum(map(len, wanted)) for wanted in phrases]
    limits = [max(limit, 2 * sum(map(len, wanted)) + 2) for limit, wanted in zip(limits, phrases, strict=True)]
    living = {b: [Living((), 0.0, (), Progress(tuple(map(tuple, wanted))))] for b, wanted in enumerate(phrases)}
    ended: list[list[Hypothesis]] = [[] for _ in phrases]
    token = torch.full((len(phrases),), START, device=device)
    for t in range(max(limits)):
        logits, state = step(token, state)
        now = moment(t, living, device)
        normalizer = forbid(logits, rules, now)
        logits -= normalizer
        logs = close(logits, living, inner)  # (N, V)
        top, likeliest = logs.topk(min(2 * max(places), logs.shape[1]), dim=-1)  # (N, C)
        rows, tokens, first = [], [], 0
        following: dict[int, list[Living]] = {}
        for b, before in living.items():
            block = slice(first, first + len(before))
            own = slice(2 * places[b])  # not as many as a neighbour with longer phrases has
            found = expand(before, logs[block], top[block, own].tolist(), likeliest[block, own].tolist())
            last = t + 1 >= limits[b]
            # A complete hypothesis may end whatever the rank of END (docs/log/2026-11-16-constrained-search.md).
            ending = [c for c in found if c.progress.complete and (c.token == END or last)]
            for c in heapq.nlargest(places[b], ending):
                ended[b].append(hypothesis(extend(before[c.row], c), options.length_penalty))
            going = [] if last else allocate([c for c in found if c.token != END], places[b])
            if going and not finished(ended[b], going, limits[b], t, options):
                following[b] = [extend(before[c.row], c) for c in going]
                rows += [first + c.row for c in going]
                tokens += [c.token for c in going]
            first += len(before)
        living = following
        if not living:
            break
        token = torch.tensor(tokens, device=device)
        state = state.select(torch.tensor(rows, device=device))
    return [sorted(found, key=lambda h: -h.score)[: options.n_best] for found in ended]


def moment(step: int, living: dict[int, list[Living]], device: torch.device | None) -> Moment:
    """What rules may know of these rows."""
    history = [one.ids for rows in living.values() for one in rows]
    sentence = [b for b, rows in living.items() for _ in rows]
    return Moment(
        step,
        torch.tensor(history, dtype=torch.long, device=device).view(len(history), step),
        torch.tensor(sentence, device=device),
    )


def close(logs: Tensor, living: dict[int, list[Living]], inner: Tensor | None) -> Tensor:
    """No word goes on behind a phrase, and no sentence ends before it has all of its phrases."""
    flat = [one.progress for rows in living.values() for one in rows]
    closed = torch.tensor([one.closed for one in flat], device=logs.device)
    open_ = torch.tensor([not one.complete for one in flat], device=logs.device)
    if inner is not None:
        logs.masked_fill_(closed[:, None] & inner[None], MINUS)
    logs[:, END].masked_fill_(open_, MINUS)
    return logs


def expand(before: Sequence[Living], logs: Tensor, top: list[list[float]], tokens: list[list[int]]) -> list[Candidate]:
    """The likeliest continuations of every row, and those that its phrases ask for."""
    found = []
    for row, one in enumerate(before):
        gains = dict(zip(tokens[row], top[row], strict=True))
        for token in one.progress.wanted() - gains.keys() if one.progress.missing else ():
            gains[token] = float(logs[row, token])
        for token, gain in gains.items():
            if gain > MINUS:
                found.append(Candidate(one.total + gain, row, token, gain, one.progress.after(token)))
    return found


def allocate(found: Sequence[Candidate], places: int) -> list[Candidate]:
    """The candidates that live on: banks share the places evenly, and what one cannot fill the others get."""
    banks: dict[int, list[Candidate]] = {}
    for one in sorted(found, key=lambda c: -c.total):
        banks.setdefault(one.progress.bank, []).append(one)
    chosen: list[Candidate] = []
    waiting = sorted(banks, reverse=True)  # those that are ahead choose first
    while waiting and len(chosen) < places:
        share = max(1, (places - len(chosen)) // len(waiting))
        for bank in waiting:
            take = min(share, places - len(chosen))
            chosen += banks[bank][:take]
            banks[bank] = banks[bank][take:]
        waiting = [bank for bank in waiting if banks[bank]]
    return sorted(chosen, key=lambda c: -c.total)


def finished(
    ended: Sequence[Hypothesis], going: Sequence[Candidate], limit: int, t: int, options: SearchOptions
) -> bool:
    """As in `beam`: nothing that lives can beat the best that ended."""
    if len(ended) < options.n_best:
        return False
    kept = sorted((one.score for one in ended), reverse=True)[options.n_best - 1]
    longest = t + 2 if len(ended) >= options.beam else limit
    return kept >= penalize(max(c.total for c in going), longest, options.length_penalty)


def extend(one: Living, by: Candidate) -> Living:
    return Living((*one.ids, by.token), by.total, (*one.gains, by.gain), by.progress)


def hypothesis(one: Living, length_penalty: float) -> Hypothesis:
    return Hypothesis(one.ids, penalize(one.total, len(one.ids), length_penalty), one.total, one.gains)
