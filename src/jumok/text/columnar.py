"""Parquet and Arrow files as sentence pairs, through pyarrow, which is imported only when such a file is read.

Contract: D1.  Reads the layouts of Hugging Face's datasets: two text columns, or a struct `translation` with one text
per language; plain, large, view and dictionary-encoded strings; Arrow as a stream or as a file (Feather version 2).

Units    whole row groups or record batches in a row, located without reading any text: work for several processes
Memory   one slice of rows and the row group's pages, or the record batch, that it comes from
Rows     count from 1 in messages; a text that is null, contains NUL, is not UTF-8 or is over-long is a DataError
Not here the bytes of Arrow's messages (arrow.py), tsv and jsonl (tables.py)

The order of the fields of a struct does not tell the direction of translation, and neither do two columns called en and
de: without `columns`, only names that say which side they are (source and target, src and tgt) are accepted.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from jumok.errors import DataError, MissingPackage, UsageError
from jumok.extras import hint
from jumok.messages import Message
from jumok.text.arrow import record_batches, splice
from jumok.text.files import LONGEST, attempt, display_name, explain_faults, most_unpacked, must_be_file, printable
from jumok.text.tables import COLUMNAR, Columns, Pair, is_columnar

SLICE = 8_192  # most rows decoded at once
UNIT = 65_536  # fewest rows of a unit, except the last of a file
SIDES = (("source", "target"), ("src", "tgt"))
FieldPath = tuple[str, ...]  # a column, or a struct and its fields, down to the text


@dataclass(frozen=True)
class Unit:
    """Consecutive rows that can be read on their own: `rows` of them after the first `first` rows of the file.

    `start` and `stop` are row groups in a Parquet file and bytes in an Arrow file; `dictionaries` are byte ranges.
    """

    first: int
    rows: int
    start: int
    stop: int
    dictionaries: tuple[tuple[int, int], ...] = ()


def units(path: str | Path) -> list[Unit]:
    """The units of a file, in order, from its metadata alone."""
    with _faults(path):
        if _kind(path) == "parquet":
            metadata = _parquet(path).metadata
            groups = [
                (metadata.row_group(group).num_rows, group, group + 1) for group in range(metadata.num_row_groups)
            ]
            joined = list(_join(groups, []))
        else:
            batches, dictionaries = record_batches(path)
            joined = list(_join(batches, dictionaries))
        rows = sum(unit.rows for unit in joined)
        if rows > most_unpacked(Path(path).stat().st_size):
            raise DataError("text.too_many_rows", file=display_name(path), rows=rows)
    return joined


def read_unit(path: str | Path, unit: Unit, columns: Columns | None = None) -> tuple[list[str], list[str]]:
    """All sources and all targets of a unit; a row group may be large, see `read_slices`."""
    slices = list(read_slices(path, unit, columns))
    source, target = (list(chain.from_iterable(part[side] for part in slices)) for side in (0, 1))
    return source, target


def read_slices(
    path: str | Path, unit: Unit, columns: Columns | None = None, *, longest: int = LONGEST
) -> Iterator[tuple[list[str], list[str]]]:
    """Yield sources and targets of a unit, at most `SLICE` rows at a time."""
    done, text, most = 0, 0, most_unpacked(Path(path).stat().st_size)
    with _faults(path):
        field_paths = find_columns(path, columns)
        for batch in _batches(path, unit, field_paths):
            for start in range(0, batch.num_rows, SLICE):
                part = batch.slice(start, SLICE)
                sides = _decode(path, part, field_paths, unit.first + done, longest)
                done += part.num_rows
                text += sum(map(len, sides[0])) + sum(map(len, sides[1]))
                if text > most:
                    raise DataError("text.columns_unpack_to_too_much", file=display_name(path), row=unit.first + done)
                yield sides
        if done != unit.rows:
            raise DataError(
                "text.wrong_number_of_rows",
                file=display_name(path),
                first=unit.first + 1,
                last=unit.first + unit.rows,
                actual=done,
            )


def read_columnar(path: str | Path, columns: Columns | None = None, *, longest: int = LONGEST) -> Iterator[Pair]:
    """Yield (source, target) of each row of a Parquet or Arrow file."""
    for unit in units(path):
        for source, target in read_slices(path, unit, columns, longest=longest):
            yield from zip(source, target, strict=True)


# ------------------------------------------------------------------------------------------ columns


def find_columns(path: str | Path, columns: Columns | None = None) -> tuple[FieldPath, FieldPath]:
    """The fields of a file that hold source and target.

    A name in `columns` is a column, a field of the struct `translation`, or a dotted path (`text.en`), whichever
    exists first.  Without `columns`, the sides are source and target, or src and tgt, as columns or in `translation`.
    """
    with _faults(path):
        schema = _schema(path)
        texts = dict(_texts(schema))
    if columns is None:
        for struct in ((), ("translation",)):
            for left, right in SIDES:
                if texts.get((*struct, left)) == texts.get((*struct, right)) == 1:
                    return (*struct, left), (*struct, right)
        raise UsageError(
            "text.unclear_columns", file=display_name(path), columns=_list_texts(texts), proposal=_propose(texts)
        )
    source, target = (_find_column(path, name, texts, schema) for name in columns)
    if source == target:
        raise UsageError("text.same_column_in_file", column=columns[0], file=display_name(path))
    return source, target


def _find_column(path: str | Path, name: str, texts: dict[FieldPath, int], schema: Any) -> FieldPath:
    for field_path in ((name,), ("translation", name), tuple(name.split("."))):
        if texts.get(field_path) == 1:
            return field_path
        if field_path in texts:
            raise UsageError("text.ambiguous_column", file=display_name(path), column=name, columns=_list_texts(texts))
    if name in schema.names:
        raise UsageError(
            "text.column_not_text",
            file=display_name(path), column=name, columns=_list_texts(texts), proposal=_propose(texts),
        )  # fmt: skip
    raise UsageError(
        "text.no_such_column",
        file=display_name(path), column=name, columns=_list_texts(texts), proposal=_propose(texts),
    )  # fmt: skip


def _texts(schema: Any) -> Iterator[tuple[FieldPath, int]]:
    """Yield every text column and text field of a struct, with how often its name occurs."""
    names = [field.name for field in schema]
    for field in schema:
        yield from (((field.name, *inner), names.count(field.name)) for inner in _text_fields(field.type))


def _text_fields(kind: Any) -> Iterator[FieldPath]:
    types = _pyarrow().types
    value = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_struct(kind):
        for field in kind:
            yield from ((field.name, *inner) for inner in _text_fields(field.type))
    elif any(test(value) for test in (types.is_string, types.is_large_string, types.is_string_view, types.is_null)):
        yield ()


def _list_texts(texts: dict[FieldPath, int]) -> Message | str:
    """The first text columns, as a message shows them."""
    names = [printable(".".join(field_path)) for field_path in texts]
    return ", ".join(names[:8] + ["…"] * (len(names) > 8)) if names else Message("text.no_text_column")


def _propose(texts: dict[FieldPath, int]) -> str:
    """Two columns as the user would write them."""
    names = [printable(path[-1] if path[0] == "translation" else ".".join(path)) for path in texts]
    return ",".join(names[:2]) if len(names) >= 2 else "SOURCE,TARGET"


# ------------------------------------------------------------------------------------------ rows


def _join(parts: list[tuple[int, int, int]], dictionaries: list[tuple[int, int]]) -> Iterator[Unit]:
    """Join neighbours (rows, start, stop) until each unit has at least `UNIT` rows."""
    first, rows, start, stop = 0, 0, 0, 0
    for more, begin, end in parts:
        start = begin if rows == 0 else start
        rows, stop = rows + more, end
        if rows >= UNIT:
            yield Unit(first, rows, start, stop, tuple(span for span in dictionaries if span[1] <= start))
            first, rows = first + rows, 0
    if rows:
        yield Unit(first, rows, start, stop, tuple(span for span in dictionaries if span[1] <= start))


def _batches(path: str | Path, unit: Unit, field_paths: tuple[FieldPath, FieldPath]) -> Iterator[Any]:
    """Yield the record batches of a unit, with the columns that hold the two texts."""
    pyarrow = _pyarrow()
    if _kind(path) == "parquet":
        names = [".".join(field_path) for field_path in field_paths]
        with _parquet(path) as file:
            for group in range(unit.start, unit.stop):  # one by one: pyarrow cannot join dictionaries inside a struct
                yield from file.iter_batches(batch_size=SLICE, row_groups=[group], columns=names, use_threads=False)
        return
    wanted = sorted({_schema(path).names.index(field_path[0]) for field_path in field_paths})
    options = pyarrow.ipc.IpcReadOptions(included_fields=wanted, use_threads=False)
    with splice(path, [*unit.dictionaries, (unit.start, unit.stop)]) as spliced:
        yield from pyarrow.ipc.open_stream(pyarrow.PythonFile(spliced, mode="r"), options=options)


def _decode(
    path: str | Path, batch: Any, field_paths: tuple[FieldPath, FieldPath], before: int, longest: int
) -> tuple[list[str], list[str]]:
    """Both texts of every row; the first row without one is a DataError."""
    batch.validate()
    source, target = (_read_strings(path, batch, field_path, before) for field_path in field_paths)
    faults = [
        (row, problem)
        for field_path, texts in zip(field_paths, (source, target), strict=True)
        for row, problem in _first_fault(field_path[-1], texts, longest)
    ]
    if faults:
        row, problem = min(faults, key=lambda fault: fault[0])
        raise _bad_row(path, before + row, problem)
    return source, target  # type: ignore[return-value]


def _read_strings(path: str | Path, batch: Any, field_path: FieldPath, before: int) -> list[str | None]:
    """The texts of a column, None where it is null."""
    pyarrow = _pyarrow()
    array = batch.column(field_path[0])
    for name in field_path[1:]:
        array = pyarrow.compute.struct_field(array, name)
    try:
        array.validate(full=True)  # offsets and UTF-8: pyarrow does not check them unless asked
    except pyarrow.ArrowInvalid:
        problem = Message("text.field_not_utf8", {"field": printable(field_path[-1])})
        raise _bad_row(path, before + _first_invalid(array), problem) from None
    if not pyarrow.types.is_dictionary(array.type):
        texts: list[str | None] = array.to_pylist()
        return texts
    words = array.dictionary.to_pylist()  # rows share these strings, so repetitions take no memory
    return [None if index is None else words[index] for index in array.indices.to_pylist()]


def _first_fault(name: str, texts: list[str | None], longest: int) -> Iterator[tuple[int, Message]]:
    """Yield the first row whose text is missing or unusable, if there is one."""
    for row, text in enumerate(texts):
        if text is None:
            yield row, Message("text.field_null", {"field": printable(name)})
        elif "\0" in text:
            yield row, Message("text.field_nul", {"field": printable(name)})
        elif len(text) * 4 > longest and len(text.encode()) > longest:
            yield row, Message("text.field_too_long", {"field": printable(name), "limit": longest})
        else:
            continue
        return


def _first_invalid(array: Any) -> int:
    """The first row of an array that is not valid, by binary search."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            array.slice(low, middle - low).validate(full=True)
            low = middle
        except ValueError:
            high = middle
    return low


