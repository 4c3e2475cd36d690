"""The catalogue: every error and help text that people read, by key, one file per room and language.

    raise DataError("data.empty_corpus", corpus=name)      # messages/en/data.toml, [empty_corpus]

An entry is an error, a table with `what` and, where they say more, `where` and `hint`; or a text, a plain string; or
the help of a verb (help.toml), a table with `short`, `long` and `examples`.
Values are named in braces and may carry a format, `{pairs:,}`.  A value may itself be a `Message`, so that a sentence
is never glued together from words in the code.  Another language is another folder with the same files and keys;
`tests/house/test_messages.py` compares keys and names of values with every place that uses them.  What a language lacks
is shown in English.

The language of a process is English unless the command line chooses another (`speak`, called by cli/ alone).  What
programs read stays English: files, events and JSON (`Message.in_english`).

Level 0.  Read first: this file.  Imports nothing of jumok.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

ENGLISH = "en"
LANGUAGES = (ENGLISH, "ko")
FOLDER = Path(__file__).parent
KEY = re.compile(r"[a-z0-9_]+\.[a-z0-9_]+")

Entry = str | dict[str, str]


class _Process:
    """The language of this process."""

    language = ENGLISH


def spoken() -> str:
    """The language that messages are shown in."""
    return _Process.language


def speak(language: str) -> None:
    """Show messages in this language from now on."""
    _Process.language = language


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Show messages in this language for a while."""
    before = spoken()
    speak(language)
    try:
        yield
    finally:
        speak(before)


@cache
def read_room(room: str, language: str) -> Mapping[str, Entry]:
    """All entries of one room; those of another language than English may be missing."""
    path = FOLDER / language / f"{room}.toml"
    if language != ENGLISH and not path.is_file():
        return {}
    return tomllib.loads(path.read_text(encoding="utf-8"))


def is_key(text: str) -> bool:
    """Whether a text is a key of the catalogue."""
    return KEY.fullmatch(text) is not None


def find(key: str, language: str | None = None) -> Entry:
    """The entry of a key, `room.name`; in English where the language has none."""
    room, _, name = key.partition(".")
    entry = read_room(room, language or spoken()).get(name)
    return read_room(room, ENGLISH)[name] if entry is None else entry


def fill(template: str, values: Mapping[str, Any]) -> str:
    """A template with its values; one that is missing is a bug, and shown rather than hidden behind a second error."""
    try:
        return template.format_map(values)
    except (KeyError, IndexError, ValueError, TypeError):
        return f"{template} {dict(values)}"


def text(key: str, /, **values: Any) -> str:
    """A text of the catalogue with its values."""
    entry = find(key)
    assert isinstance(entry, str), f"{key} is an error, not a text"
    return fill(entry, values)


@dataclass(frozen=True)
class Message:
    """A text that is a value of another: rendered only when it is shown."""

    key: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return text(self.key, **self.values)

    def in_english(self) -> str:
        """The text for programs and files."""
        entry, values = find(self.key, ENGLISH), self.values.items()
        assert isinstance(entry, str), f"{self.key} is an error, not a text"
        return fill(entry, {name: one.in_english() if isinstance(one, Message) else one for name, one in values})

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)
