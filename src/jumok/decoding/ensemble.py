"""Several models as one: the mean of their probabilities at every step.  Search does not notice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from jumok.models.base import Seq2Seq, State


@dataclass
class EnsembleState:
    """One state per model, row for row."""

    states: list[State]

    def select(self, rows: Tensor) -> EnsembleState:
        return EnsembleState([state.select(rows) for state in self.states])


class Ensemble:
    """`start` and `step` of models that share their vocabularies; the step gives log-probabilities."""

    def __init__(self, models: Sequence[Seq2Seq]) -> None:
        self.models = list(models)

    def start(self, source: Tensor) -> EnsembleState:
        return EnsembleState([model.start(source) for model in self.models])

    def step(self, token: Tensor, state: EnsembleState) -> tuple[Tensor, EnsembleState]:
        steps = [model.step(token, one) for model, one in zip(self.models, state.states, strict=True)]
        logs = torch.stack([logits.log_softmax(dim=-1) for logits, _ in steps])
        return logs.logsumexp(dim=0) - math.log(len(steps)), EnsembleState([after for _, after in steps])
