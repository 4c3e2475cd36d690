"""A recipe is one frozen, closed and bounded value; whoever gets it wrong learns which key and what to do."""

import os
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from jumok.config import presets
from jumok.config.recipe import Recipe, parse_assignment, read_recipe, validate
from jumok.config.sections import Section
from jumok.errors import DataError, UsageError


def sections(kind: type[BaseModel] = Recipe) -> list[type[BaseModel]]:
    """Recipe and the type of everything in it that has keys of its own."""
    inner = [field.annotation for field in kind.model_fields.values()]
    return [kind, *(part for part in inner if isinstance(part, type) and issubclass(part, Section))]


def leaves() -> dict[str, object]:
    """Every dotted key of a recipe with its default."""

    def walk(values: dict[str, object], before: str) -> dict[str, object]:
        found: dict[str, object] = {}
        for name, value in values.items():
            found |= walk(value, f"{before}{name}.") if isinstance(value, dict) else {f"{before}{name}": value}
        return found

    return walk(Recipe().model_dump(), "")


@pytest.mark.parametrize("name", presets.names())
def test_every_shipped_recipe_is_the_same_after_a_trip_through_toml(name):
    recipe = presets.get(name)
    assert recipe.name == name
    assert validate(tomllib.loads(recipe.to_toml())) == recipe


@pytest.mark.parametrize("section", sections(), ids=lambda kind: kind.__name__)
def test_a_recipe_cannot_be_changed_after_it_is_made(section):
    made = section()
    for field in section.model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(made, field, getattr(made, field))


@pytest.mark.parametrize("section", sections(), ids=lambda kind: kind.__name__)
def test_a_section_knows_only_its_own_keys(section):
    with pytest.raises(ValidationError, match="Extra inputs"):
        section(**{"no_such_key": 1})


@pytest.mark.parametrize("key", [key for key, value in leaves().items() if type(value) in (int, float)])
@pytest.mark.parametrize("value", [1e300, -1e300, float("nan"), float("inf"), True, "many", [], {}])
def test_every_number_is_bounded_and_nothing_else_passes_for_one(key, value):
    with pytest.raises(UsageError) as caught:
        Recipe().change({key: value})
    assert key in str(caught.value)
    assert len(str(caught.value).split("\n")) <= 3


def test_change_sets_dotted_keys_and_leaves_the_rest_and_the_original_alone():
    before = presets.tiny()
    after = before.change({"training.steps": 7, "model.dropout": "0.3", "name": "mine"})
    assert (after.training.steps, after.model.dropout, after.name) == (7, 0.3, "mine")
    assert before == presets.tiny()
    undone = {"training.steps": before.training.steps, "model.dropout": before.model.dropout, "name": "tiny"}
    assert after.change(undone) == before


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("training.steps=500", "training.steps", 500),
        ("training.steps = 1_000", "training.steps", 1000),
        ("model.dropout=0.3", "model.dropout", 0.3),
        ("vocabulary.joint=false", "vocabulary.joint", False),
        ("vocabulary.kind=bpe", "vocabulary.kind", "bpe"),
        ('name="quoted"', "name", "quoted"),
        ("data.source=a=b.en", "data.source", "a=b.en"),
        ("data.source=/tmp/train#1.en", "data.source", "/tmp/train#1.en"),
        ("training.minutes=none", "training.minutes", None),
    ],
)
def test_an_assignment_is_read_as_toml_where_it_is_toml_and_else_as_text(text, key, value):
    assert parse_assignment(text) == (key, value)


@pytest.mark.parametrize("key", ["model.positions", "model.norm", "model.tied"])
def test_none_is_a_name_where_a_key_knows_it_and_no_value_elsewhere(key):
    chosen = presets.tiny().change(dict([parse_assignment(f"{key}=none"), parse_assignment("training.minutes=none")]))
    assert getattr(chosen.model, key.partition(".")[2]) == "none"
    assert chosen.training.minutes is None


