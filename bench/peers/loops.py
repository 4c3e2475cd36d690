"""A textbook training loop for models without one: padded batches, cross-entropy, Adam."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from bench.peers.recorder import Recorder, count_parameters
from bench.peers.task import END, PAD, START, Pair, Task, pad
from jumok.bench.measure import Work


def tensors(batch: list[Pair]) -> tuple[Tensor, Tensor, Tensor]:
    """Sources that end with END, decoder inputs that begin with START, labels that end with END."""
    grids = (
        [[*source, END] for source, _ in batch],
        [[START, *target] for _, target in batch],
        [[*target, END] for _, target in batch],
    )
    source, inputs, labels = (torch.tensor(pad(grid)) for grid in grids)
    return source, inputs, labels


def train(task: Task, model: nn.Module, logits: Callable[[Tensor, Tensor], Tensor], recorder: Recorder) -> None:
    """Update until the recorder has enough; `logits` of sources and decoder inputs are (B, T, V)."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4, betas=(task.beta1, task.beta2), eps=task.epsilon)
    recorder.parameters = count_parameters(optimizer)
    entropy = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=task.label_smoothing)
    model.train()
    for batch in task.batches(task.pairs()):
        source, inputs, labels = tensors(batch)
        loss = entropy(logits(source, inputs).flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lengths = [sum(len(pair[side]) + 1 for pair in batch) for side in (0, 1)]
        grid = source.numel() + labels.numel()
        if recorder.update(Work(*lengths, grid, len(batch), loss=loss.item())):
            break
    recorder.finish()
