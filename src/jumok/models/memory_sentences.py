"""A memory of sentences, for question answering (Sukhbaatar et al. 2015, sections 2 to 4).

A source is sentences with SEPARATOR between them; the last is the question.  A source that is one sentence is both: the
question, and each of its words a memory.  An answer may have several words: those read so far are one more sentence,
added to the question.  START is none of them, so that the first word of an answer is exactly the paper's.

Shapes   B batch · S source · T target · N rows · D width · L hops · M memories · Q words of the question
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from jumok.models.base import END, PAD, SEPARATOR, START, Attention
from jumok.models.memory_hops import ENCODINGS, PLANS, Hops, MemoryConfig, WordWeights, recall, table
from jumok.nn.cache import regroup


class Layout(NamedTuple):
    """Where the sentences of each source are."""

    slot: Tensor  # (B, S) the memory that a token is part of; M: none
    share: Tensor  # (B, S) j / J of a token in its memory
    sizes: Tensor  # (B, M) words of each memory; 0: it is none
    age: Tensor  # (B, M) the newest is 0
    question: Tensor  # (B, Q) its tokens, padded
    length: Tensor  # (B, 1) how many they are

    @classmethod
    def of(cls, source: Tensor, dtype: torch.dtype) -> Layout:
        breaks, column = source == SEPARATOR, torch.arange(source.shape[1], device=source.device)  # (S,)
        words = (source != PAD) & (source != END) & ~breaks
        sentence, last = breaks.cumsum(dim=1), breaks.sum(dim=1, keepdim=True)  # (B, S), (B, 1)
        begin = (breaks * (column + 1)).cummax(dim=1).values  # (B, S) the column where a token's sentence begins
        alone = last == 0  # one sentence: its words are the memories, and it is the question
        count = torch.where(alone, words.sum(dim=1, keepdim=True), last)  # (B, 1)
        memories = int(count.max())
        slot = torch.where(alone, column, sentence)  # (B, S)
        slot = torch.where(words & (slot < count), slot, memories)  # (B, S)
        sizes = slot.new_zeros(len(source), memories + 1).scatter_add(1, slot, torch.ones_like(slot))
        share = torch.where(alone, 1, column + 1 - begin).to(dtype) / sizes.gather(1, slot)  # (B, S)
        age = (count - 1 - torch.arange(memories, device=source.device)).clamp(min=0)  # (B, M)
        length = (words & (sentence == last)).sum(dim=1, keepdim=True)  # (B, 1)
        place = begin[:, -1:] + column[: int(length.max())]  # (B, Q)
        question = source.gather(1, place.clamp(max=source.shape[1] - 1))  # (B, Q)
        return cls(slot, share, sizes[:, :memories], age, question, length)


@dataclass
class Asking:
    """Memories per story; the question and the answer so far per row."""

    slots: list[Tensor]  # (B, M, D)
    real: Tensor  # (B, 1, M)
    question: Tensor  # (N, D)
    total: Tensor  # (N, D) Σ e_j of the answer
    moment: Tensor  # (N, D) Σ j e_j
    count: Tensor  # (N,) words of the answer
    story: Tensor  # (N,) the memories of each row, ascending

    def select(self, rows: Tensor) -> Asking:
        """Row n continues row rows[n].  Memories move only when a story leaves or loses some of its rows."""
        question, total, moment, count = (
            side.index_select(0, rows) for side in (self.question, self.total, self.moment, self.count)
        )
        taken, story = regroup(self.story, rows, len(self.real))
        if taken is None:
            return Asking(self.slots, self.real, question, total, moment, count, story)
        slots, real = [slot.index_select(0, taken) for slot in self.slots], self.real.index_select(0, taken)
        return Asking(slots, real, question, total, moment, count, story)


class Sentences(Hops):
    """Question answering (sections 2 to 4): memories are sentences."""

    def __init__(self, config: MemoryConfig, source_symbols: int, target_symbols: int) -> None:
        super().__init__(config, source_symbols, PLANS[config.tying](config.hops).tables)
        self.matrix = self.tables[self.plan.memories - 1]  # Wᵀ is the last C
        if config.tied != "all":
            self.matrix = table(target_symbols, config)
        self.spoken = table(target_symbols, config) if config.tied == "none" else self.matrix
        self.progress = table(config.longest, config)  # by how many words of the answer there are

    def encoding(self, like: Tensor) -> WordWeights:
        return ENCODINGS[self.config.encoding](self.config.d_model, like)

    def start(self, source: Tensor) -> Asking:
        """m_i and c_i of every matrix and the u of the question (section 4.1)."""
        layout = Layout.of(source, self.matrix.dtype)
        line, (batch, memories) = self.encoding(self.matrix), layout.sizes.shape
        weights = line(layout.share)  # (B, S, D)
        first = torch.arange(batch, device=source.device)[:, None] * (memories + 1)  # (B, 1)
        rows, age = (first + layout.slot).flatten(), layout.age.clamp(max=self.config.longest - 1)
        slots = []
        for words, ages in zip(self.tables, self.ages, strict=False):  # a matrix of the question alone comes last
            vectors = self.embed(words, source) * weights  # (B, S, D)
            sums = vectors.new_zeros(batch * (memories + 1), vectors.shape[-1])
            sums = sums.index_add(0, rows, vectors.flatten(0, 1)).view(batch, memories + 1, -1)[:, :memories]
            slots.append(sums + F.embedding(age, ages))
        question = self.embed(self.tables[self.plan.question], layout.question)  # (B, Q, D)
        place = torch.arange(1, question.shape[1] + 1, device=source.device)  # (Q,)
        share = place.to(weights.dtype) / layout.length.clamp(min=1)  # (B, Q)
        weights = line(share) * (place <= layout.length)[..., None]  # (B, Q, D)
        u = (question * weights).sum(dim=1)  # (B, D)
        none, number = torch.zeros_like(u), torch.arange(batch, device=source.device)
        return Asking(slots, layout.sizes[:, None] > 0, u, none, none, torch.zeros_like(number), number)

    def answered(self, total: Tensor, moment: Tensor, count: Tensor) -> Tensor:
        """The answer so far as a vector (…, D), like a sentence of `count` words (…); 0 where there is none."""
        line, some = self.encoding(total), count[..., None].clamp(min=1)
        age = F.embedding((count - 1).clamp(0, len(self.progress) - 1), self.progress) * (count > 0)[..., None]
        return line.first * total + line.second * moment / some + age

    def hop(self, u: Tensor, slots: list[Tensor], real: Tensor) -> tuple[Tensor, list[Tensor]]:
        """From questions (B, T, D) to what the output matrix sees; and the weights (B, T, M) of every hop."""
        u, maps = self.dropout(u), []
        for inputs, outputs in self.plan.hops:
            o, weights = recall(u @ slots[inputs].mT, slots[outputs], real)
            u = self.update(u, o)  # (B, T, D)
            maps.append(weights)
        return self.dropout(u), maps

    def read(self, source: Tensor, target: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Hidden states (B, T, D), and the weights of every hop."""
        asking, words = self.start(source), target != START
        count = words.cumsum(dim=1)  # (B, T)
        vectors = self.embed(self.spoken, target) * words[..., None]  # (B, T, D)
        moment = (vectors * count[..., None]).cumsum(dim=1)  # (B, T, D)
        u = asking.question[:, None] + self.answered(vectors.cumsum(dim=1), moment, count)  # (B, T, D)
        return self.hop(u, asking.slots, asking.real)

    def step(self, token: Tensor, state: Asking) -> tuple[Tensor, Asking]:
        """Hidden states (N, D) and the state after the token."""
        word = token != START  # (N,)
        count = state.count + word  # (N,)
        vector = self.embed(self.spoken, token[:, None])[:, 0] * word[:, None]  # (N, D)
        total, moment = state.total + vector, state.moment + vector * count[:, None]
        u = state.question + self.answered(total, moment, count)  # (N, D)
        u, _ = self.hop(u.view(len(state.real), -1, u.shape[-1]), state.slots, state.real)
        return u.flatten(0, 1), replace(state, total=total, moment=moment, count=count)

    def attention(self, source: Tensor, target: Tensor, looked: Tensor) -> Attention:
        """The weight of a sentence spread evenly over its tokens; those of the question, and END, have none."""
        layout = Layout.of(source, looked.dtype)
        each = F.pad(looked / layout.sizes.clamp(min=1)[:, None, None], (0, 1))[:, :, None]
        cross = each.take_along_dim(layout.slot[:, None, None, None], dim=4)  # (B, L, 1, T, S)
        (batch, length), (_, longest) = source.shape, target.shape
        none = cross.new_zeros(batch, 0, 1, length, length), cross.new_zeros(batch, 0, 1, longest, longest)
        return Attention(*none, cross)
