"""What stands between the attentions: feed-forward nets, norms, dropout, and the residual path around a sub-layer.

Paper: sections 3.1, 3.3 and 5.4.  A sub-layer begins with a matrix and ends with one; `PostNorm` and `PreNorm` are the
two paths around it.  `keep` (B, T) is True at real tokens; only `BatchNorm`, which looks across sentences, needs it.

Shapes   B batch · T positions · D model width · F feed-forward width
Not here attention (attention.py), the order of sub-layers (models/).
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jumok.nn import fused


class Dropout(nn.Module):
    """Zero a share of the elements in training and scale the others up; the masks come from a stream of keys."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate, self.share, self.stream = rate, 1.0, fused.Stream()

    @property
    def now(self) -> float:
        """The rate as it is in training, or a share of it while it still grows; 0 in use."""
        return self.rate * self.share if self.training else 0.0

    def forward(self, x: Tensor) -> Tensor:
        return fused.dropout(x, self.now, self.stream)


class Chance(nn.Module):
    """Random numbers that are part of an objective: by the stream of keys in training, always the same in use."""

    def __init__(self) -> None:
        super().__init__()
        self.share, self.stream = 1.0, fused.Stream()

    def generator(self) -> torch.Generator:
        """A generator for the draws of one pass."""
        seed = self.stream.next() % 2**63 if self.training else 1
        return torch.Generator().manual_seed(seed)


class Dropouts:
    """All chance of a model at once: one stream of keys, one share of the dropout."""

    def __init__(self, model: nn.Module) -> None:
        self.stream = fused.Stream()
        self.modules = [module for module in model.modules() if isinstance(module, Dropout | Chance)]
        for module in self.modules:
            module.stream = self.stream

    def start(self, key: int, share: float = 1.0) -> None:
        """Masks follow from this key, and rates are this share of what they will be."""
        self.stream.start(key)
        for module in self.modules:
            module.share = share


class Linear(nn.Linear):
    """x Wᵀ + b for one matrix, or for several of the same input packed into one: `blocks` are their heights."""

    def __init__(self, width: int, *blocks: int, bias: bool = True) -> None:
        self.blocks = blocks
        super().__init__(width, sum(blocks), bias=bias)

    def reset_parameters(self) -> None:
        """Glorot's uniform initialisation for each block as a matrix of its own; biases are 0."""
        for block in self.weight.detach().split(self.blocks):
            nn.init.xavier_uniform_(block)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, *, relu: bool = False) -> Tensor:
        return fused.linear(x, self.weight, self.bias, relu=relu)


class LayerNorm(nn.LayerNorm):
    """Mean 0 and variance 1 over the features of each token, then a learned scale and shift."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        return fused.layer_norm(x, self.weight, self.bias, self.eps)


class RMSNorm(nn.RMSNorm):
    """Root mean square 1 over the features of each token, then a learned scale."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model, eps=1e-5)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        return super().forward(x)


