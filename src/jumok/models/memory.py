"""The end-to-end memory network (Sukhbaatar et al. 2015): a question looks at every sentence of a story, several times.

    sentences ─ A ─ m_i ─ p = softmax(u · m_i) ─┐
    sentences ─ C ─ c_i ────────────────────────┴─ o = Σ p_i c_i ─┐
    question ── B ─ u ────────────────────────────────────────────┴─ u + o = u of the next hop … ─ W ─ softmax ─ answer

"End-To-End Memory Networks": one hop is section 2.1, several and the sharing of their matrices 2.2, position and time
4.1, language models 5.  Attention before the Transformer: queries, keys and values, but the keys do not depend on one
another, and the queries are rewritten hop by hop.  Two kinds of memory, `MEMORIES`, each a class:

sentences  for questions about a story (memory_sentences.py)
words      for language models (memory_words.py)

Weights begin with deviation 0.3 and not the paper's 0.1, with which one of two trainings on two supporting facts never
learnt to look twice.

Shapes   B batch · S source · T target · N rows · D width · V vocabulary · L hops · M memories
Not here linear start and random empty memories (section 4.2), losses (training/), search (decoding/), text (text/).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jumok.errors import UsageError
from jumok.models.base import Attention, State
from jumok.models.memory_hops import MemoryConfig
from jumok.models.memory_sentences import Asking, Sentences
from jumok.models.memory_words import Window, Words

MEMORIES: dict[str, type[Sentences] | type[Words]] = {"sentences": Sentences, "words": Words}


class MemoryNetwork(nn.Module):
    """The picture above.  Implements `models.base.Seq2Seq`."""

    def __init__(self, config: MemoryConfig, source_symbols: int, target_symbols: int) -> None:
        super().__init__()
        if source_symbols != target_symbols and (config.tied == "all" or config.memory == "words"):
            raise UsageError(
                "models.memory_needs_one_vocabulary", sources=source_symbols, targets=target_symbols,
                memory=config.memory, tied=config.tied,
            )  # fmt: skip
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
