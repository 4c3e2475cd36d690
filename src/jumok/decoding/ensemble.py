"""Several models as one: the mean of their probabilities at every step; search sees one model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from jumok.models.base import Attention, Seq2Seq, State


@dataclass
class EnsembleState:
    """One state per model, row for row."""

    states: list[State]

    def select(self, rows: Tensor) -> EnsembleState:
        return EnsembleState([state.select(rows) for state in self.states])


class Ensemble:
    """Models over the same vocabularies as one model; its logits are log-probabilities."""

    def __init__(self, models: Sequence[Seq2Seq]) -> None:
        self.models = list(models)

    def convert(self, change: Callable[[Any], Any]) -> Ensemble:
        """Return the ensemble of the models that `change` makes of these."""
        return Ensemble([change(model) for model in self.models])

    def start(self, source: Tensor) -> EnsembleState:
        return EnsembleState([model.start(source) for model in self.models])

    def step(self, token: Tensor, state: EnsembleState) -> tuple[Tensor, EnsembleState]:
        steps = [model.step(token, own) for model, own in zip(self.models, state.states, strict=True)]
        return self.mean([logits for logits, _ in steps]), EnsembleState([after for _, after in steps])

    def hidden(self, source: Tensor, target: Tensor) -> Tensor:
        """Return the hidden states of all models, concatenated."""
        return torch.cat([model.hidden(source, target) for model in self.models], dim=-1)

    def project(self, hidden: Tensor) -> Tensor:
        widths = [model.output()[0].shape[1] for model in self.models]
        parts = zip(self.models, hidden.split(widths, dim=-1), strict=True)
        return self.mean([model.project(part) for model, part in parts])

    def attention(self, source: Tensor, target: Tensor) -> Attention:
        """Return the first model's maps: those of different models have no mean."""
        return self.models[0].attention(source, target)

    def mean(self, logits: Sequence[Tensor]) -> Tensor:
        """Return the logarithm of the mean of the probabilities."""
        logs = torch.stack([each.log_softmax(dim=-1) for each in logits])
        return logs.logsumexp(dim=0) - math.log(len(logits))
