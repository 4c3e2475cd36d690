"""Documents that wait to be translated, on disk: uploads, their status, and results until they are fetched.

    STATE/jobs/ID/{upload, job.json, result}

A job is a folder that appears by rename, so it is whole or ignored after a crash.  Jobs that were waiting or in work
when the process died are queued again, and become an error when they have been started three times.

Results are deleted when they are taken, or an hour after they were made; uploads that nobody began to translate, an
hour after they arrived.  An upload is refused only where too many others still wait to be translated.  Results that
are not fetched never keep new documents out: when they are too many or too large together, the oldest leave, but for
those of the last minute, whose client may not have asked yet.

The name of an upload is shown to people and never used as a path.  Keys are stored hashed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import shutil
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import RLock
from typing import Any

from jumok.documents.storing import make_folder, write_whole
from jumok.errors import DiskError, UsageError, printable
from jumok.text.lines import sync_folder

QUEUED, TRANSLATING, DONE, ERROR = "queued", "translating", "done", "error"
UNFINISHED = (QUEUED, TRANSLATING)
KEEP = 3_600.0  # seconds
FRESH = 60.0  # seconds for which a result is not deleted to make room: clients ask every few seconds
MOST_JOBS = 200  # that wait or are in work
MOST_RESULTS = 5_000  # and errors
MOST_BYTES = 1_000_000_000  # uploads and results together
MOST_STARTS = 3
LONGEST_NAME = 150


@dataclass(frozen=True)
class Job:
    """A document and how far it is."""

    id: str
    name: str  # as people know it
    created: float
    key_hash: str = ""
    status: str = QUEUED
    options: Mapping[str, Any] = field(default_factory=dict)  # plain values, such as languages
    starts: int = 0  # how often its translation was begun
    size: int = 0  # bytes of upload and result
    message: str = ""  # of an error
    characters: int = 0  # that were translated
    progress: float = 0.0  # from 0 to 1
    ended: float | None = None  # when it became a result or an error; a file of an earlier version does not say

    @property
    def is_finished(self) -> bool:
        return self.status not in UNFINISHED

    @property
    def since(self) -> float:
        """When its time began to count: at its end, or where it has not ended, at its upload."""
        return self.created if self.ended is None else self.ended


class JobStore:
    """The jobs in a folder.  May be used from several threads, and by one process at a time."""

    def __init__(
        self, folder: str | Path, *, most_jobs: int = MOST_JOBS, most_results: int = MOST_RESULTS,
        most_bytes: int = MOST_BYTES, keep: float = KEEP, now: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self.folder, self.now, self.keep = make_folder(Path(folder)), now, keep
        self.most_jobs, self.most_results, self.most_bytes = most_jobs, most_results, most_bytes
        self.lock = RLock()
        self._next = float("-inf")  # nothing expires before
        self.jobs: dict[str, Job] = {}
        for path in sorted(self.folder.iterdir()):
            job = _read_job(path)
            if job is None:
                _remove(path)
            else:
                self.jobs[job.id] = self._revive(job)
        self.expire()

    def _revive(self, job: Job) -> Job:
        """Queue a job again that was interrupted; one that was started too often is an error."""
        if job.is_finished:
            return job
        if job.starts >= MOST_STARTS:
            return self._save(replace(job, status=ERROR, ended=self.now(), message="interrupted too often"))
        return replace(job, status=QUEUED, progress=0.0)

    def create(self, name: str, content: bytes, options: Mapping[str, Any] | None = None) -> tuple[Job, str]:
        """Store an upload; return its job and the key that its owner needs."""
        with self.lock:
            self.expire()
            waiting = sum(not job.is_finished for job in self.jobs.values())
            if waiting >= self.most_jobs:
                raise UsageError("documents.too_many_jobs", jobs=waiting)
            if not self._make_room(len(content)):
                raise UsageError("documents.no_space", size=self.used)
            key = secrets.token_hex(32)
            job = Job(
                str(uuid.uuid4()),
                clean_name(name),
                self.now(),
                _hash(key),
                size=len(content),
                options=dict(options or {}),
            )
            partial = self.folder / f".{job.id}.partial"
            try:
                partial.mkdir(mode=0o700)
                write_whole(partial / "upload", content)
                write_whole(partial / "job.json", _encode(job))
                partial.rename(self.folder / job.id)
                sync_folder(self.folder)
            except OSError as error:
                raise DiskError("documents.cannot_save", folder=self.folder, reason=error.strerror) from None
            finally:
                _remove(partial)
            self.jobs[job.id] = job
            self._next = min(self._next, job.created + self.keep)
            return job, key

    @property
    def used(self) -> int:
        """The bytes of all uploads and results."""
        return sum(job.size for job in self.jobs.values())

    def _make_room(self, size: int) -> bool:
        """Delete the oldest results until so many bytes, and one more result, fit; return whether they do."""
        finished = [job for job in self.jobs.values() if job.is_finished]
        results, free, now = len(finished), self.most_bytes - self.used, self.now()
        if results < self.most_results and size <= free:
            return True
        for job in sorted(finished, key=lambda job: job.since):
            if (results < self.most_results and size <= free) or now - job.since < FRESH:
                break
            if results >= self.most_results or job.size:
                self._forget(job.id)
                results, free = results - 1, free + job.size
        return results < self.most_results and size <= free

    def find(self, id: str, key: str | None = None) -> Job | None:
        """Return a job; with a key, only if it is the job's."""
        with self.lock:
            self.expire()
            job = self.jobs.get(id)
        if job is not None and key is not None and not hmac.compare_digest(job.key_hash, _hash(key)):
            return None
        return job

    def list_waiting(self) -> list[Job]:
        """Return the jobs that nobody works on, the oldest first."""
        with self.lock:
            return sorted((job for job in self.jobs.values() if job.status == QUEUED), key=lambda job: job.created)

    def start(self, id: str) -> bytes | None:
        """Begin a job: return what is to be translated; None if it is gone."""
        with self.lock:
            job = self.jobs.get(id)
            if job is None:
                return None
            self._save(replace(job, status=TRANSLATING, starts=job.starts + 1, progress=0.0))
            try:
                return (self.folder / job.id / "upload").read_bytes()
            except OSError:
                self._forget(id)
                return None

    def set_progress(self, id: str, progress: float) -> None:
        """Say how far a job is; only in memory, because a job that is interrupted begins again."""
        with self.lock:
            if id in self.jobs:
                self.jobs[id] = replace(self.jobs[id], progress=min(1.0, max(0.0, progress)))

    def finish(self, id: str, result: bytes, *, characters: int = 0) -> None:
        """Store the result of a job; its upload is deleted."""
        with self.lock:
            job = self.jobs.get(id)
            if job is None:
                return
            if not self._make_room(len(result)):
                self.fail(id, "the result does not fit into the space for documents")
                return
            write_whole(self.folder / job.id / "result", result)
            done = replace(job, status=DONE, progress=1.0, size=len(result), characters=characters)
            self._end(done)

    def fail(self, id: str, message: str) -> None:
        """Say that a job cannot be done; its upload is deleted."""
        with self.lock:
            job = self.jobs.get(id)
            if job is not None:
                self._end(replace(job, status=ERROR, size=0, message=printable(message)[:500]))

    def _end(self, job: Job) -> None:
        """Save a job that is done or has failed; its upload is deleted."""
        job = self._save(replace(job, ended=self.now()))
        (self.folder / job.id / "upload").unlink(missing_ok=True)
        self._next = min(self._next, job.since + self.keep)

    def read_result(self, id: str) -> bytes | None:
        """Return the result of a job, which stays; None while there is none."""
        with self.lock:
            job = self.jobs.get(id)
            if job is None or job.status != DONE:
                return None
            try:
                return (self.folder / job.id / "result").read_bytes()
            except OSError:
                self._forget(id)
                return None

    def take_result(self, id: str) -> bytes | None:
        """Return the result of a job and delete the job."""
        with self.lock:
            result = self.read_result(id)
            if result is not None:
                self._forget(id)
            return result

    def delete(self, id: str) -> None:
        """Delete a job with its files."""
        with self.lock:
            self._forget(id)

    def expire(self) -> None:
        """Delete what is older than an hour; what is in work stays until it is done."""
        with self.lock:
            now = self.now()
            if now <= self._next:
                return
            self._next = float("inf")
            for job in list(self.jobs.values()):
                if job.status == TRANSLATING:
                    continue
                if now - job.since > self.keep:
                    self._forget(job.id)
                else:
                    self._next = min(self._next, job.since + self.keep)

    def _save(self, job: Job) -> Job:
        write_whole(self.folder / job.id / "job.json", _encode(job))
        self.jobs[job.id] = job
        return job

    def _forget(self, id: str) -> None:
        if self.jobs.pop(id, None) is not None:
            _remove(self.folder / id)


def clean_name(name: str) -> str:
    """Return the name of an upload for people: no folders, no control characters, not empty, not too long."""
    last = printable(name.replace("\\", "/").rpartition("/")[2].encode("utf-8", "replace").decode())
    bare = " ".join("".join(c for c in last if c not in '<>:"|?*\ufffd').split()).rstrip(". ")
    stem, dot, extension = bare.rpartition(".")
    if dot and len(extension) <= 10:
        return f"{(stem.strip(' .') or 'document')[: LONGEST_NAME - 11]}.{extension}"
    return bare[:LONGEST_NAME] or "document"


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()


def _encode(job: Job) -> bytes:
    return json.dumps(asdict(job)).encode()


def _read_job(path: Path) -> Job | None:
    """Return the job of a folder; None if it is not whole."""
    try:
        values = json.loads((path / "job.json").read_bytes())
        job = Job(**values)
        needed = {DONE: "result", ERROR: "job.json"}.get(job.status, "upload")
        is_whole = path.name == job.id == str(uuid.UUID(job.id)) and (path / needed).is_file()
        numbers = isinstance(job.created, int | float) and isinstance(job.ended, int | float | None)
        return job if is_whole and numbers else None
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path, ignore_errors=True)
