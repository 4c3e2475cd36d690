"""Locks on folders: one process at a time may write to a run or a prepared corpus.

    with lock(folder, "the run"):
        ...

The lock is `flock` on the file `.lock` in the folder.  The kernel releases it when its holder exits, however it exits,
so a lock never has to be removed by hand and the file may stay.  The file names the holder: process, host and since
when.  A name without a lock is that of a process which was killed.
"""

import errno
import os
import shlex
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from jumok.errors import DiskError, UsageError
from jumok.messages import Message

try:
    import fcntl
except ImportError:  # Windows has no flock
    fcntl = None  # type: ignore[assignment]

FILE = ".lock"
WAIT = 2.0  # seconds to wait for a holder that is just exiting: a killed process may need a moment to die
LOOK = 0.05
UNSUPPORTED = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
NAME = 300  # bytes of the lock file that are read, at most


class Holder(NamedTuple):
    """The process that holds a lock, or held it when it was killed."""

    pid: int
    host: str
    began: float | None  # seconds since 1970; None in files of earlier versions
    alive: bool  # whether the lock is held

    @property
    def is_here(self) -> bool:
        """Whether it is a process of this machine."""
        return self.host == socket.gethostname()


@contextmanager
def lock(
    folder: str | Path,
    what: str,
    *,
    option: str = "--out",
    wait: float = WAIT,
    note: Callable[[str], None] = lambda text: None,
) -> Iterator[None]:
    """Hold the lock of `folder`, which is created if necessary, while the body runs.

    `option` is the one that names another folder, for the error if this one cannot be written.  Raises `UsageError`
    with the holder's process id if another process has it.  On file systems without locks the body runs unprotected,
    and `note` is called with one sentence that says so.
    """
    path = Path(folder) / FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise _cannot_write(path.parent, what, option, error) from None
    try:
        if not _acquire(file, path, what, wait):
            note(f"this file system has no locks: make sure that no other process uses {what} in {path.parent}")
            yield
            return
        _write_holder(file, f"{os.getpid()} {socket.gethostname()} {time.time():.0f}")
        try:
            yield
        finally:
            _write_holder(file, "")
    finally:
        os.close(file)


def _cannot_write(folder: Path, what: str, option: str, error: OSError) -> DiskError:
    """The error for a folder that cannot be made, or in which no file can be made."""
    seen = shlex.quote(str(folder if folder.is_dir() else folder.parent))
    return DiskError(
        "disk.cannot_write", folder_kind=what, reason=error.strerror, folder=folder, seen=seen, option=option
    )


def _acquire(file: int, path: Path, what: str, wait: float) -> bool:
    """Take the lock; False where the file system has none."""
    if fcntl is None:
        return False
    until = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= until:
                raise _in_use(file, path, what) from None
            time.sleep(LOOK)
        except OSError as error:
            if error.errno in UNSUPPORTED:
                return False
            raise DiskError("disk.cannot_lock", folder_kind=what, reason=error.strerror, folder=path.parent) from None


def _in_use(file: int, path: Path, what: str) -> UsageError:
    """The error for a folder that another process holds, with the holder's name where it is known."""
    named = _read_holder(file, alive=True)
    if named is None:
        holder, advice = Message("disk.another_process"), Message("disk.wait")
    else:
        values = {"pid": str(named.pid)}
        advice = Message("disk.wait_or_kill", values)
        elsewhere = Message("disk.process_elsewhere", values | {"host": named.host})
        holder = Message("disk.process", values) if named.is_here else elsewhere
    return UsageError("disk.in_use", folder_kind=what, holder=holder, folder=path.parent, advice=advice)


def find_holder(folder: str | Path) -> Holder | None:
    """Return the process that holds the lock of a folder or was killed while it did; None after an orderly end.

    Looking takes the lock for a moment, which a process that wants it waits for.
    """
    try:
        file = os.open(Path(folder) / FILE, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _read_holder(file, alive=not _is_free(file))
    except OSError:
        return None
    finally:
        os.close(file)


def signal_holder(folder: str | Path, number: int) -> bool:
    """Send a signal to the process that holds the lock of a folder; False if none of this machine does.

    The lock is looked at again after the process was opened, so that the signal never reaches another process which
    got the same number.
    """
    holder = find_holder(folder)
    if holder is None or not holder.alive or not holder.is_here:
        return False
    if not hasattr(os, "pidfd_open"):  # Linux has it
        return _kill(holder.pid, number)
    try:
        process = os.pidfd_open(holder.pid)
    except OSError:
        return False
    try:
        if find_holder(folder) != holder:
            return False
        signal.pidfd_send_signal(process, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(process)


def _kill(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def _is_free(file: int) -> bool:
    """Whether nobody holds the lock; where there are no locks, nobody does."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return True


def _read_holder(file: int, *, alive: bool) -> Holder | None:
    """Return the process that a lock file names."""
    words = os.pread(file, NAME, 0).decode(errors="replace").split(" ")
    if len(words) not in (2, 3) or not (words[0].isascii() and words[0].isdigit() and len(words[0]) < 10):
        return None
    began = words[2] if len(words) == 3 and words[2].isascii() and words[2].isdigit() else None
    return Holder(int(words[0]), words[1], None if began is None else float(began), alive)


def _write_holder(file: int, text: str) -> None:
    """Name the holder in the lock file; the lock holds without it, so a full disk does not matter."""
    with suppress(OSError):
        os.ftruncate(file, 0)
        os.pwrite(file, text.encode(), 0)
