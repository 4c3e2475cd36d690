"""Golden models give for ever what they gave when they were made: texts exactly, scores to 1e-4, a run its losses."""

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import jumok
from jumok.config.kinds import KINDS
from jumok.kernels import library
from tests.support import golden
from tests.support.golden import ENGINES, FAST, ask, folders, loaded, read_expected, runs, suits

TOLERANCE = 1e-4
ASKED = [
    pytest.param(folder, engine, id=f"{folder.relative_to(golden.FOLDER)}-{engine}")
    for folder in folders()
    for engine in read_expected(folder)["engines"]  # those that ran it when it was made
]


def missing(engine: str) -> str:
    """Why this machine has no such engine; empty where it has."""
    if engine == "ctranslate2":
        return "" if find_spec("ctranslate2") else "ctranslate2 is not installed"
    return "" if engine == "plain" or library.load() is not None else "no C compiler on this machine"


@pytest.mark.parametrize(("folder", "engine"), ASKED)
def test_a_golden_model_answers_as_it_did_when_it_was_made(folder, engine):
    if reason := missing(engine):
        pytest.skip(reason)
    with loaded(folder, engine) as model:
        assert engine not in FAST or model.fast is not None, f"{engine} does not run this model any more"
        for question in read_expected(folder)["questions"]:
            if not suits(question, engine):
                continue
            found = ask(model, question)
            assert [one.text for one in found] == [text for text, *_ in question["answers"]]
            for one, (_, *numbers) in zip(found, question["answers"], strict=True):
                assert one.numbers == pytest.approx(numbers, abs=TOLERANCE)


def test_there_is_a_golden_model_of_every_kind_and_it_is_asked_something():
    expected = [read_expected(folder) for folder in folders()]
    assert {one["kind"] for one in expected} == set(KINDS)
    for one in expected:
        for question in one["questions"]:
            assert len(question["answers"]) >= 6
            assert len({text for text, *_ in question["answers"]}) >= 2
    engines = {engine for one in expected for engine in one["engines"]}
    assert engines == set(ENGINES)


def test_golden_models_are_a_few_kilobytes():
    for version in golden.FOLDER.iterdir():
        sizes = {path: path.stat().st_size for path in version.rglob("*") if path.is_file()}
        assert max(sizes.values()) < 100_000
        assert sum(sizes.values()) < 600_000


@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "plain"])
@pytest.mark.parametrize("folder", runs(), ids=lambda folder: folder.parent.name)
def test_a_golden_run_is_resumed_and_its_losses_are_those_that_were_recorded(folder, kernels, tmp_path):
    if kernels and library.load() is None:
        pytest.skip("no C compiler on this machine")
    out = Path(shutil.copytree(folder, tmp_path / "run"))
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # as it was begun
    try:
        if kernels:
            jumok.train(recipe=str(folder / "recipe.toml"), out=out)
        else:
            with library.without():
                jumok.train(recipe=str(folder / "recipe.toml"), out=out)
    finally:
        torch.set_num_threads(before)
    rows = [line.split("\t") for line in (out / "losses.tsv").read_text().splitlines()]
    losses = {row[0]: float(row[2]) for row in rows if row[0].isdigit()}
    expected = read_expected(folder)["losses"]
    assert len(expected) == 2
    assert {step: losses[step] for step in expected} == pytest.approx(expected, abs=TOLERANCE)
    assert (out / "model" / "card.json").exists()
