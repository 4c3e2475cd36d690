"""Which words a training text had: a sorted list of 32-bit hashes, small enough to be part of a model.

    content = pack_words(["A", "man", …])                      # 4 bytes per word, in `known.bin` of a bundle
    KnownWords(content).find_unknown("A mann rides")           # [(2, 6)]

Words are compared without case.  An unknown word is taken for a known one with a probability of one in four billion
for each word of the list.
"""

import re
import sys
import unicodedata
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from zlib import crc32

FILE = "known.bin"
WORD = re.compile(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*")  # letters, also around apostrophes and hyphens; no numbers
MOST = 2_000_000  # words of a list


def hash_word(word: str) -> int:
    """Return the hash of a word, whatever its case."""
    return crc32(unicodedata.normalize("NFC", word).casefold().encode("utf-8", "replace"))


def hash_words(texts: Iterable[str]) -> set[int]:
    """Return the hashes of all words of texts."""
    return {hash_word(match[0]) for text in texts for match in WORD.finditer(text)}


def pack_words(hashes: Iterable[int]) -> bytes:
    """Return the list of words with these hashes as bytes."""
    packed = array("I", sorted(set(hashes)))
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


class KnownWords:
    """The words of a training text."""

    def __init__(self, content: bytes) -> None:
        self.hashes = array("I")
        self.hashes.frombytes(content[: len(content) // 4 * 4])
        if sys.byteorder == "big":
            self.hashes.byteswap()

    def __len__(self) -> int:
        return len(self.hashes)

    def __contains__(self, word: str) -> bool:
        value = hash_word(word)
        place = bisect_left(self.hashes, value)
        return place < len(self.hashes) and self.hashes[place] == value

    def find_unknown(self, text: str) -> list[tuple[int, int]]:
        """Return where the words of a text are that the training text did not have."""
        return [match.span() for match in WORD.finditer(text) if match[0] not in self]
