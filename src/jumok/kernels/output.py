"""The output layer, softmax and smoothed cross-entropy as one function that never holds tokens × vocabulary.

Paper: sections 3.4 and 5.4.  The rows go through in slices: each slice's logits become its probabilities in place
and then its gradient, so the backward pass only scales what the forward pass already knows.

Shapes   N tokens · D model width · V vocabulary
"""

import ctypes
import threading

import torch
from torch import Tensor

from jumok.kernels.ops import at, gradient_buffer, kernels, within
from jumok.nn import loss


def softmax_gradient(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """Turn logits (N, V) into softmax - (1 - ε) one-hot - ε / V in place; give the sum of the losses."""
    label, uniform = labels[:, None], smoothing / logits.shape[1]
    target = (1 - smoothing) * logits.gather(1, label) + uniform * logits.sum(dim=1, keepdim=True)
    top = logits.amax(dim=1, keepdim=True)
    total = logits.sub_(top).exp_().sum(dim=1, keepdim=True)
    logits.div_(total).sub_(uniform).scatter_add_(1, label, logits.new_full((), smoothing - 1).expand_as(label))
    return (total.log() + top - target).sum(dtype=torch.float64)


class PackedMatrix:
    """An output matrix in the layout of the kernel: packed at its first use and valid until `expire` is called.

    Workers whose replicas share their weights share one; the first that needs it packs, the others wait for it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._packed: Tensor | None = None
        self._valid = False

    def expire(self) -> None:
        """Pack again at the next use, because the weights have changed; the memory is used again."""
        self._valid = False

    def of(self, weight: Tensor, lib: ctypes.CDLL) -> Tensor:
        """The packed weight (V, D)."""
        symbols, width = weight.shape
        with self._lock:
            if self._packed is None:
                self._packed = weight.new_empty(lib.jk_output_packed_size(width, symbols))
            if not self._valid:
                lib.jk_output_pack(*at(self._packed, weight), width, symbols)
                self._valid = True
            return self._packed


class OutputBuffers:
    """The memory that one worker's output layer reuses from batch to batch: the packed matrix and scratch memory.

    Training puts one on each parameter as `buffers` while its weights do not change (training/update.py).
    """

    def __init__(self, packed: PackedMatrix | None = None) -> None:
        self.packed = packed or PackedMatrix()
        self._scratch: Tensor | None = None

    def scratch(self, weight: Tensor, lib: ctypes.CDLL) -> Tensor:
        """Memory for a call of the kernel from this thread."""
        symbols, width = weight.shape
        size = lib.jk_output_scratch_size(width, symbols)
        if self._scratch is None or len(self._scratch) < size:
            self._scratch = weight.new_empty(size)
        return self._scratch


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
        x, labels = x.contiguous(), within(labels, len(weight))
        dx, loss = torch.empty_like(x), x.new_zeros((), dtype=torch.float64)
        (dw, returned), (db, bias_returned) = gradient_buffer(weight), gradient_buffer(bias)
        assert dw is not None
        if weight.is_contiguous() and (lib := kernels(x, weight)):
            buffers = getattr(weight, "buffers", None) or OutputBuffers()
            packed, scratch = buffers.packed.of(weight, lib), buffers.scratch(weight, lib)
            addresses = at(dx, dw, db, x, packed, bias, labels, scratch)
            loss += lib.jk_output_loss(*addresses, *x.shape, len(weight), smoothing)
        else:
            for start in range(0, len(x), rows):
                part = x[start : start + rows]
                logits = part @ weight.t() if bias is None else torch.addmm(bias, part, weight.t())  # (N, V)
                loss += softmax_gradient(logits, labels[start : start + rows], smoothing)
                gradient = logits
                torch.mm(gradient, weight, out=dx[start : start + rows])
                dw.addmm_(gradient.t(), part)
                if db is not None:
                    db += gradient.sum(dim=0)
        ctx.save_for_backward(dx, returned, bias_returned)  # type: ignore[arg-type]  # None is allowed
        return loss.to(x.dtype)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gradients = ctx.saved_tensors  # type: ignore[attr-defined]
        if gradient.item() != 1.0:
            if gradients[1] is None:
                raise RuntimeError(
                    "the gradients of the output matrix are computed in the forward pass, so its loss cannot be scaled"
                )
            gradients = tuple(None if one is None else one.mul_(gradient) for one in gradients)
        return *gradients, None, None, None


def smoothed_cross_entropy(
    x: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, *, smoothing: float, rows: int = 512
) -> Tensor:
    """`nn.loss.smoothed_cross_entropy`, in slices of `rows` rows."""
    whole = torch.is_grad_enabled() and not torch.is_autocast_enabled(x.device.type)
    if whole and x.device.type == "cpu" and x.dtype == torch.float32:
        fused: Tensor = FusedCrossEntropy.apply(x, weight, bias, labels, smoothing, rows)
        return fused
    return loss.smoothed_cross_entropy(x, weight, bias, labels, smoothing=smoothing)
