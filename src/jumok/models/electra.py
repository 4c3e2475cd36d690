"""ELECTRA (Clark et al. 2020): an encoder that learns a language by telling which words a small generator has replaced.

    the cat sat ─ hide ─ the MASK sat ─ generator ─ draw ─ the dog sat ─ encoder ─ detector ─ no, yes, no
                                            └ which word? (BERT's question)            └ replaced?

Section 2 and figure 2.  The generator is a narrow BERT (section 3.2, "smaller generators": width, d_ff and heads
times `generator`, as many layers) and reads the same tables of words, positions and segments, through a projection.
What it draws is data: no gradient goes back through it.  A drawn word that is the right one counts as original.  The
encoder of the detector is what is used later: it has the names and shapes of BERT's.

Shapes   B batch · P places · D width · G width of the generator · M hidden words · V vocabulary
Not here the encoder, hiding and joining (encoder.py), fine-tuning (labels.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from jumok.models.base import MASK, PAD
from jumok.models.bert import BERTConfig
from jumok.models.encoder import MaskedConfig, MaskedModel, WordHead, ordinary, run, stack
from jumok.nn.layers import Linear


class ELECTRAConfig(MaskedConfig):
    """Section 3.1, at a size for a text of some megabytes."""

    usual: ClassVar[Mapping[str, Any]] = {**BERTConfig.usual, "training.peak": 2e-3}

    kind: Literal["electra"] = "electra"
    generator: Annotated[float, Field(gt=0.0, le=1.0)] = 0.25  # its width, d_ff and heads, as a share of the encoder's
    detection: Annotated[float, Field(gt=0.0, le=10_000.0)] = 50.0  # λ: what the loss of the detector counts

    @property
    def narrow(self) -> dict[str, int]:
        """The sizes of a layer of the generator, whose heads are not narrower than 8, or than those of the encoder."""
        heads = max(1, int(self.heads * self.generator))
        each = max(min(8, self.d_model // self.heads), int(self.d_model * self.generator / heads))
        each -= each % 2 * (self.positions == "rotary")
        return {"width": each * heads, "d_ff": max(1, int(self.d_ff * self.generator)), "heads": heads}

    def parameters(self, source: int, target: int) -> int:
        symbols, width, small = max(source, target), self.d_model, self.narrow["width"]
        generator = self.stack_parameters(small, self.narrow["d_ff"]) + (width + 1) * small
        head = (small + 3) * width + symbols
        return self.encoder_parameters(symbols) + generator + head + (width + 1) * (width + 1)


class Generator(nn.Module):
    """A narrow encoder over embeddings (B, P, D), to states (B, P, G), and what turns these into words."""

    def __init__(self, config: ELECTRAConfig, symbols: int) -> None:
        super().__init__()
        width = config.narrow["width"]
        self.projection = Linear(config.d_model, width)
        self.layers = stack(config, **config.narrow)
        self.head = WordHead(width, config.d_model, symbols)

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        return run(self.layers, self.projection(x), real)


class Detector(nn.Module):
    """How surely (B, P) each token was replaced: dense, gelu, one number."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense, self.output = Linear(width, width), Linear(width, 1)

    def forward(self, states: Tensor) -> Tensor:
        logits: Tensor = self.output(F.gelu(self.dense(states))).squeeze(-1)
        return logits


def draw(logits: Tensor, generator: torch.Generator) -> Tensor:
    """Words (M,) drawn with the probabilities that logits (M, V) give them; never a mark, which would be no word."""
    marks = ~ordinary(torch.arange(logits.shape[1], device=logits.device))
    sums = logits.masked_fill(marks, -torch.inf).softmax(dim=-1).cumsum(dim=-1)  # (M, V)
    spot = torch.rand(len(logits), 1, generator=generator).to(sums) * sums[:, -1:] * (1.0 - 1e-6)  # (M, 1)
    return torch.searchsorted(sums, spot, right=True).squeeze(1)


class ReplacedText(NamedTuple):
    """Words that the generator had to guess, and the batch with its guesses in their places."""

    hidden: Tensor  # (M, G) the generator's states in the places of the hidden words
    words: Tensor  # (M,) the hidden words
    shown: Tensor  # (B, P) with the words that the generator drew
    segments: Tensor  # (B, P)
    replaced: Tensor  # (B, P) True where the drawn word is not the hidden one


class ELECTRA(MaskedModel):
    """Implements `models.base.Learner`."""

    config: ELECTRAConfig

    def __init__(self, config: ELECTRAConfig, source_symbols: int, target_symbols: int) -> None:
        super().__init__(config, source_symbols, target_symbols)
        self.generator = Generator(config, self.symbols)
        self.detector = Detector(config.d_model)

    def detect(self, ids: Tensor, segments: Tensor) -> Tensor:
        """How surely (B, P) each token was replaced: above 0 it is likelier than not."""
        logits: Tensor = self.detector(self.encode(ids, segments))
        return logits

    def generate(self, ids: Tensor, segments: Tensor, places: Tensor) -> Tensor:
        """The generator's states (M, G) of the words at places (M,) of the flattened grid."""
        x = self.generator(self.encoder.embedding(ids, segments), ids != PAD)  # (B, P, G)
        return x.flatten(0, 1).index_select(0, places)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits (M, V) of the generator's states (M, G)."""
        return self.generator.head.logits(hidden, self.encoder.embedding.weight)

    def guess(self, ids: Tensor, segments: Tensor, places: Tensor) -> Tensor:
        return self.logits(self.generate(ids, segments, places))

    def ask(self, source: Tensor, text: Tensor) -> ReplacedText:
        """Hide words and replace them by what the generator draws.

        All is drawn from the stream of keys in training, and always the same otherwise.
        """
        generator = self.chance.generator()
        hidden = self.hide(source, text, generator)
        shown = hidden.show(torch.full_like(hidden.words, MASK))  # (B, P)
        states = self.generate(shown, hidden.segments, hidden.places)  # (M, G)
        with torch.no_grad():
            drawn = draw(self.logits(states), generator)  # (M,)
        shown = hidden.show(drawn)  # (B, P)
        return ReplacedText(states, hidden.words, shown, hidden.segments, shown != hidden.ids)

    def loss(self, source: Tensor, target: Tensor, labels: Tensor, *, smoothing: float) -> tuple[Tensor, int]:
        """The sum over the chosen words of the generator's losses, with the detector's, and how many they are.

        λ times the mean loss of the detector over all tokens counts once for every chosen word: the quotient of both is
        then the paper's sum of two means.
        """
        asked = self.ask(source, labels)
        table, count = self.encoder.embedding.weight, len(asked.words)
        total = self.generator.head.loss(asked.hidden, table, asked.words, smoothing=smoothing)
        real = asked.shown != PAD
        logits = self.detect(asked.shown, asked.segments)[real]
        error = F.binary_cross_entropy_with_logits(logits, asked.replaced[real].to(logits.dtype))
        return total + self.config.detection * count * error, count

    @torch.no_grad()
    def accuracy(self, source: Tensor, target: Tensor, labels: Tensor) -> tuple[int, int]:
        """In how many pairs of a replaced word and an original one the replaced one is suspected more, of how many.

        Half of them by chance, and half for a detector that always says the same; "original" is right for nine words in
        ten and would tell nothing.
        """
        asked = self.ask(source, labels)
        logits = self.detect(asked.shown, asked.segments)
        suspects, others = logits[asked.replaced], logits[ordinary(asked.shown) & ~asked.replaced].sort().values
        below, upto = (torch.searchsorted(others, suspects, right=right).sum() for right in (False, True))
        return int(below + upto) // 2, len(suspects) * len(others)
