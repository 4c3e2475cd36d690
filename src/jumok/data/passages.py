"""A text to be learnt itself, cut into stretches: nothing of it is lost, and no word is cut in two.

    stretches(lines, 256)        pieces of at most so many characters; together they are the text
    halves(stretch)              what is read, and what follows it

The end of a text is what a model of it is tried on, because what comes before is what it has read.
"""

from array import array
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from jumok.text.lines import read_lines

TAIL = 0.1  # the share of a text that is held out, at its end


def stretches(lines: Iterable[str], size: int) -> Iterator[str]:
    """The lines, each with its line break, in pieces of at most `size` characters, cut before white space."""
    waiting = ""
    for line in lines:
        waiting += f"{line}\n"
        start = 0
        while len(waiting) - start > size:
            at = start + cut(waiting[start : start + size + 1], size)
            yield waiting[start:at]
            start = at
        waiting = waiting[start:]
    if waiting.strip():
        yield waiting


def cut(text: str, most: int) -> int:
    """Where a text of more than `most` characters is cut: before the last white space, or inside an endless word."""
    found = max(text.rfind(space, 1, most + 1) for space in " \n")
    return found if found > 0 else most


def halves(stretch: str) -> tuple[str, str]:
    """The first half of a stretch and the second."""
    at = cut(stretch, max(1, len(stretch) // 2))
    return stretch[:at], stretch[at:]


def read(
    path: str | Path, size: int, *, in_halves: bool = False, part: slice = slice(None)
) -> Iterator[tuple[str, str]]:
    """Pairs of what is read, which is nothing unless `in_halves`, and what is said, of some lines of a file."""
    lines = islice(read_lines(path), part.start, part.stop)
    for stretch in stretches(lines, size):
        yield halves(stretch) if in_halves else ("", stretch)


def head(lines: Iterable[str]) -> int:
    """How many lines come before the last tenth of a text, which is at least one line of several."""
    sizes = array("L", (len(line) + 1 for line in lines))
    rest, before = TAIL * sum(sizes), len(sizes)
    while before > 1 and rest > 0:
        before -= 1
        rest -= sizes[before]
    return before
