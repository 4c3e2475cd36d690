"""ConvS2S (Gehring et al. 2017, "Convolutional Sequence to Sequence Learning"): windows of words instead of recurrence.

    source ─ words + positions ─┬─ [window of K, gate, + residual] × 4 ─ z ┬─ keys z
                                └─ e ──────────────────────────────────────┴─ values z + e
    target ─ words + positions ─┬─ [window of K before, gate, attention over keys and values, + residual] × 4 ─ softmax
                                └─ g, part of every query

A window is K neighbours side by side; one matrix makes of it twice the width, and one half gates the other (section
3.2).  Every layer of the decoder has its own attention (3.3).  Every matrix is a direction and a length for each
row (weight normalisation, section 4.2), drawn so that a layer neither swells nor shrinks what goes through (3.5).

Scale    every sum of two terms is multiplied by √½, those of query (W h + b + g) and value (z + e) too, as in the
         authors' program; the context of m source words by m sqrt(1/m) (section 3.4).
Widths   embeddings, queries, keys, values and the output have d_model, what is convolved d_conv; matrices between them
         stand where section 3.2 has them, and one more brings the context back to d_conv.
Shapes   B batch · S source · T target · N rows (hypotheses) · D width · C convolved width · K kernel · V vocabulary
Not here losses (training/), search (decoding/); the gradients of the encoder divided by the number of attentions
         (3.4): Adam and Muon divide by a gradient's own size, so that it would change next to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from jumok import messages
from jumok.config.sections import Layers, ModelConfig, Share, Size
from jumok.models.base import PAD, Attention
from jumok.nn.attention import Mask, attend
from jumok.nn.cache import Memory, regroup
from jumok.nn.dropout import Dropout
from jumok.nn.embedding import Embedding, draw_table
from jumok.nn.layers import Linear
from jumok.nn.positions import Add
from jumok.nn.variants import Dot, Learned

SPREAD = 0.1  # standard deviation of embeddings when they are drawn (section 3.5)
ROOT_HALF = 0.5**0.5  # the sum of two terms of one variance has twice that variance
Three = tuple[Tensor, Tensor, Tensor]  # normed matrices of a layer of the decoder: convolution, query, context


class ConvS2SConfig(ModelConfig):
    """The paper's model at the size of a small corpus; the paper's own has 15 + 15 layers of width 512 and more."""

    usual: ClassVar[Mapping[str, Any]] = {"training.peak": 3e-2}  # rows of a fixed length stand a higher rate

    kind: Literal["convs2s"] = "convs2s"
    encoder_layers: Layers = 4
    decoder_layers: Layers = 4
    d_model: Size = 128
    d_conv: Size | None = None  # width of what is convolved; d_model unless chosen
    kernel: Annotated[int, Field(ge=1, le=255)] = 3  # words in a window
    dropout: Share = 0.2
    longest: Annotated[int, Field(ge=8, le=65_536)] = 1_024  # learned positions there are; the last repeats beyond

    @property
    def convolved(self) -> int:
        return self.d_conv or self.d_model

    @model_validator(mode="after")
    def windows_have_a_middle(self) -> Self:
        if self.kernel % 2 == 0:
            raise ValueError(messages.text("models.kernel_without_middle", kernel=self.kernel, better=self.kernel + 1))
        return self

    @property
    def shape(self) -> str:
        layers = f"{self.encoder_layers} + {self.decoder_layers} layers, d_model {self.d_model}"
        return f"{layers}, d_conv {self.convolved}, kernel {self.kernel}"

    def parameters(self, source: int, target: int) -> int:
        def normed(inputs: int, outputs: int) -> int:
            return (inputs + 2) * outputs  # with a length and a bias per row

        width, inner = self.d_model, self.convolved
        between = normed(width, inner) + normed(inner, width)
        layers = (self.encoder_layers + self.decoder_layers) * normed(self.kernel * inner, 2 * inner)
        tables = self.tables(source, target) + 2 * target + 2 * self.longest * width
        return tables + layers + (2 + self.decoder_layers) * between


def normed(direction: Tensor, length: Tensor) -> Tensor:
    """The matrix whose rows have these directions and lengths: w = g v / |v| (Salimans and Kingma 2016)."""
    return direction * (length / direction.norm(dim=1))[:, None]


class Normed(Linear):
    """x Wᵀ + b with W in two parameters: where each row points (`weight`), and how long it is.

    Drawn from N(0, variance / inputs): section 3.5 has 4 before a gate and 1 elsewhere, times the share of the inputs
    that dropout keeps.  `matrix` is computed once per pass, or once for all steps of a search, and given to `forward`.
    """

    def __init__(self, width: int, *blocks: int, variance: float) -> None:
        self.deviation = (variance / width) ** 0.5
        super().__init__(width, *blocks)
        self.length = nn.Parameter(self.weight.detach().norm(dim=1))

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.deviation)
        nn.init.zeros_(self.bias)

    def matrix(self) -> Tensor:
        return normed(self.weight, self.length)

    def forward(self, x: Tensor, matrix: Tensor, *, residual: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """residual + x Wᵀ + b"""
        y = F.linear(x, matrix, self.bias)
        return y if residual is None else residual + y


class TiedOutput(nn.Module):
    """The table of target words as the output matrix; tables are not normed."""

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__()
        self.weight, self.bias = weight, nn.Parameter(torch.zeros(len(weight)))

    def matrix(self) -> Tensor:
        return self.weight


class NormedOutput(TiedOutput):
    """A separate output matrix, normed as all others; not a `Linear`, so that Adam and not Muon moves its rows."""

    def __init__(self, symbols: int, width: int, *, variance: float) -> None:
        super().__init__(nn.Parameter(torch.empty(symbols, width)))
        nn.init.normal_(self.weight, std=(variance / width) ** 0.5)
        self.length = nn.Parameter(self.weight.detach().norm(dim=1))

    def matrix(self) -> Tensor:
        return normed(self.weight, self.length)


class Windows(torch.autograd.Function):
    """x (B, T, C) to (B, T, K·C): the K neighbours of every position, concatenated; zeros beyond the ends.

    One copy and one product with a matrix (K·C, 2C): for short sentences faster than conv1d, forward and backward.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel: int, before: int) -> Tensor:
        (batch, length, width), ctx.rest = x.shape, (kernel, before)
        out = x.new_empty(batch, length, kernel, width)  # (B, T, K, C)
        for place in range(kernel):
            here, there = overlap(length, place - before)
            out[:, here, place] = x[:, there]
            out[:, : here.start, place] = 0.0
            out[:, here.stop :, place] = 0.0
        return out.view(batch, length, kernel * width)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        kernel, before = ctx.rest
        gradient = gradient.unflatten(-1, (kernel, -1))  # (B, T, K, C)
        total = gradient[:, :, before].clone()  # (B, T, C)
        for place in range(kernel):
            here, there = overlap(gradient.shape[1], place - before)
            if place != before:
                total[:, there] += gradient[:, here, place]
        return total, None, None


