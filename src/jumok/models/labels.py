"""Fine-tuning (Devlin et al. 2018, section 4): an encoder and one matrix say what a text is, or what each word is.

    Classifier   CLASS a good film SEPARATOR ─ encoder ─ CLASS ─ pooler ─ matrix ─ positive END
                 CLASS it rains SEPARATOR it is wet SEPARATOR ─ the same       ─ entailed END
    Tagger       CLASS the cat sat SEPARATOR ─ encoder ─ first subwords ─ matrix ─ DET NOUN VERB END

The encoder has the names and shapes of those of BERT and ELECTRA; the pooler is that of BERT's next sentence.  Labels
are words of the target vocabulary.  The output of such a model is its labels, then END; it does not depend on the
tokens before.  So training, search, scoring and translating work with it as with any other model.  A state has one
number more than the encoder's: 1 after the last label, -1 before, and in the output matrix it decides for or against
END and nothing else.  So END is certain where it belongs, and the loss of the next token is that of the labels.

Shapes   B batch · S source · P = S + 1 places · T target · N rows · D width · E = D + 1 · V target vocabulary
         L layers · H heads
Not here the encoder (encoder.py), where its weights come from and which ids begin a word (the caller knows).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jumok.models.base import CLASS, END, PAD, SEPARATOR, Attention
from jumok.models.encoder import EncoderConfig, Pooler, TextEncoder, ordinary
from jumok.nn.attention import watch
from jumok.nn.dropout import Dropout
from jumok.nn.layers import Linear

SURE = 100.0  # the logit for END after the last label, and against it before: e^-100 is 0 in float32
TUNING: Mapping[str, Any] = {
    "model.positions": "rotary",  # or those of the encoder that is begun with
    "training.optimizer": "adam",
    "training.peak": 5e-4,
    "training.warmup": 100,
    "training.weight_decay": 0.01,
    "training.label_smoothing": 0.0,
    "training.word_dropout": 0.0,
    "training.dropout_epochs": 0,
    "vocabulary.sampling": 0.0,
    "data.ratio": 1_000.0,
    "vocabulary.joint": False,
    "vocabulary.target_kind": "word",
}


class LabelsConfig(EncoderConfig):
    """A classifier of texts, or of pairs of texts with a separator between them."""

    usual: ClassVar[Mapping[str, Any]] = TUNING

    kind: Literal["classifier"] = "classifier"
    tied: Literal["none"] = "none"  # labels are not words of the source

    def parameters(self, source: int, target: int) -> int:
        return self.encoder_parameters(source) + (self.d_model + 1) * (self.d_model + target)


class TaggerConfig(EncoderConfig):
    """A tagger: a label for each word."""

    usual: ClassVar[Mapping[str, Any]] = TUNING

    kind: Literal["tagger"] = "tagger"
    tied: Literal["none"] = "none"  # labels are not words of the source

    def parameters(self, source: int, target: int) -> int:
        return self.encoder_parameters(source) + (self.d_model + 1) * target


def frame(source: Tensor) -> tuple[Tensor, Tensor]:
    """Ids and segments (B, P): CLASS before a source (B, S), SEPARATOR for its END; what follows its first separator is
    segment 1."""
    ids = F.pad(source.masked_fill(source == END, SEPARATOR), (1, 0), value=CLASS)  # (B, P)
    separators = ids == SEPARATOR
    after = separators.cumsum(dim=1) - separators.long() > 0
    return ids, (after & (ids != PAD)).long()


@dataclass(frozen=True)
class LabelState:
    """The states of all labels of every sentence, then END's, and how many labels were given."""

    states: Tensor  # (B, T, E)
    sentence: Tensor  # (N,) the states that each row reads
    length: int

    def select(self, rows: Tensor) -> LabelState:
        return LabelState(self.states, self.sentence[rows], self.length)


