"""Preparations that take long: every stage can be stopped, says how far it is, and reads nothing twice."""

import json
import os
from pathlib import Path

import pytest

from bench.corpus import Maker
from jumok.data.prepare import folder, parts, pipeline, work
from jumok.stopping import Stop, Stopped
from tests.data.test_prepare import bytes_of, run, small

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
    assert len(hashed) == 1


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
