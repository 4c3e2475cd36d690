"""The public functions: what a type checker finds, and what is said at run time of a keyword that was misspelt."""

import inspect
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest

import jumok
from jumok.config.keywords import (
    ConstraintKeywords,
    ContentKeywords,
    DataKeywords,
    EngineKeywords,
    EvaluateKeywords,
    SamplingKeywords,
    SearchKeywords,
    TrainKeywords,
    TranslateKeywords,
)
from jumok.config.search import (
    SAMPLING,
    UNCONSTRAINED,
    Constraints,
    EngineOptions,
    Feature,
    SearchOptions,
    TokenConstraints,
    list_features,
)
from jumok.config.sections import DataConfig
from jumok.engines.native_engine import NativeEngine
from jumok.errors import UnknownName, Unsupported, UsageError
from jumok.runs.choose import OPTIONS, choose
from jumok.storage import bundle
from jumok.translation import Contents
from jumok.translator import EVALUATE, TRANSLATE, Translator

SNIPPET = """
import jumok

model = jumok.load("runs/tiny", engine="native", shortlist=True)
text: str = model.translate("A", beam=5, n_best=3, require=["B"], align=True).text
texts: list[str] = [one.text for one in model.translate(["A", "B"], temperature=0.5, sample=True)]
for translation in model.lines(["A"], min_length=3, chunk=8):
    score: float = translation.score
bleu: float = model.evaluate("a", "b", beam=2, ter=True).bleu
pieces = list(model.stream("A", beam=1)) + list(model.generate("A", length=3, top_k=5))
run = jumok.train("a.en", "a.de", recipe="tiny", minutes=1.5, valid_source="b.en", valid_target="b.de")
"""
WRONG = {
    'jumok.load("runs/tiny", engin="native")': '"engin"',
    'model.translate("A", beem=5)': "No overload variant",
    'model.translate("A", beam="5")': "No overload variant",
    "model.options(beem=5)": '"beem"',
    'model.lines(["A"], no_repeet=2)': '"no_repeet"',
    'model.evaluate("a", "b", perplexty=True)': '"perplexty"',
    'model.stream("A", prefix="B")': '"prefix"',
    'model.generate("A", beam=2)': '"beam"',
    'model.score(["A"], ["B"], beam=2)': '"beam"',
    'model.attention("A", translatoin="B")': '"translatoin"',
    'jumok.train("a.en", "a.de", minuts=3)': '"minuts"',
    'jumok.train("a.en", "a.de", steps="3")': "incompatible type",
}


