"""A file that is being fetched: what has arrived of it survives a kill, and it has its name only when it is whole.

The bytes are in NAME.fetching.  NAME.fetching.json says how many of them are certainly on disk and of which version of
the file they are, so that bytes of two versions are never joined.
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

INTERVAL = 8 << 20  # bytes between two notes of what is on disk


@dataclass(frozen=True)
class Version:
    """What a server says of a file: its size, if it says one, and an etag or date, else ""."""

    size: int | None
    mark: str


class Partial:
    """What has arrived of a file, and of which version it is."""

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
            raise UsageError(
                "another process is fetching this file", where=str(self.path), hint="wait until it has ended"
            ) from None
        self._recall()

    def _recall(self) -> None:
        """Continue where the note says, if there is one and as many bytes are there."""
        try:
            note = json.loads(self.about.read_text(encoding="utf-8"))
            version, done = Version(note["size"], note["mark"]), int(note["done"])
            if 0 <= done <= os.fstat(self._file.fileno()).st_size:
                # Of a file that is complete the last byte is asked for again, and the answer says whether it changed.
                self.version, self.done = version, done - (0 < done == version.size)
        except (OSError, ValueError, KeyError, TypeError):
            pass
        self._file.seek(self.done)
        self._file.truncate()
        self._noted = self.done

    def restart(self, version: Version) -> None:
        """Forget what is there: it is of another version, or cannot be told from one."""
        with disk_faults(self.path):
            self._file.seek(0)
            self._file.truncate()
            self.version, self.done = version, 0
            self.note()

    def write(self, block: bytes) -> None:
        with disk_faults(self.path):
            self._file.write(block)
            self.done += len(block)
            if self.done - self._noted >= INTERVAL:
                self.note()

    def note(self) -> None:
        """Have the bytes on disk, then say how many they are: a note never promises more than is there."""
        if self.version is None:
            return
        with disk_faults(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())
            draft = self.about.with_name(self.about.name + ".tmp")
            draft.write_text(json.dumps(asdict(self.version) | {"done": self.done}), encoding="utf-8")
            os.replace(draft, self.about)
            self._noted = self.done

    def check_room(self, size: int | None) -> None:
        """Refuse at once what cannot fit."""
        free = shutil.disk_usage(self.path.parent).free
        if size is not None and size - self.done > free:
            raise DiskError(
                f"the file has {size:,} bytes and {free:,} are free",
                where=str(self.path.parent),
                hint=attempt("df -h", self.path.parent),
            )

    def finish(self) -> None:
        with disk_faults(self.goal):
            self._file.flush()
            os.fsync(self._file.fileno())
            os.replace(self.path, self.goal)
            sync_folder(self.goal.parent)
            self.about.unlink(missing_ok=True)

    def close(self) -> None:
        """Keep what has arrived."""
        if self._file is None:
            return
        if self.path.exists():
            with contextlib.suppress(DiskError):
                self.note()
        with contextlib.suppress(OSError):
            self._file.close()


@contextlib.contextmanager
def disk_faults(path: Path) -> Iterator[None]:
    """Turn a failure to write into a DiskError."""
    try:
        yield
    except OSError as error:
        hint = attempt("df -h", path.parent)
        raise DiskError(f"cannot write: {error.strerror or error}", where=str(path), hint=hint) from None
