"""Preparations that take long: every stage can be stopped, says how far it is, and reads nothing twice."""

import hashlib
import importlib
import json
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.corpus import Maker
from jumok.cli import display
from jumok.data import corpora
from jumok.data.prepare import folder, parts, pipeline, reading, work
from jumok.data.prepare.stage import Stage
from jumok.data.quality import survey
from jumok.runs.choose import choose
from jumok.stopping import Stop, Stopped
from tests.data.test_prepare import bytes_of, run, small, written

PAIRS = 2_000


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[str, str]:
    """Two parallel files."""
    place = tmp_path_factory.mktemp("corpus")
    for name, lines in zip(("a.en", "a.xx"), Maker(words=2_000).chunk(0, PAIRS), strict=True):
        (place / name).write_bytes(b"\n".join(lines) + b"\n")
    return str(place / "a.en"), str(place / "a.xx")


class Told(list):
    """A report that remembers the events, and a stop that is asked for after the first one of a stage."""

    def __call__(self, event: str, **values: object) -> None:
        self.append({"event": event, **values})

    def stages(self) -> list[str]:
        return [one["stage"] for one in self if one["event"] == "progress"]

    def stop_at(self, stage: str) -> Stop:
        return Stop(lambda: stage in self.stages())


# ---------------------------------------------------------------------- texts that were touched


@pytest.fixture
def touched(made, tmp_path, monkeypatch) -> tuple[object, Path, list[str]]:
    """A recipe, its prepared folder, and the files that are hashed from now on; one of its texts has another time."""
    copies = [tmp_path / Path(path).name for path in made]
    for copy, path in zip(copies, made, strict=True):
        copy.write_bytes(Path(path).read_bytes())
    recipe = small(*map(str, copies))
    run(recipe, tmp_path / "p")
    hashed: list[str] = []
    plain = folder.digest_in_steps
    monkeypatch.setattr(folder, "digest_in_steps", lambda paths: hashed.append(paths[0]) or plain(paths))
    monkeypatch.setattr(folder, "digest_files", lambda paths: pytest.fail("read without a look at the stop"))
    os.utime(copies[0], (1.0, 1.0))
    return recipe, tmp_path / "p", hashed


def test_a_touched_text_is_compared_once_and_its_new_time_is_remembered(touched, monkeypatch):
    monkeypatch.setattr("jumok.data.prepare.stage.EVERY", 0.0)
    recipe, place, hashed = touched
    before = bytes_of(place)
    told = Told()
    run(recipe, place, report=told)
    assert len(hashed) == 1
    assert [one["share"] for one in told if one.get("stage") == "comparing"] == [0.0, 1.0]
    after = bytes_of(place)
    assert before.pop("prepared.json") != after.pop("prepared.json")
    assert before == after
    run(recipe, place)
    assert len(hashed) == 1, "not at every start, and not by every process"


def test_comparing_a_touched_text_can_be_stopped(touched):
    recipe, place, _ = touched
    told, before = Told(), bytes_of(place)
    with pytest.raises(Stopped):
        run(recipe, place, report=told, stop=told.stop_at("comparing"))
    assert bytes_of(place) == before


def test_a_text_that_changed_but_kept_its_size_is_prepared_anew(touched):
    recipe, place, hashed = touched
    path = Path(recipe.data.source)
    text = path.read_bytes()
    path.write_bytes(text[:100].swapcase() + text[100:])
    first = json.loads((place / "prepared.json").read_bytes())["digest"]
    assert run(recipe, place).digest != first
    assert set(hashed) == {str(path)}


# ---------------------------------------------------------------------- what was encoded before


def test_checking_what_was_encoded_before_can_be_stopped_and_says_how_far_it_is(made, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "PAIRS", 100)
    recipe, told = small(*made), Told()
    with pytest.raises(Stopped):
        run(recipe, tmp_path / "p", report=told, stop=told.stop_at("joining"))
    read: list[int] = []
    plain = work.read_part
    monkeypatch.setattr(work, "read_part", lambda *a, **b: read.append(a[0].name) or plain(*a, **b))
    again = Told()
    with pytest.raises(Stopped):
        run(recipe, tmp_path / "p", report=again, stop=again.stop_at("checking"))
    assert read.count(work.SHARDS) <= 1
    monkeypatch.setattr("jumok.data.prepare.stage.EVERY", 0.0)
    last = Told()
    run(recipe, tmp_path / "p", report=last)
    assert last.stages().count("checking") > PAIRS // 100
    assert pipeline.work_folder(tmp_path / "p").exists() is False


