"""The process in which a vocabulary is learned ends with its parent, on every system."""

import os
import subprocess
import sys
from collections import Counter

from jumok.stopping import NEVER
from jumok.text import trainer

ELSEWHERE = """
import os, sys, time
sys.platform = "darwin"  # a system without PR_SET_PDEATHSIG
from jumok.processes import die_with_parent
die_with_parent(os.getppid(), pipe=sys.stdin.fileno())
print("ready", flush=True)
time.sleep(120)
"""


def test_a_child_exits_when_the_pipe_of_its_parent_ends():
    with subprocess.Popen(
        [sys.executable, "-c", ELSEWHERE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "ready\n"
        assert child.poll() is None
        child.stdin.close()
        try:
            assert child.wait(timeout=60) == 1
        finally:
            child.kill()


def test_the_learner_of_a_vocabulary_holds_a_pipe_of_its_parent(monkeypatch):
    """Elsewhere than on Linux, this is how it notices the end; a pipe that other children inherit would not end."""
    started: list[subprocess.Popen[bytes]] = []
    plain = subprocess.Popen

    def start(*more, **named):
        started.append(plain(*more, **named))
        return started[-1]

    monkeypatch.setattr(trainer.subprocess, "Popen", start)
    steps = trainer.learn_apart(Counter({f"word{n}": 3 for n in range(300)}), 300, "unigram", at_most=True, where="")
    next(steps)
    [child] = started
    assert child.stdin is not None
    assert not os.get_inheritable(child.stdin.fileno())
    steps.close()
    assert child.poll() is not None
    assert child.stdin.closed


def test_a_vocabulary_is_learned_where_only_the_pipe_is_watched(monkeypatch, tmp_path):
    """The whole way: the thread that waits for the pipe does not keep the process from ending by itself."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.platform = 'darwin'\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    counts = Counter({f"word{chr(97 + n % 26)}{chr(97 + n // 26)}": 3 for n in range(300)})
    learned = NEVER.finish(trainer.learn_apart(counts, 320, "bpe", at_most=True, where=""))
    assert len(learned) > 1_000
