"""Small models and sentences that tests share."""

import torch
from torch import Tensor

from jumok.config import TransformerConfig
from jumok.models import build
from jumok.models.transformer import Transformer

SYMBOLS = 23

VARIANTS: dict[str, dict[str, object]] = {
    "paper": {},
    "pre-norm": {"norm_place": "pre"},
    "rms": {"norm": "rms"},
    "batch": {"norm": "batch"},
    "no-norm": {"norm": "none"},
    "learned": {"positions": "learned"},
    "rotary": {"positions": "rotary"},
    "appended": {"positions": "appended", "join": "concatenate"},
    "concatenated": {"join": "concatenate"},
    "nowhere": {"positions": "none"},
    "plain-dot": {"score": "dot"},
    "additive": {"score": "additive"},
    "gelu": {"activation": "gelu"},
    "swiglu": {"activation": "swiglu"},
    "narrow-keys": {"d_k": 4, "d_v": 6},
    "deep-encoder": {"encoder_layers": 3, "decoder_layers": 1},
    "no-residual": {"residual": False},
    "no-bias": {"bias": False},
    "untied": {"tied": "none"},
    "target-tied": {"tied": "target"},
}


def small(variant: str = "paper", **changes: object) -> TransformerConfig:
    """A Transformer that fits in a test."""
    sizes: dict[str, object] = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 16, "d_ff": 24, "heads": 2}
    return TransformerConfig.model_validate(sizes | VARIANTS[variant] | changes)


def made(variant: str = "paper", *, seed: int = 0, **changes: object) -> Transformer:
    """A small model with weights drawn by a seed, ready to evaluate; double, so that equality is meant exactly."""
    torch.manual_seed(seed)
    return build(small(variant, **changes), SYMBOLS, SYMBOLS).double().eval()


def two_sentences() -> tuple[Tensor, Tensor]:
    """Sources of different length with their END and padding, targets with their START."""
    source = torch.tensor([[9, 10, 11, 12, 3], [13, 14, 3, 0, 0]])
    target = torch.tensor([[2, 15, 16, 17], [2, 18, 19, 20]])
    return source, target
