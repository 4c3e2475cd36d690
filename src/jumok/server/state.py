"""What a server keeps on disk: glossaries, corrections and jobs.

    STATE/keys.json
    STATE/glossaries/…              documents/glossary_store.py
    STATE/jobs/…                    documents/jobs.py: uploads and results, deleted after an hour
    STATE/corrections/en-de.jsonl   documents/corrections.py: lines that `jumok train --table` reads

Everything is whole or ignored after a crash.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

from jumok.documents.corrections import Corrections
from jumok.documents.glossary_store import GlossaryStore
from jumok.documents.jobs import JobStore
from jumok.server.settings import Settings


class State:
    """The folder of a server; a temporary one where none is given."""

    def __init__(self, settings: Settings) -> None:
        folder = settings.state
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="jumok-serve-"))
            self._delete = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder = folder
        self.glossaries = GlossaryStore(folder / "glossaries")
        self.jobs = JobStore(folder / "jobs")
        self.corrections = Corrections(folder / "corrections")
        self.corrections.repair()
