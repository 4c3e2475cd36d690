"""Fragments of XML with the options of DeepL's `tag_handling=xml`: which tags split sentences, which are left alone.

With `outline`, elements that somewhere stand beside text are inline, all others end a sentence.  Without it only
`splitting_tags` do.  What `ignore_tags` enclose is not translated and stays in its place, as do comments, instructions
and CDATA.  Nothing is expanded: definitions of entities are refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable

from jumok.documents.building import Builder
from jumok.documents.items import CLOSE, OPEN, Item, make_mark
from jumok.documents.markup import XML_REFERENCE, Token, Tokenizer, list_texts
from jumok.documents.passages import Paper
from jumok.documents.segments import Document
from jumok.documents.sentences import Fits, Splitter
from jumok.errors import DataError

DECLARATION = re.compile(r"<!(?:DOCTYPE|ENTITY|ELEMENT|ATTLIST|NOTATION)", re.I)


def read_xml(
    text: str,
    language: str,
    *,
    ignore_tags: Collection[str] = (),
    splitting_tags: Collection[str] = (),
    non_splitting_tags: Collection[str] = (),
    outline: bool = True,
    split: Splitter | None = None,
    longest: Fits | None = None,
) -> Document:
    """Return a fragment of XML as a document; `split` replaces the splitter of the language."""
    tokens = list(Tokenizer(text, lower=False))
    for token in tokens:
        match = DECLARATION.search(token.raw) if token.kind in ("text", "other", "open") else None
        if match and (token.kind == "text" or match.start() == 0):
            raise DataError("documents.entities", declaration=match[0])
    blocks = set(splitting_tags)
    if outline:
        blocks |= find_structure(tokens) - set(non_splitting_tags)
    parser = FragmentParser(split or Splitter(language, longest, "join"), blocks, set(ignore_tags))
    for token in tokens:
        parser.read(token)
    return parser.finish()


def find_structure(tokens: Iterable[Token]) -> set[str]:
    """Return the names of elements that never stand beside text."""
    names, inline = set[str](), set[str]()
    stack: list[tuple[str, list[bool], set[str]]] = [("", [False], set())]  # name, whether there is text, children
    opened = Counter[str]()

    def close() -> None:
        name, has_text, children = stack.pop()
        opened[name] -= 1
        if has_text[0]:
            inline.update(children)

    for token in tokens:
        if token.kind == "text" and not token.raw.isspace():
            stack[-1][1][0] = True
        elif token.kind in ("start", "single"):
            names.add(token.name)
            stack[-1][2].add(token.name)
            if token.kind == "start":
                stack.append((token.name, [False], set()))
                opened[token.name] += 1
        elif token.kind == "end" and opened[token.name]:
            while stack[-1][0] != token.name:
                close()
            close()
    while stack:
        close()
    return names - inline


class FragmentParser(Builder):
    """Takes the tokens of a fragment one by one."""

    def __init__(self, split: Splitter, blocks: Collection[str], ignored: Collection[str]) -> None:
        super().__init__(split, hollow=())
        self.blocks, self.ignored = blocks, ignored
        self.skipped: list[str] = []
        self.name, self.level = "", 0

    def read(self, token: Token) -> None:
        if self.name:
            self._skip(token)
        elif token.kind == "text":
            for item in list_texts(token.raw, XML_REFERENCE):
                self.add(item)
        elif token.kind == "open":
            self.close_off(token.raw)
        elif token.kind == "other":
            cdata = token.raw.startswith("<![CDATA[")
            self.add(make_mark(token.raw) if cdata else make_mark(token.raw, "", "thin"))
        elif token.name in self.ignored and token.kind == "start":
            self.name, self.level, self.skipped = token.name, 1, [token.raw]
        elif token.name in self.blocks:
            self.end()
            self.write(token.raw)
        elif token.kind == "single":
            self.add(make_mark(token.raw))
        else:
            self.add(Item(OPEN if token.kind == "start" else CLOSE, "", token.raw, token.name))

    def _skip(self, token: Token) -> None:
        self.skipped.append(token.raw)
        if token.name == self.name and token.kind in ("start", "end"):
            self.level += 1 if token.kind == "start" else -1
        if self.level == 0:
            self._end_skipping()

    def _end_skipping(self) -> None:
        self.add(make_mark("".join(self.skipped)))
        self.name, self.skipped = "", []

    def finish(self) -> Paper:
        """Return the document when all tokens have been read."""
        if self.name:
            self.close_off("".join(self.skipped))
        return super().finish()
