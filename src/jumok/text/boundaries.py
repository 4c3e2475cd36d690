"""Where words begin and end in a text, and whether it says one."""

import re
from collections.abc import Sequence

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


def words_of(pieces: Sequence[str]) -> list[int]:
    """The word (counted by spaces) each subword belongs to; -1 for a symbol such as </s> and for spaces at the end."""
    word, words, begun = -1, list[int](), False  # begun: there have been spaces, and nothing of the word yet
    for piece in pieces:
        if piece in ("<s>", "</s>"):
            words.append(-1)
            continue
        word += not begun and (piece.startswith(SPACE) or word < 0)
        begun = not piece.strip(SPACE)
        words.append(word)
    for place in range(len(words) - 1, -1, -1):
        if pieces[place].strip(SPACE) and words[place] >= 0:
            break
        words[place] = -1
    return words