class BatchNorm(nn.Module):
    """Mean 0 and variance 1 of each feature over all real tokens of the batch: what the notes set against LayerNorm.

    Training uses the batch's own statistics, so sentences influence each other; evaluation uses running ones.
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

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        mean, variance = self.mean, self.variance
        if self.training:
            tokens = x.flatten(0, -2) if keep is None else x[keep]
            mean, variance = tokens.mean(dim=0), tokens.var(dim=0, unbiased=False)
            with torch.no_grad():
                self.mean.lerp_(mean, self.momentum)
                self.variance.lerp_(variance, self.momentum)
        return (x - mean) * (variance + self.eps).rsqrt() * self.weight + self.bias


class NoNorm(nn.Module):
    """Nothing: to see what the norm is for."""

    def __init__(self, d_model: int) -> None:
        super().__init__()

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        return x


NORMS: dict[str, Callable[[int], nn.Module]] = {
    "layer": LayerNorm,
    "rms": RMSNorm,
    "batch": BatchNorm,
    "none": NoNorm,
}


class Path:
    """How a sub-layer is entered, through its first matrix, and left, through its last; here, nothing stands around it.

    A sub-layer is `path.leave(x, …path.enter(x, first)…, last)`.  Norm, dropout and residual sum thus go together with
    the matrix beside them, and what they pass on never leaves the core.
    """

    def enter(self, x: Tensor, first: Linear, keep: Tensor | None = None, *, relu: bool = False) -> Tensor:
        out: Tensor = first(x, relu=relu)
        return out

    def leave(self, x: Tensor, y: Tensor, last: Linear, keep: Tensor | None = None) -> Tensor:
        out: Tensor = last(y)
        return out


BARE = Path()


class PostNorm(nn.Module, Path):
    """Norm(x + Dropout(Sublayer(x))): the paper's order.  Without `residual`, x is left out of the sum."""

    def __init__(self, norm: nn.Module, dropout: Dropout, *, residual: bool) -> None:
        super().__init__()
        self.norm, self.dropout, self.residual = norm, dropout, residual

    def leave(self, x: Tensor, y: Tensor, last: Linear, keep: Tensor | None = None) -> Tensor:
        out: Tensor = self.norm(self.join(x, y, last), keep)
        return out

    def join(self, x: Tensor, y: Tensor, last: Linear) -> Tensor:
        """x + Dropout(last(y))"""
        return fused.linear(
            y, last.weight, last.bias, residual=x if self.residual else None, rate=self.dropout.now,
            stream=self.dropout.stream,
        )  # fmt: skip


class PreNorm(PostNorm):
    """x + Dropout(Sublayer(Norm(x))): trains without warm-up; the stack ends with one more norm."""

    def enter(self, x: Tensor, first: Linear, keep: Tensor | None = None, *, relu: bool = False) -> Tensor:
        if isinstance(self.norm, LayerNorm):
            return fused.linear(x, first.weight, first.bias, norm=self.norm, relu=relu)
        return super().enter(self.norm(x, keep), first, relu=relu)

    def leave(self, x: Tensor, y: Tensor, last: Linear, keep: Tensor | None = None) -> Tensor:
        return self.join(x, y, last)


PATHS: dict[str, type[PostNorm]] = {"post": PostNorm, "pre": PreNorm}


class FeedForward(nn.Module):
    """activation(x W1 + b1) W2 + b2, the same at every position (equation 2)."""

    def __init__(self, d_model: int, d_ff: int, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner = Linear(d_model, d_ff)
        self.outer = Linear(d_ff, d_model)
        self.activation = activation

    def forward(self, x: Tensor, path: Path = BARE, keep: Tensor | None = None) -> Tensor:
        return path.leave(x, self.activation(path.enter(x, self.inner, keep)), self.outer, keep)


class ReluFeedForward(FeedForward):
    """max(0, x W1 + b1) W2 + b2: the paper's, with relu done where the product is made."""

    def forward(self, x: Tensor, path: Path = BARE, keep: Tensor | None = None) -> Tensor:
        return path.leave(x, path.enter(x, self.inner, keep, relu=True), self.outer, keep)


class GatedFeedForward(nn.Module):
    """(swish(x W) ⊙ x V) W2 with no biases (SwiGLU, Shazeer 2020); two thirds of d_ff keep the parameter count."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        inner = max(1, round(d_ff * 2 / 3))
        self.inner = Linear(d_model, inner, inner, bias=False)
        self.outer = Linear(inner, d_model, bias=False)

    def forward(self, x: Tensor, path: Path = BARE, keep: Tensor | None = None) -> Tensor:
        gate, value = path.enter(x, self.inner, keep).chunk(2, dim=-1)
        return path.leave(x, F.silu(gate) * value, self.outer, keep)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu-tanh": partial(F.gelu, approximate="tanh"),  # GPT-2's
    "linear": lambda x: x,  # two matrices in a row, which are one: to see what a non-linearity is for
}


def feed_forward(activation: str, d_model: int, d_ff: int) -> nn.Module:
    """The feed-forward net of a recipe's `activation`: relu (paper), gelu, gelu-tanh, swiglu or linear."""
    if activation == "swiglu":
        return GatedFeedForward(d_model, d_ff)
    if activation == "relu":
        return ReluFeedForward(d_model, d_ff, F.relu)
    return FeedForward(d_model, d_ff, ACTIVATIONS[activation])
