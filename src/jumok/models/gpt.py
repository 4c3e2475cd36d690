"""GPT (Radford et al. 2018, 2019): the decoder of the Transformer alone, one stack that reads everything from the left.

    s1 s2 s3 SEPARATOR START t1 t2 t3 ─ embed ─ [masked self-attention, feed-forward] × 6 ─ norm ─ output matrix
                         │    │  │  │                                                                   │
                         └────┴──┴──┴────────────────────── predict ──────────────────── t1 t2 t3 END ──┘

"Improving Language Understanding by Generative Pre-Training", section 3.1 and 4.1: a language model with learned
positions, gelu, and one matrix for embedding and output.  "Language Models are Unsupervised Multitask Learners",
section 2.3: the norm before each sub-layer, one more at the end, and weights on the residual path that start smaller by
the root of their number.  A pair is one text, the source, a SEPARATOR in the place of its END, and the target (2018,
section 3.3); with an empty source it is a language model.

Every row of a batch is lined up without a gap: source, SEPARATOR, target, and only then padding, which the look-ahead
mask hides from all that is real.  So a position means the same whatever else is in the batch.

Shapes   B batch · S source · T target · P = S + T places in line · N rows · D width · V vocabulary · L layers · H heads
Not here attention and its cache (nn/attention.py), losses (training/), search (decoding/), text (text/).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from jumok.config import Layers, ModelConfig, Share, Size, heads_fit
from jumok.errors import UsageError
from jumok.models.base import PAD, SEPARATOR, Attention, State
from jumok.nn import fused
from jumok.nn.attention import Cache, Padding, Pair, SelfAttention, regroup
from jumok.nn.layers import Dropout, LayerNorm, PreNorm, feed_forward
from jumok.nn.positions import POSITIONS, Rotary


class GPTConfig(ModelConfig):
    """About two million weights over 8,000 symbols; GPT-2's smallest has 12 layers, d_model 768, 12 heads.

    It trains well as `tiny` does; half of that rate is slower.
    """

    kind: Literal["gpt"] = "gpt"
    layers: Layers = 6
    d_model: Size = 128
    d_ff: Size = 384
    heads: Annotated[int, Field(ge=1, le=1_024)] = 4
    dropout: Share = 0.3
    positions: Literal["learned", "rotary", "sinusoidal"] = "learned"
    longest: Annotated[int, Field(ge=8, le=65_536)] = 1_024  # learned positions there are; the last repeats
    tied: Literal["all", "target", "none"] = "all"  # both sides share one table, so "target" is the same as "all"

    @model_validator(mode="after")
    def sizes_fit(self) -> Self:
        heads_fit(self.d_model, self.heads, positions=self.positions)
        return self

    @property
    def shape(self) -> str:
        layers = f"{self.layers} layers, d_model {self.d_model}, d_ff {self.d_ff}"
        return f"{layers}, {self.heads} heads of {self.d_model // self.heads}, {self.positions} positions"

    def parameters(self, source: int, target: int) -> int:
        width, norm = self.d_model, 2 * self.d_model
        tables = max(source, target) * width * (2 if self.tied == "none" else 1)
        positions = self.longest * width * (self.positions == "learned")
        attention = 4 * (width + 1) * width + norm
        inner = (width + 1) * self.d_ff + (self.d_ff + 1) * width + norm
        return tables + positions + self.layers * (attention + inner) + norm


def table(symbols: int, config: GPTConfig) -> nn.Parameter:
    """Vectors (V, D) about as long as 1: what 0.02 a number (2018, section 4.1) is not at small widths."""
    return nn.Parameter(torch.randn(symbols, config.d_model) * config.d_model**-0.5)


class Block(nn.Module):
    """Masked self-attention and the feed-forward net, each with a norm before it and a sum behind (2019, 2.3)."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        width = config.d_model // config.heads
        rotary = Rotary(width) if config.positions == "rotary" else None
        self.attention = SelfAttention(
            config.d_model, config.heads, width, width, score="scaled-dot", bias=True, rotary=rotary
        )
        self.feed_forward = feed_forward("gelu-tanh", config.d_model, config.d_ff)
        self.attention_path, self.feed_forward_path = (
            PreNorm(LayerNorm(config.d_model), Dropout(config.dropout), residual=True) for _ in range(2)
        )
        with torch.no_grad():  # so that the sum of all of them starts no larger than one
            for last in (self.attention.output, self.feed_forward.get_submodule("outer")):
                last.get_parameter("weight").mul_((2 * config.layers) ** -0.5)

    def forward(self, x: Tensor, maps: list[Tensor] | None, kept: list[Pair] | None) -> Tensor:
        x = self.attention(x, None, self.attention_path, causal=True, maps=maps, kept=kept)  # (B, P, D)
        x = self.feed_forward(x, self.feed_forward_path)  # (B, P, D)
        return x

    def step(self, x: Tensor, cache: Cache, prefix: Pair, padding: Padding, positions: Tensor) -> Tensor:
        """One position of N rows (N, 1, D), behind prefixes of different length; extends the cache."""
        x = self.attention.step_behind(x, cache, prefix, padding, positions, self.attention_path)  # (N, 1, D)
        x = self.feed_forward(x, self.feed_forward_path)  # (N, 1, D)
        return x


