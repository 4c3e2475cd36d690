"""What several test files share: one tiny model, trained once, and the command line without a process of its own."""

import io
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: the models of tests are too small for threads

MICRO = {  # a recipe that trains in a second
    "data.corpus": "copy",
    "data.pairs": 400,
    "data.hold_out": 20,
    "vocabulary.size": 285,
    "model.encoder_layers": 1,
    "model.decoder_layers": 2,
    "model.d_model": 16,
    "model.d_ff": 32,
    "model.heads": 2,
    "training.minutes": None,
    "training.steps": 6,
    "training.validations": 3,
    "training.warmup": 2,
    "training.average": 2,
    "decoding.extra_length": 5,
}


@pytest.fixture(scope="session", autouse=True)
def exports(tmp_path_factory) -> None:
    """Models in another engine's form go to a folder of the tests, not to the user's cache."""
    from jumok import caches

    real, folder = caches.own, tmp_path_factory.mktemp("exports")
    caches.own = lambda name: folder if name == "ctranslate2" else real(name)


@pytest.fixture(scope="session")
def micro(tmp_path_factory) -> Path:
    """The folder of a run on the copy task; look at it, never change it."""
    from jumok import recipes
    from jumok.experiment import train

    out = tmp_path_factory.mktemp("runs") / "micro"
    return train(recipe=recipes.tiny().change(MICRO), out=out).folder


@pytest.fixture
def own_micro(micro, tmp_path) -> Path:
    """A copy of the run that a test may spoil."""
    return Path(shutil.copytree(micro, tmp_path / "micro"))


@dataclass(frozen=True)
class Answer:
    """What a command gave."""

    code: int
    out: str
    err: str

    @property
    def complaint(self) -> list[str]:
        """The three lines of an error, or fewer."""
        return self.err[self.err.index("jumok: ") :].removesuffix("\n").split("\n")


@pytest.fixture
def jumok(capsys, monkeypatch) -> Callable[..., Answer]:
    """Run `jumok ARGUMENTS` in this process."""
    from jumok.cli import main

    def run(*arguments: object, stdin: bytes = b"") -> Answer:
        monkeypatch.setattr(sys, "argv", ["jumok", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        assert isinstance(left.value.code, int)
        return Answer(left.value.code, *capsys.readouterr())

    return run
