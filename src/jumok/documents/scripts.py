"""Characters by their role in a line: punctuation that hugs a word, and scripts that are written without spaces."""

import re
import unicodedata

OBJECT = "\ufffc"  # stands for a mark in the text that sentences are found in
SPACES = re.compile(r"[\s\u2581]+")  # U+2581 is a space to a vocabulary
CLOSING = frozenset(".,;:!?…%)]}»›”’。，、！？；：）】」』》〉؟،؛।")
OPENING = frozenset("([{¿¡«‹“‘„‚（【「『《〈")
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff]"
)  # Thai, Lao, Myanmar, Khmer, kana, Han


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


def is_unspaced(text: str) -> bool:
    """Whether half or more of a text is in a script that is written without spaces between words."""
    return 2 * len(UNSPACED.findall(text)) >= len(SPACES.sub("", text)) > 0


def has_letters(text: str) -> bool:
    """Whether there is anything to translate in a text."""
    return any(map(str.isalpha, text))
