"""Tokens as people read them: subwords with the word that each belongs to, bytes joined to characters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from jumok.reports.attention import display_piece
from jumok.text.boundaries import words_of
from jumok.text.symbols import SPECIALS
from jumok.text.vocabulary import Vocabulary

BYTE = re.compile(r"<0x([0-9A-F]{2})>")
OUTSIDE = "</s>"  # a piece that belongs to no word


def describe_tokens(vocabulary: Vocabulary, ids: Sequence[int]) -> list[dict[str, Any]]:
    """Each token: its id, its piece, its text, and the number of its word, -1 if it is in none."""
    pieces = vocabulary.pieces(ids)
    words = find_words(pieces, ids)
    texts = join_bytes(pieces)
    return [
        {"id": int(number), "piece": piece, "text": text, "word": word}
        for number, piece, text, word in zip(ids, pieces, texts, words, strict=True)
    ]


def find_words(pieces: Sequence[str], ids: Sequence[int]) -> list[int]:
    """The word of each piece, counted by spaces; -1 for symbols that are not text."""
    return words_of([OUTSIDE if number < SPECIALS else piece for piece, number in zip(pieces, ids, strict=True)])


def list_words(vocabulary: Vocabulary, ids: Sequence[int]) -> list[str]:
    """The words of a sentence, separated by spaces; in Korean these are eojeol."""
    members = find_words(vocabulary.pieces(ids), ids)
    groups: list[list[int]] = [[] for _ in range(max(members, default=-1) + 1)]
    for number, word in zip(ids, members, strict=True):
        if word >= 0:
            groups[word].append(int(number))
    return vocabulary.decode_all(groups)


def join_bytes(pieces: Sequence[str]) -> list[str]:
    """Pieces as text; the bytes of a character are that character at its first byte, and nothing at the others.

    >>> join_bytes(["▁a", "<0xEB>", "<0x8B>", "<0xA4>", "</s>"])
    ['a', '다', '', '', '⟨end⟩']
    """
    texts = [display_piece(piece).strip() or "␣" for piece in pieces]
    place = 0
    while place < len(pieces):
        if BYTE.fullmatch(pieces[place]) is None:
            place += 1
            continue
        stop = place
        while stop < len(pieces) and BYTE.fullmatch(pieces[stop]) is not None:
            stop += 1
        texts[place:stop] = _spread([int(piece[3:5], 16) for piece in pieces[place:stop]])
        place = stop
    return texts


def _spread(values: Sequence[int]) -> list[str]:
    """The characters that bytes are, each at its first byte; a byte that is part of none is U+FFFD."""
    texts, place = [""] * len(values), 0
    while place < len(values):
        for size in (1, 2, 3, 4):
            try:
                text = bytes(values[place : place + size]).decode()
            except UnicodeDecodeError:
                continue
            texts[place] = text if text.isprintable() and not text.isspace() else "␣"
            place += size
            break
        else:
            texts[place] = "\ufffd"
            place += 1
    return texts
