"""Damage of every kind to every file of a checkpoint and of a bundle: nothing damaged is ever loaded."""

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jumok.config import presets
from jumok.errors import JumokError, ModelFileError
from jumok.runs.averaging import average_run
from jumok.runs.experiment import train
from jumok.storage import bundle, checkpoint
from jumok.storage.checkpoint import RunFolder
from tests.conftest import MICRO
from tests.support.hostile import relist

SEED = 1
CHECKPOINT = ("model.safetensors", "optimizer.safetensors", "mean.safetensors", "state.json", "MANIFEST.json")
BUNDLE = (
    "recipe.toml", "vocabulary.model", "model.safetensors", "card.json", "shortlist.safetensors", "MANIFEST.json",
)  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> tuple[Path, Path]:
    """A run and a stranger to it, both with a running mean, on texts of their own."""
    folder = tmp_path_factory.mktemp("corruption")
    for seed in (1, 2):
        recipe = presets.tiny().change(MICRO | {"training.ema": 0.9, "seed": seed})
        train(recipe=recipe, out=folder / f"{seed}")
    return folder / "1", folder / "2"


# ------------------------------------------------------------------------------------------ damage

Damage = Callable[[random.Random, Path, Path], None]  # chance, the file, the same file of a stranger


def cut(chance: random.Random, file: Path, other: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(
        content[: chance.choice([1, 8, len(content) // 2, len(content) - 1, chance.randrange(len(content))])]
    )


def flip(chance: random.Random, file: Path, other: Path) -> None:
    content = bytearray(file.read_bytes())
    last = len(content) - 1
    content[chance.choice([0, 4, 8, 20, last // 2, last - 4, last, chance.randrange(last)])] ^= 1 << chance.randrange(8)
    file.write_bytes(content)


def empty(chance: random.Random, file: Path, other: Path) -> None:
    file.write_bytes(b"")


def zeros(chance: random.Random, file: Path, other: Path) -> None:
    """A block that was never written; one that was zero before counts as well as its neighbour."""
    content = bytearray(file.read_bytes())
    at = chance.randrange(len(content))
    content[at : at + 512] = bytes(len(content[at : at + 512]))
    content[at] = 1 if file.read_bytes() == content else 0
    file.write_bytes(content)


def append(chance: random.Random, file: Path, other: Path) -> None:
    file.write_bytes(file.read_bytes() + chance.choice([b"\0", b"x", bytes(4096), b"{}"]))


def remove(chance: random.Random, file: Path, other: Path) -> None:
    file.unlink()


def folder(chance: random.Random, file: Path, other: Path) -> None:
    file.unlink()
    file.mkdir()


def pipe(chance: random.Random, file: Path, other: Path) -> None:
    """Who opens it waits for ever."""
    file.unlink()
    os.mkfifo(file)


def link(chance: random.Random, file: Path, other: Path) -> None:
    """The right bytes, but somewhere else."""
    aside = chance.choice([file.with_name("aside"), file.parent.parent.parent / "aside"])
    aside.unlink(missing_ok=True)
    file.rename(aside)
    file.symlink_to(aside if chance.random() < 0.5 else os.path.relpath(aside, file.parent))


def swap(chance: random.Random, file: Path, other: Path) -> None:
    """The same file of another step or another model."""
    shutil.copy(other, file)


def mistake(chance: random.Random, file: Path, other: Path) -> None:
    """Another file of the same folder: optimizer for model, state for manifest."""
    others = sorted(path for path in file.parent.iterdir() if path.read_bytes() != file.read_bytes())
    shutil.copy(chance.choice(others), file)


def strike(chance: random.Random, file: Path, other: Path) -> None:
    """The manifest no longer lists the file."""
    manifest = file.with_name("MANIFEST.json")
    listed = json.loads(manifest.read_text())
    listed.pop(file.name, None) or listed.clear()
    manifest.write_text(json.dumps(listed))


def overlist(chance: random.Random, file: Path, other: Path) -> None:
    """The manifest lists a file that was never there, or is in another folder."""
    manifest = file.with_name("MANIFEST.json")
    name = chance.choice(["never", "../recipe.toml", "/etc/hostname", "a/b", "..", "x" * 300])
    listed = json.loads(manifest.read_text()) | {name: {"size": 1, "sha256": "0" * 64}}
    manifest.write_text(json.dumps(listed))


DAMAGES: list[Damage] = [
    cut, cut, flip, flip, flip, zeros, append, empty, remove, folder, pipe, link, swap, swap, mistake, strike, overlist,
]  # fmt: skip


def damages(count: int, files: tuple[str, ...]) -> Iterator[tuple[int, str, Damage]]:
    """Every damage to every file, over and over, each time elsewhere."""
    both = [(name, damage) for damage in DAMAGES for name in files]
    for number in range(count):
        yield number, *both[number % len(both)]


def named(name: str, damage: Damage, error: JumokError) -> bool:
    """Whether a complaint says which file; who distrusts the list may name any that it does not fit."""
    return name == "MANIFEST.json" or damage is overlist or name in error.what


# ------------------------------------------------------------------------------------------ laws


def test_a_damaged_checkpoint_is_never_loaded_and_the_one_before_it_is(runs, tmp_path, tries, kept):
    count = tries(130, 130)
    steps = [path.name for path in RunFolder(runs[0]).steps()]
    good, spoilt = runs[0] / "checkpoints" / steps[-1], tmp_path / "run" / "checkpoints" / steps[-1]
    shutil.copytree(runs[0] / "checkpoints", spoilt.parent)
    silent = []
    for number, name, damage in damages(count, CHECKPOINT):
        shutil.rmtree(spoilt)
        shutil.copytree(good, spoilt)
        chance = random.Random(f"{SEED}:{number}")
        stranger = chance.choice([good.parent / steps[-2], runs[1] / "checkpoints" / steps[-1]])
        damage(chance, spoilt / name, stranger / name)
        found, refused = RunFolder(tmp_path / "run").newest()
        assert found is not None
        told = refused and refused[0].code == 65 and spoilt.name in refused[0].where and named(name, damage, refused[0])
        if found.folder.name != steps[-2] or not told:
            silent.append(f"seed {SEED}, number {number}: {damage.__name__} {name}: {refused}")
    assert silent == []
    kept("T3", "every file of a checkpoint damaged, swapped, linked, missing", figures="0 loaded silently")


def test_a_damaged_bundle_is_never_loaded(runs, tmp_path, tries, kept):
    count = tries(130, 130)
    good, spoilt = runs[0] / "model", tmp_path / "run" / "model"
    silent = []
    for number, name, damage in damages(count, BUNDLE):
        shutil.rmtree(spoilt, ignore_errors=True)
        shutil.copytree(good, spoilt)
        chance = random.Random(f"{SEED}:{number}")
        damage(chance, spoilt / name, runs[1] / "model" / name)
        try:
            bundle.read(tmp_path / "run")
            silent.append(f"seed {SEED}, number {number}: {damage.__name__} {name} was loaded")
        except ModelFileError as error:
            if error.code != 65 or not named(name, damage, error):
                silent.append(f"seed {SEED}, number {number}: {damage.__name__} {name}: {error}")
    assert silent == []
    kept("M1", "every file of a bundle damaged, swapped, linked, missing", figures="0 loaded silently")


def test_files_that_nobody_listed_and_nobody_reads_do_no_harm(own_micro, jumok):
    for place in (own_micro / "model", *RunFolder(own_micro).steps()):
        (place / "notes of mine.txt").write_text("stray")
        (place / ".hidden").write_bytes(b"\xff")
        (place / "folder").mkdir()
        (place / "elsewhere").symlink_to("/etc/hostname")
    found, refused = RunFolder(own_micro).newest()
    assert (found is not None, refused) == (True, [])
    bundle.read(own_micro)
    assert jumok("model", "shortlist", own_micro).code == 0  # which makes the folder anew
    assert jumok("model", "info", own_micro).code == 0


@pytest.mark.parametrize("name", ["shortlist.safetensors", "vocabulary.model"])
def test_a_file_that_would_be_read_must_be_listed(own_micro, name):
    listed = json.loads((own_micro / "model" / "MANIFEST.json").read_text())
    del listed[name]
    (own_micro / "model" / "MANIFEST.json").write_text(json.dumps(listed))
    with pytest.raises(ModelFileError, match=f"does not list {name}"):
        bundle.read(own_micro)


def test_a_running_mean_that_was_put_beside_a_checkpoint_is_refused_with_it(own_micro):
    run = RunFolder(own_micro)
    newest = run.steps()[-1]
    shutil.copy(newest / "model.safetensors", newest / "mean.safetensors")
    found, refused = run.newest()
    assert found is not None
    assert found.folder != newest
    assert "does not list mean.safetensors" in refused[0].what


def test_a_checkpoint_under_the_name_of_another_step_is_refused(own_micro):
    run = RunFolder(own_micro)
    newest = run.steps()[-1]
    newest.rename(newest.with_name("step-00000009"))
    found, refused = run.newest()
    assert found is not None
    assert found.step < 6
    assert "another step" in refused[0].what


# ------------------------------------------------------------------------------------------ versions


def rewrite(path: Path, **changes: object) -> None:
    """Change a JSON file and list it anew; None takes a key away."""
    values = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: value for name, value in values.items() if value is not None}))
    relist(path.parent)


def test_a_bundle_of_a_newer_jumok_is_refused_with_the_command_to_try(own_micro, jumok):
    rewrite(own_micro / "model" / "card.json", format=2)
    (own_micro / "model" / "recipe.toml").write_text("later = true")  # nothing else of it is looked at
    relist(own_micro / "model")
    answer = jumok("translate", own_micro, "a")
    assert answer.code == 65
    assert "made by a newer jumok" in answer.complaint[0]
    assert answer.complaint[-1] == "try: pip install -U jumok"


def test_a_checkpoint_of_a_newer_jumok_is_passed_over(own_micro):
    run = RunFolder(own_micro)
    rewrite(run.steps()[-1] / "state.json", format=2)
    found, refused = run.newest()
    assert found is not None
    assert found.folder == run.steps()[-2]
    assert (refused[0].hint, "newer jumok" in refused[0].what) == ("try: pip install -U jumok", True)


@pytest.mark.parametrize("told", [0, -1, 1.0, True, "1", [], 10**400])
def test_a_format_that_is_no_number_of_ours_is_refused(own_micro, told):
    rewrite(own_micro / "model" / "card.json", format=told)
    with pytest.raises(ModelFileError, match="format"):
        bundle.read(own_micro)


def test_runs_from_before_formats_were_told_still_load(own_micro):
    assert json.loads((own_micro / "model" / "card.json").read_text())["format"] == bundle.FORMAT
    run = RunFolder(own_micro)
    rewrite(own_micro / "model" / "card.json", format=None)
    rewrite(run.steps()[-1] / "state.json", format=None)
    assert checkpoint.load(own_micro).recipe.seed == 1
    found, refused = run.newest()
    assert found is not None
    assert (found.folder, refused) == (run.steps()[-1], [])


@pytest.mark.parametrize("name", ["recipe.toml", "vocabulary.model"])
def test_the_files_of_a_run_that_a_resumed_one_reads_are_no_links(own_micro, tmp_path, name):
    (own_micro / name).rename(tmp_path / name)
    (own_micro / name).symlink_to(tmp_path / name)
    with pytest.raises(ModelFileError, match=name):
        average_run(own_micro, last=2)
