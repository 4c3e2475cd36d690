"""A run as a whole: it keeps its minutes, is continued when given more, never gets worse, and can be foreseen."""

import gc
import json
import math
import shutil
import subprocess
import sys
import time
import weakref
from dataclasses import replace
from pathlib import Path

import pytest

import jumok
from jumok import machine
from jumok.config.search import SearchOptions
from jumok.data.corpora import Pair
from jumok.engines.torch_engine import TorchEngine
from jumok.errors import DiskError, Resumable
from jumok.events import EventLog, LossLog, TensorBoardSink, most_bytes, read_events, read_losses
from jumok.models import build
from jumok.runs import finished, forecast
from jumok.runs.experiment import choose
from jumok.storage.checkpoint import RunFolder
from jumok.training import validation
from jumok.training.budget import ByClock, Costs, Limits
from tests.support.helpers import made
from tests.training.test_training import losses, micro, run


def files(folder: Path) -> dict[str, bytes]:
    """All that is in a run, but for what happened."""
    found = [path for path in folder.rglob("*") if path.is_file() and path.name != "events.jsonl"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def told(folder: Path, kind: str) -> list[dict]:
    return [event for event in read_events(folder / "events.jsonl") if event["event"] == kind]


def said(folder: Path) -> str:
    return "\n".join(event["text"] for event in told(folder, "stage"))


def card(folder: Path) -> dict:
    return json.loads((folder / "model" / "card.json").read_text())


def timed(out: Path, minutes: float, *, stop_at: int | None = None, **changes) -> Path:
    """The micro recipe limited by minutes alone, asked to stop once `stop_at` updates are done."""
    steps: list[int] = []
    recipe = micro(**{"training.validate_every": None} | changes)
    jumok.train(
        recipe=recipe, out=out, minutes=minutes, stop=lambda: stop_at is not None and len(steps) >= stop_at,
        sinks=[lambda event: steps.append(1) if event["event"] == "step" else None],
    )  # fmt: skip
    return out


# ------------------------------------------------------------------------------------------ minutes


@pytest.fixture(scope="module")
def short(tmp_path_factory) -> tuple[Path, float]:
    """A run of six seconds, and how long it took; the first optimiser of a process has half of torch imported."""
    run(tmp_path_factory.mktemp("before") / "run")
    began = time.monotonic()
    return timed(tmp_path_factory.mktemp("short") / "run", 0.1), time.monotonic() - began


def test_minutes_end_a_run_in_time_and_the_schedule_with_it(short):
    folder, seconds = short
    assert seconds < 6.0
    steps = told(folder, "step")
    assert steps[-1]["rate"] < 0.1 * max(step["rate"] for step in steps)
    assert card(folder)["ended_by"] == "minutes"


def test_every_validation_tells_the_time_since_the_process_began(short):
    for event in told(short[0], "validation"):
        assert event["wall"] > event["seconds"] > 0
        assert 1 <= event["pairs"] <= event["of"] == 5
    assert told(short[0], "finished")[-1]["wall"] <= 6.0


def test_changes_of_plan_are_told_and_saved_with_the_run(short):
    plans = told(short[0], "plan")
    assert len(plans) > 5
    assert {"step", "horizon", "due", "look", "pairs", "left", "course"} <= set(plans[0])
    newest = sorted((short[0] / "checkpoints").iterdir())[-1]
    progress = json.loads((newest / "state.json").read_text())["progress"]
    assert progress["step"] == plans[-1]["horizon"]
    assert progress["course"] in [plan.get("course") for plan in plans]
    assert progress["until"] == pytest.approx(6.0)


@pytest.mark.slow
def test_minutes_on_the_command_line_count_from_the_start_of_the_process(tmp_path):
    options = [f"--set={key}={value}" for key, value in {
        "vocabulary.size": 280, "model.encoder_layers": 1, "model.decoder_layers": 1, "model.d_model": 16,
        "model.d_ff": 32, "model.heads": 2, "data.pairs": 300, "data.hold_out": 30,
    }.items()]  # fmt: skip
    began = time.monotonic()
    command = [sys.executable, "-m", "jumok", "train", "--corpus", "copy", "--minutes", "0.25", *options]
    subprocess.run([*command, "--out", str(tmp_path / "run")], check=True, capture_output=True)
    seconds = time.monotonic() - began
    assert 10.0 < seconds < 16.0  # a second for a busy machine to end the process
    assert told(tmp_path / "run", "step")[0]["wall"] > 1.0, "importing torch counts"


def test_the_start_of_a_process_is_known():
    code = "import time; time.sleep(0.5); from jumok import machine; print(time.monotonic() - machine.process_began())"
    age = float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
    assert 0.5 <= age < 5.0


def test_an_interrupted_run_says_what_is_left_of_its_minutes(tmp_path):
    with pytest.raises(Resumable):
        timed(tmp_path / "a", 5.0, stop_at=20)
    began = time.monotonic()
    timed(tmp_path / "a", 0.1)
    assert time.monotonic() - began < 6.0
    assert "of its 0.1 minutes are over" in said(tmp_path / "a")
    updates = sorted(losses(tmp_path / "a"))
    assert updates == list(range(1, len(updates) + 1))
    assert len(updates) > 20
    assert told(tmp_path / "a", "finished")[-1]["wall"] <= 6.0
    walls = [event["wall"] for event in told(tmp_path / "a", "step")]
    assert walls == sorted(walls)
    assert walls[20] > walls[19] + 0.02, "reading the text again counts"


# ------------------------------------------------------------------------------------------ finished runs


def test_the_same_limits_on_a_finished_run_say_so_and_change_nothing(tmp_path):
    run(tmp_path / "a")
    before, scores = files(tmp_path / "a"), card(tmp_path / "a")["valid"][card(tmp_path / "a")["weights"]]
    again = jumok.train(recipe=micro(), out=tmp_path / "a")
    assert files(tmp_path / "a") == before
    assert again.scores == scores
    assert "This run is finished: 12 steps, ended by steps" in said(tmp_path / "a")
    assert "--steps 24" in said(tmp_path / "a")


def test_a_run_finished_by_its_recipes_minutes_is_not_trained_again_without_being_asked(tmp_path):
    timed(tmp_path / "a", 0.05)
    before = files(tmp_path / "a")
    recipe = micro(**{"training.validate_every": None, "training.steps": 10**9, "training.minutes": 0.05})
    jumok.train(recipe=recipe, out=tmp_path / "a")
    assert files(tmp_path / "a") == before
    assert "--minutes 10" in said(tmp_path / "a")


def test_minutes_given_to_a_finished_run_come_on_top(tmp_path):
    timed(tmp_path / "a", 0.1)
    steps, first = card(tmp_path / "a")["steps"], told(tmp_path / "a", "step")
    began = time.monotonic()
    timed(tmp_path / "a", 0.1)
    assert time.monotonic() - began < 6.0
    assert "it trains 0.1 minutes more" in said(tmp_path / "a")
    assert card(tmp_path / "a")["steps"] > steps
    after = list(read_losses(tmp_path / "a" / "losses.tsv"))[steps]  # it has every update, whatever their number
    assert after["step"] == steps + 1
    spent = first[-1]["wall"]
    assert after["rate"] == pytest.approx(0.01 * 6.0 / (6.0 + spent), rel=0.05), "the peak times what is left of all"


def test_the_earlier_model_is_compared_however_little_time_there_is(tmp_path, monkeypatch):
    timed(tmp_path / "a", 0.08)
    assert len(card(tmp_path / "a")["valid"]) >= 1
    monkeypatch.setattr(ByClock, "can_afford", lambda pace, pairs: False)
    timed(tmp_path / "a", 0.08)
    assert [name.split()[0] for name in card(tmp_path / "a")["valid"]] == ["checkpoint", "earlier"]


def test_a_continued_run_never_ends_with_a_worse_model(tmp_path, monkeypatch):
    run(tmp_path / "a")
    before, scored = files(tmp_path / "a"), card(tmp_path / "a")
    worse = {"loss": 9.0, "perplexity": 9.0, "bleu": -1.0}
    monkeypatch.setattr(validation.Scorer, "__call__", lambda scorer, most: (worse, ""))
    run(tmp_path / "a", **{"training.steps": 16})
    now = card(tmp_path / "a")
    assert now["steps"] == 16
    assert now["weights"] == f"earlier model ({scored['weights']})"
    assert files(tmp_path / "a")["model/model.safetensors"] == before["model/model.safetensors"]
    better = {"loss": 1.0, "perplexity": 1.0, "bleu": 99.0}
    monkeypatch.setattr(validation.Scorer, "__call__", lambda scorer, most: (better, ""))
    run(tmp_path / "a", **{"training.steps": 20})
    assert card(tmp_path / "a")["weights"] == "checkpoint 20"


def test_a_run_is_finished_if_its_model_was_made_from_its_newest_checkpoint(tmp_path):
    folder = RunFolder(run(tmp_path / "a"))
    found = finished.find_finished(folder)
    assert found is not None
    assert found.progress.counts.step == 12
    (folder.checkpoints / "step-00000012" / "state.json").write_text("{")
    assert finished.find_finished(folder) is None


def test_a_run_whose_model_is_gone_is_not_finished(tmp_path):
    run(tmp_path / "a")
    before = files(tmp_path / "a")
    (tmp_path / "a" / "model" / "card.json").unlink()
    run(tmp_path / "a")
    assert files(tmp_path / "a")["model/model.safetensors"] == before["model/model.safetensors"]


# ------------------------------------------------------------------------------------------ disk


def size(*folders: Path) -> int:
    files = [path for folder in folders for path in (folder.rglob("*") if folder.is_dir() else [folder])]
    return sum(path.stat().st_size for path in files if path.is_file())


@pytest.mark.parametrize("average", [1, 5])
def test_a_run_takes_no_more_of_the_disk_than_it_said_at_its_start(tmp_path, monkeypatch, average):
    run, heard, sizes, remove = RunFolder(tmp_path / "a"), [], [], shutil.rmtree

    def measure() -> None:
        sizes.append(size(run.checkpoints, run.bundle, run.bundle.with_name("model.before")))

    def removing(path, **options):
        measure()  # old checkpoints are still there when the new one is whole
        remove(path, **options)

    def watch(event):
        measure()
        heard.extend([event] if event["event"] == "disk" else [])

    monkeypatch.setattr("jumok.storage.checkpoint.shutil.rmtree", removing)
    for steps in (40, 60):  # the second time a model is replaced
        changes = {"training.average": average, "training.save_minutes": 1e-6, "training.steps": steps}
        jumok.train(recipe=micro(**changes), out=run.path, sinks=[watch])
    for event in heard:
        assert max(sizes) <= event["checkpoints"] + event["model"] == pytest.approx(max(sizes), rel=0.5)
        most = event["checkpoints"] + event["model"] + event["snapshots"]
        assert size(run.path / "snapshots") <= event["snapshots"]
        assert event["need"] == max(0, most - event["there"]) + event["logs"]
    assert (heard[0]["there"], heard[1]["there"] > 0) == (0, True)
    assert size(run.events, run.losses, run.tensorboard) <= heard[0]["logs"] + heard[1]["logs"]
    assert said(run.path).count("Disk: at most") == 2


def test_the_logs_of_a_long_run_are_as_large_as_was_said_at_most(tmp_path):
    board, losses = TensorBoardSink(tmp_path / "tensorboard"), LossLog(tmp_path / "losses.tsv")
    log = EventLog(tmp_path / "events.jsonl", [board])
    losses.begin(0)
    for step in range(1, 20_001):
        values = {"step": 10**6 + step, "epoch": 12, "loss": math.pi, "rate": math.pi / 1e4, "norm": math.pi / 10}
        values |= {"tokens": 25_000, "skipped": 0}
        losses(**values)
        log("step", **values | {"step": step}, seconds=math.pi * 1e5, wall=math.pi * 1e5, horizon=10**6, seen=10**9)
    for part in (log, losses, board):
        part.close()
    assert size(tmp_path) <= most_bytes(20_000)
    assert size(tmp_path) >= 0.5 * most_bytes(20_000)
    assert most_bytes(7 * 350_000) < 200e6, "a week"


def test_a_run_that_may_fill_the_disk_is_warned_and_one_that_cannot_save_is_refused(tmp_path, monkeypatch):
    real = shutil.disk_usage

    def usage(free):
        return lambda path: real(path)._replace(free=free)

    monkeypatch.setattr("jumok.runs.checkpointing.shutil.disk_usage", usage(300_000))
    run(tmp_path / "a")
    assert any("may become full" in event["text"] for event in told(tmp_path / "a", "note"))
    monkeypatch.setattr("jumok.runs.checkpointing.shutil.disk_usage", usage(1_000))
    with pytest.raises(DiskError, match="not even one checkpoint fits") as refused:
        run(tmp_path / "b")
    assert "--out" in refused.value.hint
    assert not RunFolder(tmp_path / "b").steps()
    monkeypatch.undo()
    run(tmp_path / "c")
    assert not any("may become full" in event["text"] for event in told(tmp_path / "c", "note"))


# ------------------------------------------------------------------------------------------ validation


def test_a_part_of_the_validation_set_is_spread_over_it_and_always_the_same():
    assert validation.spread(10, 20) == list(range(10))
    assert validation.spread(1_000, 4) == [0, 250, 500, 750]
    assert validation.spread(3, 1) == [0]


def test_output_is_cut_where_the_limits_say():
    engine = TorchEngine(made().eval())
    sources = [[9, 10, 11], [9] * 8, [12]]
    found = engine.decode(sources, SearchOptions(beam=1), limits=[2, 500, 1])
    assert [len(hypotheses[0].ids) <= most for hypotheses, most in zip(found, (2, 58, 1), strict=True)] == [True] * 3
    free = engine.decode(sources, SearchOptions(beam=1))
    assert found[1][0].ids == free[1][0].ids, "a limit beyond the options' own changes nothing"


def test_a_probe_of_validating_is_short_and_never_nothing(monkeypatch):
    class Words:
        def encode_all(self, texts):
            return [[9] * len(text.split()) for text in texts]

        def decode(self, ids):
            return "d" * len(ids)

    pairs = [Pair("a b c", "d e f g", line) for line in range(100)]
    words = type("Both", (), {"source": Words(), "target": Words()})()
    scorer = validation.Scorer(TorchEngine(made().eval()), words, pairs, ratio=2.0)
    assert scorer.limits == [19] * 100, "1.5 times the ratio times 3, and 10"
    times = iter([0.0, 8.0])
    assert scorer.measure_seconds(lambda: next(times)) == 1.0, "eight pairs are enough where they take long"
    times = iter([0.0, 0.1, 1.0, 65.0])
    assert scorer.measure_seconds(lambda: next(times)) == 1.0


# ------------------------------------------------------------------------------------------ plan


@pytest.fixture(scope="module")
def foreseen(tmp_path_factory):
    out = tmp_path_factory.mktemp("plan") / "run"
    return forecast.probe(choose(recipe=micro(), minutes=2.0), out), out


def test_a_plan_says_what_to_expect_and_writes_nothing(foreseen):
    found, out = foreseen
    assert not out.exists()
    assert found.counted
    assert found.pairs == 300
    assert found.parameters == sum(p.numel() for p in build(micro().model, 280, 280, device="meta").parameters())
    tokens = found.subwords[1] + 270  # and an END each; about 30 of 300 are held out
    assert found.epochs == pytest.approx(found.updates * found.update * found.tokens_per_second / tokens, rel=0.005)
    assert found.updates * found.update < 120.0
    assert [line.split()[0] for line in found.lines()[:8]] == [
        "pairs", "model", "speed", "time", "updates", "validations", "memory", "disk",
    ]  # fmt: skip


def test_a_plan_uses_the_vocabulary_of_the_run_that_is_there(tmp_path, monkeypatch):
    run(tmp_path / "a")
    before = files(tmp_path / "a")
    monkeypatch.setattr("jumok.text.vocabulary.Vocabulary.learn", lambda *_, **__: pytest.fail("there is one"))
    forecast.probe(micro(), tmp_path / "a")
    assert files(tmp_path / "a") == before


def test_a_plan_says_plainly_what_does_not_fit(foreseen):
    found = replace(foreseen[0], recipe="small", minutes=5.0, seconds=300.0, startup=20.0, load=0.0)
    found = replace(found, epochs=1.4, updates=300)
    [little] = found.verdict()
    assert "1.4 passes" in little
    assert "--minutes 35" in little, "ten passes: 280 s · 10 / 1.4 + 20 s, and a minute"
    assert "--recipe tiny" in little
    enough = replace(found, epochs=12.0)
    assert enough.verdict() == ["This recipe fits this machine and time."]
    assert replace(found, updates=30_000).verdict() == enough.verdict(), "a large text needs no ten passes"
    [memory] = replace(enough, expected_memory=20 * 10**9, memory=10**9, available_memory=10**9).verdict()
    assert "20.0 GB of memory" in memory
    [disk] = replace(enough, disk=10**12, available_disk=10**9).verdict()
    assert "--out" in disk
    [long] = replace(enough, seconds=86_400.0 * 30).verdict()
    assert "30.0 days" in long
    assert "busy" in replace(enough, load=machine.cores() + 3.0).verdict()[1]


def test_a_plan_by_count_tells_how_long_it_takes():
    costs, limits = Costs(pair=0.01, checkpoint=0.5, update=2.0), Limits(steps=100, pairs=50, validations=4)
    found = forecast.divide(limits, costs, None, startup=10.0)
    assert found["seconds"] == pytest.approx(10 + 100 * 2.0 + 4 * (0.5 + 0.5))
    assert (found["updates"], found["validations"]) == (100, 4)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.314, "0.31 s"), (42.4, "42 s"), (90, "1.5 minutes"), (7_500, "2.1 hours"), (200_000, "2.3 days")],
)
def test_times_are_spelt_in_the_unit_that_fits(seconds, text):
    assert forecast.spell(seconds) == text


