"""The encoding of a file, which must be known before a file that is not plain UTF-8 can be repaired.

Contract: D1.  Reading (lines.py) accepts only UTF-8 without a mark; this module is for `--fix`.  It distinguishes what
is certain from what is guessed:

certain  a byte order mark; UTF-16 or UTF-32 without one, if in one order alone the whole file is assigned characters
         and its bytes 0x0A and 0x20 are line feeds and spaces
guessed  Latin-1, Windows-1252, CP949: no line beyond ASCII is UTF-8, and the decoded text looks like letters
Memory   one block, independent of the size of the file
"""

import codecs
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from jumok.text.faults import find_packing, is_mostly_nul, likely_encoding, read_mark
from jumok.text.files import BLOCK, LONGEST, UTF8_MARK, blocks, cut

CODECS = {  # name in iconv -> name in Python; Windows-1252 is Latin-1 with more letters
    "UTF-16LE": "utf-16-le",
    "UTF-16BE": "utf-16-be",
    "UTF-32LE": "utf-32-le",
    "UTF-32BE": "utf-32-be",
    "LATIN1": "cp1252",
    "WINDOWS-1252": "cp1252",
    "CP949": "cp949",
}
WIDE = ("UTF-32LE", "UTF-32BE", "UTF-16LE", "UTF-16BE")
SAMPLE = 1 << 16  # bytes of bad lines that a guess is based on
FEWEST = 3  # fewest letters beyond ASCII that a guess needs
USUAL = "“”„‘’–—…«»‹›¡¿°§"  # characters beyond ASCII, other than letters, that are common in such texts

# An undecodable byte becomes a surrogate, which is not valid UTF-8, so that its line is reported as a fault.
codecs.register_error("jumok.undecodable", lambda error: ("\udcff", getattr(error, "end", 0)))


@dataclass(frozen=True)
class Form:
    """The encoding of a file and its line ends."""

    encoding: str = "UTF-8"
    marked: bool = False  # begins with a byte order mark
    guessed: bool = False
    old_mac: bool = False  # lines end in CR alone


def examine(path: str | Path, *, block: int = BLOCK) -> Form:
    """The encoding of a file and its line ends; UTF-8 unless there is evidence of another encoding."""
    head = b"".join(islice(blocks(path, block), 1))
    if finding := find_packing(path, head):
        raise finding.error()
    encoding, guessed = read_mark(head), False
    has_mark = bool(encoding) or head.startswith(UTF8_MARK)
    if not has_mark and b"\0" in head:
        encoding = _detect_wide(path, head, block)
    if not encoding and not has_mark:
        encoding = _guess(path, block)
        guessed = bool(encoding)
    form = Form(encoding or "UTF-8", has_mark, guessed)
    return Form(form.encoding, form.marked, guessed, _is_old_mac(as_utf8(path, form, block=block)))


def as_utf8(path: str | Path, form: Form, *, block: int = BLOCK) -> Iterator[bytes]:
    """The bytes of a file as UTF-8 without a mark and with line feeds; undecodable bytes become invalid UTF-8."""
    parts = blocks(path, block) if form.encoding == "UTF-8" else _transcode(blocks(path, block), form.encoding)
    if form.marked:
        parts = chain((part.removeprefix(UTF8_MARK) for part in islice(parts, 1)), parts)
    return (part.replace(b"\r", b"\n") for part in parts) if form.old_mac else parts


def _transcode(parts: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(CODECS[encoding])("jumok.undecodable")
    for part in parts:
        yield decoder.decode(part).encode("utf-8", "surrogatepass")
    yield decoder.decode(b"", True).encode("utf-8", "surrogatepass")


def _is_old_mac(parts: Iterable[bytes]) -> bool:
    """Whether there is a CR but no line feed."""
    seen = False
    for part in parts:
        if b"\n" in part:
            return False
        seen = seen or b"\r" in part
    return seen


def _detect_wide(path: str | Path, head: bytes, block: int) -> str:
    """UTF-16 or UTF-32 without a mark, if the file is valid in exactly one of them, else ""."""
    if not is_mostly_nul(head) and is_utf8(head[: head.rfind(b"\n")]):
        return ""  # text with a few NUL in it
    fitting = [encoding for encoding in WIDE if _is_text(blocks(path, block), encoding)]
    return fitting[0] if len(fitting) == 1 else ""


def is_utf8(raw: bytes) -> bool:
    """Whether bytes are UTF-8, with NUL or without."""
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _is_text(parts: Iterable[bytes], encoding: str) -> bool:
    """Whether bytes decode to assigned characters only, with line feeds and spaces among them.

    ASCII decoded as UTF-16 gives assigned characters too, Chinese ones; but its bytes 0x0A and 0x20 are then not line
    feeds and spaces.
    """
    decoder = codecs.getincrementaldecoder(CODECS[encoding])()
    known = set("\t\n\r\ufeff")
    decoded_spaces = byte_spaces = 0
    try:
        for part in chain(parts, [b""]):
            text = decoder.decode(part, not part)
            new = set(text) - known
            if any(unicodedata.category(character) in ("Cc", "Cn", "Co", "Cs") for character in new):
                return False
            known |= new
            decoded_spaces += text.count("\n") + text.count(" ")
            byte_spaces += part.count(b"\n") + part.count(b" ")
    except UnicodeDecodeError:
        return False
    return 4 * decoded_spaces > byte_spaces


def _guess(path: str | Path, block: int) -> str:
    """The single-byte or Korean encoding of a file in which no line beyond ASCII is UTF-8, else ""."""
    sample, bad, good = b"", 0, 0
    for chunk in cut(blocks(path, block), LONGEST):
        lines = [] if chunk.raw.isascii() or chunk.cut else [raw for _, _, raw in chunk.lines() if not raw.isascii()]
        for raw in lines:
            if is_utf8(raw):
                good += 1
                continue
            bad += 1
            sample += raw + b"\n" if len(sample) < SAMPLE else b""
        if good > bad:
            return ""
    encoding = likely_encoding(sample) if bad else ""
    by_chance = bad // 100 if encoding == "CP949" else 0  # a line of one syllable may be UTF-8 by chance
    return encoding if encoding and good <= by_chance and _looks_like_letters(sample, encoding) else ""


def _looks_like_letters(sample: bytes, encoding: str) -> bool:
    """Whether the characters beyond ASCII are mostly letters and common punctuation, and more than a few."""
    beyond = [character for character in sample.decode(CODECS[encoding], "replace") if character > "\x7f"]
    usual = sum(character != "ÿ" and (character.isalpha() or character in USUAL) for character in beyond)
    return usual >= FEWEST and usual * 4 >= len(beyond) * 3
