"""Architectures: one file each, readable alone.  The table of their names is config/kinds.py.

Level 3.  Read first: transformer.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jumok.config.kinds import KINDS
from jumok.config.recipe import load
from jumok.config.sections import ModelConfig

if TYPE_CHECKING:
    import torch


def build(config: ModelConfig, source_symbols: int, target_symbols: int, *, device: torch.device | str = "cpu") -> Any:
    """Return the model of a recipe with new weights from torch's generator; device "meta" only counts them."""
    import torch

    with torch.device(device):
        return load(KINDS[config.kind][0])(config, source_symbols, target_symbols)