def overlap(length: int, ahead: int) -> tuple[slice, slice]:
    """The positions of a sentence that have another one `ahead` of them (before, if negative), and these others."""
    begin = min(length, max(0, -ahead))
    end = max(begin, min(length, length - ahead))
    return slice(begin, end), slice(begin + ahead, end + ahead)


class GatedConvolution(nn.Module):
    """Dropout, a window of K neighbours, a matrix, a gate: value ⊙ sigmoid(gate) (section 3.2)."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        width, self.kernel = config.convolved, config.kernel
        self.dropout = Dropout(config.dropout)
        self.gated = Normed(self.kernel * width, width, width, variance=4.0 * (1.0 - config.dropout))

    def forward(self, x: Tensor, matrix: Tensor, *, before: int) -> Tensor:
        """All positions (B, T, C), each with `before` of its window before it."""
        windows = Windows.apply(self.dropout(x), self.kernel, before)
        return F.glu(self.gated(windows, matrix), dim=-1)

    def step(self, x: Tensor, last: Tensor, matrix: Tensor) -> tuple[Tensor, Tensor]:
        """The next position (N, C) after the last K - 1; and what are then the last."""
        window = torch.cat([last, x[:, None]], dim=1)  # (N, K, C)
        return F.glu(self.gated(window.flatten(1), matrix), dim=-1), window[:, 1:]


def embedding(config: ConvS2SConfig, symbols: int, weight: nn.Parameter | None = None) -> Embedding:
    """Word vectors plus learned position vectors (section 3.1); with a table of its own unless one is given."""
    positions = Learned(config.d_model, config.longest)
    nn.init.normal_(positions.weight, std=SPREAD)
    if weight is None:
        weight = draw_table(symbols, config.d_model, spread=SPREAD)
    return Embedding(weight, positions, Add(config.d_model, config.d_model), Dropout(config.dropout), scale=1.0)


class ConvolutionalEncoder(nn.Module):
    """Words, a stack of gated convolutions with residual sums, and the keys and values that come of it."""

    def __init__(self, config: ConvS2SConfig, symbols: int) -> None:
        super().__init__()
        width, inner = config.d_model, config.convolved
        self.embedding = embedding(config, symbols)
        self.first = Normed(width, inner, variance=1.0 - config.dropout)
        self.layers = nn.ModuleList(GatedConvolution(config) for _ in range(config.encoder_layers))
        self.last = Normed(inner, width, variance=1.0)

    def forward(self, source: Tensor) -> Memory:
        """Padding is zero before every convolution, like the positions beyond the ends, and is not counted in m."""
        real = source != PAD  # (B, S)
        words = self.embedding(source)  # (B, S, D)
        keep = real[:, :, None].to(words.dtype)  # (B, S, 1)
        x = self.first(words, self.first.matrix()) * keep  # (B, S, C)
        for layer in self.layers:
            assert isinstance(layer, GatedConvolution)
            y = layer(x, layer.gated.matrix(), before=layer.kernel // 2)  # (B, S, C)
            x = (x + y) * (keep * ROOT_HALF)  # (B, S, C)
        keys = self.last(x, self.last.matrix())  # (B, S, D)
        grown = keep.sum(dim=1, keepdim=True).sqrt() * ROOT_HALF  # m sqrt(1/m) and the scale of the sum
        values = (keys + words) * grown  # (B, S, D)
        return Memory(keys, values, Mask.padding(real))


class ConvolutionalLayer(nn.Module):
    """A gated convolution over the words so far, then an attention over the memory, each with its sum (section 3.3)."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        self.convolution = GatedConvolution(config)
        self.query = Normed(config.convolved, config.d_model, variance=1.0)
        self.context = Normed(config.d_model, config.convolved, variance=1.0)

    def matrices(self) -> Three:
        return self.convolution.gated.matrix(), self.query.matrix(), self.context.matrix()

    def forward(self, x: Tensor, words: Tensor, memory: Memory, matrices: Three) -> tuple[Tensor, Tensor]:
        """All positions (B, T, C), whose words so far are embedded as (B, T, D); and the weights (B, 1, T, S)."""
        y = self.convolution(x, matrices[0], before=self.convolution.kernel - 1)  # (B, T, C)
        y, weights = self.attend(y, words, memory, matrices)  # (B, T, C)
        return torch.add(x, y, alpha=ROOT_HALF) * ROOT_HALF, weights

    def attend(self, h: Tensor, words: Tensor, memory: Memory, matrices: Three) -> tuple[Tensor, Tensor]:
        """h + the context of every position, not yet scaled; and the weights (B, 1, T, S)."""
        sides = self.query(h, matrices[1], residual=words), memory.keys, memory.values
        q, k, v = (side[:, None] for side in sides)  # one head
        mixed, weights = attend(
            q, k, v, memory.mask.allowed(q), score=Dot(ROOT_HALF)
        )  # the scale of the sum that is the query
        return self.context(mixed[:, 0], matrices[2], residual=h), weights

    def step(self, x: Tensor, words: Tensor, memory: Memory, matrices: Three, last: Tensor) -> tuple[Tensor, Tensor]:
        """The next position (N, C); the rows of one sentence look at its memory as positions of one sentence do."""
        y, last = self.convolution.step(x, last, matrices[0])
        y, words = (side.unflatten(0, (len(memory.keys), -1)) for side in (y, words))
        y = self.attend(y, words, memory, matrices)[0].flatten(0, 1)  # (N, C)
        return torch.add(x, y, alpha=ROOT_HALF) * ROOT_HALF, last


