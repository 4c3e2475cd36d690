"""Parquet and Arrow: whatever the layout, the pairs are those that pyarrow itself would give; faults have a row."""

import random
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from jumok.data.quality.fix import fix
from jumok.errors import DataError, JumokError, UsageError
from jumok.text import arrow, columnar
from jumok.text.check import check
from jumok.text.columnar import Unit, find_columns, read_columnar, read_slices, read_unit, units
from jumok.text.lines import read_table

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install jumok[columnar]")
pq = pytest.importorskip("pyarrow.parquet")

COUNT = 1_000
PAIRS = [(f"sentence {n} é 한", f"Satz {n % 7}") for n in range(COUNT)]


def sides(pairs=PAIRS, kind=None):
    kind = kind or pa.string()
    return [pa.array([pair[side] for pair in pairs]).cast(kind) for side in (0, 1)]


def flat(pairs=PAIRS, names=("en", "de"), kind=None):
    return pa.table([pa.array(range(len(pairs))), *sides(pairs, kind)], ["id", *names])


def struct(pairs=PAIRS, names=("en", "de"), kind=None):
    return pa.table({"translation": pa.StructArray.from_arrays(sides(pairs, kind), list(names))})


def write_stream(table, path, rows=100, **options):
    with pa.ipc.new_stream(path, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=rows)


def write_file(table, path, rows=100, **options):
    with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=rows)


WRITERS = {
    "parquet": lambda table, path: pq.write_table(table, path, row_group_size=100),
    "parquet, one group": lambda table, path: pq.write_table(table, path, compression="zstd"),
    "arrow stream": write_stream,
    "arrow file": write_file,
    "arrow file, packed": lambda table, path: write_file(table, path, compression="lz4"),
    "arrow stream, legacy": lambda table, path: write_stream(table, path, use_legacy_format=True),
}
KINDS = ["string", "large_string", "string_view", "dictionary"]


def kind_called(name):
    return pa.dictionary(pa.int32(), pa.string()) if name == "dictionary" else getattr(pa, name)()


class CountingFile:
    """A file that counts the bytes that are read from it."""

    def __init__(self, stream):
        self.stream, self.bytes, self.closed = stream, 0, False

    def read(self, size):
        self.bytes += size
        return self.stream.read(size)

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def __getattr__(self, name):
        return getattr(self.stream, name)


def written(folder: Path, table, how: str) -> Path:
    path = folder / ("corpus.parquet" if how.startswith("parquet") else "corpus.arrow")
    WRITERS[how](table, str(path))
    return path


@pytest.mark.parametrize("how", WRITERS)
@pytest.mark.parametrize("layout", [flat, struct])
@pytest.mark.parametrize("kind", KINDS)
def test_every_layout_gives_the_pairs_that_were_written_in_the_direction_that_was_named(tmp_path, how, layout, kind):
    if (layout, kind, how) == (struct, "string_view", "parquet"):
        pytest.skip("pyarrow cannot write views inside a struct to several row groups")
    path = written(tmp_path, layout(kind=kind_called(kind)), how)
    assert list(read_columnar(path, ("en", "de"))) == PAIRS
    assert list(read_table(path, columns=("de", "en"))) == [pair[::-1] for pair in PAIRS]


@pytest.mark.parametrize("how", WRITERS)
@pytest.mark.parametrize("kind", KINDS)
def test_units_read_alone_and_in_any_order_are_the_whole_file(tmp_path, monkeypatch, how, kind):
    monkeypatch.setattr(columnar, "UNIT", 250)
    path = written(tmp_path, flat(kind=kind_called(kind)), how)
    found = units(path)
    assert len(found) == (1 if how == "parquet, one group" else 4)
    assert [unit.first for unit in found] == [sum(unit.rows for unit in found[:n]) for n in range(len(found))]
    for unit in random.Random(1).sample(found, len(found)):
        source, target = read_unit(path, unit, ("en", "de"))
        assert list(zip(source, target, strict=True)) == PAIRS[unit.first : unit.first + unit.rows]


