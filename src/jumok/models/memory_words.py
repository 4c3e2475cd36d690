"""A memory of words, for language models (Sukhbaatar et al. 2015, section 5).

Each of the last `words` tokens is a memory, and the question is 0.1 everywhere.  What the source says comes before the
target; with an empty source it is the paper's language model.

Shapes   B batch · S source · T target · N rows · D width · L hops · P places in line · A ages
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from jumok.models.base import END, PAD, Attention
from jumok.models.memory_hops import PLANS, Hops, MemoryConfig, recall, table


@dataclass
class Window:
    """The last tokens of each row, newest at the right; PAD before the first."""

    tokens: Tensor  # (N, P)

    def select(self, rows: Tensor) -> Window:
        return Window(self.tokens.index_select(0, rows))


class Words(Hops):
    """Language model (section 5): memories are the tokens just read."""

    def __init__(self, config: MemoryConfig, source_symbols: int, target_symbols: int) -> None:
        super().__init__(config, target_symbols, PLANS[config.tying](config.hops).memories)
        self.matrix = self.tables[-1] if config.tied == "all" else table(target_symbols, config)

    def begin(self, source: Tensor) -> Tensor:
        """The words (B, P) of each source that can be remembered, pushed to the right."""
        length = ((source != PAD) & (source != END)).sum(dim=1, keepdim=True)  # (B, 1)
        room = min(int(length.max()), self.config.words)
        column = torch.arange(room, device=source.device) - room + length  # (B, P)
        return source.gather(1, column.clamp(min=0)).masked_fill(column < 0, PAD)

    def after(self, tokens: Tensor, count: int) -> tuple[Tensor, list[Tensor]]:
        """Hidden states (B, T, D) after each of the last `count` tokens of a line (B, P); the weights of every hop."""
        place = torch.arange(tokens.shape[1], device=tokens.device)  # (P,)
        age = place[-count:, None] - place  # (T, P)
        ages = min(self.config.words, len(place))
        known = (age >= 0) & (age < ages) & (tokens != PAD)[:, None]  # (B, T, P)
        age = age.clamp(0, ages - 1).expand_as(known)  # (B, T, P)
        column = place[-count:, None] - place[:ages]  # (T, A) the place of each age
        exists = (column >= 0).expand(len(tokens), -1, -1)  # (B, T, A)
        column = column.clamp(min=0).expand_as(exists)  # (B, T, A)
        slots = [self.embed(words, tokens) for words in self.tables]
        u, maps = self.matrix.new_full((len(tokens), count, self.config.d_model), 0.1), []  # (B, T, D)
        for inputs, outputs in self.plan.hops:
            scores = u @ slots[inputs].mT + (u @ self.ages[inputs][:ages].t()).gather(2, age)  # (B, T, P)
            o, weights = recall(scores, slots[outputs], known)
            recent = weights.gather(2, column) * exists  # (B, T, A)
            u = self.update(u, o + recent @ self.ages[outputs][:ages])  # (B, T, D)
            maps.append(weights)
        return self.dropout(u), maps

    def read(self, source: Tensor, target: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Hidden states (B, T, D), and the weights of every hop."""
        return self.after(torch.cat([self.begin(source), target], dim=1), target.shape[1])

    def start(self, source: Tensor) -> Window:
        return Window(self.begin(source))

    def step(self, token: Tensor, state: Window) -> tuple[Tensor, Window]:
        """Hidden states (N, D) and the window that ends with the token."""
        tokens = torch.cat([state.tokens, token[:, None]], dim=1)[:, -self.config.words :]  # (N, P)
        return self.after(tokens, 1)[0][:, 0], Window(tokens)

    def attention(self, source: Tensor, target: Tensor, looked: Tensor) -> Attention:
        """Rows of decoder and cross together sum to 1; a token looks at itself and at those before it."""
        weights = looked[:, :, None]  # (B, L, 1, T, P)
        room, columns = weights.shape[-1] - target.shape[1], torch.arange(source.shape[1], device=source.device)
        length = ((source != PAD) & (source != END)).sum(dim=1, keepdim=True)  # (B, 1)
        place = columns + room - length  # (B, S)
        here = (place >= 0) & (columns < length)  # (B, S)
        cross = weights.take_along_dim(place.clamp(0, weights.shape[-1] - 1)[:, None, None, None], dim=4)
        encoder = cross.new_zeros(len(source), 0, 1, source.shape[1], source.shape[1])
        return Attention(encoder, weights[..., room:], cross * here[:, None, None, None])
