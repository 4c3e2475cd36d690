"""Scripts: the blocks of Unicode that each is written with, and which script a character belongs to.

A block may contain characters that are not letters; callers that need letters check the category as well.
"""

from bisect import bisect_right
from functools import lru_cache

RANGES = {  # first and last code point of the blocks of a script
    "Latin": [(0x41, 0x24F), (0x250, 0x2AF), (0x1D00, 0x1DBF), (0x1E00, 0x1EFF), (0x2C60, 0x2C7F), (0xA720, 0xA7FF),
              (0xAB30, 0xAB6F), (0xFB00, 0xFB06), (0xFF21, 0xFF5A)],
    "Greek": [(0x370, 0x3FF), (0x1F00, 0x1FFF)],
    "Cyrillic": [(0x400, 0x52F), (0x1C80, 0x1C8F), (0x2DE0, 0x2DFF), (0xA640, 0xA69F)],
    "Armenian": [(0x530, 0x58F), (0xFB13, 0xFB17)],
    "Hebrew": [(0x590, 0x5FF), (0xFB1D, 0xFB4F)],
    "Arabic": [(0x600, 0x6FF), (0x750, 0x77F), (0x870, 0x8FF), (0xFB50, 0xFDFF), (0xFE70, 0xFEFF)],
    "Syriac": [(0x700, 0x74F), (0x860, 0x86F)],
    "Thaana": [(0x780, 0x7BF)],
    "Devanagari": [(0x900, 0x97F), (0xA8E0, 0xA8FF)],
    "Bengali": [(0x980, 0x9FF)],
    "Gurmukhi": [(0xA00, 0xA7F)],
    "Gujarati": [(0xA80, 0xAFF)],
    "Oriya": [(0xB00, 0xB7F)],
    "Tamil": [(0xB80, 0xBFF)],
    "Telugu": [(0xC00, 0xC7F)],
    "Kannada": [(0xC80, 0xCFF)],
    "Malayalam": [(0xD00, 0xD7F)],
    "Sinhala": [(0xD80, 0xDFF)],
    "Thai": [(0xE00, 0xE7F)],
    "Lao": [(0xE80, 0xEFF)],
    "Tibetan": [(0xF00, 0xFFF)],
    "Myanmar": [(0x1000, 0x109F), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F)],
    "Georgian": [(0x10A0, 0x10FF), (0x1C90, 0x1CBF), (0x2D00, 0x2D2F)],
    "Hangul": [(0x1100, 0x11FF), (0x3130, 0x318F), (0xA960, 0xA97F), (0xAC00, 0xD7FF), (0xFFA0, 0xFFDC)],
    "Ethiopic": [(0x1200, 0x139F), (0x2D80, 0x2DDF), (0xAB00, 0xAB2F)],
    "Cherokee": [(0x13A0, 0x13FF), (0xAB70, 0xABBF)],
    "Khmer": [(0x1780, 0x17FF), (0x19E0, 0x19FF)],
    "Mongolian": [(0x1800, 0x18AF)],
    "Han": [(0x2E80, 0x2FDF), (0x3005, 0x3007), (0x3021, 0x3030), (0x3036, 0x303F), (0x3400, 0x4DBF), (0x4E00, 0x9FFF),
            (0xF900, 0xFAFF), (0x20000, 0x323AF)],
    "Kana": [(0x3031, 0x3035), (0x3040, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9F), (0x1B000, 0x1B16F)],
    "Bopomofo": [(0x3100, 0x312F), (0x31A0, 0x31BF)],
}  # fmt: skip
CODES = {  # ISO 15924 codes, as in tags
    "Latn": "Latin", "Grek": "Greek", "Cyrl": "Cyrillic", "Armn": "Armenian", "Hebr": "Hebrew", "Arab": "Arabic",
    "Syrc": "Syriac", "Thaa": "Thaana", "Deva": "Devanagari", "Beng": "Bengali", "Guru": "Gurmukhi", "Gujr": "Gujarati",
    "Orya": "Oriya", "Taml": "Tamil", "Telu": "Telugu", "Knda": "Kannada", "Mlym": "Malayalam", "Sinh": "Sinhala",
    "Thai": "Thai", "Laoo": "Lao", "Tibt": "Tibetan", "Mymr": "Myanmar", "Geor": "Georgian", "Hang": "Hangul",
    "Kore": "Hangul", "Ethi": "Ethiopic", "Cher": "Cherokee", "Khmr": "Khmer", "Mong": "Mongolian", "Hani": "Han",
    "Hans": "Han", "Hant": "Han", "Jpan": "Kana", "Bopo": "Bopomofo",
}  # fmt: skip
_BLOCKS = sorted((first, last, script) for script, blocks in RANGES.items() for first, last in blocks)
_FIRST = [first for first, _, _ in _BLOCKS]


@lru_cache(maxsize=8_192)
def script_of(character: str) -> str | None:
    """Return the script of a letter; None for a character that is not a letter, or a letter of another script."""
    if not character.isalpha():
        return None
    _, last, script = _BLOCKS[max(0, bisect_right(_FIRST, ord(character)) - 1)]
    return script if _FIRST[0] <= ord(character) <= last else None
