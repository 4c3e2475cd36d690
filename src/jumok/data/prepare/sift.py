"""What can be said of sentence pairs one by one, thousands at a time: tidy text, why a pair is unfit, and its hashes.

Everything is computed on whole blocks of lines with numpy, a few nanoseconds a character.  Two pairs are duplicates if
their tidy texts are equal; near duplicates if they are equal after case folding, with digits made 0 and punctuation and
white space removed.  Hashes have 64 bits: among a hundred million pairs the chance of any mistake is one in 4,000.

Shapes   P pairs of a block · C characters of a side
"""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from jumok.data.prepare.characters import DIGIT, FIRST_SCRIPT, NEWLINE, OTHER, SPACE, kinds
from jumok.text.boundaries import SPACE as WORD_MARK

EMPTY, COPY, SYMBOLS = "empty side", "source copied to target", "digits and symbols"
SCRIPT, DUPLICATE, NEAR, EXCLUDED = "wrong script", "duplicate", "near duplicate", "in a validation or test file"
HELD_OUT = "held out"  # not unfit: it validates
REASONS = ("", EMPTY, COPY, SYMBOLS, SCRIPT, EXCLUDED, DUPLICATE, NEAR, HELD_OUT)  # by number; 0 is fit
CODE = {reason: number for number, reason in enumerate(REASONS)}
LETTERS = 0.2  # of the characters that are no spaces; with fewer, a text is digits and symbols
BREAK = "\0"  # stands for a line break inside a text; no text has a NUL

_MIX = tuple(map(np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)))
_SHIFT = tuple(map(np.uint64, (32, 29, 21)))


@dataclass(frozen=True)
class Side:
    """One language of a block: its tidy text, a line each, and what is known of each line."""

    content: np.ndarray  # (bytes,) UTF-8, every line ended by a line feed
    begins: np.ndarray  # (P + 1,) where each line begins
    near: np.ndarray  # (P,) hash of the text without case, digits, punctuation and spaces
    exact: np.ndarray  # (P,) hash that tells apart texts with the same `near`
    empty: np.ndarray  # (P,) nothing but white space
    symbols: np.ndarray  # (P,) too few letters
    script: np.ndarray  # (P,) that of more than half of the letters, from 1; 0 if there is none
    characters: np.ndarray  # (P,)

    def lines(self, rows: np.ndarray) -> bytes:
        """The chosen lines, each ended by a line feed."""
        chosen = np.zeros(len(self.begins) - 1, bool)
        chosen[rows] = True
        return bytes(self.content[np.repeat(chosen, np.diff(self.begins))].tobytes())


def compose(text: str) -> str:
    """The text in Unicode NFC, without the mark that SentencePiece puts before words."""
    if text.isascii():
        return text
    if not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
    return text.replace(WORD_MARK, " ")


def _tidy(text: str, untidy: np.ndarray) -> str:
    """The text with single spaces between the words of the given lines, and none around them."""
    if not len(untidy):
        return text
    lines = text.split("\n")
    for row in untidy.tolist():
        lines[row] = " ".join(lines[row].split())
    return "\n".join(lines)


