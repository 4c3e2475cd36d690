"""Snapshots: which steps have one, and that neither interruptions nor snapshots themselves change a run."""

import math
from itertools import pairwise

import pytest
import torch

from jumok.config import presets
from jumok.errors import ModelFileError, Resumable
from jumok.models import build
from jumok.runs.experiment import train
from jumok.storage import snapshots
from jumok.storage.checkpoint import WEIGHTS, RunFolder, read_tensors
from jumok.storage.snapshots import candidates, choose, find_folders, is_candidate
from jumok.text.vocabulary import Vocabularies
from tests.conftest import MICRO

STEPS = 40
LAST = 2_000_000


class Killed(Exception):
    """A process that is gone without saving anything."""


def micro(**changes):
    given = {name.replace("__", "."): value for name, value in changes.items()}
    return presets.tiny().change(MICRO | {"training.steps": STEPS, "training.validate_every": 10} | given)


def kill_at(*steps):
    """A sink that fails after these updates, once each."""
    left = list(steps)

    def watch(event):
        if event["event"] == "step" and event["step"] in left:
            left.remove(event["step"])
            raise Killed

    return watch


def content(run, pattern):
    return {str(path.relative_to(run)): path.read_bytes() for path in sorted(run.glob(pattern)) if path.is_file()}


@pytest.mark.parametrize("most", [1, 2, 3, 24, 100])
def test_snapshots_are_few_and_spaced_by_the_logarithm_of_the_step(most):
    grid = list(candidates(LAST))
    assert grid[:12] == [1, 2, 3, 4, 5, 6, 8, 9, 11, 13, 16, 19]
    assert all(is_candidate(step) for step in grid)
    assert not is_candidate(0)
    assert not is_candidate(7)
    before = ()
    for step in grid:
        now = choose(step, most)
        assert len(now) == min(most, grid.index(step) + 1)
        assert set(now) <= {*before, step}, "a run can only remove snapshots and take the present one"
        assert now[-1] == step
        assert most == 1 or now[0] == 1
        before = now
    if 3 <= most <= len(grid) // 2:
        gaps = [math.log(later / earlier) for earlier, later in pairwise(before)]
        assert max(gaps) <= 4.01 * math.log(LAST) / most
    assert choose(LAST, 0) == ()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run without interruption."""
    return train(recipe=micro(training__snapshots=6), out=tmp_path_factory.mktemp("whole") / "run").folder


def test_a_run_has_the_snapshots_of_its_last_step(whole):
    assert [snapshots.step_of(folder) for folder in find_folders(whole)] == list(choose(STEPS, 6))


def test_training_without_snapshots_gives_the_same_bytes_and_none(whole, tmp_path):
    other = train(recipe=micro(training__snapshots=0), out=tmp_path / "run").folder
    assert not (other / "snapshots").exists()
    assert (other / "losses.tsv").read_bytes() == (whole / "losses.tsv").read_bytes()
    last = f"checkpoints/step-{STEPS:08d}/*.safetensors"
    assert content(other, last) == content(whole, last)
    assert content(whole, last)


@pytest.mark.parametrize("killed", [(3,), (17,), (12, 15, 39)])
def test_a_killed_run_ends_with_the_same_snapshots(whole, tmp_path, killed):
    out, crash = tmp_path / "run", kill_at(*killed)
    for _ in killed:
        with pytest.raises(Killed):
            train(recipe=micro(training__snapshots=6), out=out, sinks=[crash])
        assert len(find_folders(out)) <= 6 + snapshots.SPARE
    train(recipe=micro(training__snapshots=6), out=out, sinks=[crash])
    assert content(out, "snapshots/*/*") == content(whole, "snapshots/*/*")
    assert (out / "losses.tsv").read_bytes() == (whole / "losses.tsv").read_bytes()


def test_a_run_that_ends_before_the_step_at_which_it_was_killed_has_what_it_would_have_had(tmp_path):
    """The killed attempt was at step 39 and had removed snapshots that a run of 32 steps has."""
    out = tmp_path / "run"
    with pytest.raises(Killed):
        train(recipe=micro(training__snapshots=6), out=out, sinks=[kill_at(39)])
    train(recipe=micro(training__snapshots=6, training__steps=32), out=out)
    assert [snapshots.step_of(folder) for folder in find_folders(out)] == list(choose(32, 6))


def test_a_stopped_run_continues_without_its_snapshots(whole, tmp_path):
    out, seen = tmp_path / "run", []
    with pytest.raises(Resumable):
        train(recipe=micro(training__snapshots=6), out=out, sinks=[seen.append], stop=lambda: len(seen) > 30)
    recipe = RunFolder(out).recipe()
    assert recipe.training.snapshots == 6
    train(recipe=recipe.change({"training.snapshots": 0}), out=out)
    assert (out / "losses.tsv").read_bytes() == (whole / "losses.tsv").read_bytes()


def test_a_snapshot_holds_the_weights_in_half_precision_and_is_refused_when_it_is_damaged(whole, tmp_path):
    folder = find_folders(whole)[-1]
    recipe = RunFolder(whole).recipe()
    size = len(Vocabularies.load(whole).source)
    model = build(recipe.model, size, size)
    snapshots.restore(folder, model)
    stored = read_tensors(folder / WEIGHTS)
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    for name, value in snapshots.weights(model).items():
        assert torch.equal(value, stored[name].float())
    copy = tmp_path / "step-00000040"
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    damaged = bytearray((copy / WEIGHTS).read_bytes())
    damaged[-1] ^= 1
    (copy / WEIGHTS).write_bytes(damaged)
    with pytest.raises(ModelFileError):
        snapshots.restore(copy, model)


def test_numbers_beyond_half_precision_become_its_largest(tmp_path):
    model = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.constant_(model.weight, 1e9)
    snapshots.restore(snapshots.write(tmp_path, 1, model), model)
    assert model.weight.tolist() == [[65_504.0, 65_504.0]]


def test_a_full_disk_costs_a_snapshot_and_not_the_run(tmp_path, monkeypatch, whole):
    from jumok.errors import DiskError

    def full(*_):
        raise DiskError("storage.cannot_save", reason="No space left on device", folder=tmp_path)

    monkeypatch.setattr(snapshots, "write", full)
    notes = []
    train(
        recipe=micro(training__snapshots=6), out=tmp_path / "run",
        sinks=[lambda event: notes.append(event["text"]) if event["event"] == "note" else None],
    )  # fmt: skip
    assert sum("without this snapshot" in text for text in notes) == 1
    assert (tmp_path / "run" / "losses.tsv").read_bytes() == (whole / "losses.tsv").read_bytes()