@pytest.mark.slow
def test_a_type_checker_takes_what_is_right_and_finds_what_is_misspelt(tmp_path):
    pytest.importorskip("mypy")
    lines = [*SNIPPET.strip().split("\n"), *WRONG]
    (tmp_path / "snippet.py").write_text("\n".join(lines) + "\n")
    root = Path(jumok.__file__).parent.parent
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(root.parent / "pyproject.toml")]
    command += ["--cache-dir", str(tmp_path / "cache"), "--follow-imports", "silent", "snippet.py"]
    done = subprocess.run(
        command, env={"MYPYPATH": str(root), "PATH": ""}, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    errors = [line for line in done.stdout.split("\n") if ": error: " in line]
    first = len(lines) - len(WRONG) + 1
    found = {int(line.split(":")[1]): line for line in errors}
    assert sorted(found) == list(range(first, len(lines) + 1)), done.stdout + done.stderr
    for number, (call, words) in enumerate(WRONG.items(), first):
        assert words in found[number], (call, found[number])


@pytest.mark.parametrize(
    ("call", "wrong", "meant"),
    [
        (lambda model, folder: jumok.load(folder, engin="native"), "engin", "engine"),
        (lambda model, folder: jumok.load(folder / "nowhere", other=[]), "other", "others"),
        (lambda model, folder: model.translate("a", beem=5), "beem", "beam"),
        (lambda model, folder: model.translate("a", best=5), "best", "n_best"),
        (lambda model, folder: model.translate(["a"], forbidd=["b"]), "forbidd", "forbid"),
        (lambda model, folder: list(model.lines(["a"], chunks=3)), "chunks", "chunk"),
        (lambda model, folder: list(model.stream("a", temprature=3.0)), "temprature", "temperature"),
        (lambda model, folder: model.attention("a", min_lenght=1), "min_lenght", "min_length"),
        (lambda model, folder: model.graph("a", group=2), "group", "groups"),
        (lambda model, folder: model.alternatives("a", diversty=2.0), "diversty", "diversity"),
        (lambda model, folder: model.evaluate("a", "b", perplexty=True), "perplexty", "perplexity"),
        (lambda model, folder: model.options(seeed=3), "seeed", "seed"),
        (lambda model, folder: jumok.train("a", "b", minuts=3), "minuts", "minutes"),
        (lambda model, folder: jumok.train("a", "b", valid_soruce="c"), "valid_soruce", "valid_source"),
        (lambda model, folder: jumok.train("a", "b", devise="cuda"), "devise", "device"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_misspelt_keyword_is_refused_with_the_nearest_name(micro, call, wrong, meant):
    with pytest.raises(UnknownName, match=f"is called '{wrong}'; did you mean '{meant}'"):
        call(jumok.load(micro), micro)


@pytest.mark.parametrize(
    "function", [jumok.load, jumok.train, *(f for n, f in vars(Translator).items() if n[0] != "_")]
)
def test_no_public_function_takes_what_it_does_not_name(function):
    if not inspect.isfunction(function):
        return
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            assert "Keywords" in str(parameter.annotation), parameter


@pytest.mark.parametrize(
    ("keywords", "value"),
    [
        (SearchKeywords, SearchOptions),
        (ConstraintKeywords, Constraints),
        (ContentKeywords, Contents),
        (EngineKeywords, EngineOptions),
    ],
)
def test_keywords_are_the_fields_of_the_value_they_make(keywords, value):
    assert set(keywords.__annotations__) == {field.name for field in fields(value)}


def test_keywords_that_are_checked_are_those_of_the_types():
    assert tuple(SamplingKeywords.__annotations__) == SAMPLING
    assert set(EVALUATE) == set(EvaluateKeywords.__annotations__)
    assert set(TRANSLATE) == {*TranslateKeywords.__annotations__, "chunk", "first", "progress"}


def test_keywords_of_training_are_the_keys_of_the_data_section():
    assert {*DataKeywords.__annotations__, "source", "target"} == set(DataConfig.model_fields)
    assert {*TrainKeywords.__annotations__, *inspect.signature(choose).parameters} - {"options"} == OPTIONS


def test_options_are_changed_by_what_is_given_and_not_none():
    options = SearchOptions(beam=4, n_best=2)
    assert options.change(beam=None, length_penalty=None) == options
    assert options.change(n_best=7).beam == 7
    assert options.change(sample=True, n_best=7).beam == 4
    assert (options.change(mbr=8).sample, options.change(mbr=8).temperature) == (True, 0.5)
    assert options.change(mbr=8, temperature=2.0).temperature == 2.0
    with pytest.raises(UsageError, match="n-best is out of range"):
        options.change(beam=3, n_best=4)


def test_options_and_constraints_that_are_made_already_are_taken_as_they_are(micro):
    model = jumok.load(micro)
    options, constraints = model.options(beam=3, n_best=2), Constraints(prefix="a", forbid=("b",))
    asked = model.translate("a b c", beam=3, n_best=2, prefix="a", forbid=["b"])
    assert model.translate("a b c", options=options, constraints=constraints) == asked
    assert model.translate("a b c", options=options, n_best=1, constraints=constraints).alternatives == ()


def test_constraints_without_words_ask_for_nothing():
    assert not Constraints()
    words = SimpleNamespace(encode={"": [], "a": [7], "b": [8, 9]}.__getitem__)
    assert Constraints().encode(words) is UNCONSTRAINED
    assert Constraints(require=("", "b"), forbid=("c", "")).encode(words) == TokenConstraints((), ((8, 9),), ("c",))
    assert Constraints.of(2, prefix=["a", "b"], forbid=["c"]) == [
        Constraints("a", (), ("c",)),
        Constraints("b", (), ("c",)),
    ]


def test_an_engine_refuses_what_it_cannot_do(micro):
    engine, source = NativeEngine(bundle.read(micro)), [[9, 10]]
    assert list_features(SearchOptions(sample=True)) == [Feature.SAMPLING]
    assert set(Feature) - engine.supported == {Feature.SAMPLING, Feature.GROUPS, Feature.COVERAGE}
    with pytest.raises(Unsupported, match="the native engine does not support sample"):
        engine.decode(source, SearchOptions(sample=True))
    with pytest.raises(Unsupported, match="the native engine does not support groups"):
        engine.submit(source, SearchOptions(beam=4, groups=2), constraints=[TokenConstraints(prefix=(9,))])
    with pytest.raises(TypeError, match="wishes"):
        engine.submit(source, SearchOptions(), wishes=None)
