"""An output that grows line by line and survives its writer: killed at any moment, it goes on where it was.

    draft = Draft.begin("big.de", about={"model": …, "input": …}, resume=True)
    draft.lines                     # so many are there already
    draft.write(lines)              # each handed to the system as it comes
    draft.finish()                  # big.de is there, whole

Until then the lines are in big.de.part, and big.de.part.json tells what they were made of, so that nobody goes on with
something else.  A last line that was cut off in the middle is taken back.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumok.errors import DiskError, UsageError
from jumok.text.files import attempt, named
from jumok.text.lines import encoded

BLOCK = 1 << 20


@dataclass
class Draft:
    """The lines of a file that is not finished."""

    goal: Path
    lines: int

    @property
    def part(self) -> Path:
        return self.goal.with_name(self.goal.name + ".part")

    @property
    def note(self) -> Path:
        return self.goal.with_name(self.goal.name + ".part.json")

    @classmethod
    def begin(cls, path: str | Path, *, about: dict[str, Any], resume: bool) -> Draft:
        """A new draft, or, with `resume`, the one that is there; `about` must then be what it was."""
        draft = cls(Path(os.path.realpath(path)), 0)
        if draft.goal.suffix.lower() in (".gz", ".xz", ".zst"):
            raise UsageError(
                "a compressed file cannot grow line by line", where=f"in {path}", hint="try: --output without .gz"
            )
        try:
            if resume and draft.part.exists():
                draft._agree(about)
                draft._mend()
            else:
                draft.part.write_bytes(b"")
                draft.note.write_text(json.dumps(about, ensure_ascii=False, indent=1), encoding="utf-8")
        except OSError as error:
            raise draft._refused(error) from error
        return draft

    def _agree(self, about: dict[str, Any]) -> None:
        """Refuse to go on with another model, input or options."""
        try:
            before = json.loads(self.note.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            before = None
        plain = json.loads(json.dumps(about))
        if before == plain:
            return
        differ = [name for name in plain if not isinstance(before, dict) or before.get(name) != plain[name]]
        raise UsageError(
            f"{named(self.part)} was made with another {differ[0] if differ else 'command'}",
            where=f"in {self.part}",
            hint="try: the command it was begun with, or without --resume, which begins anew",
        )

    def _mend(self) -> None:
        """Count the whole lines and take back what is behind the last of them."""
        whole = size = 0
        with open(self.part, "rb+") as stream:
            while block := stream.read(BLOCK):
                self.lines += block.count(b"\n")
                if (end := block.rfind(b"\n")) >= 0:
                    whole = size + end + 1
                size += len(block)
            stream.truncate(whole)

    def write(self, lines: Iterable[str]) -> None:
        """Add lines; each is with the system before the next one is asked for."""
        try:
            with open(self.part, "ab", buffering=0) as stream:
                for raw in encoded(self.goal, lines):
                    view = memoryview(raw)
                    while view:  # an unbuffered file may take a part of it
                        view = view[stream.write(view) :]
                    self.lines += 1
        except OSError as error:
            raise self._refused(error) from error

    def finish(self) -> None:
        """The file under its own name; nothing else stays."""
        try:
            with open(self.part, "rb+") as stream:
                os.fsync(stream.fileno())
            os.replace(self.part, self.goal)
            self.note.unlink(missing_ok=True)
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: OSError) -> DiskError:
        return DiskError(
            f"cannot write {named(self.goal)}: {error.strerror or error}",
            where=str(self.part),
            hint=attempt("ls -ld", self.goal.parent) + "; --resume goes on with what is there",
        )
