"""Forecasts of large runs: from prepared data, from a sample of the text, and without a trace on the disk."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jumok.data import corpora, lexicon
from jumok.data.batches import Position
from jumok.data.prepare import pipeline
from jumok.data.store import Store, StoredSide
from jumok.errors import UsageError
from jumok.runs import forecast, rehearsal
from jumok.runs.choose import choose
from jumok.runs.preparation import prepare_folder
from jumok.runs.rehearsal import Rehearsal, spread_inputs, take_some
from tests.training.test_training import micro

ENOUGH = {"vocabulary.size": 330, "vocabulary.at_most": True}  # for texts


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """The copy task as a prepared folder."""
    out = tmp_path_factory.mktemp("prepared") / "data"
    list(prepare_folder(micro(), out))
    return out


# ------------------------------------------------------------------------------------------ prepared data


def test_a_plan_from_prepared_data_counts_its_pairs_and_leaves_the_folder_as_it_was(prepared, tmp_path):
    (prepared / lexicon.FILE).unlink(missing_ok=True)  # as an earlier version left it
    before = contents(prepared)
    recipe = choose(recipe=micro().change({"data.corpus": None}), prepared=str(prepared), minutes=2.0)
    found = forecast.probe(recipe, tmp_path / "run")
    assert contents(prepared) == before
    assert not (tmp_path / "run").exists()
    assert found.pairs == 300
    assert found.counted
    tokens = found.subwords[1] + len(Store(prepared))  # and an END each
    assert found.epochs == pytest.approx(found.updates * found.update * found.tokens_per_second / tokens, rel=0.005)


def test_a_probe_looks_at_the_lengths_of_the_first_window_alone(prepared, monkeypatch):
    asked: list[int] = []
    plain = StoredSide.lengths
    monkeypatch.setattr(
        StoredSide, "lengths", lambda side, start, stop: asked.append(stop - start) or plain(side, start, stop)
    )
    store = Store(prepared)
    feed = forecast.LongestFirst(store, tokens=64, seed=1, window=1)
    feed.mixture.blocks = lambda epoch, window: [(10, 40)]
    _, first = next(feed.walk(Position(0, 0)))
    assert max(asked) == 30, "never those of the whole store"
    longest = max(len(store.target[row]) for row in range(10, 40))
    assert first.labels.shape[1] == longest + 1
    assert np.all((first.rows.numpy() >= 10) & (first.rows.numpy() < 40))


# ------------------------------------------------------------------------------------------ a sample of the text


def numbered(folder: Path, pairs: int, name: str = "train") -> tuple[str, str]:
    """Two files of numbered sentences."""
    paths = folder / f"{name}.en", folder / f"{name}.xx"
    for path, word in zip(paths, ("sentence", "satz"), strict=True):
        spelt = ("".join(chr(97 + int(digit)) for digit in str(n)) for n in range(pairs))  # digits count as one
        path.write_text("".join(f"{word} number {n} {letters} of many\n" for n, letters in enumerate(spelt)))
    return str(paths[0]), str(paths[1])


def number_of(pair: tuple[str, str]) -> int:
    return int(pair[0].split()[2])


def test_the_pairs_of_a_probe_come_from_all_over_the_text_that_was_read(tmp_path):
    found = Rehearsal(lambda: 0.0)
    pairs = take_some(found, corpora.from_files(*numbered(tmp_path, 20_000)), 3_000)
    numbers = [number_of(pair) for pair in pairs]
    assert numbers == sorted(set(numbers))
    assert 1_500 <= len(numbers) <= 3_000
    assert numbers[0] < 1_000
    assert numbers[-1] > 16_000
    assert (found.count, found.counted, found.tried) == (20_000, True, len(pairs))
    whole = Rehearsal(lambda: 0.0)
    assert len(take_some(whole, corpora.from_files(*numbered(tmp_path, 2_999)), 3_000)) == 2_999


def test_what_a_probe_does_not_read_counts_by_its_size_and_files_are_taken_from_all_over(tmp_path, monkeypatch):
    monkeypatch.setattr(rehearsal, "READING", 0.0)
    inputs = [numbered(tmp_path, 1_000, f"part{number}") for number in range(40)]
    found = Rehearsal(lambda: 0.0)
    take_some(found, corpora.from_inputs("many", inputs), 3_000)
    assert not found.counted
    assert found.count == pytest.approx(40_000, rel=0.02)
    assert found.text == pytest.approx(sum(Path(path).stat().st_size for pair in inputs for path in pair), rel=0.01)
    order = [Path(paths[0]).stem for paths in spread_inputs(corpora.from_inputs("many", inputs))]
    assert sorted(order) == sorted(f"part{number}" for number in range(40))
    assert max(int(name[4:]) for name in order[:5]) >= 30


def test_start_up_is_estimated_from_work_that_grows_and_work_that_does_not(monkeypatch):
    """True values of an idle machine of two cores: 31 s for 2 million pairs, 158 s for 20, 775 s for 100."""
    monkeypatch.setattr("jumok.machine.cores", lambda: 2)
    now = [0.0]
    found = Rehearsal(lambda: now[0])
    moments = (1.0, 1.5, 1.6, 4.1, 4.6, 4.8, 4.8, 8.0, 9.0)
    for now[0], stage in zip(moments, rehearsal.STAGES, strict=True):
        found.record({"event": "corpus"} if stage == "corpus" else {"event": "progress", "stage": stage})
    found.tried, found.sampled, found.learned = 30_000, 7.0, 0.8
    found.seconds = {"reading": 0.19, "deciding": 0.01, "encoding": 0.2, "joining": 0.02}
    for pairs, seconds in ((2_000_000, 31), (20_000_000, 158), (100_000_000, 775)):
        found.count, found.text = pairs, 93 * pairs
        assert found.estimate(1.0, 10.0) == pytest.approx(seconds, rel=0.25)
    found.count = 30_000
    assert found.estimate(1.0, 10.0) == 10.0, "a small text takes as long as it took"


def test_the_probe_of_a_large_text_starts_no_workers_and_knows_the_disk_that_preparing_takes(tmp_path, monkeypatch):
    asked: list[int] = []

    class Watched(pipeline.Crew):
        def __init__(self, workers, *more):
            asked.append(workers)
            super().__init__(workers, *more)

    monkeypatch.setattr(pipeline, "Crew", Watched)
    monkeypatch.setattr(pipeline, "ALONE", 1_000)
    monkeypatch.setattr(rehearsal, "PAIRS", 1_000)
    source, target = numbered(tmp_path, 3_000)
    recipe = choose(source, target, recipe=micro(**ENOUGH), steps=5)
    found = forecast.probe(recipe, tmp_path / "run")
    assert set(asked) == {0}
    assert len(asked) == 2, "once to learn, once to measure"
    assert found.pairs == 3_000
    assert found.preparing == pytest.approx(2.5 * sum(Path(path).stat().st_size for path in (source, target)), rel=0.01)
    assert "for preparing" in "\n".join(found.lines())
    [disk] = replace(found, load=0.0, epochs=12.0, preparing=10**12, available_disk=10**11).verdict()
    assert "1000.0 GB of disk" in disk


def test_a_plan_for_a_text_that_was_not_fetched_says_what_to_do(tmp_path):
    with pytest.raises(UsageError, match="data prepare"):
        forecast.probe(choose(table="https://127.0.0.1:1/a.tsv", recipe=micro(), steps=5), tmp_path / "run")


def test_a_plan_for_a_long_text_does_not_look_for_its_end(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"line {n} of a text that goes on and on\n" for n in range(400)))
    monkeypatch.setattr("jumok.data.passages.count_head", lambda *_: pytest.fail("the whole text was read"))
    found = forecast.probe(choose(text=path, recipe=micro(**ENOUGH), steps=5), tmp_path / "run")
    assert found.pairs > 50