def _bad_row(path: str | Path, before: int, problem: Message) -> DataError:
    return DataError("text.bad_row", problem=problem, file=display_name(path), row=before + 1)


# ------------------------------------------------------------------------------------------ pyarrow


def _pyarrow() -> ModuleType:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise MissingPackage("text.needs_pyarrow", advice=hint("pyarrow")) from None
    module: ModuleType = pyarrow
    return module


def _kind(path: str | Path) -> Literal["parquet", "arrow"]:
    if not is_columnar(path):
        raise UsageError("text.not_columnar", file=display_name(path))
    return COLUMNAR[Path(path).suffix.lower()]


def _parquet(path: str | Path) -> Any:
    return _pyarrow().parquet.ParquetFile(str(path), buffer_size=1 << 20, pre_buffer=False)


def _schema(path: str | Path) -> Any:
    if _kind(path) == "parquet":
        with _parquet(path) as file:
            return file.schema_arrow
    pyarrow = _pyarrow()
    with splice(path, []) as spliced, pyarrow.ipc.open_stream(pyarrow.PythonFile(spliced, mode="r")) as reader:
        return reader.schema


@contextlib.contextmanager
def _faults(path: str | Path) -> Iterator[None]:
    """Turn pyarrow's errors about a corrupt file into errors that name the file."""
    arrow = _pyarrow()
    must_be_file(path)
    kind = _kind(path).capitalize()
    with explain_faults(path):
        open(path, "rb").close()  # a folder or a file that may not be read fails here, with Python's error
        try:
            yield
        except (arrow.ArrowException, UnicodeDecodeError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            reason = str(error).partition("\n")[0].strip() or type(error).__name__
            advice = attempt("ls -l", path)
            raise DataError(
                "text.columnar_corrupt", file=display_name(path), format=kind, reason=reason, advice=advice
            ) from None
