"""Worker processes for preparation: started as new processes, fed through pipes, and killed with their parent.

An item of work is a name from a closed table, plain values (JSON) and a few byte strings; a result is the same.
Workers are plain subprocesses: those of multiprocessing would run a user's script again in each of them.  They are
never forked, because torch and OpenMP may already have threads.

A worker dies with its parent: on Linux the kernel kills it (PR_SET_PDEATHSIG), elsewhere it exits when its pipe is
closed.  An error of a worker travels as its class, key and values, and the parent raises it.
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

AHEAD = 2  # items given to each worker at a time, so that it never waits for the next one
LOOK = 0.2  # seconds between checks for a stop while all workers are busy
KINDS = (DataError, DiskError, MissingPackage, ModelFileError, UsageError, JumokError)
ERRORS: dict[str, type[JumokError]] = {kind.__name__: kind for kind in KINDS}  # errors that a worker may report

Values = dict[str, Any]
Buffers = Sequence[bytes | memoryview]


@dataclass(frozen=True)
class WorkItem:
    """Work for one worker: a function of the table, its values and bytes; `number` identifies the result."""

    number: int
    name: str
    values: Values
    buffers: Buffers = ()


@dataclass(frozen=True)
class Result:
    """The result of an item of work."""

    number: int
    values: Values
    buffers: Sequence[bytes] = ()


Work = Callable[..., tuple[Values, Buffers]]


class Crew:
    """Runs items of work in `workers` processes of `module`, or in this process if `workers` is 0."""

    def __init__(self, workers: int, module: str, table: Mapping[str, Work], stop: Stop = NEVER) -> None:
        self.table, self.stop = table, stop
        self._order: deque[int] = deque()  # numbers of the items without a result
        self._early: dict[int, Result | JumokError] = {}  # answers that arrived before those of earlier items
        self.answers: SimpleQueue[tuple[_Worker, bytes | None]] = SimpleQueue()
        self.workers = [_Worker(module, self.answers) for _ in range(workers)]

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.end()

    def submit(self, item: WorkItem) -> list[Result]:
        """Give an item to a worker, wait until another one can be given, and return the results that are ready.

        Results come in the order of the items; the first failure, in that order, is raised.
        """
        if not self.workers:
            self.stop.check()
            values, _ = self.table[item.name](*item.buffers, **item.values)
            return [Result(item.number, values)]
        self._order.append(item.number)
        min(self.workers, key=lambda worker: worker.busy).send(item)
        ready, most = [], AHEAD * len(self.workers)
        while len(self._order) >= 4 * most or sum(worker.busy for worker in self.workers) >= most:
            self._receive()
            ready += self._take()
        return ready

    def finish(self) -> Iterator[Result]:
        """The results of all items that are not finished."""
        while self._order:
            yield from self._take()
            if self._order:
                self._receive()

    def run(self, items: Iterator[WorkItem]) -> Iterator[Result]:
        """The results of all items; if an item cannot be made, the failures of earlier ones are raised first."""
        late: JumokError | None = None
        while True:
            try:
                item = next(items, None)
            except JumokError as error:
                late, item = error, None
            if item is None:
                break
            yield from self.submit(item)
        yield from self.finish()
        if late is not None:
            raise late

    def _receive(self) -> None:
        """Wait for the next answer, a fifth of a second at most."""
        self.stop.check()
        try:
            worker, content = self.answers.get(timeout=LOOK)
        except Empty:
            return
        if content is None:
            raise worker.exit_error()
        worker.busy -= 1
        number, answer = _unpack_answer(content)
        self._early[number] = answer

    def _take(self) -> list[Result]:
        """The results that are next in order."""
        ready = []
        while self._order and self._order[0] in self._early:
            answer = self._early.pop(self._order.popleft())
            if isinstance(answer, JumokError):
                raise answer
            ready.append(answer)
        return ready


@dataclass(eq=False)
class _Worker:
    """One worker process."""

    module: str
    answers: "SimpleQueue[tuple[_Worker, bytes | None]]"
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
        loops = (self._send_all, self._receive_all)
        self._threads = [threading.Thread(target=loop, daemon=True) for loop in loops]
        for thread in self._threads:  # two of them, so that neither process waits for a full pipe of the other
            thread.start()

    def _send_all(self) -> None:
        assert self.process.stdin is not None
        while (content := self._outgoing.get()) is not None:
            try:
                self.process.stdin.write(content)
                self.process.stdin.flush()
            except (OSError, ValueError):  # it has exited, which `_receive_all` notices
                return

    def _receive_all(self) -> None:
        assert self.process.stdout is not None
        while (content := receive(self.process.stdout)) is not None:
            self.answers.put((self, content))
        self.answers.put((self, None))

    def send(self, item: WorkItem) -> None:
        self.busy += 1
        self._outgoing.put(pack({"number": item.number, "name": item.name, "values": item.values}, item.buffers))

    def exit_error(self) -> JumokError:
        """The error for a worker that has exited by itself."""
        code = self.process.wait()
        if code == -signal.SIGKILL:
            return JumokError("data.worker_killed", signal=-code)
        if code < 0:
            return JumokError("data.worker_signalled", signal=-code)
        return JumokError("data.worker_exited", code=code)

    def end(self) -> None:
        """Kill the process: all files that it writes are complete or absent, so there is nothing to wait for."""
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
    """A message as bytes: sizes, JSON, byte strings.  Values that JSON lacks become text."""
    head = json.dumps(values, default=str).encode()
    sizes = [len(head), *map(len, buffers)]
    return b"".join([struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes), head, *buffers])


def receive(stream: IO[bytes]) -> bytes | None:
    """The next message, or None at the end of the stream."""
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
    """The values and byte strings of a message."""
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
        return number, ERRORS[values["error"]](values["key"], **values["values"])
    return number, Result(number, values["values"], buffers)


def _describe(error: JumokError) -> Values:
    """An error as plain values: its class, or the nearest base that the parent knows, its key and its values."""
    kind = next(base.__name__ for base in type(error).__mro__ if base.__name__ in ERRORS)
    return {"error": kind, "key": error.key, "values": error.values}


def serve(table: Mapping[str, Work]) -> None:
    """The main loop of a worker: items from standard input, results to standard output, until the input ends."""
    die_with_parent(int(sys.argv[1]))
    incoming, outgoing = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that what a library prints does not mix with results
    while (content := receive(incoming)) is not None:
        values, buffers = unpack(content)
        number = values["number"]
        try:
            result, more = table[values["name"]](*buffers, **values["values"])
            answer = pack({"number": number, "values": result}, more)
        except JumokError as error:
            answer = pack({"number": number, **_describe(error)})
        outgoing.write(answer)
        outgoing.flush()
