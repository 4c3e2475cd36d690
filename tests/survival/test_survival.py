"""What was promised of training is tried: processes are killed, disks are full, and the bytes at the end are the same.

Contract: T1, T2, T3, T5.  Every run is a process of its own (support/zygote.py) with a disk that fails on command.
"""

import errno
import hashlib
import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from jumok.events import history, read_events
from tests.support.zygote import Zygote, obstacle

pytestmark = pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))

RECIPE = """
name = "micro"
[data]
corpus = "copy"
pairs = 300
tokens_per_batch = 128
hold_out = 30
[vocabulary]
size = 280
sampling = 0.5
[model]
encoder_layers = 1
decoder_layers = 1
d_model = 16
d_ff = 32
heads = 2
dropout = 0.2
[training]
steps = 40
schedule = "linear"
peak = 0.01
warmup = 2
tokens_per_update = 256
validate_every = 8
average = 2
valid_pairs = 5
ema = 0.9
word_dropout = 0.1
[decoding]
beam = 2
extra_length = 5
"""
LAST, EVERY = 40, 8
BYTES = [
    *(f"checkpoints/step-{LAST:08d}/{name}.safetensors" for name in ("model", "optimizer", "mean")),
    "model/model.safetensors",
    "losses.tsv",
]


class Place:
    """Where runs of one recipe are made."""

    def __init__(self, folder: Path, zygote: Zygote) -> None:
        self.folder, self.zygote, self.count = folder, zygote, 0
        (folder / "micro.toml").write_text(RECIPE)
        whole = self.train(folder / "whole")
        assert whole.code == 0, whole.err
        self.whole = sums(folder / "whole")
        self.seconds = min(self.train(self.fresh()).seconds for _ in range(2))

    def train(self, out: Path, *more: str, **faults):
        return self.zygote.run(["train", "--recipe", self.folder / "micro.toml", "--out", out, *more], **faults)

    def fresh(self, *, prepared: bool = True) -> Path:
        """A new folder; `prepared` has the vocabulary and the token store already."""
        self.count += 1
        out = self.folder / f"run-{self.count}"
        if prepared:
            away = shutil.ignore_patterns("checkpoints", "model", "events.jsonl", "losses.tsv", "tensorboard")
            shutil.copytree(self.folder / "whole", out, ignore=away)
        return out

    def finish(self, out: Path, *more: str) -> None:
        """Continue a run to its end, which must be that of the run that was never interrupted."""
        ended = self.train(out, *more)
        assert ended.code == 0, ended.err
        assert sums(out) == self.whole
        steps = [event["step"] for event in history(out / "events.jsonl") if event["event"] == "step"]
        assert steps == list(range(1, LAST + 1))
        leftovers = [path.name for path in out.rglob("*") if path.suffix in (".partial", ".before", ".tmp")]
        assert leftovers == []


def sums(out: Path) -> dict[str, str]:
    return {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in BYTES}


def repeated(out: Path) -> int:
    """The most updates that an attempt had to make again."""
    most, reached = 0, 0
    for event in read_events(out / "events.jsonl"):
        if event["event"] == "begin":
            most, reached = max(most, reached - event["step"]), event["step"]
        elif event["event"] == "step":
            reached = event["step"]
    return most


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("survival")
    with Zygote(folder) as zygote:
        yield Place(folder, zygote)


# ---------------------------------------------------------------------- killed


def test_killed_at_random_moments_a_run_ends_with_the_same_bytes(place, tries, kept):
    count, killed, most = tries(5, 100), 0, 0
    for number in range(count):
        rng = random.Random(number)
        out = place.fresh(prepared=number % 5 > 0)
        for _ in range(rng.choice([1, 1, 2, 3])):
            ended = place.train(out, after=(rng.uniform(0.05, place.seconds), signal.SIGKILL))
            killed += ended.signal == signal.SIGKILL
        place.finish(out)
        most = max(most, repeated(out))
        assert most <= EVERY
        shutil.rmtree(out)
    figures = f"killed {killed} times, 0 bytes differ in weights, optimiser, running mean, loss log and finished model"
    kept("T1", "kill -9 at random moments, one to three times a run, then continued", figures=figures)
    kept("T2", "updates made again after kill -9", figures=f"at most {most}, of {EVERY} between checkpoints")


