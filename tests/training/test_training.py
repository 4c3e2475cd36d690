"""Training: exact resume, limits, accumulation, numbers that are not finite, and that it learns at all."""

import io
import json
import math
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import jumok
from jumok.config import presets
from jumok.config.recipe import validate
from jumok.config.sections import UNCLEANED, TrainingConfig
from jumok.data.batches import Batch, Batches, Noise, Position, pad, prefetch
from jumok.data.made import phrasebook
from jumok.errors import DiskError, JumokError, Resumable, UsageError
from jumok.events import read_events
from jumok.models.base import END, START
from jumok.runs.averaging import average_run
from jumok.runs.trainee import noise_of
from jumok.storage import checkpoint
from jumok.training import loop, optim
from jumok.training.budget import ByCount, Limits
from jumok.training.objectives import next_token
from jumok.training.progress import Progress
from jumok.training.schedule import Schedule
from jumok.training.update import Team, replicate
from tests.support.helpers import made

MICRO = {
    "name": "micro",
    "data": {"corpus": "copy", "pairs": 300, "tokens_per_batch": 128, "hold_out": 30},
    "vocabulary": {"size": 280},
    "model": {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "d_ff": 32, "heads": 2, "dropout": 0.2},
    "training": {
        "steps": 12, "schedule": "linear", "peak": 0.01, "warmup": 2, "tokens_per_update": 256, "validate_every": 4,
        "average": 2, "valid_pairs": 5, "ema": 0.9,
    },
    "decoding": {"beam": 2, "extra_length": 5},
}  # fmt: skip


def micro(**changes):
    return validate(MICRO).change(changes)


def run(out: Path, *, stop_at: int | None = None, **changes) -> Path:
    """Train the micro recipe in `out`, asked to stop once `stop_at` updates are done."""
    steps: list[int] = []

    def watch(event):
        if event["event"] == "step":
            steps.append(event["step"])

    stop = (lambda: bool(steps) and steps[-1] >= stop_at) if stop_at else (lambda: False)
    jumok.train(recipe=micro(**changes), out=out, sinks=[watch], stop=stop)
    return out


def losses(folder: Path) -> dict[int, float]:
    return {event["step"]: event["loss"] for event in read_events(folder / "events.jsonl") if event["event"] == "step"}


@pytest.mark.parametrize("noise", [{}, {"vocabulary.sampling": 0.5}, {"training.word_dropout": 0.2}], ids=str)
@pytest.mark.parametrize("stop_at", [3, 4, 9])
def test_9_stop_and_resume_end_with_the_same_bytes_as_an_uninterrupted_run(tmp_path, stop_at, noise):
    whole = run(tmp_path / "whole", **noise)
    with pytest.raises(Resumable):
        run(tmp_path / "parts", stop_at=stop_at, **noise)
    parts = run(tmp_path / "parts", **noise)
    for name in ("model", "optimizer", "mean"):
        files = [folder / "checkpoints" / "step-00000012" / f"{name}.safetensors" for folder in (whole, parts)]
        assert files[0].read_bytes() == files[1].read_bytes()
    assert losses(whole) == losses(parts)
    assert (whole / "model" / "model.safetensors").read_bytes() == (parts / "model" / "model.safetensors").read_bytes()


