"""BERT (Devlin et al. 2018): the Transformer's encoder, which learns a language by guessing words hidden from it.

    CLASS first SEPARATOR second SEPARATOR, some words hidden
      └ word + position + segment ─ norm ─ [self-attention, feed-forward] × 6 ┬ hidden words ─ head ─ table of words
                                                                              └ CLASS ─ pooler ─ does it follow?

Read section 3 beside it: figure 2 is `Embedding`, "masked LM" of section 3.1 is `choose` and `disguise`, "NSP" is
`NextSentence`.  The layers are those of transformer.py, post-norm with gelu.  The text is in `labels`; a `source` that
has more than its END is what stands before it.  `Encoder` is also what ELECTRA and the models of labels.py have, under
the same names, so that its weights can be copied from one to the other.

Shapes   B batch · S source · T text · P places of both, joined · D width · M hidden words · V vocabulary
Not here dropout on the weights of attention (the house's attention has none), training (training/), text (text/).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

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

EPSILON, SPREAD = 1e-12, 0.02  # in every norm; of the tables when they are drawn (BERT's own)
FOLLOWS, OTHER, ALONE = 0, 1, -1  # what the second text is to the first; alone: there is no first


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


class BERTConfig(EncoderConfig):
    """Section 3, at a size for a text of some megabytes; layers 12, d_model 768, d_ff 3072, heads 12 and learned
    positions are the paper's base model."""

    usual: ClassVar[Mapping[str, Any]] = {
        "model.positions": "rotary",  # learned ones stay at word frequencies for long (docs/decisions/0012)
        "training.optimizer": "muon",
        "training.peak": 6e-3,
        "training.warmup": 200,
        "training.label_smoothing": 0.0,
        "training.word_dropout": 0.0,  # the objective hides words itself
        "training.dropout_epochs": 0,
        "vocabulary.sampling": 0.0,
    }

    kind: Literal["bert"] = "bert"
    tied: Literal["all"] = "all"  # one text, one vocabulary, and the output reads the same table
    masked: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.15  # of the words
    next_sentence: bool = False  # also tell whether the second text follows the first; needs data.halves=true

    def parameters(self, source: int, target: int) -> int:
        symbols, width = max(source, target), self.d_model
        head = (width + 3) * width + symbols
        return self.encoder_parameters(symbols) + head + (width + 1) * (width + 2) * self.next_sentence


# ---------------------------------------------------------------------------------------------------- encoder


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


class Embedding(nn.Module):
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


class Encoder(nn.Module):
    """From ids and segments (B, P) to a state for each (B, P, D)."""

    def __init__(self, config: EncoderConfig, symbols: int) -> None:
        super().__init__()
        self.embedding = Embedding(symbols, config)
        self.layers = stack(config, width=config.d_model, d_ff=config.d_ff, heads=config.heads)

    def forward(self, ids: Tensor, segments: Tensor) -> Tensor:
        return run(self.layers, self.embedding(ids, segments), ids != PAD)


class WordHead(nn.Module):
    """Which word stands here: dense, gelu, norm, and then the table of words read backwards, with a bias."""

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


# ------------------------------------------------------------------------------------------------- what is asked


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
    behind = torch.cat([torch.zeros_like(keep[:, : source.shape[1] + 2]), pair.expand(-1, text.shape[1] + 1)], dim=1)
    place = keep.cumsum(dim=1) - 1
    rows, columns = keep.nonzero(as_tuple=True)
    joined = ids.new_full((len(ids), int(place[:, -1].max()) + 1), PAD)  # (B, P)
    segments = torch.zeros_like(joined)  # (B, P)
    joined[rows, place[rows, columns]] = ids[rows, columns]
    segments[rows, place[rows, columns]] = behind[rows, columns].long()
    return joined, segments


