"""Forecasts of large runs: from prepared data, from a sample of the text, and without a trace on the disk."""

from pathlib import Path

import numpy as np
import pytest

from jumok.data import lexicon
from jumok.data.batches import Position
from jumok.data.store import Store, StoredSide
from jumok.runs import forecast
from jumok.runs.choose import choose
from jumok.runs.preparation import prepare_folder
from tests.training.test_training import micro


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