# ---------------------------------------------------------------------- auto


def test_the_recipe_that_fits_grows_with_the_corpus_and_with_the_time():
    from jumok.config import presets

    assert presets.recommend(29_000, 15, 2) == "tiny"
    assert presets.recommend(29_000, 10**5, 64) == "tiny"  # few pairs
    assert presets.recommend(2_000_000, 30, 2) == "tiny"  # little time
    assert presets.recommend(200_000, 600, 2) == "small"
    assert presets.recommend(200_000, 60, 16) == "small"
    assert presets.recommend(4_500_000, 10_000, 8) == "base"
    assert presets.recommend(10**8, None, 2) == "tiny"


def test_pairs_are_estimated_from_the_first_megabyte(tmp_path):
    from jumok.config.sections import DataConfig
    from jumok.data.sizes import estimate_pairs
    from jumok.text.lines import write_lines

    lines = [f"sentence number {n} of a longer text" for n in range(80_000)]
    for name in ("a.en", "a.de", "b.en.gz", "b.de.gz"):
        write_lines(tmp_path / name, lines)
    plain = DataConfig(source=str(tmp_path / "a.en"), target=str(tmp_path / "a.de"))
    assert estimate_pairs(plain) == pytest.approx(80_000, rel=0.05)
    assert estimate_pairs(DataConfig(corpus="copy", pairs=700)) == 700
    assert estimate_pairs(DataConfig(source="nowhere.en", target="nowhere.de")) == 0
    packed = DataConfig(source=str(tmp_path / "b.en.gz"), target=str(tmp_path / "b.de.gz"))
    assert estimate_pairs(packed) == pytest.approx(80_000, rel=0.05)


