"""Which runs a workspace has, their states, and which texts can be trained on."""

import os
import signal
import subprocess
import sys

import pytest

from jumok.disk.locks import find_holder, lock, signal_holder
from jumok.monitor.runs import find_runs, find_state, find_texts, identify, is_text, summarize
from tests.support.logs import event, validation, write_run

HOLD = (
    "import sys, time; from jumok.disk.locks import lock\n"
    "with lock(sys.argv[1], 'the run'):\n    print('held', flush=True); time.sleep(60)"
)


@pytest.fixture
def trainer():
    """Start a process that holds the lock of a run."""
    started = []

    def start(folder):
        process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_run_is_running_then_killed_and_the_holder_is_named(tmp_path, trainer):
    run = write_run(tmp_path)
    process = trainer(run)
    assert find_state(run) == "running"
    holder = find_holder(run)
    assert (holder.pid, holder.is_here, holder.alive) == (process.pid, True, True)
    assert holder.began > 1_700_000_000
    assert summarize(find_runs(tmp_path)[0])["process"]["pid"] == process.pid
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert find_state(run) == "killed"
    assert find_holder(run).alive is False


def test_a_run_that_ended_in_order_is_stopped_or_finished(tmp_path):
    run = write_run(tmp_path)
    with lock(run, "the run"):
        pass
    assert find_state(run) == "stopped"
    with (run / "events.jsonl").open("a") as file:
        file.write(event("finished", step=20, bleu=30.0, loss=1.0, reason="steps"))
    assert find_state(run) == "finished"
    assert summarize(find_runs(tmp_path)[0])["scores"] == {"bleu": 30.0, "loss": 1.0}


def test_only_the_process_that_holds_the_lock_gets_the_signal(tmp_path, trainer):
    run = write_run(tmp_path)
    assert not signal_holder(run, signal.SIGTERM)
    process = trainer(run)
    assert signal_holder(run, signal.SIGTERM)
    assert process.wait(20) == -signal.SIGTERM
    (run / ".lock").write_text(f"{os.getpid()} {os.uname().nodename} 1")  # the number was given to another process
    assert not signal_holder(run, signal.SIGTERM)
    (run / ".lock").write_text("1 elsewhere 1")
    assert not signal_holder(run, 0)


def test_runs_are_found_below_the_workspace_and_nowhere_else(tmp_path):
    outside = write_run(tmp_path / "outside")
    work = tmp_path / "work"
    for place in ("one", "deep/er/two", ".hidden/three", "one/checkpoints/four"):
        write_run(work / place)
    (work / "link").symlink_to(outside)
    (work / "five").mkdir()
    (work / "five" / "recipe.toml").write_text("")
    (work / "five" / "events.jsonl").symlink_to(outside / "events.jsonl")
    assert [run.name for run in find_runs(work)] == ["deep/er/two", "one"]
    served = find_runs(None, {"en-de": outside, "bundle": outside / "model"})
    assert {(run.name, run.served) for run in served} <= {("en-de", "en-de"), ("bundle", "bundle")}
    assert served[0].id == identify(outside)


def test_texts_are_files_that_look_like_training_text_and_no_links(tmp_path):
    for name in (
        "a.en",
        "a.ko.gz",
        "sub/table.tsv",
        "notes.txt",
        "x.jsonl",
        "page.html",
        "no-suffix",
        ".hid.en",
        "empty.de",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("" if name.startswith("empty") else "text\n")
    write_run(tmp_path / "run")
    (tmp_path / "run" / "inside.en").write_text("a\n")
    (tmp_path / "link.en").symlink_to(tmp_path / "a.en")
    assert [text["name"] for text in find_texts(tmp_path)] == [
        "a.en",
        "a.ko.gz",
        "notes.txt",
        "sub/table.tsv",
        "x.jsonl",
    ]
    assert is_text("train.pt-BR")
    assert not is_text("train.")


def test_a_summary_takes_what_the_end_of_a_log_says(tmp_path):
    write_run(tmp_path / "r", 30, more=validation(30, 12.5))
    (one,) = map(summarize, find_runs(tmp_path))
    assert (one["step"], one["scores"]["bleu"], one["state"], one["snapshots"]) == (30, 12.5, "stopped", 0)
