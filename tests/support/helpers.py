"""Small models and sentences that tests share, and the check that shape comments tell the truth."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from jumok.config.recipe import find_section
from jumok.config.sections import TransformerConfig
from jumok.models import build

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
    "linear": {"activation": "linear"},
    "narrow-keys": {"d_k": 4, "d_v": 6},
    "deep-encoder": {"encoder_layers": 3, "decoder_layers": 1},
    "no-residual": {"residual": False},
    "no-bias": {"bias": False},
    "untied": {"tied": "none"},
    "target-tied": {"tied": "target"},
}


OTHERS: dict[str, dict[str, object]] = {  # other generators than the Transformer, each as small as it gets
    "rnn-gru-additive": {"kind": "rnn", "d_model": 16},
    "rnn-gru-multiplicative": {"kind": "rnn", "d_model": 16, "attention": "multiplicative"},
    "rnn-gru-none": {"kind": "rnn", "d_model": 16, "attention": "none"},
    "rnn-lstm-additive": {"kind": "rnn", "d_model": 16, "cell": "lstm", "decoder_layers": 2},
    "rnn-lstm-none": {"kind": "rnn", "d_model": 16, "cell": "lstm", "attention": "none"},
    "rnn-deep": {
        "kind": "rnn",
        "d_model": 16,
        "cell": "lstm",
        "attention": "multiplicative",
        "encoder_layers": 2,
        "decoder_layers": 2,
    },
    "rnn-untied": {"kind": "rnn", "d_model": 16, "tied": "none"},
    "convs2s": {"kind": "convs2s", "encoder_layers": 2, "decoder_layers": 2, "d_model": 16, "longest": 12},
    "convs2s-wide": {"kind": "convs2s", "encoder_layers": 2, "decoder_layers": 2, "d_model": 16, "kernel": 5},
    "convs2s-untied": {"kind": "convs2s", "encoder_layers": 2, "decoder_layers": 1, "d_model": 16, "tied": "none"},
    "convs2s-narrow": {"kind": "convs2s", "encoder_layers": 1, "decoder_layers": 2, "d_model": 16, "d_conv": 10},
    "bytenet": {"kind": "bytenet", "d_model": 16, "encoder_sets": 1, "decoder_sets": 1, "largest_dilation": 4},
    "bytenet-wide": {"kind": "bytenet", "d_model": 16, "encoder_sets": 2, "largest_dilation": 2, "kernel": 5},
    "bytenet-stretched": {"kind": "bytenet", "d_model": 16, "largest_dilation": 4, "stretch": 1.5, "extra": 2},
    "bytenet-untied": {"kind": "bytenet", "d_model": 16, "largest_dilation": 4, "tied": "none"},
    "memory": {"kind": "memory", "d_model": 16, "longest": 8},
    "memory-layer-wise": {"kind": "memory", "d_model": 16, "longest": 8, "tying": "layer-wise", "nonlinear": "half"},
    "memory-untied": {"kind": "memory", "d_model": 16, "longest": 8, "tied": "none", "encoding": "bag"},
    "memory-words": {"kind": "memory", "memory": "words", "d_model": 16, "words": 3},
    "gpt": {"kind": "gpt", "layers": 2, "d_model": 16, "d_ff": 24, "heads": 2, "longest": 8},
    "gpt-rotary": {"kind": "gpt", "layers": 2, "d_model": 16, "d_ff": 24, "heads": 2, "positions": "rotary"},
    "gpt-sinusoidal": {"kind": "gpt", "layers": 2, "d_model": 16, "d_ff": 24, "heads": 2, "positions": "sinusoidal"},
    "gpt-untied": {"kind": "gpt", "layers": 2, "d_model": 16, "d_ff": 24, "heads": 2, "tied": "none"},
}


def small(variant: str = "paper", **changes: object) -> Any:
    """The section of a model that fits in a test: a Transformer, unless the variant is one of the others."""
    if variant in OTHERS:
        return find_section(str(OTHERS[variant]["kind"])).model_validate(OTHERS[variant] | changes)
    sizes: dict[str, object] = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 16, "d_ff": 24, "heads": 2}
    return TransformerConfig.model_validate(sizes | VARIANTS[variant] | changes)


def made(variant: str = "paper", *, seed: int = 0, **changes: object) -> Any:
    """A small model with weights drawn by a seed, ready to evaluate; double, so that equality is meant exactly."""
    torch.manual_seed(seed)
    return build(small(variant, **changes), SYMBOLS, SYMBOLS).double().eval()


def two_sentences() -> tuple[Tensor, Tensor]:
    """Sources of different length with their END and padding, targets with their START."""
    source = torch.tensor([[9, 10, 11, 12, 3], [13, 14, 3, 0, 0]])
    target = torch.tensor([[2, 15, 16, 17], [2, 18, 19, 20]])
    return source, target


# ------------------------------------------------------------------------------------------ shape comments

SHAPE = re.compile(r"^\s*(\w+)(?::\s*\w+)?\s*=[^=].*#\s*\(((?:[A-Z]|\d+)(?:,\s*(?:[A-Z]|\d+))*),?\)")


def shape_comments(path: Path) -> dict[int, tuple[str, list[str]]]:
    """Map line number to (variable, dimensions) for every shape-commented assignment in a file."""
    matches = enumerate(map(SHAPE.match, path.read_text(encoding="utf-8").split("\n")), start=1)
    return {line: (m[1], re.split(r",\s*", m[2])) for line, m in matches if m}


class ShapeChecker:
    """Run code and compare the trailing shape comments of a file with the tensors that the lines really make."""

    def __init__(self, path: Path) -> None:
        self.path, self.wanted = path, shape_comments(path)
        self.wrong: list[str] = []
        self.seen: set[int] = set()

    def run(self, call: Callable[[], object], within: str, **sizes: int) -> None:
        """Call, with what each letter stands for in the functions whose full name begins with a match of `within`."""
        pending: dict[FrameType, int] = {}

        def settle(frame: FrameType) -> None:
            line = pending.pop(frame, 0)
            if line not in self.wanted or not hasattr(frame.f_locals.get(self.wanted[line][0]), "shape"):
                return
            self.seen.add(line)
            name, letters = self.wanted[line]
            actual = tuple(frame.f_locals[name].shape)
            if actual != tuple(int(x) if x.isdigit() else sizes.get(x) for x in letters):
                self.wrong.append(f"{self.path.name}:{line}: {name} is {actual}, comment says ({', '.join(letters)})")

        def trace(frame: FrameType, event: str, _: object) -> Callable[..., object] | None:
            if frame.f_code.co_filename != str(self.path) or not re.match(within, frame.f_code.co_qualname):
                return None
            if event in ("line", "return"):
                settle(frame)
            if event == "line":
                pending[frame] = frame.f_lineno
            return trace

        previous = sys.gettrace()
        sys.settrace(trace)
        try:
            call()
        finally:
            sys.settrace(previous)

    def complaints(self) -> list[str]:
        """Comments that are false, and those that no run has reached."""
        unseen = sorted(set(self.wanted) - self.seen)
        return self.wrong + [f"{self.path.name}:{line}: never reached" for line in unseen]
