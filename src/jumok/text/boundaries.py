"""Where words begin and end in a text, and what it means that a text contains a word.

Words end where a letter or digit does not follow another.  Both rules below are used by every engine, through the
automata of automata.py:

- **Forbidden** words are those that stand in the text as whole words, alone or with Korean particles: where 사과 is
  forbidden, so is 사과를, because a particle is a word of its own.  Where "art" is forbidden, "party" and "arts" are
  not.
- **Required** phrases may also take an inflectional ending: "Haus" is contained in "des Hauses" and 사과 in 사과를, but
  "Haus" not in "Haustür".  After the ending the word ends.

The particles and endings are listed in endings.py.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from jumok.text.endings import INFLECTIONS, KOREAN, STACKED

SPACE = "\u2581"  # SentencePiece's mark for a space: a subword that starts with it begins a word
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
