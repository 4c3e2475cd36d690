"""Rows of .tsv and .jsonl files to (source, target): strings only, no files.

A row that holds no pair raises `BadRow`, which knows the character where that shows; lines.py and check.py know the
file and the line.
"""

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from jumok.errors import UsageError
from jumok.text.files import PACKED, named, printable

Kind = Literal["tsv", "jsonl"]
Pair = tuple[str, str]


class BadRow(Exception):
    """A row that holds no pair; `position` is the character where that shows."""

    def __init__(self, problem: str, position: int = 0) -> None:
        self.problem, self.position = problem, position
        super().__init__(problem)


def kind_of(path: str | Path) -> Kind | None:
    """What a file's name says before its compression suffix; None if it is neither tsv nor jsonl."""
    bare = Path(path).with_suffix("") if Path(path).suffix.lower() in PACKED else Path(path)
    kinds: dict[str, Kind] = {".tsv": "tsv", ".jsonl": "jsonl"}
    return kinds.get(bare.suffix.lower())


def row_parser(path: str | Path, kind: Kind | None = None) -> Callable[[str], Pair]:
    """The function that reads the rows of this file; use it for one file only."""
    kind = kind or kind_of(path)
    if kind not in ("tsv", "jsonl"):
        raise UsageError(
            f"cannot tell what kind of table {named(path)} is",
            hint="name it .tsv or .jsonl (before .gz, .xz or .zst), or say which kind it is",
        )
    return _tsv_row if kind == "tsv" else _jsonl_row_parser()


def _tsv_row(line: str) -> Pair:
    source, tab, rest = line.partition("\t")
    if not tab:
        raise BadRow("a row has no tab between source and target", len(line))
    return source, rest.partition("\t")[0]


def _jsonl_row_parser() -> Callable[[str], Pair]:
    """A parser that remembers the order of the languages of its first translation."""
    languages: list[str] = []

    def parse(line: str) -> Pair:
        holder, source, target = _sides(_object(line), languages)
        return _text(holder, source), _text(holder, target)

    return parse


def with_texts(line: str, change: Callable[[str], str]) -> str:
    """A row of jsonl that holds a pair, with its two texts changed; the same, byte for byte, if nothing changes."""
    row = _object(line)
    holder, *sides = _sides(row, [])
    changed: dict[str, object] = {side: change(_text(holder, side)) for side in sides}
    if changed.items() <= holder.items():
        return line
    holder.update(changed)
    return json.dumps(row, ensure_ascii=False)


def _sides(row: dict[str, object], languages: list[str]) -> tuple[dict[str, object], str, str]:
    """Where the two texts of a row are: the object that holds them and their keys."""
    for source, target in (("source", "target"), ("src", "tgt")):
        if source in row and target in row:
            return row, source, target
    translation = row.get("translation")
    if not isinstance(translation, dict):
        raise BadRow(f"a row has {_listed(row)} and not source and target")
    if not languages and len(translation) == 2:
        languages.extend(translation)
    if set(translation) != set(languages):
        raise BadRow(f"a translation has {_listed(translation)} and not {_listed(languages or ['two languages'])}")
    source, target = languages
    return translation, source, target


def _object(line: str) -> dict[str, object]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise BadRow(f"a row is not JSON: {error.msg}", error.pos) from None
    except (RecursionError, ValueError):  # nested a thousand deep, or a number of thousands of digits
        raise BadRow("a row is JSON of absurd depth or size") from None
    if not isinstance(row, dict):
        raise BadRow("a row is not a JSON object with source and target")
    return row


def _text(row: dict[str, object], key: str) -> str:
    text = row[key]
    if not isinstance(text, str):
        raise BadRow(f"{printable(key)} is {'null' if text is None else 'a ' + type(text).__name__}, not text")
    if re.search("[\0\ud800-\udfff]", text):
        raise BadRow(f"{printable(key)} has a NUL or half a surrogate pair in it")
    return text


def _listed(names: Iterable[str]) -> str:
    shown = [printable(name) for name in sorted(names)]
    return ", ".join(shown[:5] + ["…"] * (len(shown) > 5)) or "nothing"
