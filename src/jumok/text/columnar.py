"""Parquet and Arrow files as sentence pairs, through pyarrow, which is imported only when such a file is read.

Contract: D1.  Reads the layouts of Hugging Face's datasets: two text columns, or a struct `translation` with one text
per language; plain, large, view and dictionary-encoded strings; Arrow as a stream or as a file (Feather version 2).

Units    stretches of whole row groups or record batches, found without reading any text: work for several processes
Memory   one slice of rows and the row group's pages, or the record batch, that it comes from
Rows     count from 1 in messages; a text that is null, has a NUL in it, is not UTF-8 or is over-long is a DataError
Not here the bytes of Arrow's messages (messages.py), tsv and jsonl (tables.py)

A struct has an order of fields that says nothing about the direction of translation, and neither do two columns called
en and de: without `columns`, only names that say which side they are (source and target, src and tgt) are accepted.
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
from jumok.text.files import LONGEST, attempt, faults_named, most_unpacked, must_be_file, named, printable
from jumok.text.messages import record_batches, splice
from jumok.text.tables import COLUMNAR, Columns, Pair, is_columnar

SLICE = 8_192  # rows decoded at once
UNIT = 65_536  # rows a unit has at least, unless the file ends
SIDES = (("source", "target"), ("src", "tgt"))
Place = tuple[str, ...]  # a column, or a struct and its fields, down to the text


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
    """Return the units of a file, in order, from its metadata alone."""
    with _faults(path):
        if _kind(path) == "parquet":
            metadata = _parquet(path).metadata
            groups = [
                (metadata.row_group(group).num_rows, group, group + 1) for group in range(metadata.num_row_groups)
            ]
            found = list(_join(groups, []))
        else:
            batches, dictionaries = record_batches(path)
            found = list(_join(batches, dictionaries))
        rows = sum(unit.rows for unit in found)
        if rows > most_unpacked(Path(path).stat().st_size):
            raise DataError(f"{named(path)} claims to have {rows:,} rows, more than fit into it", where=named(path))
    return found


def read_unit(path: str | Path, unit: Unit, columns: Columns | None = None) -> tuple[list[str], list[str]]:
    """Return all sources and all targets of a unit; a row group may be large, see `read_slices`."""
    slices = list(read_slices(path, unit, columns))
    source, target = (list(chain.from_iterable(part[side] for part in slices)) for side in (0, 1))
    return source, target


def read_slices(
    path: str | Path, unit: Unit, columns: Columns | None = None, *, longest: int = LONGEST
) -> Iterator[tuple[list[str], list[str]]]:
    """Yield sources and targets of a unit, at most `SLICE` rows at a time."""
    done, text, most = 0, 0, most_unpacked(Path(path).stat().st_size)
    with _faults(path):
        places = find_columns(path, columns)
        for batch in _batches(path, unit, places):
            for start in range(0, batch.num_rows, SLICE):
                part = batch.slice(start, SLICE)
                sides = _decode(path, part, places, unit.first + done, longest)
                done += part.num_rows
                text += sum(map(len, sides[0])) + sum(map(len, sides[1]))
                if text > most:
                    raise DataError(
                        f"{named(path)} unpacks to many times its size, as no text does",
                        where=f"{named(path)}, row {unit.first + done}",
                    )
                yield sides
        if done != unit.rows:
            raise DataError(
                f"{named(path)} has other rows than its metadata says",
                where=f"{named(path)}, rows {unit.first + 1} to {unit.first + unit.rows}: {done} are there",
                hint="fetch or make the file again",
            )


def read_columnar(path: str | Path, columns: Columns | None = None, *, longest: int = LONGEST) -> Iterator[Pair]:
    """Yield (source, target) of each row of a Parquet or Arrow file."""
    for unit in units(path):
        for source, target in read_slices(path, unit, columns, longest=longest):
            yield from zip(source, target, strict=True)


# ------------------------------------------------------------------------------------------ columns


def find_columns(path: str | Path, columns: Columns | None = None) -> tuple[Place, Place]:
    """Return where source and target are in a file.

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
            f"{named(path)} does not say which column is the source and which the target",
            where=f"its texts are {_shown(texts)}",
            hint=f"try: --columns {_proposal(texts)} (source first)",
        )
    source, target = (_find(path, name, texts, schema) for name in columns)
    if source == target:
        raise UsageError(f"--columns names {columns[0]!r} as both source and target", where=f"in {named(path)}")
    return source, target


def _find(path: str | Path, name: str, texts: dict[Place, int], schema: Any) -> Place:
    for place in ((name,), ("translation", name), tuple(name.split("."))):
        if texts.get(place) == 1:
            return place
        if place in texts:
            raise UsageError(
                f"{named(path)} has several columns called {name!r}", where=f"its texts are {_shown(texts)}"
            )
    state = f"column {name!r} of {named(path)} is not text" if name in schema.names else ""
    raise UsageError(
        state or f"{named(path)} has no column {name!r}",
        where=f"its texts are {_shown(texts)}",
        hint=f"try: --columns {_proposal(texts)} (source first)",
    )


def _texts(schema: Any) -> Iterator[tuple[Place, int]]:
    """Yield every text column and text field of a struct, with how often its name occurs."""
    names = [field.name for field in schema]
    for field in schema:
        yield from (((field.name, *place), names.count(field.name)) for place in _inside(field.type))


def _inside(kind: Any) -> Iterator[Place]:
    types = _pyarrow().types
    value = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_struct(kind):
        for field in kind:
            yield from ((field.name, *place) for place in _inside(field.type))
    elif any(test(value) for test in (types.is_string, types.is_large_string, types.is_string_view, types.is_null)):
        yield ()


