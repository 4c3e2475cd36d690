"""Races over HTTP: the reports on disk below the workspace, and starting one from texts that the server lists."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic import Field

from jumok.monitor.runs import walk
from jumok.server import frames
from jumok.server.refusals import Refusal
from jumok.server.routes import Answer, Call, Route
from jumok.server.runs import API, RECIPES, StartRequest, choose_folder, choose_texts

LARGEST = 20_000_000  # bytes of a report
MODELS = ("transformer", "rnn", "convs2s", "bytenet")  # those that translate


class RaceRequest(StartRequest):
    models: list[str] = Field(min_length=1, max_length=len(MODELS), description="Which models race.")
    minutes: float = Field(gt=0, le=1_440, allow_inf_nan=False, description="For each model.")


async def list_races(call: Call) -> dict[str, Any]:
    workspace = call.front.workspace
    races = await asyncio.to_thread(find_races, workspace.folder) if workspace.folder is not None else []
    task = next((one.id for one in workspace.children.list_running("race")), None)
    return {
        "races": [{key: value for key, value in one.items() if key != "folder"} for one in races],
        "models": list(MODELS), "recipes": list(RECIPES), "can_start": workspace.folder is not None, "task": task,
    }  # fmt: skip


def find_races(workspace: Path) -> list[dict[str, Any]]:
    """Return the reports of races below a workspace."""
    races = []
    for folder, entries in walk(workspace):
        names = {entry.name for entry in entries if entry.is_file(follow_symlinks=False)}
        if not names >= {"report.json", "report.html"}:
            continue
        try:
            if (folder / "report.json").stat().st_size > LARGEST:
                continue
            values = json.loads((folder / "report.json").read_bytes())
            rows = [
                {"name": str(row["name"]), "bleu": row["scores"]["bleu"]["value"], "parameters": row["parameters"]}
                for row in values["contenders"]
            ]
            budget = str(values["budget"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
        id = hashlib.sha256(str(folder).encode("utf-8", "replace")).hexdigest()[:16]
        place = str(folder.relative_to(workspace))
        races.append({"id": id, "name": place, "budget": budget, "contenders": rows, "folder": folder})
    return races


async def start_race(call: Call) -> dict[str, Any]:
    request, workspace = call.parse(RaceRequest), call.front.workspace
    place = workspace.place
    out = choose_folder(place, request.name)
    if unknown := next((name for name in request.models if name not in MODELS), None):
        reason = f"{unknown!r} is none of {', '.join(MODELS)}"
        raise Refusal(400, "server.bad_parameter", parameter="models", reason=reason)
    if len(set(request.models)) < len(request.models):
        raise Refusal(400, "server.bad_parameter", parameter="models", reason="one of them is named twice")
    if workspace.children.list_running("race"):
        raise Refusal(409, "server.race_running")
    arguments = ["race", "--models", ",".join(request.models), *await choose_texts(request, place)]
    arguments += ["--recipe", request.recipe, "--minutes", f"{request.minutes:g}", "--out", str(out)]
    task = await workspace.children.start("race", f"runs/{request.name}", arguments, folder=place, detached=True)
    call.front.log.write("race_started", task=task.id)
    return task.describe()


async def show_race(call: Call) -> Answer:
    return await frames.answer(await find_report(call))


async def lend_race(call: Call) -> dict[str, Any]:
    return call.front.workspace.frames.lend(await find_report(call))


async def find_report(call: Call) -> Path:
    """Return the page of the race that a request names."""
    races = await asyncio.to_thread(find_races, call.front.workspace.place)
    race = next((one for one in races if one["id"] == call.path["id"]), None)
    if race is None or (race["folder"] / "report.html").stat().st_size > LARGEST:
        raise Refusal(404, "server.no_such_finding")
    page: Path = race["folder"] / "report.html"
    return page


ROUTES = [
    Route("GET", "/v1/races", list_races, API, "List the reports of races.", None, dict[str, Any], who="admins"),
    Route("POST", "/v1/races", start_race, API, "Train several models alike and compare them.", RaceRequest,
          dict[str, Any], who="admins"),
    Route("GET", "/v1/races/{id}/page", show_race, API, "The report of a race.", None, None, media_type="text/html",
          who="admins"),
    Route("POST", "/v1/races/{id}/address", lend_race, API, "An address that opens the report for a minute.", None,
          dict[str, Any], who="admins"),
]  # fmt: skip