def test_dictionaries_that_grow_or_change_within_a_stream_reach_every_unit(tmp_path, monkeypatch):
    monkeypatch.setattr(columnar, "UNIT", 1)
    path = tmp_path / "a.arrow"
    batches = [["a", "b"], ["a", "b", "c"], ["x", "y"], ["x", "z", "y"]]
    schema = pa.schema([(name, pa.dictionary(pa.int8(), pa.string())) for name in ("source", "target")])
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_stream(str(path), schema, options=options) as writer:
        for words in batches:
            encoded = pa.DictionaryArray.from_arrays(pa.array(range(len(words)), pa.int8()), pa.array(words))
            writer.write_batch(pa.record_batch([encoded, encoded], schema=schema))
    with open(path, "rb") as stream:
        kinds = [message.kind for message in arrow.read_messages(path, stream)]
    assert kinds.count(arrow.DICTIONARY) > 2
    assert [read_unit(path, unit)[0] for unit in reversed(units(path))] == batches[::-1]


def test_units_are_found_without_reading_any_text(tmp_path, monkeypatch):
    for how in ("parquet", "arrow stream", "arrow file, packed"):
        path = written(tmp_path, flat([(text * 1_000, "short") for text, _ in PAIRS]), how)
        with open(path, "rb") as stream, monkeypatch.context() as patched:
            counted = CountingFile(stream)
            patched.setattr(columnar, "_parquet", lambda path, file=counted: pq.ParquetFile(pa.PythonFile(file, "r")))
            patched.setattr("builtins.open", lambda path, mode, file=counted: file)
            assert [(unit.first, unit.rows) for unit in units(path)] == [(0, COUNT)]
        assert 0 < counted.bytes < path.stat().st_size / 10


@pytest.mark.parametrize("names", [("source", "target"), ("src", "tgt")])
@pytest.mark.parametrize("layout", [flat, struct])
def test_names_that_say_their_side_need_no_columns(tmp_path, names, layout):
    path = written(tmp_path, layout(names=names), "parquet")
    assert list(read_columnar(path)) == PAIRS
    swapped = written(tmp_path, layout(names=names[::-1]), "parquet")
    assert list(read_columnar(swapped)) == [pair[::-1] for pair in PAIRS]


@pytest.mark.parametrize("layout", [flat, struct])
@pytest.mark.parametrize("how", ["parquet", "arrow stream"])
def test_a_direction_is_never_guessed(tmp_path, layout, how):
    path = written(tmp_path, layout(), how)
    with pytest.raises(UsageError, match="does not say which column") as raised:
        list(read_columnar(path))
    assert "--columns en,de" in raised.value.hint
    assert "en" in raised.value.where
    assert "de" in raised.value.where


def test_columns_may_be_nested_and_the_nearest_name_wins(tmp_path):
    inner = pa.StructArray.from_arrays(sides(), ["en", "de"])
    table = pa.table({"text": pa.StructArray.from_arrays([inner], ["clean"]), "en": sides()[1]})
    path = written(tmp_path, table, "parquet")
    assert find_columns(path, ("text.clean.en", "en")) == (("text", "clean", "en"), ("en",))
    assert list(read_columnar(path, ("text.clean.en", "text.clean.de"))) == PAIRS


@pytest.mark.parametrize("how", ["parquet", "arrow stream"])
def test_a_column_wins_over_a_field_of_the_same_name_and_may_have_a_dot_in_it(tmp_path, how):
    inner = pa.StructArray.from_arrays(sides()[::-1], ["en", "de"])
    table = pa.table({"translation": inner, "en": sides()[0], "text.de": sides()[1]})
    assert list(read_columnar(written(tmp_path, table, how), ("en", "text.de"))) == PAIRS


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (("en", "fr"), "no column 'fr'"),
        (("id", "de"), "column 'id' of .* is not text"),
        (("en", "en"), "as both source and target"),
    ],
)
def test_columns_that_cannot_be_are_refused_with_those_that_can(tmp_path, columns, words):
    with pytest.raises(UsageError, match=words):
        list(read_columnar(written(tmp_path, flat(), "parquet"), columns))


