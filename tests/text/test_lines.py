"""Promise D1: lines end at 0x0A and nowhere else, every fault is named with file, line and byte."""

import gzip
import hashlib
import io
import json
import lzma
import os
import subprocess
import sys
import tempfile
import threading
import tracemalloc
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jumok.errors import DataError, DiskError, UsageError
from jumok.text import lines as lines_module
from jumok.text.check import check
from jumok.text.lines import digest, is_table, read_lines, read_pairs, read_table, write_lines

SPLITTERS = "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # where str.splitlines() splits, apart from \n
PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}

any_line = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\0"), max_size=20)
any_lines = st.lists(any_line | st.text(SPLITTERS + "é가😀a ", max_size=4), max_size=12)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def file(folder: Path, content: bytes | str, name: str = "text.en") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def outcome(items: Iterator[Any]) -> tuple[list[Any], DataError | None]:
    """What came before the fault, and the fault."""
    seen = []
    try:
        for item in items:
            seen.append(item)
    except DataError as error:
        return seen, error
    return seen, None


def fault(path: str | Path, **options: int) -> tuple[list[str], DataError]:
    seen, error = outcome(read_lines(path, **options))
    assert error is not None
    return seen, error


# ------------------------------------------------------------------------------------------ lines


@given(lines=any_lines, last=st.sampled_from(["", "\n"]), block=st.integers(1, 12) | st.just(1 << 20))
@example(lines=["a\r", "\rb", "\r"], last="\n", block=2)
@example(lines=["", "", ""], last="\n", block=1)
def test_joined_lines_are_read_back_exactly_whatever_the_block_size(
    folder: Path, lines: list[str], last: str, block: int
) -> None:
    lines = [line.lstrip("\ufeff") if i == 0 else line for i, line in enumerate(lines)]
    ends = ["\n"] * (len(lines) - 1) + [last]
    path = file(folder, "".join(line + end for line, end in zip(lines, ends, strict=False)))
    wanted = [line.removesuffix("\r") if end else line for line, end in zip(lines, ends, strict=False)]
    if wanted and not last and not wanted[-1]:
        wanted.pop()  # nothing after the last line feed is no line
    assert list(read_lines(path, block=block)) == wanted


@given(
    content=st.lists(st.sampled_from([b"a", b"\xc3\xa9", b"\n", b"\r", b"\0", b"\xff", b"\xef\xbb\xbf", b"xyz"])),
    block=st.integers(1, 9),
)
def test_the_block_size_changes_neither_the_lines_nor_the_error(folder: Path, content: list[bytes], block: int) -> None:
    path = file(folder, b"".join(content))
    seen, error = outcome(read_lines(path, block=block, longest=5))
    seen_at_once, same_error = outcome(read_lines(path, longest=5))
    assert seen == seen_at_once
    assert str(error) == str(same_error)


@pytest.mark.parametrize("splitter", SPLITTERS, ids=lambda c: f"U+{ord(c):04X}")
def test_characters_that_python_splits_at_stay_inside_the_line(tmp_path: Path, splitter: str) -> None:
    assert list(read_lines(file(tmp_path, f"one{splitter}two\nthree\n"))) == [f"one{splitter}two", "three"]


def test_one_cr_before_the_line_feed_is_dropped_and_no_more(tmp_path: Path) -> None:
    assert list(read_lines(file(tmp_path, b"a\r\nb\r\r\n\r\nc\r"))) == ["a", "b\r", "", "c\r"]


def test_an_empty_file_has_no_lines_and_an_empty_line_is_a_line(tmp_path: Path) -> None:
    assert list(read_lines(file(tmp_path, b""))) == []
    assert list(read_lines(file(tmp_path, b"\n"))) == [""]
    assert list(read_lines(file(tmp_path, b"\n\na"))) == ["", "", "a"]


# ------------------------------------------------------------------------------------------ sources


