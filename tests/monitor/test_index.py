"""The index of a run: equal to reading everything, bounded, and right after kills and resumes."""

import random

import numpy as np
import pytest

from jumok.monitor import curves, index_file
from jumok.monitor.index import Index
from jumok.monitor.pyramid import Pyramid
from tests.support.logs import HEADER, begin, event, line, step, validation, write_run


def append(path, text):
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def read(run):
    index = Index(run)
    assert index.refresh()
    return index


@pytest.mark.parametrize("rows", [1, 7, 64, 65, 1_000, 5_000])
def test_buckets_have_the_smallest_largest_and_mean_of_their_rows(rows):
    chance = random.Random(rows)
    steps = np.cumsum([chance.choice([1, 1, 1, 2, 5]) for _ in range(rows)])
    values = np.array([[chance.gauss(0, 1), chance.choice([1.0, float("nan")])] for _ in range(rows)])
    pyramid, start = Pyramid(("a", "b"), most=64), 0
    while start < rows:  # in pieces of any size
        stop = min(rows, start + chance.randint(1, 300))
        pyramid.add(steps[start:stop], values[start:stop], np.arange(start, stop))
        start = stop
    assert len(pyramid) <= 64
    for buckets in (1, 5, 64):
        taken = pyramid.take(0, 10**9, buckets)
        assert 0 < len(taken["first"]) <= buckets
        assert taken["count"][:, 0].sum() == rows
        for row in range(len(taken["first"])):
            inside = (steps >= taken["first"][row]) & (steps <= taken["last"][row])
            assert taken["low"][row, 0] == values[inside, 0].min()
            assert taken["high"][row, 0] == values[inside, 0].max()
            assert taken["total"][row, 0] == pytest.approx(values[inside, 0].sum())
            assert taken["count"][row, 1] == np.isfinite(values[inside, 1]).sum()
            assert taken["place"][row] == np.flatnonzero(inside)[0]


def test_one_spike_among_many_updates_stays_visible(tmp_path):
    run = write_run(tmp_path, 0)
    lines = [line(number, loss=99.5 if number == 12_345 else 2.0) for number in range(1, 30_001)]
    (run / "losses.tsv").write_text(HEADER + "".join(lines))
    index = read(run)
    drawn = curves.draw(index, points=100)
    assert len(drawn["x"]) <= 100
    assert max(drawn["series"]["loss"]["high"]) == 99.5
    assert index.updates.width > 1
    closer = curves.draw(index, begin=12_300, end=12_400, points=200)
    assert closer["step"] == list(range(12_300, 12_401)), "a closer look reads every update"
    assert closer["series"]["loss"]["mean"][45] == 99.5


def test_a_closer_look_at_a_log_without_losses_reads_its_events(tmp_path):
    index = read(write_run(tmp_path, 9_000, losses=False))
    assert index.updates.width > 1
    closer = curves.draw(index, begin=5_000, end=5_050, points=100)
    assert closer["step"] == list(range(5_000, 5_051))
    assert closer["series"]["loss"]["mean"][0] == 0.002


def test_a_log_without_losses_is_read_from_its_events(tmp_path):
    index = read(write_run(tmp_path, 500, losses=False, more=validation(500, 31.25)))
    drawn = curves.draw(index, points=1_000)
    assert drawn["step"] == list(range(1, 501))
    assert drawn["series"]["loss"]["mean"][:2] == [10.0, 5.0]
    assert drawn["validations"]["bleu"] == [31.25]
    assert drawn["validations"]["memory"] == [10**8]
    assert set(drawn["speed"]["value"]) == {200.0}, "100 tokens in half a second"


@pytest.mark.parametrize(("axis", "expected"), [("step", 40), ("time", 23.0), ("tokens", 4_000)])
def test_curves_are_drawn_by_step_time_or_tokens(tmp_path, axis, expected):
    drawn = curves.draw(read(write_run(tmp_path, 40)), axis=axis)
    assert drawn["x"][-1] == expected
    assert drawn["x"] == sorted(drawn["x"])


