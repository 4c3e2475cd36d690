"""Rows of .tsv and .jsonl files to (source, target): strings only, no files.

A row without a pair raises `BadRow` with the character where the problem is; lines.py and check.py add the file and
the line.
"""

import json
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Literal

from jumok.errors import UsageError
from jumok.messages import Message
from jumok.text.files import PACKED, display_name, printable

Kind = Literal["tsv", "jsonl"]
Pair = tuple[str, str]
Columns = tuple[str, str]  # names or numbers of source and target, as the user wrote them in --columns
COLUMNAR: dict[str, Literal["parquet", "arrow"]] = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
UNREADABLE = re.compile("[\0\ud800-\udfff]")  # characters that no text may contain


class BadRow(Exception):
    """A row without a pair; `position` is the character where the problem is."""

    def __init__(self, problem: Message | str, position: int = 0) -> None:
        self.problem, self.position = problem, position
        super().__init__(problem)


def kind_of(path: str | Path) -> Kind | None:
    """The kind of a table by its name, compressed or not; None if it is neither tsv nor jsonl."""
    bare = Path(path).with_suffix("") if Path(path).suffix.lower() in PACKED else Path(path)
    kinds: dict[str, Kind] = {".tsv": "tsv", ".jsonl": "jsonl"}
    return kinds.get(bare.suffix.lower())


def is_unfinished(line: bytes) -> bool:
    """Return whether a row of jsonl ends within its object or within a string, as one does that was cut off."""
    depth, quoted, escaped = 0, False, False
    for byte in line:
        if escaped:
            escaped = False
        elif byte == ord("\\"):
            escaped = quoted
        elif byte == ord('"'):
            quoted = not quoted
        elif not quoted:
            depth += (byte == ord("{")) - (byte == ord("}"))
    return line.startswith(b"{") and (quoted or depth > 0)


def is_columnar(path: str | Path) -> bool:
    """Whether the name says Parquet or Arrow (columnar.py)."""
    return Path(path).suffix.lower() in COLUMNAR


def parse_columns(text: str) -> Columns:
    """The two names in `--columns en,de`: source first, then target."""
    names = tuple(name.strip() for name in text.split(","))
    if len(names) != 2 or not all(names):
        raise UsageError("text.not_two_columns", given=text)
    if names[0] == names[1]:
        raise UsageError("text.same_column", column=names[0])
    return names


def has_header(path: str | Path, columns: Columns | None, kind: Kind | None = None) -> bool:
    """Whether the first line of this file names the columns: that of a tsv whose columns are given by name."""
    return columns is not None and (kind or kind_of(path)) == "tsv" and not _are_numbers(columns)


def row_parser(
    path: str | Path, kind: Kind | None = None, *, columns: Columns | None = None, header: str = ""
) -> Callable[[str], Pair]:
    """A function that parses the rows of this file; it must not be used for another file.

    `columns` says where source and target are.  In a tsv they are numbers from 1, or names in the first line, which
    must then be given as `header` and is not a row (see `has_header`); without `columns` they are the first two.  In
    jsonl they are keys of the row, keys inside its `translation`, or dotted paths (`text.en`).
    """
    kind = kind or kind_of(path)
    if kind not in ("tsv", "jsonl"):
        raise UsageError("text.unknown_table", file=display_name(path))
    if kind == "jsonl":
        return _jsonl_row_parser() if columns is None else partial(_parse_named, columns)
    if columns is None:
        return _parse_tsv
    return partial(_parse_cells, _numbers(columns) if _are_numbers(columns) else _find_in_header(path, header, columns))


def _parse_tsv(line: str) -> Pair:
    source, tab, rest = line.partition("\t")
    if not tab:
        raise BadRow(Message("text.no_tab"), len(line))
    return source, rest.partition("\t")[0]


def _are_numbers(columns: Columns) -> bool:
    return all(re.fullmatch("[0-9]{1,4}", name) for name in columns)


def _numbers(columns: Columns) -> tuple[int, int]:
    """Two column numbers that count from 1 as indices that count from 0."""
    source, target = map(int, columns)
    if 0 in (source, target):
        raise UsageError("text.column_zero")
    if source == target:
        raise UsageError("text.same_column_number", number=source)
    return source - 1, target - 1


def _find_in_header(path: str | Path, header: str, columns: Columns) -> tuple[int, int]:
    """The indices of the two names in the header of a tsv."""
    names = [name.strip() for name in header.split("\t")]
    for column in columns:
        if column not in names:
            raise UsageError("text.not_in_header", file=display_name(path), column=column, columns=list_names(names))
        if names.count(column) > 1:
            raise UsageError("text.twice_in_header", file=display_name(path), column=column, columns=list_names(names))
    return names.index(columns[0]), names.index(columns[1])


