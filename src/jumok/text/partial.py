"""A file that is being fetched: what has arrived survives a kill, and only a complete file gets its name.

The bytes are in NAME.fetching.  NAME.fetching.json records how many of them are certainly on disk and which version of
the file they belong to, so that bytes of two versions are never joined.
"""

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jumok.errors import DiskError, UsageError
from jumok.text.files import attempt
from jumok.text.lines import sync_folder

INTERVAL = 8 << 20  # bytes between two updates of the note


@dataclass(frozen=True)
class Version:
    """A version of a file on a server: its size, None if unknown, and its etag or date, "" if there is none."""

    size: int | None
    mark: str


class Partial:
    """The part of a file that has arrived, and the version it belongs to."""

    def __init__(self, goal: Path) -> None:
        self.goal = goal
        self.path, self.about = (goal.with_name(goal.name + end) for end in (".fetching", ".fetching.json"))
        self.version: Version | None = None
        self.done = self._noted = 0
        self.finished = goal.is_file()
        self._file: Any = None
        if self.finished:
            self.about.unlink(missing_ok=True)
            return
        self._file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise UsageError("text.already_fetching", file=self.path) from None
        self._recall()

    def _recall(self) -> None:
        """Continue where the note says, if there is one and as many bytes are on disk."""
        try:
            note = json.loads(self.about.read_text(encoding="utf-8"))
            version, done = Version(note["size"], note["mark"]), int(note["done"])
            if 0 <= done <= os.fstat(self._file.fileno()).st_size:
                # The last byte of a complete file is requested again: the answer tells whether the file has changed.
                self.version, self.done = version, done - (0 < done == version.size)
        except (OSError, ValueError, KeyError, TypeError):
            pass
        self._file.seek(self.done)
        self._file.truncate()
        self._noted = self.done

    def restart(self, version: Version) -> None:
        """Discard what has arrived, because it belongs, or may belong, to another version."""
        with explain_disk_faults(self.path):
            self._file.seek(0)
            self._file.truncate()
            self.version, self.done = version, 0
            self.note()

    def write(self, block: bytes) -> None:
        with explain_disk_faults(self.path):
            self._file.write(block)
            self.done += len(block)
            if self.done - self._noted >= INTERVAL:
                self.note()

    def note(self) -> None:
        """Flush the bytes to disk, then record how many they are, so that a note never promises too many."""
        if self.version is None:
            return
        with explain_disk_faults(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())
            draft = self.about.with_name(self.about.name + ".tmp")
            draft.write_text(json.dumps(asdict(self.version) | {"done": self.done}), encoding="utf-8")
            os.replace(draft, self.about)
            self._noted = self.done

    def check_space(self, size: int | None) -> None:
        """Refuse a file that does not fit on the disk before it is fetched."""
        free = shutil.disk_usage(self.path.parent).free
        if size is not None and size - self.done > free:
            folder = self.path.parent
            raise DiskError(
                "text.no_space_to_fetch", size=size, free=free, folder=folder, advice=attempt("df -h", folder)
            )

    def finish(self) -> None:
        with explain_disk_faults(self.goal):
            self._file.flush()
            os.fsync(self._file.fileno())
            os.replace(self.path, self.goal)
            sync_folder(self.goal.parent)
            self.about.unlink(missing_ok=True)

    def close(self) -> None:
        """Record what has arrived and close the file."""
        if self._file is None:
            return
        if self.path.exists():
            with contextlib.suppress(DiskError):
                self.note()
        with contextlib.suppress(OSError):
            self._file.close()


@contextlib.contextmanager
def explain_disk_faults(path: Path) -> Iterator[None]:
    """Turn an error of the system while `path` is written into a DiskError."""
    try:
        yield
    except OSError as error:
        reason, advice = error.strerror or error, attempt("df -h", path.parent)
        raise DiskError("text.cannot_write_fetched", reason=reason, file=path, advice=advice) from None
