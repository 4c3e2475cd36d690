"""Where the code of a block is: file and line, found in the sources, so that they are right after every change.

Sources are read and not imported, because those of models need torch.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jumok

ROOT = Path(jumok.__file__).parent
Where = tuple[str, str, str]  # type of block; function or class with its module; words of the line
USUAL: list[Where] = [  # the paper's parts
    ("embedding", "nn.embedding.Embedding.forward", "F.embedding"),
    ("positions", "nn.embedding.Embedding.forward", "self.join"),
    ("attention", "nn.attention.attend", "scores.softmax"),
    ("masked", "nn.attention.attend", "masked_fill"),
    ("cross", "nn.attention.CrossAttention.forward", "self.mix"),
    ("softmax", "decoding.search.forbid", "normalizer"),
    ("hop", "models.memory_hops.recall", "scores.softmax"),
]


class Code(NamedTuple):
    """A line of the package."""

    file: str
    line: int
    text: str


@cache
def find_line(name: str, words: str) -> Code:
    """The first line of a function or class, such as nn.attention.attend, that contains some words."""
    parts = name.split(".")
    size = next(size for size in range(len(parts), 0, -1) if _to_path(parts[:size]).is_file())
    path = _to_path(parts[:size])
    text = path.read_text(encoding="utf-8")
    node: ast.AST = ast.parse(text)
    for part in parts[size:]:
        node = next(one for one in ast.iter_child_nodes(node) if getattr(one, "name", None) == part)
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    lines = text.split("\n")[node.lineno - 1 : node.end_lineno]
    number, line = next((number, line) for number, line in enumerate(lines) if words in line)
    return Code(path.relative_to(ROOT).as_posix(), node.lineno + number, line.strip())


def _to_path(parts: list[str]) -> Path:
    return ROOT.joinpath(*parts).with_suffix(".py")


def find_code(others: list[Where]) -> dict[str, Code]:
    """The line of each type of block of a model that has these besides the paper's parts, or instead of them."""
    return {kind: find_line(name, words) for kind, name, words in [*USUAL, *others]}
