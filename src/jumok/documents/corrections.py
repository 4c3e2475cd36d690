"""Better translations that people have suggested, in files that `jumok train --table` reads.

    STATE/corrections/en-ko.jsonl      {"source": …, "target": the better one, "machine": …, "time": …}

Lines are appended and flushed one at a time.  A line that a killed process left unfinished is removed when the next
server starts, or the next line is added.
"""

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock

from jumok.documents.storing import make_folder
from jumok.errors import DiskError, UsageError

MOST_BYTES = 100_000_000  # of one file
LONGEST = 10_000  # characters of a text


class Corrections:
    """The folder of corrections."""

    def __init__(self, folder: str | Path, *, now: Callable[[], float] = time.time) -> None:
        self.folder, self.now = Path(folder), now
        self.lock = Lock()

    def repair(self) -> None:
        """Remove the unfinished last lines that a killed process has left."""
        for path in self.folder.glob("*.jsonl"):
            with suppress(OSError):  # adding to it will say why it cannot be written
                _append(path, b"")

    def find_file(self, source_language: str, target_language: str) -> Path:
        """Return the file of a pair of languages; tags are cleaned, so that they name no other file."""
        tags = (
            "".join(c for c in tag if c.isascii() and (c.isalnum() or c == "-"))[:35]
            for tag in (source_language, target_language)
        )
        return self.folder / f"{'-'.join(tag or 'und' for tag in tags)}.jsonl"

    def add(self, source: str, better: str, *, source_language: str, target_language: str, machine: str = "") -> None:
        """Append a correction."""
        texts = [" ".join(text.encode("utf-8", "replace").decode().split()) for text in (source, better, machine)]
        if not (texts[0] and texts[1]) or max(map(len, texts)) > LONGEST:
            raise UsageError("documents.bad_correction", longest=LONGEST)
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.now()))
        values = {"source": texts[0], "target": texts[1], "machine": texts[2], "time": moment}
        line = json.dumps(values, ensure_ascii=False).encode() + b"\n"
        path = self.find_file(source_language, target_language)
        with self.lock:
            make_folder(self.folder)
            try:
                _append(path, line)
            except OSError as error:
                raise DiskError("documents.cannot_save", folder=self.folder, reason=error.strerror) from None


def _append(path: Path, line: bytes) -> None:
    """Append a line, or nothing, behind the last whole one."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        size = _find_end(descriptor)
        if line and size + len(line) > MOST_BYTES:
            raise DiskError("documents.corrections_full", file=path.name, most=MOST_BYTES)
        os.ftruncate(descriptor, size)
        written = 0
        while written < len(line):
            written += os.pwrite(descriptor, line[written:], size + written)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _find_end(descriptor: int) -> int:
    """Return where the last whole line ends."""
    position = os.fstat(descriptor).st_size
    while position:
        start = max(0, position - 65_536)
        last = os.pread(descriptor, position - start, start).rfind(b"\n")
        if last >= 0:
            return start + last + 1
        position = start
    return 0