class Matrices(NamedTuple):
    """All matrices of the decoder, normed."""

    first: Tensor
    layers: list[Three]
    last: Tensor


class ConvolutionalDecoder(nn.Module):
    """Words, a stack of gated convolutions with attention, and hidden states that the output matrix can take."""

    def __init__(self, config: ConvS2SConfig, symbols: int, weight: nn.Parameter | None) -> None:
        super().__init__()
        width, inner = config.d_model, config.convolved
        self.embedding = embedding(config, symbols, weight)
        self.first = Normed(width, inner, variance=1.0 - config.dropout)
        self.layers = nn.ModuleList(ConvolutionalLayer(config) for _ in range(config.decoder_layers))
        self.last = Normed(inner, width, variance=1.0)
        self.dropout = Dropout(config.dropout)

    def matrices(self) -> Matrices:
        layers = [layer.matrices() for layer in self.layers]  # type: ignore[operator]
        return Matrices(self.first.matrix(), layers, self.last.matrix())

    def forward(self, target: Tensor, memory: Memory) -> tuple[Tensor, list[Tensor]]:
        """Hidden states (B, T, D), and the weights (B, 1, T, S) of every layer.

        Padding is at the end, where no window of a real token reaches it.
        """
        matrices, weights = self.matrices(), []
        words = self.embedding(target)  # (B, T, D)
        x = self.first(words, matrices.first)  # (B, T, C)
        for layer, own in zip(self.layers, matrices.layers, strict=True):
            x, looked = layer(x, words, memory, own)  # (B, T, C)
            weights.append(looked)
        x = self.dropout(self.last(x, matrices.last))  # (B, T, D)
        return x, weights


