"""Dependencies by use: with the plain dependencies alone `translate` works, and every other verb names its extra."""

import ast
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import jumok as package
from jumok import events, extras
from jumok.cli import doctor, main
from jumok.data.prepare import crew
from jumok.errors import JumokError, MissingPackage
from tests.conftest import Answer
from tests.support.hostile import relist

ROOT = Path(package.__file__).parent
SETTINGS = tomllib.loads((ROOT.parent.parent / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
OPTIONAL = PROJECT["optional-dependencies"]

# Runs commands read from stdin, each in a forked process with its output in files; starting Python anew takes longer.
RUNNER = """
import json, os, sys
from jumok.cli import main, translate
for number, arguments in enumerate(json.load(sys.stdin)):
    if (child := os.fork()) == 0:
        for place, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{number}.{name}", os.O_WRONLY | os.O_CREAT), place)
        sys.argv[1:] = arguments
        main.main()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

KEYS = {"serve key add", "serve key list", "serve key revoke"}
WORKS = {
    "translate", "score", "inside", "doctor", "data check", "data ls", "data stats", "model info",
    "model set-languages", *KEYS,
}  # fmt: skip
NEEDS = {  # verb -> (extra, arguments); text.en, text.de, MODEL and GPT are there
    "demo": ("train", "--out run"),
    "train": ("train", "--source text.en --target text.de"),
    "distill": ("train", "MODEL"),
    "evaluate": ("evaluate", "MODEL --source text.en --target text.de"),
    "look": ("train", "MODEL abc"),
    "film": ("train", "MODEL abc"),
    "errors": ("evaluate", "MODEL --source text.en --target text.de"),
    "race": ("train", "--corpus reverse"),
    "serve": ("serve", "MODEL --port 0 --state state"),
    "studio": ("serve", "MODEL --port 0 --state state --no-browser"),
    "lab": ("train", "mask"),
    "example": ("train", "norms"),
    "generate": ("train", "GPT abc"),
    "fill": ("train", "GPT <mask>"),
    "export ctranslate2": ("ctranslate2", "MODEL --out exported"),
    "bench train": ("train", ""),
    "bench serve": ("serve", "MODEL --source text.en --languages en,de"),
    "bench decode": ("evaluate", "MODEL --source text.en --target text.de"),
    "data prepare": ("train", "--source text.en --target text.de --out prepared"),
    "data dropped": ("train", "MODEL"),
    "data pairs": ("train", "MODEL 1"),
    "model compare": ("evaluate", "MODEL --source text.en --target text.de"),
    "model average": ("train", "MODEL"),
    "model shortlist": ("train", "MODEL"),
}
ASKED = {  # options of `translate` and others -> (extra, a word of the complaint)
    "translate MODEL abc --sample": ("train", "sample"),
    "translate MODEL abc --mbr 4": ("train", "sample"),
    "translate MODEL abc --coverage 0.2": ("train", "coverage"),
    "translate MODEL abc --with MODEL": ("train", "one model at a time"),
    "translate MODEL abc --stream": ("train", "--stream"),
    "translate MODEL abc --engine torch": ("train", "torch engine"),
    "translate MODEL abc --device cuda": ("train", "--device"),
    "translate GPT abc": ("train", "gpt models"),
    "model info GPT": ("train", "gpt models"),
    "translate MODEL abc --engine ctranslate2": ("ctranslate2", "CTranslate2"),
    "translate MODEL --input text.en --output out.zst": ("zstd", ".zst files"),
    "data check text.zst": ("zstd", ".zst files"),
    "data check text.parquet": ("columnar", "Parquet"),
    "evaluate MODEL --source text.en --target text.de --perplexity": ("train", "--perplexity"),
}


def plain_distributions() -> Iterator[importlib.metadata.Distribution]:
    """What `pip install .` brings: the dependencies of pyproject.toml and theirs, extras left out."""
    waiting, seen = list(map(Requirement, PROJECT["dependencies"])), set[str]()
    while waiting:
        wanted = waiting.pop()
        if canonicalize_name(wanted.name) in seen or not (
            wanted.marker is None or wanted.marker.evaluate({"extra": ""})
        ):
            continue
        seen.add(canonicalize_name(wanted.name))
        found = importlib.metadata.distribution(wanted.name)
        waiting += map(Requirement, found.requires or [])
        yield found


@pytest.fixture(scope="session")
def plain(tmp_path_factory) -> dict[str, str]:
    """The environment variables of a Python that sees jumok and its plain dependencies alone, by links to them."""
    folder = tmp_path_factory.mktemp("plain")
    (folder / "jumok").symlink_to(ROOT)
    for found in plain_distributions():
        for name in {file.parts[0] for file in found.files or []} - {"..", "__pycache__"}:
            (folder / name).symlink_to(Path(str(found.locate_file(name))))
    return os.environ | {"PYTHONPATH": str(folder)}


@pytest.fixture
def commands(plain, micro, tmp_path) -> Callable[..., list[Answer]]:
    """Run command lines in the plain environment."""
    for name in ("text.en", "text.de", "text.zst", "text.parquet"):
        (tmp_path / name).write_text("a b c\nc b a\n")
    (tmp_path / "gpt").mkdir()
    for file in (micro / "model").iterdir():
        (tmp_path / "gpt" / file.name).write_bytes(file.read_bytes())
    recipe = tmp_path / "gpt" / "recipe.toml"
    recipe.write_text(recipe.read_text().replace('kind = "transformer"', 'kind = "gpt"'))
    relist(tmp_path / "gpt")
    names = {"MODEL": str(micro), "GPT": str(tmp_path / "gpt")}

    def run(*lines: str) -> list[Answer]:
        arguments = [[names.get(word, word) for word in line.split()] for line in lines]
        done = subprocess.run(
            [sys.executable, "-S", "-c", RUNNER], cwd=tmp_path, env=plain, input=json.dumps(arguments), text=True,
            capture_output=True, check=False,
        )  # fmt: skip
        assert not done.stderr
        codes = list(map(int, done.stdout.split()))
        assert len(codes) == len(lines)
        texts = [
            [(tmp_path / f"{number}.{name}").read_text() for name in ("out", "err")] for number in range(len(lines))
        ]
        return [Answer(code, *text) for code, text in zip(codes, texts, strict=True)]

    return run


def verbs() -> list[str]:
    """Every verb of the command line."""

    def walk(command: object, path: str) -> Iterator[str]:
        inner = getattr(command, "commands", None)
        if inner is None:
            yield path
        for name, below in (inner or {}).items():
            yield from walk(below, f"{path} {name}".strip())

    return list(walk(typer.main.get_command(main.app), ""))


# ------------------------------------------------------------------------------------------ without the extras


def test_the_plain_environment_has_no_library_of_an_extra(plain):
    code = f"from jumok import extras; print([one for one in {list(extras.EXTRAS)} if extras.is_installed(one)])"
    assert (
        subprocess.run([sys.executable, "-S", "-c", code], env=plain, capture_output=True, text=True).stdout == "[]\n"
    )


def test_every_verb_has_its_help_without_extras(commands):
    answers = commands("--help", *(f"{verb} --help" for verb in verbs()))
    assert {(answer.code, answer.err) for answer in answers} == {(0, "")}
    assert all(answer.out.startswith("Usage: jumok") for answer in answers)


def test_models_translate_without_extras(commands, micro, tmp_path):
    greedy, beam, best, data, none = commands(
        "translate MODEL abc", "translate MODEL abc --beam 4", "translate MODEL abc --beam 4 --n-best 3",
        "translate MODEL --input text.en --json", "translate MODEL --input text.en --output out.gz",
    )  # fmt: skip
    assert [answer.code for answer in (greedy, beam, best, data, none)] == [0] * 5
    model = package.load(micro)
    assert greedy.out == f"{model.translate('abc').text}\n"
    assert beam.out == f"{model.translate('abc', beam=4).text}\n"
    several = model.translate("abc", beam=4, n_best=3)
    texts = [one.text for one in (several, *several.alternatives)]
    assert [line.split("\t")[2] for line in best.out.splitlines()] == texts
    assert [json.loads(line)["source"] for line in data.out.splitlines()] == ["a b c", "c b a"]
    assert (none.out, none.err, (tmp_path / "out.gz").exists()) == ("", "", True)


def test_alternatives_alignments_and_constraints_need_no_extras(commands, micro):
    others, links, bound = commands(
        "translate MODEL abc --alternatives 3", "translate MODEL abc --align --json", "translate MODEL abc --prefix c",
    )  # fmt: skip
    assert [(answer.code, answer.err) for answer in (others, links, bound)] == [(0, "")] * 3
    model = package.load(micro)
    texts = [one.text for one in model.alternatives("abc", count=3)]
    assert [line.split("\t")[2] for line in others.out.splitlines()] == texts
    found = [list(pair) for pair in model.translate("abc", align=True).alignment or ()]
    assert json.loads(links.out)["alignment"] == found
    assert bound.out == f"{model.translate('abc', prefix='c').text}\n"


def test_the_inside_of_a_model_is_shown_without_extras(commands, tmp_path):
    walk, page = commands("inside MODEL abc --head 1 --at 2", "inside MODEL abc --kind encoder --html walk.html")
    assert (walk.code, page.code) == (0, 0)
    assert "Softmax" in walk.out
    assert "<math" in (tmp_path / "walk.html").read_text(encoding="utf-8")


def test_texts_and_models_are_examined_without_extras(commands):
    check, stats, info = commands("data check text.en text.de", "data stats text.en text.de", "model info MODEL")
    assert [answer.code for answer in (check, stats, info)] == [0, 0, 0]
    assert "fit for training" in check.out
    assert "2 pairs" in stats.out
    assert "transformer: " in info.out


def test_languages_are_set_without_extras(commands, own_micro):
    named, info = commands(f"model set-languages {own_micro} en de", f"model info {own_micro}")
    assert (named.code, info.code) == (0, 0)
    assert "en → de" in info.out


def test_the_doctor_names_every_missing_extra(commands):
    plain_text, as_json = commands("doctor", "doctor --json")
    assert (plain_text.code, as_json.code) == (0, 0)
    states = {one["name"]: one["state"] for one in json.loads(as_json.out)}
    assert {name for name, state in states.items() if state == "absent"} == set(extras.PURPOSES)
    assert all(f"try: pip install 'jumok[{extra}]'" in plain_text.out for extra in extras.PURPOSES)
    assert states["kernels"] == "fine"


def test_every_verb_works_or_is_in_the_table():
    assert set(verbs()) == WORKS | set(NEEDS)


def test_every_other_verb_names_its_extra(commands, tmp_path):
    before = set(tmp_path.iterdir())
    answers = commands(*(f"{verb} {arguments}" for verb, (_, arguments) in NEEDS.items()))
    for (verb, (extra, _)), answer in zip(NEEDS.items(), answers, strict=True):
        assert (verb, answer.code, answer.out) == (verb, 2, "")
        assert answer.err.startswith("jumok: "), verb
        assert answer.err.endswith(f"\ntry: pip install 'jumok[{extra}]'\n"), verb
        assert answer.err.count("\n") <= 3, verb
    made = {path.name for path in set(tmp_path.iterdir()) - before}
    assert {name for name in made if name.partition(".")[2] not in ("out", "err")} == set()


def test_what_is_asked_beyond_is_named_with_its_extra(commands):
    for (line, (extra, words)), answer in zip(ASKED.items(), commands(*ASKED), strict=True):
        assert (line, answer.code, answer.out) == (line, 2, "")
        assert words in answer.complaint[0] or words in answer.complaint[1], line
        assert answer.complaint[-1] == f"try: pip install 'jumok[{extra}]'", line
        assert len(answer.complaint) <= 3, line


def test_without_torch_and_without_a_compiler_translate_says_what_it_needs(plain, micro, tmp_path):
    bare = plain | {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    found = [
        subprocess.run([sys.executable, "-S", "-m", "jumok", *words], env=bare, capture_output=True, text=True)
        for words in (["translate", str(micro), "abc"], ["doctor"])
    ]
    assert (found[0].returncode, found[0].stdout) == (2, "")
    assert "no C compiler was found" in found[0].stderr
    assert found[0].stderr.endswith("\ntry: pip install 'jumok[train]', or a C compiler (apt-get install gcc)\n")
    assert found[1].returncode == 1
    assert "XX  kernels" in found[1].stdout


def test_python_names_the_extra_too(plain, micro, tmp_path):
    for name in ("source", "target"):
        (tmp_path / name).write_text("abc\n")
    code = f"""
import jumok
model = jumok.load({str(micro)!r})
print(model.translate("abc").text)
for ask in (lambda: jumok.train, lambda: model.attention("abc"), lambda: model.evaluate("source", "target")):
    try:
        ask()
    except ImportError as error:
        print(isinstance(error, jumok.JumokError), error.hint)
"""
    done = subprocess.run([sys.executable, "-S", "-c", code], env=plain, capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr == ""
    train, evaluate = ("try: pip install 'jumok[train]'", "try: pip install 'jumok[evaluate]'")
    assert done.stdout.splitlines()[1:] == [f"True {train}", f"True {train}", f"True {evaluate}"]


# ------------------------------------------------------------------------------------------ the table


def third_party(tree: ast.AST) -> Iterator[str]:
    """Modules that a file imports and that are neither ours nor Python's."""
    for node in ast.walk(tree):
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in (name.split(".")[0] for name in names):
            if name != "jumok" and name not in sys.stdlib_module_names:
                yield name


def test_what_is_imported_is_a_dependency_or_in_the_table():
    found = {name for path in ROOT.rglob("*.py") for name in third_party(ast.parse(path.read_text(encoding="utf-8")))}
    assert found - set(extras.EXTRAS) == set(doctor.NEEDED)
    assert {Requirement(one).name for one in PROJECT["dependencies"]} == set(doctor.NEEDED.values())


def test_the_table_is_that_of_the_project():
    listed = {
        (canonicalize_name(Requirement(one).name), extra)
        for extra in extras.PURPOSES
        for one in OPTIONAL[extra]
        if Requirement(one).name != "jumok"
    }
    assert {(canonicalize_name(module), extra) for module, extra in extras.EXTRAS.items()} == listed
    assert set(OPTIONAL) == {*extras.PURPOSES, "all", "test"}


def test_all_is_every_extra_but_the_one_that_changes_scores():
    [everything] = map(Requirement, OPTIONAL["all"])
    assert everything.extras == set(extras.PURPOSES) - {"korean"}
    assert "jumok[all]" in OPTIONAL["test"]


def test_what_all_installs_has_a_tested_version():
    pinned = {
        canonicalize_name(line.partition("==")[0])
        for line in (ROOT.parent.parent / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    }
    wanted = [
        *PROJECT["dependencies"],
        *(one for extra in extras.PURPOSES if extra != "korean" for one in OPTIONAL[extra]),
    ]
    names = {canonicalize_name(Requirement(one).name) for one in wanted} - {"jumok"}
    assert names <= pinned


def test_the_guide_lists_every_extra_with_what_it_brings():
    page = (ROOT.parent.parent / "docs" / "guide" / "installing.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", page, re.M))
    assert list(rows) == list(OPTIONAL)
    for extra in extras.PURPOSES:
        brought = {Requirement(one).name for one in OPTIONAL[extra]} - {"jumok"}
        assert brought <= set(rows[extra].split(", ")), extra


def test_a_wheel_contains_every_file_that_is_not_python():
    patterns = SETTINGS["tool"]["setuptools"]["package-data"]["jumok"]
    packed = {path for pattern in patterns for path in ROOT.glob(pattern)}
    files = {path for path in ROOT.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert files == packed
    of_studio = {".gz", ".txt"}  # the page, where it was built
    kinds = {".c", ".css", ".h", ".html", ".js", ".json", ".toml", ".typed"}
    assert {path.suffix for path in files} - of_studio == kinds


# ------------------------------------------------------------------------------------------ parts


class Hiding:
    """A finder of modules that does not find one of them."""

    def __init__(self, finder: Any, module: str) -> None:
        self.finder, self.module = finder, module

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return None if name.split(".")[0] == self.module else self.finder.find_spec(name, path, target)


@pytest.fixture
def hide(monkeypatch) -> Callable[[str], None]:
    """Make a library look as if it were not installed."""

    def hidden(module: str) -> None:
        for name in [name for name in sys.modules if name.split(".")[0] == module]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setattr(sys, "meta_path", [Hiding(finder, module) for finder in sys.meta_path])

    return hidden


def test_training_goes_on_without_tensorboard(hide, tmp_path):
    hide("tensorboard")
    notes: list[str] = []
    board = events.open_board(tmp_path / "board", notes.append)
    board({"event": "step", "step": 1, "time": 0.0, "loss": 1.0})
    board.close()
    assert len(notes) == 1
    assert "try: pip install 'jumok[train]'" in notes[0]
    assert not (tmp_path / "board").exists()


def test_ctranslate2_is_an_error_only_where_it_is_asked_for(hide, micro):
    hide("ctranslate2")
    said: list[str] = []
    assert package.load(micro, say=said.append).engine_name == "native"
    assert said == []
    with pytest.raises(MissingPackage, match="CTranslate2") as raised:
        _ = package.load(micro, engine="ctranslate2", say=said.append).engine_name
    assert raised.value.hint == "try: pip install 'jumok[ctranslate2]'"


def test_scores_need_sacrebleu(hide):
    from jumok.evaluation import metrics

    hide("sacrebleu")
    for score in (metrics.bleu, metrics.chrf, metrics.ter):
        with pytest.raises(MissingPackage) as raised:
            score(["a"], ["a"])
        assert raised.value.hint == "try: pip install 'jumok[evaluate]'"


def test_a_worker_of_the_preparation_reports_a_missing_library_as_such():
    assert crew.ERRORS["MissingPackage"] is MissingPackage


@pytest.mark.parametrize(
    ("error", "module"),
    [
        (ModuleNotFoundError(name="torch"), "torch"),
        (ModuleNotFoundError(name="torch.gone"), None),  # torch is there, but broken
        (ModuleNotFoundError(name="unheard_of"), None),
        (ImportError(name="torch"), None),
    ],
)
def test_an_import_that_fails_for_another_reason_is_not_explained_away(error, module):
    assert extras.find_missing(error) == module


def test_a_bug_stays_a_bug(jumok, monkeypatch):
    def fail() -> None:
        raise ModuleNotFoundError("No module named 'unheard_of'", name="unheard_of")

    monkeypatch.setattr(doctor, "examine", fail)
    answer = jumok("doctor")
    assert answer.code == 1
    assert "Traceback" in answer.err
    assert "a bug of ours" in answer.err


def test_a_missing_package_is_an_error_of_both_worlds():
    assert issubclass(MissingPackage, JumokError)
    assert issubclass(MissingPackage, ImportError)
    assert MissingPackage.code == 2