@pytest.mark.parametrize("suffix", PACK)
def test_compressed_files_of_several_members_read_as_one_text(tmp_path: Path, suffix: str) -> None:
    text = [f"줄 {i} 😀" for i in range(5000)]
    halves = ["\n".join(text[:2000]) + "\nhalf of ", "a line\n" + "\n".join(text[2000:])]
    path = file(tmp_path, b"".join(PACK[suffix](half.encode()) for half in halves), f"text.en{suffix}")
    assert list(read_lines(path, block=999)) == [*text[:2000], "half of a line", *text[2000:]]


@pytest.mark.parametrize("suffix", PACK)
def test_a_compressed_file_cut_anywhere_but_between_members_is_an_error(tmp_path: Path, suffix: str) -> None:
    whole = PACK[suffix](b"one\ntwo\n" * 50)
    for cut in range(len(whole)):
        _, error = fault(file(tmp_path, whole[:cut], f"text{suffix}"))
        assert f"text{suffix}" in error.what
        assert "-t" in error.hint
        assert error.where


@pytest.mark.parametrize("suffix", PACK)
def test_a_compressed_file_with_a_flipped_byte_is_an_error_and_gives_no_wrong_line(tmp_path: Path, suffix: str) -> None:
    text = "".join(f"line {i * i}\n" for i in range(300))
    whole = bytearray(PACK[suffix](text.encode()))
    whole[len(whole) // 2] ^= 0x55
    _, error = fault(file(tmp_path, bytes(whole), f"text{suffix}"))
    assert str(tmp_path / f"text{suffix}") in error.where


@pytest.mark.parametrize("suffix", PACK)
def test_a_file_that_only_calls_itself_compressed_is_an_error(tmp_path: Path, suffix: str) -> None:
    assert fault(file(tmp_path, "plain text\n", f"text{suffix}"))[0] == []


def test_dash_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("a\u2028b\r\n가".encode()), encoding="ascii"))
    assert list(read_lines("-")) == ["a\u2028b", "가"]


def test_a_line_of_standard_input_comes_out_before_the_next_one_is_typed() -> None:
    code = "from jumok.text.lines import read_lines\nfor line in read_lines('-'): print(line, flush=True)"
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(lines_module.__file__).parents[2])},
    )
    watchdog = threading.Timer(10, child.kill)  # a reader that waits for more would wait for ever
    watchdog.start()
    with child:
        assert child.stdin
        assert child.stdout
        for word in (b"one\n", b"two\n"):
            child.stdin.write(word)
            child.stdin.flush()
            assert child.stdout.readline() == word
        child.stdin.close()
    watchdog.cancel()


def test_no_standard_input_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert "standard input" in fault("-")[1].what


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    packed = gzip.compress(("a line of text, " * 4 + "\n").encode() * 50_000)  # 3 MB of text a member
    path = file(tmp_path, packed * 16, "text.gz")
    one_line = file(tmp_path, gzip.compress(b"x" * 2_000_000) * 20, "line.gz")
    tracemalloc.start()
    try:
        count = sum(1 for _ in read_lines(path))
        fault(one_line)
        findings = check(one_line)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 800_000
    assert [finding.kind for finding in findings] == ["over-long line"]
    assert peak < 16e6


def test_a_zstd_bomb_is_unpacked_a_piece_at_a_time(tmp_path: Path) -> None:
    bomb = file(tmp_path, zstandard.ZstdCompressor(level=3).compress(b"\n" * 100_000_000), "bomb.zst")
    tracemalloc.start()
    try:
        assert next(read_lines(bomb)) == ""
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 90e6  # 1 KiB of file is 32 MiB of text, here held twice


# ------------------------------------------------------------------------------------------ faults


def place(path: str | Path, line: int, byte: int) -> str:
    return f"{path}, line {line}, byte {byte}"


def test_bad_utf_8_is_named_by_line_and_byte_after_the_good_lines(tmp_path: Path) -> None:
    path = file(tmp_path, b"one\r\nz\xc3\xa9\nab\xffc\nlast\n")
    seen, error = fault(path)
    assert seen == ["one", "zé"]
    assert error.where == place(path, 3, 5 + 4 + 2)
    assert "0xff" in error.what


def test_lines_before_a_fault_are_the_same_as_without_it(tmp_path: Path) -> None:
    good = b"a\r\r\n\r\n\n\xef\xbb\xbfb\r\n"
    assert (
        fault(file(tmp_path, good + b"\xff\n"))[0]
        == list(read_lines(file(tmp_path, good)))
        == ["a\r", "", "", "\ufeffb"]
    )


