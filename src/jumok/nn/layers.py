"""The rest of a layer: linear and feed-forward networks, norms, and the residual connection around a sub-layer.

Paper: sections 3.1 and 3.3.  `PostNorm` is the paper's residual connection, `FeedForward` equation 2.

Shapes   B batch · T positions · D model width · F feed-forward width
Not here attention (attention.py), dropout (dropout.py), other norms and networks (variants.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch.nn import functional as F

from jumok.nn.dropout import Dropout

if TYPE_CHECKING:
    from jumok.nn.attention import Mask

Sublayer = Callable[[Tensor], Tensor]


class Linear(nn.Linear):
    """x Wᵀ + b for one matrix, or for several of the same input packed into one: `blocks` are their heights."""

    def __init__(self, width: int, *blocks: int, bias: bool = True) -> None:
        self.blocks = blocks
        super().__init__(width, sum(blocks), bias=bias)

    def reset_parameters(self) -> None:
        """Glorot's uniform initialisation for each block as a separate matrix; biases are 0."""
        for block in self.weight.detach().split(self.blocks):
            nn.init.xavier_uniform_(block)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W1 + b1) W2 + b2, the same at every position (equation 2); or with another activation."""

    def __init__(self, d_model: int, d_ff: int, activation: Callable[[Tensor], Tensor] = F.relu) -> None:
        super().__init__()
        self.inner = Linear(d_model, d_ff)
        self.outer = Linear(d_ff, d_model)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.activation(self.inner(x))  # (B, T, F)
        return self.outer(hidden)


class LayerNorm(nn.LayerNorm):
    """Mean 0 and variance 1 over the features of each token, then a learned scale and shift."""

    def forward(self, x: Tensor, mask: Mask | None = None) -> Tensor:
        return super().forward(x)


class NoNorm(nn.Module):
    """The identity: for the end of a post-norm stack, or to measure what norms contribute."""

    def __init__(self, d_model: int) -> None:
        super().__init__()

    def forward(self, x: Tensor, mask: Mask | None = None) -> Tensor:
        return x


class Residual(nn.Module):
    """Norm, dropout and residual sum around a sub-layer; the mask is for BatchNorm alone."""

    def __init__(self, norm: nn.Module, dropout: Dropout) -> None:
        super().__init__()
        self.norm, self.dropout = norm, dropout

    def forward(self, x: Tensor, sublayer: Sublayer, mask: Mask | None = None) -> Tensor:
        raise NotImplementedError


class PostNorm(Residual):
    """LayerNorm(x + Dropout(Sublayer(x))): the paper's, sections 3.1 and 5.4."""

    def forward(self, x: Tensor, sublayer: Sublayer, mask: Mask | None = None) -> Tensor:
        return self.norm(x + self.dropout(sublayer(x)), mask)


class PreNorm(Residual):
    """x + Dropout(Sublayer(LayerNorm(x))): trains without warm-up; the stack ends with one more norm."""

    def forward(self, x: Tensor, sublayer: Sublayer, mask: Mask | None = None) -> Tensor:
        return x + self.dropout(sublayer(self.norm(x, mask)))
