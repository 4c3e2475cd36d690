"""The catalogue: every error and help text that people read, by key, one file per room and language.

    raise DataError("data.empty_corpus", corpus=name)      # messages/en/data.toml, [empty_corpus]

An entry is an error, a table with `what` and, where they say more, `where` and `hint`; or a text, a plain string; or
the help of a verb (help.toml), a table with `short`, `long` and `examples`.
Values are named in braces and may carry a format, `{pairs:,}`.  A value may itself be a `Message`, so that a sentence
is never glued together from words in the code.  Another language is another folder with the same files and keys;
`tests/house/test_messages.py` compares keys and names of values with every place that uses them.

Level 0.  Read first: this file.  Imports nothing of jumok.  Progress lines and reports are not here: they belong to
the module that prints them.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

LANGUAGE = "en"
FOLDER = Path(__file__).parent
KEY = re.compile(r"[a-z0-9_]+\.[a-z0-9_]+")

Entry = str | dict[str, str]


@cache
def read_room(room: str, language: str = LANGUAGE) -> Mapping[str, Entry]:
    """All entries of one room."""
    return tomllib.loads((FOLDER / language / f"{room}.toml").read_text(encoding="utf-8"))


def is_key(text: str) -> bool:
    """Whether a text is a key of the catalogue."""
    return KEY.fullmatch(text) is not None


def find(key: str) -> Entry:
    """The entry of a key, `room.name`."""
    room, _, name = key.partition(".")
    return read_room(room)[name]


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

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)
