"""Worked examples: what the study notes define or assert, computed in seconds and small enough to check by hand.

    jumok example                  list all examples
    jumok example norms            compute one and print it; --lang ko for Korean

Level 10.  Read first: example.py.

An example is one file: `EXAMPLE` computes plain numbers and shows them as lines and tables (words/examples.toml has the
texts).  Unlike a claim it has no verdict.  The page about the notes (docs/notes.md) takes its numbers from them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from jumok.errors import UnknownName

if TYPE_CHECKING:
    from jumok.lab.examples.example import Example

NAMES: tuple[str, ...] = (
    "attention",
    "lookup",
    "projections",
    "channels",
    "resolution",
    "linear",
    "wavelengths",
    "learned",
    "norms",
    "parameters",
    "flow",
    "cross",
    "padding",
    "circle",
    "decoding",
    "distance",
    "memory",
    "shuffle",
    "tree",
)


def get(name: str) -> "Example":
    """An example by its name."""
    if name not in NAMES:
        raise UnknownName("lab.unknown_example", name, NAMES)
    example: Example = import_module(f"jumok.lab.examples.{name}").EXAMPLE
    return example
