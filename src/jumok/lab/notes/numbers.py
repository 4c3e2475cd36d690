"""The numbers of the page about the notes, read from what commands have written.

    example:norms/batch_means           docs/notes/norms.json, written by `jumok example norms --out docs/notes`
    lab:table-1/lanes/attention/chain/-1/1    docs/lab/table-1.json, below its numbers
    result:10-race/rows/0/1             docs/results/10-race.json

What follows the name are keys and places in lists, down to one number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jumok.errors import UsageError

FOLDERS = {"example": "notes", "lab": "lab", "result": "results"}
COMMANDS = {"example": "jumok example {name} --out docs/notes", "lab": "jumok lab {name}"}


def find_file(path: str, docs: Path) -> Path:
    """The finding that a path leads into."""
    kind, _, rest = path.partition(":")
    return docs / FOLDERS[kind] / f"{rest.split('/')[0]}.json"


def read_number(path: str, docs: Path) -> Any:
    """The number at the end of a path; an error says which finding lacks it and what computes it again."""
    value = read_value(path, docs)
    if isinstance(value, Mapping | list):
        kind, _, rest = path.partition(":")
        name, *keys = rest.split("/")
        command = COMMANDS.get(kind, "").format(name=name)
        key = keys[-1] if keys else name
        raise UsageError("lab.missing_number", file=find_file(path, docs), path=path, key=key, command=command)
    return value


def read_value(path: str, docs: Path) -> Any:
    """Whatever is at the end of a path: a number, a text, a list or a table."""
    kind, _, rest = path.partition(":")
    name, *keys = rest.split("/")
    file, command = find_file(path, docs), COMMANDS.get(kind, "").format(name=name)
    try:
        value: Any = json.loads(file.read_bytes())
    except FileNotFoundError:
        raise UsageError("lab.missing_finding", file=file, path=path, command=command) from None
    value = value if kind == "result" else value["numbers"]
    for key in keys:
        try:
            value = value[key] if isinstance(value, Mapping) else value[int(key)]
        except (KeyError, IndexError, ValueError, TypeError):
            raise UsageError("lab.missing_number", file=file, path=path, key=key, command=command) from None
    return value


def collect(figures: Mapping[str, Mapping[str, Any]], docs: Path) -> dict[str, Any]:
    """Every number that the figures name, by its path."""
    paths = {path for figure in figures.values() for path in figure.get("values", {}).values()}
    return {path: read_number(path, docs) for path in sorted(paths)}
