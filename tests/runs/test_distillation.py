"""A student begins as its teacher, learns from what it says, and never sees what is held out."""

import json

import pytest
import torch

from jumok import distillation
from jumok.config import presets
from jumok.distillation import Lessons, Student, distill, find_ancestor, inherit, nearest, shape
from jumok.errors import Resumable, UsageError
from jumok.models import build
from jumok.runs.averaging import average_run
from jumok.storage import checkpoint
from jumok.translation import Translation
from jumok.translator import Translator
from tests.storage.test_locks import hold
from tests.support.helpers import SYMBOLS, small


def pair_of(variant, **changes):
    torch.manual_seed(0)
    teacher = build(small(variant), SYMBOLS, SYMBOLS).eval()
    student = build(small(variant, **changes), SYMBOLS, SYMBOLS).eval()
    inherit(student, teacher)
    return student, teacher


def hidden(model):
    source, target = torch.tensor([[9, 10, 11, 3]]), torch.tensor([[2, 12, 13]])
    with torch.no_grad():
        return model.hidden(source, target)


@pytest.mark.parametrize("layers", [2, 3, 5])
def test_a_student_with_a_deeper_encoder_begins_as_its_teacher(layers):
    student, teacher = pair_of("pre-norm", encoder_layers=layers)
    torch.testing.assert_close(hidden(student), hidden(teacher))
    assert len(student.encoder) == layers


def test_a_shorter_decoder_takes_layers_from_the_first_to_the_last():
    assert [find_ancestor(number, 2, 4, "decoder") for number in range(2)] == [0, 3]
    assert [find_ancestor(number, 3, 6, "decoder") for number in range(3)] == [0, 2, 5]
    assert find_ancestor(0, 1, 4, "decoder") == 3
    assert [find_ancestor(number, 6, 4, "encoder") for number in range(6)] == [0, 1, 2, 3, None, None]
    student, teacher = pair_of("pre-norm", decoder_layers=1)
    last = len(teacher.decoder) - 1
    torch.testing.assert_close(student.decoder[0].state_dict(), teacher.decoder[last].state_dict())


def test_a_student_of_another_width_begins_from_nothing():
    student, teacher = pair_of("pre-norm", d_model=24)
    assert student.matrix.shape != teacher.matrix.shape
    assert all(layer.attention.output.weight.abs().sum() > 0 for layer in student.encoder)


def test_a_student_has_half_as_many_encoder_layers_again():
    made = shape(presets.tiny(), None, 2)
    assert (made.model.encoder_layers, made.model.decoder_layers, made.name) == (6, 2, "tiny-student")
    assert made.training.peak == presets.tiny().training.peak / 2
    assert shape(presets.base(), None, 1).model.encoder_layers == 9
    assert shape(presets.base(), 12, 1).model.encoder_layers == 12


def test_the_lesson_is_the_translation_most_like_the_reference():
    several = Translation("x", "Ein Hund", 0, 0, alternatives=(Translation("x", "Eine Katze schläft.", 0, 0),))
    assert nearest(several, "Die Katze schläft.") == "Eine Katze schläft."
    assert nearest(several, "Ein Hund rennt.") == "Ein Hund"


@pytest.fixture(scope="module")
def student(micro, tmp_path_factory):
    out = tmp_path_factory.mktemp("students") / "student"
    return distill(micro, Student(changes={"training.steps": 8}), out=out).folder


def rows(path):
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def test_a_student_is_a_run_like_any_other(student, micro):
    loaded = checkpoint.load(student)
    teacher = checkpoint.load(micro)
    assert (loaded.recipe.model.encoder_layers, loaded.recipe.model.decoder_layers) == (2, 2)
    assert loaded.vocabularies.digest == teacher.vocabularies.digest
    assert Translator.load(student, engine="auto").translate("a b c").text


def test_lessons_hold_the_reference_and_what_the_teacher_says_and_nothing_that_validates(student, micro):
    lessons, valid = (rows(student / "data" / name) for name in ("lessons.jsonl", "valid.jsonl"))
    assert [row["target"] for row in lessons[::2]] == [row["source"] for row in lessons[::2]]  # the copy task
    assert [row["source"] for row in lessons[::2]] == [row["source"] for row in lessons[1::2]]
    exact = Translator.load(micro, engine="native")
    said = exact.translate([row["source"] for row in lessons[1:40:2]], beam=5, n_best=5)
    for row, several in zip(lessons[1:40:2], said, strict=True):
        assert row["target"] in [one.text for one in (several, *several.alternatives)]
    assert valid
    assert not {row["source"] for row in valid} & {row["source"] for row in lessons}


def test_a_teacher_that_is_interrupted_goes_on_where_it_was(student, micro, tmp_path):
    out, asked = tmp_path / "again", []

    def stop():
        asked.append(1)
        return len(asked) > 100

    with pytest.raises(Resumable, match="stopped while the teacher"):
        distill(micro, Student(changes={"training.steps": 8}), out=out, stop=stop)
    assert (out / "data" / "lessons.txt.part").read_text().count("\n") == 100
    again = distill(micro, Student(changes={"training.steps": 8}), out=out).folder
    assert (again / "data" / "lessons.jsonl").read_bytes() == (student / "data" / "lessons.jsonl").read_bytes()
    weights = [(folder / "model" / "model.safetensors").read_bytes() for folder in (again, student)]
    assert weights[0] == weights[1]


def test_finished_lessons_are_not_written_again(student, micro, monkeypatch):
    def refuse(*_):
        raise AssertionError("the teacher was asked again")

    monkeypatch.setattr(Lessons, "_chosen", refuse)
    before = (student / "data" / "lessons.jsonl").stat().st_mtime_ns
    teacher = checkpoint.load(micro)
    assert list(Lessons.of(teacher.recipe, teacher, student / "data").write(lambda: False)) == []
    assert (student / "data" / "lessons.jsonl").stat().st_mtime_ns == before


def test_a_student_lives_beside_its_teacher_unless_told(micro):
    for path in (micro, micro / "model"):
        assert distillation.student_of(path) == micro.with_name("micro-student")


def test_the_verb(jumok, micro, tmp_path):
    out = tmp_path / "s"
    answer = jumok("distill", micro, "--out", out, "--decoder-layers", 1, "--set", "training.steps=2")
    assert (answer.code, answer.out) == (0, f"{out}\n")
    assert checkpoint.load(out).recipe.model.decoder_layers == 1


def test_lessons_and_means_are_not_written_into_a_run_that_another_process_uses(own_micro, micro, monkeypatch):
    monkeypatch.setattr("jumok.disk.locks.WAIT", 0.0)
    digest = (own_micro / "model" / "MANIFEST.json").read_bytes()
    with hold(own_micro) as process:
        try:
            with pytest.raises(UsageError, match="in use"):
                average_run(own_micro, last=2)
            with pytest.raises(UsageError, match="in use"):
                distill(micro, Student(changes={"training.steps": 8}), out=own_micro)
        finally:
            process.kill()
    assert (own_micro / "model" / "MANIFEST.json").read_bytes() == digest