MIDDLE = f"*/step-{2 * EVERY:08d}.partial"
POINTS = {
    "before the folder of a checkpoint is made": [f"mkdir|{MIDDLE}|1|kill-before"],
    "in the middle of the weights": [f"write|{MIDDLE}/.tmp*|1|kill-after"],
    "before the optimiser": [f"write|{MIDDLE}/.tmp*|2|kill-before"],
    "in the middle of the optimiser": [f"write|{MIDDLE}/.tmp*|2|kill-after"],
    "before the running mean": [f"write|{MIDDLE}/.tmp*|3|kill-before"],
    "in the middle of the running mean": [f"write|{MIDDLE}/.tmp*|3|kill-after"],
    "before state.json": [f"open|{MIDDLE}/state.json.tmp|1|kill-before"],
    "after state.json is safe": [f"fsync|{MIDDLE}/state.json.tmp|1|kill-after"],
    "before the weights are safe": [f"fsync|{MIDDLE}/model.safetensors|1|kill-before"],
    "in the middle of the manifest": [f"write|{MIDDLE}/MANIFEST.json.tmp|1|kill-after"],
    "after the manifest": [f"rename|{MIDDLE}/MANIFEST.json|1|kill-after"],
    "after the folder is safe": [f"fsync|{MIDDLE}|1|kill-after"],
    "before the folder has its name": [f"rename|*/step-{2 * EVERY:08d}|1|kill-before"],
    "after the folder has its name": [f"rename|*/step-{2 * EVERY:08d}|1|kill-after"],
    "before an old checkpoint is dropped": [f"unlink|*/step-{2 * EVERY:08d}/*|1|kill-before"],
    "in the middle of dropping it": [f"unlink|*/step-{2 * EVERY:08d}/*|2|kill-after"],
    "before the loss log is written": ["write|*/losses.tsv|2|kill-before"],
    "after the loss log is written": ["fsync|*/losses.tsv|2|kill-after"],
    "in the middle of the event log": ["write|*/events.jsonl|9|short", "write|*/events.jsonl|10|kill-before"],
    "before the finished model has its name": ["rename|*/model|1|kill-before"],
    "after the finished model has its name": ["rename|*/model|1|kill-after"],
}
CALLS = {
    "at the first update": ("jumok.training.update:Team.update", 1),
    "in the middle of an epoch": ("jumok.training.loop:account", 5),
    "between the micro-batches of an update": ("jumok.nn.dropout:Dropouts.start", 2 * 2 * 9 + 3),
    "in a validation": ("jumok.training.validation:metrics.bleu", 2),
    "after a validation, before saving": ("jumok.runs.checkpointing:Keeper.save", 3),
    "while candidates for the finished model are scored": ("jumok.training.validation:Scorer.__call__", 6),
}


@pytest.mark.parametrize("name", [*POINTS, *CALLS])
def test_killed_at_a_named_point_a_run_ends_with_the_same_bytes(place, kept, name):
    out = place.fresh()
    harm = {"faults": POINTS[name]} if name in POINTS else {"kill_at": CALLS[name]}
    ended = place.train(out, **harm)
    assert ended.signal == signal.SIGKILL, ended
    place.finish(out)
    kept("T1", "kill -9 at named points of saving, updating, validating and exporting, then continued", count=1)


def test_killed_at_the_edge_of_an_epoch_a_run_ends_with_the_same_bytes(place, kept):
    steps = [event for event in history(place.folder / "whole" / "events.jsonl") if event["event"] == "step"]
    edge = next(event["step"] for event in steps if event["epoch"] == 1)
    for update in (edge - 1, edge, edge + 1):
        out = place.fresh()
        assert place.train(out, kill_at=("jumok.training.loop:account", update)).signal == signal.SIGKILL
        place.finish(out)
    kept("T1", "kill -9 around the edge of an epoch, then continued", count=3)


OFTEN, SELDOM = ("--set", "training.save_minutes=0.000001"), ("--set", "training.save_minutes=60")