def test_of_two_faults_in_a_line_the_first_is_named(tmp_path: Path) -> None:
    for content, problem in ((b"a\0\xff\n", "NUL"), (b"a\xff\0\n", "not UTF-8")):
        path = file(tmp_path, content)
        error = fault(path)[1]
        assert problem in error.what
        assert error.where == place(path, 1, 1)


@pytest.mark.parametrize("bad", [b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82"], ids=lambda b: b.hex())
def test_overlong_forms_surrogates_and_half_characters_are_bad_utf_8(tmp_path: Path, bad: bytes) -> None:
    path = file(tmp_path, b"one\n" + bad)
    assert fault(path)[1].where == place(path, 2, 4)


def test_places_are_those_of_the_decompressed_text_beyond_the_first_block(tmp_path: Path) -> None:
    text = "가나다\n".encode() * 300_000 + b"ab\0c\n"
    path = file(tmp_path, gzip.compress(text, 1), "text.gz")
    seen, error = fault(path)
    assert len(seen) == 300_000
    assert error.where == place(path, 300_001, 3_000_002)
    assert "NUL" in error.what


@pytest.mark.parametrize(
    ("encoding", "named"),
    [("utf-8-sig", "UTF-8"), ("utf-16", "UTF-16"), ("utf-32", "UTF-32")],
)
def test_a_byte_order_mark_is_refused_by_its_name(tmp_path: Path, encoding: str, named: str) -> None:
    path = file(tmp_path, "Öl\nzwei\n".encode(encoding))
    seen, error = fault(path)
    assert seen == []
    assert error.where == place(path, 1, 0)
    assert f"byte order mark of {named}" in error.what


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("order", ["le", "be"])
def test_marks_of_either_byte_order_are_known(tmp_path: Path, encoding: str, order: str) -> None:
    path = file(tmp_path, "\ufeffÖl\n".encode(f"{encoding}-{order}"))
    assert f"begins with the byte order mark of {encoding.upper()}" in fault(path)[1].what


def test_a_line_is_too_long_by_one_byte_and_not_before(tmp_path: Path) -> None:
    for end in (b"", b"\n", b"\r\n"):
        for block in (3, 1 << 20):
            path = file(tmp_path, b"ok\n" + "éé".encode() * 5 + end)
            assert list(read_lines(path, longest=20, block=block)) == ["ok", "é" * 10]
            seen, error = fault(path, longest=19, block=block)
            assert (seen, error.where) == (["ok"], place(path, 2, 3))
            assert "longer than 19 bytes" in error.what


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Ältere Öfen für Köln", "LATIN1"),
        ("“Größe” – so", "WINDOWS-1252"),
        ("안녕하세요, 저는 학생입니다.", "CP949"),
        ("Hello, world", "UTF-16LE"),
        ("Hello, world", "UTF-16BE"),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_the_hint_for_a_wrong_encoding_puts_the_file_right(
    tmp_path: Path, text: str, encoding: str, suffix: str
) -> None:
    content = f"{text}\n".encode(encoding)
    path = file(tmp_path, gzip.compress(content) if suffix else content, f"a file.de{suffix}")
    hint = fault(path)[1].hint
    assert f"iconv -f {encoding} -t utf-8" in hint
    subprocess.run(hint.removeprefix("try: "), shell=True, check=True)
    assert list(read_lines(tmp_path / "a file.utf8.de")) == [text]


def test_the_hint_for_a_byte_order_mark_puts_the_file_right(tmp_path: Path) -> None:
    hint = fault(file(tmp_path, "\ufeffone\ntwo\n"))[1].hint
    subprocess.run(hint.removeprefix("try: "), shell=True, check=True)
    assert list(read_lines(tmp_path / "text.utf8.en")) == ["one", "two"]


def test_a_utf_8_file_with_one_spoilt_byte_is_not_taken_for_another_encoding(tmp_path: Path) -> None:
    path = file(tmp_path, "안녕하세요".encode() + b"\xff\n")
    assert fault(path)[1].hint == f"try: jumok data check {path}"


def test_faults_of_standard_input_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"ok\n\0\n")))
    seen, error = fault("-")
    assert (seen, error.where) == (["ok"], place("standard input", 2, 3))