# ---------------------------------------------------------------------- memory and work


@given(st.lists(st.integers(0, 50), max_size=60), st.integers(1, 100), st.integers(1, 10))
def test_blocks_end_at_so_many_lines_or_characters_and_leave_nothing_out(lengths, characters, lines):
    texts = ["a" * length for length in lengths]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work, "LINES", lines)
        patch.setattr(work, "CHARACTERS", characters)
        found = list(work.divide(texts, texts))
    assert [text for part in found for text in texts[part]] == texts
    for part in found:
        assert 1 <= part.stop - part.start <= lines
        assert 2 * sum(lengths[part.start : part.stop - 1]) < characters, "only the last line may exceed them"


def test_where_blocks_end_changes_no_byte_of_what_is_prepared(made, tmp_path, monkeypatch):
    (tmp_path / "excluded.txt").write_bytes(b"\n".join(Path(made[0]).read_bytes().split(b"\n")[50:90]))
    recipe = small(*made, **{"data.exclude": (str(tmp_path / "excluded.txt"),)})
    run(recipe, tmp_path / "p")
    monkeypatch.setattr(work, "CHARACTERS", 700)
    run(recipe, tmp_path / "q")
    assert bytes_of(tmp_path / "p") == bytes_of(tmp_path / "q")


def test_a_block_of_long_lines_is_no_larger_than_one_of_short_lines(tmp_path, monkeypatch):
    sizes: list[int] = []
    plain = work.sift
    monkeypatch.setattr(work, "sift", lambda a, b, *more: sizes.append(len(a) + len(b)) or plain(a, b, *more))
    for name in ("en", "xx"):
        lines = (f"{n} " + " ".join(f"{name}{n * k % 977}" for k in range(150)) for n in range(3_000))
        (tmp_path / f"a.{name}").write_text("".join(f"{line}\n" for line in lines))
    run(small(str(tmp_path / "a.en"), str(tmp_path / "a.xx"), **{"data.longest": 1_000}), tmp_path / "p")
    assert max(sizes) < work.CHARACTERS + 10_000
    assert sum(sizes) > 4 * work.CHARACTERS


@given(st.lists(st.integers(0, 30)), st.lists(st.integers(0, 30)))
def test_values_are_found_among_ordered_ones_as_numpy_finds_them(values, others):
    ordered = np.unique(np.array(others, np.uint64))
    asked = np.array(values, np.uint64)
    assert np.array_equal(work.is_among(asked, ordered), np.isin(asked, ordered))


def test_excluded_sentences_are_not_sorted_again_for_every_block(made, tmp_path, monkeypatch):
    (tmp_path / "excluded.txt").write_bytes(b"\n".join(Path(made[0]).read_bytes().split(b"\n")[50:90]))
    monkeypatch.setattr(np, "isin", lambda *_: pytest.fail("this sorts both"))
    found = run(small(*made, **{"data.exclude": (str(tmp_path / "excluded.txt"),)}), tmp_path / "p")
    assert found.summary["left_out"]["in a validation or test file"] >= 40


# ---------------------------------------------------------------------- progress


def test_every_stage_says_its_share_its_rate_and_the_time_left(made, tmp_path, monkeypatch):
    monkeypatch.setattr("jumok.data.prepare.stage.EVERY", 0.0)
    monkeypatch.setattr(parts, "PAIRS", 100)
    monkeypatch.setattr("jumok.data.prepare.validation.LINES", 10)
    for name, path in zip(("valid.en", "valid.xx"), made, strict=True):
        (tmp_path / name).write_bytes(b"\n".join(Path(path).read_bytes().split(b"\n")[:50]) + b"\n")
    files = {"data.valid_source": str(tmp_path / "valid.en"), "data.valid_target": str(tmp_path / "valid.xx")}
    told = Told()
    run(small(*made, **files, **{"data.exclude": (str(tmp_path / "valid.en"),)}), tmp_path / "p", report=told)
    run(small(*made), tmp_path / "q", report=told)
    wanted = {"hashing", "validation", "excluding", "reading", "deciding", "vocabulary", "encoding", "joining"}
    assert wanted <= set(told.stages())
    for stage in wanted:
        seen = [one for one in told if one.get("stage") == stage]
        assert seen[0]["share"] == 0.0, stage
        assert len(seen) > 1, stage
        words = display.describe_progress(seen[-1] | {"seconds": 2.0})
        assert "/s" in words, words
    for stage in ("deciding", "joining"):
        last = [one for one in told if one.get("stage") == stage][-1]
        assert last["count"] == pytest.approx(last["share"] * PAIRS, rel=0.2), stage