class Labeller(nn.Module):
    """What both models share.  Implements `models.base.Seq2Seq`."""

    def __init__(self, config: EncoderConfig, source_symbols: int, target_symbols: int) -> None:
        super().__init__()
        self.config = config
        self.encoder = TextEncoder(config, source_symbols)
        self.dropout = Dropout(config.dropout)
        self.label = Linear(config.d_model, target_symbols)

    def labelled(self, ids: Tensor) -> Tensor:
        """Which of the places (B, P) get a label."""
        raise NotImplementedError

    def pool(self, states: Tensor) -> Tensor:
        """What is computed from their states before the label matrix."""
        raise NotImplementedError

    def places(self, ids: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The first `count` labelled places (B, T) of each row, and which of them there are (B, T)."""
        labelled = self.labelled(ids)
        order = (~labelled).byte().argsort(dim=1, stable=True)
        number = torch.arange(count, device=ids.device)  # (T,)
        places = order[:, number.clamp(max=ids.shape[1] - 1)]  # (B, T)
        return places, number < labelled.sum(dim=1, keepdim=True)

    def states(self, encoded: Tensor, places: Tensor, there: Tensor) -> Tensor:
        """What the output reads (B, T, E), of the encoder's states (B, P, D)."""
        x = encoded.gather(1, places[:, :, None].expand(-1, -1, encoded.shape[2]))  # (B, T, D)
        x = self.dropout(self.pool(x)) * there[:, :, None]  # (B, T, D)
        sign = torch.where(there, -1.0, 1.0).to(x)[:, :, None]  # (B, T, 1)
        return torch.cat([x, sign], dim=2)

    def hidden(self, source: Tensor, target: Tensor) -> Tensor:
        """States (B, T, E); of the target only its length is used."""
        ids, segments = frame(source)
        return self.states(self.encoder(ids, segments), *self.places(ids, target.shape[1]))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """`hidden`, under the name that torch's wrappers call."""
        return self.hidden(source, target)

    def output(self) -> tuple[Tensor, Tensor]:
        end = torch.zeros_like(self.label.weight[:, :1])  # (V, 1)
        end[END] = SURE
        return torch.cat([self.label.weight, end], dim=1), self.label.bias

    def project(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, *self.output())

    def start(self, source: Tensor) -> LabelState:
        ids, segments = frame(source)
        most = int(self.labelled(ids).sum(dim=1).max())
        states = self.states(self.encoder(ids, segments), *self.places(ids, most + 1))
        return LabelState(states, torch.arange(len(source), device=source.device), 0)

    def step(self, token: Tensor, state: LabelState) -> tuple[Tensor, LabelState]:
        place = min(state.length, state.states.shape[1] - 1)
        logits = self.project(state.states[state.sentence, place])
        return logits, LabelState(state.states, state.sentence, state.length + 1)

    def attention(self, source: Tensor, target: Tensor) -> Attention:
        """How source tokens look at each other, and, as `cross`, how the places of the labels look at them.

        CLASS is left out: the maps are of what the user gave.
        """
        ids, segments = frame(source)
        with watch(self) as weights:
            self.encoder(ids, segments)
        places, there = self.places(ids, target.shape[1])
        every = torch.stack(list(weights.values()), dim=1)  # (B, L, H, P, P)
        index = places[:, None, None, :, None].expand(-1, *every.shape[1:3], -1, every.shape[4])
        cross = every.gather(3, index) * there[:, None, None, :, None]  # (B, L, H, T, P)
        decoder = every.new_empty(len(source), 0, 1, target.shape[1], target.shape[1])
        return Attention(every[..., 1:, 1:], decoder, cross[..., 1:])


class Classifier(Labeller):
    """One label: what the pooled state of CLASS says."""

    def __init__(self, config: LabelsConfig, source_symbols: int, target_symbols: int) -> None:
        super().__init__(config, source_symbols, target_symbols)
        self.pooler = Pooler(config.d_model)

    def labelled(self, ids: Tensor) -> Tensor:
        first = torch.arange(ids.shape[1], device=ids.device) == 0
        return first.expand(ids.shape)

    def pool(self, states: Tensor) -> Tensor:
        pooled: Tensor = self.pooler(states)
        return pooled


class Tagger(Labeller):
    """A label for each word: what the state of its first subword says."""

    starts: Tensor

    def __init__(self, config: TaggerConfig, source_symbols: int, target_symbols: int) -> None:
        super().__init__(config, source_symbols, target_symbols)
        # which ids begin a word; the caller fills it, and where it is all False every token is a word
        self.register_buffer("starts", torch.zeros(source_symbols, dtype=torch.bool))

    def labelled(self, ids: Tensor) -> Tensor:
        return ordinary(ids) & (self.starts[ids] | ~self.starts.any())

    def pool(self, states: Tensor) -> Tensor:
        return states
