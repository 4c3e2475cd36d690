"""Floating-point operations of the matrix products of one training update, by formula.

A product of (n, k) and (k, m) is 2·n·k·m operations forward, and its two gradients are as many each: three times the
forward count in all.  With s real source tokens and t target tokens per sentence, K and W the widths of a key and
a value, P = D·H·(2K + W) + H·W·D the four projections of an attention and F the feed-forward net:

    encoder   s · L · (P + F) + L · H · (K + W) · s²
    decoder   t · L · (P + F) + L · H · (K + W) · t²        self-attention over the full square, as torch counts it
    between   t · L · (D·H·K + H·W·D) + s · L · D·H·(K + W) + L · H · (K + W) · t·s
    output    t · D · V

Padding is not counted, and neither are embeddings, softmax, norms and Adam, which are not matrix products.

Alphabet   D model width · H heads · K key width · W value width · V vocabulary · L layers
"""

from collections.abc import Sequence

from jumok.config.sections import TransformerConfig


def training_flops(config: TransformerConfig, symbols: int, source: Sequence[int], target: Sequence[int]) -> float:
    """Operations of forward and backward for sentence pairs of these lengths, END and START included."""
    D, H, (K, W) = config.d_model, config.heads, config.head_widths
    projections = D * H * (2 * K + W) + H * W * D
    s, t = sum(source), sum(target)
    ss, tt = sum(n * n for n in source), sum(n * n for n in target)
    ts = sum(n * m for n, m in zip(source, target, strict=True))
    encoder = s * (projections + _feed_forward(config)) + H * (K + W) * ss
    decoder = t * (projections + _feed_forward(config)) + H * (K + W) * tt
    between = t * (D * H * K + H * W * D) + s * D * H * (K + W) + H * (K + W) * ts
    forward = config.encoder_layers * encoder + config.decoder_layers * (decoder + between) + t * D * symbols
    return 3.0 * 2.0 * forward


def _feed_forward(config: TransformerConfig) -> int:
    """Multiplications per token; a gated net has three matrices of two thirds the width."""
    if config.activation == "swiglu":
        return 3 * config.d_model * max(1, round(config.d_ff * 2 / 3))
    return 2 * config.d_model * config.d_ff


def shapes(config: TransformerConfig, symbols: int, tokens: int) -> list[tuple[int, int, int]]:
    """Shapes (rows, inner, columns) of the products of an update of this many tokens; the output in slices."""
    D, F, few = config.d_model, config.d_ff, min(tokens, 512)
    return [(tokens, D, 3 * D), (tokens, D, D), (tokens, D, F), (tokens, F, D), (few, D, symbols), (few, symbols, D)]
