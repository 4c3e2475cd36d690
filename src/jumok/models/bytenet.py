"""ByteNet (Kalchbrenner et al. 2016, "Neural Machine Translation in Linear Time"): dilated convolutions on top of each
other, no attention and no recurrence; twice the sentence is twice the work.

    source ─ embed ─ [block · dilation 1, 2, 4, 8, 16] × sets, seeing both sides ─ norm ─ matrix ─┐ columns
    target ─ embed ─ + column t at position t ─ [the same, seeing the past] × sets ─ norm ─ output matrix ─ softmax

    block    x + widen(relu(norm(mix(relu(norm(narrow(relu(norm(x)))))))): section 3.6, figure 3, left.  `narrow` and
             `widen` are products at each position, from d_model (the paper's 2d) to half of it and back; `mix` is the
             convolution.

What the decoder may know of the source at position t are the columns up to t (section 3.1), so it is the encoder that
must bring words to where they are needed.  It therefore has room for the translation: a source of n tokens is unfolded
to a·n + b columns (section 3.2); those after its end read PAD.  After the columns there are zeros, and the decoder
continues until END.  Where a sentence has ended, convolutions see zeros too: padding changes nothing.

Ours are dropout before each residual sum, the norm before the output matrix, which may be the embeddings, and how the
decoder reads the encoder: columns are normed, multiplied, and added to the embeddings of the target.

Shapes   B batch · S source · U unfolded source · T target · N rows (hypotheses) · D width · E half of it · K taps of a
         convolution · R moments remembered
Not here losses (training/), search (decoding/), text (text/).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, TypeVar

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from jumok import messages
from jumok.config.sections import Layers, ModelConfig, Share, Size
from jumok.models.base import PAD, Attention
from jumok.nn.dropout import Dropout
from jumok.nn.embedding import draw_table
from jumok.nn.layers import LayerNorm, Linear

Length = TypeVar("Length", int, Tensor)


class ByteNetConfig(ModelConfig):
    """Defaults are a small one, which trains well as `tiny` trains; the paper's has d_model 1,600 and 6 + 6 sets."""

    kind: Literal["bytenet"] = "bytenet"
    d_model: Size = 160  # the paper's 2d; blocks are half as wide inside
    encoder_sets: Layers = 2
    decoder_sets: Layers = 2
    largest_dilation: Annotated[int, Field(ge=1, le=4_096)] = 16  # a set has one block for 1, 2, 4, … up to it
    kernel: Annotated[int, Field(ge=3, le=31)] = 3  # positions that a convolution looks at
    stretch: Annotated[float, Field(ge=1.0, le=10.0)] = 1.2  # a of section 3.2, to a thousandth
    extra: Annotated[int, Field(ge=0, le=1_024)] = 0  # and b
    dropout: Share = 0.2

    @model_validator(mode="after")
    def sizes_fit(self) -> Self:
        if self.d_model % 2:
            raise ValueError(messages.text("models.odd_blocks", d_model=self.d_model, better=self.d_model + 1))
        if self.kernel % 2 == 0:
            sizes = {"kernel": self.kernel, "smaller": self.kernel - 1, "larger": self.kernel + 1}
            raise ValueError(messages.text("models.even_kernel", **sizes))
        if (largest := self.largest_dilation) & (largest - 1):
            below = 1 << largest.bit_length() - 1
            sizes = {"largest": largest, "smaller": below, "larger": 2 * below}
            raise ValueError(messages.text("models.dilation_not_power_of_two", **sizes))
        return self

    @property
    def dilations(self) -> list[int]:
        """Those of one set."""
        return [1 << power for power in range(self.largest_dilation.bit_length())]

    @property
    def shape(self) -> str:
        sets = f"{self.encoder_sets} + {self.decoder_sets} sets of {len(self.dilations)} blocks"
        return f"{sets}, d_model {self.d_model}, kernel {self.kernel}, dilations to {self.largest_dilation}"

    def parameters(self, source: int, target: int) -> int:
        width, inner = self.d_model, self.d_model // 2
        matrices = 2 * width * inner + self.kernel * inner * inner
        block = matrices + 2 * inner + width + 2 * width + 4 * inner  # with biases and norms
        blocks = (self.encoder_sets + self.decoder_sets) * len(self.dilations)
        return self.tables(source, target) + blocks * block + width * width + width + 4 * width

    def unfolded(self, length: Length) -> Length:
        """Columns of a source so long: a·n + b rounded up, in whole numbers, which are the same on every machine."""
        return -(-length * round(1_000 * self.stretch) // 1_000) + self.extra


# ------------------------------------------------------------------------------------------------- convolution


class Shifted(torch.autograd.Function):
    """Copies of a sequence side by side: position t of copy k is position t - shifts[k], or zeros beyond the ends.

    The first is not shifted.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, shifts: Sequence[int]) -> Tensor:
        out = x.new_empty(*x.shape[:2], len(shifts), x.shape[2])  # (B, T, K, E)
        for copy, shift in zip(out.unbind(dim=2), shifts, strict=True):
            filled, empty, taken = places(shift, x.shape[1])
            copy[:, filled] = x[:, taken]
            copy[:, empty] = 0.0
        ctx.shifts = shifts
        return out.flatten(2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        first, *others = gradient.unflatten(2, (len(ctx.shifts), -1)).unbind(dim=2)
        total = first.clone(memory_format=torch.contiguous_format)  # (B, T, E)
        for copy, shift in zip(others, ctx.shifts[1:], strict=True):
            filled, _, taken = places(shift, gradient.shape[1])
            total[:, taken] += copy[:, filled]
        return total, None


def places(shift: int, length: int) -> tuple[slice, slice, slice]:
    """Where a copy shifted by less than its length has values, where it has none, and where the values come from."""
    if shift >= 0:
        return slice(shift, length), slice(0, shift), slice(0, length - shift)
    return slice(0, length + shift), slice(length + shift, length), slice(-shift, length)


class DilatedConvolution(Linear):
    """The same matrix at every position, over it and its neighbours `shifts` away (sections 3.4, 3.5).

    One product over shifted copies: torch's conv1d takes longer over short sentences, and Muon needs matrices.  Copies
    are in the order of their distance, so that those beyond the sentence are the last and can be left out.
    """

    def __init__(self, width: int, shifts: Sequence[int]) -> None:
        super().__init__(width * len(shifts), width)
        self.shifts = shifts

    def forward(self, x: Tensor) -> Tensor:
        near = [shift for shift in self.shifts if abs(shift) < x.shape[1]]
        return self.product(Shifted.apply(x, near))

    def product(self, copies: Tensor) -> Tensor:
        """The sum over the first copies; the others are zeros."""
        width = copies.shape[-1]
        weight = self.weight if width == self.in_features else self.weight[:, :width]
        return F.linear(copies, weight, self.bias)


def around(kernel: int, dilation: int) -> list[int]:
    """Shifts of a convolution that looks both ways, nearest first."""
    return [0, *(side * step * dilation for step in range(1, kernel // 2 + 1) for side in (1, -1))]


def back(kernel: int, dilation: int) -> list[int]:
    """Shifts of a masked one, which sees the past alone."""
    return [step * dilation for step in range(kernel)]


class DilatedBlock(nn.Module):
    """A residual block (section 3.6, figure 3, left)."""

    def __init__(self, config: ByteNetConfig, shifts: Sequence[int]) -> None:
        super().__init__()
        width, inner = config.d_model, config.d_model // 2
        self.narrow_norm, self.narrow = LayerNorm(width), Linear(width, inner)
        self.mix_norm, self.mix = LayerNorm(inner), DilatedConvolution(inner, shifts)
        self.widen_norm, self.widen = LayerNorm(inner), Linear(inner, width)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """All positions at once; where `keep` (B, T, 1) is 0, the others see nothing."""
        inner = self.enter(x)  # (B, T, E)
        if keep is not None:
            inner = inner * keep  # (B, T, E)
        x = self.leave(x, self.mix(inner))  # (B, T, D)
        return x

    def step(self, x: Tensor, past: list[Tensor]) -> tuple[Tensor, Tensor]:
        """One position of N rows, given what its convolution saw at the earlier ones; and what it sees at this one."""
        inner = self.enter(x)  # (N, E)
        x = self.leave(x, self.mix.product(torch.cat([inner, *past], dim=1)))  # (N, D)
        return x, inner

    def enter(self, x: Tensor) -> Tensor:
        """What the convolution sees."""
        inner = self.narrow(self.narrow_norm(x).relu())
        seen: Tensor = self.mix_norm(inner).relu()
        return seen

    def leave(self, x: Tensor, mixed: Tensor) -> Tensor:
        return x + self.dropout(self.widen(self.widen_norm(mixed).relu()))


# ------------------------------------------------------------------------------------------------------- model


@dataclass(frozen=True)
class ByteNetState:
    """What convolutions saw at the last moments.  Nothing moves when rows do: each moment keeps the rows it had, and
    `rows` says which of them a row continues."""

    columns: Tensor  # (B, U, D) of the sources
    sentence: Tensor  # (N,) whose columns each row reads
    length: int  # moments so far
    moments: list[list[Tensor]]  # R × blocks × (rows then, E), the last ones
    rows: Tensor  # (R, N)

    def select(self, rows: Tensor) -> ByteNetState:
        """Row n continues row rows[n]."""
        moved = self.rows.index_select(1, rows)
        return ByteNetState(self.columns, self.sentence[rows], self.length, self.moments, moved)


class ByteNet(nn.Module):
    """Figure 1.  Implements `models.base.Seq2Seq`."""

    def __init__(self, config: ByteNetConfig, source_symbols: int, target_symbols: int) -> None:
        super().__init__()
        self.config, width = config, config.d_model
        self.source = draw_table(source_symbols, width, spread=width**-0.5)
        shared = config.tied == "all"
        self.target = self.source if shared else draw_table(target_symbols, width, spread=width**-0.5)
        self.dropout = Dropout(config.dropout)
        encoder, decoder = config.encoder_sets * config.dilations, config.decoder_sets * config.dilations
        self.encoder = nn.ModuleList(DilatedBlock(config, around(config.kernel, dilation)) for dilation in encoder)
        self.decoder = nn.ModuleList(DilatedBlock(config, back(config.kernel, dilation)) for dilation in decoder)
        self.column_norm, self.column = LayerNorm(width), Linear(width, width)
        self.decoder_norm = LayerNorm(width)
        self.remembered = (config.kernel - 1) * config.largest_dilation
        self.matrix = self.target
        if config.tied == "none":
            self.matrix = nn.Parameter(torch.empty(target_symbols, width))
            nn.init.xavier_uniform_(self.matrix)

    def embed(self, table: Tensor, tokens: Tensor) -> Tensor:
        """Vectors of unit variance, dropped out."""
        return self.dropout(F.embedding(tokens, table) * self.config.d_model**0.5)

    def encode(self, source: Tensor) -> Tensor:
        """What the decoder reads at each position: the columns (B, U, D) of the unfolded source, then zeros."""
        lengths = self.config.unfolded((source != PAD).sum(dim=1, keepdim=True))  # (B, 1)
        longest = self.config.unfolded(source.shape[1])
        real = torch.arange(longest, device=source.device) < lengths  # (B, U)
        x = self.embed(self.source, F.pad(source, (0, longest - source.shape[1]), value=PAD))  # (B, U, D)
        keep = None if bool(real.all()) else real[:, :, None].to(x.dtype)
        for block in self.encoder:
            x = block(x, keep)  # (B, U, D)
        x = self.column(self.column_norm(x))  # (B, U, D)
        return x if keep is None else x * keep

    def hidden(self, source: Tensor, target: Tensor) -> Tensor:
        columns = self.encode(source)  # (B, U, D)
        missing = target.shape[1] - columns.shape[1]  # or too many, if negative
        x = self.embed(self.target, target) + F.pad(columns, (0, 0, 0, missing))  # (B, T, D)
        for block in self.decoder:
            x = block(x)  # (B, T, D)
        x = self.decoder_norm(x)  # (B, T, D)
        return x

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """`hidden`, under the name that torch's wrappers (compile, DistributedDataParallel) call."""
        return self.hidden(source, target)

    def output(self) -> tuple[Tensor, Tensor | None]:
        return self.matrix, None

    def project(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.matrix)

    def start(self, source: Tensor) -> ByteNetState:
        columns, sentence = self.encode(source), torch.arange(len(source), device=source.device)
        return ByteNetState(columns, sentence, 0, [], sentence.new_empty(0, len(source)))

    def step(self, token: Tensor, state: ByteNetState) -> tuple[Tensor, ByteNetState]:
        x = self.embed(self.target, token)  # (N, D)
        if state.length < state.columns.shape[1]:
            x = x + state.columns[:, state.length].index_select(0, state.sentence)  # (N, D)
        blocks: list[DilatedBlock] = list(self.decoder)  # type: ignore[arg-type]
        seen = []
        for number, block in enumerate(blocks):
            near = [shift for shift in block.mix.shifts[1:] if shift <= state.length]
            past = [state.moments[-shift][number].index_select(0, state.rows[-shift]) for shift in near]
            x, inner = block.step(x, past)
            seen.append(inner)
        x = self.decoder_norm(x)  # (N, D)
        own = torch.arange(len(token), device=token.device)[None]  # (1, N)
        rows = torch.cat([state.rows, own])[-self.remembered :]
        moments = [*state.moments, seen][-self.remembered :]
        return self.project(x), ByteNetState(state.columns, state.sentence, state.length + 1, moments, rows)

    def attention(self, source: Tensor, target: Tensor) -> Attention:
        """It has none: maps without layers."""
        none, (long, short) = self.matrix.detach(), (source.shape[1], target.shape[1])
        sizes = (long, long), (short, short), (short, long)
        return Attention(*(none.new_empty(len(source), 0, 1, *size) for size in sizes))
