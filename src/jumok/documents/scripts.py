"""Characters by their role in a line: punctuation that hugs a word, marks, letters."""

import unicodedata

OBJECT = "\ufffc"  # stands for a mark in the text that sentences are found in
CLOSING = frozenset(".,;:!?…%)]}»›”’。，、！？；：）】」』》〉؟،؛।")
OPENING = frozenset("([{¿¡«‹“‘„‚（【「『《〈")


def is_punctuation(character: str) -> bool:
    """Whether a character is punctuation."""
    return unicodedata.category(character)[0] == "P"


def find_core(word: str) -> tuple[int, int]:
    """Return where a word begins and ends without the punctuation around it; both at its end if it is nothing else."""
    start, stop = 0, len(word)
    while start < stop and is_punctuation(word[start]):
        start += 1
    if start == stop:
        return stop, stop
    while is_punctuation(word[stop - 1]):
        stop -= 1
    return start, stop


def has_letters(text: str) -> bool:
    """Whether there is anything to translate in a text."""
    return any(map(str.isalpha, text))
