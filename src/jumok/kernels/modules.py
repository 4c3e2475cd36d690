"""Models made fast: `accelerate` gives a twin of a model, with the same weights, whose modules run in the kernels.

A model is plain torch and does not know of this.  Every class here takes the place of one of a model's, computes the
same up to rounding, and falls back to plain torch where the kernels cannot: another precision or device, torch.compile,
autocast, a machine without a compiler.

Not here the operations themselves (ops.py), whole passes (training.py), steps and search (stepping.py, pack.py).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jumok.config.search import SearchOptions
from jumok.kernels import ops, output, stepping
from jumok.kernels.layout import find_obstacle, scale_of_scores
from jumok.kernels.pack import Packed
from jumok.kernels.searching import Marks, RawHypothesis
from jumok.kernels.training import Whole
from jumok.models import bert, gpt, transformer
from jumok.models.base import State
from jumok.nn.attention import (
    EVERYTHING,
    CrossAttention,
    Mask,
    SelfAttention,
    attend,
    merge_heads,
    scaled_dot,
    split_heads,
)
from jumok.nn.dropout import Dropout
from jumok.nn.layers import FeedForward, LayerNorm, Linear, PostNorm, PreNorm, Residual
from jumok.nn.positions import Add
from jumok.nn.variants import Dot, GatedFeedForward, PreNormAlone

Model = TypeVar("Model", bound=nn.Module)


def accelerate(model: Model, *, own: bool = False, kernels: bool = True) -> Model:
    """Return a twin of the model that shares its memory and is fast, by our kernels or by torch's attention alone.

    With `own` it has parameters of its own over the same memory, so that its gradients are separate.
    """
    shared: dict[int, Any] = {id(buffer): buffer for buffer in model.buffers()}
    shared |= {id(one): nn.Parameter(one.data, one.requires_grad) if own else one for one in model.parameters()}
    twin = copy.deepcopy(model, shared)
    table = FAST if kernels and ops.kernels(*model.parameters()) is not None else ATTENTION
    for module in twin.modules():
        fast = table.get(type(module))
        if fast is not None and fast.takes(module):
            module.__class__ = fast
    return twin


class Fast:
    """What takes the place of a module."""

    @classmethod
    def takes(cls, module: Any) -> bool:
        """Whether it can take the place of this one."""
        return True


# ------------------------------------------------------------------------------------------ parts of any model


class FastLinear(Fast, Linear):
    def forward(self, x: Tensor) -> Tensor:
        return ops.linear(x, self.weight, self.bias)


class FastLayerNorm(Fast, LayerNorm):
    def forward(self, x: Tensor, mask: Mask | None = None) -> Tensor:
        return ops.layer_norm(x, self.weight, self.bias, self.eps)


class FastDropout(Fast, Dropout):
    def forward(self, x: Tensor) -> Tensor:
        return ops.dropout(x, self.now, self.stream)


# ------------------------------------------------------------------------------------- sub-layers of attention


def is_dot(module: SelfAttention | CrossAttention) -> bool:
    return module.score is scaled_dot or isinstance(module.score, Dot)


def scale_of(module: SelfAttention | CrossAttention) -> float:
    return module.score.scale if isinstance(module.score, Dot) else module.d_k**-0.5


def sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Mask, scale: float) -> Tensor:
    """torch's own attention."""
    allowed = None if mask.causal else mask.allowed(q)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, is_causal=mask.causal, scale=scale)


class FastAttend(Fast):
    """Dot products by torch's own attention, which gives no weights."""

    score: Any

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = EVERYTHING) -> tuple[Tensor, Tensor | None]:
        if not is_dot(self):  # type: ignore[arg-type]
            return attend(q, k, v, mask.allowed(q), score=self.score)
        return sdpa(q, k, v, mask, scale_of(self)), None  # type: ignore[arg-type]


class FastSelfAttention(FastAttend, SelfAttention):
    pass


class FastCrossAttention(FastAttend, CrossAttention):
    pass