def choose(ids: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Which words (B, P) are to be guessed: this share of those of each row, and one at least."""
    words = ordinary(ids)  # (B, P)
    draws = torch.rand(ids.shape, generator=generator).to(ids.device).masked_fill(~words, 2.0)  # (B, P)
    rank = draws.argsort(dim=1).argsort(dim=1)  # (B, P)
    count = (words.sum(dim=1, keepdim=True) * share).round().clamp(min=1)  # (B, 1)
    return words & (rank < count)


def disguise(words: Tensor, symbols: int, generator: torch.Generator) -> Tensor:
    """What is shown in the place of chosen words (M,): MASK for 8 of 10, any word for one, and one is shown itself."""
    lot = torch.rand(len(words), generator=generator).to(words.device)  # (M,)
    other = torch.randint(SPECIALS, symbols, (len(words),), generator=generator).to(words.device)  # (M,)
    return torch.where(lot < 0.8, MASK, torch.where(lot < 0.9, other, words))


class NextSentence(nn.Module):
    """Does the second text follow the first?  Half of them are made not to, and CLASS must tell (section 3.1)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.pooler, self.output = Pooler(width), Linear(width, 2)

    def exchange(self, source: Tensor, text: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The texts (B, T), half of those with a source moved on by one among themselves, and what each now is (B,)."""
        pairs = ((source != PAD) & (source != END)).any(dim=1)  # (B,)
        drawn = torch.rand(len(source), generator=generator).to(source.device) < 0.5  # (B,)
        rows = (pairs & drawn).nonzero().squeeze(1)
        truth = torch.where(pairs, FOLLOWS, ALONE)  # (B,)
        if len(rows) > 1:  # one alone has nobody to change with
            text, truth[rows] = text.index_copy(0, rows, text[rows.roll(1)]), OTHER
        return text, truth

    def logits(self, states: Tensor) -> Tensor:
        """How well (B, 2) the second text follows, and how well it is another, from states (B, P, D)."""
        judged: Tensor = self.output(self.pooler(states[:, 0]))
        return judged

    def loss(self, states: Tensor, truth: Tensor) -> Tensor:
        """The mean cross-entropy over all pairs; 0 where there is none."""
        total = F.cross_entropy(self.logits(states), truth, ignore_index=ALONE, reduction="sum")
        return total / max(1, int((truth != ALONE).sum()))


class NoNextSentence(nn.Module):
    """Texts stay where they are, and nobody asks."""

    def __init__(self, width: int) -> None:
        super().__init__()

    def exchange(self, source: Tensor, text: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return text, text[:, :0]

    def loss(self, states: Tensor, truth: Tensor) -> float:
        return 0.0


class Question(NamedTuple):
    """A batch with words to be guessed."""

    shown: Tensor  # (B, P)
    segments: Tensor  # (B, P)
    places: Tensor  # (M,) in the flattened grid
    words: Tensor  # (M,) what stood there
    truth: Tensor  # (B,) what the second text is to the first


class BERT(nn.Module):
    """Implements `models.base.Learner`."""

    def __init__(self, config: BERTConfig, source_symbols: int, target_symbols: int) -> None:
        super().__init__()
        self.config, self.symbols = config, max(source_symbols, target_symbols)
        self.encoder = Encoder(config, self.symbols)
        self.head = WordHead(config.d_model, config.d_model, self.symbols)
        self.next_sentence = (NextSentence if config.next_sentence else NoNextSentence)(config.d_model)
        self.chance = Chance()

    def encode(self, ids: Tensor, segments: Tensor) -> Tensor:
        """A state for every token (B, P, D) of sequences as `join` makes them."""
        states: Tensor = self.encoder(ids, segments)
        return states

    def forward(self, ids: Tensor, segments: Tensor) -> Tensor:
        """`encode`, under the name that torch's wrappers call."""
        return self.encode(ids, segments)

    def ask(self, source: Tensor, text: Tensor) -> Question:
        """Hide words; which, is drawn by the stream of keys in training and always the same way in use."""
        generator = self.chance.generator()
        text, truth = self.next_sentence.exchange(source, text, generator)
        ids, segments = join(source, text)
        places = choose(ids, self.config.masked, generator).flatten().nonzero().squeeze(1)  # (M,)
        words = ids.flatten()[places]  # (M,)
        shown = ids.flatten().index_copy(0, places, disguise(words, self.symbols, generator)).view_as(ids)
        return Question(shown, segments, places, words, truth)

    def loss(self, source: Tensor, target: Tensor, labels: Tensor, *, smoothing: float) -> tuple[Tensor, int]:
        """The sum over the chosen words of their losses, and how many they are.

        With `next_sentence`, the mean loss of the pairs counts once for every chosen word: the quotient of both is then
        the paper's sum of two means.
        """
        asked = self.ask(source, labels)
        states = self.encode(asked.shown, asked.segments)  # (B, P, D)
        hidden = states.flatten(0, 1).index_select(0, asked.places)  # (M, D)
        total = self.head.loss(hidden, self.encoder.embedding.weight, asked.words, smoothing=smoothing)
        return total + len(asked.words) * self.next_sentence.loss(states, asked.truth), len(asked.words)

    @torch.no_grad()
    def accuracy(self, source: Tensor, target: Tensor, labels: Tensor) -> tuple[int, int]:
        """How many of the chosen words are the likeliest in their places, and how many were chosen."""
        asked = self.ask(source, labels)
        logits = self.guess(asked.shown, asked.segments, asked.places)
        return int((logits.argmax(dim=-1) == asked.words).sum()), len(asked.words)

    def guess(self, ids: Tensor, segments: Tensor, places: Tensor) -> Tensor:
        """Logits (M, V) of the words at places (M,) of the flattened grid."""
        hidden = self.encode(ids, segments).flatten(0, 1).index_select(0, places)  # (M, D)
        return self.head.logits(hidden, self.encoder.embedding.weight)

    def fill(self, text: Tensor) -> Tensor:
        """Logits (M, V) of the words in the place of every MASK, row by row, in texts (B, T) as `labels` has them.

        CLASS and SEPARATOR are put around them here.
        """
        ids, segments = join(text[:, :0], text)
        return self.guess(ids, segments, (ids == MASK).flatten().nonzero().squeeze(1))