def test_killed_after_a_checkpoint_made_by_the_clock_a_run_ends_with_the_bytes_of_one_without_any(place, kept):
    for update in (6, 12, 21):
        out = place.fresh()
        assert place.train(out, *OFTEN, kill_at=("jumok.training.loop:account", update)).signal == signal.SIGKILL
        place.finish(out, *(OFTEN if update == 12 else SELDOM))
        begins = [event["step"] for event in read_events(out / "events.jsonl") if event["event"] == "begin"]
        assert begins == [0, update - 1], "it continued from the checkpoint of the update before"
        dues = sorted(path.name for path in (place.folder / "whole" / "checkpoints").iterdir())
        assert sorted(path.name for path in (out / "checkpoints").iterdir()) == dues
    what = "kill -9 after checkpoints made by the clock, continued with and without; beside a run without any"
    kept("T1", what, count=3, figures="0 bytes differ, same checkpoints kept")
    kept("T2", "updates made again after kill -9, with a checkpoint by the clock before", count=3, figures="1")


THIN = {
    "before the manifest forgets the optimiser": ["rename|*/step-00000008/MANIFEST.json|1|kill-before"],
    "after the manifest has forgotten it": ["rename|*/step-00000008/MANIFEST.json|1|kill-after"],
    "after the optimiser is gone": ["unlink|*/step-00000008/optimizer.safetensors|1|kill-after"],
    "after the running mean is gone": ["unlink|*/step-00000008/mean.safetensors|1|kill-after"],
}


@pytest.mark.parametrize("name", THIN)
def test_killed_while_an_old_checkpoint_is_cut_down_to_its_weights_a_run_ends_with_the_same_bytes(place, kept, name):
    from jumok.storage.checkpoint import RunFolder

    many = ("--set", "training.average=4")
    whole, out = place.fresh(), place.fresh()
    assert place.train(whole, *many).code == 0
    assert place.train(out, *many, faults=THIN[name]).signal == signal.SIGKILL
    assert [one.step for one in RunFolder(out).last(9)] == [24, 16, 8], "every folder is whole"
    assert [one.step for one in RunFolder(out).last(9, full=True)][:2] == [24, 16]
    assert place.train(out, *many).code == 0
    assert sums(out) == sums(whole)
    folders = sorted((out / "checkpoints").iterdir())
    full = [(path / "optimizer.safetensors").exists() for path in folders]
    assert full == [False] * (len(folders) - 2) + [True, True]
    kept("T3", "kill -9 while old checkpoints are cut down to their weights", count=1, figures="0 bytes differ")


@pytest.mark.parametrize("pattern", ["*/vocabulary.model", "*/data/prepared", "*/shortlist.safetensors"])
@pytest.mark.parametrize("moment", ["kill-before", "kill-after"])
def test_killed_while_text_is_prepared_a_run_ends_with_the_same_bytes(place, kept, pattern, moment):
    out = place.fresh(prepared=False)
    assert place.train(out, faults=[f"rename|{pattern}|1|{moment}"]).signal == signal.SIGKILL
    place.finish(out)
    kept("T1", "kill -9 while vocabulary, token store and shortlist are made, then continued", count=1)


def test_a_run_until_bleu_ends_with_the_same_bytes(place, tries, kept):
    learns = ["--until-bleu", "0.9", "--steps", "300", "--set", "model.d_model=32", "--set", "training.peak=0.03"]
    whole = place.fresh(prepared=False)
    ended = place.train(whole, *learns)
    assert ended.code == 0, ended.err
    assert "(bleu)" in ended.err, ended.err
    last = max(int(path.name.removeprefix("step-")) for path in (whole / "checkpoints").glob("step-????????"))
    names = [name.replace(f"{LAST:08d}", f"{last:08d}") for name in BYTES]
    for number in range(count := tries(1, 10)):
        out = place.fresh(prepared=False)
        moment = random.Random(number).uniform(0.3, ended.seconds)
        place.train(out, *learns, after=(moment, signal.SIGKILL))
        assert place.train(out, *learns).code == 0
        assert all((whole / name).read_bytes() == (out / name).read_bytes() for name in names)
    assert count
    kept("T1", "kill -9 in a run that ends at a BLEU (--until-bleu), then continued", figures="0 bytes differ")


