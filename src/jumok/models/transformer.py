"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017): an encoder and a decoder of attention alone.

    source ─ embed ─ [self-attention, feed-forward] × 6 ────────────┐ memory
    target ─ embed ─ [masked self-attention, attention over memory, feed-forward] × 6 ─ output matrix ─ softmax

Read figure 1 beside it.  The parts are in nn/: attention.py, positions.py, layers.py.  Which of them are used is
decided once, in the constructors; `forward` has no modes.

Shapes   B batch · S source · T target · N rows (hypotheses) · D width · V vocabulary · L layers · H heads
Not here losses (training/), search (decoding/), text (text/).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from jumok.config import TransformerConfig
from jumok.models.base import PAD, Attention, State
from jumok.native.searching import Found, Search
from jumok.nn import fused
from jumok.nn.attention import Cache, CrossAttention, Padding, SelfAttention, regroup
from jumok.nn.layers import NORMS, PATHS, Dropout, PostNorm, feed_forward
from jumok.nn.packed import Packed, Parts, Side, Steps, versions
from jumok.nn.positions import JOINS, POSITIONS, Add, Rotary
from jumok.nn.whole import Whole


def path(config: TransformerConfig) -> PostNorm:
    """Residual, dropout and norm around one sub-layer."""
    norm, dropout = NORMS[config.norm](config.d_model), Dropout(config.dropout)
    return PATHS[config.norm_place](norm, dropout, residual=config.residual)


def last_norm(config: TransformerConfig) -> nn.Module:
    """A pre-norm stack ends with one more norm; a post-norm stack has just done it."""
    return NORMS[config.norm if config.norm_place == "pre" else "none"](config.d_model)


def self_attention(config: TransformerConfig) -> SelfAttention:
    rotary = Rotary(config.key_width) if config.positions == "rotary" else None
    sizes = (config.d_model, config.heads, config.key_width, config.value_width)
    return SelfAttention(*sizes, score=config.score, bias=config.bias, rotary=rotary)


def cross_attention(config: TransformerConfig) -> CrossAttention:
    sizes = (config.d_model, config.heads, config.key_width, config.value_width)
    return CrossAttention(*sizes, score=config.score, bias=config.bias)


class Embedding(nn.Module):
    """Token vectors times sqrt(d_model), joined with positions, dropped out (sections 3.4, 3.5, 5.4)."""

    def __init__(self, symbols: int, config: TransformerConfig, weight: nn.Parameter | None = None) -> None:
        super().__init__()
        self.scale = config.d_model**0.5
        self.weight = weight if weight is not None else nn.Parameter(torch.empty(symbols, config.d_model))
        self.positions = POSITIONS[config.positions](config.d_model, config.longest)
        self.join = JOINS[config.join](config.d_model, self.positions.width)
        self.dropout = Dropout(config.dropout)
        if weight is None:
            nn.init.normal_(self.weight, std=config.d_model**-0.5)

    def forward(self, tokens: Tensor, start: int = 0) -> Tensor:
        """Tokens (B, T) at positions start, start + 1, … as vectors (B, T, D)."""
        positions = self.positions(start, tokens.shape[1])
        return self.join.embed(self.weight, tokens, positions, scale=self.scale, dropout=self.dropout)


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward net, each with its residual path (section 3.1)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention, self.attention_path = self_attention(config), path(config)
        self.feed_forward = feed_forward(config.activation, config.d_model, config.d_ff)
        self.feed_forward_path = path(config)

    def forward(self, x: Tensor, padding: Padding | None, keep: Tensor | None, maps: list[Tensor] | None) -> Tensor:
        x = self.attention(x, padding, self.attention_path, keep, maps=maps)  # (B, S, D)
        x = self.feed_forward(x, self.feed_forward_path, keep)  # (B, S, D)
        return x

    def parts(self) -> Parts:
        return Parts(self.attention, self.attention_path, self.feed_forward, self.feed_forward_path)


