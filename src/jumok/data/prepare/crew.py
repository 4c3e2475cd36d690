"""Worker processes for preparation: started afresh, fed through pipes, and gone when their parent is.

A task is a name from a closed table, plain values (JSON) and a few byte strings; a result is the same.  Workers are
plain subprocesses rather than multiprocessing's, which would run a user's script again in each of them, and they are
never forked, because torch and OpenMP may already have threads.

A worker dies with its parent: on Linux the kernel kills it (PR_SET_PDEATHSIG), elsewhere it ends when its pipe does.
"""

import io
import json
import os
import signal
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import IO, Any

from jumok.errors import DataError, DiskError, JumokError, MissingPackage, ModelFileError, UsageError
from jumok.processes import die_with_parent, module_command
from jumok.stopping import NEVER, Stop

AHEAD = 2  # tasks given to each worker at a time, so that it never waits for the next
LOOK = 0.2  # seconds between checks for a stop while all workers are busy
KINDS = (DataError, DiskError, MissingPackage, ModelFileError, UsageError)
ERRORS: dict[str, type[JumokError]] = {one.__name__: one for one in KINDS}  # that a worker may report

Values = dict[str, Any]
Buffers = Sequence[bytes | memoryview]


@dataclass(frozen=True)
class Task:
    """Work for one worker: what to call, with which values and bytes; `number` orders the results."""

    number: int
    name: str
    values: Values
    buffers: Buffers = ()


@dataclass(frozen=True)
class Result:
    """What came of a task."""

    number: int
    values: Values
    buffers: Sequence[bytes] = ()


Work = Callable[..., tuple[Values, Buffers]]


class Crew:
    """Runs tasks in `workers` processes of `module`, or in this one where `workers` is 0."""

    def __init__(self, workers: int, module: str, table: Mapping[str, Work], stop: Stop = NEVER) -> None:
        self.table, self.stop = table, stop
        self._order: deque[int] = deque()  # numbers of the tasks whose results nobody has yet
        self._waiting: dict[int, Result | JumokError] = {}  # answers that came before those of earlier tasks
        self.answers: SimpleQueue[tuple[_Member, bytes | None]] = SimpleQueue()
        self.members = [_Member(module, self.answers) for _ in range(workers)]

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.end()

    def submit(self, task: Task) -> list[Result]:
        """Give a task to a worker and return when there is room for another: with the results that are ready.

        Results come in the order of the tasks; the first failure, in that order, is raised.
        """
        if not self.members:
            self.stop.check()
            values, _ = self.table[task.name](*task.buffers, **task.values)
            return [Result(task.number, values)]
        self._order.append(task.number)
        min(self.members, key=lambda member: member.busy).give(task)
        ready, room = [], AHEAD * len(self.members)
        while len(self._order) >= 4 * room or sum(member.busy for member in self.members) >= room:
            self._hear()
            ready += self._take()
        return ready

    def finish(self) -> Iterator[Result]:
        """The results of all tasks that are still being worked on."""
        while self._order:
            yield from self._take()
            if self._order:
                self._hear()

    def _hear(self) -> None:
        """Wait for the next answer, or a fifth of a second."""
        self.stop.check()
        try:
            member, content = self.answers.get(timeout=LOOK)
        except Empty:
            return
        if content is None:
            raise member.lost()
        member.busy -= 1
        number, answer = _unpack_answer(content)
        self._waiting[number] = answer

    def _take(self) -> list[Result]:
        """The results whose turn it is."""
        ready = []
        while self._order and self._order[0] in self._waiting:
            answer = self._waiting.pop(self._order.popleft())
            if isinstance(answer, JumokError):
                raise answer
            ready.append(answer)
        return ready


@dataclass(eq=False)
class _Member:
    """One worker process."""

    module: str
    answers: "SimpleQueue[tuple[_Member, bytes | None]]"
    busy: int = 0
    process: subprocess.Popen[bytes] = field(init=False)
    _threads: list[threading.Thread] = field(default_factory=list, init=False)
    _outgoing: "SimpleQueue[bytes | None]" = field(default_factory=SimpleQueue, init=False)

    def __post_init__(self) -> None:
        words, environment = module_command(self.module)
        self.process = subprocess.Popen(
            [*words, str(os.getpid())], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._speak, self._hear)]
        for thread in self._threads:  # so that neither process ever waits for a full pipe of the other
            thread.start()

    def _speak(self) -> None:
        assert self.process.stdin is not None
        while (content := self._outgoing.get()) is not None:
            try:
                self.process.stdin.write(content)
                self.process.stdin.flush()
            except (OSError, ValueError):  # it is gone, which `_hear` notices
                return

    def _hear(self) -> None:
        assert self.process.stdout is not None
        while (content := receive(self.process.stdout)) is not None:
            self.answers.put((self, content))
        self.answers.put((self, None))

    def give(self, task: Task) -> None:
        self.busy += 1
        self._outgoing.put(pack({"number": task.number, "name": task.name, "values": task.values}, task.buffers))

    def lost(self) -> JumokError:
        """The error for a worker that ended by itself."""
        code = self.process.wait()
        why = f"signal {-code}" if code < 0 else f"code {code}"
        hint = "try: free -h; the system may have run out of memory" if code == -signal.SIGKILL else ""
        return JumokError(f"a worker process of the preparation ended with {why}", hint=hint)

    def end(self) -> None:
        """Kill it: everything it makes is whole or absent, so there is nothing to wait for."""
        self._outgoing.put(None)
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        for thread in self._threads:
            thread.join()


# ------------------------------------------------------------------ messages


def pack(values: Values, buffers: Buffers = ()) -> bytes:
    """A message: sizes, JSON, bytes."""
    head = json.dumps(values).encode()
    sizes = [len(head), *map(len, buffers)]
    return b"".join([struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes), head, *buffers])


def receive(stream: IO[bytes]) -> bytes | None:
    """The next message, or None where the stream ends."""
    count = stream.read(4)
    if len(count) < 4:
        return None
    (number,) = struct.unpack("<I", count)
    sizes = stream.read(8 * number)
    if len(sizes) < 8 * number:
        return None
    size = sum(struct.unpack(f"<{number}Q", sizes))
    body = stream.read(size)
    return count + sizes + body if len(body) == size else None


def unpack(content: bytes) -> tuple[Values, list[bytes]]:
    """Values and bytes of a message."""
    (number,) = struct.unpack_from("<I", content)
    sizes = struct.unpack_from(f"<{number}Q", content, 4)
    stream = io.BytesIO(content)
    stream.seek(4 + 8 * number)
    head, *buffers = (stream.read(size) for size in sizes)
    return json.loads(head), buffers


def _unpack_answer(content: bytes) -> tuple[int, Result | JumokError]:
    values, buffers = unpack(content)
    number = values["number"]
    if "error" in values:
        kind = ERRORS.get(values["error"], JumokError)
        return number, kind(values["what"], where=values["where"], hint=values["hint"])
    return number, Result(number, values["values"], buffers)


def serve(table: Mapping[str, Work]) -> None:
    """The main loop of a worker: tasks from standard input, results to standard output, until the input ends."""
    die_with_parent(int(sys.argv[1]))
    incoming, outgoing = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not come between
    while (content := receive(incoming)) is not None:
        values, buffers = unpack(content)
        number = values["number"]
        try:
            made, more = table[values["name"]](*buffers, **values["values"])
            answer = pack({"number": number, "values": made}, more)
        except JumokError as error:
            told = {"error": type(error).__name__, "what": error.what, "where": error.where, "hint": error.hint}
            answer = pack({"number": number, **told})
        outgoing.write(answer)
        outgoing.flush()