def _shown(texts: dict[Place, int]) -> str:
    names = [printable(".".join(place)) for place in texts]
    return ", ".join(names[:8] + ["…"] * (len(names) > 8)) or "none: it has no text column"


def _proposal(texts: dict[Place, int]) -> str:
    """Return two columns as the user would write them."""
    names = [printable(place[-1] if place[0] == "translation" else ".".join(place)) for place in texts]
    return ",".join(names[:2]) if len(names) >= 2 else "SOURCE,TARGET"


# ------------------------------------------------------------------------------------------ rows


def _join(parts: list[tuple[int, int, int]], dictionaries: list[tuple[int, int]]) -> Iterator[Unit]:
    """Join neighbours (rows, start, stop) until each unit has at least `UNIT` rows."""
    first, rows, start, stop = 0, 0, 0, 0
    for more, begin, end in parts:
        start = begin if rows == 0 else start
        rows, stop = rows + more, end
        if rows >= UNIT:
            yield Unit(first, rows, start, stop, tuple(place for place in dictionaries if place[1] <= start))
            first, rows = first + rows, 0
    if rows:
        yield Unit(first, rows, start, stop, tuple(place for place in dictionaries if place[1] <= start))


def _batches(path: str | Path, unit: Unit, places: tuple[Place, Place]) -> Iterator[Any]:
    """Yield the record batches of a unit, with the columns that hold the two texts."""
    pyarrow = _pyarrow()
    if _kind(path) == "parquet":
        names = [".".join(place) for place in places]
        with _parquet(path) as file:
            for group in range(unit.start, unit.stop):  # one by one: pyarrow cannot join dictionaries inside a struct
                yield from file.iter_batches(batch_size=SLICE, row_groups=[group], columns=names, use_threads=False)
        return
    wanted = sorted({_schema(path).names.index(place[0]) for place in places})
    options = pyarrow.ipc.IpcReadOptions(included_fields=wanted, use_threads=False)
    with splice(path, [*unit.dictionaries, (unit.start, unit.stop)]) as spliced:
        yield from pyarrow.ipc.open_stream(pyarrow.PythonFile(spliced, mode="r"), options=options)


def _decode(
    path: str | Path, batch: Any, places: tuple[Place, Place], before: int, longest: int
) -> tuple[list[str], list[str]]:
    """Return both texts of every row; the first row that has none is a DataError."""
    batch.validate()
    source, target = (_strings(path, batch, place, before) for place in places)
    faults = [
        (row, problem)
        for place, texts in zip(places, (source, target), strict=True)
        for row, problem in _first_fault(place[-1], texts, longest)
    ]
    if faults:
        row, problem = min(faults, key=lambda fault: fault[0])
        raise _bad_row(path, before + row, problem)
    return source, target  # type: ignore[return-value]


def _strings(path: str | Path, batch: Any, place: Place, before: int) -> list[str | None]:
    """Return the texts of a column, None where it is null."""
    pyarrow = _pyarrow()
    array = batch.column(place[0])
    for name in place[1:]:
        array = pyarrow.compute.struct_field(array, name)
    try:
        array.validate(full=True)  # offsets and UTF-8: pyarrow trusts the file in both unless it is asked
    except pyarrow.ArrowInvalid:
        raise _bad_row(path, before + _first_invalid(array), f"{printable(place[-1])} is not valid UTF-8") from None
    if not pyarrow.types.is_dictionary(array.type):
        texts: list[str | None] = array.to_pylist()
        return texts
    words = array.dictionary.to_pylist()  # every row refers to one of these strings: repeated ones take no memory
    return [None if index is None else words[index] for index in array.indices.to_pylist()]


def _first_fault(name: str, texts: list[str | None], longest: int) -> Iterator[tuple[int, str]]:
    """Yield the first row whose text is missing or unusable, if there is one."""
    for row, text in enumerate(texts):
        if text is None:
            yield row, f"{printable(name)} is null, not text"
        elif "\0" in text:
            yield row, f"{printable(name)} has a NUL in it"
        elif len(text) * 4 > longest and len(text.encode()) > longest:
            yield row, f"{printable(name)} is longer than {longest:,} bytes"
        else:
            continue
        return


def _first_invalid(array: Any) -> int:
    """Return the first row of an array that is not valid, by halving."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            array.slice(low, middle - low).validate(full=True)
            low = middle
        except ValueError:
            high = middle
    return low


def _bad_row(path: str | Path, before: int, problem: str) -> DataError:
    return DataError(problem, where=f"{named(path)}, row {before + 1}", hint="put it right, or remove the row")


# ------------------------------------------------------------------------------------------ pyarrow


def _pyarrow() -> ModuleType:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise MissingPackage("Parquet and Arrow files need pyarrow", hint=str(hint("pyarrow"))) from None
    module: ModuleType = pyarrow
    return module


def _kind(path: str | Path) -> Literal["parquet", "arrow"]:
    if not is_columnar(path):
        raise UsageError(f"{named(path)} is not a Parquet or Arrow file", hint="name it .parquet, .arrow or .feather")
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
    """Turn what pyarrow says of a broken file into an error that names the file."""
    arrow = _pyarrow()
    must_be_file(path)
    kind = _kind(path).capitalize()
    with faults_named(path):
        open(path, "rb").close()  # Python's own words for a folder or a file that may not be read
        try:
            yield
        except (arrow.ArrowException, UnicodeDecodeError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            reason = str(error).partition("\n")[0].strip() or type(error).__name__
            raise DataError(
                f"{named(path)} is not whole {kind} data ({reason})",
                where=named(path),
                hint=attempt("ls -l", path) + ", then fetch or make the file again",
            ) from None