def _untidy(folded: np.ndarray, kind: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Lines with white space that is not a single space between two words."""
    space = kind == SPACE
    wrong = space & (folded != 32)
    wrong[1:] |= space[1:] & (space[:-1] | (kind[:-1] == NEWLINE))
    wrong[:-1] |= space[:-1] & (kind[1:] == NEWLINE)
    wrong[:1] |= space[:1]
    return np.unique(np.searchsorted(stops, np.flatnonzero(wrong)))


def examine(text: str, *, as_is: bool = False) -> Side:
    """Everything that is known of the lines of one side; `as_is` leaves the text untouched."""
    text = text if as_is else compose(text)
    folded = np.frombuffer(text.casefold().encode("utf-32-le"), np.uint32)  # (C,)
    kind = kinds()[folded]  # (C,)
    stops = np.flatnonzero(kind == NEWLINE)
    starts = np.concatenate([[0], stops[:-1] + 1])
    text = text if as_is else _tidy(text, _untidy(folded, kind, starts, stops))
    content = np.frombuffer(text.encode(), np.uint8)
    begins = np.concatenate([[0], np.flatnonzero(content == 10) + 1])

    def count(chosen: np.ndarray) -> np.ndarray:
        sums = np.concatenate([[0], np.cumsum(chosen, dtype=np.int32)])
        counts: np.ndarray = sums[stops] - sums[starts]
        return counts

    words = count(kind >= FIRST_SCRIPT)
    visible = words + count((kind == OTHER) | (kind == DIGIT))
    script = np.zeros(len(stops), np.uint8)
    present = np.flatnonzero(np.bincount(kind, minlength=FIRST_SCRIPT)[FIRST_SCRIPT:])
    for number in present:
        most = 2 * (words if len(present) == 1 else count(kind == FIRST_SCRIPT + number)) > words
        script[most] = number + 1
    return Side(
        content=content, begins=begins, near=_hash_near(folded, kind, starts, stops),
        exact=_hash_exact(content, begins), empty=visible == 0, symbols=words < LETTERS * visible, script=script,
        characters=stops - starts,
    )  # fmt: skip


def _hash_near(folded: np.ndarray, kind: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """A sum over the characters that count, each mixed with its place among them."""
    counts = kind >= DIGIT
    before = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    first, last = before[starts], before[stops]
    code = folded[counts].astype(np.uint64)
    code[kind[counts] == DIGIT] = ord("0")
    place = np.arange(len(code), dtype=np.uint64) - np.repeat(first, last - first).astype(np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mix(code | place << _SHIFT[2]), dtype=np.uint64)])
    return mix(sums[last] - sums[first] + (last - first).astype(np.uint64))


def _hash_exact(content: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """A sum over the bytes, each times a random number for its place."""
    lengths = np.diff(begins)
    place = np.arange(len(content), dtype=np.uint64) - np.repeat(begins[:-1], lengths).astype(np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(content * mix(place), dtype=np.uint64)])
    return (mix(sums[begins[1:]] - sums[begins[:-1]]) >> _SHIFT[0]).astype(np.uint32)


def mix(values: np.ndarray) -> np.ndarray:
    """Numbers that look random, different for different values (splitmix64)."""
    mixed = values * _MIX[0] + _MIX[2]
    mixed ^= mixed >> _SHIFT[0]
    mixed *= _MIX[1]
    mixed ^= mixed >> _SHIFT[1]
    return mixed


@dataclass(frozen=True)
class Rules:
    """Which pairs are left out by what they are themselves; `as_is` means that no text is touched and nothing is."""

    copies: bool = True
    symbols: bool = True
    as_is: bool = False
    alone: bool = False  # the source may be empty: texts that are learnt themselves


@dataclass(frozen=True)
class Sifted:
    """A block of pairs after the rules: the code of the reason for every pair, and what is known of those that are fit.

    All arrays but `reasons` have a row for each fit pair, in order; `rows` says which of the block they are.
    """

    reasons: np.ndarray  # (P,) codes
    rows: np.ndarray
    near: np.ndarray
    exact: np.ndarray
    scripts: np.ndarray  # (fit, 2)
    characters: np.ndarray
    source: bytes
    target: bytes


def sift(source: str, target: str, rules: Rules, excluded: Callable[[Side, Side], np.ndarray] | None = None) -> Sifted:
    """Apply the rules to a block of pairs, lines ended by line feeds; `excluded` tells pairs that other files have."""
    sides = examine(source, as_is=rules.as_is), examine(target, as_is=rules.as_is)
    first, second = sides
    reasons = np.zeros(len(first.near), np.uint8)

    def leave_out(chosen: np.ndarray, reason: str) -> None:
        reasons[(reasons == 0) & chosen] = CODE[reason]

    leave_out(second.empty if rules.alone else first.empty | second.empty, EMPTY)
    if rules.copies:
        leave_out(_equal(first, second), COPY)
    if rules.symbols:
        leave_out(first.symbols | second.symbols, SYMBOLS)
    if excluded is not None:
        leave_out(excluded(first, second), EXCLUDED)
    rows = np.flatnonzero(reasons == 0)
    return Sifted(
        reasons=reasons, rows=rows, near=mix_pair(first, second)[rows],
        exact=(first.exact * np.uint32(0x9E3779B1) + second.exact)[rows],
        scripts=np.stack([first.script, second.script], axis=1)[rows],
        characters=(first.characters + second.characters)[rows].astype(np.uint32),
        source=first.lines(rows), target=second.lines(rows),
    )  # fmt: skip


def _equal(first: Side, second: Side) -> np.ndarray:
    """Whether source and target are the same text."""
    alike: np.ndarray = (first.near == second.near) & (first.exact == second.exact)
    for row in np.flatnonzero(alike).tolist():
        ours, theirs = (side.content[side.begins[row] : side.begins[row + 1]] for side in (first, second))
        alike[row] = np.array_equal(ours, theirs)
    return alike


def hold_out_digests(sources: Sequence[str]) -> np.ndarray:
    """A number for each tidy sentence that decides whether its pair validates: duplicates have the same."""
    found = b"".join([blake2b(source.lower().encode(), digest_size=8).digest() for source in sources])
    return np.frombuffer(found, ">u8").astype(np.uint64)


def mix_pair(source: Side, target: Side) -> np.ndarray:
    """The hashes by which near duplicates are found."""
    return mix(source.near * _MIX[2] + target.near)
