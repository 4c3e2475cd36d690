"""Memory of attention against convolution as sentences grow: bytes counted, and bytes that training really keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from jumok.lab.examples.example import Example, Numbers, Part, Say, seeded
from jumok.nn.attention import EVERYTHING, SelfAttention
from jumok.nn.variants import SCORES

WIDTH, HEADS, KERNEL = 64, 4, 5
LENGTHS = (8, 16, 32, 64, 128, 256, 512, 1_024)
FLOAT = 4  # bytes


def measure(layer: Callable[[Tensor], Tensor], module: nn.Module, length: int) -> int:
    """Bytes that autograd keeps for the backward pass, with the output, without parameters and the input."""
    x = torch.randn(1, length, WIDTH, requires_grad=True)
    others = {one.untyped_storage().data_ptr() for one in (x, *module.parameters())}
    sizes: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in others:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        y = layer(x)  # as long as it lives, so does what it keeps
    note(y)
    return sum(sizes.values())


def compute() -> dict[str, Any]:
    with seeded(1):
        part = WIDTH // HEADS
        attention = SelfAttention(WIDTH, HEADS, part, part, score=SCORES["scaled-dot"], bias=True)
        convolution = nn.Conv1d(WIDTH, WIDTH, KERNEL, padding=KERNEL // 2)
        measured = {
            "attention": {str(n): measure(lambda x: attention(x, EVERYTHING), attention, n) for n in LENGTHS},
            "convolution": {str(n): measure(lambda x: convolution(x.transpose(1, 2)), convolution, n) for n in LENGTHS},
        }
    counted = {
        "maps": {str(n): FLOAT * HEADS * n * n for n in LENGTHS},  # the weights of all heads
        "vectors": {str(n): FLOAT * n * WIDTH for n in LENGTHS},  # one vector for each position
    }
    ratios = {str(n): measured["attention"][str(n)] / measured["convolution"][str(n)] for n in LENGTHS}
    return {
        "d_model": WIDTH, "heads": HEADS, "kernel": KERNEL, "counted": counted, "measured": measured, "ratios": ratios,
        "shortest": LENGTHS[0], "longest": LENGTHS[-1],
    }  # fmt: skip


def show(numbers: Numbers, say: Say) -> list[Part]:
    rows = [["n", say("maps"), say("vectors"), say("attention"), say("convolution"), say("ratio")]]
    for n in map(str, LENGTHS):
        counted = [f"{numbers['counted'][key][n]:,}" for key in ("maps", "vectors")]
        measured = [f"{numbers['measured'][key][n]:,}" for key in ("attention", "convolution")]
        rows.append([n, *counted, *measured, f"{numbers['ratios'][n]:.1f}"])
    given = {key: numbers[key] for key in ("d_model", "heads", "kernel")}
    return [Part(say("table", **given), rows)]


EXAMPLE = Example(name="memory", compute=compute, show=show)