def mix(module: SelfAttention | CrossAttention, first: Tensor, second: Tensor | None, mask: Mask) -> Tensor | None:
    """Attended values (B, T, H·E) straight from packed projections, or None where there is no kernel for them."""
    if not is_dot(module):
        return None
    sizes = (module.heads, module.d_k, module.d_v)
    rotary = getattr(module, "rotary", None)
    keys = first.shape[1] if second is None else second.shape[1]
    turns = None if rotary is None else rotary.turns(0, keys)
    lib = ops.takes_attention(sizes, first, turns)
    if lib is None:
        return None
    lengths = None if mask.causal or mask.real is None else mask.real.sum(dim=1)
    out: Tensor = ops.Attention.apply(first, second, lengths, turns, sizes, scale_of(module), mask.causal, lib)
    return out


def enter(path: Residual, x: Tensor, first: Linear, mask: Mask, *, relu: bool = False) -> Tensor:
    """The first matrix of a sub-layer, with the norm before it."""
    if not isinstance(path, PreNorm | PreNormAlone):
        return ops.linear(x, first.weight, first.bias, relu=relu)
    if isinstance(path.norm, LayerNorm):
        return ops.linear(x, first.weight, first.bias, norm=path.norm, relu=relu)
    return ops.linear(path.norm(x, mask), first.weight, first.bias, relu=relu)


def leave(path: Residual, x: Tensor, y: Tensor, last: Linear, mask: Mask) -> Tensor:
    """The last matrix of a sub-layer, with dropout, residual sum and norm after it."""
    residual = x if isinstance(path, PostNorm | PreNorm) else None
    joined = ops.linear(y, last.weight, last.bias, residual=residual, rate=path.dropout.now, stream=path.dropout.stream)
    normed: Tensor = joined if isinstance(path, PreNorm | PreNormAlone) else path.norm(joined, mask)
    return normed


def attend_to_self(path: Residual, module: SelfAttention, x: Tensor, mask: Mask) -> Tensor:
    qkv = enter(path, x, module.qkv, mask)
    mixed = mix(module, qkv, None, mask)
    if mixed is None:
        mixed = merge_heads(module.attend(*module.separate(qkv), mask)[0])
    return leave(path, x, mixed, module.output, mask)


def attend_to_memory(
    path: Residual, module: CrossAttention, x: Tensor, mask: Mask, memory: Tensor, memory_mask: Mask
) -> Tensor:
    query, both = enter(path, x, module.query, mask), module.memory(memory)
    mixed = mix(module, query, both, memory_mask)
    if mixed is None:
        k, v = module.separate(both)
        mixed = merge_heads(module.attend(split_heads(query, module.heads), k, v, memory_mask)[0])
    return leave(path, x, mixed, module.output, mask)


def feed_forward(path: Residual, module: FeedForward | GatedFeedForward, x: Tensor, mask: Mask) -> Tensor:
    if isinstance(module, GatedFeedForward):
        gate, value = enter(path, x, module.inner, mask).chunk(2, dim=-1)
        return leave(path, x, F.silu(gate) * value, module.outer, mask)
    if module.activation is F.relu:
        return leave(path, x, enter(path, x, module.inner, mask, relu=True), module.outer, mask)
    return leave(path, x, module.activation(enter(path, x, module.inner, mask)), module.outer, mask)


# -------------------------------------------------------------------------------------------- the Transformer


class FastEmbedding(Fast, transformer.Embedding):
    def forward(self, tokens: Tensor, start: int = 0) -> Tensor:
        positions, dropout = self.positions(start, tokens.shape[1]), self.dropout
        if isinstance(self.join, Add):
            return ops.embed(self.weight, tokens, positions, scale=self.scale, rate=dropout.now, stream=dropout.stream)
        return dropout(self.join(ops.embed(self.weight, tokens, None, scale=self.scale), positions))


class FastEncoderLayer(Fast, transformer.EncoderLayer):
    def forward(self, x: Tensor, mask: Mask) -> Tensor:
        x = attend_to_self(self.attention_path, self.attention, x, mask)
        return feed_forward(self.feed_forward_path, self.feed_forward, x, mask)


class FastDecoderLayer(Fast, transformer.DecoderLayer):
    def forward(self, x: Tensor, mask: Mask, memory: Tensor, memory_mask: Mask) -> Tensor:
        x = attend_to_self(self.attention_path, self.attention, x, mask)
        x = attend_to_memory(self.cross_path, self.cross, x, mask, memory, memory_mask)
        return feed_forward(self.feed_forward_path, self.feed_forward, x, mask)


