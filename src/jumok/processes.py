"""Child processes: how to start one, and how it exits with its parent."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def module_command(module: str) -> tuple[list[str], dict[str, str]]:
    """The command line and environment that run one of our modules with the interpreter and paths of this process."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    return [sys.executable, "-m", module], environment


def die_with_parent(parent: int) -> None:
    """Make the kernel kill this process when its parent exits (Linux), and ignore Ctrl-C, which the parent handles."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent exited before prctl was called
            os._exit(1)
