"""Search: greedy, beam and sampling over a step function; it sees a function and a state, never a model.

Paper: section 6.1: beam 4, length penalty alpha 0.6 in the form score = log P / ((5 + n) / 6)^alpha (Wu et al. 2016),
output at most 50 longer than the input, ended early when possible.  n counts the tokens of the output with its END.

Rows are the hypotheses of all sentences, those of one sentence together.  When a sentence is done, its rows are
removed from the state.

Shapes   B sentences · W beam · N = B·W rows · V vocabulary · C candidates
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from jumok.config.search import SearchOptions
from jumok.decoding.graph import Expansion
from jumok.decoding.hypothesis import Hypothesis, penalize
from jumok.decoding.rules import MINUS, Moment, Rule
from jumok.kernels import ops
from jumok.models.base import END, START, State
from jumok.text.symbols import NEVER

Step = Callable[[Tensor, State], tuple[Tensor, State]]


def forbid(logits: Tensor, rules: Sequence[Rule], now: Moment, never: Sequence[int] = NEVER) -> Tensor:
    """Set forbidden logits to minus infinity, in place; return the log-normaliser (N, 1) of all tokens before that."""
    normalizer = ops.normalizer(logits)  # (N, 1)
    logits[:, list(never)] = MINUS
    for rule in rules:
        rule(logits, now)
    return normalizer


def list_candidates(logits: Tensor, count: int, rules: Sequence[Rule], now: Moment) -> tuple[Tensor, Tensor]:
    """Return the log-probabilities and tokens (N, C) of the likeliest continuations of every row that are allowed."""
    if not rules:
        return ops.likeliest(logits, count, torch.tensor(NEVER, device=logits.device))
    normalizer = forbid(logits, rules, now)  # (N, 1)
    top, tokens = logits.topk(min(count, logits.shape[-1]), dim=-1)  # (N, C)
    return top - normalizer, tokens


class Candidates(NamedTuple):
    """Continuations of the hypotheses of each sentence, best first."""

    number: Tensor  # (B,) which sentence row b is
    origin: Tensor  # (B, C) which of the W hypotheses it continues
    tokens: Tensor  # (B, C)
    gain: Tensor  # (B, C) log-probability of the token
    total: Tensor  # (B, C) log P of all tokens so far

    def take(self, indices: Tensor) -> Candidates:
        """Return the candidates at these indices (B, ·)."""
        sides = (self.origin, self.tokens, self.gain, self.total)
        return Candidates(self.number, *(side.gather(1, indices) for side in sides))


@dataclass(frozen=True)
class Ranking:
    """The order of a sentence's candidates.

    `best` gets their log P, their tokens (B, ·), their sentences (B,) and a count, and returns the indices (B, count)
    of the best.  It needs `spare` candidates of each hypothesis beyond twice the beam.
    """

    best: Callable[[Tensor, Tensor, Tensor, int], Tensor]
    spare: int = 0


HIGHEST = Ranking(lambda total, tokens, number, count: total.topk(count, dim=-1).indices)  # by log P alone


def keep_apart(groups: int, strength: float, spare: int) -> Ranking:
    """Diverse beams (Vijayakumar et al. 2016): block b belongs to sentence b // groups, and a token that an earlier
    group of the sentence has taken at this step ranks lower by `strength`.  Scores stay the model's."""

    def best(total: Tensor, tokens: Tensor, number: Tensor, count: int) -> Tensor:
        chosen = torch.empty(len(total), count, dtype=torch.long, device=total.device)
        taken: dict[int, list[int]] = {}
        for group in range(groups):
            for block in (number % groups == group).nonzero().flatten().tolist():
                before = taken.setdefault(int(number[block]) // groups, [])
                times = (tokens[block][:, None] == torch.tensor(before, device=total.device)).sum(dim=1)
                chosen[block] = (total[block] - strength * times).topk(count).indices
                before += tokens[block][chosen[block][: count // 2]].tolist()
        return chosen

    return Ranking(best, spare)


@dataclass
class Beams:
    """The hypotheses of the sentences that are not done yet, W of each."""

    number: Tensor  # (B,) which sentence row block b is
    limit: Tensor  # (B,) the longest it may become
    score: Tensor  # (B, W) log P
    token: Tensor  # (N,) the last token
    history: Tensor  # (B, W, t)
    gains: Tensor  # (B, W, t) log-probability of each token

    @classmethod
    def begin(cls, limits: Sequence[int], width: int, device: torch.device | None) -> Beams:
        count = len(limits)
        score = torch.full((count, width), MINUS, device=device)  # (B, W)
        score[:, 0] = 0.0
        history = torch.empty(count, width, 0, dtype=torch.long, device=device)  # (B, W, t)
        return cls(
            number=torch.arange(count, device=device), limit=torch.tensor(limits, device=device), score=score,
            token=torch.full((count * width,), START, device=device), history=history,
            gains=torch.empty(count, width, 0, device=device),
        )  # fmt: skip

    def expand(self, logits: Tensor, rules: Sequence[Rule], ranking: Ranking) -> Candidates:
        """Return twice as many candidates as the beam is wide, so that W are left even if half of them end."""
        count, width = self.score.shape
        now = Moment(self.history.shape[2], self.history.flatten(0, 1), self.number.repeat_interleave(width))
        gain, tokens = list_candidates(logits, 2 * width + ranking.spare, rules, now)  # (N, C)
        each = gain.shape[-1]
        total, tokens, gain = (x.view(count, width * each) for x in (self.score.view(-1, 1) + gain, tokens, gain))
        indices = ranking.best(total, tokens, self.number, min(2 * width, width * each))  # (B, C)
        total, tokens, gain = (x.gather(1, indices) for x in (total, tokens, gain))  # (B, C)
        return Candidates(self.number, indices // each, tokens, gain, total)

    def follow(self, chosen: Candidates, score: Tensor, keep: Tensor) -> tuple[Beams, Tensor]:
        """Return the beams of the sentences `keep` after the chosen candidates (B, W), and their rows of the state."""
        history, gains = (
            torch.cat([_follow(past, chosen.origin), new[:, :, None]], dim=2)[keep]
            for past, new in ((self.history, chosen.tokens), (self.gains, chosen.gain))
        )
        first = torch.arange(len(self.number), device=self.number.device)[:, None] * score.shape[1]
        after = Beams(self.number[keep], self.limit[keep], score[keep], chosen.tokens[keep].flatten(), history, gains)
        return after, (chosen.origin + first)[keep].flatten()


@torch.inference_mode()
def beam(
    step: Step,
    state: State,
    limits: Sequence[int],
    options: SearchOptions,
    *,
    rules: Sequence[Rule] = (),
    ranking: Ranking = HIGHEST,
    watch: Callable[[Expansion], None] | None = None,
    device: torch.device | None = None,
) -> list[list[Hypothesis]]:
    """Return the n best hypotheses of each sentence, best first; limits[b] is the longest output of sentence b.

    A sentence is done when no hypothesis that is still open can beat the best that ended: its log P only falls, so its
    score can never exceed log P / penalty(limit).  Once as many hypotheses as the beam is wide have ended, it is enough
    that none would beat them by ending now; exact search does without this short cut.  `watch` gets every step.
    """
    width = options.beam
    if width == 1 and options.n_best == 1 and ranking is HIGHEST and watch is None:
        return [[h] for h in greedy(step, state, limits, options, rules=rules, device=device)]
    state = state.select(torch.arange(len(limits), device=device).repeat_interleave(width))
    beams = Beams.begin(limits, width, device)
    ended: list[list[Hypothesis]] = [[] for _ in limits]
    for t in range(max(limits)):
        logits, state = step(beams.token, state)
        now = beams.expand(logits, rules, ranking)
        last = t + 1 >= beams.limit  # (B,) no token after this one
        ending = (now.tokens == END) & (now.total > MINUS)
        ending[:, width:] = False  # only the first W candidates may end
        first = torch.arange(now.total.shape[1], device=device) < width
        closing = ending | (last[:, None] & (now.total > MINUS) & first)
        if closing.any():
            _collect(closing, now, beams, ended, options.length_penalty)
        dead = (now.tokens == END) | (now.total == MINUS)  # (B, C)
        order = dead.byte().argsort(dim=-1, stable=True)[:, :width]  # (B, W)
        if watch is not None:
            _report(watch, t, now, closing, dead | closing, order)
        score = now.total.masked_fill(dead, MINUS).gather(1, order)  # (B, W)
        done = last | _done(score.amax(dim=1), now.number, ended, limits, t + 2, options)
        keep = (~done).nonzero().squeeze(1)
        if len(keep) == 0:
            break
        beams, rows = beams.follow(now.take(order), score, keep)
        state = state.select(rows)
    return [sorted(several, key=lambda h: -h.score)[: options.n_best] for several in ended]


def _report(
    watch: Callable[[Expansion], None], step: int, now: Candidates, closing: Tensor, dead: Tensor, order: Tensor
) -> None:
    """Pass every sentence's candidates to `watch` as plain numbers, impossible ones left out."""
    sides = (*now, closing, dead, order)
    for sentence, *row, ends, gone, first in zip(*(side.tolist() for side in sides), strict=True):
        real = [c for c, value in enumerate(row[-1]) if value > MINUS]
        index = {c: i for i, c in enumerate(real)}
        origins, ids, gains, totals = ([values[c] for c in real] for values in row)
        continued = [index[c] for c in first if not gone[c]]
        watch(Expansion(sentence, step, origins, ids, gains, totals, [ends[c] for c in real], continued))


def _follow(history: Tensor, origin: Tensor) -> Tensor:
    return history.gather(1, origin[:, :, None].expand(-1, -1, history.shape[2]))


def _collect(
    closing: Tensor, now: Candidates, beams: Beams, ended: list[list[Hypothesis]], length_penalty: float
) -> None:
    """Add the candidates that end to the hypotheses of their sentences."""
    b, which = closing.nonzero(as_tuple=True)
    w = now.origin[b, which]
    sides = (now.number[b], beams.history[b, w], beams.gains[b, w], *(x[b, which] for x in now[2:]))
    for sentence, ids, before, token, last, log_probability in zip(*(side.tolist() for side in sides), strict=True):
        score = penalize(log_probability, len(ids) + 1, length_penalty)
        ended[sentence].append(Hypothesis((*ids, token), score, log_probability, (*before, last)))


def _done(
    top: Tensor,
    number: Tensor,
    ended: list[list[Hypothesis]],
    limits: Sequence[int],
    next_length: int,
    options: SearchOptions,
) -> Tensor:
    """Return which sentences (B,) are done: even at the greatest length (or one token longer, where enough have ended)
    their best log P (B,) would not beat the hypotheses that have ended."""
    done = []
    for log_probability, sentence in zip(top.tolist(), number.tolist(), strict=True):
        hypotheses = ended[sentence]
        if log_probability == MINUS or len(hypotheses) < options.n_best:
            done.append(log_probability == MINUS)
            continue
        worst = sorted((hypothesis.score for hypothesis in hypotheses), reverse=True)[options.n_best - 1]
        enough = len(hypotheses) >= options.beam and not options.exact
        longest = next_length if enough else limits[sentence]
        done.append(worst >= penalize(log_probability, longest, options.length_penalty))
    return torch.tensor(done, dtype=torch.bool, device=top.device)


Choose = Callable[[Tensor, Tensor, int], Tensor]


@torch.inference_mode()
def generate_tokens(
    step: Step,
    state: State,
    limits: Sequence[int],
    choose: Choose,
    *,
    rules: Sequence[Rule] = (),
    never: Sequence[int] = NEVER,
    device: torch.device | None = None,
) -> Iterator[list[tuple[int, int, float]]]:
    """Extend every sentence by one chosen token at a time; yields (sentence, token, log-probability) of each step.

    `choose` gets the allowed logits (N, V), the sentence of each row (N,) and the step, and returns tokens (N,).
    `never` are the tokens that are never output.
    """
    number = torch.arange(len(limits), device=device)  # (N,)
    limit = torch.tensor(limits, device=device)
    token = torch.full((len(limits),), START, device=device)
    history = torch.empty(len(limits), 0, dtype=torch.long, device=device)  # (N, t)
    for t in range(max(limits)):
        logits, state = step(token, state)
        now = Moment(t, history, number)
        if choose is likeliest:
            gain, token = (x.squeeze(1) for x in list_candidates(logits, 1, rules, now))  # (N,)
        else:
            normalizer = forbid(logits, rules, now, never)
            token = choose(logits, number, t)  # (N,)
            gain = (logits.gather(1, token[:, None]) - normalizer).squeeze(1)
        yield list(zip(number.tolist(), token.tolist(), gain.tolist(), strict=True))
        keep = ((token != END) & (t + 1 < limit)).nonzero().squeeze(1)
        if len(keep) == 0:
            return
        if rules:
            history = torch.cat([history, token[:, None]], dim=1)
        if len(keep) < len(token):
            number, limit, token, state = number[keep], limit[keep], token[keep], state.select(keep)
            history = history[keep] if rules else history


def likeliest(logits: Tensor, number: Tensor, t: int) -> Tensor:
    """Greedy: the most probable token."""
    return logits.argmax(dim=-1)


def sample_by(uniforms: Tensor, *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> Choose:
    """Sample by inverse transform with the numbers uniforms[sentence, step] in [0, 1); temperature 0 is greedy.

    `top_k` keeps the k likeliest tokens (0 keeps all), `top_p` the fewest that hold a share p of the probability.
    """
    if temperature == 0.0:
        return likeliest

    def find(share: Tensor, number: Tensor, t: int) -> Tensor:
        """Return the token on whose share the number of each row falls, given sums of probabilities (N, V)."""
        u = uniforms[number, t % uniforms.shape[1]][:, None] * share[:, -1:] * (1.0 - 1e-6)
        return torch.searchsorted(share, u, right=True).clamp(max=share.shape[-1] - 1)

    def choose(logits: Tensor, number: Tensor, t: int) -> Tensor:
        if not top_k and top_p == 1.0:  # the order does not matter
            return find((logits / temperature).softmax(dim=-1).cumsum(dim=-1), number, t).squeeze(1)
        ordered, tokens = (logits / temperature).sort(dim=-1, descending=True)  # (N, V)
        if top_k:
            ordered[:, top_k:] = MINUS
        share = ordered.softmax(dim=-1).cumsum(dim=-1)  # (N, V)
        if top_p < 1.0:
            beyond = share.roll(1, dims=-1) >= top_p
            beyond[:, 0] = False
            share = ordered.masked_fill(beyond, MINUS).softmax(dim=-1).cumsum(dim=-1)
        chosen: Tensor = tokens.gather(1, find(share, number, t)).squeeze(1)
        return chosen

    return choose


def greedy(
    step: Step,
    state: State,
    limits: Sequence[int],
    options: SearchOptions = SearchOptions(),
    *,
    choose: Choose = likeliest,
    rules: Sequence[Rule] = (),
    device: torch.device | None = None,
) -> list[Hypothesis]:
    """Return one hypothesis per sentence, extended token by token (greedily, or as `choose` samples)."""
    ids: list[list[int]] = [[] for _ in limits]
    gains: list[list[float]] = [[] for _ in limits]
    for extended in generate_tokens(step, state, limits, choose, rules=rules, device=device):
        for sentence, token, gain in extended:
            ids[sentence].append(token)
            gains[sentence].append(gain)
    return [Hypothesis.scored_by(*each, options.length_penalty) for each in zip(ids, gains, strict=True)]