def _parse_cells(indices: tuple[int, int], line: str) -> Pair:
    needed = max(indices) + 1
    cells = line.split("\t", needed)
    if len(cells) < needed:
        raise BadRow(Message("text.too_few_columns", {"columns": len(cells), "needed": needed}), len(line))
    return cells[indices[0]], cells[indices[1]]


def _jsonl_row_parser() -> Callable[[str], Pair]:
    """A parser that remembers the order of the languages of its first translation."""
    languages: list[str] = []

    def parse(line: str) -> Pair:
        holder, source, target = _sides(_object(line), languages)
        return _text(holder, source), _text(holder, target)

    return parse


def list_languages(line: str) -> list[str]:
    """Return the keys of the `translation` of a jsonl row in their order; none if it has other keys."""
    try:
        _, source, target = _sides(_object(line), [])
    except BadRow:
        return []
    return [] if {source, target} in ({"source", "target"}, {"src", "tgt"}) else [source, target]


def _parse_named(columns: Columns, line: str) -> Pair:
    """The texts of a jsonl row that the two names stand for."""
    row = _object(line)
    source, target = (_text(*_holder(row, column)) for column in columns)
    return source, target


def _holder(row: dict[str, object], column: str) -> tuple[dict[str, object], str]:
    """The object that contains the text called `column`, and its key there."""
    translation = row.get("translation")
    for holder in (row, translation):
        if isinstance(holder, dict) and column in holder:
            return holder, column
    *path, key = column.split(".")
    holder = row
    for step in path:
        holder = holder.get(step) if isinstance(holder, dict) else None
    if path and isinstance(holder, dict) and key in holder:
        return holder, key
    values = {"keys": list_names(row), "column": printable(column)}
    if isinstance(translation, dict):
        raise BadRow(Message("text.no_such_key_inside", {**values, "languages": list_names(translation)}))
    raise BadRow(Message("text.no_such_key", values))


def change_texts(line: str, change: Callable[[str], str]) -> str:
    """A row of jsonl with its two texts changed; the same bytes if `change` changes neither."""
    row = _object(line)
    holder, *sides = _sides(row, [])
    changed: dict[str, object] = {side: change(_text(holder, side)) for side in sides}
    if changed.items() <= holder.items():
        return line
    holder.update(changed)
    return json.dumps(row, ensure_ascii=False)


def _sides(row: dict[str, object], languages: list[str]) -> tuple[dict[str, object], str, str]:
    """The object that contains the two texts of a row, and their keys."""
    for source, target in (("source", "target"), ("src", "tgt")):
        if source in row and target in row:
            return row, source, target
    translation = row.get("translation")
    if not isinstance(translation, dict):
        raise BadRow(Message("text.no_source_and_target", {"keys": list_names(row)}))
    if not languages and len(translation) == 2:
        languages.extend(translation)
    if not languages:
        raise BadRow(Message("text.not_two_languages", {"languages": list_names(translation)}))
    if set(translation) != set(languages):
        values = {"languages": list_names(translation), "expected": list_names(languages)}
        raise BadRow(Message("text.other_languages", values))
    source, target = languages
    return translation, source, target


def _object(line: str) -> dict[str, object]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise BadRow(Message("text.row_not_json", {"reason": error.msg}), error.pos) from None
    except (RecursionError, ValueError):  # a thousand levels of nesting, or a number with thousands of digits
        raise BadRow(Message("text.row_too_deep")) from None
    if not isinstance(row, dict):
        raise BadRow(Message("text.row_not_an_object"))
    return row


def _text(row: dict[str, object], key: str) -> str:
    text = row[key]
    if text is None:
        raise BadRow(Message("text.field_null", {"field": printable(key)}))
    if not isinstance(text, str):
        raise BadRow(Message("text.field_not_text", {"field": printable(key), "type": type(text).__name__}))
    if UNREADABLE.search(text):
        raise BadRow(Message("text.field_nul_or_surrogate", {"field": printable(key)}))
    return text


def list_names(names: Iterable[str]) -> Message | str:
    """The first few names in alphabetical order, as a message shows them."""
    ordered = [printable(name) for name in sorted(names)]
    return ", ".join(ordered[:5] + ["…"] * (len(ordered) > 5)) or Message("text.nothing")