def test_a_run_by_minutes_has_the_bytes_that_follow_from_its_plans(place, tries, kept):
    """When a run by minutes ends depends on the clock; what it learns depends on what it decided, and nothing else."""
    for number in range(tries(1, 10)):
        out, again = place.fresh(), place.fresh()
        rng = random.Random(number)
        for _ in range(2):
            place.train(out, "--minutes", "0.1", after=(rng.uniform(0.5, 4.0), signal.SIGKILL))
        ended = place.train(out, "--minutes", "0.1")
        assert ended.code == 0, ended.err
        replayed = place.train(again, "--minutes", "0.1", first=("tests.support.replayed:install", str(out)))
        assert replayed.code == 0, replayed.err
        newest = max((out / "checkpoints").glob("step-????????"))
        for name in ("model", "optimizer", "mean"):
            file = f"checkpoints/{newest.name}/{name}.safetensors"
            assert (out / file).read_bytes() == (again / file).read_bytes(), file
        assert (out / "losses.tsv").read_bytes() == (again / "losses.tsv").read_bytes()
    what = "kill -9 twice in a run by --minutes, then continued; beside a run that follows its plans without a clock"
    kept("T1", what, figures="0 bytes differ in weights, optimiser, running mean and loss log")


# ---------------------------------------------------------------------- stopped

PHASES = {
    "reading": ("jumok.data.prepare.work:_read", 1),
    "learning the vocabulary": ("jumok.text.trainer:learn_apart", 1),
    "tokenising": ("jumok.data.prepare.work:_encode_lines", 1),
    "the first update": ("jumok.training.update:Team.update", 1),
    "an update": ("jumok.training.update:Team.update", 12),
    "validating": ("jumok.training.validation:Scorer.score", 2),
    "saving": ("jumok.storage.checkpoint:write_whole", 2),
    "choosing the finished model": ("jumok.runs.finished:candidates", 1),
}


@pytest.mark.parametrize("phase", PHASES)
def test_a_run_that_is_stopped_in_any_phase_saves_and_leaves_within_ten_seconds(place, tries, kept, phase):
    slowest = 0.0
    for number in [signal.SIGTERM, signal.SIGINT, signal.SIGHUP][: tries(1, 3)]:
        out = place.fresh(prepared=phase not in list(PHASES)[:3])
        ended = place.train(out, pause_at=PHASES[phase], after=(0.0, number))
        assert ended.code == 75 or (ended.code == 0 and phase in ("choosing the finished model", "saving")), ended
        assert ended.seconds < 10.0
        slowest = max(slowest, ended.seconds)
        place.finish(out)
        assert repeated(out) == 0
    what = "SIGTERM (every push), Ctrl-C and a closed terminal while "
    kept("T5", what + phase, figures=f"exit code 75 after {slowest:.1f} s, nothing repeated, 0 bytes differ")


def test_a_second_ctrl_c_leaves_at_once(place, kept):
    out = place.fresh()
    twice = ("tests.survival.test_survival:interrupt_twice", "")
    ended = place.train(out, first=twice)
    assert ended.code == 130, ended
    place.finish(out)
    kept("T5", "a second Ctrl-C: exit code 130, and the run goes on from its last checkpoint", count=1)


def interrupt_twice(_: str) -> None:
    """In the process of a run: Ctrl-C, and again while it is being saved."""
    import os

    from tests.support.zygote import hook

    hook("jumok.training.update:Team.update", 12, lambda: os.kill(os.getpid(), signal.SIGINT))
    hook("jumok.storage.checkpoint:write_whole", 2, lambda: os.kill(os.getpid(), signal.SIGINT))


# ---------------------------------------------------------------------- the disk

FAILURES = {"full": errno.ENOSPC, "over quota": errno.EDQUOT, "read-only": errno.EROFS, "broken": errno.EIO}


def good(out: Path) -> list[Path]:
    """Checkpoints that verify, oldest first."""
    from jumok.storage.checkpoint import RunFolder

    return [one.folder for one in reversed(RunFolder(out).last(100))]


