"""HTML, a page or a fragment: text between tags and in some attributes is translated, all else stays byte for byte.

A block is what stands between two tags that are not inline.  White space is a space, however long.  Not translated:
script, style, code, pre and the like, and elements with translate="no" or the class `notranslate`; inside of a sentence
they are marks.  <br> ends a sentence unless the next line begins with a small letter or the last ended with a comma.
Tags that do not match are kept as they are.
"""

from __future__ import annotations

import html
import re
from functools import partial

from jumok.documents.building import Builder
from jumok.documents.elements import (
    ATTRIBUTES,
    DESCRIPTIONS,
    HTML_NAMES,
    INLINE,
    OPAQUE,
    OPAQUE_INLINE,
    RAW,
    REPEATED,
    VOID,
    is_inline,
)
from jumok.documents.items import CLOSE, OPEN, Composite, Item, Raw, make_mark
from jumok.documents.markup import Token, Tokenizer, list_texts, locate_attributes, read_attributes
from jumok.documents.passages import Paper, Passage
from jumok.documents.placeholders import mark_placeholders
from jumok.documents.scripts import OBJECT
from jumok.documents.segments import Document
from jumok.documents.sentences import Fits, Splitter


def read_html(text: str, language: str, *, longest: Fits | None = None, sentences: bool = True) -> Document:
    """Return a page or fragment of HTML as a document."""
    parser = PageParser(Splitter(language, longest, "case", sentences))
    for token in Tokenizer(text, raw_names=RAW):
        parser.read(token)
    return parser.finish()


class PageParser(Builder):
    """Takes the tokens of a page one by one."""

    def __init__(self, split: Splitter) -> None:
        super().__init__(split)
        self.skipped: list[str] = []  # what is inside of an element that is not translated
        self.name = ""  # of that element
        self.level = 0  # how many of that name are open

    def read(self, token: Token) -> None:
        if self.name:
            self._skip(token)
        elif token.kind == "text":
            for item in list_texts(token.raw):
                self.add(item)
        elif token.kind == "open":
            self.close_off(token.raw)
        elif token.kind == "other":
            self.add(make_mark(token.raw, "", "thin"))
        elif token.kind == "end":
            self._end_element(token)
        else:
            self._start_element(token)

    def _end_element(self, token: Token) -> None:
        if token.name in VOID:
            self.add(make_mark(token.raw, "", "thin"))
        elif is_inline(token.name):
            self.add(Item(CLOSE, "", token.raw, token.name))
        else:
            self.end()
            self.write(token.raw)

    def _start_element(self, token: Token) -> None:
        name, attributes = token.name, read_attributes(token.raw) if " " in token.raw or "\n" in token.raw else {}
        is_void = name in VOID or (token.kind == "single" and name not in INLINE | HTML_NAMES)
        if not is_void and (name in OPAQUE | OPAQUE_INLINE or is_excluded(attributes)):
            self.name, self.level, self.skipped = name, 1, [token.raw]
            return
        raw: Raw = token.raw if is_excluded(attributes) else self._translate_attributes(token, attributes)
        if is_void and (name in ("br", "img", "input", "wbr") or name not in VOID):
            text, kind = {"br": ("\n", "break"), "wbr": ("", "thin")}.get(name, (OBJECT, "break"))
            self.add(make_mark(raw, text, kind if name in VOID else "word"))
        elif is_inline(token.name) and not is_void:
            self.add(Item(OPEN, "", raw, name))
        else:
            self.end()
            self.write(raw)

    def _translate_attributes(self, token: Token, attributes: dict[str, str]) -> Raw:
        """Return a tag whose attributes for people are passages."""
        names = [name for name in attributes if name in ATTRIBUTES]
        kind = attributes.get("name", attributes.get("property", "")).lower()
        if token.name == "meta" and kind in DESCRIPTIONS:
            names.append("content")
        if token.name == "input" and attributes.get("type", "").lower() in ("submit", "button", "reset"):
            names.append("value")
        names = [name for name in names if attributes.get(name, "").strip()]
        if not names:
            return token.raw
        parts, position = list[str | Passage](), 0
        places = locate_attributes(token.raw)
        for name in sorted(names, key=lambda name: places[name][1]):
            value, start, stop = places[name]
            sign = token.raw[start - 1]
            quoted = sign in ("'", '"')
            passage = Passage(
                mark_placeholders(list_texts(value)), self.split, partial(escape_attribute, sign if quoted else "")
            )
            parts += [token.raw[position:start], passage]
            position = stop
        return Composite((*parts, token.raw[position:]))

    def _skip(self, token: Token) -> None:
        """Take a token inside of an element that is not translated."""
        if token.name == self.name and token.kind in ("start", "end"):
            if token.kind == "start" and self.name in REPEATED:
                self._end_skipping()
                self.read(token)
                return
            self.level += 1 if token.kind == "start" else -1
        self.skipped.append(token.raw)
        if self.level == 0:
            self._end_skipping()

    def _end_skipping(self) -> None:
        raw, name = "".join(self.skipped), self.name
        self.name, self.skipped = "", []
        if name in OPAQUE_INLINE or name in INLINE or name not in HTML_NAMES | OPAQUE:
            self.add(make_mark(raw))
        else:
            self.end()
            self.write(raw)

    def finish(self) -> Paper:
        """Return the document when all tokens have been read."""
        if self.name:
            self.close_off("".join(self.skipped))
        return super().finish()


def is_excluded(attributes: dict[str, str]) -> bool:
    """Whether the attributes of an element say that it is not to be translated."""
    if attributes.get("translate", "").lower() == "no":
        return True
    return "notranslate" in attributes.get("class", "").lower().split()


def escape_attribute(sign: str, text: str) -> str:
    """Return a value as it is written in an attribute; one without quotation marks gets them."""
    escaped = html.escape(text, quote=False)
    if sign:
        return escaped.replace(sign, "&quot;" if sign == '"' else "&#39;")
    return re.sub(r"[\s\"'`=]", lambda match: f"&#{ord(match[0])};", escaped)
