"""Architectures: each file whole and readable alone.  `KINDS` is the closed table of what a recipe may name.

A model is one file, with its section of a recipe, and one line here.  Neither this module nor the Transformer's section
loads torch: engines read recipes without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from jumok.config import ModelConfig
from jumok.errors import UnknownName

if TYPE_CHECKING:
    import torch


class Kind(NamedTuple):
    """Where a model and its section of a recipe are."""

    model: str
    section: str


KINDS = {
    "transformer": Kind("jumok.models.transformer.Transformer", "jumok.config.TransformerConfig"),
    "rnn": Kind("jumok.models.rnn.RNN", "jumok.models.rnn.RNNConfig"),
    "convs2s": Kind("jumok.models.convs2s.ConvS2S", "jumok.models.convs2s.ConvS2SConfig"),
    "bytenet": Kind("jumok.models.bytenet.ByteNet", "jumok.models.bytenet.ByteNetConfig"),
    "memory": Kind("jumok.models.memory.MemoryNetwork", "jumok.models.memory.MemoryConfig"),
    "gpt": Kind("jumok.models.gpt.GPT", "jumok.models.gpt.GPTConfig"),
    "bert": Kind("jumok.models.bert.BERT", "jumok.models.bert.BERTConfig"),
    "electra": Kind("jumok.models.electra.ELECTRA", "jumok.models.electra.ELECTRAConfig"),
    "classifier": Kind("jumok.models.labels.Classifier", "jumok.models.labels.LabelsConfig"),
    "tagger": Kind("jumok.models.labels.Tagger", "jumok.models.labels.TaggerConfig"),
}


def section(kind: str, *, where: str = "") -> type[ModelConfig]:
    """What a recipe may say of such a model."""
    if kind not in KINDS:
        raise UnknownName("model", kind, KINDS, where=where, hint="try: --set model.kind=transformer, the default")
    found: type[ModelConfig] = _named(KINDS[kind].section)
    return found


def build(config: ModelConfig, source_symbols: int, target_symbols: int, *, device: torch.device | str = "cpu") -> Any:
    """The model of a recipe with weights freshly drawn from torch's generator; device "meta" only counts them."""
    import torch

    with torch.device(device):
        return _named(KINDS[config.kind].model)(config, source_symbols, target_symbols)


def _named(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)
