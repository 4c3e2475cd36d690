"""BERT (Devlin et al. 2018): the Transformer's encoder, which learns a language by guessing words hidden from it.

    CLASS first SEPARATOR second SEPARATOR, some words hidden
      └ encoder ┬ hidden words ─ head ─ table of words
                └ CLASS ─ pooler ─ does the second text follow the first?

Read section 3 beside it: "masked LM" of section 3.1 is `encoder.choose` and `disguise`, "NSP" is `NextSentence`.

Shapes   B batch · S source · T text · P places of both, joined · D width · M hidden words · V vocabulary
Not here the encoder (encoder.py), fine-tuning (labels.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jumok.models.base import END, MASK, PAD, SPECIALS
from jumok.models.encoder import MaskedConfig, MaskedModel, Pooler, WordHead
from jumok.nn.layers import Linear

FOLLOWS, OTHER, ALONE = 0, 1, -1  # what the second text is to the first; alone: there is no first


class BERTConfig(MaskedConfig):
    """Section 3, at a size for a text of some megabytes; layers 12, d_model 768, d_ff 3072, heads 12 and learned
    positions are the paper's base model."""

    usual: ClassVar[Mapping[str, Any]] = {
        "model.positions": "rotary",  # learned ones stay at word frequencies for long (docs/decisions/0012)
        "training.optimizer": "muon",
        "training.peak": 6e-3,
        "training.warmup": 200,
        "training.label_smoothing": 0.0,
        "training.word_dropout": 0.0,  # the objective hides words itself
        "training.dropout_epochs": 0,
        "vocabulary.sampling": 0.0,
    }

    kind: Literal["bert"] = "bert"
    next_sentence: bool = False  # also tell whether the second text follows the first; needs data.halves=true

    def parameters(self, source: int, target: int) -> int:
        symbols, width = max(source, target), self.d_model
        head = (width + 3) * width + symbols
        return self.encoder_parameters(symbols) + head + (width + 1) * (width + 2) * self.next_sentence


def disguise(words: Tensor, symbols: int, generator: torch.Generator) -> Tensor:
    """What is shown in the place of hidden words (M,): MASK in 8 of 10 cases, any word in one, itself in one."""
    lot = torch.rand(len(words), generator=generator).to(words.device)  # (M,)
    other = torch.randint(SPECIALS, symbols, (len(words),), generator=generator).to(words.device)  # (M,)
    return torch.where(lot < 0.8, MASK, torch.where(lot < 0.9, other, words))


class NextSentence(nn.Module):
    """Does the second text follow the first?  Half of them are made not to, and CLASS must tell (section 3.1)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.pooler, self.output = Pooler(width), Linear(width, 2)

    def exchange(self, source: Tensor, text: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The texts (B, T), half of those with a source moved on by one among themselves, and what each now is (B,)."""
        pairs = ((source != PAD) & (source != END)).any(dim=1)  # (B,)
        drawn = torch.rand(len(source), generator=generator).to(source.device) < 0.5  # (B,)
        rows = (pairs & drawn).nonzero().squeeze(1)
        truth = torch.where(pairs, FOLLOWS, ALONE)  # (B,)
        if len(rows) > 1:  # one text alone cannot be exchanged
            text, truth[rows] = text.index_copy(0, rows, text[rows.roll(1)]), OTHER
        return text, truth

    def logits(self, states: Tensor) -> Tensor:
        """How well (B, 2) the second text follows, and how well it is another, from states (B, P, D)."""
        logits: Tensor = self.output(self.pooler(states[:, 0]))
        return logits

    def loss(self, states: Tensor, truth: Tensor) -> Tensor:
        """The mean cross-entropy over all pairs; 0 where there is none."""
        total = F.cross_entropy(self.logits(states), truth, ignore_index=ALONE, reduction="sum")
        return total / max(1, int((truth != ALONE).sum()))


class NoNextSentence(nn.Module):
    """Without that question: texts stay where they are."""

    def __init__(self, width: int) -> None:
        super().__init__()

    def exchange(self, source: Tensor, text: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return text, text[:, :0]

    def loss(self, states: Tensor, truth: Tensor) -> float:
        return 0.0


class MaskedText(NamedTuple):
    """A batch with words to be guessed."""

    shown: Tensor  # (B, P) with MASK and other words in the places of hidden words
    segments: Tensor  # (B, P)
    places: Tensor  # (M,) of the hidden words in the flattened grid
    words: Tensor  # (M,) the hidden words
    truth: Tensor  # (B,) what the second text is to the first


class BERT(MaskedModel):
    """Implements `models.base.Learner`."""

    def __init__(self, config: BERTConfig, source_symbols: int, target_symbols: int) -> None:
        super().__init__(config, source_symbols, target_symbols)
        self.head = WordHead(config.d_model, config.d_model, self.symbols)
        self.next_sentence = (NextSentence if config.next_sentence else NoNextSentence)(config.d_model)

    def ask(self, source: Tensor, text: Tensor) -> MaskedText:
        """Hide words: which ones is drawn from the stream of keys in training, and always the same otherwise."""
        generator = self.chance.generator()
        text, truth = self.next_sentence.exchange(source, text, generator)
        hidden = self.hide(source, text, generator)
        shown = hidden.show(disguise(hidden.words, self.symbols, generator))  # (B, P)
        return MaskedText(shown, hidden.segments, hidden.places, hidden.words, truth)

    def loss(self, source: Tensor, target: Tensor, labels: Tensor, *, smoothing: float) -> tuple[Tensor, int]:
        """The sum over the hidden words of their losses, and how many they are.

        With `next_sentence`, the mean loss of the pairs counts once for every hidden word: the quotient of both is then
        the paper's sum of two means.
        """
        asked = self.ask(source, labels)
        states = self.encode(asked.shown, asked.segments)  # (B, P, D)
        hidden = states.flatten(0, 1).index_select(0, asked.places)  # (M, D)
        total = self.head.loss(hidden, self.encoder.embedding.weight, asked.words, smoothing=smoothing)
        return total + len(asked.words) * self.next_sentence.loss(states, asked.truth), len(asked.words)

    @torch.no_grad()
    def accuracy(self, source: Tensor, target: Tensor, labels: Tensor) -> tuple[int, int]:
        """How many of the hidden words are the likeliest in their places, and how many there are."""
        asked = self.ask(source, labels)
        logits = self.guess(asked.shown, asked.segments, asked.places)
        return int((logits.argmax(dim=-1) == asked.words).sum()), len(asked.words)

    def guess(self, ids: Tensor, segments: Tensor, places: Tensor) -> Tensor:
        hidden = self.encode(ids, segments).flatten(0, 1).index_select(0, places)  # (M, D)
        return self.head.logits(hidden, self.encoder.embedding.weight)
