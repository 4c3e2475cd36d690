"""A model for CTranslate2, the C++ engine: the same weights in its own file, the same probabilities.

`obstacle` says what of a recipe the engine has no counterpart for; `export` writes a folder that
`ctranslate2.Translator` reads.  Sources are pieces without END, which the engine adds; it begins with <s>.

What differs when it searches: it divides log P by n^alpha, not by the paper's ((5 + n) / 6)^alpha.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from jumok import checkpoint
from jumok.config import TransformerConfig
from jumok.errors import DiskError, UsageError
from jumok.text.vocabulary import Vocabularies

LONGEST = 2_048 + 64  # positions of a table; what is beyond, the engine would refuse
PRECISIONS = ("float32", "int8", "int16")

Weights = dict[str, np.ndarray]


def obstacle(model: TransformerConfig) -> str | None:
    """Why a model cannot be exported; None if it can."""
    width = model.d_model // model.heads
    reasons = {
        f"norm={model.norm!r}": model.norm != "layer",
        f"join={model.join!r}": model.join != "add",
        f"score={model.score!r}": model.score == "additive",
        f"activation={model.activation!r}": model.activation == "swiglu",
        "residual=false": not model.residual,
        "d_k or d_v other than d_model / heads": not (model.key_width == model.value_width == width)
        or model.d_model % model.heads != 0,
    }
    return next((f"CTranslate2 has no {name}" for name, true in reasons.items() if true), None)


def export(
    weights: Weights,
    model: TransformerConfig,
    vocabularies: Vocabularies,
    out: str | Path,
    *,
    precision: str = "float32",
) -> Path:
    """Write the folder `out`; `weights` are those of a bundle, by name."""
    if (reason := obstacle(model)) is not None:
        raise UsageError(reason, where="in the recipe's [model]", hint="jumok translate uses the torch engine for it")
    if precision not in PRECISIONS:
        raise UsageError(f"no precision {precision!r}", where="in --precision", hint=f"one of {', '.join(PRECISIONS)}")
    copies = {name: np.array(value, dtype=np.float32) for name, value in weights.items()}  # quantised in place
    spec = specification(copies, model, vocabularies)
    spec.validate()
    spec.optimize(quantization=None if precision == "float32" else precision)
    place = Path(out)
    try:
        place.mkdir(parents=True, exist_ok=True)
        spec.save(str(place))
    except OSError as error:
        raise DiskError(f"cannot write the model: {error.strerror or error}", where=f"in {place}") from error
    return place


def export_bundle(path: str | Path, out: str | Path, *, precision: str = "float32") -> Path:
    """Export the model of a run folder or of a bundle."""
    bundle = checkpoint.load(path)
    weights = {name: tensor.numpy() for name, tensor in checkpoint.weights(bundle.model).items()}
    return export(weights, bundle.recipe.model, bundle.vocabularies, out, precision=precision)


def specification(weights: Weights, model: TransformerConfig, vocabularies: Vocabularies) -> Any:
    """The model as CTranslate2 describes one."""
    from ctranslate2.specs import transformer_spec as specs
    from ctranslate2.specs.common_spec import Activation

    rotary = model.key_width if model.positions == "rotary" else None
    common: dict[str, Any] = {
        "num_heads": model.heads, "pre_norm": model.norm_place == "pre", "rotary_dim": rotary,
        "activation": Activation.GELU if model.activation == "gelu" else Activation.RELU,
    }  # fmt: skip
    encoder = specs.TransformerEncoderSpec(model.encoder_layers, **common)
    decoder = specs.TransformerDecoderSpec(model.decoder_layers, **common)
    scale = 1.0 if model.score == "dot" else None
    writer = Writer(weights, scale)
    for name, side in (("encoder", encoder), ("decoder", decoder)):
        for number, layer in enumerate(side.layer):
            writer.layer(layer, f"{name}.{number}")
        if model.norm_place == "pre":
            writer.norm(side.layer_norm, f"{name}_norm")
    matrix = weights["matrix"]
    encoder.embeddings[0].weight = weights.get("source.weight", matrix)
    decoder.embeddings.weight = weights.get("target.weight", matrix)
    decoder.projection.weight = matrix
    for name, side in (("source", encoder), ("target", decoder)):
        if rotary:
            side.__dict__.pop("position_encodings", None)
        else:
            side.position_encodings.encodings = positions(weights, model, name)
    spec = specs.TransformerSpec(encoder, decoder)
    for register, vocabulary in (
        (spec.register_source_vocabulary, vocabularies.source),
        (spec.register_target_vocabulary, vocabularies.target),
    ):
        register(vocabulary.pieces(range(len(vocabulary))))
    spec.config.add_source_eos = True
    return spec


def positions(weights: Weights, model: TransformerConfig, side: str) -> np.ndarray:
    """The vectors that are added to embeddings (positions, D)."""
    if model.positions == "learned":
        table = weights[f"{side}.positions.weight"]
        beyond = np.repeat(table[-1:], max(0, LONGEST - len(table)), axis=0)
        return np.concatenate([table, beyond])
    if model.positions == "none":
        return np.zeros((LONGEST, model.d_model), dtype=np.float32)
    angle = np.arange(LONGEST)[:, None] / 10_000.0 ** (np.arange(0, model.d_model, 2) / model.d_model)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(LONGEST, -1)[:, : model.d_model].astype(np.float32)


class Writer:
    """Puts weights where CTranslate2 looks for them."""

    def __init__(self, weights: Weights, scale: float | None) -> None:
        self.weights, self.scale = weights, scale

    def dense(self, spec: Any, name: str) -> None:
        spec.weight = self.weights[f"{name}.weight"]
        if f"{name}.bias" in self.weights:
            spec.bias = self.weights[f"{name}.bias"]

    def norm(self, spec: Any, name: str) -> None:
        spec.gamma, spec.beta = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]

    def layer(self, spec: Any, name: str) -> None:
        parts: list[tuple[str, str, tuple[str, ...]]] = [("self_attention", "attention", ("qkv", "output"))]
        if hasattr(spec, "attention"):
            parts.append(("attention", "cross", ("query", "memory", "output")))
        for theirs, ours, matrices in parts:
            attention = getattr(spec, theirs)
            for linear, matrix in zip(attention.linear, matrices, strict=True):
                self.dense(linear, f"{name}.{ours}.{matrix}")
            self.norm(attention.layer_norm, f"{name}.{ours}_path.norm")
            if self.scale is not None:
                attention.queries_scale = np.float32(self.scale)
        self.dense(spec.ffn.linear_0, f"{name}.feed_forward.inner")
        self.dense(spec.ffn.linear_1, f"{name}.feed_forward.outer")
        self.norm(spec.ffn.layer_norm, f"{name}.feed_forward_path.norm")
