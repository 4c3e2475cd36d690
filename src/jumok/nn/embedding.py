"""Token ids to vectors: a table, positions, dropout: the lowest boxes of figure 1, sections 3.4, 3.5 and 5.4.

Shapes   B batch · T positions · D model width · V vocabulary
Not here the positions themselves (positions.py, variants.py).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jumok.nn.dropout import Dropout


def draw_table(symbols: int, d_model: int, *, spread: float) -> nn.Parameter:
    """A table (V, D) from a normal distribution of this standard deviation."""
    return nn.Parameter(nn.init.normal_(torch.empty(symbols, d_model), std=spread))


class Embedding(nn.Module):
    """dropout(scale · table[token] + position); the paper's scale is sqrt(d_model)."""

    def __init__(
        self, weight: nn.Parameter, positions: nn.Module, join: nn.Module, dropout: Dropout, *, scale: float
    ) -> None:
        super().__init__()
        self.scale, self.weight = scale, weight  # (V, D)
        self.positions, self.join, self.dropout = positions, join, dropout

    def forward(self, tokens: Tensor, start: int = 0) -> Tensor:
        """Tokens (B, T) at positions start, start + 1, … as vectors (B, T, D)."""
        x = F.embedding(tokens, self.weight) * self.scale  # (B, T, D)
        x = self.join(x, self.positions(start, tokens.shape[-1]))  # (B, T, D)
        return self.dropout(x)