Versions = tuple[tuple[int, int], ...]


def versions(parameters: Iterable[Tensor]) -> Versions:
    """Which weights these are and how often they were changed in place."""
    return tuple((one.data_ptr(), 0 if one.is_inference() else one._version) for one in parameters)


class Arrays:
    """The weights of a model by name, as arrays over the same memory."""

    def __init__(self, model: nn.Module) -> None:
        self.tensors = {name: one.detach() for name, one in model.named_parameters(remove_duplicate=False)}

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def take(self, name: str, *shape: int) -> Any:
        assert self.tensors[name].shape == shape
        return self.tensors[name].contiguous().numpy()


class FastTransformer(Fast, transformer.Transformer):
    """All layers in one call: in training, in each step, and from sources to translations."""

    @classmethod
    def takes(cls, module: transformer.Transformer) -> bool:
        attentions = [one for one in module.modules() if isinstance(one, SelfAttention | CrossAttention)]
        usual = all(is_dot(one) and scale_of(one) == scale_of_scores(module.config) for one in attentions)
        return usual and find_obstacle(module.config) is None

    def __getstate__(self) -> dict[str, Any]:
        """A copy describes and packs its own weights."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_whole", "_packed")}

    def hidden(self, source: Tensor, target: Tensor) -> Tensor:
        if torch.is_grad_enabled() and (whole := self.whole()) and (states := whole.hidden(source, target)) is not None:
            return states
        return super().hidden(source, target)

    def whole(self) -> Whole | None:
        """The model as the training kernels know it, made at its first use."""
        if "_whole" not in self.__dict__:
            self.__dict__["_whole"] = Whole(self) if find_obstacle(self.config, training=True) is None else None
        found: Whole | None = self.__dict__["_whole"]
        return found

    def packed(self) -> Packed:
        """The model packed for translating; again when its weights have changed."""
        made = versions(self.parameters())
        kept: tuple[Versions, Packed] | None = self.__dict__.get("_packed")
        if kept is None or kept[0] != made:
            symbols = len(self.source.weight), len(self.matrix)
            kept = self.__dict__["_packed"] = made, Packed(ops.kernels(), self.config, symbols, Arrays(self))
        return kept[1]

    def start(self, source: Tensor) -> stepping.Steps:  # type: ignore[override]
        return stepping.start(self.packed(), source)

    def step(self, token: Tensor, state: State) -> tuple[Tensor, stepping.Steps]:  # type: ignore[override]
        assert isinstance(state, stepping.Steps)
        return state.step(token), state

    def search(
        self, sources: Sequence[Sequence[int]], limits: Sequence[int], options: SearchOptions, *, marks: Marks
    ) -> list[list[RawHypothesis]]:
        """From sources to translations in one call."""
        return self.packed().search(sources, limits, options, marks=marks)


# ----------------------------------------------------------------------------------------------- other models


class FastBlock(Fast, gpt.Block):
    def forward(self, x: Tensor) -> Tensor:
        x = attend_to_self(self.attention_path, self.attention, x, gpt.CAUSAL)
        return feed_forward(self.feed_forward_path, self.feed_forward, x, gpt.CAUSAL)


class FastWordHead(Fast, bert.WordHead):
    def loss(self, states: Tensor, table: Tensor, words: Tensor, *, smoothing: float) -> Tensor:
        return output.smoothed_cross_entropy(self(states), table, self.bias, words, smoothing=smoothing)


ATTENTION: dict[type[nn.Module], Any] = {SelfAttention: FastSelfAttention, CrossAttention: FastCrossAttention}
FAST: dict[type[nn.Module], Any] = ATTENTION | {
    Linear: FastLinear,
    LayerNorm: FastLayerNorm,
    Dropout: FastDropout,
    transformer.Embedding: FastEmbedding,
    transformer.EncoderLayer: FastEncoderLayer,
    transformer.DecoderLayer: FastDecoderLayer,
    transformer.Transformer: FastTransformer,
    gpt.Block: FastBlock,
    bert.WordHead: FastWordHead,
}