def test_auto_in_a_folder_that_holds_a_run_is_that_run(tmp_path, monkeypatch):
    from jumok.runs.choose import choose, settle

    monkeypatch.chdir(tmp_path)
    run(tmp_path / "runs" / "small")
    asked = {"corpus": "copy", "recipe": "auto", "minutes": 600.0}
    settled, place, said = settle(None, asked)
    assert place == Path("runs/small")
    assert choose(**settled).model == micro().model
    assert "that of the run in" in said
    _, place, said = settle(None, {**asked, "corpus": "reverse"})
    assert place is None
    assert "chosen for about" in said
    assert settle("elsewhere", {"recipe": "tiny"}) == ({"recipe": "tiny"}, Path("elsewhere"), "")


def test_auto_trains_on_a_text_too_small_for_the_vocabulary_of_its_recipe(tmp_path):
    from jumok.errors import UsageError
    from jumok.text.lines import write_lines

    words = [f"{first}{second}" for first in "bdfgk" for second in ("amo", "eli", "ora", "uni")]
    sources = [f"{words[n % 20]} {words[n // 20]} {words[n % 7]}" for n in range(300)]
    texts = tmp_path / "a.en", tmp_path / "a.de"
    for path, lines in zip(texts, (sources, [line[::-1] for line in sources]), strict=True):
        write_lines(path, lines)
    jumok.train(*texts, out=tmp_path / "auto", recipe="auto", steps=2)
    assert RunFolder(tmp_path / "auto").recipe().vocabulary.at_most
    assert (tmp_path / "auto" / "model" / "vocabulary.model").is_file()
    with pytest.raises(UsageError, match="8,000"):
        jumok.train(*texts, out=tmp_path / "tiny", recipe="tiny", steps=2)


