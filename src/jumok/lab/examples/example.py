"""A worked example as a value: numbers that anyone can compute again, and how they are shown.

    example = get("norms")
    numbers = example.compute()
    print("\n".join(to_lines(example, numbers, "ko")))

Not here the examples themselves (one file each) and their texts (words/examples.toml).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from jumok import machine
from jumok.lab.wording import Words
from jumok.reports.drawing import display_width
from jumok.storage.bundle import write_file

Numbers = Mapping[str, Any]
Say = Callable[..., str]  # (key, **values) -> a text of the example in one language
WORDS = Words.read("examples", "lab/examples/words")


class Part(NamedTuple):
    """A line of text and, if there are rows, a table whose first row are its titles."""

    text: str
    rows: Sequence[Sequence[str]] = ()


@dataclass(frozen=True, kw_only=True)
class Example:
    """A computation and how its numbers are shown."""

    name: str
    compute: Callable[[], dict[str, Any]]
    show: Callable[[Numbers, Say], Sequence[Part]]

    def say(self, language: str) -> Say:
        """The texts of the example in one language."""
        return lambda key, **values: WORDS(f"{self.name}.{key}", **values).of(language)


def to_lines(example: Example, numbers: Numbers, language: str = "en") -> list[str]:
    """An example for the terminal."""
    say = example.say(language)
    lines = [say("title"), "", say("says")]
    for part in example.show(numbers, say):
        lines += ["", part.text, *align(part.rows)]
    return lines


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table as lines: the first column to the left, the others to the right."""
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        gaps = [" " * (width - display_width(cell)) for cell, width in zip(row, widths, strict=True)]
        cells = [gap + cell if place else cell + gap for place, (cell, gap) in enumerate(zip(row, gaps, strict=True))]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def record(example: Example) -> dict[str, Any]:
    """Compute an example: its numbers, and where and when they were computed."""
    began = time.monotonic()
    numbers = json.loads(json.dumps(shorten(example.compute())))
    return {
        "example": example.name, "command": f"jumok example {example.name}", "numbers": numbers,
        "seconds": round(time.monotonic() - began, 1), "machine": str(machine.describe()),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }  # fmt: skip


def write(values: Mapping[str, Any], folder: Path) -> Path:
    """Write what `record` returned into a folder, as NAME.json."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{values['example']}.json"
    write_file(path, (json.dumps(values, ensure_ascii=False, indent=1) + "\n").encode())
    return path


def shorten(values: Any) -> Any:
    """The same values with floats of six significant digits, which is what two machines agree on."""
    if isinstance(values, Mapping):
        return {key: shorten(value) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return [shorten(value) for value in values]
    return float(f"{values:.6g}") if isinstance(values, float) else values


def to_cells(rows: Sequence[Sequence[float]], form: str = ".3f") -> list[list[str]]:
    """Numbers as the cells of a table."""
    return [[format(value, form) for value in row] for row in rows]


@contextmanager
def seeded(seed: int = 1) -> Iterator[None]:
    """torch with this seed and one thread; both are restored afterwards."""
    import torch

    threads = torch.get_num_threads()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