def test_a_missing_file_is_an_error_that_proposes_the_nearest_name(tmp_path: Path) -> None:
    there = file(tmp_path, "a\n", "train.en")
    error = fault(tmp_path / "trian.en")[1]
    assert error.what == f"there is no file {tmp_path / 'trian.en'}"
    assert error.hint == f"did you mean {there}?"


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    assert "folder" in fault(tmp_path)[1].what


@pytest.mark.parametrize(
    ("raised", "wanted"), [(PermissionError(13, "Permission denied"), DataError), (OSError(5, "I/O error"), DiskError)]
)
def test_a_file_that_may_not_or_cannot_be_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: OSError, wanted: type[Exception]
) -> None:
    def refuse(*_: object) -> IO[bytes]:
        raise raised

    path = file(tmp_path, "a\n")
    monkeypatch.setattr("builtins.open", refuse)  # root may read everything, so permissions cannot be tested by chmod
    with pytest.raises(wanted, match=r"text\.en"):
        next(read_lines(path))


# ------------------------------------------------------------------------------------------ pairs


def test_pairs_come_in_step_even_where_python_would_split(tmp_path: Path) -> None:
    source = file(tmp_path, "a\u2028b\nc\n", "train.en")
    target = file(tmp_path, gzip.compress(b"A\r\n\rC"), "train.de.gz")
    assert list(read_pairs(source, target)) == [("a\u2028b", "A"), ("c", "\rC")]


@pytest.mark.parametrize("swapped", [False, True])
def test_an_unequal_number_of_lines_says_both_counts_and_where_the_shorter_ends(tmp_path: Path, swapped: bool) -> None:
    short, long = file(tmp_path, "1\n2\n3\n", "short"), file(tmp_path, "1\n" * 1200, "long")
    first, second = (long, short) if swapped else (short, long)
    counts = {short: "3 lines", long: "1,200 lines"}
    seen, error = outcome(read_pairs(first, second))
    assert len(seen) == 3
    assert error is not None
    assert error.what == f"{first} has {counts[first]} but {second} has {counts[second]}"
    assert error.where == f"{short} ends after line 3; line 4 of {long} has no partner"


def test_one_line_more_is_noticed(tmp_path: Path) -> None:
    empty, one = file(tmp_path, "", "empty"), file(tmp_path, "x", "one")
    for first, second in ((empty, one), (one, empty)):
        with pytest.raises(DataError, match="1 line") as caught:
            list(read_pairs(first, second))
        assert caught.value.where == f"{empty} ends after line 0; line 1 of {one} has no partner"


def test_the_same_file_twice_is_refused_by_whatever_name(tmp_path: Path) -> None:
    path = file(tmp_path, "a\n")
    (tmp_path / "link").symlink_to(path)
    for other in (path, str(path), tmp_path / ".." / tmp_path.name / path.name, tmp_path / "link"):
        with pytest.raises(DataError, match="both source and target"):
            read_pairs(path, other)
    with pytest.raises(DataError, match="standard input"):
        read_pairs("-", "-")


# ------------------------------------------------------------------------------------------ tables


def test_the_first_two_columns_of_a_tsv_are_a_pair(tmp_path: Path) -> None:
    path = file(tmp_path, PACK[".zst"](b"a\tA\nb\tB\tmore\t\n\tx\r\n"), "train.tsv.zst")
    assert list(read_table(path)) == [("a", "A"), ("b", "B"), ("", "x")]


def test_a_row_without_a_tab_is_named(tmp_path: Path) -> None:
    path = file(tmp_path, "a\tA\r\né\tE\nno tab\n", "train.tsv")
    with pytest.raises(DataError, match="tab") as caught:
        list(read_table(path))
    assert caught.value.where == place(path, 3, 5 + 5 + 6)


