"""Where the code of a block is: file and line, found by inspection, so that they are right after every change."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jumok
from jumok.decoding import search
from jumok.inside.kinds import Parts
from jumok.models.memory_hops import recall
from jumok.nn import attention
from jumok.nn.embedding import Embedding

ROOT = Path(jumok.__file__).parent


class Code(NamedTuple):
    """A line of the package."""

    file: str
    line: int
    text: str


def find_line(function: Callable[..., Any], words: str) -> Code:
    """The first line of a function that contains some words."""
    lines, first = inspect.getsourcelines(function)
    number, text = next((number, text) for number, text in enumerate(lines) if words in text)
    file = Path(inspect.getsourcefile(function) or "").relative_to(ROOT)
    return Code(file.as_posix(), first + number, text.strip())


def find_code(parts: Parts) -> dict[str, Code]:
    """The line of each type of block of a model with these parts."""
    codes = {
        "embedding": find_line(Embedding.forward, "F.embedding"),
        "positions": find_line(Embedding.forward, "self.join"),
        "attention": find_line(attention.attend, "scores.softmax"),
        "masked": find_line(attention.attend, "masked_fill"),
        "cross": find_line(attention.CrossAttention.forward, "self.mix"),
        "softmax": find_line(search.forbid, "normalizer"),
        "hop": find_line(recall, "scores.softmax"),
    }
    if hasattr(parts.model, "project"):
        codes["output"] = find_line(type(parts.model).project, "return")
    for name, function, words in parts.code:
        codes[name] = find_line(function, words)
    return codes
