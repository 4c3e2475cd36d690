"""Attention before and beside the Transformer, read a second time: recurrent and convolutional models, memory networks.

Each of them attends once per step or layer, with one head.  What else they have (gates, convolutions) is recorded as
the input of the attention and its result.  ByteNet does not attend.

Shapes   B batch · S source · T target · M memories · D width
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from jumok.inside.reading import Place, Reader
from jumok.models.base import PAD
from jumok.models.bytenet import ByteNet
from jumok.models.convs2s import ROOT_HALF, ConvS2S
from jumok.models.memory import MemoryNetwork
from jumok.models.rnn import RNN, AdditiveDecoder, BlindDecoder, MultiplicativeDecoder
from jumok.nn.attention import Mask
from jumok.nn.variants import Dot

Maps = dict[str, tuple[str, str]]
CROSS: Maps = {"cross": ("target", "source")}


def read(reader: Reader, model: Any, source: Tensor, target: Tensor) -> tuple[Tensor, Maps]:
    """Hidden states (B, T, D), and the maps that the reader has recorded."""
    if isinstance(model, RNN):
        return read_recurrent(reader, model, source, target)
    if isinstance(model, ConvS2S):
        return read_convolutional(reader, model, source, target), CROSS
    if isinstance(model, MemoryNetwork):
        return read_memory(reader, model, source, target)
    assert isinstance(model, ByteNet)
    return model.hidden(source, target), {}


# ---------------------------------------------------------------------------------------------- recurrent


def read_recurrent(reader: Reader, model: RNN, source: Tensor, target: Tensor) -> tuple[Tensor, Maps]:
    """The encoder's states of the words, and a decoder that asks them."""
    words, summary = model.encoder(source, model.source)
    reader.note("encoder.states", output=words)
    decoder = model.decoder
    states, memory = decoder.begin(summary), decoder.remember(words, summary, Mask.padding(source != PAD))
    x = model.target(target)  # (B, T, D)
    reader.note("target.embedding", scaled=x)
    if isinstance(decoder, BlindDecoder):
        return decoder(x, states, memory).hidden, {}
    if isinstance(decoder, MultiplicativeDecoder):
        x, _ = decoder.climb(x, states)
        q = x.reshape(len(memory.keys), 1, -1, x.shape[-1])  # (B, 1, T, D)
        reader.note("decoder.0.cross", input=x, q=q, k=memory.keys, v=memory.values)
        context = reader.attend(
            "decoder.0.cross", Place("cross", 0), Dot(), q, memory.keys, memory.values, memory.mask.allowed(q)
        )
        return decoder.read(context.reshape(x.shape), x), CROSS
    assert isinstance(decoder, AdditiveDecoder)
    return _ask_step_by_step(reader, decoder, x, states, memory), CROSS


def _ask_step_by_step(reader: Reader, decoder: AdditiveDecoder, x: Tensor, states: Any, memory: Any) -> Tensor:
    """The loop of `AdditiveDecoder.forward`: the state before asks, and what it finds enters the next one."""
    width, mask = x.shape[-1], memory.mask.allowed(memory.keys)
    state = states[0].unbind()
    outputs, contexts, looks = [], [], []
    for embedded in decoder.input(x.transpose(0, 1)).unbind():
        query, recurrent = decoder.asking(state[0]).split([width, embedded.shape[-1]], dim=-1)
        query = query.reshape(len(memory.keys), 1, -1, width)  # (B, 1, 1, D)
        one = Reader(reader.edits)
        context = one.attend("", Place("cross", 0), decoder.score, query, memory.keys, memory.values, mask)
        looks.append(one.blocks[""] | {"q": query})
        context = context.reshape(-1, width)  # (N, D)
        state = decoder.move(embedded + decoder.context(context), recurrent, state)
        outputs.append(state[0])
        contexts.append(context)
    joined = {name: torch.cat([look[name] for look in looks], dim=2) for name in looks[0]}
    reader.note("decoder.0.cross", k=memory.keys, v=memory.values, **joined)
    climbed, _ = decoder.climb(decoder.dropout(torch.stack(outputs, dim=1)), states[1:])
    return decoder.read(torch.stack(contexts, dim=1), climbed)


# ------------------------------------------------------------------------------------------- convolutional


def read_convolutional(reader: Reader, model: ConvS2S, source: Tensor, target: Tensor) -> Tensor:
    """A decoder of gated convolutions, each followed by an attention over the encoder's memory."""
    memory, decoder = model.encoder(source), model.decoder
    matrices = decoder.matrices()
    words = decoder.embedding(target)  # (B, T, D)
    reader.note("target.embedding", scaled=words)
    x = decoder.first(words, matrices.first)  # (B, T, D)
    for number, (layer, own) in enumerate(zip(decoder.layers, matrices.layers, strict=True)):
        x = _read_convolution(reader, f"decoder.{number}.cross", number, layer, x, words, memory, own)
    hidden: Tensor = decoder.dropout(decoder.last(x, matrices.last))
    return hidden


def _read_convolution(
    reader: Reader, name: str, number: int, layer: Any, x: Tensor, words: Tensor, memory: Any, matrices: Any
) -> Tensor:
    """One layer of the decoder, as `ConvolutionalLayer.forward` and `attend` compute it."""
    y = layer.convolution(x, matrices[0], before=layer.convolution.kernel - 1)
    sides = layer.query(y, matrices[1], residual=words), memory.keys, memory.values
    q, k, v = (side[:, None] for side in sides)  # one head
    reader.note(name, input=y, q=q, k=k, v=v)
    mixed = reader.attend(name, Place("cross", number), Dot(ROOT_HALF), q, k, v, memory.mask.allowed(q))
    y = layer.context(mixed[:, 0], matrices[2], residual=y)
    reader.note(name, output=y)
    return torch.add(x, y, alpha=ROOT_HALF) * ROOT_HALF


# -------------------------------------------------------------------------------------------------- memory


def read_memory(reader: Reader, model: MemoryNetwork, source: Tensor, target: Tensor) -> tuple[Tensor, Maps]:
    """Every hop of a memory network: how much it looks at each token of the source, and of the target if it does."""
    hidden, _ = model.memory.read(source, target)
    looked = model.attention(source, target)
    for number, weights in enumerate(looked.cross.unbind(dim=1)):
        reader.note(f"decoder.{number}.cross", weights=weights)
    for number, weights in enumerate(looked.decoder.unbind(dim=1)):
        reader.note(f"decoder.{number}.attention", weights=weights)
    return hidden, CROSS | ({"decoder": ("target", "target")} if looked.decoder.shape[1] else {})
