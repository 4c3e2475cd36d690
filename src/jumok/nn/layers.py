"""What stands between the attentions: feed-forward nets, norms, dropout, and the residual path around a sub-layer.

Paper: sections 3.1, 3.3 and 5.4.  A sub-layer is any function from (B, T, D) to (B, T, D); `PostNorm` and `PreNorm`
are the two ways to wrap one.  `keep` (B, T) is True at real tokens; only `BatchNorm`, which looks across sentences,
needs it.

Shapes   B batch · T positions · D model width · F feed-forward width
Not here attention (attention.py), the order of sub-layers (models/).
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Sublayer = Callable[[Tensor], Tensor]


class CheapDropout(torch.autograd.Function):
    """Dropout from 16 random bits an element: a quarter of the generator's work, the rate exact to 2^-17."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, rate: float) -> Tensor:
        bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
        threshold = round(rate * 65_536)
        factor = (bits[: x.numel()] >= threshold - 32_768).view(x.shape).to(x.dtype)
        factor.mul_(65_536 / (65_536 - threshold))
        ctx.save_for_backward(factor)
        return x * factor

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> tuple[Tensor, None]:
        (factor,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return gradient * factor, None


class Dropout(nn.Module):
    """Zero a share of the elements in training and scale the others up; the mask comes from torch's generator."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0.0:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(x, self.rate)
        dropped: Tensor = CheapDropout.apply(x, self.rate)
        return dropped


class FeedForward(nn.Module):
    """activation(x W1 + b1) W2 + b2, the same at every position (equation 2)."""

    def __init__(self, d_model: int, d_ff: int, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)
        self.activation = activation
        for linear in (self.inner, self.outer):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.outer(self.activation(self.inner(x)))
        return out


class GatedFeedForward(nn.Module):
    """(swish(x W) ⊙ x V) W2 with no biases (SwiGLU, Shazeer 2020); two thirds of d_ff keep the parameter count."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        inner = max(1, round(d_ff * 2 / 3))
        self.inner = nn.Linear(d_model, 2 * inner, bias=False)
        self.outer = nn.Linear(inner, d_model, bias=False)
        for block in self.inner.weight.detach().chunk(2):
            nn.init.xavier_uniform_(block)
        nn.init.xavier_uniform_(self.outer.weight)

    def forward(self, x: Tensor) -> Tensor:
        gate, value = self.inner(x).chunk(2, dim=-1)
        out: Tensor = self.outer(F.silu(gate) * value)
        return out


def feed_forward(activation: str, d_model: int, d_ff: int) -> nn.Module:
    """The feed-forward net of a recipe's `activation`: relu (paper), gelu or swiglu."""
    if activation == "swiglu":
        return GatedFeedForward(d_model, d_ff)
    activations: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}
    return FeedForward(d_model, d_ff, activations[activation])


class LayerNorm(nn.LayerNorm):
    """Mean 0 and variance 1 over the features of each token, then a learned scale and shift."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        return super().forward(x)


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


def add(x: Tensor, y: Tensor) -> Tensor:
    """The residual connection."""
    return x + y


def replace(x: Tensor, y: Tensor) -> Tensor:
    """No residual connection: the sub-layer's output stands alone."""
    return y


class PostNorm(nn.Module):
    """Norm(x + Dropout(Sublayer(x))): the paper's order."""

    def __init__(self, norm: nn.Module, dropout: Dropout, join: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.norm, self.dropout, self.join = norm, dropout, join

    def forward(self, x: Tensor, sublayer: Sublayer, keep: Tensor | None = None) -> Tensor:
        out: Tensor = self.norm(self.join(x, self.dropout(sublayer(x))), keep)
        return out


class PreNorm(PostNorm):
    """x + Dropout(Sublayer(Norm(x))): trains without warm-up; the stack ends with one more norm."""

    def forward(self, x: Tensor, sublayer: Sublayer, keep: Tensor | None = None) -> Tensor:
        return self.join(x, self.dropout(sublayer(self.norm(x, keep))))


WRAPS: dict[str, type[PostNorm]] = {"post": PostNorm, "pre": PreNorm}
