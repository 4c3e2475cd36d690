"""Files of a forger whose manifest fits: they load and work, or are refused; no crash, no code, no more memory."""

import json
import os
import random
import shutil
import struct
import subprocess
import sys
import time
from math import isfinite
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file

from jumok.config import presets
from jumok.config.recipe import Recipe
from jumok.data.store import Store
from jumok.errors import JumokError, ModelFileError, UsageError
from jumok.interop.ctranslate2 import export_bundle
from jumok.kernels import searching
from jumok.models import build
from jumok.runs import finished
from jumok.storage import bundle, checkpoint
from jumok.storage.checkpoint import RunFolder
from jumok.text import protobuf
from jumok.text.vocabulary import Vocabulary
from jumok.translator import Translator
from tests.support.helpers import VARIANTS, small
from tests.support.hostile import end_of_pieces, garble, inside, piece, relist, vocabulary_like

ROOT = Path(__file__).parents[2]
SEED = 1
LIMIT = 5.0  # seconds for one try


def forge(mode: str, kind: str, count: int, run: Path, folder: Path) -> dict[str, Any]:
    """What a process of its own tells of so many mutations; one that dies says at which."""
    command = [
        sys.executable,
        "-m",
        "tests.support.hostile",
        mode,
        kind,
        str(SEED),
        "0",
        str(count),
        str(run),
        str(folder),
    ]
    folder.mkdir()
    seconds = 120 + count
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=seconds, check=False)
    last = (done.stdout.strip() or "nothing").split("\n")[-1]
    assert done.returncode == 0, f"seed {SEED}, at {last}: exit {done.returncode}\n{done.stderr[-2_000:]}"
    told: dict[str, Any] = json.loads(last)
    return told


# ------------------------------------------------------------------------------------------ by the thousand


@pytest.mark.parametrize(
    ("kind", "what", "quick", "long"),
    [
        ("model files", "forged weights, vocabularies and shortlists", 300, 20_000),
        ("told files", "forged recipes, cards, manifests and states", 300, 20_000),
        ("other files", "forged checkpoints and token stores", 60, 4_000),
    ],
    ids=["model files", "told files", "other files"],
)
def test_forged_files_load_and_work_or_are_refused(micro, tmp_path, tries, kept, kind, what, quick, long):
    told = forge("read", kind, tries(quick, long), micro, tmp_path / "forged")
    assert told["strange"] == [], f"seed {SEED}"
    slowest, number = told["slowest"]
    assert slowest < LIMIT, f"seed {SEED}, number {number} took {slowest:.1f} s"
    assert set(told["came"]) == {"loaded", "ModelFileError"}
    refused = told["came"]["ModelFileError"]
    kept("M1", what, figures=f"0 crashes, {refused:,} refused, the others work, slowest {slowest:.2f} s")


@pytest.mark.parametrize("kind", ["model files", "told files", "other files"])
def test_loading_runs_no_code_and_opens_nothing_but_files_of_the_folder(micro, tmp_path, tries, kept, kind):
    told = forge("watch", kind, tries(60, 2_000), micro, tmp_path / "forged")
    assert told["seen"] == {}, f"seed {SEED}"
    assert told["opened"] > 100  # the hook sees
    assert told["came"]["loaded"] > 0
    figures = "no import, no code, no process, no connection, nothing written, nothing read outside"
    kept("M1", f"what Python did with {kind} of a forger, by its audit hooks", figures=figures)


def test_what_reads_outside_a_folder_is_noticed(tmp_path):
    (tmp_path / "link").symlink_to("/etc/hostname")
    assert inside(str(tmp_path / "a"), tmp_path)
    assert not inside(str(tmp_path / "link"), tmp_path)
    assert not inside(f"{tmp_path}/../a", tmp_path)
    assert not inside(3, tmp_path)


# ------------------------------------------------------------------------------------------ giants


GIANTS: list[dict[str, Any]] = [
    {"model.d_model": 65_536},
    {"model.d_ff": 65_536},
    {"model.encoder_layers": 256, "model.decoder_layers": 256},
    {"model.heads": 1_024, "model.d_k": 65_536, "model.d_v": 65_536},
    {"model.positions": "learned", "model.longest": 65_536},
    {"model.d_model": 65_536, "model.positions": "appended", "model.join": "concatenate"},
]


def with_recipe(folder: Path, changes: dict[str, Any]) -> Recipe:
    """Give a bundle another recipe, and a manifest that fits."""
    recipe = bundle.saved_recipe(folder).change(changes)
    (folder / "recipe.toml").write_text(recipe.to_toml())
    relist(folder)
    return recipe


