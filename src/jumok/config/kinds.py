"""The closed table of the models that a recipe may name.

A model is one file, which also has its section of a recipe, and one line here.  The line names both without importing
them: reading the recipe of a Transformer does not load torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from jumok.config.sections import ModelConfig
from jumok.errors import MissingPackage, UnknownName
from jumok.extras import find_missing, hint


class Kind(NamedTuple):
    """Where a model and its section of a recipe are."""

    model: str
    section: str


KINDS = {
    "transformer": Kind("jumok.models.transformer.Transformer", "jumok.config.sections.TransformerConfig"),
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


def find_section(kind: str, *, origin: str = "model.kind") -> type[ModelConfig]:
    """Return the section of a recipe that describes such a model; `origin` is the file or key that named it."""
    if kind not in KINDS:
        raise UnknownName("config.unknown_model", kind, KINDS, origin=origin)
    try:
        section: type[ModelConfig] = load(KINDS[kind].section)
    except ModuleNotFoundError as error:  # the section is in the file of its model, unless it is the Transformer's
        if (module := find_missing(error)) is None:
            raise
        raise MissingPackage(
            "config.model_needs_package", kind=kind, module=module, origin=origin, advice=hint(module)
        ) from None
    return section


def load(path: str) -> Any:
    """Import what a dotted path names."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)
