"""Several corpora in training: every stretch is a fair mixture, every pair comes as often as its share says."""

import json
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from jumok.config.sections import CorpusConfig, DataConfig
from jumok.data import mixture
from jumok.data.batches import Batches, Position
from jumok.data.store import Store
from jumok.keys import generator

BLOCK, WINDOW, TOKENS = 64, 2_048, 128


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(mixture, "BLOCK", BLOCK)


def stored(folder: Path, corpora: list[tuple[int, int, float | None]], *, mixed: bool = True) -> Store:
    """A store of corpora given by number of pairs, mean length and share; ids are of no matter."""
    folder.mkdir()
    rng, spans, sizes = generator(1, "lengths"), [], []
    for pairs, mean, share in corpora:
        spans.append([sum(len(size) for size in sizes), pairs, share])
        sizes.append(rng.poisson(mean, pairs).clip(1, 40))
    lengths = np.concatenate(sizes)
    begins = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64)
    for side in ("source", "target"):
        np.full(int(lengths.sum()), 9, np.uint16).tofile(folder / f"{side}.ids")
        begins.tofile(folder / f"{side}.begins")
    np.arange(1, len(lengths) + 1, dtype=np.uint64).tofile(folder / "lines")
    meta = {"format": 1, "count": len(lengths), "dtype": "uint16", "left_out": {}}
    meta |= {"order": "rows", "corpora": spans} if mixed else {}
    (folder / "meta.json").write_text(json.dumps(meta))
    return Store(folder)


def feed(store: Store, **more: object) -> Batches:
    return Batches(store, tokens=TOKENS, seed=3, window=WINDOW, **more)  # type: ignore[arg-type]


def shares_of(store: Store, batches: Batches, updates: int) -> tuple[np.ndarray, np.ndarray]:
    """The share of each corpus in every stretch of 1,000 updates, and how often each row came."""
    ends = [first + rows for first, rows, _ in store.corpora]
    counts, seen = [], Counter[int]()
    for _, batch in islice(batches.walk(Position(0, 0)), updates):
        rows = batch.rows.numpy()
        seen.update(rows.tolist())
        counts.append(np.bincount(np.searchsorted(ends, rows, side="right"), minlength=len(ends)))
    sums = np.concatenate([np.zeros((1, len(ends))), np.cumsum(counts, axis=0)])
    stretch = sums[1_000:] - sums[:-1_000]
    return stretch / stretch.sum(axis=1, keepdims=True), np.array([seen[row] for row in range(len(store))])


@pytest.mark.parametrize(
    ("first", "second"), [((12_000, 6, 1.0), (24_000, 14, 1.0)), ((30_000, 5, 3.0), (6_000, 18, 1.0))]
)
def test_every_stretch_of_a_thousand_updates_has_the_shares_that_were_given(tmp_path, first, second):
    store = stored(tmp_path / "s", [first, second])
    wanted = first[2] / (first[2] + second[2])
    found, _ = shares_of(store, feed(store), 8_000)
    assert np.abs(found[:, 0] - wanted).max() < 0.03


def test_two_corpora_in_a_row_without_shares_are_mixed_as_their_sizes_say(tmp_path):
    store = stored(tmp_path / "s", [(20_000, 6, None), (10_000, 15, None)])
    found, seen = shares_of(store, feed(store), sum(1 for _ in feed(store).epoch(0)))
    assert np.abs(found[:, 0] - 2 / 3).max() < 0.03
    assert set(seen.tolist()) == {1}


def test_one_file_whose_halves_differ_is_mixed_too(tmp_path):
    """Two corpora that were put into one file: the store knows of one only."""
    store = stored(tmp_path / "s", [(40_000, 8, None)])
    batches = feed(store)
    half = [float((batch.rows < 20_000).float().mean()) for batch in batches.epoch(0)]
    sizes = [len(batch.rows) for batch in batches.epoch(0)]
    weight = np.convolve(sizes, np.ones(1_000), "valid")
    stretch = np.convolve(np.multiply(half, sizes), np.ones(1_000), "valid") / weight
    assert np.abs(stretch - 0.5).max() < 0.08
    mean = [np.average(half[i : i + 500], weights=sizes[i : i + 500]) for i in range(0, len(half) - 500, 500)]
    assert max(mean) - min(mean) < 0.2


def test_a_pair_comes_as_often_as_the_share_of_its_corpus_says(tmp_path):
    store = stored(tmp_path / "s", [(8_000, 8, 1.0), (2_000, 8, 1.0)])
    batches = feed(store)
    assert batches.mixture.taken == [78, 80]  # of 125 and 32 blocks, the last of them shorter
    seen = Counter[int]()
    for epoch in range(4):
        for batch in batches.epoch(epoch):
            seen.update(batch.rows.tolist())
    first, second = ([seen[row] for row in rows] for rows in (range(8_000), range(8_000, 10_000)))
    assert max(first) - min(first) <= 1
    assert max(second) - min(second) <= 1
    assert sum(first) / sum(second) == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("small", [1_000, 4_500, 9_000, 15_978])
