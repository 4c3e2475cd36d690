"""Kernels that cannot be compiled are told, and a search takes no more memory than there is."""

import os
import time
from pathlib import Path

import pytest

from jumok import machine
from jumok.cli import doctor
from jumok.errors import UsageError
from jumok.events import read_events
from jumok.kernels import library, searching
from jumok.kernels.layout import Dense, Stack
from jumok.kernels.searching import count_bytes, count_threads
from jumok.translator import Translator
from tests.training.test_training import run

compiled = pytest.mark.skipif(library.load() is None, reason="no C compiler on this machine")
TEXTS = ["a", "b c d", "d e f a b c", "f"] * 30


@pytest.fixture
def compiler(monkeypatch, tmp_path):
    """A function that puts a shell script in the place of every compiler, with an empty cache."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def install(script):
        path = tmp_path / "cc"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        library._open.cache_clear()
        return tmp_path

    yield install
    library._open.cache_clear()


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no process groups here")
def test_a_compiler_that_takes_too_long_is_stopped_with_what_it_started_and_told(compiler, monkeypatch):
    folder = compiler('/bin/sleep 60 & echo $! > "${0%/*}/started"; wait')
    monkeypatch.setattr(library, "PATIENCE", 0.6)
    began = time.monotonic()
    assert library.load() is None
    assert time.monotonic() - began < 30.0
    assert str(library.find_problem()) == "compiling the kernels took more than 0.01 minutes"
    started = int((folder / "started").read_text())
    for _ in range(50):
        if not is_running(started):
            break
        time.sleep(0.1)
    assert not is_running(started)
    assert list((folder / "cache" / "jumok" / "native").iterdir()) == []


def test_the_compiler_has_at_least_twenty_minutes():
    assert library.PATIENCE >= 1_200


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (
            "echo 'kernels.c:1: error: no such type' >&2; exit 1",
            "cc could not compile the kernels: kernels.c:1: error: no such",
        ),
        ("exit 3", "cc could not compile the kernels: exit code 3"),
        ('while [ "$1" != -o ]; do shift; done; echo nonsense > "$2"', "cannot be loaded"),
    ],
)
def test_a_compiler_that_fails_is_told_with_its_first_error(compiler, script, words):
    compiler(script)
    assert library.load() is None
    assert words in str(library.find_problem())
    assert words in doctor.check_kernels(torch=True).value


def test_without_a_compiler_that_is_the_problem(compiler):
    (compiler("") / "cc").unlink()
    assert "no C compiler" in str(library.find_problem())


@compiled
def test_with_kernels_there_is_no_problem():
    assert library.find_problem() is None
    assert doctor.check_kernels(torch=True).state == "fine"


def test_training_without_kernels_says_so_in_one_line_and_training_with_them_says_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(library, "_open", lambda: (None, "the compiler is on holiday"))
    run(tmp_path / "without")
    notes = [event["text"] for event in read_events(tmp_path / "without" / "events.jsonl") if event["event"] == "note"]
    assert [text for text in notes if "kernels" in text] == [
        "training without the C kernels, which is slower: the compiler is on holiday"
    ]
    monkeypatch.undo()
    if library.load() is not None:
        run(tmp_path / "with")
        events = read_events(tmp_path / "with" / "events.jsonl")
        assert not [event for event in events if event["event"] == "note" and "kernels" in event["text"]]


# ------------------------------------------------------------------------------------------ memory of a search


def base_decoder() -> Stack:
    """The sizes of the paper's base model."""
    return Stack(6, 512, 8, 64, 64, 0, output=Dense(width=512, height=37_000))


@pytest.fixture
def free(monkeypatch):
    """A function that says how much memory is free, on a machine of 16 cores."""
    monkeypatch.setattr(machine, "cores", lambda: 16)
    return lambda amount: monkeypatch.setattr(machine, "available_memory", lambda: amount)


def test_groups_are_searched_at_once_as_far_as_half_of_the_free_memory_holds_them(free):
    decoder, lengths, limits = base_decoder(), [2_000] * 1_000, [2_050] * 1_000
    each = count_bytes(decoder, 12, 2_000, 2_050, 48)
    for threads in (1, 5, 16):
        free(2 * threads * each)
        assert count_threads(decoder, lengths, limits, [4] * 1_000, 4) == threads
    free(2 * each - 2)
    with pytest.raises(UsageError, match="a beam of 4 over 2,050 subwords needs"):
        count_threads(decoder, lengths, limits, [4] * 1_000, 4)


def test_rows_of_required_phrases_need_memory_and_a_limit_of_threads_is_kept(free):
    decoder, lengths, limits = base_decoder(), [2_000] * 1_000, [2_050] * 1_000
    free(2 * count_bytes(decoder, 12, 2_000, 2_050, 12 * 10))
    assert count_threads(decoder, lengths, limits, [10] * 1_000, 4) == 1
    assert count_threads(decoder, lengths, limits, [4] * 1_000, 4) == 2
    assert count_threads(decoder, lengths, limits, [4] * 1_000, 4, at_most=1) == 1


def test_a_few_long_sentences_do_not_keep_the_short_ones_from_the_other_cores(free):
    decoder = base_decoder()
    free(3 * count_bytes(decoder, 12, 2_000, 2_050, 48))
    assert count_threads(decoder, [2_000] * 12 + [10] * 1_000, [2_050] * 12 + [20] * 1_000, [4] * 1_012, 4) > 4


def test_a_small_search_does_not_ask_for_free_memory(monkeypatch):
    monkeypatch.setattr(machine, "available_memory", lambda: pytest.fail("it was asked"))
    assert count_threads(base_decoder(), [8], [20], [4], 4) == 1
    assert count_threads(base_decoder(), [], [], [], 4) == 1


@compiled
def test_fewer_threads_find_the_same_translations(micro, monkeypatch):
    found = []
    for threads in (1, 16):
        monkeypatch.setattr(searching, "count_threads", lambda *_, count=threads, **__: count)
        found.append([(one.text, one.score) for one in Translator.load(micro, engine="native").translate(TEXTS)])
    assert found[0] == found[1]
