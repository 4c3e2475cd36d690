"""Rules for single sentence pairs, applied to thousands at a time: tidy text, the reason why a pair is unfit, hashes.

Everything is computed on blocks of lines with numpy, in a few nanoseconds per character.  Two pairs are duplicates if
their tidy texts are equal; near duplicates if they are equal after case folding, with digits made 0 and punctuation and
white space removed.  Hashes have 64 bits: among a hundred million pairs the chance of any mistake is one in 4,000.

Shapes   P pairs of a block · C characters of a side
"""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from itertools import chain

import numpy as np

from jumok.text.boundaries import SPACE as WORD_MARK
from jumok.text.scripts import RANGES

EMPTY, COPY, SYMBOLS = "empty side", "source copied to target", "digits and symbols"
SCRIPT, DUPLICATE, NEAR, EXCLUDED = "wrong script", "duplicate", "near duplicate", "in a validation or test file"
HELD_OUT = "held out"  # such a pair is not unfit, it validates
UNFINISHED = "unfinished last line"  # of a table; it is no pair, so that it has no code
REASONS = ("", EMPTY, COPY, SYMBOLS, SCRIPT, EXCLUDED, DUPLICATE, NEAR, HELD_OUT)  # by code; 0 means fit
CODE = {reason: number for number, reason in enumerate(REASONS)}
LETTERS = 0.2  # least share of letters among visible characters; with fewer, a text is digits and symbols
BREAK = "\0"  # stands for a line break inside a text; texts have no NUL

NEWLINE, SPACE, OTHER, DIGIT = 0, 1, 2, 3  # OTHER: punctuation, symbols, control characters, unassigned
FIRST_SCRIPT = 4
SCRIPTS = (
    "Latin", "Greek", "Cyrillic", "Armenian", "Hebrew", "Arabic", "Syriac", "Thaana", "Devanagari", "Bengali",
    "Gurmukhi", "Gujarati", "Oriya", "Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala", "Thai", "Lao", "Tibetan",
    "Myanmar", "Georgian", "Hangul", "Ethiopic", "Cherokee", "Khmer", "Mongolian", "East Asian", "another script",
)  # fmt: skip
_JOINED = {"East Asian": ("Han", "Kana", "Bopomofo")}
_ASSIGNED = (range(0x32400), range(0xE0000, 0xE0200))  # outside, there are no letters, digits or spaces

_MIX = tuple(map(np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)))
_SHIFT = tuple(map(np.uint64, (32, 29, 21)))


@dataclass(frozen=True)
class ExaminedSide:
    """One side of a block: its tidy text, one sentence per line, and the properties of each line."""

    content: np.ndarray  # (bytes,) UTF-8, every line ended by a line feed
    begins: np.ndarray  # (P + 1,) start of each line in bytes
    near: np.ndarray  # (P,) hash of the text without case, digits, punctuation and spaces
    exact: np.ndarray  # (P,) hash that separates texts with the same `near`
    empty: np.ndarray  # (P,) whether the line is only white space
    symbols: np.ndarray  # (P,) whether the line has too few letters
    script: np.ndarray  # (P,) script of more than half of the letters, from 1; 0 if there is none
    characters: np.ndarray  # (P,)

    def lines(self, rows: np.ndarray) -> bytes:
        """The chosen lines, each ended by a line feed."""
        chosen = np.zeros(len(self.begins) - 1, bool)
        chosen[rows] = True
        return bytes(self.content[np.repeat(chosen, np.diff(self.begins))].tobytes())


Exclusion = Callable[[ExaminedSide, ExaminedSide], np.ndarray]  # source and target to (P,) booleans


def compose(text: str) -> str:
    """The text in Unicode NFC, without the mark that SentencePiece puts before words."""
    if text.isascii():
        return text
    if not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
    return text.replace(WORD_MARK, " ")


def _tidy(text: str, untidy: np.ndarray) -> str:
    """The text in which the lines `untidy` have single spaces between words, and none around them."""
    if not len(untidy):
        return text
    lines = text.split("\n")
    for row in untidy.tolist():
        lines[row] = " ".join(lines[row].split())
    return "\n".join(lines)


