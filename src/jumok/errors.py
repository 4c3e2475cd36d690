"""Every error a user can repair: what happened, where exactly, which command to try.

    raise DiskError("storage.cannot_save", folder=folder, reason=error.strerror)

A `JumokError` names an entry of the catalogue (messages/) and its values, prints as at most three lines and carries
the exit code of the process.  Anything else that escapes is a bug of ours and keeps its traceback.  Exit codes: 1
failed, 2 usage, 64 bad data, 65 bad model file, 74 disk or memory, 75 stopped but resumable, 130 interrupted.
"""

import difflib
from collections.abc import Iterable
from typing import Any

from jumok import messages

LONGEST = 1_000  # most characters of a line


class JumokError(Exception):
    """Something the user can repair; `key` names its entry in the catalogue."""

    code = 1

    def __init__(self, key: str, /, **values: Any) -> None:
        entry = messages.find(key)
        assert isinstance(entry, dict), f"{key} is a text, not an error"
        self.key, self.values = key, values
        lines = (messages.fill(entry.get(part, ""), values) for part in ("what", "where", "hint"))
        self.what, self.where, self.hint = map(_on_one_line, lines)
        super().__init__(self.what)

    def __str__(self) -> str:
        return "\n".join(line for line in (self.what, self.where, self.hint) if line)


def printable(text: str) -> str:
    """Text without control characters: a file cannot make a terminal do anything."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " if char.isspace() else "\ufffd" for char in text)


def _on_one_line(text: str) -> str:
    """The text as one line of at most 1,000 characters."""
    line = printable(text[: 2 * LONGEST].strip())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


class UsageError(JumokError):
    """An option, recipe key or name that does not exist or does not fit."""

    code = 2


class DataError(JumokError):
    """A text file that is missing, broken or not parallel."""

    code = 64


class ModelFileError(JumokError):
    """A run, checkpoint, vocabulary or weight file that cannot be trusted."""

    code = 65


class DiskError(JumokError):
    """The disk is full, read-only or gone."""

    code = 74


class Resumable(JumokError):
    """Stopped on request with everything saved; the same command continues."""

    code = 75


class Unsupported(UsageError):
    """An engine that cannot run this model or this search; another engine may."""


class MissingPackage(UsageError, ImportError):
    """A library that is not installed; the hint names the extra that brings it (extras.py)."""


class UnknownName(UsageError):
    """A name that is not in a closed list; the entry of `key` is given the name and a `guess`, the nearest one."""

    def __init__(self, key: str, /, name: str, known: Iterable[str], **values: Any) -> None:
        names = sorted(known)
        close = difflib.get_close_matches(name, names, n=1)
        guess = (
            messages.Message("errors.did_you_mean", {"name": close[0]})
            if close
            else messages.Message("errors.known_names", {"names": ", ".join(names)})
        )
        super().__init__(key, name=name, guess=guess, **values)
