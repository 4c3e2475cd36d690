"""The approximate size of a training text, without reading it: from the beginning of some of its files.

    estimate_pairs(recipe.data)              pairs, 0 if unknown
    measure_corpus(corpus).pairs             the same for one corpus, with the bytes of its text

Of many files, some that are evenly spread are looked at, and the others count by their sizes.  Files at an address are
looked at where they have been fetched; otherwise, the server is asked for their sizes and beginnings.
"""

import lzma
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from jumok.config.sections import DataConfig
from jumok.data.corpora import Corpus
from jumok.data.prepare import folder
from jumok.data.resolve import PACKING, resolve_all
from jumok.errors import JumokError
from jumok.text.files import PACKED, Tally, blocks, must_be_file
from jumok.text.tables import is_columnar

SAMPLED = 1 << 20  # bytes of a file, as they are on disk, from which the length of its lines is estimated
UNPACKED = 1 << 24  # most bytes of text that are unpacked from a file
FILES = 16  # most files that are looked at
ROW = 150  # typical bytes of a pair in a Parquet or Arrow file


class Size(NamedTuple):
    """The approximate size of a text: pairs, bytes on disk and bytes of text."""

    pairs: int = 0
    stored: int = 0
    text: int = 0


class Sample(NamedTuple):
    """The beginning of a file: its lines, the bytes of text that they are, and the bytes that they take on disk."""

    lines: int
    text: int
    stored: int


def estimate_pairs(data: DataConfig, *, fetched: Path = Path("fetched")) -> int:
    """The approximate number of pairs that a data section names; 0 if it is unknown, or the text has no pairs."""
    if data.corpus is not None:
        return data.pairs
    try:
        if data.prepared is not None:
            summary = folder.read_summary(Path(data.prepared))
            return 0 if summary["is_text"] else int(summary["train"])
        trained, _ = resolve_all(data, seed=1, fetched=fetched)
        return sum(measure_corpus(corpus).pairs for corpus in trained if not corpus.is_text)
    except (JumokError, OSError, KeyError, TypeError, ValueError):  # reported when the text is read
        return 0


def measure_corpus(corpus: Corpus) -> Size:
    """The approximate size of a corpus of files; a file that is missing is an error."""
    if any(not os.path.exists(path) for path, _ in corpus.addresses):
        return _ask_servers(corpus)
    for path in corpus.files:
        must_be_file(path)  # reading from a pipe would block, and lose what was read
    sizes = {path: os.path.getsize(path) for path in corpus.files}
    smaller = [min(paths, key=sizes.__getitem__) for paths in corpus.inputs]
    chosen = _spread(smaller)
    samples = {path: _look(path) for path in chosen}
    whole = sum(sizes.values())
    lines = sum(sample.lines * sizes[path] / max(1, sample.stored) for path, sample in samples.items())
    looked, ratio = sum(sizes[path] for path in chosen), _ratio(list(samples.values()))
    pairs = lines * sum(sizes[path] for path in smaller) / max(1, looked)
    return Size(round(pairs), whole, round(whole * ratio))


def _spread(paths: Sequence[str]) -> list[str]:
    """All files, or some that are evenly spread over many."""
    number = min(FILES, len(paths))
    return [paths[index * len(paths) // number] for index in range(number)]


def _ratio(samples: Sequence[Sample]) -> float:
    """Bytes of text per byte on disk."""
    return sum(sample.text for sample in samples) / max(1, sum(sample.stored for sample in samples))


def _look(path: str) -> Sample:
    """The beginning of a file on disk, or all of it if it is small."""
    size = os.path.getsize(path)
    if is_columnar(path):
        from jumok.text.columnar import units

        return Sample(sum(unit.rows for unit in units(path)), round(size * PACKING), size)
    if not path.lower().endswith(tuple(PACKED)):
        content = next(blocks(path, SAMPLED), b"")
        return Sample(_count(content, whole=len(content) >= size), len(content), len(content))
    tally, lines, text = Tally(), 0, 0
    for block in blocks(path, SAMPLED, tally=tally):
        lines, text = lines + block.count(b"\n"), text + len(block)
        if text >= UNPACKED or SAMPLED <= tally.size < size:
            break
    else:
        return Sample(lines, text, size)
    return Sample(lines, text, tally.size)


def _count(content: bytes, *, whole: bool) -> int:
    """The lines of the beginning of a text; the last one of a whole text may lack its line feed."""
    return content.count(b"\n") + (whole and not content.endswith(b"\n") and bool(content))


# ------------------------------------------------------------------------------------------ addresses


def _ask_servers(corpus: Corpus) -> Size:
    """The approximate size of a corpus whose files have not been fetched."""
    address_of = dict(corpus.addresses)
    firsts = [paths[0] for paths in corpus.inputs]
    pairs, stored, text = 0.0, 0, 0.0
    chosen = _spread(firsts)
    for path in chosen:
        size, sample = _ask(address_of[path]) if path in address_of else (os.path.getsize(path), _look(path))
        pairs += sample.lines * size / max(1, sample.stored)
        stored += size
        text += size * _ratio([sample])
    sides = sum(map(len, corpus.inputs)) / len(chosen)  # files in all for each one that was looked at
    return Size(round(pairs * len(firsts) / len(chosen)), round(stored * sides), round(text * sides))


def _ask(address: str) -> tuple[int, Sample]:
    """The size of a file at an address, and its beginning."""
    from jumok.text.remote import peek

    content, size = peek(address)
    location = address.partition("?")[0].lower()
    whole = len(content) if size is None else size
    if is_columnar(location):
        return whole, Sample(1, round(ROW * PACKING), ROW)
    text = _unpack(location, content)
    return whole, Sample(_count(text, whole=len(content) >= whole), len(text), len(content))


def _unpack(name: str, content: bytes) -> bytes:
    """The text that the beginning of a compressed file gives; that of a plain file as it is."""
    try:
        if name.endswith(".gz"):
            return zlib.decompressobj(31).decompress(content, UNPACKED)
        if name.endswith(".xz"):
            return lzma.LZMADecompressor().decompress(content, UNPACKED)
        if name.endswith(".zst"):
            import zstandard

            return bytes(zstandard.ZstdDecompressor().decompressobj().decompress(content[: UNPACKED >> 10]))
    except (zlib.error, lzma.LZMAError, ImportError, ValueError):
        return b""
    return content
