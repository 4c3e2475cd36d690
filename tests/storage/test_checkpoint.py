"""A checkpoint is whole or ignored; reading one never runs code and never believes what it cannot check."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from jumok.config import presets
from jumok.errors import DiskError, ModelFileError
from jumok.models import build
from jumok.storage import bundle, checkpoint
from jumok.storage.checkpoint import RunFolder, average, read_tensors, set_weights, verify, weights, write_whole
from jumok.text.vocabulary import Vocabulary
from tests.support.helpers import VARIANTS, small, two_sentences

SOURCES = Path(checkpoint.__file__).parent


def tensors(seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {"a": torch.randn(3, 4, generator=generator), "b": torch.randn(5, generator=generator)}


def save(run: RunFolder, step: int, *, keep: int = 9, best: int = 0, passing: bool = False) -> Path:
    groups = {"model.safetensors": tensors(step), "optimizer.safetensors": tensors(-step)}
    return run.save(step, groups, {"progress": {"step": step}, "passing": passing}, keep=keep, best=best)


@pytest.fixture
def run(tmp_path) -> RunFolder:
    return RunFolder(tmp_path / "run")


def steps(run: RunFolder) -> list[int]:
    return [int(folder.name[5:]) for folder in run.steps()]


def relist(folder: Path) -> None:
    """Make a manifest that fits the files as they are now, as a forger would."""
    (folder / "MANIFEST.json").unlink(missing_ok=True)
    files = sorted(path for path in folder.iterdir() if path.is_file())
    listed = {path.name: {"size": path.stat().st_size, "sha256": bundle._sha256(path)} for path in files}
    (folder / "MANIFEST.json").write_text(json.dumps(listed))


# ------------------------------------------------------------------------------------------ laws


@pytest.mark.parametrize("variant", VARIANTS)
def test_law_8_a_saved_and_loaded_model_gives_bit_identical_logits(variant, tmp_path):
    torch.manual_seed(1)
    one, other = (build(small(variant), 23, 23).eval() for _ in range(2))
    write_whole(tmp_path / "model", {"model.safetensors": weights(one)}, {})
    set_weights(other, read_tensors(tmp_path / "model" / "model.safetensors", weights(other)))
    source, target = two_sentences()
    assert torch.equal(one.project(one.hidden(source, target)), other.project(other.hidden(source, target)))


def test_a_bundle_on_disk_is_the_model_that_was_trained(micro, tmp_path):
    bundle = checkpoint.load(micro)
    checkpoint.export(tmp_path / "again", weights(bundle.model), bundle.recipe, bundle.vocabularies, bundle.card)
    again = checkpoint.load(tmp_path / "again")
    assert (again.recipe, again.card, again.vocabularies.digest) == (
        bundle.recipe,
        bundle.card,
        bundle.vocabularies.digest,
    )
    for name, tensor in weights(bundle.model).items():
        assert torch.equal(weights(again.model)[name], tensor)


@pytest.mark.parametrize(("tied", "matrices"), [("all", 1), ("target", 2), ("none", 3)])
def test_tied_tensors_are_stored_once(tied, matrices, tmp_path):
    model = build(small(tied=tied), 23, 23)
    write_whole(tmp_path / "m", {"w": weights(model)}, {})
    stored = load_file(tmp_path / "m" / "w")
    assert sum(tensor.shape == (23, 16) for tensor in stored.values()) == matrices
    assert sum(tensor.numel() for tensor in stored.values()) == sum(p.numel() for p in model.parameters())


def test_running_statistics_are_stored_with_the_parameters():
    model = build(small("batch"), 23, 23)
    assert set(weights(model)) >= {name for name, _ in model.named_parameters()}
    assert any(name.endswith("norm.variance") for name in weights(model))


def test_the_average_is_the_mean_of_each_weight_taken_in_double():
    groups = [tensors(seed) for seed in range(3)]
    mean = average(groups)
    for name in groups[0]:
        by_hand = sum(group[name].to(torch.float64) for group in groups) / 3
        assert torch.equal(mean[name], by_hand.float())
    assert all(torch.equal(average(groups[:1])[name], groups[0][name]) for name in groups[0])


@pytest.mark.parametrize("count", [1, 2, 5, 17, 20, 33])
def test_averaging_files_in_blocks_gives_the_bits_of_averaging_whole_models(tmp_path, monkeypatch, count):
    groups, paths = [], [tmp_path / f"{number}.safetensors" for number in range(count)]
    for seed, path in enumerate(paths):
        torch.manual_seed(seed)
        group = {"table": torch.randn(301, 16), "one": torch.randn(1), "scalar": torch.randn(()), "row": torch.randn(7)}
        group |= {"half": torch.randn(9, 5).bfloat16(), "deep": torch.randn(11, 4, 6), "flags": torch.rand(40) > 0.5}
        groups.append(group | {"wide": torch.randn(3, 5_000) * 1e3})
        save_file(groups[-1], path)
    monkeypatch.setattr(checkpoint, "BLOCK", 8 * 1_000)
    found, expected = checkpoint.average_files(paths, groups[0]), average(groups)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor), name


AVERAGE = """
import sys, torch
from pathlib import Path
from jumok import machine
from jumok.storage import checkpoint
like = {f"w{i}": torch.zeros(2_000, 1_000) for i in range(10)}
paths = [Path(path) for path in sys.argv[1:]]
rss = lambda: next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))
import threading, time
most, over = [rss()], threading.Event()
def watch():
    while not over.wait(0.002):
        most.append(rss())