def test_9_resume_in_another_process_ends_with_the_same_bytes(tmp_path):
    noise = {"vocabulary.sampling": 0.5, "training.word_dropout": 0.2}
    with pytest.raises(Resumable):
        run(tmp_path / "parts", stop_at=5, **noise)
    code = (
        "import sys, pathlib, tests.training.test_training as t; t.run(pathlib.Path(sys.argv[1]), **eval(sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "parts"), repr(noise)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    whole = run(tmp_path / "whole", **noise)
    assert losses(whole) == losses(tmp_path / "parts")
    weights = [tmp_path / name / "model" / "model.safetensors" for name in ("whole", "parts")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_words_are_cut_and_hidden_in_proportion_to_the_dropout():
    noisy = {"vocabulary.sampling": 0.4, "training.word_dropout": 0.2, "training.dropout_epochs": 4}
    recipe = presets.tiny().change(noisy)
    assert [noise_of(recipe, epoch) for epoch in (0, 1, 4, 9)] == [
        Noise(),
        Noise(0.1, 0.05),
        Noise(0.4, 0.2),
        Noise(0.4, 0.2),
    ]
    assert noise_of(recipe.change({"training.dropout_epochs": 0}), 0) == Noise(0.4, 0.2)


def test_another_seed_is_another_run(tmp_path):
    assert losses(run(tmp_path / "a")) != losses(run(tmp_path / "b", seed=2))


def test_a_folder_with_another_recipe_is_not_touched(tmp_path):
    run(tmp_path / "a")
    with pytest.raises(UsageError, match="another recipe"):
        run(tmp_path / "a", **{"model.d_ff": 48})


def test_a_finished_run_goes_on_when_given_more(tmp_path):
    run(tmp_path / "a", **{"training.schedule": "constant"})
    run(tmp_path / "a", **{"training.schedule": "constant", "training.steps": 16})
    whole = run(tmp_path / "b", **{"training.schedule": "constant", "training.steps": 16})
    assert losses(tmp_path / "a") == losses(whole)


def test_a_broken_newest_checkpoint_is_refused_by_name_and_the_one_before_it_is_taken(tmp_path):
    run(tmp_path / "a")
    broken = tmp_path / "a" / "checkpoints" / "step-00000012" / "model.safetensors"
    broken.write_bytes(broken.read_bytes()[:-1])
    said = []
    jumok.train(recipe=micro(), out=tmp_path / "a", sinks=[said.append])
    assert any("model.safetensors has" in event.get("text", "") for event in said)
    assert any(event.get("text") == "Continuing from step 8" for event in said)


def test_a_disk_that_refuses_does_not_end_a_run_until_the_third_time(tmp_path, monkeypatch):
    written, said = checkpoint.write_whole, []

    def failing(times):
        left = [times]

        def write(folder, *rest):
            if folder.name.startswith("step-") and left[0]:
                left[0] -= 1
                raise DiskError("storage.cannot_save", reason="No space left on device", folder=folder)
            written(folder, *rest)

        return write

    monkeypatch.setattr(checkpoint, "write_whole", failing(4))  # each is tried twice
    jumok.train(recipe=micro(), out=tmp_path / "a", sinks=[said.append])
    assert sum("No space left" in event.get("text", "") for event in said) == 2
    monkeypatch.setattr(checkpoint, "write_whole", failing(6))
    with pytest.raises(DiskError):
        jumok.train(recipe=micro(), out=tmp_path / "b")


def test_the_mean_of_a_stopped_runs_checkpoints_is_that_of_those_that_were_due(tmp_path):
    with pytest.raises(Resumable):
        run(tmp_path / "a", stop_at=10)
    assert sorted(path.name for path in (tmp_path / "a" / "checkpoints").iterdir())[-1] == "step-00000010"
    average_run(tmp_path / "a", last=2)
    card = json.loads((tmp_path / "a" / "model" / "card.json").read_text())
    assert card["weights"] == "mean of the checkpoints 4, 8"


def test_a_vocabulary_of_another_attempt_is_not_used_again(tmp_path):
    with pytest.raises(Resumable):
        run(tmp_path / "a", stop_at=1)
    shutil.rmtree(tmp_path / "a" / "checkpoints")
    run(tmp_path / "a", **{"vocabulary.size": 275})
    assert len(jumok.load(tmp_path / "a").vocabularies.source) == 275


def test_a_run_from_standard_input_is_continued_by_the_same_pipe(tmp_path, monkeypatch):
    text = "".join(f"{source}\t{target}\n" for source, target in phrasebook.task("copy", 200)).encode()
    changes = {"data.corpus": None, "data.table": "-", **UNCLEANED}
    for stop_at in (5, None):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text)))
        with pytest.raises(Resumable) if stop_at else nullcontext():
            run(tmp_path / "a", stop_at=stop_at, **changes)
    assert sorted(losses(tmp_path / "a")) == list(range(1, 13))


def test_epochs_end_a_run(tmp_path):
    run(tmp_path / "a", **{"training.epochs": 2, "training.steps": 10_000})
    last = [event for event in read_events(tmp_path / "a" / "events.jsonl") if event["event"] == "finished"][-1]
    assert last["reason"] == "epochs"
    events = [event for event in read_events(tmp_path / "a" / "events.jsonl") if event["event"] == "step"]
    assert events[-1]["epoch"] == 2
    assert all(event["epoch"] < 2 for event in events[:-1])


def test_a_run_of_twenty_steps_is_not_validated_twenty_times_and_says_so(tmp_path):
    changes = {"training.steps": 20, "training.validate_every": None, "training.valid_pairs": 2_000}
    folder = run(tmp_path / "a", **changes)
    events = list(read_events(folder / "events.jsonl"))
    validations = [event for event in events if event["event"] == "validation"]
    assert [event["step"] for event in validations] == [20]
    assert validations[0]["pairs"] < validations[0]["of"]
    said = [event["text"] for event in events if event["event"] == "stage" and "Validating" in event["text"]]
    assert len(said) == 1
    assert f"on {validations[0]['pairs']} of {validations[0]['of']} pairs" in said[0]
    with pytest.raises(Resumable):
        run(tmp_path / "b", stop_at=7, **changes)
    again = run(tmp_path / "b", **changes)
    for name in ("losses.tsv", "model/model.safetensors"):
        assert (folder / name).read_bytes() == (again / name).read_bytes()


