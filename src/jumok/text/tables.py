"""Rows of .tsv and .jsonl files to (source, target): strings only, no files.

A row that holds no pair raises `BadRow`, which knows the character where that shows; lines.py and check.py know the
file and the line.
"""

import json
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Literal

from jumok.errors import UsageError
from jumok.text.files import PACKED, named, printable

Kind = Literal["tsv", "jsonl"]
Pair = tuple[str, str]
Columns = tuple[str, str]  # where source and target are: what the user wrote as --columns
COLUMNAR: dict[str, Literal["parquet", "arrow"]] = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
UNREADABLE = re.compile("[\0\ud800-\udfff]")  # characters that no text may have


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


def is_columnar(path: str | Path) -> bool:
    """Whether the name says Parquet or Arrow (columnar.py)."""
    return Path(path).suffix.lower() in COLUMNAR


def parse_columns(text: str) -> Columns:
    """Return the two names of `--columns en,de`: source first, then target."""
    names = tuple(name.strip() for name in text.split(","))
    if len(names) != 2 or not all(names):
        raise UsageError(
            f"--columns takes two names, source and target, not {text!r}",
            hint="try: --columns en,de   or: --columns 1,2",
        )
    if names[0] == names[1]:
        raise UsageError(f"--columns names {names[0]!r} as both source and target", hint="try: --columns en,de")
    return names


def has_header(path: str | Path, columns: Columns | None, kind: Kind | None = None) -> bool:
    """Whether the first line of this file names the columns instead of holding a pair: a tsv read by names."""
    return columns is not None and (kind or kind_of(path)) == "tsv" and not _are_numbers(columns)


def row_parser(
    path: str | Path, kind: Kind | None = None, *, columns: Columns | None = None, header: str = ""
) -> Callable[[str], Pair]:
    """Return the function that reads the rows of this file; use it for one file only.

    `columns` says where source and target are.  In a tsv they are numbers from 1, or names of the first line, which
    then must be given as `header` and is not a row (see `has_header`); without `columns` they are the first two.  In
    jsonl they are keys of the row, keys inside its `translation`, or dotted paths (`text.en`).
    """
    kind = kind or kind_of(path)
    if kind not in ("tsv", "jsonl"):
        raise UsageError(
            f"cannot tell what kind of table {named(path)} is",
            hint="name it .tsv or .jsonl (before .gz, .xz or .zst), or say which kind it is",
        )
    if kind == "jsonl":
        return _jsonl_row_parser() if columns is None else partial(_named_texts, columns)
    if columns is None:
        return _tsv_row
    return partial(_cells, _numbers(columns) if _are_numbers(columns) else _places(path, header, columns))


def _tsv_row(line: str) -> Pair:
    source, tab, rest = line.partition("\t")
    if not tab:
        raise BadRow("a row has no tab between source and target", len(line))
    return source, rest.partition("\t")[0]


def _are_numbers(columns: Columns) -> bool:
    return all(re.fullmatch("[0-9]{1,4}", name) for name in columns)


def _numbers(columns: Columns) -> tuple[int, int]:
    """Return two column numbers, counted from 1, as places counted from 0."""
    source, target = map(int, columns)
    if 0 in (source, target):
        raise UsageError("--columns counts from 1, not from 0", hint="try: --columns 1,2")
    if source == target:
        raise UsageError(f"--columns names column {source} as both source and target", hint="try: --columns 1,2")
    return source - 1, target - 1


def _places(path: str | Path, header: str, columns: Columns) -> tuple[int, int]:
    """Return where the header of a tsv has the two names."""
    names = [name.strip() for name in header.split("\t")]
    for column in columns:
        if names.count(column) != 1:
            state = "names no column" if column not in names else "names more than one column"
            raise UsageError(
                f"the first line of {named(path)} {state} {column!r}",
                where=f"it has {listed(names)}",
                hint="try: --columns with two of these names; or numbers, --columns 1,2, if the first line is a pair",
            )
    return names.index(columns[0]), names.index(columns[1])


def _cells(places: tuple[int, int], line: str) -> Pair:
    cells = line.split("\t", max(places) + 1)
    if len(cells) <= max(places):
        raise BadRow(f"a row has {len(cells)} of at least {max(places) + 1} columns", len(line))
    return cells[places[0]], cells[places[1]]


def _jsonl_row_parser() -> Callable[[str], Pair]:
    """A parser that remembers the order of the languages of its first translation."""
    languages: list[str] = []

    def parse(line: str) -> Pair:
        holder, source, target = _sides(_object(line), languages)
        return _text(holder, source), _text(holder, target)

    return parse


def _named_texts(columns: Columns, line: str) -> Pair:
    """Return the texts of a jsonl row that the two names stand for."""
    row = _object(line)
    source, target = (_text(*_holder(row, column)) for column in columns)
    return source, target


def _holder(row: dict[str, object], column: str) -> tuple[dict[str, object], str]:
    """Return the object that holds the text called `column`, and its key there."""
    translation = row.get("translation")
    for place in (row, translation):
        if isinstance(place, dict) and column in place:
            return place, column
    *path, key = column.split(".")
    place = row
    for step in path:
        place = place.get(step) if isinstance(place, dict) else None
    if path and isinstance(place, dict) and key in place:
        return place, key
    inside = f"; its translation has {listed(translation)}" if isinstance(translation, dict) else ""
    raise BadRow(f"a row has {listed(row)} and not {printable(column)}{inside}")


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
        raise BadRow(f"a row has {listed(row)} and not source and target")
    if not languages and len(translation) == 2:
        languages.extend(translation)
    if set(translation) != set(languages):
        raise BadRow(f"a translation has {listed(translation)} and not {listed(languages or ['two languages'])}")
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
    if UNREADABLE.search(text):
        raise BadRow(f"{printable(key)} has a NUL or half a surrogate pair in it")
    return text


def listed(names: Iterable[str]) -> str:
    """Return a few of the names in alphabetical order, as a message may show them."""
    shown = [printable(name) for name in sorted(names)]
    return ", ".join(shown[:5] + ["…"] * (len(shown) > 5)) or "nothing"
