"""Every error a user can put right: what happened, where exactly, which command to try.

A `JumokError` prints as at most three lines and carries the exit code of the process.  Anything else that
escapes is a bug of ours and keeps its traceback.  Exit codes: 1 failed, 2 usage, 64 bad data, 65 bad model
file, 74 disk or memory, 75 stopped but resumable, 130 interrupted.
"""

import difflib
from collections.abc import Iterable

LONGEST = 1_000  # characters of a line


class JumokError(Exception):
    """Something the user can put right."""

    code = 1

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        self.what, self.where, self.hint = map(_on_one_line, (what, where, hint))
        super().__init__(self.what)

    def __str__(self) -> str:
        return "\n".join(line for line in (self.what, self.where, self.hint) if line)


def printable(text: str) -> str:
    """Text that a terminal shows and does not obey, whatever a file had it say."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else " " if one.isspace() else "\ufffd" for one in text)


def _on_one_line(text: str) -> str:
    """A line of at most 1,000 characters."""
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
    """An engine that cannot run this model, or cannot do what it is asked; another engine may."""


class UnknownName(UsageError):
    """A name that is not in a closed list; proposes the nearest one."""

    def __init__(self, kind: str, name: str, known: Iterable[str], *, where: str = "", hint: str = "") -> None:
        names = sorted(known)
        close = difflib.get_close_matches(name, names, n=1)
        guess = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"
        super().__init__(f"no {kind} is called {name!r}; {guess}", where=where, hint=hint)


def check_names(kind: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a name that is not known, as a keyword that was misspelt."""
    names = set(known)
    for name in given:
        if name not in names:
            raise UnknownName(kind, name, names)
