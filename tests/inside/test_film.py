"""A film of a sentence: every frame is what its snapshot says."""

import json
import shutil

import pytest

from jumok.errors import UsageError
from jumok.inside.film import LONGEST, play
from jumok.models import build
from jumok.storage import snapshots
from jumok.storage.bundle import saved_recipe, step_of
from jumok.text.vocabulary import Vocabularies
from jumok.translator import Translator

TEXT = "a b c"


def test_frames_are_those_of_the_snapshots_and_the_last_is_the_finished_model(micro):
    frames = list(play(micro, TEXT))
    steps = [step_of(folder) for folder in snapshots.find_folders(micro)]
    assert [frame.step for frame in frames] == [*steps, None]
    best = Translator.load(micro, engine="torch").translate(TEXT, beam=1)
    assert frames[-1].text == best.text
    for frame in frames:
        assert len(frame.attention) == len(frame.target)
        assert all(len(row) == len(frame.source) for row in frame.attention)
        assert all(sum(row) == pytest.approx(1, abs=0.01) for row in frame.attention)
        assert 0 < frame.probability <= 1


def test_a_frame_equals_a_model_with_the_weights_of_its_snapshot(micro):
    recipe, vocabularies = saved_recipe(micro), Vocabularies.load(micro)
    model = build(recipe.model, len(vocabularies.source), len(vocabularies.target)).eval()
    snapshots.restore(snapshots.find_folders(micro)[2], model)
    translator = Translator.load(micro, engine="torch")
    snapshots.restore(snapshots.find_folders(micro)[2], translator.model)
    frame = list(play(micro, TEXT))[2]
    score = translator.score([TEXT], [frame.text])[0]
    assert score.log_probability / (len(score.tokens) + (score.tokens[-1:] != ("</s>",))) <= 0
    maps = translator.engine.align([(vocabularies.source.encode(TEXT), vocabularies.target.encode(frame.text))])[0]
    assert maps[0].tolist() == pytest.approx(list(frame.attention[0]), abs=1e-3)


def test_runs_without_snapshots_and_long_sentences_are_refused(own_micro):
    for text in ("", "a " * (LONGEST + 1)):
        with pytest.raises(UsageError):
            list(play(own_micro, text))
    shutil.rmtree(own_micro / "snapshots")
    with pytest.raises(UsageError):
        list(play(own_micro, TEXT))


def test_a_damaged_snapshot_is_left_out(own_micro):
    folder = snapshots.find_folders(own_micro)[1]
    (folder / "model.safetensors").write_bytes(b"no")
    assert step_of(folder) not in [frame.step for frame in play(own_micro, TEXT)]


def test_the_verbs_print_text_or_json(jumok, micro):
    lines = jumok("film", micro, TEXT).out.split("\n")
    assert lines[0].split()[0] == "1"
    assert lines[-2].split()[0] == "finished"
    frames = [
        json.loads(line) for line in jumok("film", micro, "-", "--json", stdin=b"a b c\n").out.split("\n") if line
    ]
    assert frames[0]["step"] == 1
    assert jumok("film", micro / "model", TEXT).code == 2
    rows = [json.loads(line) for line in jumok("errors", micro, "--json", "--most", "3").out.split("\n") if line]
    assert [row["chrf"] for row in rows] == sorted(row["chrf"] for row in rows)
    assert len(rows) == 3
    assert "chrF" in jumok("errors", micro, "--by", "sure", "--most", "1").out
    assert jumok("errors", micro, "--by", "worst").code == 2
    assert jumok("errors", micro / "model").code == 2