@pytest.mark.parametrize("losses", [True, False])
def test_a_run_that_was_killed_and_resumed_has_one_curve(tmp_path, losses):
    run = write_run(tmp_path, 50, losses=losses, more=validation(20, 1.0) + validation(40, 9.0))
    index = read(run)
    append(run / "events.jsonl", '{"event": "step", "ti\n')  # the process died here
    append(run / "events.jsonl", begin(30) + "".join(step(n, loss=7.0) for n in range(31, 61)) + validation(40, 8.0))
    if losses:
        kept = "".join(line(number) for number in range(1, 31))
        (run / "losses.tsv").write_text(HEADER + kept)
        index.refresh()
        append(run / "losses.tsv", "".join(line(number, loss=7.0) for number in range(31, 61)))
    index.refresh()
    for one in (index, read(run)):
        drawn = curves.draw(one, points=1_000)
        assert drawn["step"] == list(range(1, 61))
        assert drawn["series"]["loss"]["mean"][29:32] == [pytest.approx(10 / 30, rel=1e-5), 7.0, 7.0]
        assert drawn["validations"]["step"] == [20, 40]
        assert drawn["validations"]["bleu"] == [1.0, 8.0]
        assert drawn["attempts"] == [0, 30]


def test_reading_on_gives_what_reading_at_once_gives(tmp_path):
    run = write_run(tmp_path / "run", 3)
    index = Index(run)
    for number in range(4, 400):
        append(run / "events.jsonl", step(number) + (validation(number, number / 10) if number % 50 == 0 else ""))
        append(run / "losses.tsv", line(number)[:9])
        if number % 7 == 0:
            index.refresh()  # half a line is there
        append(run / "losses.tsv", line(number)[9:])
        if number % 60 == 0:
            index_file.save(index, tmp_path / "index.npz")
            index = index_file.load(run, tmp_path / "index.npz")
            assert index.events.place > 0
    index.refresh()
    assert curves.draw(index) == curves.draw(read(run))


def test_a_saved_index_reads_only_what_is_new(tmp_path, monkeypatch):
    run = write_run(tmp_path / "run", 2_000)
    index_file.save(read(run), tmp_path / "index.npz")
    append(run / "losses.tsv", line(2_001))
    index, sizes = index_file.load(run, tmp_path / "index.npz"), []
    taken = Index._add_losses
    monkeypatch.setattr(
        Index, "_add_losses", lambda self, content, place: (sizes.append(len(content)), taken(self, content, place))
    )
    assert index.refresh()
    assert sizes == [len(line(2_001))]
    assert index.updates.end == 2_001


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 no zip", b"\x80\x04\x95"])
def test_a_damaged_index_is_made_again(tmp_path, damage):
    run = write_run(tmp_path / "run", 10)
    (tmp_path / "index.npz").write_bytes(damage)
    index = index_file.load(run, tmp_path / "index.npz")
    assert index.refresh()
    assert index.updates.end == 10


def test_an_index_of_another_run_is_not_taken(tmp_path):
    index_file.save(read(write_run(tmp_path / "one", 10)), tmp_path / "index.npz")
    assert index_file.load(write_run(tmp_path / "two", 5), tmp_path / "index.npz").updates.end == 0


@pytest.mark.parametrize(
    "noise",
    [
        "\x00\x01\n", "[]\n", "7\n", '{"event": 7}\n', '{"event": "step", "step": "x"}\n', '{"event": "step"}\n',
        '{"event": "step", "step": null}\n', '{"event": "validation", "step": 1e400}\n', "[" * 5_000 + "\n", "\n\n",
        '{"event": "step", "time": 1, "step": 3, "epoch": 0, "loss": null, "rate": 1, "norm": NaN, "tokens": 1, '
        '"seconds": 1, "wall": 1, "seen": 1}\n',
    ],
)  # fmt: skip
def test_lines_that_are_no_events_are_left_out(tmp_path, noise):
    run = write_run(tmp_path, 2, losses=False)
    append(run / "events.jsonl", noise + event("note", text="still here"))
    index = read(run)
    assert index.notes[-1]["text"] == "still here"
    assert index.updates.end in (2, 3)
    curves.draw(index)


def test_a_long_run_is_read_in_slices_of_time(tmp_path):
    run = write_run(tmp_path, 40_000)
    index, slices = Index(run), 1
    while not index.refresh(seconds=0.0):
        slices += 1
        assert 0 < index.share < 1
        curves.draw(index)
    assert slices > 3
    assert index.updates.end == 40_000
    assert curves.draw(index) == curves.draw(read(run))


def test_events_of_updates_are_read_many_at_a_time(tmp_path, monkeypatch):
    """One by one, a run of two million updates would take minutes."""
    run, single = write_run(tmp_path, 3_000, losses=False, more=validation(3_000, 1.0)), []
    taken = Index._add_event
    monkeypatch.setattr(
        Index, "_add_event", lambda self, text, place: (single.append(text), taken(self, text, place))
    )  # fmt: skip
    assert read(run).updates.end == 3_000
    assert len(single) == 2, "the beginning and the validation"
