"""How far a command walks through the house (docs/decisions/0016): the figures that were reached may not grow.

A test that fails here asks for a look at `tests/support/walk.py`: is the new hop a thing of its own, or a detour?  A
figure may be raised together with the decision.
"""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import walk

pytest.importorskip("torch")

WORDS = (
    "the", "small", "old", "dog", "cat", "house", "tree", "sees", "finds", "likes", "near", "under", "today", "here",
)  # fmt: skip


def measure(*arguments: object) -> dict:
    """The counts of a command, in a process in which nothing has been imported yet."""
    root = Path(__file__).parent.parent.parent
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, walk.__file__, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    counts = json.loads(done.stdout.strip().rpartition("\n")[2])
    assert counts["code"] == 0, done.stderr
    return counts


def list_described(command: str) -> set[str]:
    """The files that ARCHITECTURE.md names on the way of a command."""
    text = (Path(__file__).parent.parent.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = text.partition("## Two commands, file by file")[2].partition(f"`jumok {command}")[2]
    described = section.partition("```")[2].partition("```")[0]
    return {f"{name}.py" for name in re.findall(r"[a-z_]+(?:/[a-z_]+[0-9]?)+", described)}


def test_a_translation_walks_through_few_files_and_never_back_up(micro):
    counts = measure("translate", micro, "a b c")
    assert counts["up"] == []
    assert list_described("translate")
    assert list_described("translate") <= set(counts["entered"])
    assert counts["files"] <= 20
    assert counts["hops"] + counts["bodies"] <= 75


@pytest.mark.slow
def test_a_run_walks_no_further_than_it_did_and_never_back_up(tmp_path):
    chance = random.Random(1)
    lines = [" ".join(chance.choices(WORDS, k=chance.randint(3, 9))) + f" {number} ." for number in range(900)]
    (tmp_path / "a.en").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "a.de").write_text("\n".join(line.upper() for line in lines) + "\n", encoding="utf-8")
    counts = measure(
        "train", "--source", tmp_path / "a.en", "--target", tmp_path / "a.de", "--recipe", "tiny", "--steps", 6,
        "--set", "vocabulary.size=400", "--out", tmp_path / "run",
    )  # fmt: skip
    assert counts["up"] == []
    assert list_described("train")
    assert list_described("train") <= set(counts["entered"])
    assert counts["files"] <= 104
    assert counts["hops"] <= 495
    assert counts["hops"] + counts["bodies"] <= 700
