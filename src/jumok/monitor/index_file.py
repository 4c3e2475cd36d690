"""An index on disk: one file of arrays, which is replaced as a whole and read without running code."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from jumok.monitor.index import CLOCK, NOTES, UPDATES, Index, Reading
from jumok.monitor.pyramid import Pyramid

FORMAT = 1
PARTS = ("updates", "clock")


def name_file(cache: Path, run: Path) -> Path:
    """Return the file in which the index of a run is kept."""
    return cache / f"{hashlib.sha256(os.fsencode(run.absolute())).hexdigest()[:24]}.npz"


def save(index: Index, path: Path) -> None:
    """Write the index; a full disk costs the file, and the next server reads the logs again."""
    about = {
        "format": FORMAT, "run": str(index.run.absolute()), "validations": index.validations, "newest": index.newest,
        "notes": list(index.notes), "attempts": index.attempts,
        "files": [[one.place, one.tail.hex()] for one in (index.events, index.losses)],
    }  # fmt: skip
    arrays: dict[str, Any] = {"about": np.frombuffer(json.dumps(about).encode(), np.uint8)}
    for part in PARTS:
        arrays |= {f"{part}.{name}": array for name, array in getattr(index, part).to_arrays().items()}
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(partial, "wb") as file:
            np.savez(file, **arrays)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)


def load(run: Path, path: Path) -> Index:
    """Return the index of a run as it was saved; an empty one if there is none that can be read."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            return _read(run, {name: arrays[name] for name in arrays.files})
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile):
        return Index(run)


def _read(run: Path, arrays: dict[str, Any]) -> Index:
    about = json.loads(arrays["about"].tobytes())
    if about["format"] != FORMAT or about["run"] != str(run.absolute()):
        raise ValueError("another format, or another run")
    columns = dict(zip(PARTS, (UPDATES, CLOCK), strict=True))
    pyramids = {
        part: Pyramid.of_arrays(
            columns[part], {name.partition(".")[2]: arrays[name] for name in arrays if name.startswith(f"{part}.")}
        )
        for part in PARTS
    }
    events, losses = (Reading(int(place), bytes.fromhex(tail)) for place, tail in about["files"])
    return Index(
        run, **pyramids, events=events, losses=losses, validations=list(about["validations"]),
        newest=dict(about["newest"]), notes=deque(about["notes"], NOTES), attempts=list(about["attempts"]), share=1.0,
    )  # fmt: skip
