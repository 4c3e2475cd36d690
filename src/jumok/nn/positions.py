"""Where a token stands: sinusoids, learned vectors, rotation, the bare step number, or nothing.

Paper: section 3.5; the notes' other candidates beside it.  A position class gives the vectors (T, P) of positions
start … start + T - 1; a join class puts them together with the embeddings.  `Rotary` turns queries and keys instead
and is called inside attention.

Shapes   B batch · T positions · D model width · P width of a position vector · H heads · K width of one head
Not here the embeddings themselves and their factor sqrt(d_model) (models/).
"""

import torch
from torch import Tensor, nn

from jumok.nn import fused
from jumok.nn.layers import Dropout


def sinusoid(start: int, length: int, d: int, *, device: torch.device | None = None) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(the same); in double, then rounded: (T, D)."""
    position = torch.arange(start, start + length, dtype=torch.float64, device=device)
    pair = torch.arange(0, d, 2, dtype=torch.float64, device=device)
    angle = position[:, None] / 10_000.0 ** (pair / d)
    table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d]  # (T, D)
    return table.to(torch.get_default_dtype())


class Table(nn.Module):
    """Rows start … start + length of a table that is made once and made anew, longer, when a sentence outgrows it."""

    table: Tensor

    def __init__(self, width: int, *, room: int = 512) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("table", self.make(room, None), persistent=False)

    def make(self, length: int, device: torch.device | None) -> Tensor:
        raise NotImplementedError

    def forward(self, start: int, length: int) -> Tensor:
        if start + length > len(self.table):
            self.table = self.make(2 * (start + length), self.table.device).to(self.table.dtype)
        return self.table[start : start + length]


class Sinusoidal(Table):
    """The paper's fixed sinusoids; any length, no parameters."""

    def __init__(self, d_model: int, longest: int) -> None:
        super().__init__(d_model)

    def make(self, length: int, device: torch.device | None) -> Tensor:
        return sinusoid(0, length, self.width, device=device)


class StepNumber(Table):
    """The notes' naive idea: the position is the number t itself, one extra input (P = 1)."""

    def __init__(self, d_model: int, longest: int) -> None:
        super().__init__(1)

    def make(self, length: int, device: torch.device | None) -> Tensor:
        return torch.arange(length, dtype=torch.get_default_dtype(), device=device)[:, None]


class Learned(nn.Module):
    """One trained vector per position up to `longest` (table 3, row E); beyond it the last vector repeats."""

    def __init__(self, d_model: int, longest: int) -> None:
        super().__init__()
        self.width = d_model
        self.weight = nn.Parameter(torch.randn(longest, d_model) * 0.02)

    def forward(self, start: int, length: int) -> Tensor:
        position = torch.arange(start, start + length, device=self.weight.device)
        return self.weight[position.clamp(max=len(self.weight) - 1)]


class Nowhere(nn.Module):
    """No positions: the encoder sees a bag of words."""

    width = 0

    def __init__(self, d_model: int, longest: int) -> None:
        super().__init__()

    def forward(self, start: int, length: int) -> None:
        return None


class Add(nn.Module):
    """x + p, the paper's way."""

    def __init__(self, d_model: int, width: int) -> None:
        super().__init__()

    def embed(self, table: Tensor, tokens: Tensor, p: Tensor | None, *, scale: float, dropout: Dropout) -> Tensor:
        """dropout(table[tokens] · scale + p)"""
        return fused.embed(table, tokens, p, scale=scale, rate=dropout.now, stream=dropout.stream)


class Concatenate(nn.Module):
    """W [x; p]: the position beside the embedding, mixed back to d_model by a matrix."""

    def __init__(self, d_model: int, width: int) -> None:
        super().__init__()
        self.mix = nn.Linear(d_model + width, d_model, bias=False)
        nn.init.eye_(self.mix.weight)
        nn.init.xavier_uniform_(self.mix.weight.detach()[:, d_model:])

    def forward(self, x: Tensor, p: Tensor) -> Tensor:
        beside = torch.cat([x, p.expand(*x.shape[:-1], -1)], dim=-1)
        mixed: Tensor = self.mix(beside)
        return mixed

    def embed(self, table: Tensor, tokens: Tensor, p: Tensor, *, scale: float, dropout: Dropout) -> Tensor:
        """dropout(W [table[tokens] · scale; p])"""
        dropped: Tensor = dropout(self(fused.embed(table, tokens, None, scale=scale), p))
        return dropped


class Rotary(Table):
    """Turn pairs of coordinates of q and k by pos / 10000^(2i/K), so that q·k feels only the distance (Su et al.)."""

    def __init__(self, d_k: int) -> None:
        super().__init__(d_k)

    def make(self, length: int, device: torch.device | None) -> Tensor:
        """(T, 2, K): the cosine of each coordinate's angle, and the sine with the sign that the turn gives it."""
        sin, cos = sinusoid(0, length, self.width, device=device).unflatten(-1, (-1, 2)).unbind(dim=-1)  # (T, K/2)
        return torch.stack([torch.stack([cos, cos], dim=-1), torch.stack([-sin, sin], dim=-1)], dim=1).flatten(2)

    def turns(self, start: int, length: int) -> Tensor:
        """The angles of positions start, start + 1, … as the attention kernel reads them."""
        return super().forward(start, length)

    def forward(self, x: Tensor, start: int | Tensor) -> Tensor:  # type: ignore[override]
        """x (B, H, T, K), turned by its positions: start, start + 1, …, or, where T is 1, one (B,) for each row."""
        if isinstance(start, int):
            turns = self.turns(start, x.shape[-2])
        else:
            turns = self.turns(0, int(start.max()) + 1)[start[:, None, None]]
        cos, sin = turns.unbind(dim=-2)  # (T, K) or (B, 1, 1, K)
        other = x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)  # the other coordinate of each pair
        return x * cos + other * sin


POSITIONS: dict[str, type[Sinusoidal] | type[Learned] | type[StepNumber] | type[Nowhere]] = {
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "appended": StepNumber,
    "rotary": Nowhere,  # nothing joins the embeddings; attention turns q and k
    "none": Nowhere,
}
JOINS: dict[str, type[Add] | type[Concatenate]] = {"add": Add, "concatenate": Concatenate}