class Line(NamedTuple):
    """Sources and targets, lined up without a gap."""

    tokens: Tensor  # (B, P)
    places: Tensor  # (B, T) of the target in the line

    @classmethod
    def of(cls, source: Tensor, target: Tensor) -> Line:
        """Source, SEPARATOR in the place of its END, target, padding."""
        lengths = (source != PAD).sum(dim=1, keepdim=True)  # (B, 1)
        both = F.pad(torch.cat([source, target], dim=1), (0, 1), value=PAD)  # the last column: what is behind all
        place = torch.arange(both.shape[1] - 1, device=source.device)  # (P,)
        behind = place - lengths  # (B, P)
        column = torch.where(behind < 0, place, source.shape[1] + behind).clamp(max=both.shape[1] - 1)  # (B, P)
        tokens = both.gather(1, column).masked_fill(behind == -1, SEPARATOR)  # (B, P)
        places = lengths + torch.arange(target.shape[1], device=source.device)  # (B, T)
        return cls(tokens, places)


@dataclass
class Reading:
    """Cached keys and values: those of the target a row each, those of the source once a sentence."""

    caches: list[Cache]  # L × (N, H, t, K)
    prefixes: list[Pair]  # L × (B, H, S, K)
    padding: Padding  # of the prefixes
    sentence: Tensor  # (N,) the prefix that each row goes on from, ascending

    @property
    def positions(self) -> Tensor:
        """Where each row (N,) reads next."""
        return self.padding.lengths[self.sentence] + self.caches[0].length

    def select(self, rows: Tensor) -> Reading:
        """Row n continues row rows[n].  Prefixes move only when a sentence leaves or loses some of its rows."""
        caches = [cache.select(rows) for cache in self.caches]
        taken, sentence = regroup(self.sentence, rows, len(self.padding.lengths))
        if taken is None:
            return Reading(caches, self.prefixes, self.padding, sentence)
        prefixes = [(keys.index_select(0, taken), values.index_select(0, taken)) for keys, values in self.prefixes]
        return Reading(caches, prefixes, self.padding.select(taken), sentence)


class GPT(nn.Module):
    """The picture above.  Implements `models.base.Seq2Seq`."""

    def __init__(self, config: GPTConfig, source_symbols: int, target_symbols: int) -> None:
        super().__init__()
        if source_symbols != target_symbols:
            raise UsageError(
                f"GPT reads both sides with one table, but there are {source_symbols:,} symbols on one side and "
                f"{target_symbols:,} on the other",
                where="in model.kind=gpt",
                hint="try: --set vocabulary.joint=true",
            )
        self.config = config
        self.table = table(source_symbols, config)
        self.scale = config.d_model**0.5 if config.positions == "sinusoidal" else 1.0  # sinusoids are as large as 1
        self.positions = POSITIONS[config.positions](config.d_model, config.longest)
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = LayerNorm(config.d_model)
        self.matrix = table(target_symbols, config) if config.tied == "none" else self.table

    def embed(self, tokens: Tensor, positions: Tensor | None) -> Tensor:
        """Token vectors with those of their positions, dropped out."""
        x = fused.embed(self.table, tokens, None, scale=self.scale)
        x = self.dropout(x if positions is None else x + positions)
        return x

    def read(self, tokens: Tensor, *, maps: list[Tensor] | None = None, kept: list[Pair] | None = None) -> Tensor:
        """States (B, P, D) of lined-up tokens (B, P), before the last norm."""
        x = self.embed(tokens, self.positions(0, tokens.shape[1]))  # (B, P, D)
        for block in self.blocks:
            x = block(x, maps, kept)  # (B, P, D)
        return x

    def hidden(self, source: Tensor, target: Tensor) -> Tensor:
        line = Line.of(source, target)
        x = self.read(line.tokens)  # (B, P, D)
        first = torch.arange(len(x), device=x.device)[:, None] * x.shape[1]  # (B, 1)
        x = x.flatten(0, 1).index_select(0, (first + line.places).flatten()).view(*target.shape, -1)  # (B, T, D)
        return self.norm(x)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """`hidden`, under the name that torch's wrappers (compile, DistributedDataParallel) call."""
        return self.hidden(source, target)

    def output(self) -> tuple[Tensor, Tensor | None]:
        return self.matrix, None

    def project(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.matrix)

    def start(self, source: Tensor) -> Reading:
        prefixes: list[Pair] = []
        x = self.read(Line.of(source, source[:, :0]).tokens, kept=prefixes)
        real = source != PAD  # (B, S)
        padding = Padding(real[:, None, None, :], real.sum(dim=1))
        caches = [block.attention.cache(len(source), x) for block in self.blocks]  # type: ignore[union-attr, operator]
        return Reading(caches, prefixes, padding, torch.arange(len(source), device=source.device))

    def step(self, token: Tensor, state: State) -> tuple[Tensor, Reading]:
        assert isinstance(state, Reading)
        positions = state.positions  # (N,)
        vectors = self.positions(0, int(positions.max()) + 1)
        x = self.embed(token[:, None], None if vectors is None else vectors[positions][:, None])  # (N, 1, D)
        for block, cache, prefix in zip(self.blocks, state.caches, state.prefixes, strict=True):
            x = block.step(x, cache, prefix, state.padding, positions)  # type: ignore[operator]
        return self.project(self.norm(x[:, 0])), state

    def attention(self, source: Tensor, target: Tensor) -> Attention:
        """Maps cut out of those of the line: rows of decoder and cross together sum to 1, padding of sources has 0."""
        line, found, real = Line.of(source, target), list[Tensor](), source != PAD
        self.read(line.tokens, maps=found)
        maps, count = torch.stack(found, dim=1), source.shape[1]  # (B, L, H, P, P)
        keys = real[:, None, None, None, :]
        rows = maps.take_along_dim(line.places[:, None, None, :, None], dim=3)  # (B, L, H, T, P)
        decoder = rows.take_along_dim(line.places[:, None, None, None, :], dim=4)  # (B, L, H, T, T)
        return Attention(maps[..., :count, :count] * keys * keys.mT, decoder, rows[..., :count] * keys)
