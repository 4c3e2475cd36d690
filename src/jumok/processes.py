"""Child processes: how to start one, and how it exits with its parent."""

import ctypes
import os
import signal
import sys
import threading

PR_SET_PDEATHSIG = 1


def module_command(module: str) -> tuple[list[str], dict[str, str]]:
    """The command line and environment that run one of our modules with the interpreter and paths of this process."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    return [sys.executable, "-m", module], environment


def die_with_parent(parent: int, *, pipe: int | None = None) -> None:
    """Make this process exit with its parent, and ignore Ctrl-C, which the parent handles.

    On Linux the kernel kills it.  Elsewhere a thread waits for the end of `pipe`, a file descriptor whose other end is
    held by the parent alone; the work must let other threads run.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent exited before prctl was called
            os._exit(1)
    elif pipe is not None:
        threading.Thread(target=_wait_for_end, args=(pipe,), daemon=True).start()


def _wait_for_end(pipe: int) -> None:
    while os.read(pipe, 1):  # not through a file object, whose lock would be held when the process ends
        pass
    os._exit(1)
