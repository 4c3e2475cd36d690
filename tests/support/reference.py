"""Search without a cache, without batches, without tensors of hypotheses: what every feature of decoding must equal.

Each step reads the whole sentence again, and a hypothesis is a tuple of ids.  Slow and plain on purpose.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from jumok.models.base import END, START
from jumok.text.symbols import NEVER

Ids = tuple[int, ...]
Forbids = Callable[[Ids, int], bool]  # may this token follow these?


@dataclass
class Reference:
    """A model asked one sentence and one prefix at a time."""

    model: torch.nn.Module
    source: Sequence[int]
    forbids: Sequence[Forbids] = ()
    known: dict[Ids, list[float]] = field(default_factory=dict)

    def logs(self, ids: Ids) -> list[float]:
        """Log-probabilities of all tokens after these; minus infinity where a rule forbids."""
        if ids not in self.known:
            with torch.no_grad():
                hidden = self.model.hidden(torch.tensor([[*self.source, END]]), torch.tensor([[START, *ids]]))
                logs = self.model.project(hidden[:, -1]).log_softmax(dim=-1)[0].tolist()
            for token in range(len(logs)):
                if token in NEVER or any(forbids(ids, token) for forbids in self.forbids):
                    logs[token] = -float("inf")
            self.known[ids] = logs
        return self.known[ids]

    def total(self, ids: Ids) -> float:
        return sum(self.logs(ids[:t])[token] for t, token in enumerate(ids))

    def continuations(self, ids: Ids, total: float) -> list[tuple[float, Ids]]:
        return [(total + log, (*ids, token)) for token, log in enumerate(self.logs(ids)) if log > -float("inf")]


def penalty(length: int, alpha: float) -> float:
    return ((5.0 + length) / 6.0) ** alpha


def beam_search(
    ask: Reference, limit: int, *, width: int, alpha: float, best: int = 1, exact: bool = False
) -> list[tuple[Ids, float]]:
    """The `best` sentences and their scores."""
    living: list[tuple[float, Ids]] = [(0.0, ())]
    ended: list[tuple[float, Ids]] = []
    for t in range(limit):
        found = sorted((one for total, ids in living for one in ask.continuations(ids, total)), reverse=True)
        found = found[: 2 * width]
        last = t + 1 == limit
        for total, ids in found[:width]:
            if ids[-1] == END or last:
                ended.append((total / penalty(len(ids), alpha), ids))
        living = [one for one in found if one[1][-1] != END][:width]
        if last or not living:
            break
        if len(ended) >= best:
            kept = sorted(ended, reverse=True)[best - 1][0]
            longest = limit if exact or len(ended) < width else t + 2
            if kept >= living[0][0] / penalty(longest, alpha):
                break
    return [(ids, score) for score, ids in sorted(ended, reverse=True)[:best]]


def greedy_search(ask: Reference, limit: int) -> Ids:
    ids: Ids = ()
    while len(ids) < limit and (not ids or ids[-1] != END):
        logs = ask.logs(ids)
        ids = (*ids, max(range(len(logs)), key=logs.__getitem__))
    return ids


def begins_with(prefix: Ids) -> Forbids:
    return lambda ids, token: len(ids) < len(prefix) and token != prefix[len(ids)]


def repeats(size: int) -> Forbids:
    def forbids(ids: Ids, token: int) -> bool:
        grams = [ids[i : i + size] for i in range(len(ids) - size + 1)]
        return (*ids, token)[-size:] in grams if len(ids) + 1 >= size else False

    return forbids


def too_short(length: int) -> Forbids:
    return lambda ids, token: token == END and len(ids) < length