@pytest.mark.parametrize("changes", GIANTS, ids=str)
def test_a_recipe_of_a_giant_is_refused_at_once_whoever_reads_it(own_micro, tmp_path, changes):
    with_recipe(own_micro / "model", changes)
    began = time.perf_counter()
    for use in (
        lambda: Translator.load(own_micro, engine="native").translate("a"),
        lambda: Translator.load(own_micro, engine="torch").translate("a"),
        lambda: export_bundle(bundle.read(own_micro), tmp_path / "exported"),
    ):
        with pytest.raises(ModelFileError, match="do not fit the recipe"):
            use()
    assert time.perf_counter() - began < 1.0


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_size_that_a_recipe_implies_is_no_less_than_the_model_s_and_not_twice_as_much(variant):
    for tied in ("all", "target", "none"):
        config = small(variant, tied=tied)
        model = build(config, 300, 400 if tied != "all" else 300)
        real = sum(tensor.numel() for tensor in checkpoint.weights(model).values())
        assert real <= config.parameters(300, 400 if tied != "all" else 300) < 2 * real


def test_weights_larger_than_the_recipe_implies_are_not_read_at_all(own_micro, monkeypatch):
    path = own_micro / "model" / "model.safetensors"
    size = 1 << 40  # a hole in the file: it takes no room
    os.truncate(path, size)
    manifest = own_micro / "model" / "MANIFEST.json"
    listed = json.loads(manifest.read_text())
    listed[path.name]["size"] = size
    manifest.write_text(json.dumps(listed))
    real = bundle._sha256
    monkeypatch.setattr(bundle, "_sha256", lambda one: pytest.fail("it was read") if one == path else real(one))
    with pytest.raises(ModelFileError, match=r"model\.safetensors is larger"):
        bundle.read(own_micro)


@pytest.mark.parametrize("name", ["model.safetensors", "shortlist.safetensors"])
def test_a_list_of_tensors_without_end_is_refused_before_it_is_read(own_micro, name):
    path = own_micro / "model" / name
    path.write_bytes(struct.pack("<Q", 50_000_000) + path.read_bytes()[8:])
    relist(own_micro / "model")
    with pytest.raises(ModelFileError, match="list of tensors of 50,000,000 bytes"):
        Translator.load(own_micro, engine="native", shortlist=True).translate("a")


def test_an_optimizer_state_larger_than_its_model_s_is_not_read(own_micro):
    newest = RunFolder(own_micro).steps()[-1]
    with open(newest / "optimizer.safetensors", "ab") as file:
        file.truncate(10_000_000)
    relist(newest)
    found, _ = RunFolder(own_micro).newest()
    assert found is not None
    with pytest.raises(ModelFileError, match="larger than any that fits"):
        found.tensors("optimizer.safetensors")


def test_a_search_that_would_take_all_memory_is_refused(micro, monkeypatch):
    monkeypatch.setattr("jumok.machine.available_memory", lambda: 4 << 20)
    monkeypatch.setattr(searching, "SMALL", 0)
    for engine in ("native", "torch"):
        with pytest.raises(UsageError, match=r"a beam of 1000 over [0-9,]+ subwords needs"):
            Translator.load(micro, engine=engine).translate("a", beam=1_000, extra_length=100)


def test_a_recipe_whose_search_would_take_hours_is_refused():
    with pytest.raises(UsageError, match="extra_length=50"):
        presets.tiny().change({"decoding.beam": 1_000, "decoding.extra_length": 10_000})


WIDE = """
import sys
from jumok.config.search import SearchOptions
from jumok.translator import Translator

translator = Translator.load(sys.argv[1], engine="native")
symbols = translator.bundle.sizes[1]
options = SearchOptions(beam=2 * symbols, n_best=2 * symbols, extra_length=1)
found = {token for one in translator.fast.decode([[]] * 3, options) for hypothesis in one for token in hypothesis.ids}
sys.exit(not found <= set(range(symbols)))
"""


def test_a_beam_wider_than_the_vocabulary_finds_only_its_symbols(own_micro):
    """Among weights without end every candidate looks alike: none may be one that is not there.

    New memory is not zero in that process, so that what nobody wrote is no symbol.
    """
    path = own_micro / "model" / "model.safetensors"
    save_file({name: array * 0 + float("inf") for name, array in load_file(path).items()}, path)
    relist(own_micro / "model")
    environment = os.environ | {"MALLOC_PERTURB_": "85"}
    assert subprocess.run([sys.executable, "-c", WIDE, str(own_micro)], env=environment, check=False).returncode == 0


