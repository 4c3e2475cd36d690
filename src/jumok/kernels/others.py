"""Fast parts of the models other than the Transformer.

Where a model computes a table look-up, a sum or a dropout beside a matrix product, the class here does it in one
operation (ops.py); the results are equal up to rounding.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from jumok.kernels import ops, output
from jumok.kernels.parts import Fast, attend_to_self, feed_forward
from jumok.models import bytenet, convs2s, encoder, gpt
from jumok.models.memory_sentences import Sentences
from jumok.models.memory_words import Words
from jumok.nn.cache import Memory


class FastGPT(Fast, gpt.GPT):
    def embed(self, tokens: Tensor, positions: Tensor | None) -> Tensor:
        x = ops.embed(self.table, tokens, None, scale=self.scale)
        dropped: Tensor = self.dropout(x if positions is None else x + positions)
        return dropped


class FastBlock(Fast, gpt.Block):
    def forward(self, x: Tensor) -> Tensor:
        x = attend_to_self(self.attention_path, self.attention, x, gpt.CAUSAL)
        return feed_forward(self.feed_forward_path, self.feed_forward, x, gpt.CAUSAL)


class FastTextEmbedding(Fast, encoder.TextEmbedding):
    def forward(self, ids: Tensor, segments: Tensor) -> Tensor:
        x = ops.embed(self.weight, ids, None, scale=1.0) + ops.embed(self.segments, segments, None, scale=1.0)
        positions = self.positions(0, ids.shape[1])
        dropped: Tensor = self.dropout(self.norm(x if positions is None else x + positions))
        return dropped


class FastWordHead(Fast, encoder.WordHead):
    def loss(self, states: Tensor, table: Tensor, words: Tensor, *, smoothing: float) -> Tensor:
        return output.smoothed_cross_entropy(self(states), table, self.bias, words, smoothing=smoothing)


class FastNormed(Fast, convs2s.Normed):
    def forward(self, x: Tensor, matrix: Tensor, *, residual: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return ops.linear(x, matrix, self.bias, residual=residual)


class FastConvolutionalLayer(Fast, convs2s.ConvolutionalLayer):
    def attend(self, h: Tensor, words: Tensor, memory: Memory, matrices: convs2s.Three) -> tuple[Tensor, Any]:
        """In training without the weights, which are not used then."""
        sizes = (1, words.shape[-1], words.shape[-1])
        if self.training and (lib := ops.takes_attention(sizes, h, words)):
            query = self.query(h, matrices[1], residual=words)
            both, real = torch.cat([memory.keys, memory.values], dim=-1), memory.mask.real
            lengths = None if real is None else real.sum(dim=1)
            mixed = ops.Attention.apply(query, both, lengths, None, sizes, convs2s.ROOT_HALF, False, lib)
            return self.context(mixed, matrices[2], residual=h), None
        return super().attend(h, words, memory, matrices)


class FastByteNet(Fast, bytenet.ByteNet):
    def embed(self, table: Tensor, tokens: Tensor) -> Tensor:
        dropout = self.dropout
        scale = self.config.d_model**0.5
        return ops.embed(table, tokens, None, scale=scale, rate=dropout.now, stream=dropout.stream)


class FastDilatedConvolution(Fast, bytenet.DilatedConvolution):
    def product(self, copies: Tensor) -> Tensor:
        width = copies.shape[-1]
        weight = self.weight if width == self.in_features else self.weight[:, :width]
        return ops.linear(copies, weight, self.bias)


class FastDilatedBlock(Fast, bytenet.DilatedBlock):
    """Norms do not read their output in the backward pass, so relu may overwrite it."""

    def enter(self, x: Tensor) -> Tensor:
        inner = self.narrow(self.narrow_norm(x).relu_())
        seen: Tensor = self.mix_norm(inner).relu_()
        return seen

    def leave(self, x: Tensor, mixed: Tensor) -> Tensor:
        inner, last, dropout = self.widen_norm(mixed).relu_(), self.widen, self.dropout
        return ops.linear(inner, last.weight, last.bias, residual=x, rate=dropout.now, stream=dropout.stream)


class FastSentences(Fast, Sentences):
    def embed(self, table: Tensor, tokens: Tensor) -> Tensor:
        return ops.embed(table, tokens, None, scale=1.0)


class FastWords(Fast, Words):
    def embed(self, table: Tensor, tokens: Tensor) -> Tensor:
        return ops.embed(table, tokens, None, scale=1.0)


OTHERS: dict[type[nn.Module], type[Fast]] = {
    gpt.GPT: FastGPT,
    gpt.Block: FastBlock,
    encoder.TextEmbedding: FastTextEmbedding,
    encoder.WordHead: FastWordHead,
    convs2s.Normed: FastNormed,
    convs2s.ConvolutionalLayer: FastConvolutionalLayer,
    bytenet.ByteNet: FastByteNet,
    bytenet.DilatedConvolution: FastDilatedConvolution,
    bytenet.DilatedBlock: FastDilatedBlock,
    Sentences: FastSentences,
    Words: FastWords,
}
