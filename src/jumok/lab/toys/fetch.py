"""Fetching: of ten symbols, k are marked 1 … k; one query must say them all, in the order of their marks.

One softmax makes one mean.  With fewer heads than marked symbols, several of them have to share a mean.

Shapes   B strings · T tokens · D width · H heads · K width of a head
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

SYMBOLS, TOKENS, WIDTH, INNER = 10, 10, 32, 64
STEPS, BATCH, TESTED = 900, 64, 500


class Fetch(nn.Module):
    """One learned query with `heads` heads of WIDTH / heads, a residual connection, a network, a classifier each."""

    def __init__(self, marks: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.symbols, self.marks = nn.Embedding(SYMBOLS, WIDTH), nn.Embedding(marks + 1, WIDTH)
        self.query = nn.Parameter(torch.randn(WIDTH))
        self.q, self.k, self.v, self.mixed = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.net = nn.Sequential(nn.Linear(WIDTH, INNER), nn.ReLU(), nn.Linear(INNER, WIDTH))
        self.output = nn.Linear(WIDTH, marks * SYMBOLS)

    def weigh(self, x: Tensor) -> Tensor:
        """The weights of every head (B, H, T)."""
        q = self.q(self.query).unflatten(-1, (self.heads, -1))  # (H, K)
        k = self.k(x).unflatten(-1, (self.heads, -1))  # (B, T, H, K)
        weights: Tensor = ((k * q).sum(dim=-1) / q.shape[-1] ** 0.5).softmax(dim=1).transpose(1, 2)
        return weights

    def embed(self, symbols: Tensor, marked: Tensor) -> Tensor:
        x: Tensor = self.symbols(symbols) + self.marks(marked)  # (B, T, D)
        return x

    def forward(self, symbols: Tensor, marked: Tensor) -> Tensor:
        x = self.embed(symbols, marked)
        values = self.v(x).unflatten(-1, (self.heads, -1))  # (B, T, H, K)
        mixed = torch.einsum("bht,bthk->bhk", self.weigh(x), values).flatten(1)  # (B, D)
        y = self.query + self.mixed(mixed)
        answer: Tensor = self.output(y + self.net(y)).unflatten(-1, (-1, SYMBOLS))  # (B, k, symbols)
        return answer


def strings(generator: torch.Generator, count: int, marks: int) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Random strings with k marks at random places (0: no mark), and the marked symbols in order."""
    symbols = torch.randint(SYMBOLS, (count, TOKENS), generator=generator)
    places = torch.rand(count, TOKENS, generator=generator).argsort(dim=1)[:, :marks]  # (B, k)
    marked = torch.zeros(count, TOKENS, dtype=torch.long).scatter(
        1, places, torch.arange(1, marks + 1).expand_as(places)
    )
    return (symbols, marked), symbols.gather(1, places)


@torch.no_grad()
def measure_right(module: nn.Module, marks: int, seed: int) -> float:
    """The share of new strings whose marked symbols are all said."""
    inputs, labels = strings(torch.Generator().manual_seed(seed), TESTED, marks)
    return float((module(*inputs).argmax(dim=-1) == labels).all(dim=1).float().mean())


@torch.no_grad()
def measure_roles(module: Fetch, marks: int, seed: int) -> list[list[float]]:
    """The weight that every head gives to each mark, on average (heads, marks)."""
    (symbols, marked), _ = strings(torch.Generator().manual_seed(seed), TESTED, marks)
    weights = module.weigh(module.embed(symbols, marked))  # (B, H, T)
    each = F.one_hot(marked, marks + 1)[..., 1:].float()  # (B, T, k)
    roles: list[list[float]] = (weights @ each).mean(dim=0).tolist()
    return roles


def difference(roles: Sequence[Sequence[float]]) -> float:
    """How different the heads' roles are: half the mean distance of two heads' distributions over the marks, 0 to 1."""
    rows = torch.tensor(roles)
    rows = rows / rows.sum(dim=1, keepdim=True).clamp_min(1e-9)
    pairs = [(rows[a] - rows[b]).abs().sum() / 2 for a in range(len(rows)) for b in range(a)]
    return float(torch.stack(pairs).mean()) if pairs else 0.0


@torch.no_grad()
def chance_of_roles(module: Fetch, marks: int, seed: int, shuffles: int) -> float:
    """How often the roles are as different when the marks of every string change places among themselves."""
    (symbols, marked), _ = strings(torch.Generator().manual_seed(seed), TESTED, marks)
    weights = module.weigh(module.embed(symbols, marked))  # (B, H, T)
    each = weights @ F.one_hot(marked, marks + 1)[..., 1:].float()  # (B, H, k)
    observed, generator = difference(each.mean(dim=0).tolist()), torch.Generator().manual_seed(seed)
    as_good = 0
    for _ in range(shuffles):
        order = torch.rand(len(each), 1, marks, generator=generator).argsort(dim=-1).expand_as(each)
        as_good += difference(each.gather(2, order).mean(dim=0).tolist()) >= observed
    return (1 + as_good) / (1 + shuffles)


@torch.no_grad()
def make_alike(module: Fetch) -> None:
    """Make every head a copy of the first."""
    for part in (module.q, module.k, module.v):
        for parameter in (part.weight, part.bias):
            by_head = parameter.unflatten(0, (module.heads, -1))
            by_head[1:] = by_head[:1].clone()
