"""Compiling the kernels: a stop is heard meanwhile, and the compiler ends with it."""

import time
from pathlib import Path

import pytest

from jumok.kernels import library
from jumok.stopping import Stop, Stopped


@pytest.fixture
def slow_compiler(tmp_path, monkeypatch) -> Path:
    """A compiler that takes a minute, on a machine without compiled kernels; returns the file with its process id."""
    compiler, number = tmp_path / "cc", tmp_path / "pid"
    compiler.write_text(f"#!/bin/sh\necho $$ > {number}\nsleep 60\n")
    compiler.chmod(0o755)
    monkeypatch.setattr(library, "find_compiler", lambda: str(compiler))
    monkeypatch.setattr(library, "find_portable", lambda: None)
    monkeypatch.setattr(library.user_cache, "own", lambda name: tmp_path)
    return number


def test_a_stop_is_heard_while_the_kernels_are_compiled(slow_compiler):
    began = time.monotonic()
    with pytest.raises(Stopped):
        Stop(lambda: slow_compiler.exists() and bool(slow_compiler.read_text())).finish(library.compile_in_steps())
    assert time.monotonic() - began < 30
    assert not Path(f"/proc/{slow_compiler.read_text().strip()}").exists(), "it was waited for"
    assert not list(slow_compiler.parent.glob("kernels-*"))


def test_where_kernels_cannot_be_compiled_nothing_is_raised(slow_compiler, monkeypatch):
    monkeypatch.setattr(library, "PATIENCE", 0.0)
    Stop().finish(library.compile_in_steps())
