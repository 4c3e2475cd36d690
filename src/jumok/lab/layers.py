"""The five kinds of layers of table 1, built from a width: attention, full and restricted, recurrence, convolutions.

Every layer takes (B, T, D) to (B, T, D), in plain torch, so that what is counted is what runs.

Shapes   B batch · H heads · T positions · D width · K width of a head · R positions in a window
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jumok.models import bytenet, convs2s, rnn
from jumok.nn.attention import EVERYTHING, SelfAttention, merge_heads
from jumok.nn.variants import SCORES

HEADS, KERNEL, NEAR = 4, 5, 17  # heads of an attention, taps of a convolution, positions of a restricted attention


class Layer(nn.Module):
    """A layer of one kind, built from a width, a window (0 without) and its depth in the stack."""

    mixes = "addmm"  # the operation that mixes positions

    def begin(self, x: Tensor) -> Tensor:
        """The input of the first round."""
        return x

    def round(self, x: Tensor, y: Tensor) -> Tensor:
        """The result (1, T, D) of one more round."""
        deeper: Tensor = self(y)
        return deeper


class Full(Layer):
    """Self-attention as in equation 1: every position attends to every other."""

    mixes = "bmm"  # its projections mix no positions; the table leaves them out

    def __init__(self, d: int, window: int, depth: int = 0) -> None:
        super().__init__()
        self.inner = SelfAttention(d, HEADS, d // HEADS, d // HEADS, score=SCORES["scaled-dot"], bias=True)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner(x, EVERYTHING)
        return result


class Restricted(Full):
    """Self-attention in which each position computes products only with the `window` around it."""

    def __init__(self, d: int, window: int, depth: int = 0) -> None:
        super().__init__(d, window)
        self.window = window

    def forward(self, x: Tensor) -> Tensor:
        half, inner = self.window // 2, self.inner
        q, *others = inner.split(x)
        keys, values = (F.pad(side, (0, 0, half, half)).unfold(2, self.window, 1) for side in others)  # (B, H, T, K, R)
        positions = torch.arange(x.shape[1])[:, None] + torch.arange(-half, half + 1)  # (T, R)
        there = ((positions >= 0) & (positions < x.shape[1]))[:, None]  # (T, 1, R)
        scores = (q * (q.shape[-1] ** -0.5)).unsqueeze(-2) @ keys  # (B, H, T, 1, R)
        weights = scores.masked_fill(~there, -torch.inf).softmax(dim=-1)  # (B, H, T, 1, R)
        mixed = weights @ values.transpose(-2, -1)  # (B, H, T, 1, K)
        result: Tensor = inner.output(merge_heads(mixed.squeeze(-2)))
        return result


class Recurrent(Layer):
    """Gated recurrent units; a round carries every state one position further."""

    def __init__(self, d: int, window: int, depth: int = 0) -> None:
        super().__init__()
        self.inner = rnn.GRU(d, d, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner.whole(x)[0]
        return result

    def begin(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)

    def round(self, x: Tensor, y: Tensor) -> Tensor:
        before = F.pad(y[:, :-1], (0, 0, 1, 0))  # the state before each position
        result: Tensor = self.inner.whole(x.transpose(0, 1), before.contiguous())[0].transpose(0, 1)
        return result


class Windows(Layer):
    """The gated convolution of ConvS2S's decoder over `window` positions, of which the last is the current one."""

    def __init__(self, d: int, window: int, depth: int = 0) -> None:
        super().__init__()
        self.inner = convs2s.GatedConvolution(convs2s.ConvS2SConfig(d_model=d, kernel=window, dropout=0.0))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner(x, self.inner.gated.matrix(), before=self.inner.kernel - 1)
        return result


class Dilated(Layer):
    """The convolution of ByteNet's decoder, whose dilation grows by a factor of `window` per layer."""

    def __init__(self, d: int, window: int, depth: int = 0) -> None:
        super().__init__()
        self.inner = bytenet.DilatedConvolution(d, bytenet.back(window, window**depth))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner(x)
        return result


KINDS: dict[str, tuple[type[Layer], int]] = {
    "attention": (Full, 0),
    "recurrent": (Recurrent, 0),
    "convolution": (Windows, KERNEL),
    "dilated": (Dilated, KERNEL),
    "restricted": (Restricted, NEAR),
}