@pytest.mark.parametrize("kind", ["once", "for good", "short"])
def test_a_disk_that_fails_at_the_nth_write_costs_no_checkpoint_and_no_byte(place, tries, kept, kind):
    numbers = range(1, 41, 40 // tries(5, 40))
    for n in numbers:
        out = place.fresh()
        rule = {"once": f"{n}|{errno.ENOSPC}", "for good": f"{n}+|{errno.ENOSPC}", "short": f"{n}|short"}[kind]
        ended = place.train(out, faults=[f"write|{out}/*|{rule}"])
        assert ended.code in ((0,) if kind == "short" else (0, 74)), (n, ended)
        if ended.code == 74:
            assert "No space left" in ended.err
            assert len(ended.err[ended.err.index("jumok: ") :].strip().split("\n")) <= 3
        place.finish(out)
        shutil.rmtree(out)
    what = {"once": "a disk full at the nth write, once", "for good": "a disk full from the nth write on, then freed"}
    kept("T3", what.get(kind, "the nth write is cut short"), figures="0 bytes differ, 0 checkpoints lost")


@pytest.mark.parametrize("call", ["open", "write", "fsync", "rename", "mkdir"])
def test_three_failures_in_a_row_end_a_run_with_74_and_the_last_good_checkpoint_stays(place, tries, kept, call):
    for failure in list(FAILURES.values())[: tries(1, 4)]:
        out = place.fresh()
        later = "*/checkpoints/step-000000[1-9]?" + ("" if call == "rename" else ".partial*")  # the first one is saved
        ended = place.train(out, faults=[f"{call}|{later}|1+|{failure}"])
        assert ended.code == 74, ended
        assert ended.err.count("training continues without it") == 2
        assert [path.name for path in good(out)] == [f"step-{EVERY:08d}"]
        steps = [event["step"] for event in read_events(out / "events.jsonl") if event["event"] == "step"]
        assert steps == list(range(1, 4 * EVERY + 1))
        place.finish(out)
    kept("T3", "three checkpoints refused: a disk full (every push), over quota, read-only, broken, at five calls")


def test_a_disk_that_is_really_full_costs_no_checkpoint(place, kept, tmp_path):
    import subprocess

    small = tmp_path / "small"
    small.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", small], check=False, capture_output=True)
    if made.returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        out = small / "run"
        shutil.copytree(place.fresh(), out, ignore=shutil.ignore_patterns("snapshots"))
        ended = place.train(out)
        assert ended.code == 74, ended
        assert good(out)
        subprocess.run(["mount", "-o", "remount,size=20m", small], check=True)
        place.finish(out)
    finally:
        subprocess.run(["umount", small], check=True)
    kept("T3", "a real disk of 700 kB fills up; with more room the run goes on", count=1, figures="0 bytes differ")


# ---------------------------------------------------------------------- elsewhere


@pytest.mark.parametrize(("change", "words"), [("threads", "threads 2, now 1"), ("data", "another training text")])
def test_a_run_that_goes_on_elsewhere_says_so_in_a_line_and_an_exact_one_does_not(place, kept, change, words):
    out = place.fresh()
    assert place.train(out, kill_at=("jumok.training.loop:account", 12)).signal == signal.SIGKILL
    first = ("tests.survival.test_survival:elsewhere", change)
    ended = place.train(out, "--exact", first=first)
    assert ended.code == 2, ended
    assert words in ended.err
    assert "--exact" in ended.err
    ended = place.train(out, first=first)
    assert ended.code == 0, ended
    [note] = [line for line in ended.err.split("\n") if "began elsewhere" in line]
    assert words in note
    kept("T1", "a run that goes on with other threads or another text: told in a line, refused by --exact", count=1)


def elsewhere(change: str) -> None:
    """In the process of a run: other surroundings."""
    import torch

    from jumok.runs import checkpointing

    if change == "threads":
        torch.set_num_threads(1)
        return
    real = checkpointing.surroundings
    checkpointing.surroundings = lambda *given: real(*given) | {"data": "another"}


# ---------------------------------------------------------------------- numbers


def test_updates_without_a_finite_gradient_are_skipped_counted_and_survive_a_kill(place, kept):
    poison = ("tests.survival.test_survival:poison", "5,6,17,30")
    whole, parts = place.fresh(), place.fresh()
    assert place.train(whole, first=poison).code == 0
    assert place.train(parts, first=poison, kill_at=("jumok.training.loop:account", 20)).signal == signal.SIGKILL
    ended = place.train(parts, first=poison)
    assert ended.code == 0, ended
    assert sums(whole) == sums(parts) != place.whole
    steps = {event["step"]: event for event in history(parts / "events.jsonl") if event["event"] == "step"}
    assert [step for step, event in steps.items() if event["norm"] is None] == [5, 6, 17, 30]
    assert steps[LAST]["skipped"] == 4
    assert (parts / "losses.tsv").read_text().rstrip("\n").endswith("\t4")
    kept("T4", "four updates with a gradient that is not a number, killed and continued", count=4, figures="4 skipped")


def test_ten_in_a_row_end_a_run_that_names_its_batch_and_how_to_see_it(place, kept):
    out = place.fresh()
    ended = place.train(out, first=("tests.survival.test_survival:poison", ",".join(map(str, range(12, 30)))))
    assert ended.code == 1, ended
    what, where, hint = ended.err[ended.err.index("jumok: ") :].strip().split("\n")
    assert "10 updates in a row" in what
    assert "at step 21" in where
    command = hint.partition("jumok ")[2].split()
    assert command[:3] == ["data", "pairs", str(out)]
    shown = place.zygote.run(command)
    assert shown.code == 0, shown.err
    rows = [line.split("\t") for line in shown.out.rstrip("\n").split("\n")]
    assert [row[0] for row in rows] == command[3:]
    assert all(source == target != "" for _, _, source, target in rows)  # the copy task
    assert good(out)[-1].name == f"step-{2 * EVERY:08d}"
    kept("T4", "ten updates in a row: exit code 1, the batch and the command that shows it are named", count=1)


def poison(steps: str) -> None:
    """In the process of a run: the gradients of these updates are not numbers."""
    from jumok.training import loop
    from jumok.training.optim import Optimizer

    bad, now, key, collect = set(map(int, steps.split(","))), [0], loop.key, Optimizer.collect

    def noted(seed, purpose, step, number):
        now[0] = step
        return key(seed, purpose, step, number)

    def spoilt(self, gradients):
        if now[0] in bad:
            gradients[0][0].view(-1)[0] = float("nan")
        collect(self, gradients)

    loop.key, Optimizer.collect = noted, spoilt  # type: ignore[method-assign,assignment]


def test_a_checkpoint_of_tiny_costs_less_than_a_hundredth_of_its_training(tmp_path, kept):
    from contextlib import closing

    from jumok.config import presets
    from jumok.events import LossLog, read_events
    from jumok.runs.checkpointing import make_keeper
    from jumok.runs.claiming import settle_data
    from jumok.runs.context import Context
    from jumok.runs.preparation import prepare_run
    from jumok.runs.trainee import assemble
    from jumok.storage.checkpoint import RunFolder
    from jumok.training.progress import Progress

    rng = random.Random(1)
    words = ["".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(4)) for _ in range(20_000)]
    for name in ("source", "target"):
        (tmp_path / name).write_text("\n".join(" ".join(rng.choices(words, k=12)) for _ in range(4_000)) + "\n")
    changes = {"data.corpus": None, "data.source": str(tmp_path / "source"), "data.target": str(tmp_path / "target")}
    folder = RunFolder(tmp_path / "run")
    context = Context.of(folder)
    folder.claim()
    recipe, texts = settle_data(presets.tiny().change(changes), folder)
    trainee = assemble(recipe, prepare_run(recipe, folder, texts, context), context)
    with closing(LossLog(folder.losses)) as losses, closing(context.report):
        keeper = make_keeper(trainee, folder, context, losses)
        keeper.restore()
        for step in (1, 2, 3, 4, 5):
            keeper.save(Progress.of(step=step, validated=step))
    events = [event for event in read_events(folder.events) if event["event"] == "checkpoint"]
    seconds = sorted(event["seconds"] for event in events)[2]
    between = 15 * 60.0 / recipe.training.validations
    share = seconds / between
    assert share < 0.01
    size = f"{keeper.size() / 1e6:.0f} MB"
    figures = f"{seconds:.2f} s for {size}, {share:.2%} of the {between:.0f} s between two"
    kept("T3", "what a checkpoint of `tiny` costs in a run of 15 minutes", count=len(events), figures=figures)