@pytest.mark.parametrize("limit", [{"training.epochs": 2}, {"training.tokens": 3_000}], ids=str)
def test_batches_are_counted_once_in_a_run_however_often_it_is_resumed(tmp_path, monkeypatch, limit):
    counted, count = [], Batches.count
    monkeypatch.setattr(Batches, "count", lambda self, epoch: counted.append(epoch) or count(self, epoch))
    changes = {"training.steps": 10_000, **limit}
    for stop_at in (3, 5):
        with pytest.raises(Resumable):
            run(tmp_path / "a", stop_at=stop_at, **changes)
    parts = run(tmp_path / "a", **changes)
    assert counted == [0]
    whole = run(tmp_path / "b", **changes)
    assert (whole / "losses.tsv").read_bytes() == (parts / "losses.tsv").read_bytes()


def test_until_bleu_ends_a_run(tmp_path):
    run(tmp_path / "a", **{"training.until_bleu": 1e-9, "training.steps": 10_000})
    last = [event for event in read_events(tmp_path / "a" / "events.jsonl") if event["event"] == "finished"][-1]
    assert last["reason"] == "bleu"


def test_the_card_and_the_events_tell_the_story(tmp_path):
    folder = run(tmp_path / "a")
    card = json.loads((folder / "model" / "card.json").read_text())
    assert card["steps"] == 12
    assert set(card["valid"]) >= {"mean of the last 2 checkpoints", "running mean"}
    assert card["weights"] in card["valid"]
    kinds = {event["event"] for event in read_events(folder / "events.jsonl")}
    assert kinds >= {"begin", "stage", "corpus", "step", "validation", "checkpoint", "finished"}
    assert list((folder / "tensorboard").iterdir())


def test_validation_pairs_never_train(tmp_path):
    """Held out by rule: no source sentence is on both sides."""
    from jumok.data.corpora import is_held_out
    from jumok.data.generated import task

    share = 30 / 300
    pairs = list(task("copy", 300, 1))
    kept = [pair for pair in pairs if is_held_out(pair.source, share)]
    corpus = next(e for e in read_events(run(tmp_path / "a") / "events.jsonl") if e["event"] == "corpus")
    assert corpus["valid"] == len(kept)
    assert corpus["train"] == len(pairs) - len(kept)


# ---------------------------------------------------------------------- one update


def batch(sources: list[list[int]], targets: list[list[int]]) -> Batch:
    labels = pad(targets, after=END)
    target = pad(targets, before=START)
    tokens = sum(map(len, targets)) + len(targets)
    return Batch(pad(sources, after=END), target, labels, torch.arange(len(sources)), tokens)


class Descent(optim.Optimizer):
    """Moves by the gradient itself."""

    @torch.no_grad()
    def apply(self, part=0, parts=1):
        for weight, gradient in zip(self.names, self.gradients[0], strict=True):
            weight -= self.move.rate * self.move.scale * gradient


def one_update(batches: list[Batch]):
    model = made(dropout=0.0).float().train()
    replicas = replicate(model, 1)
    team = Team(model, replicas, [next_token(replicas[0], smoothing=0.1)], Descent(model, TrainingConfig()))
    return model, team.update(batches, range(len(batches)), rate=0.01, largest_gradient=1.0)


