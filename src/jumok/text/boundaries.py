"""Where words begin and end in a text, and whether it contains a word."""

import re
from collections.abc import Sequence

SPACE = "\u2581"  # SentencePiece's mark for a space: a subword that starts with it begins a word


def is_boundary(before: str, after: str) -> bool:
    """Whether a word ends between two characters."""
    return not (before.isalnum() and after.isalnum())


def is_whole_word(text: str, start: int, stop: int) -> bool:
    """Whether `text[start:stop]` begins and ends at boundaries of words."""
    left = start == 0 or is_boundary(text[start - 1], text[start])
    return left and (stop == len(text) or is_boundary(text[stop - 1], text[stop]))


def contains_word(text: str, word: str) -> bool:
    """Whether a text contains a word, or several in a row, as whole words."""
    return any(is_whole_word(text, *match.span()) for match in re.finditer(re.escape(word), text))


def words_of(pieces: Sequence[str]) -> list[int]:
    """The word (counted by spaces) each subword belongs to; -1 for a symbol such as </s> and for spaces at the end."""
    word, words, begun = -1, list[int](), False  # begun: there have been spaces, but no character of the word yet
    for piece in pieces:
        if piece in ("<s>", "</s>"):
            words.append(-1)
            continue
        word += not begun and (piece.startswith(SPACE) or word < 0)
        begun = not piece.strip(SPACE)
        words.append(word)
    for position in range(len(words) - 1, -1, -1):
        if pieces[position].strip(SPACE) and words[position] >= 0:
            break
        words[position] = -1
    return words
