"""A long run that is killed several times, compared with an uninterrupted twin: same bytes, bounded memory and disk.

    bench/endurance --source two-million.en --target two-million.xx --steps 4000 --out /tmp/endurance
    bench/endurance … --kills 3 --recipe small --threads 2        # the same command continues what was stopped
    bench/endurance … --threads 1 --beside                        # both runs at the same time, one core each

Both runs have the same number of steps.  The first is killed with SIGKILL at evenly spaced steps and started again by
the same command.  While they train, anonymous memory (RssAnon), open files and the size of the run folder are sampled
every few seconds.  Memory growth compares the median of the last tenth of an attempt with that of its second tenth:
buffers have reached their size by then.  The result is printed as JSON and saved in OUT/endurance.json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.places import environment, our_python, say

BEAT = 2.0  # seconds between two samples
STEP = re.compile(rb'"event": "step".*?"step": (\d+)')
RUNNING: list[subprocess.Popen[bytes]] = []  # runs to end when this program is ended
COMPARED = ("losses.tsv", "vocabulary.model", "model/model.safetensors")


@dataclass
class Attempt:
    """One process of a run, from its start to its end."""

    first_step: int = 0
    last_step: int = 0
    seconds_to_step: float = 0.0  # from the start of the process to its first update
    memory: list[int] = field(default_factory=list)  # bytes of RssAnon
    files: list[int] = field(default_factory=list)  # open descriptors
    disk: int = 0  # largest size of the run folder, in bytes

    @property
    def growth(self) -> float:
        """Growth of memory over the attempt, as a share; 0 if it was too short to measure."""
        tenth = len(self.memory) // 10
        if tenth < 3:
            return 0.0
        early, late = (statistics.median(self.memory[a:b]) for a, b in ((tenth, 2 * tenth), (-tenth, None)))
        return late / early - 1.0

    def describe(self) -> dict[str, Any]:
        return {
            "steps": [self.first_step, self.last_step],
            "seconds to first update": round(self.seconds_to_step, 2),
            "memory growth": round(self.growth, 4),
            "memory peak MB": max(self.memory, default=0) // 1_000_000,
            "open files": [min(self.files, default=0), max(self.files, default=0)],
            "disk peak MB": self.disk // 1_000_000,
        }


def newest_step(events: Path) -> int:
    """The step of the last update in the log; only its end is read."""
    if not events.exists():
        return 0
    with open(events, "rb") as file:
        file.seek(max(0, events.stat().st_size - 20_000))
        steps = STEP.findall(file.read())
    return int(steps[-1]) if steps else 0


def folder_size(folder: Path) -> int:
    """Bytes of all files in a folder; files that vanish meanwhile do not count."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(parent, name)).st_size
            except OSError:
                continue
    return total


def sample(pid: int, attempt: Attempt, run: Path) -> None:
    """Add the memory, open files and disk use of a process to its attempt."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        anonymous = re.search(r"RssAnon:\s+(\d+) kB", status)
        if anonymous:
            attempt.memory.append(1024 * int(anonymous[1]))
        attempt.files.append(len(os.listdir(f"/proc/{pid}/fd")))
    except OSError:
        return
    attempt.disk = max(attempt.disk, folder_size(run))


def attempt_run(command: Sequence[str], run: Path, log: Path, kill_at: int | None, threads: int) -> tuple[Attempt, int]:
    """Start the command and watch it until it ends, or until it has reached the step at which it is killed."""
    before = newest_step(run / "events.jsonl")
    attempt, began = Attempt(first_step=before), time.monotonic()
    with open(log, "ab") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment(threads=threads))
    RUNNING.append(process)
    fresh = (run / "events.jsonl").stat().st_size if (run / "events.jsonl").exists() else 0
    try:
        while process.poll() is None:
            events = run / "events.jsonl"
            if not attempt.seconds_to_step:
                if events.exists() and STEP.search(events.read_bytes()[fresh:]):
                    attempt.seconds_to_step = time.monotonic() - began
                time.sleep(0.2)
                continue
            sample(process.pid, attempt, run)
            attempt.last_step = newest_step(events)
            if kill_at is not None and attempt.last_step >= kill_at:
                os.kill(process.pid, signal.SIGKILL)
            time.sleep(BEAT)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait()
    attempt.last_step = newest_step(run / "events.jsonl")
    return attempt, process.returncode


def digests(run: Path) -> dict[str, str]:
    """The sha256 of all files that are equal in two equal runs."""
    paths = [run / name for name in COMPARED]
    paths += sorted(run.glob("checkpoints/*/*.safetensors"))
    return {str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def endure(options: argparse.Namespace, name: str, kills: int) -> list[dict[str, Any]]:
    """Complete one run, killing it `kills` times; continues what an earlier call has done."""
    out: Path = options.out
    run, known = out / name, out / f"{name}.json"
    attempts: list[dict[str, Any]] = json.loads(known.read_text()) if known.exists() else []
    command = [str(our_python(options.python)), "-m", "jumok", "train", "--recipe", options.recipe, "--out", str(run)]
    command += ["--source", options.source, "--target", options.target, "--steps", str(options.steps)]
    while not (attempts and attempts[-1]["code"] == 0):
        done = sum(attempt["code"] == -signal.SIGKILL for attempt in attempts)
        kill_at = options.steps * (done + 1) // (kills + 1) if done < kills else None
        attempt, code = attempt_run(command, run, out / f"{name}.log", kill_at, options.threads)
        attempts.append(attempt.describe() | {"code": code})
        known.write_text(json.dumps(attempts, indent=1))
        say(f"{name}: {attempts[-1]}")
        if code not in (0, -signal.SIGKILL, 75):
            raise SystemExit(f"{name} ended with code {code}; see {out / f'{name}.log'}")
        if code == 75:
            raise SystemExit(75)
    return attempts


def end_runs(*_: object) -> None:
    """Ask the runs to stop; each then ends with code 75, and so does this program."""
    for process in RUNNING:
        if process.poll() is None:
            process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--recipe", default="small")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--beside", action="store_true", help="run both at the same time")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--python", help="interpreter that has jumok; default: that of .venv")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, end_runs)
    with ThreadPoolExecutor(2 if options.beside else 1) as pool:
        both = [pool.submit(endure, options, name, kills) for name, kills in (("killed", options.kills), ("twin", 0))]
        killed, twin = (running.result() for running in both)
    ours, theirs = digests(options.out / "killed"), digests(options.out / "twin")
    differ = sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
    result = {
        "recipe": options.recipe,
        "steps": options.steps,
        "killed": killed,
        "twin": twin,
        "files that differ": differ,
    }
    (options.out / "endurance.json").write_text(json.dumps(result, indent=1))
    print(json.dumps(result, indent=1))
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