def test_the_three_shapes_of_jsonl_give_pairs(tmp_path: Path) -> None:
    rows = [
        {"source": "a", "target": "A", "id": 1},
        {"tgt": "B", "src": "b"},
        {"translation": {"en": "c", "de": "C"}},
        {"translation": {"de": "D", "en": "d"}},
    ]
    path = file(tmp_path, "\n".join(json.dumps(row) for row in rows), "train.JSONL")
    assert list(read_table(path)) == [("a", "A"), ("b", "B"), ("c", "C"), ("d", "D")]


def test_a_new_reading_of_another_file_forgets_the_languages(tmp_path: Path) -> None:
    for order in (["en", "de"], ["de", "ko"]):
        row = {"translation": {order[0]: "x", order[1]: "y"}}
        assert list(read_table(file(tmp_path, json.dumps(row), "a.jsonl"))) == [("x", "y")]


def test_bad_json_is_named_by_line_and_byte(tmp_path: Path) -> None:
    path = file(tmp_path, '{"source": "é", "target": "x"}\n{"source": "é", oops}\n', "train.jsonl")
    with pytest.raises(DataError, match="not JSON") as caught:
        list(read_table(path))
    assert caught.value.where == place(path, 2, 32 + 17)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("", "not JSON"),
        ("[1, 2]", "not a JSON object"),
        ('{"source": "a"}', "a row has source, but not"),
        ('{"source": "a", "target": null}', "target is null"),
        ('{"source": 3, "target": "a"}', "source is of type int"),
        ('{"source": "\\ud800", "target": "a"}', "surrogate"),
        ('{"source": "\\u0000", "target": "a"}', "NUL"),
        ('{"translation": {"en": "a", "de": "b", "fr": "c"}}', "de, en, fr"),
        ("[" * 100_000, "depth"),
        ('{"source": ' + "1" * 5000 + "}", "size"),
    ],
)
def test_a_row_that_holds_no_pair_is_an_error(tmp_path: Path, row: str, problem: str) -> None:
    path = file(tmp_path, row + "\n", "train.jsonl")
    with pytest.raises(DataError, match=problem) as caught:
        list(read_table(path))
    assert f"{path}, line 1, byte " in caught.value.where


def test_a_translation_into_other_languages_than_the_first_is_an_error(tmp_path: Path) -> None:
    rows = ['{"translation": {"en": "a", "de": "b"}}', '{"translation": {"en": "a", "fr": "b"}}']
    with pytest.raises(DataError, match="line 2"):
        list(read_table(file(tmp_path, "\n".join(rows), "train.jsonl")))


def test_the_kind_of_a_table_is_its_name_before_the_compression_suffix(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = ["a.tsv", "a.TSV.GZ", "a.jsonl.xz", "x/a.b.jsonl.zst"]
    assert all(is_table(name) for name in tables)
    assert not any(is_table(name) for name in ["a.en", "tsv", "a.tsv.bz2", "a.json", "-", "tsv.gz"])
    with pytest.raises(UsageError):
        read_table("-")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\tb\n")))
    assert list(read_table("-", kind="tsv")) == [("a", "b")]


# ------------------------------------------------------------------------------------------ digest


def test_the_digest_is_of_the_content_in_order_and_not_of_the_names(tmp_path: Path) -> None:
    one, two = file(tmp_path, "ab", "one"), file(tmp_path, "c", "two")
    same, a, bc = file(tmp_path, "ab", "same"), file(tmp_path, "a", "a"), file(tmp_path, "bc", "bc")
    assert digest([one]) == hashlib.sha256(b"ab").hexdigest()
    assert digest([one, two]) == digest([str(same), two])
    assert len({digest([one, two]), digest([two, one]), digest([a, bc]), digest([one])}) == 4


def test_standard_input_and_missing_files_have_no_digest(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        digest(["-"])
    with pytest.raises(DataError):
        digest([tmp_path / "nothing"])


# ------------------------------------------------------------------------------------------ writing


@settings(max_examples=40)
@given(lines=any_lines, suffix=st.sampled_from(["", *PACK]))
def test_what_is_written_is_read_back(folder: Path, lines: list[str], suffix: str) -> None:
    path = folder / f"written{suffix}"
    lines = [line.rstrip("\r").lstrip("\ufeff") for line in lines]
    write_lines(path, iter(lines))
    assert list(read_lines(path)) == lines
    assert digest([path]) == digest([path])


@pytest.mark.parametrize("bad", ["two\nlines", "nul\0", "half \ud800"])
def test_a_line_that_could_not_be_read_back_is_refused_and_nothing_is_left(tmp_path: Path, bad: str) -> None:
    path = file(tmp_path, "old\n")
    with pytest.raises(DataError, match="line 2"):
        write_lines(path, ["fine", bad])
    assert path.read_text() == "old\n"
    assert os.listdir(tmp_path) == [path.name]


def test_a_full_disk_is_a_disk_error_and_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    path = file(tmp_path, "old\n")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskError, match="No space left") as caught:
        write_lines(path, ["new"])
    assert caught.value.hint.startswith("try: df")
    assert path.read_text() == "old\n"
    assert os.listdir(tmp_path) == [path.name]


def test_a_file_is_on_disk_before_it_takes_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []
    fsync, rename = os.fsync, os.replace

    def watched_fsync(number: int) -> None:
        happened.append("fsync of " + ("folder" if os.path.isdir(f"/proc/self/fd/{number}") else "file"))
        fsync(number)

    def watched_rename(*names: Any) -> None:
        happened.append("rename")
        rename(*names)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_rename)
    write_lines(tmp_path / "text", ["a"])
    assert happened == ["fsync of file", "rename", "fsync of folder"]


