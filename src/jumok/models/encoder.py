"""A text encoder, and models that learn a language by guessing words hidden from it: what BERT and ELECTRA share.

    CLASS first SEPARATOR second SEPARATOR, some words hidden
      └ word + position + segment ─ norm ─ [self-attention, feed-forward] × 6 ─ a state for each token

The layers are those of transformer.py, post-norm with gelu.  The encoder has the same names in BERT, ELECTRA and the
models of labels.py, so that its weights can be copied from one to the other.  The text is in `labels`; a `source` that
has more than its END is the text before it.

Shapes   B batch · S source · T text · P places of both, joined · D width · M hidden words · V vocabulary
Not here dropout on the weights of attention (attention has none here), objectives (bert.py, electra.py).
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from jumok.config.sections import Layers, ModelConfig, Share, Size, TransformerConfig, check_heads
from jumok.models.base import CLASS, END, MASK, PAD, SEPARATOR, SPECIALS, UNKNOWN
from jumok.models.transformer import EncoderLayer
from jumok.nn.attention import Mask
from jumok.nn.dropout import Chance, Dropout
from jumok.nn.layers import LayerNorm, Linear
from jumok.nn.loss import smoothed_cross_entropy
from jumok.nn.variants import POSITIONS

EPSILON, SPREAD = 1e-12, 0.02  # of every norm; standard deviation of the tables when they are drawn (both BERT's)


class EncoderConfig(ModelConfig):
    """The sizes of an encoder, as all models say them that have one and no decoder."""

    layers: Layers = 6
    d_model: Size = 128
    d_ff: Size = 512
    heads: Annotated[int, Field(ge=1, le=1_024)] = 4
    dropout: Share = 0.1
    longest: Annotated[int, Field(ge=8, le=65_536)] = 512  # learned positions; beyond them the last one repeats
    positions: Literal["learned", "rotary"] = "learned"  # figure 2's, or queries and keys turned inside attention

    @model_validator(mode="after")
    def sizes_fit(self) -> Self:
        check_heads(self.d_model, self.heads, positions=self.positions)
        return self

    @property
    def shape(self) -> str:
        width = self.d_model // self.heads
        return f"{self.layers} layers, d_model {self.d_model}, d_ff {self.d_ff}, {self.heads} heads of {width}"

    def stack_parameters(self, width: int, d_ff: int) -> int:
        """Weights of the layers, were they so wide."""
        return self.layers * (4 * (width + 1) * width + (width + 1) * d_ff + (d_ff + 1) * width + 4 * width)

    def encoder_parameters(self, symbols: int) -> int:
        places = self.longest * (self.positions == "learned")
        tables = (symbols + places + 4) * self.d_model  # two segments; scale and shift of the norm
        return tables + self.stack_parameters(self.d_model, self.d_ff)


class MaskedConfig(EncoderConfig):
    """What BERT and ELECTRA have in common besides their encoder."""

    tied: Literal["all"] = "all"  # one text, one vocabulary, and the output reads the same table
    masked: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.15  # of the words


def stack(config: EncoderConfig, *, width: int, d_ff: int, heads: int) -> nn.ModuleList:
    """The layers of an encoder, were they so wide, with gelu and with BERT's epsilon."""
    like = TransformerConfig(
        d_model=width, d_ff=d_ff, heads=heads, dropout=config.dropout, activation="gelu", positions=config.positions
    )
    made = nn.ModuleList(EncoderLayer(like) for _ in range(config.layers))
    for module in made.modules():
        if isinstance(module, LayerNorm):
            module.eps = EPSILON
    return made


def run(layers: nn.ModuleList, x: Tensor, real: Tensor) -> Tensor:
    """Send x (B, P, D) through all layers; `real` (B, P) is True at real tokens."""
    mask = Mask.padding(real)
    for layer in layers:
        x = layer(x, mask)  # (B, P, D)
    return x


class TextEmbedding(nn.Module):
    """Word, position (where it is learned) and segment, added (figure 2), then normed and dropped out."""

    def __init__(self, symbols: int, config: EncoderConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(symbols, config.d_model))
        self.segments = nn.Parameter(torch.empty(2, config.d_model))
        self.positions = POSITIONS[config.positions](config.d_model, config.longest)
        self.norm, self.dropout = LayerNorm(config.d_model, eps=EPSILON), Dropout(config.dropout)
        for table in (self.weight, self.segments):
            nn.init.normal_(table, std=SPREAD)

    def forward(self, ids: Tensor, segments: Tensor) -> Tensor:
        x = F.embedding(ids, self.weight) + F.embedding(segments, self.segments)  # (B, P, D)
        positions = self.positions(0, ids.shape[1])
        x = self.dropout(self.norm(x if positions is None else x + positions))  # (B, P, D)
        return x


class TextEncoder(nn.Module):
    """From ids and segments (B, P) to a state for each (B, P, D)."""

    def __init__(self, config: EncoderConfig, symbols: int) -> None:
        super().__init__()
        self.embedding = TextEmbedding(symbols, config)
        self.layers = stack(config, width=config.d_model, d_ff=config.d_ff, heads=config.heads)

    def forward(self, ids: Tensor, segments: Tensor) -> Tensor:
        return run(self.layers, self.embedding(ids, segments), ids != PAD)