class DecoderLayer(nn.Module):
    """Masked self-attention, attention over the encoder's output, feed-forward (section 3.1)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention, self.attention_path = self_attention(config), path(config)
        self.cross, self.cross_path = cross_attention(config), path(config)
        self.feed_forward = feed_forward(config.activation, config.d_model, config.d_ff)
        self.feed_forward_path = path(config)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        padding: Padding | None,
        keep: Tensor | None,
        maps: tuple[list[Tensor], list[Tensor]] | None,
    ) -> Tensor:
        own, other = maps if maps is not None else (None, None)
        x = self.attention(x, None, self.attention_path, keep, causal=True, maps=own)  # (B, T, D)
        x = self.cross(x, memory, padding, self.cross_path, keep, maps=other)  # (B, T, D)
        x = self.feed_forward(x, self.feed_forward_path, keep)  # (B, T, D)
        return x

    def parts(self) -> Parts:
        net = self.feed_forward, self.feed_forward_path
        return Parts(self.attention, self.attention_path, *net, self.cross, self.cross_path)

    def step(self, x: Tensor, cache: Cache, keys: Tensor, values: Tensor, padding: Padding | None) -> Tensor:
        """One position of N rows (N, 1, D); extends the cache."""
        x = self.attention.step(x, cache, self.attention_path)
        x = self.cross.step(x, keys, values, padding, self.cross_path)
        x = self.feed_forward(x, self.feed_forward_path)
        return x


@dataclass
class DecoderState:
    """Cached keys and values: those of the target a row each, those of the source once a sentence."""

    caches: list[Cache]  # L × (N, H, t, K)
    memories: list[tuple[Tensor, Tensor]]  # L × (B, H, S, K)
    padding: Padding | None  # of the sources
    sentence: Tensor  # (N,) the memory that each row looks at, ascending

    def select(self, rows: Tensor) -> DecoderState:
        """Row n continues row rows[n].  Memories move only when a sentence leaves or loses some of its rows."""
        caches = [cache.select(rows) for cache in self.caches]
        taken, sentence = regroup(self.sentence, rows, len(self.memories[0][0]))
        if taken is None:
            return DecoderState(caches, self.memories, self.padding, sentence)
        memories = [(keys.index_select(0, taken), values.index_select(0, taken)) for keys, values in self.memories]
        padding = None if self.padding is None else self.padding.select(taken)
        return DecoderState(caches, memories, padding, sentence)


class Transformer(nn.Module):
    """Figure 1.  Implements `models.base.Seq2Seq`."""

    def __init__(self, config: TransformerConfig, source_symbols: int, target_symbols: int) -> None:
        super().__init__()
        self.config = config
        self.source = Embedding(source_symbols, config)
        shared = self.source.weight if config.tied == "all" else None
        self.target = Embedding(target_symbols, config, shared)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.encoder_norm, self.decoder_norm = last_norm(config), last_norm(config)
        self.matrix = self.target.weight
        if config.tied == "none":
            self.matrix = nn.Parameter(torch.empty(target_symbols, config.d_model))
            nn.init.xavier_uniform_(self.matrix)
        self.ready: Packed | None = None  # the model as it was when it last began to translate
        plain = isinstance(self.target.join, Add) and not list(self.target.positions.parameters())
        self.whole = Whole.of(*self.sides()) if plain else None  # the model as one chain of kernels, if it can be one

    def sides(self) -> tuple[Side, Side]:
        """The encoder and the decoder, as the kernels want to know them."""
        parts = (self.source, self.encoder, self.encoder_norm), (self.target, self.decoder, self.decoder_norm)
        encoder, decoder = (
            Side(embedding.weight, embedding.scale, embedding.dropout, [layer.parts() for layer in layers], norm)  # type: ignore[operator]
            for embedding, layers, norm in parts
        )
        return encoder, decoder

    def encode(self, source: Tensor, maps: list[Tensor] | None = None) -> tuple[Tensor, Padding | None]:
        """The memory (B, S, D) and which of it is padding; None when nothing is."""
        keep = source != PAD  # (B, S)
        padding = Padding.of(keep)
        x = self.source(source)  # (B, S, D)
        for layer in self.encoder:
            x = layer(x, padding, keep, maps)  # (B, S, D)
        x = self.encoder_norm(x, keep)  # (B, S, D)
        return x, padding

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        padding: Padding | None,
        maps: tuple[list[Tensor], list[Tensor]] | None = None,
    ) -> Tensor:
        """Hidden states (B, T, D) of a target that begins with START.

        Padding stands at the end, where the look-ahead mask already hides it from every real token.
        """
        keep = target != PAD  # (B, T)
        x = self.target(target)  # (B, T, D)
        for layer in self.decoder:
            x = layer(x, memory, padding, keep, maps)  # (B, T, D)
        x = self.decoder_norm(x, keep)  # (B, T, D)
        return x

    def hidden(self, source: Tensor, target: Tensor) -> Tensor:
        if self.whole is not None and torch.is_grad_enabled():
            real = source != PAD, target != PAD
            positions = self.source.positions(0, source.shape[1]), self.target.positions(0, target.shape[1])
            if (states := self.whole.hidden(source, target, real, positions)) is not None:
                return states
        memory, padding = self.encode(source)
        return self.decode(target, memory, padding)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """`hidden`, under the name that torch's wrappers (compile, DistributedDataParallel) call."""
        return self.hidden(source, target)

    def output(self) -> tuple[Tensor, Tensor | None]:
        return self.matrix, None

    def project(self, hidden: Tensor) -> Tensor:
        return nn.functional.linear(hidden, self.matrix)

    def start(self, source: Tensor) -> DecoderState | Steps:
        if (packed := self.packed()) is not None:
            positions = self.source.positions(0, source.shape[1])
            return packed.start(source, (source != PAD).sum(dim=1), positions)
        memory, padding = self.encode(source)
        layers: list[DecoderLayer] = list(self.decoder)  # type: ignore[arg-type]
        caches = [layer.attention.cache(len(source), memory) for layer in layers]
        memories = [layer.cross.remember(memory) for layer in layers]
        return DecoderState(caches, memories, padding, torch.arange(len(source), device=source.device))

    def search(
        self, sources: Sequence[Sequence[int]], limits: Sequence[int], how: Search, **tokens: Any
    ) -> list[list[Found]] | None:
        """From sources to translations in one call; None where a part of the model has no kernel."""
        if (packed := self.packed()) is None:
            return None
        longest = max(map(len, sources), default=0), max(limits, default=0)
        positions = self.source.positions(0, longest[0]), self.target.positions(0, longest[1])
        return packed.search(sources, limits, how, positions, **tokens)

    def packed(self) -> Packed | None:
        """The model for the kernels that translate; None where a part of it has none."""
        plain = torch.is_grad_enabled() or not isinstance(self.target.join, Add)
        if plain or not fused.kernels(self.source.weight, self.target.weight, self.matrix):
            return None
        made = versions(self.parameters())
        if self.ready is None or self.ready.made != made:
            self.ready = Packed.of(*self.sides(), self.matrix, made)
        return self.ready

    def step(self, token: Tensor, state: State) -> tuple[Tensor, DecoderState | Steps]:
        if isinstance(state, Steps):
            return state.step(token, self.target.positions(state.length, 1)), state
        assert isinstance(state, DecoderState)
        x = self.target(token[:, None], state.caches[0].length)  # (N, 1, D)
        for layer, cache, (keys, values) in zip(self.decoder, state.caches, state.memories, strict=True):
            x = layer.step(x, cache, keys, values, state.padding)  # type: ignore[operator]
        x = self.decoder_norm(x)  # (N, 1, D)
        return self.project(x[:, 0]), state

    def attention(self, source: Tensor, target: Tensor) -> Attention:
        encoder: list[Tensor] = []
        decoder: list[Tensor] = []
        cross: list[Tensor] = []
        memory, padding = self.encode(source, encoder)
        self.decode(target, memory, padding, (decoder, cross))
        return Attention(*(torch.stack(maps, dim=1) for maps in (encoder, decoder, cross)))
