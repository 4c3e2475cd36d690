"""Search: greedy, beam and sampling over a step function; it sees a function and a state, never a model.

Paper: section 6.1: beam 4, length penalty alpha 0.6 in the form score = log P / ((5 + n) / 6)^alpha (Wu et al. 2016),
output at most 50 longer than the input, ended early when possible.  n counts the tokens of the output with its END.

Rows are the hypotheses of all sentences, neighbours of one sentence together.  A sentence that has what it wants
leaves; the state is narrowed to those that go on.

Shapes   B sentences · W beam · N = B·W rows · V vocabulary · C candidates
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from jumok.decoding.graph import Expansion
from jumok.decoding.hypothesis import NEVER, Hypothesis, length_penalty
from jumok.decoding.rules import MINUS, Moment, Rule
from jumok.models.base import END, START, State
from jumok.nn import fused

Step = Callable[[Tensor, State], tuple[Tensor, State]]


def forbid(logits: Tensor, rules: Sequence[Rule], now: Moment, never: Sequence[int] = NEVER) -> Tensor:
    """Close what may not follow, in place; the logarithm (N, 1) of what all tokens together had before."""
    normalizer = fused.normalizer(logits)  # (N, 1)
    logits[:, list(never)] = MINUS
    for rule in rules:
        rule(logits, now)
    return normalizer


def candidates(logits: Tensor, count: int, rules: Sequence[Rule], now: Moment) -> tuple[Tensor, Tensor]:
    """Log-probabilities and tokens (N, C) of the likeliest allowed continuations of every row."""
    if not rules:
        return fused.likeliest(logits, count, torch.tensor(NEVER, device=logits.device))
    normalizer = forbid(logits, rules, now)  # (N, 1)
    top, tokens = logits.topk(min(count, logits.shape[-1]), dim=-1)  # (N, C)
    return top - normalizer, tokens


Rank = Callable[[Tensor, Tensor, Tensor, int], Tensor]


def highest(total: Tensor, tokens: Tensor, number: Tensor, count: int) -> Tensor:
    """The places (B, count) of the highest log P among candidates (B, ·), best first."""
    return total.topk(count, dim=-1).indices


def apart(groups: int, strength: float) -> Rank:
    """Diverse beams (Vijayakumar et al. 2016): block b belongs to sentence b // groups, and a token that an earlier
    group of the sentence has taken at this step ranks lower by `strength`.  Scores stay the model's."""

    def rank(total: Tensor, tokens: Tensor, number: Tensor, count: int) -> Tensor:
        chosen = torch.empty(len(total), count, dtype=torch.long, device=total.device)
        taken: dict[int, list[int]] = {}
        for group in range(groups):
            for block in (number % groups == group).nonzero().flatten().tolist():
                before = taken.setdefault(int(number[block]) // groups, [])
                times = (tokens[block][:, None] == torch.tensor(before, device=total.device)).sum(dim=1)
                chosen[block] = (total[block] - strength * times).topk(count).indices
                before += tokens[block][chosen[block][: count // 2]].tolist()
        return chosen

    return rank


@torch.inference_mode()
def beam(
    step: Step,
    state: State,
    limits: Sequence[int],
    *,
    width: int,
    alpha: float = 0.6,
    best: int = 1,
    exact: bool = False,
    rules: Sequence[Rule] = (),
    rank: Rank = highest,
    spare: int = 0,
    watch: Callable[[Expansion], None] | None = None,
    device: torch.device | None = None,
) -> list[list[Hypothesis]]:
    """The `best` hypotheses of each sentence, best first; limits[b] is the longest output of sentence b.

    A sentence is done when no living hypothesis can still beat the best that ended: its log P only falls, so its
    score can never exceed log P / penalty(limit).  Once `width` hypotheses have ended, it is enough that none would
    beat them by ending now; `exact` does without this short cut.  `rank` may put candidates in another order than that
    of their log P, and then wants some to `spare`; `watch` is told of every step.
    """
    if width == 1 and best == 1 and rank is highest and watch is None:
        return [[h] for h in greedy(step, state, limits, alpha=alpha, rules=rules, device=device)]
    sentences = len(limits)
    state = state.select(torch.arange(sentences, device=device).repeat_interleave(width))
    limit = torch.tensor(limits, device=device)  # (B,)
    number = torch.arange(sentences, device=device)  # (B,) which sentence row block b is
    score = torch.full((sentences, width), MINUS, device=device)  # (B, W) log P of the living
    score[:, 0] = 0.0
    token = torch.full((sentences * width,), START, device=device)
    history = torch.empty(sentences, width, 0, dtype=torch.long, device=device)  # (B, W, t)
    gains = torch.empty(sentences, width, 0, device=device)  # (B, W, t) log-probability of each token
    ended: list[list[Hypothesis]] = [[] for _ in limits]
    for t in range(max(limits)):
        logits, state = step(token, state)
        now = Moment(t, history.flatten(0, 1), number.repeat_interleave(width))
        gain, tokens = candidates(logits, 2 * width + spare, rules, now)  # (N, C)
        count, each = len(number), gain.shape[-1]
        total, tokens, gain = (x.view(count, width * each) for x in (score.view(-1, 1) + gain, tokens, gain))
        flat = rank(total, tokens, number, min(2 * width, width * each))  # (B, C)
        origin = flat // each  # (B, C) which of the W rows it continues
        total, tokens, gain = (x.gather(1, flat) for x in (total, tokens, gain))  # (B, C)
        last = t + 1 >= limit  # (B,) no more room after this token
        ending = (tokens == END) & (total > MINUS)
        ending[:, width:] = False  # only the first W candidates may end
        closing = ending | (last[:, None] & (total > MINUS) & (torch.arange(total.shape[1], device=device) < width))
        if closing.any():
            _collect(closing, origin, tokens, gain, total, history, gains, number, ended, alpha)
        dead = (tokens == END) | (total == MINUS)  # (B, C)
        order = dead.byte().argsort(dim=-1, stable=True)[:, :width]  # (B, W)
        if watch is not None:
            _tell(watch, t, number, origin, tokens, gain, total, closing, dead | closing, order)
        origin, tokens, gain = (x.gather(1, order) for x in (origin, tokens, gain))  # (B, W)
        score = total.masked_fill(dead, MINUS).gather(1, order)  # (B, W)
        done = last | _done(score.amax(dim=1), number, ended, limits, t + 2, alpha, best, 10**9 if exact else width)
        keep = (~done).nonzero().squeeze(1)
        if len(keep) == 0:
            break
        history = torch.cat([_follow(history, origin), tokens[:, :, None]], dim=2)[keep]
        gains = torch.cat([_follow(gains, origin), gain[:, :, None]], dim=2)[keep]
        rows = (origin + torch.arange(count, device=device)[:, None] * width)[keep].flatten()
        number, limit, score, token = number[keep], limit[keep], score[keep], tokens[keep].flatten()
        state = state.select(rows)
    return [sorted(found, key=lambda h: -h.score)[:best] for found in ended]


def _tell(
    watch: Callable[[Expansion], None],
    step: int,
    number: Tensor,
    origin: Tensor,
    tokens: Tensor,
    gain: Tensor,
    total: Tensor,
    closing: Tensor,
    dead: Tensor,
    order: Tensor,
) -> None:
    """Every sentence's candidates as plain numbers; what is impossible is left out."""
    sides = (number, origin, tokens, gain, total, closing, dead, order)
    for sentence, *row, ends, gone, kept in zip(*(side.tolist() for side in sides), strict=True):
        real = [c for c, value in enumerate(row[-1]) if value > MINUS]
        place = {c: i for i, c in enumerate(real)}
        origins, ids, gains, totals = ([values[c] for c in real] for values in row)
        living = [place[c] for c in kept if not gone[c]]
        watch(Expansion(sentence, step, origins, ids, gains, totals, [ends[c] for c in real], living))


def _follow(history: Tensor, origin: Tensor) -> Tensor:
    return history.gather(1, origin[:, :, None].expand(-1, -1, history.shape[2]))


def _collect(
    closing: Tensor,
    origin: Tensor,
    tokens: Tensor,
    gain: Tensor,
    total: Tensor,
    history: Tensor,
    gains: Tensor,
    number: Tensor,
    ended: list[list[Hypothesis]],
    alpha: float,
) -> None:
    """Turn the candidates that close into hypotheses of their sentences."""
    b, which = closing.nonzero(as_tuple=True)
    w = origin[b, which]
    sides = (number[b], history[b, w], gains[b, w], tokens[b, which], gain[b, which], total[b, which])
    for sentence, ids, before, token, last, log_probability in zip(*(side.tolist() for side in sides), strict=True):
        score = log_probability / length_penalty(len(ids) + 1, alpha)
        ended[sentence].append(Hypothesis((*ids, token), score, log_probability, (*before, last)))


def _done(
    top: Tensor,
    number: Tensor,
    ended: list[list[Hypothesis]],
    limits: Sequence[int],
    next_length: int,
    alpha: float,
    best: int,
    enough: int,
) -> Tensor:
    """Which sentences (B,) need not go on: their best living log P (B,), stretched to the longest that they may become
    (by one token, where `enough` have ended), beats none of the best."""
    done = []
    for log_probability, sentence in zip(top.tolist(), number.tolist(), strict=True):
        found = ended[sentence]
        if log_probability == MINUS or len(found) < best:
            done.append(log_probability == MINUS)
            continue
        kept = sorted((hypothesis.score for hypothesis in found), reverse=True)[best - 1]
        longest = limits[sentence] if len(found) < enough else next_length
        done.append(kept >= log_probability / length_penalty(longest, alpha))
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
    *,
    choose: Choose = likeliest,
    alpha: float = 0.6,
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
    totals = [sum(gain) for gain in gains]
    return [
        Hypothesis(tuple(i), total / length_penalty(len(i), alpha), total, tuple(g))
        for i, g, total in zip(ids, gains, totals, strict=True)
    ]
