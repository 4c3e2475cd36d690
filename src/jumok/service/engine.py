"""An engine process: reads frames, queues sentences, translates them with one search thread per core.

    python -m jumok.service.engine CONNECTION SLOTS PARENT          # two file descriptors and a process id

The first frame is the configuration.  The process answers `ready` with a description of every model, or `failed`.
Every job that it is given gets exactly one reply, in a `done` frame.  A `beat` once per second says that it is alive
and for how long a thread has been stuck.  It exits when its connection closes or its parent dies, whatever it is doing.
The native kind never loads torch.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jumok.processes import die_with_parent
from jumok.service.frames import Channel, Frame
from jumok.service.slots import Slots

if TYPE_CHECKING:
    import numpy as np

    from jumok.service.translating import Models
    from jumok.service.waiting import Item
    from jumok.translator import Translator

LOOK = 0.004  # seconds between two looks at a translation that is reported while it grows
BEAT = 1.0  # seconds between two beats
SWITCH = 0.0005  # seconds after which a thread that runs Python lets another one run
POLITE = 2  # how much less urgent searches are than the front process, which answers and refuses in microseconds


class EngineProcess:
    """The state of the process."""

    def __init__(self, channel: Channel, slots: Slots, configuration: dict[str, Any]) -> None:
        from jumok.service.waiting import Waiting

        self.channel, self.slots, self.configuration = channel, slots, configuration
        self.is_torch = configuration["kind"] == "torch"
        self.waiting = Waiting(configuration["threads"])
        self.models: Models | None = None
        self.busy: dict[int, Progress] = {}  # of the threads that have a group
        self._options: dict[str, Any] = {}

    def run(self) -> None:
        """Load the models, then serve until the connection closes."""
        threading.Thread(target=self._beat, daemon=True).start()
        try:
            self._load()
        except Exception as error:
            self._fail(error)
            return
        threads = [
            threading.Thread(target=self._work, args=(number,), daemon=True)
            for number in range(self.configuration["threads"])
        ]
        for thread in threads:
            thread.start()
        while (frames := self.channel.receive()) is not None:
            for frame in frames:
                if frame[0] == "quit":  # nothing more will come; finish what waits
                    self.waiting.close()
                    for thread in threads:
                        thread.join()
                    return
                self._receive(frame)

    def _load(self) -> None:
        from jumok.config.search import EngineOptions
        from jumok.service.translating import Models

        options = EngineOptions(**self.configuration["engine"])
        self.models = Models(self.configuration["models"], options)
        described = self.models.load(torch=self.is_torch)
        self.channel.send(["ready", described])

    def _fail(self, error: Exception) -> None:
        from jumok.errors import JumokError

        if not isinstance(error, JumokError):
            traceback.print_exc()
        parts = ("what", "where", "hint")
        self.channel.send(["failed", *(getattr(error, part, "") for part in parts), getattr(error, "code", 1)])

    def _receive(self, frame: Frame) -> None:
        """Queue the work of a frame."""
        if frame[0] == "work":
            self.waiting.put(self._items(*frame[1:]))
        elif frame[0] == "call":
            from jumok.service.waiting import Item

            number, slot, deadline, model, verb, arguments = frame[1:]
            work = (model, verb, arguments)
            self.waiting.put([Item(number, slot, ("call", number), "", deadline, False, work=work)])

    def _items(
        self, model: str, bulk: bool, packed: dict[str, Any], contents: list[bool], sentences: list[list[Any]]
    ) -> list[Item]:
        """Return the sentences of a request as items of the queue."""
        from jumok.service.translating import Sentence, group_size
        from jumok.service.values import unpack_constraints, unpack_options
        from jumok.service.waiting import Item
        from jumok.translation import Contents

        name = json.dumps(packed, sort_keys=True)
        if (options := self._options.get(name)) is None:
            if len(self._options) > 1_000:
                self._options.clear()
            options = self._options[name] = unpack_options(packed)
        wanted, items = Contents(*contents), []
        for number, slot, deadline, text, bound, alone, live in sentences:
            constraints = unpack_constraints(bound)
            kinds = tuple(bool(part) for part in vars(constraints).values())
            key = ("alone", number) if alone or live else (model, name, tuple(contents), kinds)
            work = Sentence(model, options, wanted, constraints, live)
            items.append(Item(number, slot, key, text, deadline, bulk, group_size(options), work))
        return items

    def _work(self, thread: int) -> None:
        """Translate groups of the queue until it is closed."""
        while (group := self.waiting.take()) is not None:
            now = time.monotonic()
            replies, going = [], []
            for item in group:
                if self.slots.is_stopped(item.slot):
                    replies.append([item.number, "stopped"])
                elif item.deadline <= now:
                    replies.append([item.number, "expired"])
                else:
                    going.append(item)
            for item in going:
                self.slots.mark(item.slot, running=True)
            if going:
                results = self._answer(thread, going)
                replies += [[item.number, *reply] for item, reply in zip(going, results, strict=True)]
            for item in going:
                self.slots.mark(item.slot, running=False)
            self.channel.send(["done", now, time.monotonic() - now, len(going), replies])

    def _answer(self, thread: int, group: list[Item]) -> list[Any]:
        """Return the replies to a group."""
        from jumok.service import translating

        assert self.models is not None
        call = isinstance(group[0].work, tuple)
        try:
            translator = self.models.get(group[0].work[0] if call else group[0].work.model)  # torch may load it now
            self.busy[thread] = Progress(threading.get_ident(), max(item.deadline for item in group))
            if call:
                return [self._call(translator, group[0])]
            desk = GroupDesk(self, group)
            return translating.translate(translator, [item.text for item in group], [item.work for item in group], desk)
        except Exception as error:  # a bug must not end the thread
            return [self._explain(error)] * len(group)
        finally:
            self.busy.pop(thread, None)

    def _explain(self, error: Exception) -> list[Any]:
        """Return the reply that an error is."""
        from jumok.errors import JumokError
        from jumok.service import calls, translating

        if isinstance(error, calls.Stopped):
            return ["stopped"]
        if isinstance(error, JumokError):
            return translating.refuse(error)
        traceback.print_exception(error)
        return ["failed"]

    def _call(self, translator: Translator, item: Item) -> list[Any]:
        """Run a call; return its reply."""
        from jumok.service import calls

        _, verb, arguments = item.work

        def is_stopped() -> bool:
            return self.slots.is_stopped(item.slot)

        def report(text: str) -> None:
            self.channel.send(["part", item.number, text])

        return ["ok", calls.run(translator, verb, arguments, is_stopped, report)]

    def _beat(self) -> None:
        """Say once per second that the process is alive, and for how long each thread has been stuck."""
        while True:
            stuck = [progress.measure() for progress in list(self.busy.values())]
            try:
                self.channel.send(["beat", max(stuck, default=0.0)])
            except OSError:
                os._exit(0)
            time.sleep(BEAT)


class Progress:
    """Whether a thread gets on with its group: it computes, and gives up what is past its deadline."""

    def __init__(self, thread: int, deadline: float) -> None:
        self.thread, self.deadline = thread, deadline
        self._computed, self._changed = -1.0, time.monotonic()

    def measure(self) -> float:
        """Return the seconds for which the thread has not computed, or should have ended."""
        now = time.monotonic()
        if hasattr(time, "pthread_getcpuclockid"):  # not on macOS
            computed = time.clock_gettime(time.pthread_getcpuclockid(self.thread))
        else:
            computed = now
        if computed != self._computed:
            self._computed, self._changed = computed, now
        return max(now - self._changed, now - self.deadline)


class GroupDesk:
    """The group that a thread works on: its stop flags, and its text while it grows."""

    def __init__(self, process: EngineProcess, group: list[Item]) -> None:
        self.process, self.group = process, group

    def find_flags(self, rows: Sequence[int]) -> list[int]:
        """Return the addresses of the stop flags of sentences, in the memory that the front process writes to."""
        return [self.process.slots.address(self.group[row].slot) for row in rows]

    def is_stopped(self, row: int) -> bool:
        """Return whether the front process has given a sentence up."""
        return self.process.slots.is_stopped(self.group[row].slot)

    @contextmanager
    def show(self, ids: np.ndarray, decode: Callable[[Sequence[int]], str]) -> Iterator[None]:
        """Send the text of the one sentence of the group whenever it has grown."""
        done, number = threading.Event(), self.group[0].number

        def report() -> None:
            count = 0
            while not done.wait(LOOK):
                if int(ids[0]) > count:
                    count = int(ids[0])
                    text = decode(ids[1 : 1 + count].tolist()).rstrip("\ufffd")  # of an incomplete character
                    self.process.channel.send(["part", number, text])

        thread = threading.Thread(target=report, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def main() -> None:
    connection, slots, parent = map(int, sys.argv[1:4])
    die_with_parent(parent)
    os.nice(POLITE)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the front process drains, then closes the connection
    sys.setswitchinterval(SWITCH)
    channel = Channel(socket.socket(fileno=connection))
    try:
        frames = channel.receive()
        if frames:
            configuration = frames[0][1]
            if configuration["kind"] != "torch":
                sys.modules["torch"] = None  # type: ignore[assignment]  # importing it fails, whatever is asked
            engine = EngineProcess(channel, Slots(slots), configuration)
            engine.run()
    except OSError:  # the front process is gone
        pass
    sys.stderr.flush()
    os._exit(0)  # threads may still be in the kernels


if __name__ == "__main__":
    main()
