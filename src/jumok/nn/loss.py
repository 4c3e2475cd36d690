"""Smoothed cross-entropy of the output layer (sections 3.4 and 5.4).

Training on a CPU puts a function in its place that never holds tokens × vocabulary (kernels/output.py), equal up to
rounding.

Shapes   N tokens · D model width · V vocabulary
"""

from torch import Tensor
from torch.nn import functional as F


def smoothed_cross_entropy(
    x: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, *, smoothing: float
) -> Tensor:
    """Return the sum over the N tokens of the cross-entropy between softmax(x Wᵀ + b) and (1 - ε) one-hot + ε / V."""
    logits = F.linear(x, weight.to(x.dtype), None if bias is None else bias.to(x.dtype)).float()  # (N, V)
    return F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")
