"""Which part of a model belongs to which block: its parameters, and the code that differs between kinds of models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from jumok.models.convs2s import ConvolutionalLayer, ConvS2S
from jumok.models.encoder import MaskedModel, TextEmbedding
from jumok.models.gpt import GPT
from jumok.models.labels import Labeller
from jumok.models.memory import MemoryNetwork
from jumok.models.rnn import RNN, BidirectionalEncoder
from jumok.models.transformer import Transformer
from jumok.nn.embedding import Embedding
from jumok.nn.variants import Rotary

Where = tuple[str, Callable[..., Any], str]  # type of block, function, words of the line


@dataclass(frozen=True)
class Parts:
    """A model and what is known of its parts."""

    model: Any
    modules: dict[str, list[Any]] = field(default_factory=dict)  # parameters and modules of each block
    code: list[Where] = field(default_factory=list)  # lines that are not those of the paper's parts

    def count(self) -> dict[str, int]:
        """The number of parameters of each block; those that several blocks share count at the first."""
        counts, seen = {}, set[int]()
        for block, parts in self.modules.items():
            new = [one for one in _list_parameters(parts) if id(one) not in seen]
            seen |= {id(one) for one in new}
            counts[block] = sum(one.numel() for one in new)
        return counts


def _list_parameters(parts: list[Any]) -> list[nn.Parameter]:
    parameters: dict[int, nn.Parameter] = {}
    for part in parts:
        each = [part] if isinstance(part, nn.Parameter) else part.parameters()
        parameters |= {id(one): one for one in each}
    return list(parameters.values())


def find_parts(model: Any) -> Parts:
    """The parts of a model, in the order of its blocks."""
    if isinstance(model, Transformer):
        return _parts_of_transformer(model)
    if isinstance(model, GPT):
        modules: dict[str, list[Any]] = {"line.embedding": [model.table], "line.positions": [model.positions]}
        modules |= dict(_list_layers("decoder", model.blocks))
        code: list[Where] = [
            ("embedding", GPT.embed, "F.embedding"),
            ("positions", GPT.embed, "self.dropout"),
            *_list_code(model.blocks[0]),
        ]
        return Parts(model, modules | {"decoder.norm": [model.norm], "output": [model.matrix]}, code)
    if isinstance(model, MaskedModel | Labeller):
        return _parts_of_encoder(model)
    return _parts_of_older(model)


def _parts_of_transformer(model: Transformer) -> Parts:
    modules: dict[str, list[Any]] = _list_embedding("source", model.source)
    modules |= dict(_list_layers("encoder", model.encoder))
    modules["encoder.norm"] = [model.encoder_norm]
    modules |= _list_embedding("target", model.target)
    modules |= dict(_list_layers("decoder", model.decoder))
    modules |= {"decoder.norm": [model.decoder_norm], "output": [model.matrix]}
    code = _list_code(model.encoder[0])
    if model.config.positions == "rotary":
        code.append(("positions", Rotary.forward, "x * cos"))
    return Parts(model, modules, code)


def _parts_of_encoder(model: Any) -> Parts:
    embedding = model.encoder.embedding
    modules: dict[str, list[Any]] = {
        "line.embedding": [embedding.weight, embedding.segments],
        "line.positions": [embedding.positions],
        "line.norm": [embedding.norm],
        **dict(_list_layers("encoder", model.encoder.layers)),
    }
    if isinstance(model, Labeller):
        modules["output"] = [model.label, *([model.pooler] if hasattr(model, "pooler") else [])]
    code: list[Where] = [
        ("embedding", TextEmbedding.forward, "F.embedding"),
        ("positions", TextEmbedding.forward, "positions"),
        *_list_code(model.encoder.layers[0]),
    ]
    return Parts(model, modules, code)


def _parts_of_older(model: Any) -> Parts:
    """Of models before the Transformer, only what they have of it."""
    matrix, _ = model.output()
    modules: dict[str, list[Any]] = {"output": [matrix] if isinstance(matrix, nn.Parameter) else []}
    if isinstance(model, RNN):
        modules |= {"encoder.states": [model.encoder], "target.embedding": [model.target.weight]}
        score = type(model.decoder).forward
        words = "attend(" if model.config.attention != "none" else "climb"
        return Parts(model, modules, [
            ("states", BidirectionalEncoder.forward, "layer.whole"), ("cross", score, words),
        ])  # fmt: skip
    if isinstance(model, ConvS2S):
        modules |= {"target.embedding": [model.decoder.embedding.weight], "output": [model.last]}
        modules |= {f"decoder.{number}.cross": [layer] for number, layer in enumerate(model.decoder.layers)}
        return Parts(model, modules, [("cross", ConvolutionalLayer.attend, "attend(")])
    if isinstance(model, MemoryNetwork):
        return Parts(model, {"decoder.0.cross": [model.memory], **modules})
    return Parts(model, modules)


def _list_embedding(side: str, embedding: Embedding) -> dict[str, list[Any]]:
    return {
        f"{side}.embedding": [embedding.weight],
        f"{side}.positions": [embedding.positions, embedding.join],
    }


def _list_layers(stack: str, layers: Any) -> Iterator[tuple[str, list[Any]]]:
    """The parts of every layer: sub-layers and their norms."""
    for number, layer in enumerate(layers):
        for part in ("attention", "cross", "feed_forward"):
            if hasattr(layer, part):
                yield f"{stack}.{number}.{part}", [getattr(layer, part)]
                yield f"{stack}.{number}.{part}.norm", [getattr(layer, f"{part}_path").norm]


def _list_code(layer: Any) -> list[Where]:
    """The lines of the sum, the norm and the feed-forward network that a layer has."""
    return [
        ("add", type(layer.attention_path).forward, "return"),
        ("norm", type(layer.attention_path.norm), "class "),
        ("feed_forward", type(layer.feed_forward).forward, "self.outer"),
    ]
