"""Whole passes, read a second time: the Transformer, GPT, and the encoders of BERT, ELECTRA and their relatives.

    reading = read(model, source, target)      # teacher-forced; reading.hidden is model.hidden(source, target)
    Edited(model, edits)                       # a `Seq2Seq` whose every step is read so: any search runs on it

Models that attend without the parts of nn/attention.py are in older.py.

Shapes   B batch · S source · T target · N rows (hypotheses) · P places in line · D width · V vocabulary
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from jumok.errors import UsageError
from jumok.inside import older
from jumok.inside.edits import NOTHING, Edits, Sizes
from jumok.inside.reading import Place, Reader, Values
from jumok.models.base import END, PAD, START
from jumok.models.encoder import MaskedModel, TextEncoder, join
from jumok.models.gpt import CAUSAL, GPT, Line
from jumok.models.labels import Labeller, frame
from jumok.models.transformer import DecoderState, Transformer
from jumok.nn.attention import Mask
from jumok.nn.layers import NoNorm
from jumok.nn.variants import Dot, PostNormAlone, PreNormAlone


@dataclass(frozen=True)
class Reading:
    """Everything that a model has made of one batch."""

    blocks: dict[str, Values]  # name of the block, then of the value
    hidden: Tensor  # what the model's own pass returns
    tokens: dict[str, Tensor] = field(default_factory=dict)  # ids (B, ·) of what the maps are over
    maps: dict[str, tuple[str, str]] = field(default_factory=dict)  # kind of attention: tokens of rows and columns
    logits: Tensor | None = None  # (B, T, V)

    def weights(self, kind: str) -> Tensor:
        """The weights of a kind of attention (B, L, H, R, C)."""
        ending = ".cross" if kind == "cross" else ".attention"
        stack = "decoder" if kind == "cross" else kind
        weights = [values["weights"] for name, values in self.blocks.items() if is_attention(name, stack, ending)]
        return torch.stack(weights, dim=1)


def is_attention(name: str, stack: str, ending: str) -> bool:
    """Whether a block is an attention of a stack."""
    return name.startswith(f"{stack}.") and name.endswith(ending)


def to_tensors(source: Sequence[int], target: Sequence[int]) -> tuple[Tensor, Tensor]:
    """One pair as a batch: the source with its END, the target after START."""
    return torch.tensor([[*source, END]]), torch.tensor([[START, *target]])


# ------------------------------------------------------------------------------------------- the Transformer


def encode(reader: Reader, model: Transformer, source: Tensor) -> tuple[Tensor, Mask]:
    """The memory (B, S, D), and the mask that hides its padding."""
    mask = Mask.padding(source != PAD)
    x = reader.embed("source", model.source, source)  # (B, S, D)
    for number, layer in enumerate(model.encoder):
        x = read_encoder_layer(reader, f"encoder.{number}", Place("encoder", number), layer, x, mask)
    return reader.norm("encoder.norm", model.encoder_norm, x, mask), mask


def read_encoder_layer(reader: Reader, name: str, place: Place, layer: Any, x: Tensor, mask: Mask) -> Tensor:
    """Self-attention and the feed-forward network (B, S, D)."""
    if reader.edits.skips(place.kind, place.layer):
        return x

    def attend(x: Tensor) -> Tensor:
        return reader.attend_to_itself(f"{name}.attention", place, layer.attention, x, mask)

    def feed(x: Tensor) -> Tensor:
        return reader.feed_forward(f"{name}.feed_forward", layer.feed_forward, x)

    x = reader.pass_around(f"{name}.attention", layer.attention_path, x, attend, mask)
    return reader.pass_around(f"{name}.feed_forward", layer.feed_forward_path, x, feed, mask)


def decode(reader: Reader, model: Transformer, target: Tensor, memory: Tensor, memory_mask: Mask) -> Tensor:
    """Hidden states (B, T, D) of a target that begins with START."""
    mask = Mask(target != PAD, causal=True)
    x = reader.embed("target", model.target, target)  # (B, T, D)
    for number, layer in enumerate(model.decoder):
        x = read_decoder_layer(
            reader, f"decoder.{number}", number, layer, x, lambda layer: layer.cross.read(memory), mask, memory_mask
        )
    return reader.norm("decoder.norm", model.decoder_norm, x, mask)


def read_decoder_layer(
    reader: Reader,
    name: str,
    number: int,
    layer: Any,
    x: Tensor,
    memory: Callable[[Any], tuple[Tensor, Tensor]],
    mask: Mask,
    memory_mask: Mask,
) -> Tensor:
    """Masked self-attention, attention over the memory, the feed-forward network (B, T, D)."""
    if reader.edits.skips("decoder", number):
        return x

    def attend(x: Tensor) -> Tensor:
        return reader.attend_to_itself(f"{name}.attention", Place("decoder", number), layer.attention, x, mask)

    def cross(x: Tensor) -> Tensor:
        place = Place("cross", number)
        return reader.attend_to_memory(f"{name}.cross", place, layer.cross, x, memory(layer), memory_mask)

    def feed(x: Tensor) -> Tensor:
        return reader.feed_forward(f"{name}.feed_forward", layer.feed_forward, x)

    x = reader.pass_around(f"{name}.attention", layer.attention_path, x, attend, mask)
    x = reader.pass_around(f"{name}.cross", layer.cross_path, x, cross, mask)
    return reader.pass_around(f"{name}.feed_forward", layer.feed_forward_path, x, feed, mask)


def step(reader: Reader, model: Transformer, token: Tensor, state: DecoderState, position: int) -> Tensor:
    """The hidden state (N, D) of one position of N rows; extends the caches."""
    x = reader.embed("target", model.target, token[:, None], position)  # (N, 1, D)
    memories = zip(model.decoder, state.caches, state.memories, strict=True)
    for number, (layer, cache, memory) in enumerate(memories):
        if not reader.edits.skips("decoder", number):
            x = _step_layer(reader, layer, x, cache, memory, state.mask, number, position)
    return reader.norm("decoder.norm", model.decoder_norm, x)[:, 0]


def _step_layer(
    reader: Reader, layer: Any, x: Tensor, cache: Any, memory: Any, mask: Mask, number: int, position: int
) -> Tensor:
    def attend(x: Tensor) -> Tensor:
        place = Place("decoder", number, position)
        return reader.attend_to_itself("", place, layer.attention, x, mask, cache)

    def cross(x: Tensor) -> Tensor:
        rows, _, width = x.shape
        grouped = x.view(len(memory[0]), rows // len(memory[0]), width)  # rows of one sentence share its memory
        place = Place("cross", number, position)
        return reader.attend_to_memory("", place, layer.cross, grouped, memory, mask).view(rows, 1, width)

    x = reader.pass_around("", layer.attention_path, x, attend)
    x = reader.pass_around("", layer.cross_path, x, cross)
    return reader.pass_around("", layer.feed_forward_path, x, lambda x: reader.feed_forward("", layer.feed_forward, x))


# --------------------------------------------------------------------------------------------- other stacks


def read_line(reader: Reader, model: GPT, tokens: Tensor) -> Tensor:
    """States (B, P, D) of lined-up tokens, before the last norm."""
    row = F.embedding(tokens, model.table)  # (B, P, D)
    x = row * model.scale  # (B, P, D)
    reader.note("line.embedding", row=row, scaled=x)
    position = None if "positions" in reader.edits.off else model.positions(0, tokens.shape[1])
    if position is not None:
        before, x = x, x + position
        reader.note("line.positions", input=before, position=position, output=x)
    x = model.dropout(x)
    for number, block in enumerate(model.blocks):
        x = read_encoder_layer(reader, f"decoder.{number}", Place("decoder", number), block, x, CAUSAL)
    return x


def pick_target(states: Tensor, line: Line) -> Tensor:
    """The states (B, T, D) of the target among those of the line (B, P, D), as the model picks them."""
    first = torch.arange(len(states), device=states.device)[:, None] * states.shape[1]  # (B, 1)
    chosen = states.flatten(0, 1).index_select(0, (first + line.places).flatten())
    return chosen.view(*line.places.shape, -1)


def read_text(reader: Reader, encoder: TextEncoder, ids: Tensor, segments: Tensor) -> Tensor:
    """States (B, P, D) of a text: word, segment and position, a norm, and the layers."""
    embedding = encoder.embedding
    word, segment = F.embedding(ids, embedding.weight), F.embedding(segments, embedding.segments)
    x = word + segment  # (B, P, D)
    reader.note("line.embedding", row=word, segment=segment, scaled=x)
    position = None if "positions" in reader.edits.off else embedding.positions(0, ids.shape[1])
    if position is not None:
        before, x = x, x + position
        reader.note("line.positions", input=before, position=position, output=x)
    x = embedding.dropout(reader.norm("line.norm", embedding.norm, x))
    mask = Mask.padding(ids != PAD)
    for number, layer in enumerate(encoder.layers):
        x = read_encoder_layer(reader, f"encoder.{number}", Place("encoder", number), layer, x, mask)
    return x


# ---------------------------------------------------------------------------------------------- any model


def read(model: Any, source: Tensor, target: Tensor, edits: Edits = NOTHING) -> Reading:
    """Read a batch teacher-forced: sources with their END, targets that begin with START.

    Of BERT and ELECTRA, `target` is the text, without START, and `hidden` what `encode` returns.  A model without
    attention has no maps.
    """
    find_sizes(model).check(edits)
    reader = Reader(edits)
    if isinstance(model, Transformer):
        memory, mask = encode(reader, model, source)
        hidden = decode(reader, model, target, memory, mask)
        maps = {"encoder": ("source", "source"), "decoder": ("target", "target"), "cross": ("target", "source")}
        return _finish(reader, model, hidden, {"source": source, "target": target}, maps)
    if isinstance(model, GPT):
        line = Line.of(source, target)
        states = pick_target(read_line(reader, model, line.tokens), line)
        hidden = reader.norm("decoder.norm", model.norm, states)
        return _finish(reader, model, hidden, {"line": line.tokens, "target": target}, {"decoder": ("line", "line")})
    if isinstance(model, MaskedModel):
        ids, segments = join(source, target)
        states = read_text(reader, model.encoder, ids, segments)
        return Reading(reader.blocks, states, {"line": ids}, {"encoder": ("line", "line")})
    if isinstance(model, Labeller):
        ids, segments = frame(source)
        states = read_text(reader, model.encoder, ids, segments)
        hidden = model.states(states, *model.places(ids, target.shape[1]))
        return _finish(reader, model, hidden, {"line": ids, "target": target}, {"encoder": ("line", "line")})
    hidden, maps = older.read(reader, model, source, target)
    return _finish(reader, model, hidden, {"source": source, "target": target}, maps)


def _finish(
    reader: Reader, model: Any, hidden: Tensor, tokens: dict[str, Tensor], maps: dict[str, tuple[str, str]]
) -> Reading:
    """The reading of a model that says something: logits and probabilities are its last blocks."""
    logits: Tensor = model.project(hidden)
    reader.note("output", input=hidden, output=logits)
    reader.note("softmax", input=logits, output=logits.softmax(dim=-1))
    return Reading(reader.blocks, hidden, tokens, maps, logits)


def find_sizes(model: Any) -> Sizes:
    """What there is to edit in a model."""
    stacks: dict[str, Any] = {}
    if isinstance(model, Transformer):
        stacks = {"encoder": model.encoder, "decoder": model.decoder}
    elif isinstance(model, GPT):
        stacks = {"decoder": model.blocks}
    elif isinstance(model, MaskedModel | Labeller):
        stacks = {"encoder": model.encoder.layers}
    heads = {kind: (len(layers), layers[0].attention.heads) for kind, layers in stacks.items()}
    if isinstance(model, Transformer):
        heads["cross"] = (len(model.decoder), model.decoder[0].cross.heads)  # type: ignore[union-attr]
    layers = {kind: len(some) for kind, some in stacks.items()}
    return Sizes(layers, heads, frozenset(list_switches(stacks, model)))


def list_switches(stacks: dict[str, Any], model: Any) -> list[str]:
    """What can be switched off in these stacks of layers."""
    switches = []
    layers = [layer for some in stacks.values() for layer in some]
    if "decoder" in stacks:
        switches.append("mask")
    if not layers:
        return switches
    config, first = model.config, layers[0]
    if config.positions != "none":
        switches.append("positions")
    if not isinstance(first.attention.score, Dot) and getattr(config, "score", "scaled-dot") == "scaled-dot":
        switches.append("scale")
    if not isinstance(first.attention_path, PreNormAlone | PostNormAlone):
        switches.append("residual")
    if not isinstance(first.attention_path.norm, NoNorm):
        switches.append("norm")
    return switches


# ------------------------------------------------------------------------------------------- edited models


@dataclass
class Again:
    """A state that is read again from the beginning at every step: sources and targets so far, one row each."""

    source: tuple[Tensor, Mask] | Tensor
    target: Tensor  # (N, t)

    def select(self, rows: Tensor) -> Again:
        target = self.target.index_select(0, rows)
        if isinstance(self.source, Tensor):
            return Again(self.source.index_select(0, rows), target)
        memory, mask = self.source
        return Again((memory.index_select(0, rows), mask.select(rows)), target)


@dataclass
class Cached:
    """Keys and values of the steps so far, and how many there were."""

    inner: DecoderState
    position: int = 0

    def select(self, rows: Tensor) -> Cached:
        return Cached(self.inner.select(rows), self.position)


class Edited:
    """A model with edits: all that a search or a score needs of `models.base.Seq2Seq`.

    With the mask a decoder never changes what it has computed, so its keys and values are cached; without it, and in
    models other than the Transformer, every step reads all words again.
    """

    def __init__(self, model: Any, edits: Edits) -> None:
        if not find_sizes(model).layers and edits:
            raise UsageError("inside.not_editable", kind=model.config.kind)
        if isinstance(model, MaskedModel):
            raise UsageError("inside.says_nothing", kind=model.config.kind)
        find_sizes(model).check(edits)
        self.model, self.edits = model, edits

    def hidden(self, source: Tensor, target: Tensor) -> Tensor:
        """Teacher-forced hidden states (B, T, D)."""
        return read(self.model, source, target, self.edits).hidden

    def project(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.model.project(hidden)
        return logits

    def start(self, source: Tensor) -> Again | Cached:
        if not isinstance(self.model, Transformer):
            return Again(source, source.new_empty(len(source), 0))
        reader = Reader(self.edits, recording=False)
        memory, mask = encode(reader, self.model, source)
        if "mask" in self.edits.off:
            return Again((memory, mask), source.new_empty(len(source), 0))
        layers: list[Any] = list(self.model.decoder)
        caches = [layer.attention.empty_cache(memory) for layer in layers]
        memories = [layer.cross.read(memory) for layer in layers]
        return Cached(DecoderState(caches, memories, mask, torch.arange(len(source), device=source.device)))

    def step(self, token: Tensor, state: Any) -> tuple[Tensor, Again | Cached]:
        reader = Reader(self.edits, recording=False)
        if isinstance(state, Cached):
            hidden = step(reader, self.model, token, state.inner, state.position)
            return self.project(hidden), Cached(state.inner, state.position + 1)
        state = Again(state.source, torch.cat([state.target, token[:, None]], dim=1))
        if isinstance(state.source, Tensor):
            hidden = self.hidden(state.source, state.target)
        else:
            hidden = decode(reader, self.model, state.target, *state.source)
        return self.project(hidden[:, -1]), state
