"""Runs as they go on: their events as server-sent events, the output of tasks, and the film of a sentence.

    GET  /v1/runs/ID/events?from=4711     event: events   id: 5200   data: {"events": […]}
                                          event: state    data: {"state": "killed"}

The id of an event is the place in the run's log up to which it was read: a client that reconnects continues there.  A
run that is killed and continued goes on in the same log, so a stream that is open follows it through both.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from pydantic import Field

from jumok.monitor.runs import Run, find_state
from jumok.server.own import Closed
from jumok.server.refusals import Refusal, explain, own_shape
from jumok.server.routes import Answer, Call, Route
from jumok.server.runs import API, find
from jumok.server.streaming import EVENTS, beat, write_event
from jumok.server.workspace import FOLLOWERS

EVERY = 0.5  # seconds between two looks
MOST = 1 << 18  # bytes of a log that are sent at once; a client that is further behind reads the curves again
FILMS = 16  # films that are remembered,
WEIGHTS = 500_000  # if they have no more attention weights than this
STATES = 4  # looks between two that ask for the state of a silent run


class FollowRequest(Closed):
    begin: int | None = Field(default=None, alias="from", ge=0, le=2**62)


class FilmRequest(Closed):
    text: str = Field(min_length=1, max_length=2_000)


def stream(call: Call, events: AsyncIterator[bytes]) -> Answer:
    """Return an answer that lasts; it does not count as load, and there are not too many of them."""
    workspace = call.front.workspace
    if workspace.followers >= FOLLOWERS:
        raise Refusal(429, "server.too_many_followers").retry_after(10)

    async def counted() -> AsyncIterator[bytes]:
        workspace.followers += 1
        call.front.active -= 1
        try:
            yield b"retry: 1000\n\n"
            async for event in beat(events):
                yield event
        finally:
            workspace.followers -= 1
            call.front.active += 1

    return Answer(200, counted(), EVENTS, {"x-accel-buffering": "no"})


async def follow_run(call: Call) -> Answer:
    request, run = call.parse(FollowRequest), await find(call)
    seen = call.exchange.headers.get("last-event-id", "")
    begin = int(seen) if seen.isascii() and seen.isdigit() and len(seen) < 19 else request.begin
    return stream(call, _follow(call, run, begin))


async def _follow(call: Call, run: Run, begin: int | None) -> AsyncIterator[bytes]:
    path, state, looks = run.folder / "events.jsonl", "", 0
    place = await asyncio.to_thread(find_end, path) if begin is None else begin
    while not call.front.closing:
        events, place, missed = await asyncio.to_thread(read_more, path, place)
        if missed:
            yield write_event("reset", str(place), {"place": place})
        if events:
            yield write_event("events", str(place), {"events": events})
        if events or looks % STATES == 0:
            now = await asyncio.to_thread(find_state, run.folder)
            if now != state:
                state = now
                yield write_event("state", str(place), {"state": state})
        looks += 1
        await asyncio.sleep(EVERY)


def find_end(path: Path) -> int:
    """Return the size of a log; 0 where there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def read_more(path: Path, place: int) -> tuple[list[dict[str, Any]], int, bool]:
    """Return the events after a place, where they end, and whether some were left out because there were too many."""
    size = find_end(path)
    missed = place > size or size - place > MOST
    begin = size if place > size else max(place, size - MOST)
    try:
        with open(path, "rb") as file:
            file.seek(begin)
            content = file.read(MOST)
    except OSError:
        return [], place, False
    if missed and begin:
        skipped = content.find(b"\n") + 1
        begin, content = begin + skipped, content[skipped:]
    content = content[: content.rfind(b"\n") + 1]
    events = []
    for line in content.split(b"\n"):
        try:
            event = json.loads(line, parse_constant=lambda name: None)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            events.append(event)
    return events, begin + len(content), missed


async def list_tasks(call: Call) -> dict[str, Any]:
    return {"tasks": [task.describe() for task in call.front.workspace.children.tasks.values()]}


async def follow_task(call: Call) -> Answer:
    task = call.front.workspace.children.tasks.get(call.path["id"])
    if task is None:
        raise Refusal(404, "server.no_such_task")

    async def events() -> AsyncIterator[bytes]:
        place: int | None = None
        while not call.front.closing:
            running = task.running
            text, end = await asyncio.to_thread(task.read_tail, place)
            if end != place and text:
                yield write_event("output", str(end), {"text": text})
            place = end
            if not running:
                yield write_event("end", str(end), task.describe())
                return
            await asyncio.sleep(EVERY)

    return stream(call, events())


async def stop_task(call: Call) -> dict[str, Any]:
    task = call.front.workspace.children.tasks.get(call.path["id"])
    if task is None:
        raise Refusal(404, "server.no_such_task")
    if task.running:
        task.process.terminate()
    return task.describe()


async def show_film(call: Call) -> Answer:
    request, run = call.parse(FilmRequest), await find(call)
    return stream(call, _play(call, run, " ".join(request.text.split())))


async def _play(call: Call, run: Run, text: str) -> AsyncIterator[bytes]:
    """Yield the frames of a film, remembered or made now; a failure is the last event."""
    films, folder = call.front.workspace.films, run.folder / "snapshots"
    steps = await asyncio.to_thread(lambda: tuple(sorted(path.name for path in folder.glob("step-*"))))
    name = (run.id, text, steps)
    try:
        if not steps:
            raise Refusal(404, "server.no_snapshots")
        frames = films.get(name)
        if frames is None:
            frames = []
            async for line in call.front.workspace.children.read(["film", str(run.folder), "-", "--json"], stdin=text):
                frames.append(json.loads(line))
                yield write_event("frame", str(len(frames)), frames[-1])
            if sum(len(row) for frame in frames for row in frame.get("attention", ())) <= WEIGHTS:
                films[name] = frames
            while len(films) > FILMS:
                del films[next(iter(films))]
        else:
            for number, frame in enumerate(frames, start=1):
                yield write_event("frame", str(number), frame)
        yield write_event("done", "end", {"frames": len(frames)})
    except (Refusal, ValueError) as error:
        yield write_event("error", "error", own_shape(explain(error), call.id))


ROUTES = [
    Route("GET", "/v1/runs/{id}/events", follow_run, API, "Follow a run, as server-sent events.", FollowRequest, None,
          media_type=EVENTS, who="admins"),
    Route("POST", "/v1/runs/{id}/film", show_film, API, "A sentence over the snapshots of a run, as events.",
          FilmRequest, None, media_type=EVENTS, who="admins"),
    Route("GET", "/v1/tasks", list_tasks, API, "List the trainings and claims that this server started.", None,
          dict[str, Any], who="admins"),
    Route("GET", "/v1/tasks/{id}/events", follow_task, API, "Follow the output of a task, as server-sent events.", None,
          None, media_type=EVENTS, who="admins"),
    Route("POST", "/v1/tasks/{id}/stop", stop_task, API, "Ask a task to end.", None, dict[str, Any], who="admins"),
]  # fmt: skip