# ------------------------------------------------------------------------------------------ weights that are no numbers


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -3e38])
@pytest.mark.parametrize("engine", ["native", "torch"])
@pytest.mark.parametrize("beam", [1, 5, 300])
def test_weights_that_give_no_probabilities_are_a_bad_model_file(own_micro, value, engine, beam):
    path = own_micro / "model" / "model.safetensors"
    save_file({name: array * 0 + value for name, array in load_file(path).items()}, path)
    relist(own_micro / "model")
    translator = Translator.load(own_micro, engine=engine)
    for details in (True, False):
        with pytest.raises(ModelFileError, match="no probabilities"):
            translator.translate("hello", beam=beam, details=details)


# ------------------------------------------------------------------------------------------ vocabularies


@pytest.fixture(scope="module")
def learnt() -> bytes:
    return Vocabulary.train(["a man rides a bike", "two dogs run", "가나다 라마바"] * 9, size=287).model


def test_every_vocabulary_that_we_learn_is_one_that_we_read():
    texts = ["a man rides a bike", "two dogs run on a beach", "가나다 라마바 😀 \x01"] * 9
    for kind in ("unigram", "bpe"):
        protobuf.check(Vocabulary.train(texts, size=290, kind=kind).model)


def in_place(learnt: bytes, more: bytes) -> bytes:
    """A vocabulary with further pieces behind its own."""
    at = end_of_pieces(learnt)
    return learnt[:at] + more + learnt[at:]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (piece(b"x" * 200, -1.0), "corrupt"),
        (piece(b"x\xff", -1.0), "corrupt"),
        (piece(b"", -1.0), "does not write"),
        (piece(b"a b", -1.0), "with a space"),
        (piece(b"new", -1.0) * 2, "a piece twice"),
        (piece(b"a\nb", -1.0), "with a space"),
        (piece(b"\0", -1.0), "with a space"),
        (piece(b"new", float("nan")), "a score"),
        (piece(b"new", float("-inf")), "a score"),
        (piece(b"new", 1e30), "a score"),
        (piece(b"new", -1.0, 4), "does not write"),
        (b"\x0a\xff\xff\xff\xff\x7f", "corrupt"),
    ],
)
def test_a_piece_that_our_training_would_not_make_is_refused(learnt, more, words):
    protobuf.check(in_place(learnt, piece(b"new", -1.0)))
    with pytest.raises(ModelFileError, match=words):
        Vocabulary(in_place(learnt, more))


@pytest.mark.parametrize(
    ("tail", "words"),
    [
        (b"\x1a\x10\x0a\x08identity\x12\x04\x00\x04\x00\x00", "changes text"),
        (b"\x1a\x0a\x0a\x08nmt_nfkc", "changes text"),
        (b"", "does not consist of pieces"),
        (b"\x1a\x0a\x0a\x08identity\x22\x00", "does not consist of pieces"),
        (b"\x1a\x0a\x0a\x08ident", "corrupt"),
        (b"\x1a" + b"\xff" * 9, "too large"),
        (b"\x1b", "a type that"),
    ],
)
def test_what_a_vocabulary_says_behind_its_pieces_is_closed(learnt, tail, words):
    with pytest.raises(ModelFileError, match=words):
        Vocabulary(learnt[: learnt.rindex(b"\x1a")] + tail)


def test_no_mutation_of_a_vocabulary_gets_past_the_rule_and_says_other_symbols(learnt, tries, kept):
    """What passes is pieces and scores: eight specials, 256 bytes, text without spaces."""
    count = tries(3_000, 100_000)
    passed = 0
    for number in range(count):
        chance = random.Random(f"{SEED}:{number}")
        forged = (vocabulary_like if number % 2 else garble)(chance, learnt)
        try:
            protobuf.check(forged)
        except protobuf.BadPieces:
            continue
        found = Vocabulary(forged)
        said = found.pieces(range(len(found)))
        assert said[:4] == ["<pad>", "<unk>", "<s>", "</s>"], f"seed {SEED}, number {number}"
        assert all(one.split() == [one] for one in said), f"seed {SEED}, number {number}"
        assert all(0 <= one < len(found) for one in found.encode("a man 가")), f"seed {SEED}, number {number}"
        passed += 1
    assert 0 < passed < count
    kept("M1", "forged vocabularies before SentencePiece sees them", figures="no symbol but pieces gets past the rule")


def test_reading_a_vocabulary_by_rule_takes_no_time(learnt):
    """32,000 pieces in 30 ms of processor time, the best of five; half as much again of what SentencePiece takes."""
    more = b"".join(piece(f"x{number}".encode(), -number / 1e3) for number in range(32_000))
    large, times = in_place(learnt, more), []
    for _ in range(5):
        began = time.process_time()
        protobuf.check(large)
        times.append(time.process_time() - began)
    assert min(times) < 0.03


