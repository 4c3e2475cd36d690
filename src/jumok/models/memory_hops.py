"""What both memories of the memory network share: its section of a recipe, its matrices, and one hop.

"End-To-End Memory Networks" (Sukhbaatar et al. 2015), sections 2.1 and 2.2: which of the matrices A, B and C are the
same, and how the question u of one hop becomes that of the next.

Shapes   D width
Not here what a memory is made of (memory_sentences.py, memory_words.py), the model (memory.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from jumok.config.sections import Layers, ModelConfig, Share, Size
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
    longest: Annotated[int, Field(ge=1, le=65_536)] = 64  # ages of a sentence that are distinguished; the last repeats
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


class WordWeights(NamedTuple):
    """How much word j of J counts in coordinate k: first + second · j / J, each of them (D,)."""

    first: Tensor
    second: Tensor

    def __call__(self, share: Tensor) -> Tensor:
        """Shares j / J (…) to weights (…, D)."""
        return torch.addcmul(self.first, share[..., None], self.second)


def by_position(width: int, like: Tensor) -> WordWeights:
    """Section 4.1: l_kj = (1 - j/J) - (k/d) (1 - 2j/J), with j and k from 1."""
    share = torch.arange(1, width + 1, dtype=like.dtype, device=like.device) / width  # k/d
    return WordWeights(1 - share, 2 * share - 1)


def by_nothing(width: int, like: Tensor) -> WordWeights:
    """A bag of words: all count alike."""
    return WordWeights(like.new_ones(width), like.new_zeros(width))


ENCODINGS: dict[str, Callable[[int, Tensor], WordWeights]] = {"position": by_position, "bag": by_nothing}


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
