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
mask hides from all real positions.  So the result of a position does not depend on the rest of the batch.

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

from jumok.config.sections import Layers, ModelConfig, Share, Size, check_heads
from jumok.errors import UsageError
from jumok.models.base import PAD, SEPARATOR, Attention
from jumok.nn.attention import Mask, SelfAttention, merge_heads, watch
from jumok.nn.cache import Cache, KeysValues, regroup
from jumok.nn.dropout import Dropout
from jumok.nn.layers import LayerNorm, PreNorm
from jumok.nn.variants import POSITIONS, SCORES, Rotary, feed_forward

CAUSAL = Mask(causal=True)


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
        check_heads(self.d_model, self.heads, positions=self.positions)
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
    """Masked self-attention and the feed-forward network, each with a norm before it and a sum after it (2019, 2.3)."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        width = config.d_model // config.heads
        rotary = Rotary(width) if config.positions == "rotary" else None
        self.attention = SelfAttention(
            config.d_model, config.heads, width, width, score=SCORES["scaled-dot"], bias=True, rotary=rotary
        )
        self.feed_forward = feed_forward("gelu-tanh", config.d_model, config.d_ff)
        self.attention_path, self.feed_forward_path = (
            PreNorm(LayerNorm(config.d_model), Dropout(config.dropout)) for _ in range(2)
        )
        with torch.no_grad():  # so that the sum of all of them starts no larger than one
            for last in (self.attention.output, self.feed_forward.outer):
                last.weight.mul_((2 * config.layers) ** -0.5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.attention_path(x, lambda x: self.attention(x, CAUSAL))  # (B, P, D)
        x = self.feed_forward_path(x, self.feed_forward)  # (B, P, D)
        return x

    def read(self, x: Tensor) -> tuple[Tensor, KeysValues]:
        """`forward` of a prefix, and its keys and values (B, H, P, K) for the steps after it."""
        q, k, v = self.attention.split(self.attention_path.norm(x))
        x = self.attention_path(x, lambda _: self.attention.mix(q, k, v, CAUSAL))  # (B, P, D)
        return self.feed_forward_path(x, self.feed_forward), (k.contiguous(), v.contiguous())

    def step(self, x: Tensor, cache: Cache, prefix: KeysValues, real: Tensor, positions: Tensor) -> Tensor:
        """One position of N rows (N, 1, D), after prefixes of different length; extends the cache."""

        def attention(x: Tensor) -> Tensor:
            q, k, v = self.attention.split(x, positions)
            mixed = attend_after(q, cache.append(k, v), prefix, real)  # (N, H, 1, K)
            return self.attention.output(merge_heads(mixed))

        x = self.attention_path(x, attention)  # (N, 1, D)
        x = self.feed_forward_path(x, self.feed_forward)  # (N, 1, D)
        return x


def attend_after(q: Tensor, own: KeysValues, prefix: KeysValues, real: Tensor) -> Tensor:
    """Attended values (N, H, 1, K) of queries that attend to their own keys and to those of a prefix they share.

    The own ones are (N, H, T, K), those of the prefix (N / G, H, S, K), of which `real` (N / G, S) are not padding: G
    neighbours attend to the same prefix, which is not copied.
    """
    (rows, heads, _, width), groups, count = q.shape, len(prefix[0]), prefix[0].shape[2]
    score = SCORES["scaled-dot"](heads, width)
    grouped = q.reshape(groups, -1, heads, width).transpose(1, 2)  # (N / G, H, G, K)
    before = score(grouped, prefix[0]).masked_fill(~real[:, None, None, :], -torch.inf)  # (N / G, H, G, S)
    scores = torch.cat([before.transpose(1, 2).reshape(rows, heads, 1, count), score(q, own[0])], dim=-1)
    weights = scores.softmax(dim=-1)  # (N, H, 1, S + T)
    before = weights[..., :count].reshape(groups, -1, heads, count).transpose(1, 2)  # (N / G, H, G, S)
    mixed = (before @ prefix[1]).transpose(1, 2).reshape(rows, heads, 1, -1)
    return mixed + weights[..., count:] @ own[1]


class Line(NamedTuple):
    """Sources and targets, lined up without a gap."""

    tokens: Tensor  # (B, P)
    places: Tensor  # (B, T) of the target in the line

    @classmethod
    def of(cls, source: Tensor, target: Tensor) -> Line:
        """Source, SEPARATOR in the place of its END, target, padding."""
        lengths = (source != PAD).sum(dim=1, keepdim=True)  # (B, 1)
        both = F.pad(torch.cat([source, target], dim=1), (0, 1), value=PAD)  # the last column: PAD, after everything
        place = torch.arange(both.shape[1] - 1, device=source.device)  # (P,)
        after = place - lengths  # (B, P)
        column = torch.where(after < 0, place, source.shape[1] + after).clamp(max=both.shape[1] - 1)  # (B, P)
        tokens = both.gather(1, column).masked_fill(after == -1, SEPARATOR)  # (B, P)
        places = lengths + torch.arange(target.shape[1], device=source.device)  # (B, T)
        return cls(tokens, places)


@dataclass
class Reading:
    """Cached keys and values: those of the target per row, those of the source per sentence."""

    caches: list[Cache]  # L × (N, H, t, K)
    prefixes: list[KeysValues]  # L × (B, H, S, K)
    real: Tensor  # (B, S) True at real tokens of the prefixes
    sentence: Tensor  # (N,) the prefix that each row continues, ascending

    @property
    def positions(self) -> Tensor:
        """Where each row (N,) reads next."""
        return self.real.sum(dim=1)[self.sentence] + self.caches[0].length

    def select(self, rows: Tensor) -> Reading:
        """Row n continues row rows[n].  Prefixes move only when a sentence leaves or loses some of its rows."""
        caches = [cache.select(rows) for cache in self.caches]
        taken, sentence = regroup(self.sentence, rows, len(self.real))
        if taken is None:
            return Reading(caches, self.prefixes, self.real, sentence)
        prefixes = [(keys.index_select(0, taken), values.index_select(0, taken)) for keys, values in self.prefixes]
        return Reading(caches, prefixes, self.real.index_select(0, taken), sentence)


class GPT(nn.Module):
    """The picture above.  Implements `models.base.Seq2Seq`."""

    def __init__(self, config: GPTConfig, source_symbols: int, target_symbols: int) -> None:
        super().__init__()
        if source_symbols != target_symbols:
            raise UsageError("models.gpt_needs_one_vocabulary", sources=source_symbols, targets=target_symbols)
        self.config = config
        self.table = table(source_symbols, config)
        self.scale = config.d_model**0.5 if config.positions == "sinusoidal" else 1.0  # sinusoids are as large as 1
        self.positions = POSITIONS[config.positions](config.d_model, config.longest)
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = LayerNorm(config.d_model)
        self.matrix = table(target_symbols, config) if config.tied == "none" else self.table

    def embed(self, tokens: Tensor, positions: Tensor | None) -> Tensor:
        """Token vectors plus those of their positions, then dropout."""
        x = F.embedding(tokens, self.table) * self.scale
        x = self.dropout(x if positions is None else x + positions)
        return x

    def read(self, tokens: Tensor) -> Tensor:
        """States (B, P, D) of lined-up tokens (B, P), before the last norm."""
        x = self.embed(tokens, self.positions(0, tokens.shape[1]))  # (B, P, D)
        for block in self.blocks:
            x = block(x)  # (B, P, D)
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
        tokens = Line.of(source, source[:, :0]).tokens
        x, prefixes = self.embed(tokens, self.positions(0, tokens.shape[1])), list[KeysValues]()
        for block in self.blocks:
            x, prefix = block.read(x)  # type: ignore[operator]
            prefixes.append(prefix)
        caches = [block.attention.empty_cache(x) for block in self.blocks]  # type: ignore[union-attr, operator]
        return Reading(caches, prefixes, source != PAD, torch.arange(len(source), device=source.device))

    def step(self, token: Tensor, state: Reading) -> tuple[Tensor, Reading]:
        positions = state.positions  # (N,)
        vectors = self.positions(0, int(positions.max()) + 1)
        x = self.embed(token[:, None], None if vectors is None else vectors[positions][:, None])  # (N, 1, D)
        for block, cache, prefix in zip(self.blocks, state.caches, state.prefixes, strict=True):
            x = block.step(x, cache, prefix, state.real, positions)  # type: ignore[operator]
        return self.project(self.norm(x[:, 0])), state

    def attention(self, source: Tensor, target: Tensor) -> Attention:
        """Maps cut out of those of the line: rows of decoder and cross together sum to 1, padding of sources has 0."""
        line, real = Line.of(source, target), source != PAD
        with watch(self) as weights:
            self.read(line.tokens)
        maps, count = torch.stack(list(weights.values()), dim=1), source.shape[1]  # (B, L, H, P, P)
        keys = real[:, None, None, None, :]
        rows = maps.take_along_dim(line.places[:, None, None, :, None], dim=3)  # (B, L, H, T, P)
        decoder = rows.take_along_dim(line.places[:, None, None, None, :], dim=4)  # (B, L, H, T, T)
        return Attention(maps[..., :count, :count] * keys * keys.mT, decoder, rows[..., :count] * keys)
