"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017): an encoder and a decoder of attention alone.

    source ─ embed ─ [self-attention, feed-forward] × 6 ────────────┐ memory
    target ─ embed ─ [masked self-attention, attention over memory, feed-forward] × 6 ─ output matrix ─ softmax

Read figure 1 beside it.  The parts are in nn/: embedding.py, positions.py, attention.py, layers.py, and variants.py
for those that are not the paper's.  Which of them are used is decided once, in the constructors.

Shapes   B batch · S source · T target · N rows (hypotheses) · D width · V vocabulary · L layers · H heads
Not here losses (training/), search (decoding/), text (text/), what makes it fast (kernels/).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jumok.config.sections import TransformerConfig
from jumok.models.base import PAD, Attention
from jumok.nn.attention import CrossAttention, Mask, SelfAttention, watch
from jumok.nn.cache import Cache, KeysValues, regroup
from jumok.nn.dropout import Dropout
from jumok.nn.embedding import Embedding, draw_table
from jumok.nn.layers import Residual
from jumok.nn.variants import JOINS, NORMS, POSITIONS, RESIDUALS, SCORES, Rotary, feed_forward


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network, each with a residual connection around it (section 3.1)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention, self.attention_path = self_attention(config), residual(config)
        self.feed_forward = feed_forward(config.activation, config.d_model, config.d_ff)
        self.feed_forward_path = residual(config)

    def forward(self, x: Tensor, mask: Mask) -> Tensor:
        x = self.attention_path(x, lambda x: self.attention(x, mask), mask)  # (B, S, D)
        x = self.feed_forward_path(x, self.feed_forward, mask)  # (B, S, D)
        return x


