"""The kind of every Unicode code point, as a table: letters by script, digits, spaces, others.

The table has one byte per code point; the blocks of each script are in text/scripts.py.  Scripts that are written
together count as one: Chinese characters and kana are both "East Asian", because Japanese mixes them.
"""

import unicodedata
from functools import cache
from itertools import chain

import numpy as np

from jumok.text.scripts import RANGES

NEWLINE, SPACE, OTHER, DIGIT = 0, 1, 2, 3  # OTHER: punctuation, symbols, control characters, unassigned
FIRST_SCRIPT = 4
SCRIPTS = (
    "Latin", "Greek", "Cyrillic", "Armenian", "Hebrew", "Arabic", "Syriac", "Thaana", "Devanagari", "Bengali",
    "Gurmukhi", "Gujarati", "Oriya", "Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala", "Thai", "Lao", "Tibetan",
    "Myanmar", "Georgian", "Hangul", "Ethiopic", "Cherokee", "Khmer", "Mongolian", "East Asian", "another script",
)  # fmt: skip
_JOINED = {"East Asian": ("Han", "Kana", "Bopomofo")}
_ASSIGNED = (range(0x32400), range(0xE0000, 0xE0200))  # outside, there are no letters, digits or spaces


@cache
def kinds() -> np.ndarray:
    """The kind of every code point."""
    table = np.full(0x110000, OTHER, np.uint8)
    letters, digits, spaces = [], [], []
    for code in chain(*_ASSIGNED):
        category = unicodedata.category(chr(code))
        if category[0] in "LM":
            letters.append(code)
        elif category[0] == "N":
            digits.append(code)
        elif chr(code).isspace():
            spaces.append(code)
    table[letters] = FIRST_SCRIPT + len(SCRIPTS) - 1
    is_letter = np.zeros(0x110000, bool)
    is_letter[letters] = True
    for number, script in enumerate(SCRIPTS[:-1]):
        for first, last in chain(*(RANGES[part] for part in _JOINED.get(script, (script,)))):
            part = slice(first, last + 1)
            table[part][is_letter[part]] = FIRST_SCRIPT + number
    table[digits], table[spaces] = DIGIT, SPACE
    table[ord("\n")] = NEWLINE
    return table
