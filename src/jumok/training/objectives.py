"""The objective of training: smoothed cross-entropy of the next token, or the loss that a model defines itself.

Shapes   B batch · T target · D width · N tokens
"""

from collections.abc import Callable

from torch import Tensor

from jumok.data.batches import Batch
from jumok.kernels.output import smoothed_cross_entropy
from jumok.models.base import PAD, Learner, Seq2Seq

Objective = Callable[[Batch], tuple[Tensor, int]]


def objective_of(
    model: Seq2Seq | Learner, *, smoothing: float, hidden: Callable[[Tensor, Tensor], Tensor] | None = None
) -> Objective:
    """The objective that the model defines, or else that of `next_token` with the same options."""
    if isinstance(model, Learner):
        learner = model
        return lambda batch: learner.loss(batch.source, batch.target, batch.labels, smoothing=smoothing)
    return next_token(model, smoothing=smoothing, hidden=hidden)


def next_token(
    model: Seq2Seq, *, smoothing: float, hidden: Callable[[Tensor, Tensor], Tensor] | None = None
) -> Objective:
    """A function from a batch to (sum of losses, tokens); `hidden` replaces the model's method, e.g. compiled."""
    run = hidden or model.hidden

    def objective(batch: Batch) -> tuple[Tensor, int]:
        states = run(batch.source, batch.target)  # (B, T, D)
        matrix, bias = model.output()
        if batch.tokens == batch.labels.numel():
            states, labels = states.flatten(0, 1), batch.labels.flatten()
        else:
            real = (batch.labels != PAD).flatten().nonzero().squeeze(1)
            states, labels = states.flatten(0, 1).index_select(0, real), batch.labels.flatten()[real]
        return smoothed_cross_entropy(states, matrix, bias, labels, smoothing=smoothing), batch.tokens

    return objective
