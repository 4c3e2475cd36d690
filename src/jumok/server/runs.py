"""Runs over HTTP: which there are, their curves, samples and recipes; start, pause, continue and stop.

Everything here is for the server's own page on this machine, or for an administrator's key: a page of another origin
can neither read nor change a run.  A request names a run by its id and a text by its place in the list of texts; no
path that a client makes up is ever opened.
"""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path
from typing import Any

from pydantic import Field

from jumok.config import presets
from jumok.disk.locks import find_holder, signal_holder
from jumok.errors import JumokError
from jumok.monitor.curves import Axis
from jumok.monitor.runs import Run, find_state, find_texts, summarize
from jumok.server.own import Closed
from jumok.server.refusals import Refusal, own_shape
from jumok.server.routes import Api, Call, Route
from jumok.storage.bundle import saved_recipe

API = Api("runs", "Runs", own_shape)
POINTS = 2_000
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
PATIENCE = 15.0  # seconds after which a run that was asked to stop is killed
RECIPES = ("auto", *presets.NAMED)


class CurvesRequest(Closed):
    axis: Axis = "step"
    begin: int = Field(default=0, ge=0, le=10**12)
    end: int | None = Field(default=None, ge=0, le=10**12)
    points: int = Field(default=500, ge=10, le=POINTS)


class SamplesRequest(Closed):
    most: int = Field(default=20, ge=1, le=200)


class DifferencesRequest(Closed):
    other: str = Field(max_length=64)


class StartRequest(Closed):
    name: str = Field(max_length=40, description="Name of the run: letters, digits, - and _.")
    source: str | None = Field(default=None, max_length=4_096, description="A text of /v1/texts.")
    target: str | None = Field(default=None, max_length=4_096)
    table: str | None = Field(default=None, max_length=4_096, description="Or one file with both sides.")
    valid_source: str | None = Field(default=None, max_length=4_096)
    valid_target: str | None = Field(default=None, max_length=4_096)
    recipe: str = Field(default="auto", max_length=40)
    minutes: float = Field(gt=0, le=10_080, allow_inf_nan=False)


async def list_runs(call: Call) -> dict[str, Any]:
    workspace = call.front.workspace
    runs = await workspace.list(fresh=True)
    rows = await asyncio.to_thread(lambda: [summarize(run) for run in runs])
    return {"runs": rows, "can_start": workspace.folder is not None, "recipes": list(RECIPES)}


async def show_run(call: Call) -> dict[str, Any]:
    run = await find(call)
    about = await call.front.workspace.open(run).look(describe)
    return await asyncio.to_thread(summarize, run) | about


def describe(index: Any) -> dict[str, Any]:
    """Return what a run says of itself: its plan, its text, its newest notes."""
    return {
        **{kind: index.newest.get(kind) for kind in ("begin", "corpus", "disk", "plan", "finished")},
        "notes": list(index.notes)[-50:], "attempts": index.attempts, "place": index.events.place,
    }  # fmt: skip


async def draw_curves(call: Call) -> Any:
    request = call.parse(CurvesRequest)
    from jumok.monitor.curves import draw

    asked = request.model_dump()
    return await call.front.workspace.open(await find(call)).look(lambda index: draw(index, **asked))


async def list_samples(call: Call) -> dict[str, Any]:
    request, run = call.parse(SamplesRequest), await find(call)
    places = await call.front.workspace.open(run).look(
        lambda index: [one["place"] for one in index.validations[-request.most :]]
    )
    return {"samples": await asyncio.to_thread(read_samples, run, places)}


def read_samples(run: Run, places: list[int]) -> list[dict[str, Any]]:
    """Return the sentences of validations, read where the index says they are."""
    import json

    samples = []
    try:
        with open(run.folder / "events.jsonl", "rb") as file:
            for place in places:
                file.seek(place)
                try:
                    event = json.loads(file.readline(1 << 20))
                except (ValueError, RecursionError):
                    continue
                if isinstance(event, dict):
                    names = ("step", "time", "sample", "bleu", "accuracy", "loss", "better")
                    samples.append({name: event[name] for name in names if name in event})
    except OSError:
        pass
    return samples


async def show_recipe(call: Call) -> dict[str, Any]:
    return {"recipe": await asyncio.to_thread(flatten_recipe, await find(call))}


def flatten_recipe(run: Run) -> dict[str, Any]:
    """Return the settings of a run by dotted keys."""
    try:
        values = saved_recipe(run.folder).model_dump(mode="json")
    except JumokError:
        raise Refusal(422, "server.bad_run") from None
    return dict(_flatten(values, ""))


def _flatten(values: dict[str, Any], before: str) -> Any:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{before}{name}.")
        else:
            yield before + name, value


async def compare_recipes(call: Call) -> dict[str, Any]:
    request, run = call.parse(DifferencesRequest), await find(call)
    other = await call.front.workspace.find(request.other)
    one, two = await asyncio.to_thread(lambda: (flatten_recipe(run), flatten_recipe(other)))
    different = sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))
    return {"differences": [{"key": name, "one": one.get(name), "two": two.get(name)} for name in different]}


async def list_texts(call: Call) -> dict[str, Any]:
    return {"texts": await asyncio.to_thread(find_texts, call.front.workspace.place)}


