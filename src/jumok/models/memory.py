"""The end-to-end memory network (Sukhbaatar et al. 2015): a question looks at every sentence of a story, several times.

    sentences ─ A ─ m_i ─ p = softmax(u · m_i) ─┐
    sentences ─ C ─ c_i ────────────────────────┴─ o = Σ p_i c_i ─┐
    question ── B ─ u ────────────────────────────────────────────┴─ u + o = u of the next hop … ─ W ─ softmax ─ answer

"End-To-End Memory Networks": one hop is section 2.1, several and the sharing of their matrices 2.2, position and time
4.1, language models 5.  Attention before the Transformer: queries, keys and values, but the keys know nothing of one
another and the queries are rewritten hop by hop.  Two kinds of memory, `MEMORIES`, each a class:

sentences  A source is sentences with SEPARATOR between them; the last is the question.  A source that is one sentence
           is both: the question, and each of its words a memory.  An answer may have several words: those read so far
           are one more sentence, added to the question.  START is none of them, so that the first word of an answer is
           exactly the paper's.
words      Section 5: each of the last `words` tokens is a memory, and the question is 0.1 everywhere.  What the source
           says comes before the target; with an empty source it is the paper's language model.

Weights begin with deviation 0.3 and not the paper's 0.1, with which one of two trainings on two supporting facts never
learnt to look twice.

Shapes   B batch · S source · T target · N rows · D width · V vocabulary · L hops · M memories · Q words of the question
         P places in line · A ages
Not here linear start and random empty memories (section 4.2), losses (training/), search (decoding/), text (text/).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from jumok.config.sections import Layers, ModelConfig, Share, Size
from jumok.errors import UsageError
from jumok.models.base import END, PAD, SEPARATOR, START, Attention, State
from jumok.nn.cache import regroup
from jumok.nn.dropout import Dropout
from jumok.nn.layers import Linear


class MemoryConfig(ModelConfig):
    """Defaults for stories: two million weights over 8,000 symbols, twenty thousand over the words of a bAbI task."""

    usual: ClassVar[Mapping[str, Any]] = {
        "training.optimizer": "adam",
        "training.peak": 5e-3,
        "training.warmup": 100,
        "training.weight_decay": 0.0,
        "training.clip": 1.0,
        "training.label_smoothing": 0.0,
        "training.word_dropout": 0.0,
        "training.dropout_epochs": 0,
        "training.tokens_per_update": 4_096,  # some thirty stories of task 2
        "vocabulary.sampling": 0.0,
    }

    kind: Literal["memory"] = "memory"
    memory: Literal["sentences", "words"] = "sentences"
    hops: Layers = 3
    d_model: Size = 64
    dropout: Share = 0.0  # of the question and of the last u; the paper has none
    tying: Literal["adjacent", "layer-wise"] = "adjacent"  # section 2.2; layer-wise has a matrix H on the way of u
    tied: Literal["all", "target", "none"] = "all"  # W is the last C, also in layer-wise; W alone; W, and one to read
    encoding: Literal["position", "bag"] = "position"  # of the words of a sentence (section 4.1)
    nonlinear: Literal["none", "half", "all"] = "none"  # of the units of u that go through relu; half in section 5
    spread: Annotated[float, Field(gt=0.0, le=10.0)] = 0.3  # deviation of the first weights; 0.1 in the paper
    longest: Annotated[int, Field(ge=1, le=65_536)] = 64  # ages of a sentence that are told apart; the last repeats
    words: Annotated[int, Field(ge=1, le=65_536)] = 100  # tokens that are remembered, where memories are words

    @property
    def ages(self) -> int:
        """Vectors there are for the age of a memory."""
        return self.longest if self.memory == "sentences" else self.words

    def parameters(self, source: int, target: int) -> int:
        plan, aside = PLANS[self.tying](self.hops), {"all": 0, "target": 1, "none": 2}[self.tied]
        carry = self.d_model * (self.tying == "layer-wise")
        if self.memory == "words":
            rows = plan.memories * max(source, target) + min(aside, 1) * target
            return (rows + plan.memories * self.words + carry) * self.d_model
        rows = plan.tables * max(source, target if self.tied == "all" else 0) + aside * target
        return (rows + (plan.memories + 1) * self.longest + carry) * self.d_model


class Plan(NamedTuple):
    """Which of the embedding matrices does what."""

    hops: list[tuple[int, int]]  # the A and the C of each hop
    question: int  # B

    @property
    def memories(self) -> int:
        """Matrices that make memories; they come first."""
        return max(output for _, output in self.hops) + 1

    @property
    def tables(self) -> int:
        return max(self.memories, self.question + 1)


def adjacent(hops: int) -> Plan:
    """The C of a hop is the A of the next, and B is the first A: hops + 1 matrices."""
    return Plan([(hop, hop + 1) for hop in range(hops)], 0)


def layer_wise(hops: int) -> Plan:
    """One A and one C for all hops, as in a recurrent network, and a B."""
    return Plan([(0, 1)] * hops, 2)


PLANS: dict[str, Callable[[int], Plan]] = {"adjacent": adjacent, "layer-wise": layer_wise}
CARRIES: dict[str, Callable[[int], nn.Module]] = {
    "adjacent": lambda width: nn.Identity(),
    "layer-wise": lambda width: Linear(width, width, bias=False),  # H
}


def straight(u: Tensor) -> Tensor:
    return u


def half_bent(u: Tensor) -> Tensor:
    """The first half of the units goes through relu."""
    half = u.shape[-1] // 2
    return torch.cat([u[..., :half].relu(), u[..., half:]], dim=-1)


BENDS: dict[str, Callable[[Tensor], Tensor]] = {"none": straight, "half": half_bent, "all": torch.relu}


class Line(NamedTuple):
    """How much word j of J counts in coordinate k: first + second · j / J, each of them (D,)."""

    first: Tensor
    second: Tensor

    def __call__(self, share: Tensor) -> Tensor:
        """Shares j / J (…) to weights (…, D)."""
        return torch.addcmul(self.first, share[..., None], self.second)


def by_position(width: int, like: Tensor) -> Line:
    """Section 4.1: l_kj = (1 - j/J) - (k/d) (1 - 2j/J), with j and k from 1."""
    share = torch.arange(1, width + 1, dtype=like.dtype, device=like.device) / width  # k/d
    return Line(1 - share, 2 * share - 1)


def by_nothing(width: int, like: Tensor) -> Line:
    """A bag of words: all count alike."""
    return Line(like.new_ones(width), like.new_zeros(width))


ENCODINGS: dict[str, Callable[[int, Tensor], Line]] = {"position": by_position, "bag": by_nothing}


def table(rows: int, config: MemoryConfig) -> nn.Parameter:
    """Gaussian weights, as in section 4.2."""
    return nn.Parameter(torch.empty(rows, config.d_model).normal_(std=config.spread))


class Hops(nn.Module):
    """What both kinds of memory have: embedding matrices, vectors of age, and the way from one hop to the next."""

    def __init__(self, config: MemoryConfig, symbols: int, tables: int) -> None:
        super().__init__()
        self.config, self.plan = config, PLANS[config.tying](config.hops)
        self.tables = nn.ParameterList(table(symbols, config) for _ in range(tables))
        self.ages = nn.ParameterList(table(config.ages, config) for _ in range(self.plan.memories))  # T_A, T_C
        self.carry, self.bend = CARRIES[config.tying](config.d_model), BENDS[config.nonlinear]
        self.dropout = Dropout(config.dropout)

    def update(self, u: Tensor, o: Tensor) -> Tensor:
        """The u of the next hop."""
        return self.bend(self.carry(u) + o)

    def embed(self, table: Tensor, tokens: Tensor) -> Tensor:
        return F.embedding(tokens, table)


def recall(scores: Tensor, values: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """o = Σ p_i c_i with p = softmax(uᵀ m) over the known memories (equations 1 and 2); and p.  Without any, zeros."""
    scores = scores.masked_fill(~known, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1) * known
    return weights @ values, weights


# ------------------------------------------------------------------------------------------------- sentences


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
    """Memories once a sentence; the question and the answer so far a row each."""

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

    def encoding(self, like: Tensor) -> Line:
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
        """The answer so far as a vector (…, D), like a sentence of so many words (…); 0 where there is none."""
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


# ----------------------------------------------------------------------------------------------------- words


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
        behind = (column >= 0).expand(len(tokens), -1, -1)  # (B, T, A)
        column = column.clamp(min=0).expand_as(behind)  # (B, T, A)
        slots = [self.embed(words, tokens) for words in self.tables]
        u, maps = self.matrix.new_full((len(tokens), count, self.config.d_model), 0.1), []  # (B, T, D)
        for inputs, outputs in self.plan.hops:
            scores = u @ slots[inputs].mT + (u @ self.ages[inputs][:ages].t()).gather(2, age)  # (B, T, P)
            o, weights = recall(scores, slots[outputs], known)
            recent = weights.gather(2, column) * behind  # (B, T, A)
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


# ------------------------------------------------------------------------------------------------- the model

MEMORIES: dict[str, type[Sentences] | type[Words]] = {"sentences": Sentences, "words": Words}


class MemoryNetwork(nn.Module):
    """The picture above.  Implements `models.base.Seq2Seq`."""

    def __init__(self, config: MemoryConfig, source_symbols: int, target_symbols: int) -> None:
        super().__init__()
        if source_symbols != target_symbols and (config.tied == "all" or config.memory == "words"):
            raise UsageError(
                f"one matrix is to read {source_symbols:,} symbols on one side and {target_symbols:,} on the other",
                where=f"in model.kind=memory, memory={config.memory}, tied={config.tied}",
                hint="try: --set vocabulary.joint=true, or for sentences --set model.tied=target",
            )
        self.config = config
        self.memory = MEMORIES[config.memory](config, source_symbols, target_symbols)

    def hidden(self, source: Tensor, target: Tensor) -> Tensor:
        return self.memory.read(source, target)[0]

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """`hidden`, under the name that torch's wrappers (compile, DistributedDataParallel) call."""
        return self.hidden(source, target)

    def output(self) -> tuple[Tensor, Tensor | None]:
        return self.memory.matrix, None

    def project(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.memory.matrix)

    def start(self, source: Tensor) -> Asking | Window:
        return self.memory.start(source)

    def step(self, token: Tensor, state: State) -> tuple[Tensor, Asking | Window]:
        hidden, after = self.memory.step(token, state)  # type: ignore[arg-type]
        return self.project(hidden), after

    def look(self, source: Tensor, target: Tensor) -> Tensor:
        """How much each hop looks at each memory, oldest first: (B, L, T, M)."""
        return torch.stack(self.memory.read(source, target)[1], dim=1)

    def attention(self, source: Tensor, target: Tensor) -> Attention:
        return self.memory.attention(source, target, self.look(source, target))