before = rss()
threading.Thread(target=watch).start()
checkpoint.average_files(paths, like)
over.set()
print((max(most) - before) / 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_averaging_many_files_takes_the_memory_of_one_model(tmp_path):
    """Twelve models of 80 MB: one for the mean, and a few blocks of 4 MB."""
    torch.manual_seed(1)
    save_file({f"w{i}": torch.randn(2_000, 1_000) for i in range(10)}, tmp_path / "0")
    paths = [tmp_path / str(number) for number in range(12)]
    for path in paths[1:]:
        path.hardlink_to(paths[0])
    command = [sys.executable, "-c", AVERAGE, *map(str, paths)]
    taken = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert taken < 80 + 40, "models read at once would take 960 MB, and twice that in double"


# ------------------------------------------------------------------------------------------ whole or ignored


def spoil(folder: Path, how: str) -> str:
    """Damage a checkpoint; return the word that the complaint must hold."""
    model, manifest = folder / "model.safetensors", folder / "MANIFEST.json"
    content, listed = model.read_bytes(), json.loads(manifest.read_text())
    if how == "truncated":
        model.write_bytes(content[:-1])
    elif how == "zero length":
        model.write_bytes(b"")
    elif how == "bit flipped":
        model.write_bytes(content[:-5] + bytes([content[-5] ^ 1]) + content[-4:])
    elif how == "swapped":
        shutil.copy(folder / "optimizer.safetensors", model)
    elif how == "missing file":
        model.unlink()
    elif how == "symlink":
        model.rename(folder.parent / "elsewhere")
        model.symlink_to(folder.parent / "elsewhere")
    elif how == "folder for a file":
        model.unlink()
        model.mkdir()
    elif how in ("../x", "/etc/hostname", "a/b", "nul\0"):
        (folder.parent / "x").write_bytes(b"")
        manifest.write_text(json.dumps(listed | {how: {"size": 0, "sha256": ""}}))
        return repr(how)
    elif how == "file not listed":
        manifest.write_text(json.dumps({name: told for name, told in listed.items() if name != model.name}))
    else:
        bad = {"no manifest": None, "empty manifest": b"", "odd manifest": b'{"model.safetensors": 5}', "list": b"[]"}
        manifest.unlink()
        if bad[how] is not None:
            manifest.write_bytes(bad[how])
        return "MANIFEST.json"
    return "model.safetensors"


DAMAGES = [
    "truncated", "zero length", "bit flipped", "swapped", "missing file", "symlink", "folder for a file", "../x",
    "/etc/hostname", "a/b", "nul\0", "file not listed", "no manifest", "empty manifest", "odd manifest", "list",
]  # fmt: skip


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_checkpoint_is_refused_by_file_and_the_one_before_it_is_taken(run, how):
    save(run, 1), save(run, 2)
    named = spoil(run.checkpoints / "step-00000002", how)
    found, refused = run.newest()
    assert found is not None
    assert found.step == 1
    assert named in refused[0].what
    assert "step-00000002" in refused[0].where
    assert all(error.code == 65 for error in refused)


@pytest.mark.parametrize("how", DAMAGES[:7])
def test_a_damaged_bundle_is_refused(own_micro, how):
    shutil.copy(own_micro / "model" / "card.json", own_micro / "model" / "optimizer.safetensors")
    named = spoil(own_micro / "model", how)
    with pytest.raises(ModelFileError, match=re.escape(named)):
        checkpoint.load(own_micro)


def test_a_run_without_a_whole_checkpoint_says_why_of_each(run):
    assert run.newest() == (None, [])
    for step in (1, 2, 3):
        spoil(save(run, step), "truncated")
    found, refused = run.newest()
    assert found is None
    assert [error.where[-8:] for error in refused] == ["00000003", "00000002", "00000001"]


def test_pruning_keeps_the_newest_and_the_best(run):
    for step in (10, 20, 30, 40, 50):
        save(run, step, keep=2, best=20 if step >= 20 else 0)
    assert steps(run) == [20, 40, 50]


def test_of_the_checkpoints_that_are_kept_the_two_newest_can_be_resumed_and_the_others_have_their_weights(run):
    for step in (10, 20, 30, 40, 50):
        save(run, step, keep=4, best=10)
    files = {int(path.name[5:]): sorted(one.name for one in path.iterdir()) for path in run.steps()}
    full = ["MANIFEST.json", "model.safetensors", "optimizer.safetensors", "state.json"]
    thin = [name for name in full if name != "optimizer.safetensors"]
    assert files == {10: thin, 20: thin, 30: thin, 40: full, 50: full}
    assert [one.step for one in run.last(9)] == [50, 40, 30, 20, 10], "all of them verify"
    assert [one.step for one in run.last(9, full=True)] == [50, 40]
    spoil(run.checkpoints / "step-00000050", "truncated")
    assert run.newest()[0].step == 40
    spoil(run.checkpoints / "step-00000040", "truncated")
    found, refused = run.newest()
    assert found is None
    assert "weights only" in refused[2].what


def test_checkpoints_between_validations_never_cost_one_that_is_averaged(run):
    for step in (10, 20, 30):
        save(run, step, keep=3)
        for more in (1, 2, 3):
            save(run, step + more, keep=3, passing=True)
    assert steps(run) == [10, 20, 30, 33]
    assert [one.step for one in run.last(3, due=True)] == [30, 20, 10]
    assert [one.step for one in run.last(9, full=True)] == [33, 30]


@pytest.mark.parametrize("moment", ["before the manifest", "after the manifest", "after the first file"])
def test_a_folder_that_loses_files_is_whole_at_every_instant(run, monkeypatch, moment):
    folder = save(run, 1)
    (folder / "mean.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    relist(folder)
    written, unlink, gone = bundle.write_file, Path.unlink, []

    def write(path, content):
        if moment == "before the manifest":
            raise InterruptedError
        written(path, content)

    def remove(self, missing_ok=False):
        if moment == "after the manifest" or gone:
            raise InterruptedError
        gone.append(self)
        unlink(self, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(bundle, "write_file", write)
        patch.setattr(Path, "unlink", remove)
        with pytest.raises(InterruptedError):
            bundle.drop(folder, checkpoint.TRAINING)
    verify(folder)
    assert RunFolder.read(folder, full=False).step == 1
    bundle.drop(folder, checkpoint.TRAINING)
    assert sorted(path.name for path in folder.iterdir()) == ["MANIFEST.json", "model.safetensors", "state.json"]
    verify(folder)


def test_steps_beyond_eight_digits_come_last_and_strangers_are_no_checkpoints(run):
    save(run, 99_999_999), save(run, 100_000_000)
    (run.checkpoints / "step-abcdefgh").mkdir()
    (run.checkpoints / "step-00000007.partial").mkdir()
    assert steps(run) == [99_999_999, 100_000_000]


def test_a_checkpoint_written_again_replaces_the_old_one(run):
    save(run, 1)
    (run.checkpoints / "step-00000001" / "stray").write_text("from before")
    folder = save(run, 1)
    verify(folder)
    assert not (folder / "stray").exists()
    assert [path.name for path in run.checkpoints.iterdir()] == ["step-00000001"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("victim", ["sync", "write_file", "save_file"])
@pytest.mark.parametrize("step", [1, 2], ids=["the same step", "another step"])
def test_a_full_disk_never_costs_a_checkpoint_that_was_there(run, monkeypatch, code, victim, step):
    kept = save(run, 1)

    def fail(*_):
        raise OSError(code, "the disk says no")

    with monkeypatch.context() as patch:
        for module in (bundle, checkpoint):
            patch.setattr(module, victim, fail, raising=False)
        with pytest.raises(DiskError, match="the disk says no") as caught:
            save(run, step, keep=1)
    assert caught.value.code == 74
    verify(kept)
    assert [path.name for path in run.checkpoints.iterdir()] == ["step-00000001"]


def test_a_rename_that_fails_leaves_the_old_folder_in_its_place(run, monkeypatch):
    kept = save(run, 1)
    rename = Path.rename

    def fail(self, target):
        if self.name.endswith(".partial"):
            raise OSError(errno.EIO, "input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(DiskError):
        save(run, 1)
    verify(kept)


# ------------------------------------------------------------------------------------------ what does not fit


class Unread:
    """A safetensors file whose tensors must not be read."""

    def __init__(self, path: str, framework: str) -> None:
        self.file = checkpoint_open(path, framework=framework)

    def __enter__(self):
        self.inner = self.file.__enter__()
        return self

    def __exit__(self, *problem):
        return self.file.__exit__(*problem)

    def keys(self):
        return self.inner.keys()

    def get_slice(self, name):
        return self.inner.get_slice(name)

    def get_tensor(self, name):
        raise AssertionError(f"{name} was read before it was compared")


checkpoint_open = checkpoint.safe_open


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"extra": torch.zeros(2)}, "it has no tensor 'extra'"),
        ({"a": None}, "'a' is missing"),
        ({"a": torch.zeros(4, 3)}, "a is (4, 3)"),
        ({"a": torch.zeros(3, 4, dtype=torch.float64)}, "float64"),
        ({"a": torch.zeros(3, 4, dtype=torch.int8)}, "I8"),
    ],
)
def test_weights_that_do_not_fit_are_refused_before_a_byte_of_them_is_read(tmp_path, monkeypatch, change, words):
    stored = {name: tensor for name, tensor in (tensors() | change).items() if tensor is not None}
    save_file(stored, tmp_path / "w.safetensors")
    monkeypatch.setattr(checkpoint, "safe_open", Unread)
    with pytest.raises(ModelFileError, match=re.escape(words)) as caught:
        read_tensors(tmp_path / "w.safetensors", tensors())
    assert "w.safetensors" in caught.value.where


def test_a_recipe_that_implies_a_giant_is_refused_before_the_giant_is_made(own_micro, monkeypatch):
    folder = own_micro / "model"
    giant = presets.get(str(folder / "recipe.toml")).change({"model.d_model": 65_536, "model.encoder_layers": 256})
    (folder / "recipe.toml").write_text(giant.to_toml())
    relist(folder)
    real = nn.Parameter.__new__

    def bounded(cls, data=None, requires_grad=True):
        assert data.device.type == "meta" or data.numel() < 10**6, "the giant was made"
        return real(cls, data, requires_grad)

    monkeypatch.setattr(nn.Parameter, "__new__", bounded)
    with pytest.raises(ModelFileError, match="do not fit the recipe"):
        checkpoint.load(own_micro)


def test_a_vocabulary_of_another_model_is_refused(own_micro):
    folder = own_micro / "model"
    other = Vocabulary.train(["another text with other letters xyz"] * 3, size=285, kind="bpe")
    (folder / "vocabulary.model").write_bytes(other.model)
    relist(folder)
    with pytest.raises(ModelFileError, match="vocabulary is not the one"):
        checkpoint.load(own_micro)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("recipe.toml", b"[training]\nstpes = 1\n"),
        ("recipe.toml", b"\xff"),
        ("card.json", b"{"),
        ("card.json", b"[" * 100_000),
        ("card.json", b"[]"),
        ("vocabulary.model", b"junk"),
        ("model.safetensors", b"\xff" * 100),
    ],
)
def test_any_bad_file_of_a_bundle_is_a_bad_model_file_even_with_a_manifest_that_fits(own_micro, name, content):
    (own_micro / "model" / name).write_bytes(content)
    relist(own_micro / "model")
    with pytest.raises(ModelFileError):
        checkpoint.load(own_micro)


def test_nothing_in_the_sources_can_run_code_from_a_file_or_split_lines_where_d1_forbids():
    forbidden = re.compile(r"torch\.load|pickle|\beval\(|\bexec\(|splitlines\(\)|shell=True|yaml\.load|os\.system")
    found = [
        f"{path.relative_to(SOURCES)}:{number}: {line.strip()}"
        for path in sorted(SOURCES.rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1)
        if forbidden.search(re.sub(r'".*?"|`.*?`|\.eval\(\)', "", line))
    ]
    assert found == []


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_whoever_may_read_one_file_of_a_folder_may_read_all(tmp_path, mask):
    before = os.umask(mask)
    try:
        write_whole(tmp_path / "a", {"model.safetensors": {"x": torch.zeros(3)}}, {"card.json": b"{}"})
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "a").iterdir()} == {0o666 & ~mask}