def _find_untidy(folded: np.ndarray, kind: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Lines with white space that is not a single space between two words."""
    space = kind == SPACE
    wrong = space & (folded != 32)
    wrong[1:] |= space[1:] & (space[:-1] | (kind[:-1] == NEWLINE))
    wrong[:-1] |= space[:-1] & (kind[1:] == NEWLINE)
    wrong[:1] |= space[:1]
    return np.unique(np.searchsorted(stops, np.flatnonzero(wrong)))


def examine(text: str, *, as_is: bool = False) -> ExaminedSide:
    """Tidy the lines of one side and compute their properties; `as_is` leaves the text unchanged."""
    text = text if as_is else compose(text)
    folded = np.frombuffer(text.casefold().encode("utf-32-le"), np.uint32)  # (C,)
    kind = kinds()[folded]  # (C,)
    stops = np.flatnonzero(kind == NEWLINE)
    starts = np.concatenate([[0], stops[:-1] + 1])
    text = text if as_is else _tidy(text, _find_untidy(folded, kind, starts, stops))
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
    return ExaminedSide(
        content=content, begins=begins, near=_hash_near(folded, kind, starts, stops),
        exact=_hash_exact(content, begins), empty=visible == 0, symbols=words < LETTERS * visible, script=script,
        characters=stops - starts,
    )  # fmt: skip


def _hash_near(folded: np.ndarray, kind: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """A sum over letters and digits, each mixed with its position among them."""
    counts = kind >= DIGIT
    before = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    first, last = before[starts], before[stops]
    code = folded[counts].astype(np.uint64)
    code[kind[counts] == DIGIT] = ord("0")
    position = np.arange(len(code), dtype=np.uint64) - np.repeat(first, last - first).astype(np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mix(code | position << _SHIFT[2]), dtype=np.uint64)])
    return mix(sums[last] - sums[first] + (last - first).astype(np.uint64))


def _hash_exact(content: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """A sum over the bytes, each times a random number for its position."""
    lengths = np.diff(begins)
    position = np.arange(len(content), dtype=np.uint64) - np.repeat(begins[:-1], lengths).astype(np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(content * mix(position), dtype=np.uint64)])
    return (mix(sums[begins[1:]] - sums[begins[:-1]]) >> _SHIFT[0]).astype(np.uint32)


def mix(values: np.ndarray) -> np.ndarray:
    """Pseudo-random numbers, different for different values (splitmix64)."""
    mixed = values * _MIX[0] + _MIX[2]
    mixed ^= mixed >> _SHIFT[0]
    mixed *= _MIX[1]
    mixed ^= mixed >> _SHIFT[1]
    return mixed


@dataclass(frozen=True)
class Rules:
    """Rules by which single pairs are left out; `as_is` means that texts are not tidied."""

    copies: bool = True
    symbols: bool = True
    as_is: bool = False
    alone: bool = False  # the source may be empty: a text for a language model


@dataclass(frozen=True)
class Sifted:
    """A block of pairs after the rules: a code for every pair, and the texts and properties of the fit ones.

    All arrays but `reasons` have one entry per fit pair, in order; `rows` are their rows in the block.
    """

    reasons: np.ndarray  # (P,) codes
    rows: np.ndarray
    near: np.ndarray
    exact: np.ndarray
    scripts: np.ndarray  # (fit, 2)
    characters: np.ndarray
    source: bytes
    target: bytes


def sift(source: str, target: str, rules: Rules, excluded: Exclusion | None = None) -> Sifted:
    """Apply the rules to a block of pairs, lines ended by line feeds; `excluded` marks pairs that must not train."""
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


def _equal(first: ExaminedSide, second: ExaminedSide) -> np.ndarray:
    """Whether source and target are the same text."""
    same: np.ndarray = (first.near == second.near) & (first.exact == second.exact)
    for row in np.flatnonzero(same).tolist():
        ours, theirs = (side.content[side.begins[row] : side.begins[row + 1]] for side in (first, second))
        same[row] = np.array_equal(ours, theirs)
    return same


def hold_out_digests(sources: Sequence[str]) -> np.ndarray:
    """A number for each tidy sentence that decides whether its pair is held out; duplicates have the same one."""
    digests = b"".join([blake2b(source.lower().encode(), digest_size=8).digest() for source in sources])
    return np.frombuffer(digests, ">u8").astype(np.uint64)


def mix_pair(source: ExaminedSide, target: ExaminedSide) -> np.ndarray:
    """The hashes by which near duplicates are recognised."""
    return mix(source.near * _MIX[2] + target.near)


@cache
def kinds() -> np.ndarray:
    """The kind of every Unicode code point, one byte each: letters by script, digits, spaces, others.

    Scripts that are written together count as one: Chinese characters and kana are both "East Asian", because Japanese
    mixes them.
    """
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