def test_the_rate_of_a_resumed_stage_does_not_count_what_was_done_before(monkeypatch):
    moments = iter((101.0, 102.0, 104.0))
    monkeypatch.setattr("jumok.data.prepare.stage.time", SimpleNamespace(monotonic=lambda: next(moments)))
    told = Told()
    stage = Stage(told, "reading", "Reading", began=100.0, reported=100.0)
    stage.skip(0.5, 1_000)
    stage(0.75, 1_500)
    stage(1.0, 2_000)
    assert [one["rate"] for one in told] == [None, 0.0, 250.0, 250.0]
    assert "250/s" in display.describe_progress(told[-1])


# ---------------------------------------------------------------------- reading once


@pytest.fixture
def opened(monkeypatch) -> list[str]:
    """The files that are read from now on, each once for every time."""
    found: list[str] = []
    for module, name in (("files", "blocks"), ("lines", "hash_files")):
        plain = getattr(importlib.import_module(f"jumok.text.{module}"), name)

        def read(path, *more, plain=plain, **named):
            found.append(str(path[0] if isinstance(path, list | tuple) else path))
            return plain(path, *more, **named)

        for place in ("text.files", "text.lines", "data.prepare.reading", "data.prepare.validation"):
            owner = importlib.import_module(f"jumok.{place}")
            if getattr(owner, name, None) is plain:
                monkeypatch.setattr(owner, name, read)
    return found


def test_a_text_is_read_three_times_to_measure_to_train_and_to_validate(tmp_path, opened):
    text = tmp_path / "text.txt"
    text.write_text("".join(f"Line {n} of a text that is learnt itself.\n" for n in range(300)))
    recipe = choose(text=str(text), recipe="tiny", changes={"vocabulary.size": 330, "vocabulary.at_most": True})
    told = Told()
    found = run(recipe, tmp_path / "p", report=told)
    assert opened == [str(text)] * 3
    digest = hashlib.sha256(text.read_bytes()).hexdigest()
    assert [entry["sha256"] for entry in (*found.summary["files"], *found.summary["beside"])] == [digest] * 2
    assert "measuring" in told.stages()


def test_looking_for_the_end_of_a_text_and_skipping_to_it_can_be_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr("jumok.data.prepare.validation.LINES", 10)
    monkeypatch.setattr("jumok.data.prepare.pipeline.LINES", 10)
    text = tmp_path / "text.txt"
    text.write_text("".join(f"Line {n} of a text that is learnt itself.\n" for n in range(300)))
    recipe = choose(text=str(text), recipe="tiny", changes={"vocabulary.size": 330, "vocabulary.at_most": True})
    for stage in ("measuring", "validation"):
        told = Told()
        with pytest.raises(Stopped):
            run(recipe, tmp_path / "p", report=told, stop=told.stop_at(stage))
        assert told.stages()[-1] == stage


def test_a_parquet_file_is_hashed_while_it_is_read(made, tmp_path, monkeypatch):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install jumok[parquet]")
    from pyarrow import parquet

    sides = [Path(path).read_text(encoding="utf-8").split("\n")[:500] for path in made]
    parquet.write_table(
        arrow.table({"source": sides[0], "target": sides[1]}), tmp_path / "a.parquet", row_group_size=100
    )
    order: list[str] = []
    unit, hashed = work.TABLE["unit"], reading.hash_files
    monkeypatch.setitem(work.TABLE, "unit", lambda **named: order.append("read") or unit(**named))

    def hash_files(paths):
        order.append("hash")
        return (yield from hashed(paths))

    monkeypatch.setattr(reading, "hash_files", hash_files)
    monkeypatch.setattr("jumok.text.columnar.UNIT", 100)
    recipe = small("", "").change({"data.source": None, "data.target": None, "data.table": str(tmp_path / "a.parquet")})
    found = run(recipe, tmp_path / "p")
    assert order == ["read", "hash", "read", "read", "read", "read"], "not after all of it"
    digest = hashlib.sha256((tmp_path / "a.parquet").read_bytes()).hexdigest()
    assert found.summary["files"][0]["sha256"] == digest


