"""Where words begin and end in a text, and what it means that a text contains a word.

Words end where a letter or digit does not follow another.  Both rules below are used by every engine, through the
automata of automata.py:

- **Forbidden** words are those that stand in the text as whole words, alone or with Korean particles: where 사과 is
  forbidden, so is 사과를, because a particle is a word of its own.  Where "art" is forbidden, "party" and "arts" are
  not.
- **Required** phrases may also take an inflectional ending: "Haus" is contained in "des Hauses" and 사과 in 사과를, but
  "Haus" not in "Haustür".  After the ending the word ends.

The particles and endings are listed in endings.py.

What can be **aligned** with another text are its units: words between spaces, and in a text that is written without
spaces the characters of such words.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

from jumok.text.endings import INFLECTIONS, KOREAN, STACKED

SPACE = "\u2581"  # SentencePiece's mark for a space: a subword that starts with it begins a word
SPACES = re.compile(r"[\s\u2581]+")
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff]"
)  # Thai, Lao, Myanmar, Khmer, kana, Han
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")  # a byte of a character that is not in the vocabulary
_LETTER = r"[^\W_]"  # what str.isalnum accepts


def is_boundary(before: str, after: str) -> bool:
    """Whether a word ends between two characters."""
    return not (before.isalnum() and after.isalnum())


def list_endings(last: str) -> tuple[str, ...]:
    """Return the inflectional endings that a word with this last character may take, besides particles."""
    return INFLECTIONS if unicodedata.name(last[-1:] or " ", "").startswith("LATIN ") else ()


def contains_word(text: str, word: str) -> bool:
    """Whether a text contains a word, or several in a row, as whole words; Korean particles may follow."""
    return _find(word, ()).search(text) is not None


def contains_phrase(text: str, phrase: str) -> bool:
    """Whether a text contains a phrase as a required one: its last word may have an ending."""
    return _find(phrase, list_endings(phrase)).search(text) is not None


@lru_cache(maxsize=256)
def _find(phrase: str, endings: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of a phrase as whole words, whose last one may be followed by particles or endings."""
    before = f"(?<!{_LETTER})" if phrase[:1].isalnum() else ""
    if not phrase[-1:].isalnum():
        return re.compile(before + re.escape(phrase))
    attached = f"(?:{'|'.join(KOREAN)}){{0,{STACKED}}}" + (f"|(?:{'|'.join(endings)})" if endings else "")
    return re.compile(f"{before}{re.escape(phrase)}(?:{attached})(?!{_LETTER})")


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


def is_unspaced(text: str) -> bool:
    """Whether half or more of a text is in a script that is written without spaces between words."""
    return not text.isascii() and 2 * len(UNSPACED.findall(text)) >= len(SPACES.sub("", text)) > 0


def split_units(text: str) -> list[tuple[str, str]]:
    """Return what can be aligned, each with the space before it: words; characters of a text without spaces."""
    by_character, units = is_unspaced(text), list[tuple[str, str]]()
    for number, word in enumerate(SPACES.sub(" ", text).strip().split(" ") if text.strip() else []):
        space = " " if number else ""
        if by_character and UNSPACED.search(word):
            units += [(space if place == 0 else "", character) for place, character in enumerate(word)]
        else:
            units.append((space, word))
    return units


def units_of(pieces: Sequence[str]) -> list[tuple[int, int]]:
    """The units that each subword belongs to, as first and last + 1; equal for a symbol such as </s>.

    They are counted as `split_units` counts those of the decoded text.
    """
    characters = list(_spell(pieces))
    text = "".join(character for character, _, _ in characters)
    if not is_unspaced(text):
        return [(max(word, 0), word + 1) for word in words_of(pieces)]
    owners = [(first, last) for character, first, last in characters if not SPACES.match(character)]
    ranges, position, number = [(0, 0)] * len(pieces), 0, 0
    for _, unit in split_units(text):
        for first, last in owners[position : position + len(unit)]:
            for piece in range(first, last):
                start, stop = ranges[piece]
                ranges[piece] = (start if start < stop else number, number + 1)
        position, number = position + len(unit), number + 1
    return ranges


def _spell(pieces: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yield the characters of subwords, each with the first subword and the last + 1 that it is in."""
    number = 0
    while number < len(pieces):
        stop = number
        while stop < len(pieces) and _BYTE.fullmatch(pieces[stop]):
            stop += 1
        if stop > number:
            values = bytes(int(piece[3:5], 16) for piece in pieces[number:stop])
            start = number
            for character in values.decode(errors="replace"):
                size = min(stop - start, len(character.encode()) if character != "\ufffd" else 1)
                yield character, start, start + size
                start += size
            number = stop
            continue
        if pieces[number] not in ("<s>", "</s>"):
            for character in pieces[number]:
                yield " " if character == SPACE else character, number, number + 1
        number += 1
