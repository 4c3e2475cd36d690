"""A model for CTranslate2, the C++ engine: the same weights in its file format, the same probabilities; no torch.

`export` writes a folder that `ctranslate2.Translator` reads.
Sources are pieces without END, which CTranslate2 adds; its outputs begin with <s>.

Its search divides log P by n^alpha, not by the paper's ((5 + n) / 6)^alpha; our engine
(engines/ctranslate2_engine.py) ranks the hypotheses by the paper's formula.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jumok.config.sections import TransformerConfig, transformer
from jumok.data.lexicon import Lexicon, load_shortlist
from jumok.errors import DiskError, UnknownName, UsageError
from jumok.interop.ctranslate2_library import VOCABULARY_MAP, find_obstacle, load_library
from jumok.kernels.pack import compute_positions
from jumok.storage import tensors
from jumok.storage.bundle import Bundle
from jumok.storage.tensors import Tensors
from jumok.text.vocabulary import SPECIALS, Vocabularies

LONGEST = 2_048 + 64  # positions of a table; CTranslate2 refuses longer sources
PRECISIONS = ("float32", "int8", "int16")


def export(
    weights: Mapping[str, np.ndarray] | Tensors,
    model: TransformerConfig,
    vocabularies: Vocabularies,
    out: str | Path,
    *,
    precision: str = "float32",
    shortlist: Lexicon | None = None,
) -> Path:
    """Write a model into the folder `out`, with the weights of a bundle, by name, and a shortlist as vocabulary map."""
    if (reason := find_obstacle(model)) is not None:
        raise UsageError("interop.cannot_export", reason=reason)
    if precision not in PRECISIONS:
        raise UnknownName("interop.unknown_precision", precision, PRECISIONS)
    spec = build_specification(weights if isinstance(weights, Tensors) else Tensors.of(weights), model, vocabularies)
    spec.validate()
    spec.optimize(quantization=None if precision == "float32" else precision)
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        spec.save(str(folder))
        if shortlist is not None:
            (folder / VOCABULARY_MAP).write_text(
                "".join(list_vocabulary_map(shortlist, vocabularies)), encoding="utf-8"
            )
    except OSError as error:
        raise DiskError("interop.cannot_write", reason=error.strerror or error, folder=folder) from error
    return folder


def export_bundle(bundle: Bundle, out: str | Path, *, precision: str = "float32") -> Path:
    """Export a bundle's model and its shortlist."""
    weights, shortlist = tensors.read(bundle), load_shortlist(bundle)
    model = transformer(bundle.recipe.model, "export to CTranslate2")
    return export(weights, model, bundle.vocabularies, out, precision=precision, shortlist=shortlist)


def list_vocabulary_map(lexicon: Lexicon, vocabularies: Vocabularies) -> Iterator[str]:
    """Yield a line per source subword: the subword, a tab, its target subwords; the first line is for all sources.

    A subword of both vocabularies may turn into itself: names and numbers are copied.
    """
    source, target = (side.pieces(range(len(side))) for side in (vocabularies.source, vocabularies.target))
    known = {piece: number for number, piece in enumerate(target)}
    yield "\t" + " ".join(target[number] for number in lexicon.common) + "\n"
    for number, piece in enumerate(source[SPECIALS:], start=SPECIALS):
        itself = [known[piece]] if piece in known else []
        targets = dict.fromkeys([*lexicon.of(number), *itself])
        if targets:
            yield f"{piece}\t" + " ".join(target[token] for token in targets) + "\n"


def build_specification(weights: Tensors, model: TransformerConfig, vocabularies: Vocabularies) -> Any:
    """Return the model in CTranslate2's terms."""
    package = load_library("specs")
    specs, kinds = package.specs.transformer_spec, package.specs.common_spec.Activation
    rotary = model.head_widths[0] if model.positions == "rotary" else None
    common: dict[str, Any] = {
        "num_heads": model.heads, "pre_norm": model.norm_place == "pre", "rotary_dim": rotary,
        "activation": kinds.GELU if model.activation == "gelu" else kinds.RELU,
    }  # fmt: skip
    encoder = specs.TransformerEncoderSpec(model.encoder_layers, **common)
    decoder = specs.TransformerDecoderSpec(model.decoder_layers, **common)
    writer = Writer(weights, model)
    for name, side in (("encoder", encoder), ("decoder", decoder)):
        for number, layer in enumerate(side.layer):
            writer.write_layer(layer, f"{name}.{number}")
        if model.norm_place == "pre":
            writer.write_norm(side.layer_norm, f"{name}_norm")
    width, symbols = model.d_model, {"source": len(vocabularies.source), "target": len(vocabularies.target)}
    matrix = weights.take("matrix", symbols["target"], width)
    tables = {
        side: weights.take(f"{side}.weight", count, width) if f"{side}.weight" in weights.names else matrix
        for side, count in symbols.items()
    }
    encoder.embeddings[0].weight, decoder.embeddings.weight = tables["source"], tables["target"]
    decoder.projection.weight = matrix
    for name, side in (("source", encoder), ("target", decoder)):
        if rotary:
            side.__dict__.pop("position_encodings", None)
        else:
            table = compute_positions(weights, model, name, LONGEST)
            side.position_encodings.encodings = np.zeros((LONGEST, width), np.float32) if table is None else table
    spec = specs.TransformerSpec(encoder, decoder)
    for register, vocabulary in (
        (spec.register_source_vocabulary, vocabularies.source),
        (spec.register_target_vocabulary, vocabularies.target),
    ):
        register(vocabulary.pieces(range(len(vocabulary))))
    spec.config.add_source_eos = True
    return spec


class Writer:
    """Copies weights into a specification."""

    def __init__(self, weights: Tensors, model: TransformerConfig) -> None:
        self.weights, self.width, self.inner = weights, model.d_model, model.d_ff
        self.scale = 1.0 if model.score == "dot" else None

    def write_dense(self, spec: Any, name: str, rows: int, columns: int) -> None:
        spec.weight = self.weights.take(f"{name}.weight", rows, columns)
        if f"{name}.bias" in self.weights.names:
            spec.bias = self.weights.take(f"{name}.bias", rows)

    def write_norm(self, spec: Any, name: str) -> None:
        spec.gamma, spec.beta = (self.weights.take(f"{name}.{part}", self.width) for part in ("weight", "bias"))

    def write_layer(self, spec: Any, name: str) -> None:
        width = self.width
        parts: list[tuple[str, str, dict[str, int]]] = [("self_attention", "attention", {"qkv": 3, "output": 1})]
        if hasattr(spec, "attention"):
            parts.append(("attention", "cross", {"query": 1, "memory": 2, "output": 1}))
        for field, name_in_model, matrices in parts:
            attention = getattr(spec, field)
            for linear, (matrix, times) in zip(attention.linear, matrices.items(), strict=True):
                self.write_dense(linear, f"{name}.{name_in_model}.{matrix}", times * width, width)
            self.write_norm(attention.layer_norm, f"{name}.{name_in_model}_path.norm")
            if self.scale is not None:
                attention.queries_scale = np.float32(self.scale)
        self.write_dense(spec.ffn.linear_0, f"{name}.feed_forward.inner", self.inner, width)
        self.write_dense(spec.ffn.linear_1, f"{name}.feed_forward.outer", width, self.inner)
        self.write_norm(spec.ffn.layer_norm, f"{name}.feed_forward_path.norm")