@given(st.text())
def test_an_assignment_of_any_text_is_read_or_refused_but_never_crashes(text):
    if "=" not in text.strip() or text.strip().startswith("="):
        with pytest.raises(UsageError, match="KEY=VALUE"):
            parse_assignment(text)
    else:
        assert parse_assignment(text)[0] == text.partition("=")[0].strip()


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("trainnig.steps=5", ["trainnig", "did you mean 'training'?"]),
        ("training.stpes=5", ["stpes", "did you mean 'steps'?", "training.stpes"]),
        ("training.zzz=5", ["zzz", "known: ", "warmup"]),
        ("training.steps=0", ["training.steps", "greater than or equal to 1", "got 0", "--set training.steps="]),
        ("training.schedule=nome", ["training.schedule", "'noam'", "got 'nome'"]),
        ("training.compile=maybe", ["training.compile", "boolean", "--set training.compile=false"]),
        ("training.steps.more=5", ["training.steps.more", "deeper", "--set training.steps="]),
        ("model=big", ["model", "--set model.KEY=VALUE"]),
        ("model.heads=7", ["d_model=512", "heads=7", "multiple of 7", "518"]),
        ("model.positions=appended", ["model.join=concatenate"]),
        ("vocabulary.joint=false", ["model.tied", "set model.tied=target"]),
        ("name=../../etc", ["name", "pattern"]),
        ("name=..", ["name", "pattern"]),
        (f"seed={'9' * 5000}", ["seed", "…"]),
    ],
)
def test_a_wrong_key_or_value_is_named_with_a_cure(assignment, words):
    with pytest.raises(UsageError) as caught:
        presets.base().change(dict([parse_assignment(assignment)]))
    for word in words:
        assert word in str(caught.value)
    assert caught.value.code == 2
    assert max(map(len, str(caught.value).split("\n"))) < 400


def test_the_size_that_is_proposed_for_heads_can_be_split():
    with pytest.raises(UsageError, match="such as 518"):
        presets.base().change({"model.heads": 7})
    assert presets.base().change({"model.heads": 7, "model.d_model": 518}).model.head_widths == (518 // 7, 518 // 7)


@pytest.mark.parametrize("key", [key for key in leaves() if key != "name"])
def test_the_value_that_is_proposed_for_a_wrong_one_is_accepted(key):
    with pytest.raises(UsageError) as caught:
        Recipe().change({key: [object()]})
    proposal = caught.value.hint.removeprefix("try: --set ").removesuffix(", the default")
    if "…" not in proposal:  # keys that may be absent have no default to propose
        assert Recipe().change(dict([parse_assignment(proposal)])) == Recipe()


def test_a_recipe_file_holds_only_what_differs_from_the_defaults(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text('name = "mine"\n[training]\nsteps = 5\n')
    assert presets.get(str(path)) == Recipe(name="mine").change({"training.steps": 5})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"steps = \nseed = 1", ["not a TOML file", "line 1"]),
        (b"\xff\xfe", ["not a TOML file"]),
        (b"[training]\nstpes = 5\n", ["stpes", "did you mean 'steps'?"]),
        (b"[trainings]\nsteps = 5\n", ["trainings", "did you mean 'training'?"]),
        (b"seed = " + b"9" * 5000, ["my.toml"]),
        (b"seed = " + b"[" * 50_000, ["not a TOML file"]),
        (b"#" * 100_001, ["100,000 bytes"]),
        (b"a" + b".a" * 101 + b" = 1", ["too many dots", "100"]),
        (b"seed = 0x" + b"f" * 10_000, ["seed", "too long or too deep"]),
    ],
    ids=[
        "cut off",
        "not UTF-8",
        "wrong key",
        "wrong section",
        "huge number",
        "nested",
        "too large",
        "many dots",
        "endless number",
    ],
)
def test_a_bad_recipe_file_is_refused_with_its_name(tmp_path, content, words):
    path = tmp_path / "my.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read_recipe(path)
    for word in [*words, "my.toml"]:
        assert word in str(caught.value)
    assert len(str(caught.value).split("\n")) <= 3


def test_a_recipe_file_that_is_not_there_is_bad_data():
    with pytest.raises(DataError, match=r"nowhere\.toml"):
        presets.get("nowhere.toml")


def test_an_unknown_recipe_gets_the_nearest_name():
    with pytest.raises(UsageError, match="did you mean 'tiny'"):
        presets.get("tniy")
    with pytest.raises(UsageError, match="did you mean 'table3-A-h16'"):
        presets.get("table3-A-16")


def test_a_file_that_is_called_like_a_recipe_does_not_hide_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("demo").write_text("#!/bin/sh\n")
    assert presets.get("demo") == presets.demo()
    assert os.path.exists("demo")


def test_every_row_of_table_3_differs_from_base_by_what_the_paper_lists_and_averages_nothing():
    base = presets.base().change({"training.average": 1})
    for row, changes in presets.TABLE_3.items():
        assert presets.table_3(row) == base.change({"name": f"table3-{row}", **changes})
        assert presets.table_3(row) != base.change({"name": f"table3-{row}"})