# ---------------------------------------------------------------------- tables and temporary files


def test_excluded_tables_are_read_by_the_columns_that_were_named(tmp_path):
    """Columns three and four; those before them are no sentences."""
    words = [chr(97 + n % 26) * (n % 7 + 1) for n in range(150)]
    rows = [f"{word * 3}\tnews {word}\tan english line {word}\tein satz {word}" for word in words]
    (tmp_path / "all.tsv").write_text("".join(f"{row}\n" for row in rows))
    (tmp_path / "test.tsv").write_text("".join(f"{row}\n" for row in rows[:20]))
    recipe = small("", "").change(
        {"data.source": None, "data.target": None, "data.table": str(tmp_path / "all.tsv"), "data.columns": "3,4",
         "data.exclude": (str(tmp_path / "test.tsv"),), "vocabulary.size": 320, "vocabulary.at_most": True}
    )  # fmt: skip
    found = run(recipe, tmp_path / "p")
    assert found.summary["left_out"]["in a validation or test file"] == 20


def test_hashes_that_do_not_fit_in_memory_are_next_to_the_text(tmp_path, monkeypatch):
    places: list[str | None] = []

    class Watched(survey.TemporaryDirectory):
        def __init__(self, *more, dir=None, **named):
            places.append(dir and str(dir))
            super().__init__(*more, dir=dir, **named)

    monkeypatch.setattr(survey, "TemporaryDirectory", Watched)
    monkeypatch.setattr(survey.Distinct, "HELD", 10)
    for name in ("a.en", "a.xx"):
        (tmp_path / name).write_text("".join(f"line {n % 40}\n" for n in range(50)))
    found = survey.stats(corpora.from_files(tmp_path / "a.en", tmp_path / "a.xx"))
    assert places == [str(tmp_path)] * 3
    assert found.repeated == found.source.repeated == found.target.repeated == 10
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.en", "a.xx"], "and removed"


# ---------------------------------------------------------------------- validation pairs


def test_the_source_of_a_validation_pair_does_not_train_unless_it_is_short(tmp_path):
    words = [chr(97 + n) for n in range(26)]
    train = [(f"This is sentence {word} of a text.", f"Das ist der Satz {word} eines Textes.") for word in words]
    train += [("Thank you.", "Danke schön."), ("This is sentence a of a text.", "Hier steht etwas ganz anderes.")]
    train += [("Something else is written here.", "Das ist der Satz b eines Textes."), ("Thank you.", "Vielen Dank.")]
    valid = [
        ("This is sentence a of a text.", "So lautet der Satz."),
        ("Well, then.", "Das ist der Satz b eines Textes."),
    ]
    valid += [("Thank you.", "Ich danke Ihnen.")]
    files = written(tmp_path, train)
    validating = dict(zip(("data.valid_source", "data.valid_target"), written(tmp_path, valid, "valid"), strict=True))
    recipe = small(*files, **{"vocabulary.size": 330, "vocabulary.at_most": True, **validating})
    found = run(recipe, tmp_path / "p")
    assert found.summary["left_out"] == {"in a validation or test file": 2}
    assert [line - 1 for line in found.store.lines.tolist()] == [*range(1, 26), 26, 28, 29]  # also with a known target


def test_work_that_an_earlier_version_has_begun_is_not_mixed_with_another_rule(made, tmp_path):
    recipe, told = small(*made, **{"data.valid_source": made[0], "data.valid_target": made[1]}), Told()
    with pytest.raises(Stopped):
        run(recipe, tmp_path / "p", report=told, stop=told.stop_at("reading"))
    assert json.loads((tmp_path / "p.work" / "plan.json").read_bytes())["excluding"] == "sides"