async def start_run(call: Call) -> dict[str, Any]:
    request, workspace = call.parse(StartRequest), call.front.workspace
    place = workspace.place
    out = choose_folder(place, request.name)
    texts = await choose_texts(request, place)
    arguments = ["train", "--recipe", request.recipe, "--minutes", f"{request.minutes:g}", *texts, "--out", str(out)]
    task = await workspace.children.start("train", f"runs/{request.name}", arguments, folder=place, detached=True)
    call.front.log.write("run_started", task=task.id)
    return task.describe()


def choose_folder(place: Path, name: str) -> Path:
    """Return the folder of a new run below a workspace."""
    runs = place / "runs"
    if not NAME.fullmatch(name):
        raise Refusal(400, "server.bad_run_name")
    if runs.is_symlink() or (runs / name).exists() or (runs / name).is_symlink():
        raise Refusal(409, "server.run_exists")
    return runs / name


async def choose_texts(request: StartRequest, place: Path) -> list[str]:
    """Return the arguments that name the texts of a run, all of which the server has listed."""
    if request.recipe not in RECIPES:
        raise Refusal(400, "server.bad_parameter", parameter="recipe", reason=f"must be one of {', '.join(RECIPES)}")
    if (request.table is None) == (request.source is None) or (request.source is None) != (request.target is None):
        raise Refusal(400, "server.texts_of_a_run")
    listed = {text["name"] for text in await asyncio.to_thread(find_texts, place)}
    arguments: list[str] = []
    for name in ("source", "target", "table", "valid_source", "valid_target"):
        if (given := getattr(request, name)) is not None:
            if given not in listed:
                raise Refusal(404, "server.no_such_text", parameter=name)
            arguments += [f"--{name.replace('_', '-')}", str(place / given)]
    return arguments


async def pause_run(call: Call) -> dict[str, Any]:
    return await end_run(call, await find(call), patience=None)


async def stop_run(call: Call) -> dict[str, Any]:
    return await end_run(call, await find(call), patience=PATIENCE)


async def end_run(call: Call, run: Run, *, patience: float | None) -> dict[str, Any]:
    """Ask a run to save and exit; one that does not within its patience is killed."""
    if not await asyncio.to_thread(signal_holder, run.folder, signal.SIGTERM):
        raise Refusal(409, "server.run_not_running")
    call.front.log.write("run_ended", patience=patience)
    if patience is not None:
        task = asyncio.create_task(kill_later(run, patience))
        call.front.background.add(task)
        task.add_done_callback(call.front.background.discard)
    return {"id": run.id, "asked": True}


async def kill_later(run: Run, patience: float) -> None:
    """Kill the process that holds a run now, if it still does after some time."""
    holder = await asyncio.to_thread(find_holder, run.folder)
    await asyncio.sleep(patience)
    if holder is not None and holder.alive and await asyncio.to_thread(find_holder, run.folder) == holder:
        await asyncio.to_thread(signal_holder, run.folder, signal.SIGKILL)


async def continue_run(call: Call) -> dict[str, Any]:
    run, workspace = await find(call), call.front.workspace
    if workspace.folder is None or not run.folder.is_relative_to(workspace.folder):
        raise Refusal(403, "server.run_outside")
    state = await asyncio.to_thread(find_state, run.folder)
    if state == "running":
        raise Refusal(409, "server.run_running")
    if state == "finished":
        raise Refusal(409, "server.run_finished")
    arguments = ["train", "--recipe", str(run.folder / "recipe.toml"), "--out", str(run.folder)]
    task = await workspace.children.start("train", run.name, arguments, folder=workspace.folder, detached=True)
    call.front.log.write("run_continued", task=task.id)
    return task.describe()


async def find(call: Call) -> Run:
    """Return the run that a request names."""
    return await call.front.workspace.find(call.path["id"])


def _admin(method: str, path: str, handle: Any, summary: str, request: Any = None) -> Route:
    return Route(method, path, handle, API, summary, request, dict[str, Any], who="admins")


ROUTES = [
    _admin("GET", "/v1/runs", list_runs, "List the runs of the workspace and of the models."),
    _admin("POST", "/v1/runs", start_run, "Train on texts of the workspace.", StartRequest),
    _admin("GET", "/v1/texts", list_texts, "List the texts of the workspace."),
    _admin("GET", "/v1/runs/{id}", show_run, "One run: its state, plan and notes."),
    _admin("GET", "/v1/runs/{id}/curves", draw_curves, "Loss, rate, norm, speed and scores, thinned.", CurvesRequest),
    _admin("GET", "/v1/runs/{id}/samples", list_samples, "The translations of validations.", SamplesRequest),
    _admin("GET", "/v1/runs/{id}/recipe", show_recipe, "The settings of a run."),
    _admin("GET", "/v1/runs/{id}/differences", compare_recipes, "How two recipes differ.", DifferencesRequest),
    _admin("POST", "/v1/runs/{id}/pause", pause_run, "Ask a run to save and exit."),
    _admin("POST", "/v1/runs/{id}/continue", continue_run, "Continue a run where it was stopped."),
    _admin("POST", "/v1/runs/{id}/stop", stop_run, "End a run: as pausing, and killed if it does not exit."),
]  # fmt: skip
