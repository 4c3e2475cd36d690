"""Locks on folders: one process at a time may write to a run or a prepared corpus.

    with lock(folder, "the run"):
        ...

The lock is `flock` on the file `.lock` in the folder.  The kernel releases it when its holder exits, however it exits,
so a lock never has to be removed by hand and the file may stay.  The file names the holder for the error message.
"""

import errno
import os
import shlex
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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
NAME = 100  # bytes of the lock file that are read, at most


@contextmanager
def lock(
    folder: str | Path, what: str, *, wait: float = WAIT, note: Callable[[str], None] = lambda text: None
) -> Iterator[None]:
    """Hold the lock of `folder`, which is created if necessary, while the body runs.

    Raises `UsageError` with the holder's process id if another process has it.  On file systems without locks the body
    runs unprotected, and `note` is called with one sentence that says so.
    """
    path = Path(folder) / FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        parent = shlex.quote(str(path.parent.parent))
        raise DiskError(
            "disk.cannot_write", folder_kind=what, reason=error.strerror, folder=path.parent, parent=parent
        ) from None
    try:
        if not _acquire(file, path, what, wait):
            note(f"this file system has no locks: make sure that no other process uses {what} in {path.parent}")
            yield
            return
        _write_holder(file, f"{os.getpid()} {socket.gethostname()}")
        try:
            yield
        finally:
            _write_holder(file, "")
    finally:
        os.close(file)


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
    pid, _, host = os.pread(file, NAME, 0).decode(errors="replace").partition(" ")
    if not pid.isdigit():
        holder, advice = Message("disk.another_process"), Message("disk.wait")
    elif host == socket.gethostname():
        holder, advice = Message("disk.process", {"pid": pid}), Message("disk.wait_or_kill", {"pid": pid})
    else:
        holder = Message("disk.process_elsewhere", {"pid": pid, "host": host})
        advice = Message("disk.wait_or_kill", {"pid": pid})
    return UsageError("disk.in_use", folder_kind=what, holder=holder, folder=path.parent, advice=advice)


def _write_holder(file: int, text: str) -> None:
    """Name the holder in the lock file; the lock holds without it, so a full disk does not matter."""
    with suppress(OSError):
        os.ftruncate(file, 0)
        os.pwrite(file, text.encode(), 0)
