"""Architectures: each file whole and readable alone; `build` turns a recipe's model section into one."""

import torch

from jumok.config import TransformerConfig
from jumok.models.transformer import Transformer


def build(
    config: TransformerConfig, source_symbols: int, target_symbols: int, *, device: torch.device | str = "cpu"
) -> Transformer:
    """The model of a recipe with weights freshly drawn from torch's generator; device "meta" only counts them."""
    with torch.device(device):
        return Transformer(config, source_symbols, target_symbols)
