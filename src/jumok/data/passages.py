"""A text for a language model, split into segments: no character is lost, and words stay whole.

    split(lines, 256)        segments of at most 256 characters; joined, they are the text
    halve(segment)           the source and the target of a segment

The end of a text is held out for validation, because a model has read what comes before it.
"""

from array import array
from collections.abc import Iterable, Iterator
from itertools import islice

TAIL = 0.1  # share of a text that is held out, at its end


def split(lines: Iterable[str], size: int) -> Iterator[str]:
    """Segments of at most `size` characters, split before white space; every line keeps its line break."""
    waiting = ""
    for line in lines:
        waiting += f"{line}\n"
        start = 0
        while len(waiting) - start > size:
            stop = start + find_cut(waiting[start : start + size + 1], size)
            yield waiting[start:stop]
            start = stop
        waiting = waiting[start:]
    if waiting.strip():
        yield waiting


def find_cut(text: str, most: int) -> int:
    """Where to split a text of more than `most` characters: before the last white space, else inside the word."""
    space = max(text.rfind(character, 1, most + 1) for character in " \n")
    return space if space > 0 else most


def halve(segment: str) -> tuple[str, str]:
    """The first and the second half of a segment."""
    middle = find_cut(segment, max(1, len(segment) // 2))
    return segment[:middle], segment[middle:]


def read(
    lines: Iterable[str], size: int, *, in_halves: bool = False, part: slice = slice(None)
) -> Iterator[tuple[str, str]]:
    """Pairs from the lines `part` of a text: an empty source and a segment, or the two halves of a segment."""
    for segment in split(islice(lines, part.start, part.stop), size):
        yield halve(segment) if in_halves else ("", segment)


def count_head(lines: Iterable[str]) -> int:
    """The number of lines before the last tenth of a text; of several lines, at least one is in the tail."""
    sizes = array("L", (len(line) + 1 for line in lines))
    rest, before = TAIL * sum(sizes), len(sizes)
    while before > 1 and rest > 0:
        before -= 1
        rest -= sizes[before]
    return before
