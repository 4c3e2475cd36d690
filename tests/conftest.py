"""What several test files share: one tiny model, trained once, and the command line without a process of its own."""

import importlib
import io
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.support import reliability

hypothesis.settings.register_profile("ours", deadline=None)  # a busy machine is no fault of the code
hypothesis.settings.load_profile("ours")

os.environ["JUMOK_LANG"] = "en"  # in every locale tests read English, unless they choose another language
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: the models of tests are too small for threads


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="the large counts, and write docs/RELIABILITY.md")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first, so that no worker is left with a long one at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture
def tries(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """How often to try something: the first number on every push, the second with --long."""

    def count(quick: int, long: int) -> int:
        request.node.tried = (long if request.config.getoption("--long") else quick, quick)
        return int(request.node.tried[0])

    return count


@pytest.fixture
def kept(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Say which promise a test has seen kept; `count` is how often, unless `tries` knows."""

    def say(promise: str, what: str, *, count: int | None = None, figures: str = "") -> None:
        tried = (count, count) if count is not None else getattr(request.node, "tried", (1, 1))
        one = reliability.Kept(promise, what, *tried, figures, request.node.nodeid.split("[")[0])
        request.node.user_properties.append(reliability.to_property(one))

    return say


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """What was promised and tried; after a long run, the page."""
    calls = [one for kind in ("passed", "failed") for one in terminalreporter.stats.get(kind, []) if one.when == "call"]
    found, failed = reliability.read(calls)
    if not found:
        return
    terminalreporter.section("promises")
    for line in reliability.table(found):
        terminalreporter.write_line(line)
    if config.getoption("--long"):
        from jumok import machine

        path = Path(__file__).parent.parent / "docs" / "RELIABILITY.md"
        rows = reliability.remembered(path.with_name("reliability.json"), found, f"{datetime.now(UTC):%Y-%m-%d}")
        reliability.write(path, reliability.page(rows, failed, str(machine.describe())))
        terminalreporter.write_line(f"written: {path}")


MICRO = {  # a recipe that trains in a second
    "data.corpus": "copy",
    "data.pairs": 400,
    "data.hold_out": 20,
    **{f"data.clean.{rule}": False for rule in ("duplicates", "near_duplicates", "copies", "scripts", "symbols")},
    "vocabulary.size": 285,
    "model.encoder_layers": 1,
    "model.decoder_layers": 2,
    "model.d_model": 16,
    "model.d_ff": 32,
    "model.heads": 2,
    "training.minutes": None,
    "training.steps": 6,
    "training.validate_every": 2,
    "training.warmup": 2,
    "training.average": 2,
    "decoding.extra_length": 5,
}


@pytest.fixture(scope="session", autouse=True)
def exports(tmp_path_factory) -> None:
    """Models in another engine's form go to a folder of the tests, not to the user's cache."""
    from jumok.disk import user_cache

    real, folder = user_cache.own, tmp_path_factory.mktemp("exports")
    user_cache.own = lambda name: folder if name == "ctranslate2" else real(name)


@pytest.fixture(scope="session")
def micro(tmp_path_factory) -> Path:
    """The folder of a run on the copy task; look at it, never change it."""
    from jumok.config import presets
    from jumok.runs.experiment import train

    out = tmp_path_factory.mktemp("runs") / "micro"
    return train(recipe=presets.tiny().change(MICRO), out=out).folder


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
    """Run `jumok ARGUMENTS` in this process, in the language that they choose."""
    import jumok.cli
    from jumok import messages
    from jumok.cli.main import main

    def run(*arguments: object, stdin: bytes = b"") -> Answer:
        monkeypatch.setattr(sys, "argv", ["jumok", *map(str, arguments)])
        monkeypatch.setattr("jumok.cli.main.exit_with", sys.exit)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        capsys.readouterr()
        with messages.speaking(messages.spoken()):
            importlib.reload(jumok.cli)  # chooses the language, before the verbs are imported
            with pytest.raises(SystemExit) as left:
                main()
        assert isinstance(left.value.code, int)
        return Answer(left.value.code, *capsys.readouterr())

    return run
