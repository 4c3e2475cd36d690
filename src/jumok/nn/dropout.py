"""Dropout (section 5.4) and every other random choice of a model, drawn from a stream of keys.

The same key gives the same masks, so an update that is repeated after a crash gives the same bytes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Stream:
    """Random keys, one after the other: from torch's generator, or, once started, from the key given."""

    def __init__(self) -> None:
        self.state: int | None = None

    def start(self, key: int) -> None:
        """Let all later keys follow from this one alone."""
        self.state = key % 2**64

    def next(self) -> int:
        """64 random bits (splitmix64)."""
        if self.state is None:
            return int(torch.empty((), dtype=torch.int64).random_(-(2**63), None)) % 2**64
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        z = (self.state ^ (self.state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)


class Masked(torch.autograd.Function):
    """Dropout from 16 random bits per element: a quarter of the generator's work, exact to 2^-17."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float, key: int) -> Tensor:
        generator = torch.Generator().manual_seed(key)
        bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None, generator=generator)
        threshold = round(rate * 65_536)
        factor = (bits.view(torch.int16)[: x.numel()] >= threshold - 32_768).view(x.shape).to(x.dtype)
        factor.mul_(65_536 / (65_536 - threshold))
        ctx.save_for_backward(factor)
        return x * factor

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (factor,) = ctx.saved_tensors
        return gradient * factor, None, None


def drop(x: Tensor, rate: float, stream: Stream) -> Tensor:
    """Zero a share of the elements and scale the others up."""
    if rate == 0.0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, rate)
    dropped: Tensor = Masked.apply(x, rate, stream.next() >> 1)
    return dropped


class Dropout(nn.Module):
    """Zero a share of the elements in training and scale the others up."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate, self.share, self.stream = rate, 1.0, Stream()

    @property
    def now(self) -> float:
        """The rate in training, or a share of it while it still grows; 0 otherwise."""
        return self.rate * self.share if self.training else 0.0

    def forward(self, x: Tensor) -> Tensor:
        return drop(x, self.now, self.stream)


class Chance(nn.Module):
    """Random numbers that are part of an objective: from the stream of keys in training, otherwise always the same."""

    def __init__(self) -> None:
        super().__init__()
        self.share, self.stream = 1.0, Stream()

    def generator(self) -> torch.Generator:
        """Return a generator for the draws of one pass."""
        seed = self.stream.next() % 2**63 if self.training else 1
        return torch.Generator().manual_seed(seed)


class Dropouts:
    """All randomness of a model at once: one stream of keys, one share of the dropout."""

    def __init__(self, model: nn.Module) -> None:
        self.stream = Stream()
        self.modules = [module for module in model.modules() if isinstance(module, Dropout | Chance)]
        for module in self.modules:
            module.stream = self.stream

    def start(self, key: int, share: float = 1.0) -> None:
        """Masks follow from this key, and rates are this share of the configured ones."""
        self.stream.start(key)
        for module in self.modules:
            module.share = share
