"""Train a toy layer: Adam, a constant learning rate, freshly drawn examples, and no tuning for any variant."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

RATE = 3e-3
Module = TypeVar("Module", bound=nn.Module)
Draw = Callable[[torch.Generator], tuple[tuple[Tensor, ...], Tensor]]  # the inputs of a batch, and its labels


def fit(
    make: Callable[[], Module], draw: Draw, *, steps: int, seed: int, check: Callable[[], None] = lambda: None
) -> Module:
    """A new layer after `steps` updates; its weights and its examples depend on the seed alone.

    Labels below 0 are not learned.  `check` is called now and then, and may raise to stop.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = make()
    examples = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(module.parameters(), lr=RATE)
    for step in range(steps):
        if step % 50 == 0:
            check()
        inputs, labels = draw(examples)
        loss = F.cross_entropy(module(*inputs).flatten(0, -2), labels.flatten(), ignore_index=-1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return module.eval()
