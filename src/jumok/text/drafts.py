"""An output file that is written line by line and can be resumed after its writer was killed.

    draft = Draft.begin("big.de", about={"model": …, "input": …}, resume=True)
    draft.lines                     # lines that an earlier process wrote
    draft.write(lines)              # each is passed to the system as it comes
    draft.finish()                  # renames the complete file to big.de

Until then the lines are in big.de.part, and big.de.part.json records what they were made from, so that a draft is only
resumed with the same model, input and options.  An incomplete last line is removed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumok.errors import DiskError, UsageError
from jumok.text.files import attempt
from jumok.text.lines import encode_lines

BLOCK = 1 << 20


@dataclass
class Draft:
    """An unfinished file: its final path, and how many whole lines have been written."""

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
        """A new draft, or, with `resume`, the existing one, if it was begun with the same `about`."""
        draft = cls(Path(os.path.realpath(path)), 0)
        if draft.goal.suffix.lower() in (".gz", ".xz", ".zst"):
            raise UsageError("text.draft_compressed", file=path, suffix=draft.goal.suffix)
        try:
            if resume and draft.part.exists():
                draft._check_origin(about)
                draft._truncate()
            else:
                draft.part.write_bytes(b"")
                draft.note.write_text(json.dumps(about, ensure_ascii=False, indent=1), encoding="utf-8")
        except OSError as error:
            raise draft._cannot_write(error) from error
        return draft

    def _check_origin(self, about: dict[str, Any]) -> None:
        """Refuse to resume with another model, input or options."""
        try:
            before = json.loads(self.note.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            before = None
        plain = json.loads(json.dumps(about))
        if before == plain:
            return
        for name in plain:
            if not isinstance(before, dict) or before.get(name) != plain[name]:
                raise UsageError("text.draft_differs", file=self.part, difference=name)
        raise UsageError("text.draft_of_another_command", file=self.part)

    def _truncate(self) -> None:
        """Count the whole lines and remove what comes after the last of them."""
        whole = size = 0
        with open(self.part, "rb+") as stream:
            while block := stream.read(BLOCK):
                self.lines += block.count(b"\n")
                if (end := block.rfind(b"\n")) >= 0:
                    whole = size + end + 1
                size += len(block)
            stream.truncate(whole)

    def write(self, lines: Iterable[str]) -> None:
        """Append lines; each is passed to the system before the next one is requested."""
        try:
            with open(self.part, "ab", buffering=0) as stream:
                for raw in encode_lines(self.goal, lines):
                    view = memoryview(raw)
                    while view:  # an unbuffered write may be partial
                        view = view[stream.write(view) :]
                    self.lines += 1
        except OSError as error:
            raise self._cannot_write(error) from error

    def finish(self) -> None:
        """Rename the complete file to its final name and remove the note."""
        try:
            with open(self.part, "rb+") as stream:
                os.fsync(stream.fileno())
            os.replace(self.part, self.goal)
            self.note.unlink(missing_ok=True)
        except OSError as error:
            raise self._cannot_write(error) from error

    def _cannot_write(self, error: OSError) -> DiskError:
        reason, advice = error.strerror or error, attempt("ls -ld", self.goal.parent)
        return DiskError("text.cannot_write_draft", file=self.goal, reason=reason, part=self.part, advice=advice)