def test_writing_where_there_is_no_folder_is_a_disk_error(tmp_path: Path) -> None:
    with pytest.raises(DiskError):
        write_lines(tmp_path / "missing" / "text", ["a"])
    with pytest.raises(DiskError):
        write_lines(tmp_path, ["a"])
    with pytest.raises(UsageError):
        write_lines("-", ["a"])


def test_links_stay_links_and_devices_stay_devices(tmp_path: Path) -> None:
    real, link = file(tmp_path, "old\n", "real"), tmp_path / "link"
    link.symlink_to(real)
    write_lines(link, ["new"])
    assert link.is_symlink()
    assert real.read_text() == "new\n"
    device = tmp_path / "pipe"
    os.mkfifo(device)
    reader = os.open(device, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_lines(device, ["through"])
        assert os.read(reader, 100) == b"through\n"
    finally:
        os.close(reader)
    assert device.is_fifo()


# ------------------------------------------------------------------------------------------ check


def kinds(path: Path) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = {}
    for finding in check(path):
        found.setdefault(finding.kind, []).append((finding.line, finding.byte))
    return found


def test_a_clean_file_has_no_findings(tmp_path: Path) -> None:
    assert check(file(tmp_path, "Ein Mann fährt Rad.\n남자가 자전거를 탄다.\ttab  two spaces\n" * 100)) == []
    assert check(file(tmp_path, "")) == []


def test_every_kind_of_finding_is_reported_with_its_place(tmp_path: Path) -> None:
    rows = [
        (b"\xef\xbb\xbfstart ", {"byte order mark": 0, "outer white space": 8}),
        (b"caf\xe9", {"not UTF-8": 3}),
        (b"a\0b", {"NUL": 1}),
        ("é\u2028x".encode(), {"line separator inside": 2}),
        (b"a\rb", {"line separator inside": 1}),
        (b"bell \x07", {"control character": 5}),
        ("가\ufffd".encode(), {"replacement character": 3}),
        ("가\ufeffx".encode(), {"byte order mark inside": 3}),
        (b"", {"empty line": 0}),
        (b" \t", {"empty line": 0}),
        (b" before", {"outer white space": 0}),
        ("é after ".encode(), {"outer white space": 8}),
        ("x e\u0301".encode(), {"not NFC": 0}),
        (b"y" * 100, {"over-long line": 0}),
        (b"windows\r", {"mixed line ends": 7}),
        (b"last\r", {"line separator inside": 4, "outer white space": 4}),  # no line feed follows
    ]
    wanted: dict[str, list[tuple[int, int]]] = {}
    offset = 0
    for number, (raw, problems) in enumerate(rows, start=1):
        for kind, at in problems.items():
            wanted.setdefault(kind, []).append((number, offset + at))
        offset += len(raw) + 1
    path = file(tmp_path, b"\n".join(raw for raw, _ in rows))
    for block in (7, 1 << 20):
        found: dict[str, list[tuple[int, int]]] = {}
        for finding in check(path, longest=40, block=block):
            found.setdefault(finding.kind, []).append((finding.line, finding.byte))
            assert finding.file == str(path)
            assert str(finding.problem)
            assert str(finding.hint)
        assert found == wanted


def test_errors_come_before_warnings_and_each_says_which_it_is(tmp_path: Path) -> None:
    findings = check(file(tmp_path, b"\nx \n\xff\n"))
    assert [(f.severity, f.line) for f in findings] == [("error", 3), ("warning", 1), ("warning", 2)]


@pytest.mark.parametrize("count", [19, 20, 21, 1000])
def test_at_most_twenty_of_a_kind_are_listed_and_all_are_counted(tmp_path: Path, count: int) -> None:
    findings = check(file(tmp_path, "ok\n" + " x\n" * count + "bad \x01\n"))
    totals: Counter[str] = Counter()
    for finding in findings:
        totals[finding.kind] += finding.count
    assert totals == {"outer white space": count, "control character": 1}
    assert len(findings) == min(count, 21) + 1
    if count > 20:
        assert f"{count - 20} more" in str(next(f.problem for f in findings if f.line == 22))


def test_unix_and_windows_line_ends_are_reported_only_when_mixed(tmp_path: Path) -> None:
    assert check(file(tmp_path, "a\r\nb\r\nc")) == []
    assert kinds(file(tmp_path, "a\r\nb\r\nc\nd\r\n")) == {"mixed line ends": [(3, 7)]}
    mixed = check(file(tmp_path, "a\nb\nc\r\n"))
    assert "1 are CR LF, 2 are LF" in str(mixed[0].problem)
    assert (mixed[0].line, mixed[0].byte) == (3, 5)


def test_a_utf_16_file_is_one_finding_and_not_one_a_line(tmp_path: Path) -> None:
    findings = check(file(tmp_path, ("line\n" * 50).encode("utf-16")))
    assert [f.kind for f in findings] == ["wrong encoding"]


def test_a_file_that_cannot_be_read_to_its_end_is_a_finding(tmp_path: Path) -> None:
    assert [f.kind for f in check(tmp_path / "nothing")] == ["unreadable"]
    cut = file(tmp_path, gzip.compress(b"text\n" * 100)[:-3], "cut.gz")
    assert "unreadable" in kinds(cut)


def test_tables_are_checked_row_by_row(tmp_path: Path) -> None:
    assert kinds(file(tmp_path, "a\tb\nno\nc\td\nno\n", "a.tsv")) == {"not a pair": [(2, 6), (4, 13)]}
    assert kinds(file(tmp_path, '{"source": "a", "target": "b"}\n{]\n', "a.jsonl")) == {"not a pair": [(2, 32)]}


@given(lines=any_lines, block=st.integers(1, 40))
def test_check_finds_a_fault_if_and_only_if_reading_does_and_a_warning_where_a_slow_look_does(
    folder: Path, lines: list[str], block: int
) -> None:
    lines = [line.rstrip("\r").lstrip("\ufeff") for line in lines]
    path = file(folder, "".join(line + "\n" for line in lines))
    found = {(finding.kind, finding.line) for finding in check(path, block=block)}
    wanted = set()
    for number, line in enumerate(lines, start=1):
        for kind, holds in {
            "empty line": not line.strip(),
            "outer white space": line.strip() not in ("", line),
            "line separator inside": len(line.splitlines()) > 1 or line != "".join(line.splitlines()),
            "control character": any(unicodedata.category(c) == "Cc" and c not in SPLITTERS + "\t" for c in line),
            "replacement character": "\ufffd" in line,
            "byte order mark inside": "\ufeff" in line,
            "not NFC": unicodedata.normalize("NFC", line) != line,
        }.items():
            wanted |= {(kind, number)} if holds else set()
    assert found == wanted
