"""The output layer, softmax and smoothed cross-entropy as one function that never holds tokens × vocabulary.

Paper: sections 3.4 and 5.4.  The rows go through in slices: each slice's logits become its probabilities in place
and then its gradient, so the backward pass only scales what the forward pass already knows.

Shapes   N tokens · D model width · V vocabulary
"""

import torch
from torch import Tensor
from torch.nn import functional as F


class FusedCrossEntropy(torch.autograd.Function):
    """Sum over tokens of the cross-entropy between softmax(x Wᵀ + b) and (1 - ε) one-hot + ε / V."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
        rows: int,
    ) -> Tensor:
        dx, dw = torch.empty_like(x), torch.zeros_like(weight)
        db = None if bias is None else torch.zeros_like(bias)
        average = weight.mean(dim=0)  # the mean logit of a token is its product with this one row
        loss = x.new_zeros((), dtype=torch.float64)
        for start in range(0, len(x), rows):
            part, label = x[start : start + rows], labels[start : start + rows, None]
            logits = part @ weight.t() if bias is None else torch.addmm(bias, part, weight.t())  # (N, V)
            wanted, top = logits.gather(1, label), logits.amax(dim=1, keepdim=True)
            exp = logits.sub_(top).exp_()
            total = exp.sum(dim=1, keepdim=True)
            loss += (total.log() + top - (1 - smoothing) * wanted).sum()
            gradient = exp.div_(total)  # the probabilities; minus the smoothed target is the gradient of the logits
            gradient.scatter_add_(1, label, gradient.new_full((), smoothing - 1).expand_as(label))
            torch.mm(gradient, weight, out=dx[start : start + rows])
            dw.addmm_(gradient.t(), part)
            if db is not None:
                db += gradient.sum(dim=0)
        if smoothing:
            loss -= smoothing * (x @ average).sum()
            dx -= smoothing * average
            dw -= smoothing / len(weight) * x.sum(dim=0)
            if bias is not None and db is not None:
                loss -= smoothing * len(x) * bias.mean()
                db -= smoothing * len(x) / len(weight)
        ctx.save_for_backward(dx, dw, *([] if db is None else [db]))
        return loss.to(x.dtype)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        dx, dw, *db = ctx.saved_tensors  # type: ignore[attr-defined]
        return dx * gradient, dw * gradient, db[0] * gradient if db else None, None, None, None


def smoothed_cross_entropy(
    x: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, *, smoothing: float, rows: int = 512
) -> Tensor:
    """Sum over the N tokens of the smoothed cross-entropy of softmax(x Wᵀ + b); x (N, D), labels (N,)."""
    if torch.is_grad_enabled() and x.device.type == "cpu" and x.dtype == torch.float32:
        loss: Tensor = FusedCrossEntropy.apply(x, weight, bias, labels, smoothing, rows)
        return loss
    logits = F.linear(x, weight.to(x.dtype), None if bias is None else bias.to(x.dtype)).float()
    return F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")