# ------------------------------------------------------------------------------------------ what is told


def test_what_a_file_says_is_shown_and_not_obeyed(own_micro):
    path = own_micro / "model" / "model.safetensors"
    header = json.dumps({"\x1b[2J\r" + "x" * 5_000: {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(60_000))
    relist(own_micro / "model")
    with pytest.raises(ModelFileError) as caught:
        checkpoint.load(own_micro)
    lines = str(caught.value).split("\n")
    assert all(line.isprintable() and len(line) <= 1_000 for line in lines)
    assert len(lines) <= 3


def test_what_a_card_says_is_shown_and_not_obeyed(own_micro, jumok):
    path = own_micro / "model" / "card.json"
    odd = {"ended_by": "\x1b[2J\x9b", "\x1b]0;": 1, "valid": {"\x07": {"\x1b": "\x1b"}, "\x1b": 5}}
    path.write_text(json.dumps(json.loads(path.read_text()) | odd))
    relist(path.parent)
    answer = jumok("model", "info", own_micro)
    assert answer.code == 0
    assert answer.out.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "change",
    [
        {"seconds": "long"}, {"tokens": None}, {"wall": float("nan")}, {"best": "x"}, {"best": float("inf")},
        {"epoch": 10**400}, {"course": {"horizons": 5}}, {"course": [1]}, {"course": {"horizon": "x"}}, {"pairs": True},
    ],
    ids=str,
)  # fmt: skip
def test_a_state_that_no_run_has_is_a_bad_model_file(own_micro, change):
    run = RunFolder(own_micro)
    path = run.steps()[-1] / "state.json"
    state = json.loads(path.read_text())
    state["progress"] |= change
    path.write_text(json.dumps(state))
    relist(path.parent)
    found, _ = run.newest()
    assert found is not None
    with pytest.raises(ModelFileError, match=r"state\.json"):
        finished.read_progress(found)


def test_the_progress_of_every_checkpoint_is_the_one_that_was_saved(micro):
    for folder in RunFolder(micro).steps():
        found = RunFolder.read(folder, full=False)
        assert finished.read_progress(found).to_json() == found.state["progress"]


@pytest.mark.parametrize(
    "change",
    [{"valid": []}, {"valid": {}}, {"weights": []}, {"weights": "x"}, {"valid_pairs": "x"}, {"ended_by": None}],
    ids=str,
)
def test_a_card_that_does_not_say_how_its_run_ended_is_that_of_no_finished_run(own_micro, change):
    assert finished.find_finished(RunFolder(own_micro)) is not None
    path = own_micro / "model" / "card.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    relist(path.parent)
    assert finished.find_finished(RunFolder(own_micro)) is None


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000, b"[]", b"{}", b'{"count": 1e400, "left_out": {}, "dtype": "uint16"}', b" " * 2_000_000, b"\xff",
        b'{"count": true, "left_out": {}, "dtype": "uint16"}', b'{"count": 387, "left_out": [], "dtype": "uint16"}',
        b'{"format": 2, "count": 387, "left_out": {}, "dtype": "uint16"}',
    ],
)  # fmt: skip
def test_a_token_store_that_says_odd_things_of_itself_is_refused(own_micro, content):
    folder = next((own_micro / "data").iterdir())
    (folder / "meta.json").write_bytes(content)
    with pytest.raises(ModelFileError, match="is broken"):
        Store(folder)


def test_a_token_store_whose_sentences_end_before_they_begin_is_refused(own_micro):
    folder = next((own_micro / "data").iterdir())
    begins = bytearray((folder / "source.begins").read_bytes())
    begins[8:16] = struct.pack("<Q", 2**40)
    (folder / "source.begins").write_bytes(begins)
    with pytest.raises(ModelFileError, match="ends before it begins"):
        Store(folder)


def test_a_recipe_key_of_many_parts_takes_no_time_and_no_memory(own_micro):
    """Python's TOML reader takes time and memory by the square of the parts: 3 GB for 40,000 bytes."""
    began = time.perf_counter()
    (own_micro / "model" / "recipe.toml").write_text("a" + ".a" * 20_000 + " = 1")
    relist(own_micro / "model")
    with pytest.raises(JumokError, match="dots"):
        bundle.read(own_micro)
    assert time.perf_counter() - began < 1.0


def test_a_good_model_still_translates_after_all_this(micro, tmp_path):
    shutil.copytree(micro / "model", tmp_path / "model")
    relist(tmp_path / "model", vocabulary=True)
    assert isfinite(Translator.load(tmp_path / "model", engine="native").translate("hello").score)
