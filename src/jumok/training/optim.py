"""How gradients move weights: Adam as in the paper (section 5.3), Muon for the matrices, and a running mean.

An update has three phases: `gather` adds up the gradients of the replicas, `begin` sets the rate and the scale, `apply`
changes the weights.  Several threads can work on `gather` and `apply`: thread `part` of `parts` does its share.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor, nn

from jumok.config.sections import TrainingConfig
from jumok.kernels import ops
from jumok.nn.layers import Linear


@dataclass(frozen=True)
class Move:
    """One update for a rule: the rate, the factor of the gradients (clipping), and its number from 1."""

    rate: float
    scale: float
    step: int


class Adam:
    """Adam; weight decay, if any, is decoupled from the gradient (Loshchilov and Hutter 2019)."""

    def __init__(self, weights: Sequence[nn.Parameter], config: TrainingConfig) -> None:
        self.weights, self.betas, self.epsilon = list(weights), (config.beta1, config.beta2), config.epsilon
        self.decay = config.weight_decay
        self.means = [torch.zeros_like(weight) for weight in self.weights]
        self.squares = [torch.zeros_like(weight) for weight in self.weights]

    def state(self) -> dict[str, list[Tensor]]:
        return {"exp_avg": self.means, "exp_avg_sq": self.squares}

    def apply(self, gradients: dict[Tensor, Tensor], move: Move, part: int, parts: int) -> None:
        own = [gradients[weight] for weight in self.weights]
        if lib := ops.kernels(*self.weights, *own):
            lib.jk_adam(
                addresses(self.weights), addresses(own), addresses(self.means), addresses(self.squares), sizes(own),
                len(own), move.rate, *self.betas, self.epsilon, self.decay, move.step, move.scale, part, parts,
            )  # fmt: skip
        elif part == 0:
            steps = [torch.tensor(float(move.step), device=weight.device) for weight in self.weights]
            torch._fused_adamw_(
                [*self.weights], torch._foreach_mul(own, move.scale), self.means, self.squares, [], steps, lr=move.rate,
                beta1=self.betas[0], beta2=self.betas[1], weight_decay=self.decay, eps=self.epsilon, amsgrad=False,
                maximize=False,
            )  # fmt: skip


class Muon:
    """Momentum with every matrix orthogonalised before it is applied (Jordan et al. 2024).

    A matrix then learns in all directions at the same pace, not only in the few that dominate its gradient.  Packed
    projections are split into their blocks.  A step is half as long as a typical one of Adam (as long, in Liu et al.
    2025), so that both can share one learning rate: embeddings need a higher one than matrices
    (docs/log/2026-11-16-recipe-of-tiny.md).
    """

    momentum, rounds, size = 0.95, 3, 0.1  # a rough result is enough, and a round takes 3 % of a small update
    polynomial = (3.4445, -4.7750, 2.0315)  # pushes every singular value towards 1

    def __init__(self, linears: Sequence[Linear], config: TrainingConfig) -> None:
        self.weights, self.decay = [linear.weight for linear in linears], config.weight_decay
        self.means = [torch.zeros_like(weight) for weight in self.weights]
        self.blocks: list[tuple[int, slice]] = []  # sorted by shape, so that threads share them evenly
        for index, linear in enumerate(linears):
            ends = accumulate(linear.blocks)
            self.blocks += [(index, slice(end - height, end)) for height, end in zip(linear.blocks, ends, strict=True)]
        self.blocks.sort(key=lambda block: sorted(self.weights[block[0]][block[1]].shape))

    def state(self) -> dict[str, list[Tensor]]:
        return {"momentum": self.means}

    def apply(self, gradients: dict[Tensor, Tensor], move: Move, part: int, parts: int) -> None:
        own = [gradients[weight] for weight in self.weights]
        if lib := ops.kernels(*self.weights, *own):
            weights, steered, means = (
                [side[i][at] for i, at in self.blocks] for side in (self.weights, own, self.means)
            )
            rows, columns = (numbers([block.shape[side] for block in weights]) for side in (0, 1))
            lib.jk_muon(
                *map(addresses, (weights, steered, means)), rows, columns, len(weights), self.momentum, move.scale,
                move.rate, self.decay, self.size, self.rounds, (ctypes.c_float * 3)(*self.polynomial), part, parts,
            )  # fmt: skip
            return
        for index, at in self.blocks[part::parts]:
            block = self.steer(own[index][at] * move.scale, index, at)
            weight = self.weights[index][at]
            step = self.orthogonal(block) * (self.size * max(block.shape) ** 0.5)
            weight.mul_(1.0 - move.rate * self.decay).add_(step, alpha=-move.rate)

    def steer(self, gradient: Tensor, index: int, at: slice) -> Tensor:
        """Nesterov's momentum: the mean of the gradients, one gradient ahead."""
        mean = self.means[index][at].lerp_(gradient, 1.0 - self.momentum)
        return gradient.lerp(mean, self.momentum)

    def orthogonal(self, x: Tensor) -> Tensor:
        """The matrix with its singular values near 1, computed by products alone; tall matrices are transposed."""
        if len(x) > x.shape[1]:
            return self.orthogonal(x.t()).t()
        a, b, c = self.polynomial
        x = x / (x.norm() + 1e-7)
        for _ in range(self.rounds):
            square = x @ x.t()
            x = torch.addmm(x, torch.addmm(square, square, square, beta=b, alpha=c), x, beta=a)
        return x