class DecoderLayer(nn.Module):
    """Masked self-attention, attention over the encoder's output, feed-forward (section 3.1)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention, self.attention_path = self_attention(config), residual(config)
        self.cross, self.cross_path = cross_attention(config), residual(config)
        self.feed_forward = feed_forward(config.activation, config.d_model, config.d_ff)
        self.feed_forward_path = residual(config)

    def forward(self, x: Tensor, mask: Mask, memory: Tensor, memory_mask: Mask) -> Tensor:
        x = self.attention_path(x, lambda x: self.attention(x, mask), mask)  # (B, T, D)
        x = self.cross_path(x, lambda x: self.cross(x, memory, memory_mask), mask)  # (B, T, D)
        x = self.feed_forward_path(x, self.feed_forward, mask)  # (B, T, D)
        return x

    def step(self, x: Tensor, cache: Cache, memory: KeysValues, memory_mask: Mask) -> Tensor:
        """One position of N rows (N, 1, D); extends the cache."""
        x = self.attention_path(x, lambda x: self.attention.step(x, cache))
        x = self.cross_path(x, lambda x: self.cross.step(x, *memory, memory_mask))
        x = self.feed_forward_path(x, self.feed_forward)
        return x


class Transformer(nn.Module):
    """Figure 1.  Implements `models.base.Seq2Seq`."""

    def __init__(self, config: TransformerConfig, source_symbols: int, target_symbols: int) -> None:
        super().__init__()
        self.config = config
        self.source = embedding(config, source_symbols)
        shared = self.source.weight if config.tied == "all" else None
        self.target = embedding(config, target_symbols, shared)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.encoder_norm, self.decoder_norm = last_norm(config), last_norm(config)
        self.matrix = self.target.weight
        if config.tied == "none":
            self.matrix = nn.Parameter(torch.empty(target_symbols, config.d_model))
            nn.init.xavier_uniform_(self.matrix)

    def encode(self, source: Tensor) -> tuple[Tensor, Mask]:
        """The memory (B, S, D), and the mask that hides its padding."""
        mask = Mask.padding(source != PAD)
        x = self.source(source)  # (B, S, D)
        for layer in self.encoder:
            x = layer(x, mask)  # (B, S, D)
        return self.encoder_norm(x, mask), mask

    def decode(self, target: Tensor, memory: Tensor, memory_mask: Mask) -> Tensor:
        """Hidden states (B, T, D) of a target that begins with START."""
        mask = Mask(target != PAD, causal=True)
        x = self.target(target)  # (B, T, D)
        for layer in self.decoder:
            x = layer(x, mask, memory, memory_mask)  # (B, T, D)
        x = self.decoder_norm(x, mask)  # (B, T, D)
        return x

    def hidden(self, source: Tensor, target: Tensor) -> Tensor:
        return self.decode(target, *self.encode(source))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """`hidden`, under the name that torch's wrappers (compile, DistributedDataParallel) call."""
        return self.hidden(source, target)

    def output(self) -> tuple[Tensor, Tensor | None]:
        return self.matrix, None

    def project(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.matrix)

    def attention(self, source: Tensor, target: Tensor) -> Attention:
        with watch(self) as weights:
            self.hidden(source, target)
        modules = ((layer.attention for layer in self.encoder), (layer.attention for layer in self.decoder))
        kinds = (*modules, (layer.cross for layer in self.decoder))
        return Attention(*(torch.stack([weights[one] for one in kind], dim=1) for kind in kinds))  # type: ignore[index]

    def start(self, source: Tensor) -> DecoderState:
        memory, mask = self.encode(source)
        layers: list[DecoderLayer] = list(self.decoder)  # type: ignore[arg-type]
        caches = [layer.attention.empty_cache(memory) for layer in layers]
        memories = [layer.cross.read(memory) for layer in layers]
        return DecoderState(caches, memories, mask, torch.arange(len(source), device=source.device))

    def step(self, token: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        x = self.target(token[:, None], state.caches[0].length)  # (N, 1, D)
        for layer, cache, memory in zip(self.decoder, state.caches, state.memories, strict=True):
            x = layer.step(x, cache, memory, state.mask)  # type: ignore[operator]
        return self.project(self.decoder_norm(x)[:, 0]), state


@dataclass
class DecoderState:
    """Keys and values that the decoder remembers: those of the target per row, those of the source per sentence."""

    caches: list[Cache]  # L × (N, H, t, K)
    memories: list[KeysValues]  # L × (B, H, S, K)
    mask: Mask  # of the sources
    sentence: Tensor  # (N,) the memory that each row attends to, ascending

    def select(self, rows: Tensor) -> DecoderState:
        """Row n continues row rows[n].  Memories move only when a sentence leaves or loses some of its rows."""
        caches = [cache.select(rows) for cache in self.caches]
        taken, sentence = regroup(self.sentence, rows, len(self.memories[0][0]))
        if taken is None:
            return DecoderState(caches, self.memories, self.mask, sentence)
        memories = [(keys.index_select(0, taken), values.index_select(0, taken)) for keys, values in self.memories]
        return DecoderState(caches, memories, self.mask.select(taken), sentence)


def embedding(config: TransformerConfig, symbols: int, weight: nn.Parameter | None = None) -> Embedding:
    """Token vectors times sqrt(d_model), plus positions; with a table of its own unless one is given."""
    positions = POSITIONS[config.positions](config.d_model, config.longest)
    join = JOINS[config.join](config.d_model, positions.width)
    weight = draw_table(symbols, config.d_model, spread=config.d_model**-0.5) if weight is None else weight
    return Embedding(weight, positions, join, Dropout(config.dropout), scale=config.d_model**0.5)


def self_attention(config: TransformerConfig) -> SelfAttention:
    sizes = head_sizes(config)
    rotary = Rotary(sizes[2]) if config.positions == "rotary" else None
    return SelfAttention(*sizes, score=SCORES[config.score], bias=config.bias, rotary=rotary)


def cross_attention(config: TransformerConfig) -> CrossAttention:
    return CrossAttention(*head_sizes(config), score=SCORES[config.score], bias=config.bias)


def head_sizes(config: TransformerConfig) -> tuple[int, int, int, int]:
    """d_model, h, d_k and d_v."""
    return config.d_model, config.heads, *config.head_widths


def residual(config: TransformerConfig) -> Residual:
    """Norm, dropout and residual sum around one sub-layer."""
    return RESIDUALS[config.norm_place, config.residual](NORMS[config.norm](config.d_model), Dropout(config.dropout))


def last_norm(config: TransformerConfig) -> nn.Module:
    """A pre-norm stack ends with one more norm; a post-norm stack has just done it."""
    return NORMS[config.norm if config.norm_place == "pre" else "none"](config.d_model)
