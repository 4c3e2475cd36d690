"""Models made fast: `accelerate` gives a twin of a model, with the same weights, whose modules run in the kernels.

A model is plain torch and does not know of this.  Every class in the table at the end takes the place of one of a
model's and computes the same up to rounding.

Not here the parts (parts.py, others.py), whole passes (training.py), steps and search (stepping.py, pack.py).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from jumok.config.search import SearchOptions
from jumok.kernels import ops
from jumok.kernels.layout import find_obstacle, scale_of_scores
from jumok.kernels.pack import Packed
from jumok.kernels.parts import (
    Fast,
    FastCrossAttention,
    FastDecoderLayer,
    FastDropout,
    FastEmbedding,
    FastEncoderLayer,
    FastLinear,
    FastSelfAttention,
    is_dot,
    scale_of,
)
from jumok.kernels.searching import RawHypothesis
from jumok.kernels.training import Whole
from jumok.models import transformer
from jumok.nn.attention import CrossAttention, SelfAttention
from jumok.nn.dropout import Dropout
from jumok.nn.embedding import Embedding
from jumok.nn.layers import Linear

if TYPE_CHECKING:
    from jumok.kernels.stepping import Steps

Model = TypeVar("Model", bound=nn.Module)


def accelerate(model: Model, *, own: bool = False, kernels: bool = True) -> Model:
    """Return a twin of the model that shares its memory and is fast, by our kernels or by torch's attention alone.

    With `own` its parameters are separate objects over the same memory, so that its gradients are separate.
    """
    shared: dict[int, Any] = {id(buffer): buffer for buffer in model.buffers()}
    shared |= {id(one): nn.Parameter(one.data, one.requires_grad) if own else one for one in model.parameters()}
    twin = copy.deepcopy(model, shared)
    table = list_fast(model) if kernels and ops.kernels(*model.parameters()) is not None else ATTENTION
    for module in twin.modules():
        fast = table.get(type(module))
        if fast is not None and fast.takes(module):
            module.__class__ = fast
    return twin


Versions = tuple[tuple[int, int], ...]


def versions(parameters: Iterable[Tensor]) -> Versions:
    """Which weights these are and how often they were changed in place."""
    return tuple((one.data_ptr(), 0 if one.is_inference() else one._version) for one in parameters)


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
        """The model as the training kernels know it, described at its first use."""
        if "_whole" not in self.__dict__:
            self.__dict__["_whole"] = Whole(self) if find_obstacle(self.config, training=True) is None else None
        whole: Whole | None = self.__dict__["_whole"]
        return whole

    def packed(self) -> Packed:
        """The model packed for translating; again when its weights have changed."""
        current = versions(self.parameters())
        packed: tuple[Versions, Packed] | None = self.__dict__.get("_packed")
        if packed is None or packed[0] != current:
            self.release()  # before the new weights are packed, so that both are never in memory
            symbols = len(self.source.weight), len(self.matrix)
            packed = self.__dict__["_packed"] = current, Packed(ops.kernels(), self.config, symbols, ops.Arrays(self))
        return packed[1]

    def release(self) -> None:
        """Free the packed weights."""
        self.__dict__.pop("_packed", None)

    def start(self, source: Tensor) -> Steps:  # type: ignore[override]
        from jumok.kernels.stepping import start  # only a search with rules goes step by step

        return start(self.packed(), source)

    def step(self, token: Tensor, state: Steps) -> tuple[Tensor, Steps]:  # type: ignore[override]
        return state.step(token), state

    def search(
        self, sources: Sequence[Sequence[int]], limits: Sequence[int], options: SearchOptions
    ) -> list[list[RawHypothesis]]:
        """From sources to translations in one call."""
        return self.packed().search(sources, limits, options)


def list_fast(model: nn.Module) -> dict[type[nn.Module], Any]:
    """The fast classes for a model; those of other models than the Transformer are loaded when one needs them."""
    if isinstance(model, transformer.Transformer):
        return FAST
    from jumok.kernels.others import OTHERS

    return FAST | OTHERS


ATTENTION: dict[type[nn.Module], Any] = {SelfAttention: FastSelfAttention, CrossAttention: FastCrossAttention}
FAST: dict[type[nn.Module], Any] = {
    **ATTENTION,
    Linear: FastLinear,
    Dropout: FastDropout,
    Embedding: FastEmbedding,
    transformer.EncoderLayer: FastEncoderLayer,
    transformer.DecoderLayer: FastDecoderLayer,
    transformer.Transformer: FastTransformer,
}