def test_gradients_add_up_over_micro_batches():
    sources, targets = [[9, 10], [11, 12]], [[13, 14, 15], [16]]
    together, (loss, norm, tokens) = one_update([batch(sources, targets)])
    apart, (loss2, norm2, tokens2) = one_update([batch(sources[i : i + 1], targets[i : i + 1]) for i in range(2)])
    assert (loss, norm, tokens) == pytest.approx((loss2, norm2, tokens2), rel=1e-5)
    for one, other in zip(together.parameters(), apart.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


def test_padding_adds_nothing_to_the_loss():
    _, (loss, _, tokens) = one_update([batch([[9, 10, 11, 12], [9]], [[13, 14, 15, 16, 17], [18]])])
    model = made(dropout=0.0).float().train()
    objective = next_token(model, smoothing=0.1)
    alone = [objective(batch([s], [t])) for s, t in (([9, 10, 11, 12], [13, 14, 15, 16, 17]), ([9], [18]))]
    assert tokens == 6 + 2
    assert loss == pytest.approx(sum(total.item() for total, _ in alone) / 8, rel=1e-5)


def test_adam_is_the_papers():
    [adam] = optim.Optimizer(made(), TrainingConfig()).rules
    assert adam.betas == (0.9, 0.98)
    assert adam.epsilon == 1e-9


def drive(objective, *, steps=30, limits=None, validate=lambda progress: {"loss": 1.0, "bleu": 0.0}):
    """The loop on a model of one number."""
    model = nn.Linear(1, 1)
    seen = []
    one = batch([[9]], [[10]])
    progress = Progress()
    pace = ByCount(limits or Limits(steps=steps), Schedule("constant", 16, 0, 0.1))
    replicas = replicate(model, 1)
    team = Team(model, replicas, [lambda batch: objective(replicas[0], batch)], Descent(model, TrainingConfig()))
    hooks = loop.Hooks(lambda **values: seen.append(values), validate, save=lambda progress: None)
    batches = ((Position(0, i), one) for i in range(10**6))
    outcome = loop.train(loop.Setup(team, seed=1, largest_gradient=1.0), batches, pace, progress, hooks)
    return model, outcome, seen


def test_a_loss_that_is_not_finite_changes_nothing_and_is_counted():
    calls = []

    def sometimes(model, batch):
        calls.append(1)
        factor = math.nan if len(calls) % 3 == 0 else 1.0
        return model.weight.square().sum() * factor, 1

    model, outcome, seen = drive(sometimes, steps=9)
    assert outcome.progress.counts.skipped == 3
    assert model.weight.isfinite().all()
    assert seen[-1]["skipped"] == 3


def test_ten_in_a_row_stop_the_run_and_name_the_batch():
    with pytest.raises(JumokError, match="10 updates in a row") as error:
        drive(lambda model, batch: (model.weight.sum() * math.inf, 1))
    assert "stored pairs 0" in error.value.where


def test_patience_counts_validations_that_are_no_better():
    limits = Limits(steps=1_000, patience=3, validate_every=2)
    _, outcome, seen = drive(lambda model, batch: (model.weight.square().sum(), 1), limits=limits)
    assert outcome.reason == "patience"
    assert len(seen) == 2 * (1 + 3)


def test_the_running_mean_is_the_formula():
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)
    mean = optim.RunningMean(model, 0.5)
    expected = 1.0
    for step, value in enumerate((2.0, 5.0, 3.0), start=1):
        nn.init.constant_(model.weight, value)
        mean.update(model, step)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * value
        assert mean.tensors["weight"].item() == pytest.approx(expected)


def test_batches_made_ahead_keep_their_order_and_their_errors():
    one = batch([[9]], [[10]])

    def three():
        for i in range(3):
            yield Position(0, i), one
        raise ValueError("the disk is gone")

    walk = prefetch(three(), torch.device("cpu"))
    assert [next(walk)[0].batch for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="the disk is gone"):
        next(walk)


def test_a_process_that_ends_while_batches_are_made_ends_well():
    code = (
        "import itertools, torch; from contextlib import closing\n"
        "from jumok.data.batches import Batch, Position, prefetch\n"
        "def walk():\n"
        "    for i in itertools.count():\n"
        "        grid = torch.sort(torch.randn(2_000, 1_000)).indices\n"
        "        yield Position(0, i), Batch(grid, grid, grid, grid[0], 1)\n"
        "with closing(prefetch(walk(), torch.device('cpu'))) as batches:\n"
        "    next(batches)"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("task", ["copy", "reverse"])
def test_a_small_transformer_learns(task, tmp_path):
    recipe = micro(**{
        "data.corpus": task, "data.pairs": 8_000, "data.tokens_per_batch": 2_048, "model.dropout": 0.0,
        "model.encoder_layers": 2, "model.decoder_layers": 2, "model.d_model": 64, "model.d_ff": 128, "model.heads": 4,
        "model.norm_place": "pre", "training.optimizer": "muon",
        "training.tokens_per_update": 2_048, "training.steps": 800, "training.peak": 8e-3, "training.warmup": 100,
        "training.validate_every": 400, "training.ema": 0.0, "training.valid_pairs": 100,
    })  # fmt: skip
    model = jumok.train(recipe=recipe, out=tmp_path / "run").model
    fresh = phrasebook.task(task, 200, seed=99)
    ours = [translation.text for translation in model.lines([source for source, _ in fresh])]
    right = sum(a == b for a, (_, b) in zip(ours, fresh, strict=True))
    assert right >= 0.98 * 200
