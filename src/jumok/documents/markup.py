"""Tags of HTML, XML and subtitles as they are written: tokens whose raw text, joined, is the input.

Reads any text in linear time: what is not a tag is text, a tag without its end is text, and after a quotation mark
that is never closed quotation marks no longer hide the end of a tag.
"""

import html
import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from jumok.documents.items import Item, make_text

TAG = re.compile(r"</?([A-Za-z_:][^\s/<>\"'=]*)")
ATTRIBUTE = re.compile(r"([^\s\"'<>/=]+)(?:\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s\"'=<>`]+))?")
REFERENCE = re.compile(r"&(?:#[0-9]{1,10};?|#[xX][0-9a-fA-F]{1,8};?|[A-Za-z][A-Za-z0-9]{0,40};?)")
XML_REFERENCE = re.compile(r"&(?:#[0-9]{1,10}|#x[0-9a-fA-F]{1,8}|amp|lt|gt|quot|apos);")


class Token(NamedTuple):
    """A piece of markup.

    Kinds: "text", "start", "end", "single" (a tag that ends itself), "other" (such as a comment), "open" (one without
    an end, which is all the rest).
    """

    kind: str
    raw: str
    name: str = ""


class Tokenizer:
    """Divides text into tokens."""

    def __init__(self, text: str, *, raw_names: Collection[str] = (), lower: bool = True) -> None:
        """`raw_names` are elements that contain no tags, such as script; `lower` is for names in any case."""
        self.text, self.raw_names, self.lower = text, frozenset(raw_names), lower
        self.last = {sign: text.rfind(sign) for sign in "\"'>"}
        self.quotes = True
        self.ends: dict[str, int] = {}

    def __iter__(self) -> Iterator[Token]:
        position, start = 0, 0  # of the token, and of the text before it
        while (position := self.text.find("<", position)) >= 0:
            token = self._read(position)
            if token is None:
                position += 1
                continue
            if start < position:
                yield Token("text", self.text[start:position])
            yield token
            start = position = position + len(token.raw)
            if token.kind == "start" and token.name in self.raw_names:
                position = self._find_end(token.name, position)
                if start < position:
                    yield Token("text", self.text[start:position], token.name)
                start = position
        if start < len(self.text):
            yield Token("text", self.text[start:])

    def _read(self, start: int) -> Token | None:
        """Return the token that begins at a "<"; None if it is text."""
        if self.text.startswith(("<!", "<?"), start):
            return self._read_other(start)
        match = TAG.match(self.text, start)
        if match is None or self.last[">"] < start:
            return None
        stop = self._find_tag_end(match.end())
        raw, name = self.text[start:stop], match[1].lower() if self.lower else match[1]
        if raw[1] == "/":
            return Token("end", raw, name)
        return Token("single" if raw.endswith("/>") else "start", raw, name)

    def _read_other(self, start: int) -> Token | None:
        for opening, closing in (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", ">"), ("<!", ">")):
            if self.text.startswith(opening, start):
                stop = self.text.find(closing, start + 2 if closing == ">" else start + len(opening))
                if stop < 0 and closing == ">":
                    return None
                if stop < 0:
                    return Token("open", self.text[start:])
                return Token("other", self.text[start : stop + len(closing)])
        return None

    def _find_tag_end(self, position: int) -> int:
        """Return where a tag ends: behind the first ">" that is not in quotation marks."""
        start = position
        while self.quotes:
            close = self.text.find(">", position)
            if close < 0:
                break
            sign = next((i for i in range(position, close) if self.text[i] in "\"'"), -1)
            if sign < 0:
                return close + 1
            if self.last[self.text[sign]] <= sign:
                self.quotes = False
                break
            position = self.text.index(self.text[sign], sign + 1) + 1
        self.quotes = False
        return self.text.index(">", start) + 1

    def _find_end(self, name: str, position: int) -> int:
        """Return where the content of an element without tags ends."""
        if self.ends.get(name, 0) < position:
            match = re.compile(rf"</{re.escape(name)}(?=[\s/>])", re.I).search(self.text, position)
            self.ends[name] = match.start() if match else len(self.text)
        return self.ends[name]


def read_attributes(raw: str) -> dict[str, str]:
    """Return the attributes of a tag by name in lower case, the first of equal names, references resolved."""
    return {name: html.unescape(value) for name, (value, _, _) in locate_attributes(raw).items()}


def locate_attributes(raw: str) -> dict[str, tuple[str, int, int]]:
    """Return the attributes of a tag: the value as it is written, and where it begins and ends in the tag."""
    attributes: dict[str, tuple[str, int, int]] = {}
    head = TAG.match(raw)
    for match in ATTRIBUTE.finditer(raw, head.end() if head else 0):
        value, start, stop = match[2] or "", match.start(2), match.end(2)
        if value[:1] in ("'", '"'):
            value, start, stop = value[1:-1], start + 1, stop - 1
        attributes.setdefault(match[1].lower(), (value, start, stop))
    return attributes


def list_texts(raw: str, reference: re.Pattern[str] = REFERENCE) -> list[Item]:
    """Return written text as items, in which every character reference is an item of its own."""
    items, position = list[Item](), 0
    for match in reference.finditer(raw) if "&" in raw else ():
        text = html.unescape(match[0])
        if text == match[0]:
            continue
        if position < match.start():
            items.append(make_text(raw[position : match.start()]))
        items.append(make_text(text, match[0]))
        position = match.end()
    if position < len(raw):
        items.append(make_text(raw[position:]))
    return items


def escape_text(text: str) -> str:
    """Return text as it is written between tags."""
    return html.escape(text, quote=False)
