"""A folder has one writer at a time, and a writer that dies leaves no lock behind."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import jumok
from jumok.disk import locks
from jumok.disk.locks import lock
from jumok.errors import DiskError, UsageError
from tests.training.test_training import micro, run

HOLD = (
    "import sys, time; from jumok.disk.locks import lock\n"
    "with lock(sys.argv[1], 'the run'):\n"
    "    print('held', flush=True); time.sleep(60)\n"
)


def hold(folder: Path) -> subprocess.Popen[str]:
    """Start a process that holds the lock of a folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_folder_in_use_is_refused_with_the_process_that_holds_it(tmp_path):
    with hold(tmp_path / "run") as process:
        try:
            with pytest.raises(UsageError) as refused, lock(tmp_path / "run", "the run", wait=0.1):
                pytest.fail("two processes hold one lock")
        finally:
            process.kill()
    assert refused.value.what == f"the run is in use by process {process.pid}"
    assert str(tmp_path / "run") in refused.value.where
    assert f"kill {process.pid}" in refused.value.hint


def test_the_lock_of_a_process_killed_with_9_is_free_at_once(tmp_path, kept):
    with hold(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        with lock(tmp_path, "the run"):
            assert (tmp_path / ".lock").read_text().split()[0] == str(os.getpid())
    kept("T1", "kill -9 of the process that holds a run's lock; the next one gets it", count=1)


def test_a_lock_can_be_taken_again_after_it_was_released_or_its_body_failed(tmp_path):
    with pytest.raises(ZeroDivisionError), lock(tmp_path, "the run"):
        1 / 0  # noqa: B018
    with lock(tmp_path, "the run", wait=0.0):
        pass
    assert (tmp_path / ".lock").read_bytes() == b""


def test_a_file_system_without_locks_is_noted_and_used_all_the_same(tmp_path, monkeypatch):
    def unsupported(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(locks.fcntl, "flock", unsupported)
    said, done = [], []
    with lock(tmp_path, "the run", note=said.append):
        done.append(True)
    assert done
    assert str(tmp_path) in said[0]


def test_a_lock_that_cannot_be_written_is_a_disk_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError, match="cannot write the run"), lock(tmp_path / "file" / "run", "the run"):
        pytest.fail("a file is no folder")
    (tmp_path / "run" / ".lock").mkdir(parents=True)
    with pytest.raises(DiskError) as raised, lock(tmp_path / "run", "the data", option="--data"):
        pytest.fail("a folder is no file")
    assert raised.value.hint == f"try: ls -ld {tmp_path / 'run'}, or another --data"


def test_a_second_training_in_a_run_folder_is_refused_and_changes_nothing(tmp_path):
    whole = run(tmp_path / "whole")
    with hold(tmp_path / "run") as process:
        try:
            with pytest.raises(UsageError, match=f"process {process.pid}"):
                jumok.train(recipe=micro(), out=tmp_path / "run")
        finally:
            process.kill()
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]
    again = run(tmp_path / "run")
    assert (whole / "losses.tsv").read_bytes() == (again / "losses.tsv").read_bytes()
