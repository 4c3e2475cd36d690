"""A student begins as its teacher, learns from what it says, and never sees what is held out."""

import json
from dataclasses import replace

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
    told: list[str] = []
    Lessons.of(teacher.recipe, teacher, student / "data").write(lambda: False, lambda event, **_: told.append(event))
    assert told == []
    assert (student / "data" / "lessons.jsonl").stat().st_mtime_ns == before


def made_of(teacher, folder, *parts):
    """Lessons from texts, not from what the teacher's run has prepared."""
    corpora = []
    for number, lines in enumerate(parts):
        for side in ("en", "xx"):
            (folder / f"part{number}.{side}").write_text("".join(f"{line}\n" for line in lines))
        corpora.append({"source": str(folder / f"part{number}.en"), "target": str(folder / f"part{number}.xx")})
    changes = (
        {"data.corpora": corpora} if len(corpora) > 1 else {f"data.{key}": path for key, path in corpora[0].items()}
    )
    return Lessons.of(teacher.recipe.change({"data.corpus": None, **changes}), teacher, folder / "data")


LINES = [" ".join("abcdefgh"[(n * k) % 8] for k in range(1, 5)) + f" {chr(97 + n % 8)}" for n in range(40)]


def test_several_corpora_are_taught_one_after_the_other(micro, tmp_path):
    teacher = checkpoint.load(micro)
    lessons = made_of(teacher, tmp_path, LINES[:30], LINES[30:])
    lessons.write(lambda: False)
    taught = [row["source"] for row in rows(lessons.table)[::2]]
    held = [row["source"] for row in rows(lessons.held_out)]
    assert held
    assert sorted([*taught, *held]) == sorted(LINES)
    assert taught == [line for line in LINES if line not in held]


def test_a_text_is_walked_through_to_count_to_translate_and_to_write(micro, tmp_path):
    teacher = checkpoint.load(micro)
    lessons = made_of(teacher, tmp_path, LINES)
    walks: list[int] = []

    def read():
        walks.append(1)
        return iter(zip(LINES, LINES, strict=True))

    object.__setattr__(lessons, "train", replace(lessons.train, read=read))
    lessons.write(lambda: False)
    assert len(walks) == 2, "and once before, to count"
    assert len(rows(lessons.table)) == 2 * (len(LINES) - len(rows(lessons.held_out)))


def test_the_teacher_says_how_far_it_is_and_counts_what_it_did_before_apart(micro, tmp_path, monkeypatch):
    monkeypatch.setattr("jumok.data.prepare.stage.EVERY", 0.0)
    events: list[dict] = []
    with pytest.raises(Resumable):
        distill(micro, Student(changes={"training.steps": 2}), out=tmp_path / "s", sinks=[events.append],
                stop=lambda: len([one for one in events if one["event"] == "progress"]) > 50)  # fmt: skip
    told = [one for one in events if one.get("stage") == "lessons"]
    assert [one["count"] for one in told][:3] == [0, 0, 1]
    assert told[-1]["share"] == pytest.approx(told[-1]["count"] / 279, abs=0.05)
    assert told[-1]["left"] is not None
    events.clear()
    with pytest.raises(Resumable):
        distill(micro, Student(changes={"training.steps": 2}), out=tmp_path / "s", sinks=[events.append],
                stop=lambda: len([one for one in events if one["event"] == "progress"]) > 10)  # fmt: skip
    again = [one for one in events if one.get("stage") == "lessons"]
    assert again[1]["count"] == told[-1]["count"] or again[1]["count"] == told[-1]["count"] + 1
    assert not again[1]["rate"], "what an earlier attempt did is no speed"


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
