"""What the paper compares its parts with, and what came later: scores, norms, networks, positions; and their names.

Each class takes the place of one of the paper's: a recipe names it, a table below finds it, nothing else knows of it.

Shapes   B batch · T positions · D model width · P width of a position vector · H heads · K width of one head
Not here the paper's own parts (attention.py, layers.py, positions.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jumok.nn.attention import MakeScore, Mask, scaled_dot
from jumok.nn.layers import FeedForward, LayerNorm, Linear, NoNorm, PostNorm, PreNorm, Residual, Sublayer
from jumok.nn.positions import Add, Sinusoidal, Table, sinusoid

# --------------------------------------------------------------------------------------- scores of attention


@dataclass(frozen=True)
class Dot:
    """q kᵀ times any scale; with 1, what the paper says saturates the softmax when d_k is large."""

    scale: float = 1.0

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1) * self.scale


class Additive(nn.Module):
    """w · tanh(q + k): the score of Bahdanau et al. (2015), one hidden layer per head."""

    def __init__(self, heads: int, d_k: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, d_k).uniform_(-(d_k**-0.5), d_k**-0.5))

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        hidden = torch.tanh(q.unsqueeze(-2) + k.unsqueeze(-3))  # (B, H, T, S, K)
        return torch.einsum("bhtsk,hk->bhts", hidden, self.weight)


SCORES: dict[str, MakeScore] = {
    "scaled-dot": lambda heads, d_k: scaled_dot,
    "dot": lambda heads, d_k: Dot(),
    "additive": Additive,
}

# --------------------------------------------------------------------------------------- feed-forward networks


class GatedFeedForward(nn.Module):
    """(swish(x W) ⊙ x V) W2 with no biases (SwiGLU, Shazeer 2020); two thirds of d_ff keep the parameter count."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        inner = max(1, round(d_ff * 2 / 3))
        self.inner = Linear(d_model, inner, inner, bias=False)
        self.outer = Linear(inner, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, value = self.inner(x).chunk(2, dim=-1)
        return self.outer(F.silu(gate) * value)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": partial(F.gelu, approximate="tanh"),  # GPT-2's
    "linear": lambda x: x,  # two matrices in a row are one: to measure what the non-linearity contributes
}


def feed_forward(activation: str, d_model: int, d_ff: int) -> FeedForward | GatedFeedForward:
    """Make the feed-forward network of a recipe's `activation`: relu (the paper's), gelu, gelu-tanh, swiglu, linear."""
    if activation == "swiglu":
        return GatedFeedForward(d_model, d_ff)
    return FeedForward(d_model, d_ff, ACTIVATIONS[activation])


# ------------------------------------------------------------------------------------------------------ norms


class RMSNorm(nn.RMSNorm):
    """Root mean square 1 over the features of each token, then a learned scale."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model, eps=1e-5)

    def forward(self, x: Tensor, mask: Mask | None = None) -> Tensor:
        return super().forward(x)


class BatchNorm(nn.Module):
    """Mean 0 and variance 1 of each feature over all real tokens of the batch, as opposed to LayerNorm.

    Training uses the statistics of the batch, so sentences influence each other; evaluation uses running ones.
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, d_model: int, *, momentum: float = 0.1, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("mean", torch.zeros(d_model))
        self.register_buffer("variance", torch.ones(d_model))
        self.momentum, self.eps = momentum, eps

    def forward(self, x: Tensor, mask: Mask | None = None) -> Tensor:
        mean, variance = self.mean, self.variance
        if self.training:
            tokens = x.flatten(0, -2) if mask is None or mask.real is None else x[mask.real]
            mean, variance = tokens.mean(dim=0), tokens.var(dim=0, unbiased=False)
            with torch.no_grad():
                self.mean.lerp_(mean, self.momentum)
                self.variance.lerp_(variance, self.momentum)
        return (x - mean) * (variance + self.eps).rsqrt() * self.weight + self.bias


NORMS: dict[str, Callable[[int], nn.Module]] = {
    "layer": LayerNorm,
    "rms": RMSNorm,
    "batch": BatchNorm,
    "none": NoNorm,
}

# ------------------------------------------------------------------------------------- residual connections


class PostNormAlone(Residual):
    """LayerNorm(Dropout(Sublayer(x))): no residual connection, to measure what it contributes."""

    def forward(self, x: Tensor, sublayer: Sublayer, mask: Mask | None = None) -> Tensor:
        return self.norm(self.dropout(sublayer(x)), mask)


class PreNormAlone(Residual):
    """Dropout(Sublayer(LayerNorm(x))): no residual connection."""

    def forward(self, x: Tensor, sublayer: Sublayer, mask: Mask | None = None) -> Tensor:
        return self.dropout(sublayer(self.norm(x, mask)))


RESIDUALS: dict[tuple[str, bool], type[Residual]] = {  # by the place of the norm and whether x is added
    ("post", True): PostNorm,
    ("pre", True): PreNorm,
    ("post", False): PostNormAlone,
    ("pre", False): PreNormAlone,
}

# -------------------------------------------------------------------------------------------------- positions


class StepNumber(Table):
    """The naive idea: the position is the number t itself, one extra input (P = 1)."""

    def __init__(self, d_model: int, longest: int) -> None:
        super().__init__(1, number(self.rows))

    def make(self, length: int, device: torch.device | None) -> Tensor:
        return number(length, device)


def number(length: int, device: torch.device | None = None) -> Tensor:
    """0, 1, 2, … as a column (T, 1)."""
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


class Concatenate(nn.Module):
    """W [x; p]: the position beside the embedding, mixed back to d_model by a matrix."""

    def __init__(self, d_model: int, width: int) -> None:
        super().__init__()
        self.mix = nn.Linear(d_model + width, d_model, bias=False)
        nn.init.eye_(self.mix.weight)
        nn.init.xavier_uniform_(self.mix.weight.detach()[:, d_model:])

    def forward(self, x: Tensor, p: Tensor) -> Tensor:
        joined = torch.cat([x, p.expand(*x.shape[:-1], -1)], dim=-1)
        mixed: Tensor = self.mix(joined)
        return mixed


def rotations(length: int, d_k: int, device: torch.device | None = None) -> Tensor:
    """(T, 2, K): the cosine of each coordinate's angle, and the sine with the sign that the turn gives it."""
    sin, cos = sinusoid(0, length, d_k, device=device).unflatten(-1, (-1, 2)).unbind(dim=-1)  # (T, K/2)
    return torch.stack([torch.stack([cos, cos], dim=-1), torch.stack([-sin, sin], dim=-1)], dim=1).flatten(2)


class Rotary(Table):
    """Turn pairs of coordinates of q and k by pos / 10000^(2i/K), so that q·k feels only the distance (Su et al.)."""

    def __init__(self, d_k: int) -> None:
        super().__init__(d_k, rotations(self.rows, d_k))

    def make(self, length: int, device: torch.device | None) -> Tensor:
        return rotations(length, self.width, device)

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
