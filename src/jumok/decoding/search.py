"""Search: greedy, beam and sampling over a step function; it sees a function and a state, never a model.

Paper: section 6.1: beam 4, length penalty alpha 0.6 in the form score = log P / ((5 + n) / 6)^alpha (Wu et al. 2016),
output at most 50 longer than the input, ended early when possible.  n counts the tokens of the output with its END.

Rows are the hypotheses of all sentences, neighbours of one sentence together.  A sentence that has what it wants
leaves; the state is narrowed to those that go on.

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
from jumok.decoding.hypothesis import NEVER, Hypothesis, penalize
from jumok.decoding.rules import MINUS, Moment, Rule
from jumok.kernels import ops
from jumok.models.base import END, START, State

Step = Callable[[Tensor, State], tuple[Tensor, State]]


def forbid(logits: Tensor, rules: Sequence[Rule], now: Moment, never: Sequence[int] = NEVER) -> Tensor:
    """Close what may not follow, in place; the logarithm (N, 1) of what all tokens together had before."""
    normalizer = ops.normalizer(logits)  # (N, 1)
    logits[:, list(never)] = MINUS
    for rule in rules:
        rule(logits, now)
    return normalizer


def candidates(logits: Tensor, count: int, rules: Sequence[Rule], now: Moment) -> tuple[Tensor, Tensor]:
    """Log-probabilities and tokens (N, C) of the likeliest allowed continuations of every row."""
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

    def take(self, places: Tensor) -> Candidates:
        """Those at these places (B, ·)."""
        sides = (self.origin, self.tokens, self.gain, self.total)
        return Candidates(self.number, *(side.gather(1, places) for side in sides))


@dataclass(frozen=True)
class Ranking:
    """In which order a sentence's candidates come: `places` (B, count) of the first `count` of (B, ·), best first.

    `spare` are the candidates of each hypothesis that it wants beyond twice the beam.
    """

    places: Callable[[Tensor, Tensor, Tensor, int], Tensor]  # of their log P, their tokens and their sentences
    spare: int = 0


HIGHEST = Ranking(lambda total, tokens, number, count: total.topk(count, dim=-1).indices)  # by log P alone


def keep_apart(groups: int, strength: float, spare: int) -> Ranking:
    """Diverse beams (Vijayakumar et al. 2016): block b belongs to sentence b // groups, and a token that an earlier
    group of the sentence has taken at this step ranks lower by `strength`.  Scores stay the model's."""

    def places(total: Tensor, tokens: Tensor, number: Tensor, count: int) -> Tensor:
        chosen = torch.empty(len(total), count, dtype=torch.long, device=total.device)
        taken: dict[int, list[int]] = {}
        for group in range(groups):
            for block in (number % groups == group).nonzero().flatten().tolist():
                before = taken.setdefault(int(number[block]) // groups, [])
                times = (tokens[block][:, None] == torch.tensor(before, device=total.device)).sum(dim=1)
                chosen[block] = (total[block] - strength * times).topk(count).indices
                before += tokens[block][chosen[block][: count // 2]].tolist()
        return chosen

    return Ranking(places, spare)


@dataclass
class Living:
    """The hypotheses of the sentences that go on, W of each."""

    number: Tensor  # (B,) which sentence row block b is
    limit: Tensor  # (B,) the longest it may become
    score: Tensor  # (B, W) log P
    token: Tensor  # (N,) the last token
    history: Tensor  # (B, W, t)
    gains: Tensor  # (B, W, t) log-probability of each token

    @classmethod
    def begin(cls, limits: Sequence[int], width: int, device: torch.device | None) -> Living:
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
        """Twice as many candidates as the beam is wide, so that as many are left when half of them end."""
        count, width = self.score.shape
        now = Moment(self.history.shape[2], self.history.flatten(0, 1), self.number.repeat_interleave(width))
        gain, tokens = candidates(logits, 2 * width + ranking.spare, rules, now)  # (N, C)
        each = gain.shape[-1]
        total, tokens, gain = (x.view(count, width * each) for x in (self.score.view(-1, 1) + gain, tokens, gain))
        places = ranking.places(total, tokens, self.number, min(2 * width, width * each))  # (B, C)
        total, tokens, gain = (x.gather(1, places) for x in (total, tokens, gain))  # (B, C)
        return Candidates(self.number, places // each, tokens, gain, total)

    def follow(self, chosen: Candidates, score: Tensor, keep: Tensor) -> tuple[Living, Tensor]:
        """The sentences `keep` one token later, where (B, W) candidates were chosen, and the rows of the state."""
        history, gains = (
            torch.cat([_follow(past, chosen.origin), new[:, :, None]], dim=2)[keep]
            for past, new in ((self.history, chosen.tokens), (self.gains, chosen.gain))
        )
        first = torch.arange(len(self.number), device=self.number.device)[:, None] * score.shape[1]
        after = Living(self.number[keep], self.limit[keep], score[keep], chosen.tokens[keep].flatten(), history, gains)
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
    """The n best hypotheses of each sentence, best first; limits[b] is the longest output of sentence b.

    A sentence is done when no living hypothesis can still beat the best that ended: its log P only falls, so its
    score can never exceed log P / penalty(limit).  Once as many hypotheses as the beam is wide have ended, it is enough
    that none would beat them by ending now; exact search does without this short cut.  `watch` is told of every step.
    """
    width = options.beam
    if width == 1 and options.n_best == 1 and ranking is HIGHEST and watch is None:
        return [[h] for h in greedy(step, state, limits, options, rules=rules, device=device)]
    state = state.select(torch.arange(len(limits), device=device).repeat_interleave(width))
    living = Living.begin(limits, width, device)
    ended: list[list[Hypothesis]] = [[] for _ in limits]
    for t in range(max(limits)):
        logits, state = step(living.token, state)
        now = living.expand(logits, rules, ranking)
        last = t + 1 >= living.limit  # (B,) no more room after this token
        ending = (now.tokens == END) & (now.total > MINUS)
        ending[:, width:] = False  # only the first W candidates may end
        first = torch.arange(now.total.shape[1], device=device) < width
        closing = ending | (last[:, None] & (now.total > MINUS) & first)
        if closing.any():
            _collect(closing, now, living, ended, options.length_penalty)
        dead = (now.tokens == END) | (now.total == MINUS)  # (B, C)
        order = dead.byte().argsort(dim=-1, stable=True)[:, :width]  # (B, W)
        if watch is not None:
            _report(watch, t, now, closing, dead | closing, order)
        score = now.total.masked_fill(dead, MINUS).gather(1, order)  # (B, W)
        done = last | _done(score.amax(dim=1), now.number, ended, limits, t + 2, options)
        keep = (~done).nonzero().squeeze(1)
        if len(keep) == 0:
            break
        living, rows = living.follow(now.take(order), score, keep)
        state = state.select(rows)
    return [sorted(found, key=lambda h: -h.score)[: options.n_best] for found in ended]


def _report(
    watch: Callable[[Expansion], None], step: int, now: Candidates, closing: Tensor, dead: Tensor, order: Tensor
) -> None:
    """Every sentence's candidates as plain numbers; what is impossible is left out."""
    sides = (*now, closing, dead, order)
    for sentence, *row, ends, gone, kept in zip(*(side.tolist() for side in sides), strict=True):
        real = [c for c, value in enumerate(row[-1]) if value > MINUS]
        place = {c: i for i, c in enumerate(real)}
        origins, ids, gains, totals = ([values[c] for c in real] for values in row)
        living = [place[c] for c in kept if not gone[c]]
        watch(Expansion(sentence, step, origins, ids, gains, totals, [ends[c] for c in real], living))


def _follow(history: Tensor, origin: Tensor) -> Tensor:
    return history.gather(1, origin[:, :, None].expand(-1, -1, history.shape[2]))


def _collect(
    closing: Tensor, now: Candidates, living: Living, ended: list[list[Hypothesis]], length_penalty: float
) -> None:
    """Turn the candidates that close into hypotheses of their sentences."""
    b, which = closing.nonzero(as_tuple=True)
    w = now.origin[b, which]
    sides = (now.number[b], living.history[b, w], living.gains[b, w], *(x[b, which] for x in now[2:]))
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
    """Which sentences (B,) need not go on: their best living log P (B,), stretched to the longest that they may become
    (by one token, where enough have ended), beats none of the best."""
    done = []
    for log_probability, sentence in zip(top.tolist(), number.tolist(), strict=True):
        found = ended[sentence]
        if log_probability == MINUS or len(found) < options.n_best:
            done.append(log_probability == MINUS)
            continue
        kept = sorted((hypothesis.score for hypothesis in found), reverse=True)[options.n_best - 1]
        enough = len(found) >= options.beam and not options.exact
        longest = next_length if enough else limits[sentence]
        done.append(kept >= penalize(log_probability, longest, options.length_penalty))
    return torch.tensor(done, dtype=torch.bool, device=top.device)


Choose = Callable[[Tensor, Tensor, int], Tensor]


@torch.inference_mode()
def tokens_one_by_one(
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

    `choose` gets the allowed logits (N, V), the sentence of each row (N,) and the step, and returns tokens (N,).  What
    is `never` said comes into it only where tokens are drawn.
    """
    number = torch.arange(len(limits), device=device)  # (N,)
    limit = torch.tensor(limits, device=device)
    token = torch.full((len(limits),), START, device=device)
    history = torch.empty(len(limits), 0, dtype=torch.long, device=device)  # (N, t)
    for t in range(max(limits)):
        logits, state = step(token, state)
        now = Moment(t, history, number)
        if choose is likeliest:
            gain, token = (x.squeeze(1) for x in candidates(logits, 1, rules, now))  # (N,)
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


def drawn(uniforms: Tensor, *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> Choose:
    """Draw by inverse transform from the numbers uniforms[sentence, step] in [0, 1); temperature 0 is greedy.

    `top_k` keeps the k likeliest tokens (0 keeps all), `top_p` the fewest that hold a share p of the probability.
    """
    if temperature == 0.0:
        return likeliest

    def spot(share: Tensor, number: Tensor, t: int) -> Tensor:
        """Where the number of each row falls among sums of probabilities (N, V); never on a token that has none."""
        u = uniforms[number, t % uniforms.shape[1]][:, None] * share[:, -1:] * (1.0 - 1e-6)
        return torch.searchsorted(share, u, right=True).clamp(max=share.shape[-1] - 1)

    def choose(logits: Tensor, number: Tensor, t: int) -> Tensor:
        if not top_k and top_p == 1.0:  # any order will do
            return spot((logits / temperature).softmax(dim=-1).cumsum(dim=-1), number, t).squeeze(1)
        ordered, tokens = (logits / temperature).sort(dim=-1, descending=True)  # (N, V)
        if top_k:
            ordered[:, top_k:] = MINUS
        share = ordered.softmax(dim=-1).cumsum(dim=-1)  # (N, V)
        if top_p < 1.0:
            beyond = share.roll(1, dims=-1) >= top_p
            beyond[:, 0] = False
            share = ordered.masked_fill(beyond, MINUS).softmax(dim=-1).cumsum(dim=-1)
        chosen: Tensor = tokens.gather(1, spot(share, number, t)).squeeze(1)
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
    """One hypothesis a sentence, extended token by token (greedily, or as `choose` draws)."""
    ids: list[list[int]] = [[] for _ in limits]
    gains: list[list[float]] = [[] for _ in limits]
    for extended in tokens_one_by_one(step, state, limits, choose, rules=rules, device=device):
        for sentence, token, gain in extended:
            ids[sentence].append(token)
            gains[sentence].append(gain)
    return [Hypothesis.scored_by(*each, options.length_penalty) for each in zip(ids, gains, strict=True)]
