"""Recurrent sequence to sequence: one network reads the source word by word, another writes the target word by word.

    source ─ embed ─ [reads forwards | reads backwards] × L ─┬─ states of the words ─ keys ──┐ attention
                                                             └─ last states ─ first state    │
    target ─ embed ─ [state after state] × L ─ tanh(W [context; state]) ─ output matrix      │
                          └────────── asks ──────────────────── context ─────────────────────┘

Papers: Sutskever et al. 2014, section 2 (an LSTM writes what an LSTM has read); Cho et al. 2014, section 2.2 (a summary
of the source at every step) and 2.3 (the GRU); Bahdanau et al. 2015, sections 3.1 (attention) and 3.2 (both
directions); Luong et al. 2015, section 3.1 (attention after the state); Zaremba et al. 2014, section 3.2 (dropout
between layers, never along time).  What the three decoders look at is all that differs between them:

    additive         w·tanh(W s + U h) by the state before; the context enters the next state, so time is a loop
    multiplicative   s·W h by the state itself; the context comes after it, so a layer runs over time at once
    none             nothing: one vector of the last states says it all, however long the sentence was

Shapes   B batch · S source · T target · N rows (hypotheses) · G rows of one sentence · D width ·
         C = D × gates · P vectors of a state · M real tokens of a batch · L layers · V vocabulary
Not here the output's own sight of the last word and maxout (Bahdanau), input feeding and local attention (Luong).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

import torch
from pydantic import model_validator
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from jumok import messages
from jumok.config.sections import Layers, ModelConfig, Share, Size
from jumok.models.base import PAD, Attention
from jumok.nn.attention import Mask, attend
from jumok.nn.cache import Memory, regroup
from jumok.nn.dropout import Dropout
from jumok.nn.embedding import Embedding, draw_table
from jumok.nn.layers import Linear
from jumok.nn.positions import Add
from jumok.nn.variants import Additive, Dot, Nowhere


class RNNConfig(ModelConfig):
    """What a recipe may say of it.  The defaults are Bahdanau's model, as large as the Transformer of `tiny`."""

    usual: ClassVar[Mapping[str, Any]] = {
        "training.optimizer": "adam",
        "training.peak": 3e-3,
        "training.warmup": 200,
        "training.clip": 1.0,
        "training.weight_decay": 0.0,
    }

    kind: Literal["rnn"] = "rnn"
    d_model: Size = 192  # embeddings, states of the decoder, and both directions of the encoder together
    encoder_layers: Layers = 1
    decoder_layers: Layers = 1
    cell: Literal["gru", "lstm"] = "gru"
    attention: Literal["additive", "multiplicative", "none"] = "additive"
    dropout: Share = 0.3

    @model_validator(mode="after")
    def sizes_fit(self) -> Self:
        if self.d_model % 2:
            raise ValueError(messages.text("models.odd_directions", d_model=self.d_model, better=self.d_model + 1))
        return self

    @property
    def shape(self) -> str:
        layers = f"{self.encoder_layers} + {self.decoder_layers} layers of {self.cell}, d_model {self.d_model}"
        return f"{layers}, {self.attention} attention" if self.attention != "none" else f"{layers}, no attention"

    def parameters(self, source: int, target: int) -> int:
        width, gates, parts = self.d_model, CELLS[self.cell].gates, CELLS[self.cell].parts
        encoder = self.encoder_layers * gates * width * (width + width // 2 + 2)
        decoder = self.decoder_layers * (gates * width * (2 * width + 2) + parts * width * (width + 1))
        context = 0 if self.attention == "multiplicative" else gates * width * width
        asking = {"additive": 2 * width * (width + 1), "multiplicative": width * width, "none": 0}[self.attention]
        readout = width * (2 * width + 1)
        return self.tables(source, target) + encoder + decoder + context + asking + readout


# ------------------------------------------------------------------------------------------------------ cells


class GRU(nn.GRU):
    """Gated recurrent units (Cho et al. 2014, section 2.3), as torch has them: a state is one vector."""

    gates, parts = 3, 1

    def whole(self, x: Tensor | PackedSequence, state: Tensor | None = None) -> tuple[Any, Tensor]:
        """All outputs, and the last state (P, N, D); both directions follow one another in it."""
        out, last = self(x, state)
        return out, last

    @staticmethod
    def open(bias: Tensor) -> None:
        """Biases (C,) of the gates stay as they were drawn."""

    @staticmethod
    def move(inputs: Tensor, recurrent: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The next state from what the input (N, C) and the state (N, C) say to the gates: reset, keep, new."""
        (hidden,) = state
        width = hidden.shape[-1]
        (gates, new), (more, past) = (side.split([2 * width, width], dim=-1) for side in (inputs, recurrent))
        reset, keep = torch.sigmoid(gates + more).chunk(2, dim=-1)
        new = torch.tanh(torch.addcmul(new, reset, past))  # (N, D)
        return (torch.lerp(new, hidden, keep),)


class LSTM(nn.LSTM):
    """Long short-term memory (Hochreiter and Schmidhuber 1997), as torch has it: a state is an output and a cell."""

    gates, parts = 4, 2

    def reset_parameters(self) -> None:
        """As torch draws them, but open to the past."""
        super().reset_parameters()
        for name, bias in self.named_parameters():
            if name.startswith("bias_ih"):
                self.open(bias)

    @staticmethod
    def open(bias: Tensor) -> None:
        """Of the biases (C,), those of the gate that forgets are 1: a cell keeps until it has learnt what to forget."""
        nn.init.ones_(bias.detach().chunk(4)[1])

    def whole(self, x: Tensor | PackedSequence, state: Tensor | None = None) -> tuple[Any, Tensor]:
        out, (hidden, cell) = self(x, None if state is None else tuple(state.split(1)))
        return out, torch.cat([hidden, cell])

    @staticmethod
    def move(inputs: Tensor, recurrent: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The next state from what the input (N, C) and the state (N, C) say to the gates: in, forget, new, out."""
        _, cell = state
        width = cell.shape[-1]
        gates, new, out = (inputs + recurrent).split([2 * width, width, width], dim=-1)
        enter, keep = torch.sigmoid(gates).chunk(2, dim=-1)
        cell = torch.addcmul(keep * cell, enter, torch.tanh(new))  # (N, D)
        return torch.sigmoid(out) * torch.tanh(cell), cell


CELLS: dict[str, type[GRU] | type[LSTM]] = {"gru": GRU, "lstm": LSTM}


# ---------------------------------------------------------------------------------------------------- encoder


def embedding(config: RNNConfig, symbols: int, weight: nn.Parameter | None = None) -> Embedding:
    """Token vectors of variance 1, without positions; with a table of its own unless one is given."""
    if weight is None:
        weight = draw_table(symbols, config.d_model, spread=config.d_model**-0.5)
    nowhere, join = Nowhere(config.d_model, 0), Add(config.d_model, 0)
    return Embedding(weight, nowhere, join, Dropout(config.dropout), scale=config.d_model**0.5)


class BidirectionalEncoder(nn.Module):
    """Layers that read in both directions (Bahdanau et al. 2015, section 3.2), each half as wide as the model.

    Padding is taken out before the first layer and put back after the last: no layer ever sees it.
    """

    def __init__(self, config: RNNConfig) -> None:
        super().__init__()
        cell, width = CELLS[config.cell], config.d_model
        self.layers = nn.ModuleList(cell(width, width // 2, bidirectional=True) for _ in range(config.encoder_layers))
        self.dropout = Dropout(config.dropout)

    def forward(self, source: Tensor, embed: Embedding) -> tuple[Tensor, Tensor]:
        """The states of the words (B, S, D), and the last ones of both directions, the summary (B, D)."""
        lengths = (source != PAD).sum(dim=1).clamp(min=1).cpu()
        tokens, *order = pack_padded_sequence(source, lengths, batch_first=True, enforce_sorted=False)
        x = embed(tokens)  # (M, D)
        for layer in self.layers:
            (x, *_), last = layer.whole(PackedSequence(x, *order))  # type: ignore[operator]
            x = self.dropout(x)  # (M, D)
        words, _ = pad_packed_sequence(PackedSequence(x, *order), batch_first=True, total_length=source.shape[1])
        summary = last[:2].transpose(0, 1).flatten(1)  # (B, D)
        return words, self.dropout(summary)


# --------------------------------------------------------------------------------------------------- decoders


class Decoded(NamedTuple):
    """What a decoder makes of some words."""

    hidden: Tensor  # (N, T, D)
    states: list[Tensor]  # of each layer after the last word (P, N, D)
    weights: Tensor | None  # (B, 1, T, S) of its attention, if it has any


class RecurrentDecoder(nn.Module):
    """What every decoder has: a first state, layers that run over time at once, a readout.

    Rows (N) that continue one sentence are neighbours and share its memory: N = B · G.
    """

    def __init__(self, config: RNNConfig, inputs: Sequence[int]) -> None:
        super().__init__()
        cell, width = CELLS[config.cell], config.d_model
        self.parts = cell.parts
        self.first = Linear(width, *[width] * (config.decoder_layers * cell.parts))
        self.layers = nn.ModuleList(cell(size, width, batch_first=True) for size in inputs)
        self.readout = Linear(2 * width, width)
        self.dropout = Dropout(config.dropout)

    def begin(self, summary: Tensor) -> list[Tensor]:
        """The state of each layer (P, B, D) before the first word."""
        first = torch.tanh(self.first(summary)).unflatten(-1, (-1, summary.shape[-1])).transpose(0, 1)
        return list(first.split(self.parts))

    def climb(self, x: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """What the layers make of (N, T, D), and their states after it."""
        after = []
        for layer, state in zip(self.layers, states, strict=True):
            # under autocast an embedding is wider than a state, and torch's LSTM wants both alike
            x, state = layer.whole(x.to(state.dtype), state.contiguous())  # type: ignore[operator]
            x = self.dropout(x)  # (N, T, D)
            after.append(state)
        return x, after

    def read(self, context: Tensor, x: Tensor) -> Tensor:
        """tanh(W [context; state]): Luong et al. 2015, equation 5."""
        x = torch.tanh(self.readout(torch.cat([context, x], dim=-1)))  # (N, T, D)
        return self.dropout(x)


class AdditiveDecoder(RecurrentDecoder):
    """The state before asks, and what it finds enters the next one (Bahdanau et al. 2015, section 3.1, appendix A).

    All that does not depend on the state is done before the loop over time; in it, one matrix takes the state to its
    question and to the gates together.  Layers above the first need no loop.
    """

    def __init__(self, config: RNNConfig) -> None:
        width, cell = config.d_model, CELLS[config.cell]
        super().__init__(config, [width] * (config.decoder_layers - 1))
        self.move, gates = cell.move, [width] * cell.gates
        self.input, self.context = Linear(width, *gates), Linear(width, *gates, bias=False)
        cell.open(self.input.bias)
        self.asking = Linear(width, width, *gates)
        self.keys, self.score = Linear(width, width, bias=False), Additive(1, width)

    def remember(self, words: Tensor, summary: Tensor, mask: Mask) -> Memory:
        return Memory(self.keys(words)[:, None], words[:, None], mask)

    def forward(self, x: Tensor, states: Sequence[Tensor], memory: Memory) -> Decoded:
        width, sentences, mask = x.shape[-1], len(memory.keys), memory.mask.allowed(memory.keys)
        state = states[0].unbind()
        inputs = self.input(x.transpose(0, 1)).unbind()
        outputs, contexts, weights = [], [], []
        for embedded in inputs:
            query, recurrent = self.asking(state[0]).split([width, embedded.shape[-1]], dim=-1)
            query = query.reshape(sentences, 1, -1, width)  # (B, 1, G, D)
            context, weight = attend(query, memory.keys, memory.values, mask, score=self.score)
            context = context.reshape(-1, width)  # (N, D)
            state = self.move(embedded + self.context(context), recurrent, state)
            outputs.append(state[0])
            contexts.append(context)
            weights.append(weight)
        x, after = self.climb(self.dropout(torch.stack(outputs, dim=1)), states[1:])
        x = self.read(torch.stack(contexts, dim=1), x)
        return Decoded(x, [torch.stack(state), *after], torch.cat(weights, dim=2))


class MultiplicativeDecoder(RecurrentDecoder):
    """The state is the query; the readout takes both, state and context (Luong et al. 2015, section 3.1, "general")."""

    def __init__(self, config: RNNConfig) -> None:
        super().__init__(config, [config.d_model] * config.decoder_layers)
        self.keys = Linear(config.d_model, config.d_model, bias=False)

    def remember(self, words: Tensor, summary: Tensor, mask: Mask) -> Memory:
        return Memory(self.keys(words)[:, None], words[:, None], mask)

    def forward(self, x: Tensor, states: Sequence[Tensor], memory: Memory) -> Decoded:
        x, after = self.climb(x, states)
        queries = x.reshape(len(memory.keys), 1, -1, x.shape[-1])  # one row of T, or G rows of one word
        context, weights = attend(queries, memory.keys, memory.values, memory.mask.allowed(queries), score=Dot())
        return Decoded(self.read(context.reshape(x.shape), x), after, weights)


class BlindDecoder(RecurrentDecoder):
    """The same summary at every step, and no way to look back at a word (Cho et al. 2014, section 2.2)."""

    def __init__(self, config: RNNConfig) -> None:
        super().__init__(config, [2 * config.d_model, *[config.d_model] * (config.decoder_layers - 1)])

    def remember(self, words: Tensor, summary: Tensor, mask: Mask) -> Memory:
        summary = summary[:, None, None]  # (B, 1, 1, D)
        return Memory(summary, summary, Mask())

    def forward(self, x: Tensor, states: Sequence[Tensor], memory: Memory) -> Decoded:
        rows = len(x) // len(memory.values)
        context = memory.values[:, 0].repeat_interleave(rows, dim=0).expand_as(x)  # (N, T, D)
        x, after = self.climb(torch.cat([x, context], dim=-1), states)
        return Decoded(self.read(context, x), after, None)


DECODERS: dict[str, type[AdditiveDecoder] | type[MultiplicativeDecoder] | type[BlindDecoder]] = {
    "additive": AdditiveDecoder,
    "multiplicative": MultiplicativeDecoder,
    "none": BlindDecoder,
}


@dataclass
class RecurrentState:
    """The states of the layers per row, and the memory per sentence."""

    layers: list[Tensor]  # L × (P, N, D)
    memory: Memory
    sentence: Tensor  # (N,) the memory that each row looks at, ascending

    def select(self, rows: Tensor) -> RecurrentState:
        """Row n continues row rows[n].  Memories move only when a sentence leaves or loses some of its rows."""
        taken, sentence = regroup(self.sentence, rows, len(self.memory.values))
        memory = self.memory if taken is None else self.memory.select(taken)
        return RecurrentState([state.index_select(1, rows) for state in self.layers], memory, sentence)


# ------------------------------------------------------------------------------------------------------ model


class RNN(nn.Module):
    """An encoder, a decoder, and what one may see of the other.  Implements `models.base.Seq2Seq`."""

    def __init__(self, config: RNNConfig, source_symbols: int, target_symbols: int) -> None:
        super().__init__()
        self.config = config
        self.source = embedding(config, source_symbols)
        self.target = embedding(config, target_symbols, self.source.weight if config.tied == "all" else None)
        self.encoder, self.decoder = BidirectionalEncoder(config), DECODERS[config.attention](config)
        self.matrix = self.target.weight
        if config.tied == "none":
            self.matrix = nn.Parameter(torch.empty(target_symbols, config.d_model))
            nn.init.xavier_uniform_(self.matrix)

    def read(self, source: Tensor) -> tuple[list[Tensor], Memory]:
        """The first states of the decoder, and all that it will know of the sources."""
        words, summary = self.encoder(source, self.source)
        return self.decoder.begin(summary), self.decoder.remember(words, summary, Mask.padding(source != PAD))

    def decode(self, source: Tensor, target: Tensor) -> Decoded:
        """Padding is at the end of a target, where no real token comes after it."""
        states, memory = self.read(source)
        decoded: Decoded = self.decoder(self.target(target), states, memory)
        return decoded

    def hidden(self, source: Tensor, target: Tensor) -> Tensor:
        return self.decode(source, target).hidden

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """`hidden`, under the name that torch's wrappers (compile, DistributedDataParallel) call."""
        return self.hidden(source, target)

    def output(self) -> tuple[Tensor, Tensor | None]:
        return self.matrix, None

    def project(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.matrix)

    def start(self, source: Tensor) -> RecurrentState:
        states, memory = self.read(source)
        return RecurrentState(states, memory, torch.arange(len(source), device=source.device))

    def step(self, token: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        x, layers, _ = self.decoder(self.target(token[:, None]), state.layers, state.memory)
        return self.project(x[:, 0]), RecurrentState(layers, state.memory, state.sentence)

    def attention(self, source: Tensor, target: Tensor) -> Attention:
        """Only the decoder looks, and with `attention` none not even it."""
        x, _, weights = self.decode(source, target)
        (rows, words), length = source.shape, target.shape[1]
        cross = x.new_empty(rows, 0, 1, length, words) if weights is None else weights[:, None]
        return Attention(x.new_empty(rows, 0, 1, words, words), x.new_empty(rows, 0, 1, length, length), cross)
