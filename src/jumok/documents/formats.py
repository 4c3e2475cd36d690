"""Files by extension.  A new format is one module and one line in `FORMATS`.

    file = read_file("talk.srt", content, "en")
    file.write([translate(segment) for segment in file.segments])     -> bytes

A format opens bytes.  Formats of text share `read_as_text`: the encoding is a byte order mark's, UTF-8, or what an HTML
page declares; it is kept, unless the translation has characters that it lacks.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Protocol

from jumok.documents.html import read_html
from jumok.documents.plain import read_text
from jumok.documents.segments import Document, Segment
from jumok.documents.sentences import Fits
from jumok.documents.srt import read_srt
from jumok.errors import DataError, UsageError
from jumok.translation import Translation

MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
CHARSET = re.compile(rb"<(?:meta|\?xml)[^>]{0,200}(?:charset|encoding)\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{2,30})", re.I)
CHARSETS = {"ascii", "iso8859-1", "iso8859-2", "iso8859-15", "cp1250", "cp1251", "cp1252", "cp949", "euc_kr", "koi8-r",
            "shift_jis", "euc_jp", "gb2312", "gbk", "gb18030", "big5"}  # fmt: skip


class File(Protocol):
    """A document in a file."""

    @property
    def segments(self) -> Sequence[Segment]: ...

    def write(self, translations: Sequence[Translation]) -> bytes:
        """Return the file with one translation for each segment."""


@dataclass(frozen=True)
class Format:
    """A kind of file."""

    name: str
    media_type: str
    open: Callable[[bytes, str, Fits | None], File]


@dataclass(frozen=True)
class TextFile:
    """A document in a file of text."""

    document: Document
    encoding: str
    mark: bytes
    errors: str  # how to write characters that the encoding lacks

    @property
    def segments(self) -> Sequence[Segment]:
        return self.document.segments

    def render(self, translations: Sequence[Translation]) -> str:
        return self.document.render(translations)

    def write(self, translations: Sequence[Translation]) -> bytes:
        text = self.render(translations)
        try:
            return self.mark + text.encode(self.encoding, self.errors)
        except UnicodeEncodeError:
            return text.encode("utf-8", "replace")


def read_as_text(
    read: Callable[..., Document], markup: bool, content: bytes, language: str, longest: Fits | None
) -> File:
    """Return a file of text as a document, in its own encoding."""
    encoding, mark = _find_encoding(content, markup)
    try:
        text = content[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        raise DataError("documents.not_text", encoding=encoding.upper(), position=error.start + len(mark)) from None
    return TextFile(read(text, language, longest=longest), encoding, mark, "xmlcharrefreplace" if markup else "strict")


def _find_encoding(content: bytes, markup: bool) -> tuple[str, bytes]:
    for mark, encoding in MARKS.items():
        if content.startswith(mark):
            return encoding, mark
    if markup and (match := CHARSET.search(content[:4096])):
        try:
            name = codecs.lookup(match[1].decode("ascii")).name
        except LookupError:
            name = "utf-8"
        if name in CHARSETS:
            return name, b""
    return "utf-8", b""


TEXT = Format("text", "text/plain", partial(read_as_text, read_text, False))
HTML = Format("html", "text/html", partial(read_as_text, read_html, True))
SRT = Format("srt", "application/x-subrip", partial(read_as_text, read_srt, False))
FORMATS: Mapping[str, Format] = {".txt": TEXT, ".html": HTML, ".htm": HTML, ".srt": SRT}


def read_file(name: str, content: bytes, language: str, *, longest: Fits | None = None) -> File:
    """Return a file as a document, by the extension of its name."""
    return find_format(name).open(content, language, longest)


def find_format(name: str) -> Format:
    """Return the format of a file by the extension of its name."""
    extension = PurePosixPath(name.replace("\\", "/")).suffix.lower()
    if extension not in FORMATS:
        raise UsageError("documents.unknown_format", extension=extension or "-", extensions=", ".join(FORMATS))
    return FORMATS[extension]
