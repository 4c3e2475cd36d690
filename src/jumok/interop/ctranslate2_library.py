"""The package ctranslate2, loaded without the toolkits that it would import, and which recipes it supports.

No torch and no numpy, so that translating starts fast.
"""

import sys
from importlib import import_module
from typing import Any

from jumok.config.sections import ModelConfig, TransformerConfig
from jumok.errors import MissingPackage
from jumok.extras import find_missing, hint
from jumok.messages import Message

VOCABULARY_MAP = "vmap.txt"


def load_library(*submodules: str) -> Any:
    """Return the package ctranslate2, with these submodules imported.

    It would import other toolkits, which takes two seconds where torch is installed; here it sees only those that are
    loaded already.
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
        raise MissingPackage("interop.not_installed", advice=hint("ctranslate2")) from None
    finally:
        for name in hidden:
            del sys.modules[name]
    return ctranslate2


def find_obstacle(model: ModelConfig) -> Message | None:
    """Return why a model cannot be exported; None if it can."""
    if not isinstance(model, TransformerConfig):
        return Message("interop.other_kind", {"kind": model.kind})
    width = model.d_model // model.heads
    if model.d_model % model.heads != 0 or model.head_widths != (width, width):
        return Message("interop.head_width")
    unsupported = {
        f"norm={model.norm!r}": model.norm != "layer",
        f"join={model.join!r}": model.join != "add",
        f"score={model.score!r}": model.score == "additive",
        f"activation={model.activation!r}": model.activation not in ("relu", "gelu"),
        "residual=false": not model.residual,
    }
    settings = [setting for setting, used in unsupported.items() if used]
    return Message("interop.no_setting", {"setting": settings[0]}) if settings else None
