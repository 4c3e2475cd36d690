"""A model of your own: one class for its section of a recipe, one for the model, one line in the table of kinds.

    python examples/own_model.py                 # trains on the copy task, then decodes with a beam

The model is deliberately weak: it sees the mean of the source's embeddings and the previous token, so it knows which
letters there are, but not their order.  Everything else (data, training, exact resume, search) is Jumok's.

Shapes   B batch · S source · T target · N rows (hypotheses) · D width · V target vocabulary
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

import jumok
from jumok.config import presets
from jumok.config.kinds import KINDS
from jumok.config.sections import ModelConfig
from jumok.models.base import PAD, Attention
from jumok.nn.dropout import Dropout
from jumok.nn.layers import Linear


class BagConfig(ModelConfig):
    """The model's section of a recipe.  Width, dropout and tying are there already."""

    kind: Literal["bag"] = "bag"

    def parameters(self, source: int, target: int) -> int:
        """An upper bound on the parameters; larger weight files are refused."""
        return (source + 2 * target) * self.d_model + (self.d_model + 1) * self.d_model


@dataclass(frozen=True)
class BagState:
    """What the decoder remembers: the mean of the source of every row, (N, D)."""

    memory: Tensor

    def select(self, rows: Tensor) -> "BagState":
        """Row n of the new state continues row rows[n] of this one."""
        return BagState(self.memory[rows])


class Bag(nn.Module):
    """Next token from the previous one and a bag of source words."""

    def __init__(self, config: BagConfig, source: int, target: int) -> None:
        super().__init__()
        self.source = nn.Embedding(source, config.d_model)
        self.target = nn.Embedding(target, config.d_model)
        self.linear = Linear(config.d_model, config.d_model)
        self.dropout = Dropout(config.dropout)
        self.matrix = nn.Parameter(torch.randn(target, config.d_model) * config.d_model**-0.5)

    def encode(self, source: Tensor) -> Tensor:
        """Mean embedding (B, D) of the tokens that are not padding."""
        real = (source != PAD).unsqueeze(-1)  # (B, S, 1)
        return (self.source(source) * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)

    def combine(self, token: Tensor, memory: Tensor) -> Tensor:
        return torch.tanh(self.linear(self.dropout(self.target(token) + memory)))

    # ---- what training needs

    def hidden(self, source: Tensor, target: Tensor) -> Tensor:
        """Teacher-forced hidden states (B, T, D)."""
        return self.combine(target, self.encode(source).unsqueeze(1))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.hidden(source, target)

    def output(self) -> tuple[Tensor, Tensor | None]:
        return self.matrix, None

    def project(self, hidden: Tensor) -> Tensor:
        return hidden @ self.matrix.T

    # ---- what search needs

    def start(self, source: Tensor) -> BagState:
        return BagState(self.encode(source))

    def step(self, token: Tensor, state: BagState) -> tuple[Tensor, BagState]:
        return self.project(self.combine(token, state.memory)), state

    def attention(self, source: Tensor, target: Tensor) -> Attention:
        """This model has none: zero layers of every kind."""
        batch, s, t = len(source), source.shape[1], target.shape[1]
        none = [torch.zeros(batch, 0, 1, *shape) for shape in ((s, s), (t, t), (t, s))]
        return Attention(*none)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="runs/bag", help="folder of the run")
    parser.add_argument("--steps", type=int, default=300, help="updates")
    chosen = parser.parse_args(arguments)

    # In the project this is a line of src/jumok/config/kinds.py.  Recipes on disk can name only what is in the table.
    KINDS["bag"] = (f"{__name__}.Bag", f"{__name__}.BagConfig")

    changes = {"data.pairs": 1_000, "data.hold_out": 50, "training.validations": 2, "vocabulary.kind": "word"}
    changes |= {
        f"data.clean.{rule}": False for rule in ("duplicates", "near_duplicates", "copies", "scripts", "symbols")
    }
    run = jumok.train(
        recipe=presets.get("tiny"), model="bag", corpus="copy", steps=chosen.steps, out=chosen.out,
        changes=changes | {"vocabulary.at_most": True},
    )  # fmt: skip
    model = jumok.load(run.folder)
    print(f"{model.recipe.model.kind} with {sum(p.numel() for p in model.model.parameters()):,} parameters")
    for text in ("a b c", "d a"):
        print(f"{text} → {model.translate(text, beam=4).text}")


if __name__ == "__main__":
    main()