def test_a_small_corpus_has_its_share_though_its_last_block_is_short(monkeypatch, small):
    monkeypatch.setattr(mixture, "BLOCK", 4_096)
    corpora = [(0, 1_000_000, 1.0), (1_000_000, small, 1.0)]
    mixed = mixture.Mixture(corpora, seed=1, window=1 << 20)
    rows = np.zeros(2)
    for epoch in range(3):
        for window in range(mixed.windows):
            for first, last in mixed.blocks(epoch, window):
                rows[int(first >= 1_000_000)] += last - first
    assert rows[1] / rows.sum() == pytest.approx(0.5, abs=0.01)


def test_a_store_made_before_shares_were_counted_by_rows_keeps_its_order():
    corpora = [(0, 8_000, 1.0), (8_000, 2_000, 1.0)]
    assert mixture.Mixture(corpora, seed=1, window=WINDOW, by_rows=False).taken == [78, 78]


def test_shares_are_given_for_all_corpora_or_for_none():
    parts = [CorpusConfig(source="a.en", target="a.de", share=3.0), CorpusConfig(source="b.en", target="b.de")]
    with pytest.raises(ValidationError, match="share"):
        DataConfig(corpora=tuple(parts))
    assert DataConfig(corpora=(parts[1], parts[1])).corpora


def test_temperature_one_is_by_size_and_a_high_one_is_even(tmp_path):
    corpora = [(0, 90_000, None), (90_000, 10_000, None)]
    plain = mixture.Mixture(corpora, seed=1, window=WINDOW, temperature=1.0)
    hot = mixture.Mixture(corpora, seed=1, window=WINDOW, temperature=100.0)
    assert plain.taken[0] / sum(plain.taken) == pytest.approx(0.9, abs=0.01)
    assert hot.taken[0] / sum(hot.taken) == pytest.approx(0.5, abs=0.01)


def test_a_corpus_of_one_window_comes_in_the_order_it_always_had(tmp_path):
    pairs = [(WINDOW - 100, 9, None)]
    new, old = (feed(stored(tmp_path / name, pairs, mixed=mixed)) for name, mixed in (("new", True), ("old", False)))
    for epoch in (0, 1):
        for ours, theirs in zip(new.epoch(epoch), old.epoch(epoch), strict=True):
            assert ours.rows.tolist() == theirs.rows.tolist()


@pytest.mark.parametrize("corpora", [[(9_000, 9, None)], [(6_000, 7, 2.0), (3_000, 12, 1.0)]])
def test_a_walk_that_begins_anywhere_goes_on_as_if_it_had_come_there(tmp_path, corpora):
    store = stored(tmp_path / "s", corpora)
    whole = list(islice(feed(store).walk(Position(0, 0)), 2 * feed(store).count(0) + 30))
    for at in (1, 17, len(whole) // 3, len(whole) // 2, len(whole) - 25):
        rest = list(islice(feed(store).walk(whole[at - 1][0]), 20))
        assert [place for place, _ in rest] == [place for place, _ in whole[at : at + 20]]
        assert [batch.rows.tolist() for _, batch in rest] == [batch.rows.tolist() for _, batch in whole[at : at + 20]]


def test_a_resumed_walk_plans_no_window_before_its_own(tmp_path, monkeypatch):
    store = stored(tmp_path / "s", [(20_000, 9, None)])
    batches = feed(store)
    places = [place for place, _ in islice(batches.walk(Position(0, 0)), batches.count(0) - 5)]
    planned: list[int] = []
    plain = Batches.window_plan
    monkeypatch.setattr(Batches, "window_plan", lambda self, e, n: planned.append(n) or plain(self, e, n))
    next(feed(store).walk(places[-1]))
    assert planned == [batches.mixture.windows - 1]


@pytest.mark.parametrize("spans", [[[5, 10, None]], [[0, -1, None]], [[0, 10, 0]], [[0, 10, "x"]]])
def test_a_store_that_lies_about_its_corpora_is_refused(tmp_path, spans):
    from jumok.errors import ModelFileError

    stored(tmp_path / "s", [(10, 5, None)])
    meta = json.loads((tmp_path / "s" / "meta.json").read_text())
    (tmp_path / "s" / "meta.json").write_text(json.dumps(meta | {"corpora": spans}))
    with pytest.raises(ModelFileError):
        Store(tmp_path / "s")
