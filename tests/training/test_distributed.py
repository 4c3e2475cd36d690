"""Several processes train together: the bytes of one process with as many threads, also when one of them is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jumok.errors import Resumable, UsageError
from jumok.events import read_events
from jumok.training.distributed import ALONE, World, join
from tests.survival.test_survival import BYTES, RECIPE, sums

LIMIT = 120.0  # seconds, after which something hangs


def environment(threads: int) -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": str(threads)}


def arguments(folder: Path, name: str) -> list[str]:
    (folder / "micro.toml").write_text(RECIPE)
    return ["-m", "jumok", "train", "--recipe", str(folder / "micro.toml"), "--out", str(folder / name)]


def torchrun(folder: Path, name: str, processes: int = 2) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command += ["--max-restarts=3", *arguments(folder, name)]
    with open(folder / f"{name}.log", "wb") as log:
        return subprocess.Popen(command, env=environment(1), stdout=log, stderr=log)


def reached(folder: Path, step: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a run has made so many updates."""
    began = time.monotonic()
    while time.monotonic() - began < LIMIT and process.poll() is None:
        events = folder / "events.jsonl"
        if events.exists() and any(e["event"] == "step" and e["step"] >= step for e in read_events(events)):
            return
        time.sleep(0.05)
    raise AssertionError(f"no step {step} after {time.monotonic() - began:.0f} s")


def workers(process: subprocess.Popen[bytes]) -> list[int]:
    """The processes that train, by rank."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            variables = dict(pair.split("=", 1) for pair in (entry / "environ").read_text().split("\0") if "=" in pair)
        except (OSError, UnicodeDecodeError):
            continue
        if parent == process.pid and "RANK" in variables:
            found.append((int(variables["RANK"]), int(entry.name)))
    return [pid for _, pid in sorted(found)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> dict[str, str]:
    """The bytes of one process with two threads."""
    folder = tmp_path_factory.mktemp("alone")
    done = subprocess.run(
        [sys.executable, *arguments(folder, "run")], env=environment(2), capture_output=True, check=False, text=True
    )
    assert done.returncode == 0, done.stderr
    return sums(folder / "run")


@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are found in /proc")
def test_a_process_that_is_killed_is_noticed_and_the_run_ends_with_the_same_bytes(tmp_path, alone, tries, kept):
    longest = 0.0
    for number in range(tries(1, 10)):
        name = f"run-{number}"
        process = torchrun(tmp_path, name)
        try:
            reached(tmp_path / name, 10 + number % 9, process)
            before = workers(process)
            assert len(before) == 2
            os.kill(before[(number + 1) % 2], signal.SIGKILL)
            killed = time.monotonic()
            while set(workers(process)) & set(before) and time.monotonic() - killed < LIMIT:
                time.sleep(0.02)
            longest = max(longest, time.monotonic() - killed)
            assert process.wait(LIMIT) == 0, (tmp_path / f"{name}.log").read_text()
        finally:
            process.kill()
        assert longest < 30.0
        begins = [event for event in read_events(tmp_path / name / "events.jsonl") if event["event"] == "begin"]
        assert len(begins) == 2
        assert begins[1]["step"] >= 8
        assert sums(tmp_path / name) == alone
    figures = f"all gone after {longest:.1f} s at most, started again, 0 bytes differ from one process with two threads"
    kept("T1", "one of two processes under torchrun (gloo) is killed with kill -9", figures=figures)


@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are found in /proc")
def test_processes_that_are_stopped_save_and_one_alone_goes_on_with_the_same_bytes(tmp_path, alone, kept):
    process = torchrun(tmp_path, "run")
    try:
        reached(tmp_path / "run", 10, process)
        process.send_signal(signal.SIGTERM)
        process.wait(LIMIT)
    finally:
        process.kill()
    done = subprocess.run(
        [sys.executable, *arguments(tmp_path, "run"), "--exact"], env=environment(2), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    begins = [event["step"] for event in read_events(tmp_path / "run" / "events.jsonl") if event["event"] == "begin"]
    assert begins[-1] >= 10
    assert sums(tmp_path / "run") == alone
    assert len(BYTES) == len(alone)
    kept("T5", "SIGTERM to two processes under torchrun; one process with two threads goes on", count=1)


def test_a_world_of_one_asks_nobody():
    assert join({}) is ALONE
    assert (ALONE.share({"a": 1}), ALONE.any(True), ALONE.any(False), ALONE.first) == ({"a": 1}, True, False, True)
    with ALONE.turn():
        pass
    ALONE.leave()


@pytest.mark.parametrize("variables", [{"WORLD_SIZE": "two"}, {"WORLD_SIZE": "2", "RANK": "x"}])
def test_a_world_that_makes_no_sense_is_a_usage_error(variables):
    with pytest.raises(UsageError, match="not numbers"):
        join(variables)


def test_a_peer_that_is_not_there_is_resumable():
    with pytest.raises(Resumable, match="has exited"):
        World(1, 2).any(True)  # nobody has been met
