"""Beam search for translations in which given phrases must appear, each at least once, in any order.

Dynamic beam allocation (Post and Vilar 2018): at every step the hypotheses of a sentence also try the next token of
each phrase that is still missing.  Hypotheses that contain equally many tokens of the phrases form a bank, and the beam
is divided between the banks, so that likely hypotheses do not crowd out those that have met more of the phrases.  A
sentence may end when all of its phrases are met, which a beam with a slot for every bank always reaches.

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
from jumok.decoding.rules import MINUS, Moment, Rule, Rulebook, exclude
from jumok.decoding.search import Step, forbid
from jumok.models.base import END, START, State
from jumok.text.automata import FREE, TextRules

Phrase = tuple[int, ...]


@dataclass(frozen=True)
class PhraseProgress:
    """Which phrases are still missing, and how far into one of them the hypothesis is."""

    missing: tuple[Phrase, ...]
    inside: Phrase = ()  # the phrase that has begun
    done: int = 0  # its tokens so far
    met: int = 0  # tokens of complete phrases
    closed: Phrase = ()  # the phrase that the last token completed

    @property
    def bank(self) -> int:
        return self.met + self.done

    @property
    def complete(self) -> bool:
        return not self.missing

    def list_next_tokens(self) -> set[int]:
        """Return the tokens that continue a phrase, or begin one."""
        return {self.inside[self.done]} if self.inside else {phrase[0] for phrase in self.missing}

    def after(self, token: int) -> PhraseProgress:
        """Return the progress one token later; a phrase that breaks off is missing again, and another may begin."""
        if self.inside and self.inside[self.done] == token:
            return self._at(self.inside, self.done + 1)
        for phrase in self.missing:
            if phrase[0] == token:
                return self._at(phrase, 1)
        return PhraseProgress(self.missing, met=self.met)

    def _at(self, phrase: Phrase, done: int) -> PhraseProgress:
        if done < len(phrase):
            return replace(self, inside=phrase, done=done, closed=())
        left = list(self.missing)
        left.remove(phrase)
        return PhraseProgress(tuple(left), met=self.met + len(phrase), closed=phrase)


@dataclass(frozen=True)
class PartialHypothesis:
    """A hypothesis that has not ended."""

    ids: tuple[int, ...]
    total: float
    gains: tuple[float, ...]
    progress: PhraseProgress
    ending: int = FREE  # the state of `TextRules.ending`: what may follow a phrase that was just completed


class Candidate(NamedTuple):
    """A continuation of a hypothesis by one token."""

    total: float
    row: int  # among the rows of its sentence
    token: int
    gain: float
    progress: PhraseProgress


@torch.inference_mode()
def search_with_phrases(
    step: Step,
    state: State,
    limits: Sequence[int],
    phrases: Sequence[Sequence[Phrase]],
    options: SearchOptions,
    *,
    rules: Rulebook = Rulebook(),
    texts: TextRules | None = None,
    device: torch.device | None = None,
) -> list[list[Hypothesis]]:
    """Return the n best hypotheses of each sentence that contain all of phrases[b], best first.

    A sentence has as many slots as the beam and one for each token of its phrases.  A phrase is followed by a new word,
    or by an ending and a new word, where `texts` knows how tokens are written.  Limits grow where the phrases alone
    would not fit.
    """
    slots = [options.beam + sum(map(len, wanted)) for wanted in phrases]
    limits = [max(limit, 2 * sum(map(len, wanted)) + 2) for limit, wanted in zip(limits, phrases, strict=True)]
    partial = {
        b: [PartialHypothesis((), 0.0, (), PhraseProgress(tuple(map(tuple, wanted))))]
        for b, wanted in enumerate(phrases)
    }
    ended: list[list[Hypothesis]] = [[] for _ in phrases]
    token = torch.full((len(phrases),), START, device=device)
    for t in range(max(limits)):
        logits, state = step(token, state)
        now = make_moment(t, partial, device)
        normalizer = forbid(logits, rules.list_all(forbid_incomplete(partial, texts)), now)
        logs = logits - normalizer  # (N, V)
        top, likeliest = logs.topk(min(2 * max(slots), logs.shape[1]), dim=-1)  # (N, C)
        rows, tokens, first = [], [], 0
        following: dict[int, list[PartialHypothesis]] = {}
        for b, before in partial.items():
            block = slice(first, first + len(before))
            own = slice(2 * slots[b])  # other sentences of the batch may have more slots
            expanded = expand(before, logs[block], top[block, own].tolist(), likeliest[block, own].tolist())
            last = t + 1 >= limits[b]
            # A complete hypothesis may end even if END ranks low (docs/log/2026-11-16-constrained-search.md).
            ending = [c for c in expanded if c.progress.complete and (c.token == END or last)]
            for c in heapq.nlargest(slots[b], ending):
                ended[b].append(end(extend(before[c.row], c, texts), options.length_penalty))
            going = [] if last else allocate([c for c in expanded if c.token != END], slots[b])
            if going and not is_finished(ended[b], going, limits[b], t, options):
                following[b] = [extend(before[c.row], c, texts) for c in going]
                rows += [first + c.row for c in going]
                tokens += [c.token for c in going]
            first += len(before)
        partial = following
        if not partial:
            break
        token = torch.tensor(tokens, device=device)
        state = state.select(torch.tensor(rows, device=device))
    return [sorted(several, key=lambda h: -h.score)[: options.n_best] for several in ended]


def make_moment(step: int, partial: dict[int, list[PartialHypothesis]], device: torch.device | None) -> Moment:
    """Return the `Moment` of these rows for rules."""
    history = [hypothesis.ids for rows in partial.values() for hypothesis in rows]
    sentence = [b for b, rows in partial.items() for _ in rows]
    return Moment(
        step,
        torch.tensor(history, dtype=torch.long, device=device).view(len(history), step),
        torch.tensor(sentence, device=device),
    )


def forbid_incomplete(partial: dict[int, list[PartialHypothesis]], texts: TextRules | None) -> Rule:
    """Forbid what may not follow a phrase, and END before a sentence contains all of its phrases."""
    hypotheses = [hypothesis for rows in partial.values() for hypothesis in rows]

    def rule(logits: Tensor, now: Moment) -> None:
        open_ = torch.tensor([not hypothesis.progress.complete for hypothesis in hypotheses], device=logits.device)
        logits[:, END].masked_fill_(open_, MINUS)
        for row, hypothesis in enumerate(hypotheses):
            if texts is not None and hypothesis.ending != FREE:
                exclude(logits[row], texts.ending.exclude(hypothesis.ending, END))

    return rule


def expand(
    before: Sequence[PartialHypothesis], logs: Tensor, top: list[list[float]], tokens: list[list[int]]
) -> list[Candidate]:
    """Return the likeliest continuations of every row, and those that its phrases ask for."""
    expanded = []
    for row, hypothesis in enumerate(before):
        gains = dict(zip(tokens[row], top[row], strict=True))
        progress = hypothesis.progress
        for token in sorted(progress.list_next_tokens() - gains.keys()) if progress.missing else ():
            gains[token] = float(logs[row, token])
        for token, gain in gains.items():
            if gain > MINUS:
                expanded.append(Candidate(hypothesis.total + gain, row, token, gain, progress.after(token)))
    return expanded


def allocate(expanded: Sequence[Candidate], slots: int) -> list[Candidate]:
    """Return the candidates to continue: banks share the slots evenly; slots that one cannot fill go to others."""
    banks: dict[int, list[Candidate]] = {}
    for candidate in sorted(expanded, key=lambda c: -c.total):
        banks.setdefault(candidate.progress.bank, []).append(candidate)
    chosen: list[Candidate] = []
    waiting = sorted(banks, reverse=True)  # banks with more tokens of the phrases choose first
    while waiting and len(chosen) < slots:
        share = max(1, (slots - len(chosen)) // len(waiting))
        for bank in waiting:
            take = min(share, slots - len(chosen))
            chosen += banks[bank][:take]
            banks[bank] = banks[bank][take:]
        waiting = [bank for bank in waiting if banks[bank]]
    return sorted(chosen, key=lambda c: -c.total)


def is_finished(
    ended: Sequence[Hypothesis], going: Sequence[Candidate], limit: int, t: int, options: SearchOptions
) -> bool:
    """Return whether no candidate can beat the best that have ended, as in `search.beam`."""
    if len(ended) < options.n_best:
        return False
    worst = sorted((hypothesis.score for hypothesis in ended), reverse=True)[options.n_best - 1]
    longest = t + 2 if len(ended) >= options.beam and not options.exact else limit
    return worst >= penalize(max(c.total for c in going), longest, options.length_penalty)


def extend(before: PartialHypothesis, by: Candidate, texts: TextRules | None) -> PartialHypothesis:
    """Return a hypothesis with the token of a candidate after its own."""
    ending = FREE
    if texts is not None:  # a token that is not allowed is part of a prefix
        ending = texts.ending.read(before.ending, by.token) or FREE
        ending = texts.begin_ending(by.progress.closed) if by.progress.closed else ending
    return PartialHypothesis((*before.ids, by.token), by.total, (*before.gains, by.gain), by.progress, ending)


def end(partial: PartialHypothesis, length_penalty: float) -> Hypothesis:
    """Return a hypothesis that has ended, with its score."""
    score = penalize(partial.total, len(partial.ids), length_penalty)
    return Hypothesis(partial.ids, score, partial.total, partial.gains)
