"""Processes that may be killed: forked from one that has torch loaded, with a disk that fails when it is told to.

    with Zygote(folder) as zygote:
        ended = zygote.run(["train", "--corpus", "copy", …], faults=["write|*/model.safetensors|1|kill-after"])
        ended.signal == signal.SIGKILL

`faults` are rules of faults.c, beside this.  `kill_at` ends the process at the nth call of a function of ours, named as
"jumok.training.update:Team.update".  `after` gives (seconds, signal number) to send from outside.
"""

import contextlib
import ctypes
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LOADED = [  # what a run would load
    "jumok.cli.main", "jumok.runs.experiment", "jumok.runs.forecast", "jumok.cli.display",
    "sacrebleu", "sacrebleu.metrics", "rich.progress",
    "tensorboard.compat.proto.event_pb2", "tensorboard.compat.proto.summary_pb2",
    "tensorboard.summary.writer.record_writer", "jumok.data.made.phrasebook",
]  # fmt: skip


def obstacle() -> str | None:
    """Why there can be no such processes here; None if there can."""
    if sys.platform != "linux":
        return "the faults are made for Linux"
    return None if shutil.which("cc") else "there is no C compiler"


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code, or the signal that ended it, and what it said."""

    code: int
    signal: int
    out: str
    err: str
    seconds: float  # from its start, or from the signal that it was sent


class Zygote:
    """A process that waits with everything loaded; each run is a fork of it."""

    def __init__(self, folder: Path, *, threads: int = 2) -> None:
        library = folder / "faults.so"
        flags = ["-shared", "-fPIC", "-O1", "-o", str(library), str(HERE / "faults.c"), "-ldl", "-lpthread"]
        subprocess.run(["cc", *flags], check=True)
        self.folder = folder
        environment = os.environ | {
            "LD_PRELOAD": str(library),
            "OMP_NUM_THREADS": str(threads),
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), *filter(None, sys.path)]),
        }
        command = [sys.executable, "-m", "tests.support.zygote"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.runs = 0

    def __enter__(self) -> "Zygote":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def ask(self, **request: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the zygote has died"
        return dict(json.loads(line))

    def run(
        self,
        arguments: Sequence[object],
        *,
        faults: Sequence[str] = (),
        kill_at: tuple[str, int] | None = None,
        pause_at: tuple[str, int] | None = None,
        after: tuple[float, int] | None = None,
        first: tuple[str, str] | None = None,
    ) -> Ended:
        """Run `jumok ARGUMENTS` in a process of its own until it ends.

        With `pause_at` the clock of `after` begins at the nth call of that function, not at the start.  `first` is a
        function of the tests to call before, and its argument.
        """
        self.runs += 1
        sides = [self.folder / f"run-{self.runs}.{side}" for side in ("out", "err")]
        there = self.folder / f"run-{self.runs}.there"
        begun = time.monotonic()
        child = self.ask(
            arguments=list(map(str, arguments)), faults="\n".join(faults), kill_at=kill_at,
            note=[*pause_at, str(there)] if pause_at else None, out=str(sides[0]), err=str(sides[1]), first=first,
        )["pid"]  # fmt: skip
        sent = begun
        if after is not None:
            seconds, number = after
            while pause_at is not None and not there.exists() and time.monotonic() - begun < 120:
                time.sleep(0.01)
            time.sleep(seconds)
            sent = time.monotonic()
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)
        guard = threading.Timer(180, os.kill, (child, signal.SIGABRT))  # a hang is a failure, not an endless test
        guard.start()
        status = self.ask(wait=child)["status"]
        guard.cancel()
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1
        ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        out, err = (side.read_text() for side in sides)
        return Ended(code, ended_by, out, err, time.monotonic() - sent)


# ---------------------------------------------------------------------- in the other process


def hook(where: str, nth: int, act: Any) -> None:
    """Call `act` when the function `where` is called for the nth time."""
    module, _, path = where.partition(":")
    owner: Any = importlib.import_module(module)
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    real, calls = getattr(owner, name), []

    def counted(*positional: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == nth:
            act()
        return real(*positional, **named)

    setattr(owner, name, counted)


def child(request: dict[str, Any]) -> None:
    """The forked process: everything as the command line has it."""
    for number, path in ((0, os.devnull), (1, request["out"]), (2, request["err"])):
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        os.dup2(file, number)
    if request["first"]:
        where, argument = request["first"]
        module, _, name = where.partition(":")
        getattr(importlib.import_module(module), name)(argument)
    if request["kill_at"]:
        hook(*request["kill_at"], lambda: os.kill(os.getpid(), signal.SIGKILL))
    if request["note"]:
        where, nth, path = request["note"]
        hook(where, nth, lambda: Path(path).write_text(""))
    sys.stdin, sys.stdout, sys.stderr = (open(n, mode, encoding="utf-8") for n, mode in ((0, "r"), (1, "w"), (2, "w")))  # noqa: SIM115
    sys.argv = ["jumok", *request["arguments"]]
    ctypes.CDLL(None).faults_set(request["faults"].encode())
    from jumok.cli.main import main

    main()


def serve() -> None:
    for name in LOADED:
        importlib.import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            _, status = os.waitpid(request["wait"], 0)
            print(json.dumps({"status": status}), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                child(request)
            except SystemExit as left:
                code = left.code if isinstance(left.code, int) else 0
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        print(json.dumps({"pid": pid}), flush=True)


if __name__ == "__main__":
    serve()
