"""Where words begin and end in a text, and whether it says one."""

import re

SPACE = "\u2581"  # SentencePiece's mark for a space: a subword that has it begins a word


def parts(before: str, after: str) -> bool:
    """Whether a word ends between two characters."""
    return not (before.isalnum() and after.isalnum())


def alone(text: str, start: int, stop: int) -> bool:
    """Whether a stretch of text stands between ends of words."""
    left = start == 0 or parts(text[start - 1], text[start])
    return left and (stop == len(text) or parts(text[stop - 1], text[stop]))


def says(text: str, word: str) -> bool:
    """Whether a text has a word (or several, as they stand) in it."""
    return any(alone(text, *match.span()) for match in re.finditer(re.escape(word), text))
