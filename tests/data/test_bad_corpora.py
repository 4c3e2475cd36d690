"""Promise D1 on every sort of bad corpus: what is wrong is named, nothing hangs, and --fix gives what trains."""

import builtins
import gzip
import json
import os
import random
import shlex
import signal
import tracemalloc
from pathlib import Path

import pytest

from jumok.data import corpora
from jumok.data.quality import fix, survey
from jumok.errors import DataError, DiskError, UsageError
from jumok.text import encodings, files, repair
from jumok.text.lines import read_lines
from tests.conftest import MICRO
from tests.support.bad_corpora import ALL, BAD, SOURCE, TARGET, Bad
from tests.text.test_lines import PACK

SECONDS = 60  # more than any of them takes on a busy machine, and less than for ever


@pytest.fixture(autouse=True)
def in_time():
    """A test that waits for a pipe or unpacks for ever fails instead."""

    def late(*_: object) -> None:
        raise AssertionError(f"not done after {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(params=BAD)
def name(request) -> str:
    return request.param


@pytest.fixture
def bad(name) -> Bad:
    return BAD[name]


@pytest.fixture
def paths(bad, tmp_path, monkeypatch) -> list[str]:
    """The files of a corpus."""
    made = [tmp_path / file for file in bad.names]
    for path, content in zip(made, (bad.source, bad.target), strict=False):
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif content is not None:
            content(path)
    if bad.unreadable:
        forbid(made[0], monkeypatch)
    return [str(path) for path in made]


def forbid(path: Path, monkeypatch) -> None:
    """Nobody may read this file: by its mode, or, as root may read all, by an `open` that says what others hear."""
    path.chmod(0)
    real = builtins.open

    def refuse(file, *rest, **options):
        if str(file) == str(path):
            raise PermissionError(13, "Permission denied")
        return real(file, *rest, **options)

    if os.geteuid() == 0:
        monkeypatch.setattr(builtins, "open", refuse)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_every_bad_corpus_is_found_out_with_line_byte_and_what_to_try(paths, bad, jumok, kept):
    findings = survey.check(paths)
    found: dict[str, tuple[int, int]] = {}
    for finding in findings:
        found.setdefault(finding.kind, (finding.line, finding.byte))
        hint = str(finding.hint)
        assert str(finding.problem)
        assert "try: " in hint or "did you mean" in hint or finding.kind == "replacement character"
        assert any(path in finding.file for path in paths)
    assert found == bad.found
    errors = [finding for finding in findings if finding.severity == "error"]
    answer = jumok("data", "check", *paths)
    assert answer.code == (64 if errors else 0)
    assert len(answer.out.splitlines()) == len(findings) + (not errors)
    assert answer.err == ""
    kept("D1", "bad corpora checked: every fault with its line, byte and what to try", count=1)


def test_every_bad_corpus_is_refused_by_training_in_three_lines_or_read_as_it_is(paths, bad, jumok, tmp_path, kept):
    if isinstance(bad.reads, list):
        assert [(source, target) for source, target, _ in corpora.from_paths(paths)] == bad.reads
        kept("D1", "odd corpora that training takes: every pair as it stands", count=1)
        return
    options = ["--table", paths[0]] if bad.target is None else ["--source", paths[0], "--target", paths[1]]
    answer = jumok("train", *options, "--out", tmp_path / "run")
    assert answer.code == 64
    what, where, hint = answer.complaint
    assert bad.reads in what
    assert bad.where in where
    assert any(path in what + where for path in paths)
    assert hint.startswith("try: ") or "try: " in hint or "did you mean" in hint
    assert "Traceback" not in answer.err
    kept("D1", "bad corpora that training refuses: in three lines, exit code 64", count=1)


def test_fixing_a_bad_corpus_gives_pairs_that_train_or_says_why_not(paths, bad, jumok, tmp_path, kept):
    before = {} if bad.unreadable else contents(tmp_path)
    answer = jumok("data", "check", *paths, "--fix", "--json", "--out", tmp_path / "out")
    if isinstance(bad.fixed, str):
        assert answer.code == 64
        what, _, hint = answer.complaint
        assert bad.fixed in what
        assert "try: " in hint or "did you mean" in hint
        assert not (tmp_path / "out").exists()
        assert before == ({} if bad.unreadable else contents(tmp_path))
        kept("D1", "bad corpora that no rule puts right: refused with the reason, nothing written", count=1)
        return
    assert (answer.code, answer.err) == (0, "")
    told = json.loads(answer.out)
    made = [one["made"] for one in told["files"]]
    assert [Path(path).name for path in made] == list(bad.names)
    assert [pair[:2] for pair in corpora.from_paths(made)] == bad.fixed
    assert told["counts"] == bad.done
    assert told["kept"] == len(bad.fixed) == told["read"] - told["dropped"]
    assert [finding for finding in survey.check(made) if finding.severity == "error"] == []
    after = contents(tmp_path)
    assert {path: raw for path, raw in after.items() if path in before} == before
    assert set(after) - set(before) == {*made, told["report"]}
    kept("D1", "bad corpora put right by --fix", count=1, figures="all fit for training, 0 pairs re-aligned")


# ------------------------------------------------------------------------------------------ what --fix writes


@pytest.fixture
def pair(tmp_path) -> list[str]:
    (tmp_path / "train.en").write_bytes(b"\xef\xbb\xbf" + SOURCE)
    (tmp_path / "train.de").write_bytes(b"eins\r\nzw\xff\xc3\xa9ei\r\n dr\x07ei\r\n")
    return [str(tmp_path / "train.en"), str(tmp_path / "train.de")]


def test_the_report_counts_what_was_done_and_names_file_line_and_byte(pair, jumok, tmp_path):
    answer = jumok("data", "check", *pair, "--fix")
    assert answer.code == 0
    report = (tmp_path / "fixed" / "train.en.report.txt").read_text()
    for line in (
        "2 of 3 pairs kept",
        "1  pair dropped: not UTF-8",
        f"{pair[1]}, line 2: pair dropped: not UTF-8 ({pair[1]} is not UTF-8: byte 0xff is invalid there, byte 8)",
        f"{pair[1]}, line 3: control character removed",
        f"{pair[1]}, line 3: outer white space removed",
        f"{pair[1]}: CR LF made LF (3 lines)",
        f"{pair[0]}: byte order mark removed",
    ):
        assert line in report
    command = answer.out.splitlines()[-1]
    assert command.startswith("try: jumok train --source ")
    assert jumok("data", "check", *(tmp_path / "fixed" / file for file in ("train.en", "train.de"))).code == 0
    assert shlex.split(command)[4::2] == [str(tmp_path / "fixed" / file) for file in ("train.en", "train.de")]


def test_a_long_list_of_changes_is_cut_and_counted(pair, tmp_path, monkeypatch):
    monkeypatch.setattr(repair, "LISTED", 5)
    monkeypatch.setattr(fix, "LISTED", 5)
    Path(pair[0]).write_bytes(b" x\n" * 50)
    Path(pair[1]).write_bytes(b"y\n" * 50)
    made = fix.fix(pair)
    assert made.log.counts == {"outer white space removed": 50}
    rows = made.report.read_text().splitlines()
    assert sum("line" in row and row.endswith(": outer white space removed") for row in rows) == 5
    assert rows[-1] == "45 more: outer white space removed"


@pytest.mark.parametrize("suffix", PACK)
def test_compressed_files_come_out_compressed_and_a_second_run_changes_no_byte(tmp_path, suffix):
    (tmp_path / "a.en").write_bytes(SOURCE)
    (tmp_path / f"a.de{suffix}").write_bytes(PACK[suffix](b" " + TARGET))
    made = fix.fix([str(tmp_path / "a.en"), str(tmp_path / f"a.de{suffix}")])
    assert b"".join(files.blocks(made.outputs[1], 100)) == TARGET
    assert Path(made.outputs[1]).read_bytes() != TARGET
    before = contents(tmp_path)
    assert fix.fix(made.files).sums == made.sums
    assert contents(tmp_path) == before


def test_a_fixed_corpus_is_fixed_already(pair, tmp_path):
    made = fix.fix(pair)
    again = fix.fix(made.outputs, tmp_path / "again")
    assert (again.sums, again.log.counts) == (made.sums, {})


def test_what_fix_has_made_is_made_anew_and_what_others_have_made_is_not_touched(pair, tmp_path):
    made = fix.fix(pair)
    Path(pair[1]).write_bytes(TARGET)
    fix.fix(pair)
    assert Path(made.outputs[1]).read_bytes() == TARGET
    Path(made.outputs[1]).write_bytes(b"mine\n")
    Path(pair[1]).write_bytes(b"neu\n" * 3)
    before = contents(tmp_path)
    with pytest.raises(UsageError, match="was not written by --fix"):
        fix.fix(pair)
    assert contents(tmp_path) == before
    Path(made.outputs[1]).write_bytes(b"neu\n" * 3)
    fix.fix(pair)  # the same bytes may be there, whoever made them


def test_originals_are_never_written_over(pair, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    for out in (tmp_path, tmp_path / "link", tmp_path / "fixed" / ".."):
        with pytest.raises(UsageError, match="originals are never changed"):
            fix.fix(pair, out)


def test_files_of_the_same_name_get_numbers(tmp_path):
    for folder, text in (("en", SOURCE), ("de", TARGET)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.txt").write_bytes(text)
    made = fix.fix([str(tmp_path / "en" / "train.txt"), str(tmp_path / "de" / "train.txt")], tmp_path / "out")
    assert [Path(path).name for path in made.outputs] == ["1-train.txt", "2-train.txt"]
    assert [pair[:2] for pair in corpora.from_paths(made.outputs)] == ALL


def test_a_name_that_is_not_utf_8_is_told_and_changes_nothing_else(tmp_path):
    folder = tmp_path / "caf\udce9\n"
    folder.mkdir()
    (folder / "a.tsv").write_bytes(b"one\teins \n")
    made = fix.fix([str(folder / "a.tsv")], tmp_path / "out")
    assert "caf\\udce9\\n/a.tsv, line 1: outer white space removed\n" in made.report.read_text()


def test_a_file_alone_keeps_its_number_of_lines(tmp_path):
    path = tmp_path / "text.en"
    path.write_bytes(b"one\nbad \xff\n\n four \n")
    made = fix.fix([str(path)])
    assert Path(made.outputs[0]).read_bytes() == b"one\n\n\nfour\n"
    assert made.log.counts == {"line emptied: not UTF-8": 1, "outer white space removed": 1}


def test_a_file_alone_of_which_nothing_is_left_is_refused(tmp_path):
    path = tmp_path / "text.en"
    path.write_bytes(b"bad \xff\n \n")
    with pytest.raises(DataError, match="nothing is left") as caught:
        fix.fix([str(path)])
    assert caught.value.where == "line emptied: not UTF-8: 1"


def test_several_tables_are_each_a_corpus(tmp_path):
    paths = [str(tmp_path / f"{number}.tsv") for number in (1, 2)]
    Path(paths[0]).write_bytes(b"a\tA\nb\n")
    Path(paths[1]).write_bytes(b"c\tC\nd\tD\ne\tE\n")
    made = fix.fix(paths)
    assert [pair[:2] for path in made.outputs for pair in corpora.from_table(path)] == [
        *zip("acde", "ACDE", strict=True)
    ]
    assert (made.total, made.dropped) == (5, 1)


def test_unequal_files_are_told_the_first_line_that_is_empty_on_one_side_only(tmp_path):
    source, target = tmp_path / "a.en.gz", tmp_path / "a.de"
    source.write_bytes(gzip.compress(b"one\n\ntwo\nthree\nfour\n"))
    target.write_bytes(TARGET)
    with pytest.raises(DataError, match="has 5 lines but") as caught:
        fix.fix([str(source), str(target)])
    assert f"the first line that is empty on one side only is line 2 of {source}" in caught.value.where
    assert f"paste <(gzip -dc {source}) {target}" in caught.value.hint


def test_standard_input_and_an_out_without_fix_are_refused(jumok, pair, tmp_path):
    assert jumok("data", "check", "-", "--fix").code == 2
    assert jumok("data", "check", *pair, "--out", tmp_path / "x").code == 2


def test_a_disk_that_takes_nothing_leaves_nothing_and_is_told(pair, tmp_path, monkeypatch):
    before = contents(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskError, match="No space left"):
        fix.fix(pair)
    assert contents(tmp_path) == before
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DiskError):
        fix.fix(pair, tmp_path / "file" / "out")


def test_what_would_not_be_fit_gets_no_name(pair, tmp_path, monkeypatch):
    monkeypatch.setattr(fix, "read_repaired", lambda path, log: (repair.Line(n, "\ufefftext") for n in (1, 2)))
    before = contents(tmp_path)
    with pytest.raises(DataError, match="would not be fit"):
        fix.fix(pair)
    assert contents(tmp_path) == before


def test_the_blocks_that_a_file_is_read_in_change_nothing(tmp_path):
    path = tmp_path / "text"
    for raw in (
        ("\ufeff" + "가나 😀 x\r\n" * 9).encode("utf-16-be"),
        ("가나다 라마\n안녕하세요\n" * 9).encode("cp949"),
        b"\xef\xbb\xbfa\0b\xe2\x80\xa8c\r\n\xffx\n" * 4,
        b"one\rtwo\r",
    ):
        path.write_bytes(raw)
        log = repair.Log()
        whole = list(repair.read_repaired(path, log))
        for block in (4, 5, 7, 16):
            again = repair.Log()
            assert list(repair.read_repaired(path, again, block=block)) == whole
            assert again.changes == log.changes


def test_empty_lines_are_all_counted_however_many_there_are(tmp_path):
    path = tmp_path / "text"
    for count in (1, 20, 21, 22, 3_000_000):
        path.write_bytes(b"\n" * count + b"text\n")
        findings = survey.check([str(path)])
        assert sum(finding.count for finding in findings) == count
        assert len(findings) == min(count, 21)


def test_a_few_nul_in_a_text_do_not_make_it_utf_16(tmp_path):
    path = tmp_path / "text"
    for raw in (
        b"ab\0\n" * 10,
        b"1 text\n2 text \xff\xc3\n3 text\0\n4 text\n",
        b"a long line with one\0NUL in it\n",
        "가\0나\n".encode() * 8,
    ):
        path.write_bytes(raw)
        assert encodings.examine(path).encoding == "UTF-8"


def test_memory_and_time_do_not_grow_with_what_a_bomb_unpacks_to(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "ALLOWANCE", 20_000_000)
    bombs = {"lines.gz": b"\n" * 1_000_000, "line.gz": b"x" * 1_000_000}
    for name, text in bombs.items():
        (tmp_path / name).write_bytes(gzip.compress(text) * 200)
    (tmp_path / "text").write_bytes(TARGET)
    tracemalloc.start()
    try:
        for name in bombs:
            path = str(tmp_path / name)
            assert "unreadable" in {finding.kind for finding in survey.check([path])}
        with pytest.raises(DataError, match="200 times"):
            fix.fix([str(tmp_path / "line.gz"), str(tmp_path / "text")])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 150e6  # a block of a million empty lines as a list, whatever follows it


JUNK = [
    b"\xff", b"\xc3", b"\xed\xa0\x80", b"\0", b"\0" * 60, b"\x07", b"\r", b" ", b"\t", "\ufeff".encode(),
    "\u2028".encode(), "\x85".encode(), "é가".encode(), "e\u0301".encode(), "Öfen für".encode("latin-1"),
    "안녕".encode("cp949"),
]  # fmt: skip


def damaged(draw: random.Random, count: int) -> bytes:
    """Lines that begin with their number, with junk behind some of them, some of them empty, in one form or another."""
    share = draw.choice((0.0, 0.05, 0.5))
    ends = draw.choice(([b"\n"], [b"\r\n"], [b"\n", b"\r\n"], [b"\n"]))
    text = b""
    for number in range(count):
        line = b"%d text " % number if draw.random() > share / 4 else draw.choice((b"", b" ", b"\t"))
        junk = draw.choices(JUNK, k=draw.randint(1, 3)) if draw.random() < share and line.strip() else []
        text += line + b"".join(junk) + draw.choice(ends)
    form = draw.choice(("", "", "mark", "utf-16"))
    if form == "utf-16":
        return text.decode("utf-8", "ignore").encode("utf-16")
    return (b"\xef\xbb\xbf" if form else b"") + text + draw.choice((b"", b"", b"\n"))


def test_whatever_is_wrong_no_pair_is_re_aligned_and_every_pair_is_kept_or_reported(tmp_path, tries, kept, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)  # thousands of them would take minutes
    pairs = dropped = 0
    reasons = set()
    for number in range(tries(100, 5_000)):
        signal.alarm(SECONDS)
        draw = random.Random(number)
        count = draw.randint(1, 30)
        paths = [tmp_path / "a.en", tmp_path / "a.de"]
        for path in paths:
            path.write_bytes(damaged(draw, count))
        try:
            made = fix.fix([str(path) for path in paths], tmp_path / "out")
        except DataError as error:
            reasons.add(error.what.split(" of ")[0])
            continue
        sides = [[int(line.split()[0]) for line in read_lines(path)] for path in made.outputs]
        assert sides[0] == sides[1] == sorted(set(sides[0]))
        told = [change.line - 1 for change in made.log.changes if change.what.startswith("pair dropped")]
        assert sorted(sides[0] + told) == list(range(made.total))
        assert count <= made.total <= count + 1  # both may end in an empty line
        pairs, dropped = pairs + made.total, dropped + made.dropped
    assert reasons == {"nothing is left"}
    figures = f"{pairs:,} pairs, {dropped:,} dropped and reported, 0 re-aligned"
    kept("D1", "corpora damaged at random, put right by --fix", figures=figures)


@pytest.mark.slow
def test_a_fixed_corpus_trains(jumok, tmp_path):
    letters = [" ".join("abcdefghij"[(7 * n + k) % 10] for k in range(1 + n % 7)) for n in range(400)]
    (tmp_path / "train.en").write_bytes(("\ufeff" + "\r\n".join(letters) + "\r\n").encode("utf-16"))
    (tmp_path / "train.de").write_bytes(b"\n".join(line.encode() for line in letters) + b"\n\n")
    train = ["train", "--steps", "2", "--out", tmp_path / "run"]
    train += [
        part
        for key, value in MICRO.items()
        if value is not None and key != "data.corpus"
        for part in ("--set", f"{key}={value}")
    ]
    assert jumok(*train, "--source", tmp_path / "train.en", "--target", tmp_path / "train.de").code == 64
    assert jumok("data", "check", tmp_path / "train.en", tmp_path / "train.de", "--fix").code == 0
    fixed = tmp_path / "fixed"
    assert jumok(*train, "--source", fixed / "train.en", "--target", fixed / "train.de").code == 0
