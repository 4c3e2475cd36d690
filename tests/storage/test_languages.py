"""A model knows its languages: from options, names of files or `set-languages`; older models still load and resume."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

import jumok as package
from jumok.config import presets
from jumok.config.recipe import read_recipe
from jumok.config.sections import DataConfig
from jumok.data.languages import find_languages
from jumok.errors import DiskError, ModelFileError, UsageError
from jumok.runs.experiment import train
from jumok.storage import bundle, checkpoint
from jumok.storage.labels import set_languages
from jumok.storage.languages import guess_languages
from tests.conftest import MICRO
from tests.storage.test_checkpoint import relist

GOLDEN = Path(__file__).parent.parent / "golden" / "0.1"
PLAIN = {key: value for key, value in MICRO.items() if not key.startswith("data.corpus")}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """Two parallel files, train.en and train.de."""
    folder = tmp_path_factory.mktemp("texts")
    words = [f"{a} {b} {c}" for a in "abcdefg" for b in "hijklmn" for c in "opqrstu"]
    for language in ("en", "de"):
        (folder / f"train.{language}").write_text("\n".join(words) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def trained(files, tmp_path_factory) -> Path:
    recipe = presets.tiny().change(PLAIN | {"vocabulary.size": 300, "vocabulary.at_most": True})
    out = tmp_path_factory.mktemp("runs") / "named"
    return train(files / "train.en", files / "train.de", recipe=recipe, out=out).folder


def card_of(run: Path) -> dict[str, object]:
    values = json.loads((run / "model" / "card.json").read_bytes())
    assert isinstance(values, dict)
    return values


# ------------------------------------------------------------------------------------------ training


def test_a_run_takes_its_languages_from_the_names_of_its_files(trained):
    assert bundle.read(trained).languages == ("en", "de")
    assert card_of(trained)["languages"] == ["en", "de"]
    for folder in (trained, trained / "model"):
        assert read_recipe(folder / "recipe.toml").languages.pair == ("en", "de")


def test_options_win_over_names_and_are_written_in_canonical_form(files, tmp_path):
    recipe = presets.tiny().change(PLAIN | {"vocabulary.size": 300, "vocabulary.at_most": True, "training.steps": 2})
    out = tmp_path / "run"
    train(
        files / "train.en", files / "train.de", recipe=recipe, out=out, source_language="eng", target_language="zh_tw"
    )
    assert bundle.read(out).languages == ("en", "zh-TW")


def test_a_wrong_tag_is_refused_before_anything_is_trained(jumok, files, tmp_path):
    answer = jumok(
        "train", "--source", files / "train.en", "--target", files / "train.de", "--out", tmp_path / "run",
        "--source-language", "English", "--steps", 1,
    )  # fmt: skip
    assert (answer.code, answer.complaint[-1]) == (2, "try: en for English")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("section", "pair"),
    [
        ({"corpus": "phrasebook"}, ("en", "ko")),
        ({"corpus": "copy"}, None),
        ({"table": "a.parquet", "columns": "en, de"}, ("en", "de")),
        ({"table": "a.tsv", "columns": "en"}, None),
        ({"corpora": [{"source": "a.en", "target": "a.de"}, {"table": "b.en-de.tsv"}]}, ("en", "de")),
        ({"corpora": [{"source": "a.en", "target": "a.de"}, {"source": "b.de", "target": "b.en"}]}, None),
        ({"corpora": [{"source": "a.en", "target": "a.de"}, {"source": "b.1", "target": "b.2"}]}, None),
        ({"text": "book.en"}, None),
    ],
)
def test_the_data_section_of_a_recipe_says_languages_by_names_alone(section, pair):
    assert guess_languages(DataConfig.model_validate(section)) == pair


def test_the_first_row_of_a_table_says_its_languages_and_a_pipe_is_not_read(tmp_path):
    table, pipe = tmp_path / "table.jsonl", tmp_path / "pipe.jsonl"
    table.write_text('{"translation": {"ko": "나", "en": "I"}}\n', encoding="utf-8")
    os.mkfifo(pipe)
    assert find_languages(DataConfig(table=str(table))) == ("ko", "en")
    assert find_languages(DataConfig(table=str(pipe))) is None
    table.write_text('{"source": "나", "target": "I"}\n', encoding="utf-8")
    assert find_languages(DataConfig(table=str(table))) is None


# ------------------------------------------------------------------------------------------ set-languages


def test_set_languages_changes_card_and_recipes_and_nothing_else(jumok, own_micro):
    before = {path.name: path.read_bytes() for path in (own_micro / "model").iterdir()}
    assert bundle.read(own_micro).languages is None
    assert re.search("^languages +unknown$", jumok("model", "info", own_micro).out, re.M)
    answer = jumok("model", "set-languages", own_micro, "EN", "zh_Hans")
    assert (answer.code, answer.out.split()) == (0, [str(own_micro), str(own_micro / "model")])
    assert bundle.read(own_micro).languages == ("en", "zh-Hans")
    assert read_recipe(own_micro / "recipe.toml").languages.pair == ("en", "zh-Hans")
    after = {path.name: path.read_bytes() for path in (own_micro / "model").iterdir()}
    assert {name for name in before if before[name] != after[name]} == {"card.json", "recipe.toml", "MANIFEST.json"}
    assert re.search("^languages +en → zh-Hans$", jumok("model", "info", own_micro).out, re.M)
    assert json.loads(jumok("model", "info", own_micro, "--json").out)["languages"] == ["en", "zh-Hans"]


def test_a_run_that_is_resumed_keeps_languages_that_were_set(own_micro):
    set_languages(own_micro, "ko", "en")
    recipe = presets.tiny().change(MICRO | {"training.steps": 8})
    train(recipe=recipe, out=own_micro)
    assert card_of(own_micro)["steps"] == 8
    assert bundle.read(own_micro).languages == ("ko", "en")


def test_languages_are_set_before_a_run_has_a_model_and_after_it_was_copied(own_micro, tmp_path):
    alone = Path(shutil.copytree(own_micro / "model", tmp_path / "alone"))
    assert set_languages(alone, "en", "ko") == [alone]
    assert bundle.read(alone).languages == ("en", "ko")
    shutil.rmtree(own_micro / "model")
    assert set_languages(own_micro, "en", "de") == [own_micro]
    assert read_recipe(own_micro / "recipe.toml").languages.pair == ("en", "de")


def test_a_full_disk_leaves_the_model_as_it_was(own_micro, monkeypatch):
    real = bundle.write_file

    def fail(path: Path, content: bytes) -> None:
        if path.name == "MANIFEST.json":
            raise OSError(28, "No space left on device")
        real(path, content)

    monkeypatch.setattr(bundle, "write_file", fail)
    with pytest.raises(DiskError):
        set_languages(own_micro, "en", "de")
    monkeypatch.undo()
    assert bundle.read(own_micro).languages is None
    assert [path.name for path in own_micro.glob("model*")] == ["model"]


def test_a_folder_without_a_run_is_refused_and_stays_as_it_is(tmp_path):
    with pytest.raises(ModelFileError):
        set_languages(tmp_path, "en", "de")
    assert not any(tmp_path.iterdir())
    with pytest.raises(UsageError):
        set_languages(tmp_path, "en", "deutsch")


# ------------------------------------------------------------------------------------------ files of strangers, of old


@pytest.mark.parametrize(
    "given", ["en", ["en"], ["en", "de", "fr"], ["en", 1], ["EN", "de"], ["en", "x" * 99], {"a": 1}]
)
def test_a_card_with_bad_languages_is_refused(own_micro, given):
    model = own_micro / "model"
    (model / "card.json").write_text(json.dumps(card_of(own_micro) | {"languages": given}))
    relist(model)
    with pytest.raises(ModelFileError, match="BCP 47"):
        bundle.read(own_micro)


@pytest.mark.parametrize(
    "given", ['source = "EN"', 'source = "en us"', 'other = "en"', "source = 1", 'target = "' + "a" * 99 + '"']
)
def test_a_recipe_with_bad_languages_is_refused(own_micro, given):
    path = own_micro / "model" / "recipe.toml"
    path.write_text(f"{path.read_text()}\n[languages]\n{given}\n")
    relist(own_micro / "model")
    with pytest.raises(ModelFileError):
        bundle.read(own_micro)


def test_models_of_earlier_versions_load_and_say_their_languages_by_names(tmp_path):
    for folder in sorted(path for path in GOLDEN.iterdir() if (path / "MANIFEST.json").is_file()):
        assert "languages" not in (folder / "recipe.toml").read_text()
        saved = bundle.read(folder)
        assert saved.languages == guess_languages(saved.recipe.data)


def test_languages_that_were_asked_for_stay_when_the_model_is_read(trained):
    saved = bundle.read(trained)
    assert saved.languages == ("en", "de")
    assert checkpoint.with_model(saved).languages == ("en", "de")


def test_a_recipe_without_languages_is_written_as_by_earlier_versions():
    assert "languages" not in presets.tiny().to_toml()


def test_a_student_speaks_the_languages_of_its_teacher(own_micro, tmp_path):
    from jumok.distillation import Student, distill

    set_languages(own_micro, "en", "de")
    changes = {"training.steps": 2, "training.peak": None}
    run = distill(own_micro, Student(1, 1, None, changes), out=tmp_path / "student")
    assert bundle.read(run.folder).languages == ("en", "de")


def test_the_translator_says_its_languages(trained):
    assert package.load(trained).languages == ("en", "de")