class WordHead(nn.Module):
    """Predicts the word at a position: dense, gelu, norm, then the transposed table of words, with a bias."""

    def __init__(self, width: int, table_width: int, symbols: int) -> None:
        super().__init__()
        self.dense, self.norm = Linear(width, table_width), LayerNorm(table_width, eps=EPSILON)
        self.bias = nn.Parameter(torch.zeros(symbols))

    def forward(self, states: Tensor) -> Tensor:
        """States as the table of words reads them."""
        read: Tensor = self.norm(F.gelu(self.dense(states)))
        return read

    def logits(self, states: Tensor, table: Tensor) -> Tensor:
        return F.linear(self(states), table, self.bias)

    def loss(self, states: Tensor, table: Tensor, words: Tensor, *, smoothing: float) -> Tensor:
        """The sum over the M words (M,) of their cross-entropy in states (M, D)."""
        return smoothed_cross_entropy(self(states), table, self.bias, words, smoothing=smoothing)


class Pooler(nn.Module):
    """The state of CLASS as a summary of all: dense, tanh."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = Linear(width, width)

    def forward(self, state: Tensor) -> Tensor:
        return torch.tanh(self.dense(state))


def ordinary(ids: Tensor) -> Tensor:
    """True at words, also unknown ones; False at padding and all marks."""
    return (ids >= SPECIALS) | (ids == UNKNOWN)


def join(source: Tensor, text: Tensor) -> tuple[Tensor, Tensor]:
    """Ids and segments (B, P) of "CLASS source SEPARATOR text SEPARATOR", padded at the end.

    A source that has nothing but its END leaves "CLASS text SEPARATOR", all of it segment 0.
    """
    first, second = ((side != PAD) & (side != END) for side in (source, text))
    pair, always = first.any(dim=1, keepdim=True), first.new_ones(len(first), 1)  # (B, 1)
    separator = torch.full_like(always, SEPARATOR, dtype=torch.long)  # (B, 1)
    ids = torch.cat([torch.full_like(separator, CLASS), source, separator, text, separator], dim=1)
    keep = torch.cat([always, first, pair, second, always], dim=1)
    second_text = torch.cat(
        [torch.zeros_like(keep[:, : source.shape[1] + 2]), pair.expand(-1, text.shape[1] + 1)], dim=1
    )
    place = keep.cumsum(dim=1) - 1
    rows, columns = keep.nonzero(as_tuple=True)
    joined = ids.new_full((len(ids), int(place[:, -1].max()) + 1), PAD)  # (B, P)
    segments = torch.zeros_like(joined)  # (B, P)
    joined[rows, place[rows, columns]] = ids[rows, columns]
    segments[rows, place[rows, columns]] = second_text[rows, columns].long()
    return joined, segments


def choose(ids: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Which words (B, P) are to be guessed: this share of those of each row, and one at least."""
    words = ordinary(ids)  # (B, P)
    noise = torch.rand(ids.shape, generator=generator).to(ids.device).masked_fill(~words, 2.0)  # (B, P)
    rank = noise.argsort(dim=1).argsort(dim=1)  # (B, P)
    count = (words.sum(dim=1, keepdim=True) * share).round().clamp(min=1)  # (B, 1)
    return words & (rank < count)


class HiddenWords(NamedTuple):
    """A batch of texts, and which words of it are to be guessed."""

    ids: Tensor  # (B, P)
    segments: Tensor  # (B, P)
    places: Tensor  # (M,) of the hidden words in the flattened grid
    words: Tensor  # (M,) what is there

    def show(self, others: Tensor) -> Tensor:
        """The ids (B, P) with others (M,) in the places of the hidden words."""
        return self.ids.flatten().index_copy(0, self.places, others).view_as(self.ids)


class MaskedModel(nn.Module):
    """An encoder that learns by guessing hidden words; BERT and ELECTRA say what is shown in their places."""

    def __init__(self, config: MaskedConfig, source_symbols: int, target_symbols: int) -> None:
        super().__init__()
        self.config, self.symbols = config, max(source_symbols, target_symbols)
        self.encoder = TextEncoder(config, self.symbols)
        self.chance = Chance()

    def encode(self, ids: Tensor, segments: Tensor) -> Tensor:
        """A state for every token (B, P, D) of sequences as `join` makes them."""
        states: Tensor = self.encoder(ids, segments)
        return states

    def forward(self, ids: Tensor, segments: Tensor) -> Tensor:
        """`encode`, under the name that torch's wrappers call."""
        return self.encode(ids, segments)

    def guess(self, ids: Tensor, segments: Tensor, places: Tensor) -> Tensor:
        """Logits (M, V) of the words at places (M,) of the flattened grid."""
        raise NotImplementedError

    def hide(self, source: Tensor, text: Tensor, generator: torch.Generator) -> HiddenWords:
        """Choose the words to be guessed in joined texts."""
        ids, segments = join(source, text)
        places = choose(ids, self.config.masked, generator).flatten().nonzero().squeeze(1)  # (M,)
        return HiddenWords(ids, segments, places, ids.flatten()[places])

    def fill(self, text: Tensor) -> Tensor:
        """Logits (M, V) of the words in the place of every MASK, row by row, in texts (B, T) as `labels` has them.

        CLASS and SEPARATOR are put around them here.
        """
        ids, segments = join(text[:, :0], text)
        return self.guess(ids, segments, (ids == MASK).flatten().nonzero().squeeze(1))
