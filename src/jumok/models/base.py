"""All that training and search may know about an architecture.

A model knows sizes, not vocabularies or losses; search knows `start` and `step`, not the model.

Shapes   B batch · S source · T target · N rows (hypotheses) · D width · V target vocabulary · L layers · H heads
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

from torch import Tensor

from jumok.text.symbols import CLASS, END, MASK, PAD, SEPARATOR, SPECIALS, START, UNKNOWN

__all__ = [
    "CLASS", "END", "MASK", "PAD", "SEPARATOR", "SPECIALS", "START", "UNKNOWN",
    "Attention", "Learner", "Seq2Seq", "State",
]  # fmt: skip


@dataclass(frozen=True)
class Attention:
    """Every map of one batch: encoder (B, L, H, S, S), decoder (B, L, H, T, T), cross (B, L, H, T, S).

    What a model does not have has no layers: (B, 0, 1, …).
    """

    encoder: Tensor
    decoder: Tensor
    cross: Tensor


class State(Protocol):
    """What a decoder remembers between steps; row n belongs to hypothesis n."""

    def select(self, rows: Tensor) -> Self:
        """The state whose row n continues this one's row rows[n]; rows of one sentence stay neighbours."""
        ...


class Seq2Seq(Protocol):
    """A sequence-to-sequence model.  Sources end with END and are padded with PAD; targets begin with START."""

    def hidden(self, source: Tensor, target: Tensor) -> Tensor:
        """Teacher-forced hidden states (B, T, D): row t has read target[: t + 1]."""
        ...

    def output(self) -> tuple[Tensor, Tensor | None]:
        """The matrix (V, D) and the bias (V,) that turn hidden states into logits."""
        ...

    def project(self, hidden: Tensor) -> Tensor:
        """Logits (…, V) of hidden states (…, D)."""
        ...

    def start(self, source: Tensor) -> State:
        """Encode (B, S) once; the state has one row per sentence."""
        ...

    def step(self, token: Tensor, state: Any) -> tuple[Tensor, State]:
        """Read one token per row (N,); return the logits of the next (N, V) and the state after it.

        The state is one that this model's `start`, `step` or `select` returned.
        """
        ...

    def attention(self, source: Tensor, target: Tensor) -> Attention:
        """All attention maps of a teacher-forced pass."""
        ...


@runtime_checkable
class Learner(Protocol):
    """A model that says itself what training makes small, because it is not the next token of the target."""

    def loss(self, source: Tensor, target: Tensor, labels: Tensor, *, smoothing: float) -> tuple[Tensor, int]:
        """The sum of the losses of a batch, and how many predictions they are of."""
        ...

    def accuracy(self, source: Tensor, target: Tensor, labels: Tensor) -> tuple[int, int]:
        """How many predictions are right, and of how many."""
        ...
