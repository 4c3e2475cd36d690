"""Gradient against distance: how strongly the last output depends on an input far before it, in five kinds of layers.

Each network reads 32 symbols and is measured twice: with new weights, and after it has learnt for a few seconds to say
the first symbol at the last position.

Shapes   B batch · T positions · D width
"""

from __future__ import annotations

from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jumok.lab.examples.example import Example, Numbers, Part, Say, seeded
from jumok.nn.attention import EVERYTHING, SelfAttention
from jumok.nn.positions import sinusoid
from jumok.nn.variants import SCORES

SYMBOLS, WIDTH, LENGTH = 8, 32, 32
KERNEL, LAYERS = 5, 3  # of the convolutions: they see 12 positions back
STEPS, ROWS, RATE = 400, 32, 3e-3
SHOWN = (0, 1, 4, 12, 13, 31)
LANES = ("rnn", "gru", "lstm", "convolution", "attention")


class Recurrent(nn.Module):
    """A recurrent layer of torch."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        states: Tensor = self.layer(x)[0]
        return states


class Convolutions(nn.Module):
    """Layers of causal convolutions with residual connections."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, KERNEL) for _ in range(LAYERS))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            before = F.pad(x.transpose(1, 2), (KERNEL - 1, 0))
            x = x + F.relu(layer(before)).transpose(1, 2)
        return x


class Attending(nn.Module):
    """One layer of self-attention with the paper's positions and a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = SelfAttention(WIDTH, 2, WIDTH // 2, WIDTH // 2, score=SCORES["scaled-dot"], bias=True)

    def forward(self, x: Tensor) -> Tensor:
        x = x + sinusoid(0, x.shape[1], WIDTH)
        mixed: Tensor = self.layer(x, EVERYTHING)
        return x + mixed


def make(lane: str) -> nn.Module:
    """A network of one kind."""
    recurrent: dict[str, type[nn.RNN | nn.GRU | nn.LSTM]] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
    if lane in recurrent:
        return Recurrent(recurrent[lane](WIDTH, WIDTH, batch_first=True))
    return Convolutions() if lane == "convolution" else Attending()


def draw(random: Random, rows: int) -> Tensor:
    """Random symbols (B, T)."""
    return torch.tensor([random.choices(range(SYMBOLS), k=LENGTH) for _ in range(rows)])


def find_gradients(embedding: nn.Embedding, network: nn.Module, output: nn.Linear) -> list[float]:
    """The gradient norm of the last output's likeliest score with respect to each input, by distance 0, 1, …"""
    x = embedding(draw(Random(5), ROWS)).detach().requires_grad_()
    [gradient] = torch.autograd.grad(output(network(x)[:, -1]).amax(dim=-1).sum(), x)
    norms: list[float] = gradient.norm(dim=-1).mean(dim=0).flip(0).tolist()
    return norms


def study(lane: str) -> dict[str, Any]:
    """Gradients before and after training, and the share of symbols that are remembered."""
    with seeded(1):
        embedding, network, output = nn.Embedding(SYMBOLS, WIDTH), make(lane), nn.Linear(WIDTH, SYMBOLS)
        before, random = find_gradients(embedding, network, output), Random(1)
        parts = nn.ModuleList([embedding, network, output])
        optimizer = torch.optim.Adam(parts.parameters(), lr=RATE)
        for _ in range(STEPS):
            rows = draw(random, ROWS)
            loss = F.cross_entropy(output(network(embedding(rows))[:, -1]), rows[:, 0])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parts.parameters(), 1.0)
            optimizer.step()
        with torch.no_grad():
            rows = draw(Random(6), 400)
            right = (output(network(embedding(rows))[:, -1]).argmax(dim=-1) == rows[:, 0]).float().mean()
        after = find_gradients(embedding, network, output)
    return {"untrained": relate(before), "trained": relate(after), "right": float(right)}


def relate(norms: list[float]) -> dict[str, float]:
    """Gradients at some distances, relative to that at distance 0."""
    return {str(distance): norms[distance] / norms[0] for distance in SHOWN}


def compute() -> dict[str, Any]:
    return {
        "length": LENGTH, "far": LENGTH - 1, "steps": STEPS, "chance": 1 / SYMBOLS,
        "reach": LAYERS * (KERNEL - 1), "lanes": {lane: study(lane) for lane in LANES},
    }  # fmt: skip


def show(numbers: Numbers, say: Say) -> list[Part]:
    parts = []
    for key in ("untrained", "trained"):
        rows = [[say("distance"), *map(str, SHOWN), *([say("right")] if key == "trained" else [])]]
        for lane, one in numbers["lanes"].items():
            cells = [f"{value:.2g}" for value in one[key].values()]
            rows.append([say(lane), *cells, *([f"{one['right']:.0%}"] if key == "trained" else [])])
        given = {"steps": numbers["steps"], "chance": numbers["chance"], "length": numbers["length"]}
        parts.append(Part(say(key, **given), rows))
    return parts


EXAMPLE = Example(name="distance", compute=compute, show=show)