Rule = Adam | Muon


def rules(model: nn.Module, config: TrainingConfig) -> Iterator[Rule]:
    """Adam for everything, or Muon for the matrices of linear layers and Adam for the rest."""
    linears = [module for module in model.modules() if isinstance(module, Linear)] if config.optimizer == "muon" else []
    matrices = {linear.weight for linear in linears}
    yield Adam([weight for weight in model.parameters() if weight not in matrices], config)
    if linears:
        yield Muon(linears, config)


class Optimizer:
    """All weights of a model, each under its rule."""

    def __init__(self, model: nn.Module, config: TrainingConfig) -> None:
        self.names: dict[Tensor, str] = {weight: name for name, weight in model.named_parameters()}
        self.rules = list(rules(model, config))
        self.steps = 0
        self.gradients: list[list[Tensor]] = []
        self.move = Move(0.0, 1.0, 1)

    @torch.no_grad()
    def collect(self, gradients: Sequence[Sequence[Tensor]]) -> None:
        """Take the gradients of every replica, in the order of the model's parameters."""
        self.gradients = [list(replica) for replica in gradients]

    @torch.no_grad()
    def gather(self, part: int = 0, parts: int = 1) -> float:
        """Add the gradients of all replicas to the first's; the square of their norm, or a part of it."""
        first, *others = self.gradients
        if lib := ops.kernels(*first):
            rest = addresses([gradient for other in others for gradient in other])
            squares: float = lib.jk_reduce_gradients(
                addresses(first), rest, sizes(first), len(first), len(others), part, parts
            )
            return squares
        if part:
            return 0.0
        for other in others:
            torch._foreach_add_(first, other)
        return float(torch.nn.utils.get_total_norm(first)) ** 2

    def begin(self, rate: float, scale: float) -> None:
        """Count an update with this rate and this factor of the gradients."""
        self.steps += 1
        self.move = Move(rate, scale, self.steps)
        torch.autograd.graph.increment_version(list(self.names))  # torch does not see kernels change them

    @torch.no_grad()
    def apply(self, part: int = 0, parts: int = 1) -> None:
        """Move the weights."""
        gradients = dict(zip(self.names, self.gradients[0], strict=True))
        for rule in self.rules:
            rule.apply(gradients, self.move, part, parts)

    def tensors(self) -> dict[str, Tensor]:
        """The state of the rules for every weight, and the number of updates, by name."""
        state = {f"step.{name}": torch.tensor(float(self.steps)) for name in self.names.values()}
        for rule in self.rules:
            for part, values in rule.state().items():
                state |= {f"{part}.{self.names[w]}": value for w, value in zip(rule.weights, values, strict=True)}
        return state

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Set the state that `tensors` has returned."""
        for name, value in self.tensors().items():
            if name.startswith("step."):
                self.steps = int(tensors[name])
            else:
                value.copy_(tensors[name])


def addresses(tensors: Sequence[Tensor]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))


def sizes(tensors: Sequence[Tensor]) -> ctypes.Array[ctypes.c_int64]:
    return numbers([tensor.numel() for tensor in tensors])


def numbers(values: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(values))(*values)


class RunningMean:
    """Exponential moving average of the weights; its decay rises to `decay` in the first updates."""

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
