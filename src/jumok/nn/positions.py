"""Where a token is: the sinusoids of section 3.5, added to the embeddings.

Shapes   T positions · D model width
Not here other positions, such as rotary or learned ones (variants.py); the embeddings themselves (models/).
"""

import torch
from torch import Tensor, nn


def sinusoid(start: int, length: int, d: int, *, device: torch.device | None = None) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(the same); in double, then rounded: (T, D)."""
    position = torch.arange(start, start + length, dtype=torch.float64, device=device)
    pair = torch.arange(0, d, 2, dtype=torch.float64, device=device)
    angle = position[:, None] / 10_000.0 ** (pair / d)
    table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d]  # (T, D)
    return table.to(torch.get_default_dtype())


class Table(nn.Module):
    """Rows start … start + length of a table that is made once, and again when a sentence outgrows it."""

    rows = 512  # until a sentence outgrows it
    table: Tensor

    def __init__(self, width: int, table: Tensor) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("table", table, persistent=False)

    def make(self, length: int, device: torch.device | None) -> Tensor:
        raise NotImplementedError

    def forward(self, start: int, length: int) -> Tensor:
        if start + length > len(self.table):
            self.table = self.make(2 * (start + length), self.table.device).to(self.table.dtype)
        return self.table[start : start + length]


class Sinusoidal(Table):
    """The paper's fixed sinusoids; any length, no parameters."""

    def __init__(self, d_model: int, longest: int) -> None:
        super().__init__(d_model, sinusoid(0, self.rows, d_model))

    def make(self, length: int, device: torch.device | None) -> Tensor:
        return sinusoid(0, length, self.width, device=device)


class Add(nn.Module):
    """x + p, the paper's way; where there is no p, x."""

    def __init__(self, d_model: int, width: int) -> None:
        super().__init__()

    def forward(self, x: Tensor, p: Tensor | None) -> Tensor:
        return x if p is None else x + p
