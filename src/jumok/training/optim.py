"""Adam, the learning rate of every step, and a running mean of the weights.  Paper: section 5.3, equation 3."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from jumok.config import TrainingConfig


def noam(step: int, *, d_model: int, warmup: int) -> float:
    """d_model^-0.5 · min(step^-0.5, step · warmup^-1.5): equation 3; rises for `warmup` steps, then falls."""
    if warmup == 0:
        return float(d_model**-0.5 * step**-0.5)
    return float(d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))


@dataclass(frozen=True)
class Schedule:
    """The learning rate as a function of the step and of the step at which the run will end."""

    kind: str
    d_model: int
    warmup: int
    peak: float | None

    def rate(self, step: int, horizon: int) -> float:
        """The rate of update `step` (from 1) in a run of `horizon` updates."""
        if self.kind == "noam":
            top = noam(max(1, self.warmup), d_model=self.d_model, warmup=self.warmup)
            return noam(step, d_model=self.d_model, warmup=self.warmup) * ((self.peak or top) / top)
        warmup = min(self.warmup, max(1, horizon // 4))
        peak = self.peak or noam(max(1, self.warmup), d_model=self.d_model, warmup=self.warmup)
        if step <= warmup:
            return peak * step / warmup
        left = max(0.0, (horizon - step + 1) / max(1, horizon - warmup))
        shape = {"constant": 1.0, "linear": left, "cosine": 0.5 - 0.5 * math.cos(math.pi * left)}
        return peak * max(0.01, shape[self.kind])


def adam(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Adam with the paper's constants; weight decay, if any, is decoupled (AdamW)."""
    kind = torch.optim.AdamW if config.weight_decay else torch.optim.Adam
    betas = (config.beta1, config.beta2)
    return kind(
        model.parameters(), lr=0.0, betas=betas, eps=config.epsilon, weight_decay=config.weight_decay, fused=True
    )


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Both moments of every parameter and the count of updates, by name."""
    tensors = {}
    for name, parameter in model.named_parameters():
        for part, value in optimizer.state[parameter].items():
            tensors[f"{part}.{name}"] = value
    return tensors


def restore_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """The reverse of `optimizer_tensors`."""
    for name, parameter in model.named_parameters():
        parts = ("step", "exp_avg", "exp_avg_sq")
        if f"step.{name}" in tensors:
            optimizer.state[parameter] = {part: tensors[f"{part}.{name}"].clone() for part in parts}


class RunningMean:
    """Exponential moving average of the weights; starts quickly, ends at `decay`."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.tensors = {name: value.detach().clone() for name, value in model.state_dict(keep_vars=True).items()}

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        share = 1.0 - min(self.decay, (1.0 + step) / (10.0 + step))
        mine, theirs = [], []
        for name, value in model.state_dict(keep_vars=True).items():
            if value.is_floating_point():
                mine.append(self.tensors[name])
                theirs.append(value.detach())
        torch._foreach_lerp_(mine, theirs, share)


def clip(parameters: Iterable[Tensor], largest: float) -> Tensor:
    """The norm of the gradient, which is scaled down to `largest` where it is larger (0 only measures)."""
    listed = list(parameters)
    if largest == 0.0:
        gradients = [parameter.grad for parameter in listed if parameter.grad is not None]
        return torch.nn.utils.get_total_norm(gradients)
    return torch.nn.utils.clip_grad_norm_(listed, max_norm=largest)
