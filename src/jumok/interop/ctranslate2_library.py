"""The package ctranslate2, loaded without the toolkits that it would import, and the recipes it supports.

No torch and no numpy, so that translating starts fast.
"""

import sys
from importlib import import_module
from typing import Any

from jumok.config.sections import ModelConfig, TransformerConfig
from jumok.errors import MissingPackage
from jumok.extras import find_missing, hint

VOCABULARY_MAP = "vmap.txt"


def library(*submodules: str) -> Any:
    """Return the package ctranslate2, with these submodules imported.

    Importing it tries other toolkits, and where torch is installed that takes two seconds; here it finds only those
    that are loaded already.
    """
    hidden = [name for name in ("torch", "transformers", "huggingface_hub") if name not in sys.modules]
    try:
        for name in hidden:
            sys.modules[name] = None  # type: ignore[assignment]  # an import of it fails at once
        import ctranslate2

        for name in submodules:
            import_module(f"ctranslate2.{name}")
    except ModuleNotFoundError as error:
        if find_missing(error) != "ctranslate2":
            raise
        raise MissingPackage("CTranslate2 is not installed", hint=str(hint("ctranslate2"))) from None
    finally:
        for name in hidden:
            del sys.modules[name]
    return ctranslate2


def obstacle(model: ModelConfig) -> str | None:
    """Return why a model cannot be exported; None if it can."""
    if not isinstance(model, TransformerConfig):
        return f"{model.kind} models are not exported to CTranslate2"
    width = model.d_model // model.heads
    reasons = {
        f"norm={model.norm!r}": model.norm != "layer",
        f"join={model.join!r}": model.join != "add",
        f"score={model.score!r}": model.score == "additive",
        f"activation={model.activation!r}": model.activation not in ("relu", "gelu"),
        "residual=false": not model.residual,
        "d_k or d_v other than d_model / heads": not (model.key_width == model.value_width == width)
        or model.d_model % model.heads != 0,
    }
    return next((f"CTranslate2 has no {name}" for name, true in reasons.items() if true), None)
