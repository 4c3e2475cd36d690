"""What a server keeps on disk: glossaries, corrections and jobs.

    STATE/keys.json
    STATE/glossaries/…              documents/glossary.py
    STATE/jobs/…                    documents/jobs.py: uploads and results, deleted after an hour
    STATE/corrections/en-de.jsonl   one {"source": …, "target": …} per line, which `jumok train --table` reads

Everything is whole or ignored after a crash: files appear by rename, and a line that was cut off is dropped.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from pathlib import Path

from jumok.documents.glossary import GlossaryStore
from jumok.documents.jobs import JobStore
from jumok.server.refusals import Refused
from jumok.server.settings import Settings


class State:
    """The folder of a server; a temporary one where none is given."""

    def __init__(self, settings: Settings) -> None:
        folder = settings.state
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="jumok-serve-"))
            self._delete = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder, limits = folder, settings.limits
        self.glossaries = GlossaryStore(folder / "glossaries")
        self.jobs = JobStore(folder / "jobs")
        self.corrections = Corrections(folder / "corrections", limits.corrections_bytes)


class Corrections:
    """Better translations that users suggest, as text to train on: one file per pair of languages."""

    def __init__(self, folder: Path, most: int) -> None:
        self.folder, self.most = folder, most
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in folder.glob("*.jsonl"):
            drop_cut_line(path)

    def add(self, source: str, target: str, text: str, better: str) -> None:
        """Append a pair to the file of its languages."""
        line = json.dumps({"source": text, "target": better}, ensure_ascii=False).encode("utf-8") + b"\n"
        used = sum(path.stat().st_size for path in self.folder.glob("*.jsonl"))
        if used + len(line) > self.most:
            raise Refused(403, "server.corrections_full")
        path = self.folder / f"{source}-{target}.jsonl"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab", buffering=0) as file:
            file.write(line)
            os.fsync(file.fileno())


def drop_cut_line(path: Path) -> None:
    """Cut off what follows the last line end: a line whose writer was killed."""
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        end = size
        while end > 0:
            start = max(0, end - 65_536)
            file.seek(start)
            place = file.read(end - start).rfind(b"\n")
            if place >= 0:
                end = start + place + 1
                break
            end = start
        if end < size:
            file.truncate(end)