def test_two_columns_of_one_name_are_refused(tmp_path):
    table = pa.table([*sides(), sides()[1]], ["en", "de", "de"])
    with pytest.raises(UsageError, match="several columns called 'de'"):
        list(read_columnar(written(tmp_path, table, "arrow stream"), ("en", "de")))


# ------------------------------------------------------------------------------------------ faults


def bad_bytes(values: list[bytes | None]):
    """A string array that holds these bytes unchecked."""
    array = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(values), array.buffers(), null_count=array.null_count)


FAULTS = {
    "null": (None, "is null"),
    "NUL": (b"a\0b", "contains NUL"),
    "a lone surrogate": (b"a\xed\xa0\x80", "not valid UTF-8"),
    "bytes": (b"\xff", "not valid UTF-8"),
    "too long": (b"x" * 1_000_001, "longer than 1,000,000 bytes"),
}


@pytest.mark.parametrize("how", ["parquet", "arrow stream", "arrow file, packed"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("nested", [False, True])
def test_a_text_that_cannot_be_read_is_named_by_its_row(tmp_path, monkeypatch, how, fault, nested):
    monkeypatch.setattr(columnar, "UNIT", 150)
    monkeypatch.setattr(columnar, "SLICE", 64)
    value, words = FAULTS[fault]
    texts: list[bytes | None] = [b"text"] * 300
    texts[217] = value
    columns = [pa.array(["Text"] * 300), bad_bytes(texts)]
    table = pa.table(columns, ["en", "de"])
    if nested:
        table = pa.table({"translation": pa.StructArray.from_arrays(columns, ["en", "de"])})
    path = written(tmp_path, table, how)
    with pytest.raises(DataError, match=words) as raised:
        list(read_columnar(path, ("en", "de")))
    assert raised.value.where == f"{path}, row 218"
    assert "row 218" in str(check(path, columns=("en", "de"))[0].problem)


@pytest.mark.parametrize("how", ["parquet", "arrow stream"])
def test_a_whole_struct_that_is_null_is_a_fault_of_its_row(tmp_path, how):
    mask = pa.array([row == 5 for row in range(COUNT)])
    table = pa.table({"translation": pa.StructArray.from_arrays(sides(), ["en", "de"], mask=mask)})
    with pytest.raises(DataError, match="en is null") as raised:
        list(read_columnar(written(tmp_path, table, how), ("en", "de")))
    assert raised.value.where.endswith("row 6")


@pytest.mark.parametrize("how", WRITERS)
def test_a_file_cut_off_anywhere_is_refused_or_ends_between_two_batches(tmp_path, how):
    path = written(tmp_path, flat(), how)
    raw = path.read_bytes()
    for length in [0, 1, 4, 7, 8, 9, 12, 40, *range(100, len(raw), len(raw) // 60), len(raw) - 9, len(raw) - 1]:
        path.write_bytes(raw[:length])
        try:
            pairs = list(read_columnar(path, ("en", "de")))
        except DataError as error:
            assert str(path) in error.where  # noqa: PT017 - some lengths must be refused, some may not
        else:
            assert "stream" in how
            assert pairs == PAIRS[: len(pairs)]
            assert len(pairs) % 100 == 0


def test_units_of_a_file_that_was_cut_off_are_refused_before_any_row_is_read(tmp_path):
    for how in ("parquet", "arrow stream", "arrow file"):
        path = written(tmp_path, flat(), how)
        path.write_bytes(path.read_bytes()[:-500])
        with pytest.raises(DataError):
            units(path)


@pytest.mark.parametrize("how", ["parquet", "arrow stream"])
def test_a_unit_with_other_rows_than_the_file_has_there_is_refused(tmp_path, how):
    path = written(tmp_path, flat(), how)
    (unit,) = units(path)
    with pytest.raises(DataError, match="other rows than its metadata says"):
        read_unit(path, replace(unit, rows=unit.rows + 1), ("en", "de"))


def test_a_stream_without_an_end_mark_is_whole_if_it_ends_after_a_batch(tmp_path):
    path = written(tmp_path, flat(), "arrow stream")
    path.write_bytes(path.read_bytes().removesuffix(arrow.END))
    assert list(read_columnar(path, ("en", "de"))) == PAIRS


FLIP = """
import random, sys
from jumok.errors import JumokError
from jumok.text.columnar import read_columnar
path, raw = sys.argv[1], open(sys.argv[1], "rb").read()
draw = random.Random(int(sys.argv[2]))
for _ in range(150):
    spoilt = bytearray(raw)
    for _ in range(draw.choice((1, 3, 20))):
        spoilt[draw.randrange(len(spoilt))] = draw.randrange(256)
    open(path, "wb").write(spoilt)
    try:
        for pair in read_columnar(path, ("en", "de")):
            assert all("\\0" not in text and text.encode() is not None for text in pair)
    except JumokError:
        pass
"""


@pytest.mark.parametrize("how", ["parquet", "arrow stream", "arrow file", "arrow file, packed"])
def test_damaged_bytes_never_crash_the_process_nor_raise_anything_but_our_errors(tmp_path, how):
    path = written(tmp_path, flat(PAIRS[:300], kind=kind_called("dictionary")), how)
    done = subprocess.run([sys.executable, "-c", FLIP, str(path), "7"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]


def test_feather_version_1_and_other_files_under_these_names_are_refused(tmp_path):
    for raw in (b"FEA1" + bytes(100), b"plain text\n" * 9, b"PAR1" + bytes(50), b"\xff" * 64):
        for name in ("a.arrow", "a.parquet"):
            path = tmp_path / name
            path.write_bytes(raw)
            with pytest.raises(DataError):
                units(path)


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_a_missing_file_and_a_folder_are_told_as_for_text(tmp_path, name):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / name).mkdir()
    with pytest.raises(DataError, match="there is no file"):
        list(read_columnar(tmp_path / name))
    with pytest.raises(JumokError, match="is a folder"):
        list(read_columnar(tmp_path / "b" / name))


def test_memory_does_not_grow_with_the_row_group(tmp_path):
    path = tmp_path / "a.parquet"
    line = "a sentence of some fifty characters, as people write "
    texts = pa.array([f"{line}{n}" for n in range(600_000)])
    pq.write_table(pa.table({"source": texts, "target": texts}), path)
    (unit,) = units(path)
    list(read_slices(path, Unit(0, 0, 0, 0)))
    before = pa.total_allocated_bytes()
    peak = 0
    tracemalloc.start()
    try:
        for _ in read_slices(path, unit):
            peak = max(peak, pa.total_allocated_bytes() - before)
        python = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert texts.nbytes > 32e6
    assert peak < 12e6
    assert python < 8e6


def test_a_dictionary_of_few_long_texts_is_not_copied_for_every_row(tmp_path):
    path = tmp_path / "a.arrow"
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 8_000), pa.array(["x" * 100_000]))
    write_stream(pa.table({"source": long, "target": long}), str(path), rows=8_000)
    with pytest.raises(DataError, match="many times its size"):  # 1.6 GB of text in a file of 0.2 MB
        list(read_columnar(path))


def test_repairing_a_parquet_file_is_refused_and_nothing_is_written(tmp_path):
    path = written(tmp_path, flat(), "parquet")
    with pytest.raises(UsageError, match="not Parquet or Arrow"):
        fix([str(path)], tmp_path / "out")
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_pyarrow_is_explained(tmp_path, monkeypatch):
    path = written(tmp_path, flat(), "parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match="need pyarrow") as raised:
        units(path)
    assert "pip install 'jumok[columnar]'" in raised.value.hint


def test_reading_text_does_not_import_pyarrow():
    code = "import sys, jumok.text.lines, jumok.text.columnar; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