def test_auto_takes_a_vocabulary_that_was_asked_for_as_it_is():
    for changes in ({"vocabulary.size": 400}, {"vocabulary.at_most": False}):
        assert not choose(corpus="phrasebook", recipe="auto", changes=changes).vocabulary.at_most
    assert choose(corpus="phrasebook", recipe="auto").vocabulary.at_most
    assert not choose(corpus="phrasebook", recipe="tiny").vocabulary.at_most


RELEASES = """
from jumok import machine
def anonymous():
    lines = open("/proc/self/status").read().split("\\n")
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("RssAnon:"))
machine.keep_memory()
blocks = [bytearray(100_000) for _ in range(2_000)]  # 200 MB
pinned = bytearray(100_000)
del blocks
before = anonymous()
machine.release_memory()
print(before - anonymous())
"""


@pytest.mark.skipif(not machine.keep_memory(), reason="the allocator is not glibc's")
def test_memory_that_was_freed_goes_back_to_the_kernel_when_asked():
    result = subprocess.run([sys.executable, "-c", RELEASES], capture_output=True, text=True, check=True)
    assert int(result.stdout) > 150


def test_cycles_are_collected_before_memory_goes_back():
    class Node:
        pass

    node = Node()
    node.itself, seen = node, weakref.ref(node)
    gc.disable()
    try:
        del node
        machine.release_memory()
        assert seen() is None
    finally:
        gc.enable()