@dataclass
class ConvolutionalState:
    """The last K - 1 inputs of every convolution per row; the memory per sentence; the matrices once."""

    windows: list[Tensor]  # L × (N, K-1, C)
    memory: Memory
    matrices: Matrices
    output: Tensor  # (V, D)
    sentence: Tensor  # (N,) the memory that each row looks at, ascending, as often each
    position: int

    def select(self, rows: Tensor) -> ConvolutionalState:
        """Row n continues row rows[n].  The memory moves only when a sentence leaves or loses some of its rows."""
        taken, sentence = regroup(self.sentence, rows, len(self.memory.keys))
        memory = self.memory if taken is None else self.memory.select(taken)
        windows = [window.index_select(0, rows) for window in self.windows]
        return replace(self, windows=windows, memory=memory, sentence=sentence)


class ConvS2S(nn.Module):
    """Figure 1 of the paper.  Implements `models.base.Seq2Seq`."""

    def __init__(self, config: ConvS2SConfig, source_symbols: int, target_symbols: int) -> None:
        super().__init__()
        self.config = config
        self.encoder = ConvolutionalEncoder(config, source_symbols)
        shared = self.encoder.embedding.weight if config.tied == "all" else None
        self.decoder = ConvolutionalDecoder(config, target_symbols, shared)
        self.last = TiedOutput(self.decoder.embedding.weight)
        if config.tied == "none":
            self.last = NormedOutput(target_symbols, config.d_model, variance=1.0 - config.dropout)

    def hidden(self, source: Tensor, target: Tensor) -> Tensor:
        states: Tensor = self.decoder(target, self.encoder(source))[0]
        return states

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """`hidden`, under the name that torch's wrappers (compile, DistributedDataParallel) call."""
        return self.hidden(source, target)

    def output(self) -> tuple[Tensor, Tensor | None]:
        return self.last.matrix(), self.last.bias

    def project(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, *self.output())

    def start(self, source: Tensor) -> ConvolutionalState:
        memory, sentence = self.encoder(source), torch.arange(len(source), device=source.device)
        nothing = memory.keys.new_zeros(len(source), self.config.kernel - 1, self.config.convolved)
        windows, matrices = (
            [nothing] * len(self.decoder.layers),
            self.decoder.matrices(),
        )  # windows are never written to
        return ConvolutionalState(windows, memory, matrices, self.last.matrix(), sentence, 0)

    def step(self, token: Tensor, state: ConvolutionalState) -> tuple[Tensor, ConvolutionalState]:
        decoder, matrices, windows = self.decoder, state.matrices, []
        words = decoder.embedding(token[:, None], state.position)[:, 0]  # (N, D)
        x = decoder.first(words, matrices.first)  # (N, C)
        for layer, own, last in zip(decoder.layers, matrices.layers, state.windows, strict=True):
            x, last = layer.step(x, words, state.memory, own, last)  # type: ignore[operator]
            windows.append(last)
        x = decoder.dropout(decoder.last(x, matrices.last))  # (N, D)
        following = replace(state, windows=windows, position=state.position + 1)
        return F.linear(x, state.output, self.last.bias), following

    def attention(self, source: Tensor, target: Tensor) -> Attention:
        _, cross = self.decoder(target, self.encoder(source))
        encoder, decoder = (cross[0].new_zeros(len(x), 0, 1, x.shape[1], x.shape[1]) for x in (source, target))
        return Attention(encoder, decoder, torch.stack(cross, dim=1))
