"""A Transformer that learns to say every letter twice ("c a b" to "c c a a b b"), for examples that need a trained one.

A translation of n letters has 2n, so positions of the source and of the target are never the same.

Shapes   B batch · S source · T target
"""

from __future__ import annotations

from functools import cache
from random import Random

import torch
from torch import Tensor
from torch.nn import functional as F

from jumok.config.sections import TransformerConfig
from jumok.lab.examples.example import seeded
from jumok.models import build
from jumok.models.base import END, PAD, START
from jumok.models.transformer import Transformer

LETTERS = "abcdefgh"
FIRST = END + 1  # the id of the first letter
SHORTEST, LONGEST = 3, 7
RATE, STEPS, ROWS = 4e-3, 700, 32


@cache
def train() -> Transformer:
    """The trained model, the same in every example; some ten seconds on one core."""
    config = TransformerConfig(encoder_layers=2, decoder_layers=2, d_model=32, d_ff=64, heads=4, dropout=0.0)
    with seeded(1):
        model: Transformer = build(config, FIRST + len(LETTERS), FIRST + len(LETTERS))
        optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
        random = Random(1)
        for step in range(STEPS):
            optimizer.param_groups[0]["lr"] = RATE * min(1.0, 1.5 * (1 - step / STEPS))
            source, target, labels = draw(random, ROWS)
            logits = model.project(model.hidden(source, target))
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()


def draw(random: Random, rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """A batch of random letters: sources (B, S), targets after START (B, T), and the tokens that come next (B, T)."""
    lengths = [random.randint(SHORTEST, LONGEST) for _ in range(rows)]
    return to_batch(["".join(random.choices(LETTERS, k=length)) for length in lengths])


def to_batch(texts: list[str]) -> tuple[Tensor, Tensor, Tensor]:
    """Sources, targets after START, and labels, padded."""
    sources = [[FIRST + LETTERS.index(letter) for letter in text] for text in texts]
    doubled = [[token for token in ids for _ in range(2)] for ids in sources]

    def pad(rows: list[list[int]]) -> Tensor:
        longest = max(map(len, rows))
        return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])

    return (pad([[*ids, END] for ids in sources]), pad([[START, *ids] for ids in doubled]),
            pad([[*ids, END] for ids in doubled]))  # fmt: skip


def spell(token: int) -> str:
    """A token as text."""
    return {PAD: "<pad>", START: "<s>", END: "</s>"}.get(token) or LETTERS[token - FIRST]


def share_right(logits: Tensor, labels: Tensor) -> float:
    """The share of real tokens that are the likeliest ones, given the right ones before them."""
    real = labels != PAD
    return float((logits.argmax(dim=-1) == labels)[real].float().mean())
