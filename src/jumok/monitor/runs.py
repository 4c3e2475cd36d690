"""The runs of a workspace, and the state of each: running, stopped, finished or killed.

    for run in find_runs(workspace): print(run.name, find_state(run.folder))

A run is a folder with `recipe.toml` and `events.jsonl`.  Folders are looked for below the workspace only: links are not
followed, hidden folders are left out, and the search ends after a fixed number of entries.  Elsewhere a run is known by
its id, a hash of its place, so that no request ever names a path.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jumok.disk.locks import find_holder
from jumok.text.files import PACKED
from jumok.text.languages import is_canonical

State = Literal["running", "stopped", "finished", "killed"]
DEEPEST, ENTRIES = 6, 50_000  # folders below the workspace, and entries that are looked at
RUNS, TEXTS = 500, 2_000  # most that are listed
TAIL = 65_536  # bytes at the end of a log in which the newest events are looked for
TABLES = {".txt", ".tsv", ".jsonl"}
MARKS = ("recipe.toml", "events.jsonl")
INSIDE = {"checkpoints", "snapshots", "tensorboard", "model", "data"}  # folders of a run, in which there are no texts


@dataclass(frozen=True)
class Run:
    """A folder that holds a run."""

    id: str
    name: str  # its place below the workspace, or the name of the model that is served from it
    folder: Path
    served: str | None = None


def identify(folder: Path) -> str:
    """Return the id of a run."""
    return hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:16]


def walk(workspace: Path) -> Iterator[tuple[Path, list[os.DirEntry[str]]]]:
    """Yield the folders below a workspace with their entries, without links and hidden ones."""
    waiting, looked = [(workspace, 0)], 0
    while waiting:
        folder, depth = waiting.pop()
        try:
            with os.scandir(folder) as listed:
                entries = sorted((one for one in listed if not one.name.startswith(".")), key=lambda one: one.name)
        except OSError:
            continue
        looked += len(entries)
        if looked > ENTRIES:
            return
        yield folder, entries
        is_run = is_run_folder(entries)
        if depth < DEEPEST:
            below = [one for one in entries if one.is_dir(follow_symlinks=False)]
            waiting += [(Path(one.path), depth + 1) for one in reversed(below) if not (is_run and one.name in INSIDE)]


def is_run_folder(entries: list[os.DirEntry[str]]) -> bool:
    """Whether these are the entries of a run's folder."""
    names = {one.name for one in entries if one.is_file(follow_symlinks=False)}
    return names.issuperset(MARKS)


def find_runs(workspace: Path | None, served: dict[str, Path] | None = None) -> list[Run]:
    """Return the runs below a workspace, and those that models are served from."""
    runs: dict[str, Run] = {}
    for name, folder in (served or {}).items():
        place = folder.parent if folder.name == "model" and not is_run_place(folder) else folder
        if is_run_place(place):
            runs[identify(place)] = Run(identify(place), name, place, served=name)
    for folder, entries in walk(workspace) if workspace is not None else ():
        if len(runs) >= RUNS:
            break
        if is_run_folder(entries):
            assert workspace is not None
            known, name = runs.get(identify(folder)), str(folder.relative_to(workspace))
            label = folder.name if name == "." else name
            runs[identify(folder)] = Run(identify(folder), label, folder, served=known.served if known else None)
    return sorted(runs.values(), key=lambda run: run.name)


def is_run_place(folder: Path) -> bool:
    """Whether a folder holds a run."""
    return all((folder / name).is_file() for name in MARKS)


def find_state(folder: Path) -> State:
    """Return whether a run is being trained, and how it ended if not."""
    holder = find_holder(folder)
    if holder is not None:
        return "running" if holder.alive else "killed"
    newest = next((event for event in read_last(folder) if event["event"] in ("finished", "stopped", "begin")), None)
    return "finished" if newest is not None and newest["event"] == "finished" else "stopped"


def read_last(folder: Path) -> list[dict[str, Any]]:
    """Return the newest events of a run, newest first, from the end of its log."""
    try:
        with open(folder / "events.jsonl", "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL))
            lines = file.read(TAIL).split(b"\n")[1 if size > TAIL else 0 :]
    except OSError:
        return []
    events = []
    for line in reversed(lines):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            events.append(event)
    return events


def summarize(run: Run) -> dict[str, Any]:
    """Return what a list of runs shows of one."""
    events = read_last(run.folder)
    step = next((event for event in events if event["event"] in ("step", "finished", "validation")), {})
    scored = next((event for event in events if event["event"] in ("finished", "validation")), {})
    holder = find_holder(run.folder)
    names = ("bleu", "accuracy", "loss", "nats")
    return {
        "id": run.id, "name": run.name, "served": run.served, "state": find_state(run.folder),
        "step": _plain(step.get("step")), "horizon": _plain(step.get("horizon")), "wall": _plain(step.get("wall")),
        "time": _plain(events[0].get("time")) if events else None,
        "scores": {name: scored[name] for name in names if _plain(scored.get(name)) is not None},
        "process": None if holder is None else {"pid": holder.pid, "host": holder.host, "began": holder.began},
        "snapshots": count_snapshots(run.folder),
    }  # fmt: skip


def count_snapshots(folder: Path) -> int:
    """Return how many snapshots a run has."""
    try:
        with os.scandir(folder / "snapshots") as entries:
            return sum(re.fullmatch(r"step-[0-9]{8,15}", one.name) is not None for one in entries)
    except OSError:
        return 0


def _plain(value: Any) -> float | int | None:
    return value if type(value) in (int, float) else None


def find_texts(workspace: Path) -> list[dict[str, Any]]:
    """Return the files below a workspace that a run can be trained on: their places below it, and sizes."""
    texts: list[dict[str, Any]] = []
    for folder, entries in walk(workspace):
        if is_run_folder(entries):
            continue
        for entry in entries:
            if not entry.is_file(follow_symlinks=False) or not is_text(entry.name):
                continue
            size = entry.stat(follow_symlinks=False).st_size
            if size:
                texts.append({"name": str((folder / entry.name).relative_to(workspace)), "bytes": size})
            if len(texts) >= TEXTS:
                return texts
    return sorted(texts, key=lambda text: text["name"])


def is_text(name: str) -> bool:
    """Whether a file looks like training text: a table, or one language, named by its extension."""
    path = Path(name)
    if path.suffix in PACKED:
        path = path.with_suffix("")
    if path.suffix.lower() in TABLES:
        return True
    return len(path.suffix) > 2 and is_canonical(path.suffix[1:])
