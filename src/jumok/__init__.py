"""Jumok (주목, "attention"): the whole system of "Attention Is All You Need" as real software.

>>> import jumok
>>> run = jumok.train(source="train.en", target="train.de", recipe="tiny", minutes=10)
>>> model = jumok.load("runs/tiny")
>>> model.translate("A man rides a bike.").text

Names are imported when first used: `import jumok` loads nothing else, and loading a model and translating do not
import torch unless an option needs it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jumok.config.recipe import Recipe
    from jumok.errors import JumokError
    from jumok.runs.experiment import train
    from jumok.translator import Translator, load

__version__ = "0.1.0"
__all__ = ["JumokError", "Recipe", "Translator", "load", "train"]

_HOMES = {  # public name -> module that defines it
    "JumokError": "jumok.errors",
    "Recipe": "jumok.config.recipe",
    "Translator": "jumok.translator",
    "load": "jumok.translator",
    "train": "jumok.runs.experiment",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'jumok' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        from jumok import extras
        from jumok.errors import MissingPackage

        if (module := extras.find_missing(error)) is None:
            raise
        advice = extras.hint(module)
        raise MissingPackage("extras.name_needs_package", attribute=name, module=module, advice=advice) from error


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
