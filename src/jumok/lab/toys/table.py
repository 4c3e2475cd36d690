"""An arbitrary table: the layer reads two symbols and must say the value of f(a, b), which follows no rule.

No linear map of what two symbols bring can hold such a table.  Four layers try: attention with fixed or with learned
weights, and after it a network with or without ReLU; there is no layer norm, which would bend as well.

Shapes   B pairs · D width
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

SYMBOLS, WIDTH, INNER, STEPS = 8, 32, 128, 700
CELLS = tuple((weights, net) for weights in ("frozen", "softmax") for net in ("linear", "relu"))


class Reader(nn.Module):
    """A query reads two symbols by attention; a network of two matrices follows, both with residual connections."""

    def __init__(self, weights: str, net: str) -> None:
        super().__init__()
        self.frozen = weights == "frozen"
        self.first, self.second = nn.Embedding(SYMBOLS, WIDTH), nn.Embedding(SYMBOLS, WIDTH)
        self.query = nn.Parameter(torch.randn(WIDTH))
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        between = nn.ReLU() if net == "relu" else nn.Identity()
        self.net = nn.Sequential(nn.Linear(WIDTH, INNER), between, nn.Linear(INNER, WIDTH))
        self.output = nn.Linear(WIDTH, SYMBOLS)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        query = self.query.expand(len(a), 1, WIDTH)
        tokens = torch.cat([self.first(a)[:, None], self.second(b)[:, None], query], dim=1)  # (B, 3, D)
        scores = self.q(query) @ self.k(tokens).transpose(1, 2) / WIDTH**0.5  # (B, 1, 3)
        weights = torch.full_like(scores, 1 / 3) if self.frozen else scores.softmax(dim=-1)
        x = (query + weights @ self.v(tokens))[:, 0]  # (B, D)
        answer: Tensor = self.output(x + self.net(x))
        return answer


def draw_table(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """All pairs of symbols, and an arbitrary value for each."""
    pairs = torch.cartesian_prod(torch.arange(SYMBOLS), torch.arange(SYMBOLS))
    values = torch.randint(SYMBOLS, (len(pairs),), generator=torch.Generator().manual_seed(seed))
    return pairs[:, 0], pairs[:, 1], values


@torch.no_grad()
def measure_right(module: nn.Module, seed: int) -> float:
    """The share of the table that a layer has right."""
    a, b, values = draw_table(seed)
    return float((module(a, b).argmax(dim=-1) == values).float().mean())
