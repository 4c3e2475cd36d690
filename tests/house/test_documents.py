"""Documents are true: commands parse, Python runs, paths exist, figures come from results, decisions carry a date."""

import ast
import importlib.util
import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import typer

import jumok as package
from jumok import lab, messages
from jumok.cli.failures import MISUSE
from jumok.cli.main import app
from jumok.config import presets
from jumok.config.kinds import KINDS
from jumok.config.recipe import parse_assignment
from jumok.runs.choose import choose
from jumok.storage.bundle import FORMAT

ROOT = Path(__file__).parents[2]
LOGS = ROOT / "docs" / "log"
DECISIONS = ROOT / "docs" / "decisions"
PAGES = sorted(
    path
    for pattern in (
        "*.md",
        "docs/*.md",
        "docs/guide/*.md",
        "docs/class/*.md",
        "docs/decisions/*.md",
        "docs/log/*.md",
        "examples/*.md",
        "bench/*.md",
        "tests/*.md",
    )
    for path in ROOT.glob(pattern)
)
NAMES = [str(path.relative_to(ROOT)) for path in PAGES]
RETIRED = re.compile(r"\bLOG\.md\b")
HISTORY = {"CHANGELOG.md"}  # speaks of what is gone


# ------------------------------------------------------------------------------------------ commands


class Written(NamedTuple):
    """A command line and where it is written."""

    where: str
    line: str
    whole: bool  # in a block of code, where it must be complete; in running text options may be left out


FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
INLINE = re.compile(r"(?<!`)`(jumok [^`\n]+)`(?!`)")
BEFORE = re.compile(r"^(?:[A-Z_]+=\S+ |nohup |torchrun .*?-m |(?:cat|echo) .*?\| )+")


def commands_in(text: str, where: str) -> Iterator[Written]:
    """Every `jumok …` in the code blocks and the running text of a page."""
    for language, block in FENCE.findall(text):
        for line in block.split("\n") if language in ("", "bash", "console", "sh") else ():
            if (command := BEFORE.sub("", line.strip())).startswith("jumok "):
                yield Written(where, command, whole=True)
    for command in INLINE.findall(FENCE.sub("", text)):
        yield Written(where, command, whole=False)


def commands_of_docstrings() -> Iterator[Written]:
    """Every line of a docstring in src that is a command."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                for line in (ast.get_docstring(node) or "").split("\n"):
                    command = re.split(r"\s{2,}", BEFORE.sub("", line.strip()))[0]  # what follows a gap explains it
                    if re.match(r"jumok [a-z]+(?: |$)", command) and not command.endswith((".", ":", ",", ";")):
                        yield Written(f"{path.relative_to(ROOT)}:{node.__class__.__name__}", command, whole=True)


def commands_of_help() -> Iterator[Written]:
    """Every example in the help of a verb, in every language."""
    for path in sorted(messages.FOLDER.glob("*/help.toml")):
        for name, entry in messages.read_room("help", path.parent.name).items():
            for line in entry.get("examples", "").split("\n") if isinstance(entry, dict) else ():
                if line:
                    yield Written(f"{path.parent.name}/help.toml: {name}", BEFORE.sub("", line), whole=True)


def all_commands() -> list[Written]:
    pages = [
        written
        for path, name in zip(PAGES, NAMES, strict=True)
        for written in commands_in(path.read_text(encoding="utf-8"), name)
    ]
    results = [
        Written(path.name, json.loads(path.read_text(encoding="utf-8"))["command"], whole=True)
        for path in sorted((ROOT / "docs" / "results").glob("*.json"))
    ]
    return [
        *pages,
        *commands_of_docstrings(),
        *commands_of_help(),
        *(one for one in results if one.line.startswith("jumok ")),
    ]


def parse(written: Written) -> str | None:
    """What click says against a command line; nothing is executed."""
    whole = written.whole and "…" not in written.line
    line = re.sub(r"(--[\w-]+) …", r"\1 x", re.sub(r"\s#\s.*$", "", written.line)).replace("…", "")
    words = shlex.split(re.sub(r"\s[<>|&]+\s.*$", "", line))[1:]
    command: Any = typer.main.get_command(app)
    context = command.make_context("jumok", [], resilient_parsing=True)
    while words and hasattr(command, "commands"):
        if words[0].startswith("-"):
            return None
        if " ".join(words[:2]) in command.commands:  # serve key
            words[:2] = [" ".join(words[:2])]
        if words[0] not in command.commands:
            return f"there is no verb {words[0]!r}"
        name = words.pop(0)
        command = command.commands[name]
        context = type(context)(command, parent=context, info_name=name)
    if hasattr(command, "commands"):
        return None if not words and not whole else f"{written.line!r} names no verb"
    try:
        command.parse_args(context, words)
    except MISUSE as error:
        message = str(error.format_message())
        missing = type(error).__name__ == "MissingParameter" or message.endswith("requires an argument.")
        return None if missing and not whole else message
    except typer.Exit:
        return None
    return None


COMMANDS = all_commands()


def test_there_are_commands_to_read() -> None:
    """So that a pattern that finds nothing does not pass for a page without faults."""
    places = {written.where for written in COMMANDS}
    assert {"README.md", "README.ko.md", "docs/guide/training.md", "en/help.toml: train"} <= places
    assert len(COMMANDS) > 100


@pytest.mark.parametrize("written", COMMANDS, ids=[f"{one.where}: {one.line[:60]}" for one in COMMANDS])
def test_every_command_in_a_document_is_understood_by_the_command_line(written: Written) -> None:
    assert parse(written) is None, f"{written.where}: {written.line}"


@pytest.mark.parametrize("written", COMMANDS, ids=[f"{one.where}: {one.line[:60]}" for one in COMMANDS])
def test_every_recipe_model_and_key_in_a_command_exists(written: Written) -> None:
    words = [word for word in shlex.split(re.sub(r"\s#\s.*$", "", written.line)) if word != "…"]
    given = list(pairwise(words))
    recipes = [value for option, value in given if option == "--recipe" and re.fullmatch(r"[a-z][\w.-]*", value)]
    models = [value for option, value in given if option == "--model" and "train" in words and value.islower()]
    assert set(recipes) - {"my.toml", presets.AUTO} <= set(presets.names())
    assert set(models) - {"mine"} <= KINDS.keys()
    kind = next(iter(set(models) & KINDS.keys()), None)
    keys = [value for option, value in given if option == "--set" and "lab" not in words and "FIELD" not in value]
    if not ({"train", "race"} & set(words)) or (kind is None and "mine" in models):
        return
    recipe = presets.get("tiny") if kind is None else presets.get("tiny").change({"model.kind": kind})
    recipe.change(dict(parse_assignment(key.replace("=N", "=1")) for key in keys))


# ------------------------------------------------------------------------------------------ Python


BLOCKS = [
    (f"{name}, block {number}", code)
    for path, name in zip(PAGES, NAMES, strict=True)
    for number, (language, code) in enumerate(FENCE.findall(path.read_text(encoding="utf-8")), start=1)
    if language == "python"
]


def test_the_readmes_and_the_guide_have_python_to_run() -> None:
    assert {where.partition(",")[0] for where, _ in BLOCKS} >= {"README.md", "README.ko.md", "docs/guide/python.md"}


@pytest.fixture
def place(micro: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what blocks name: text files, and the micro model as runs/tiny; training gives it at once."""
    for name in ("train.en", "train.de", "train.ko", "test.en", "test.de"):
        (tmp_path / name).write_text("a b c\nd e\n", encoding="utf-8")

    def train(**choices: Any) -> Any:
        recipe = choose(**choices)  # so that a wrong keyword is an error here as there
        folder = Path(shutil.copytree(micro, tmp_path / "runs" / recipe.name, dirs_exist_ok=True))
        return type("Run", (), {"folder": folder})()

    shutil.copytree(micro, tmp_path / "runs" / "tiny")
    monkeypatch.setattr(package, "train", train, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("where", "code"), BLOCKS, ids=[where for where, _ in BLOCKS])
def test_every_block_of_python_runs_on_a_micro_model(where: str, code: str, place: Path) -> None:
    exec(compile(code, where, "exec"), {"__name__": "document"})


def load(path: Path) -> ModuleType:
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(f"document_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def test_every_example_is_listed_and_every_listed_example_exists() -> None:
    page = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\]\((\w+\.py)\)", page)) == {path.name for path in EXAMPLES}


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.name for path in EXAMPLES])
def test_every_example_runs(path: Path, micro: Path, tmp_path: Path, capsys) -> None:
    arguments = {
        "train_and_translate": ["--steps", "2", "--pairs", "200", "--out", tmp_path / "run"],
        "constrained": [micro, "a b c"],
        "look_inside": [micro, "a b c", "--svg", tmp_path / "a.svg"],
        "own_model": ["--steps", "2", "--out", tmp_path / "run"],
    }[path.stem]
    try:
        load(path).main([str(word) for word in arguments])
    finally:
        KINDS.pop("bag", None)  # own_model.py adds it
    assert len(capsys.readouterr().out.split("\n")) > 3


# ------------------------------------------------------------------------------------------ paths and links


PLACES = (
    "",
    "src/jumok",
    "docs",
    "tests",
    "bench",
    "bench/peers",
    "docs/lab",
)  # what a path in a document may be relative to
SUFFIXES = r"(?:py|md|c|h|json|toml|svg|html|txt|cff|yaml)"
PATH = re.compile(rf"(?<![\w./~-])((?:[\w.-]+/)*[\w-]+\.{SUFFIXES})(?![\w/-])")
MADE = re.compile(  # what a run, a preparation or a user's own command makes, and names that stand for others
    r"^(?:recipe\.toml|my\.toml|card\.json|state\.json|MANIFEST\.json|prepared\.json|report\.(?:html|json)|attention\.html|front\.svg"
    r"|before\.json|after\.json|lab(?:\.ko)?\.md|.*NAME\..*|.*SIZE\..*|YYYY-MM-DD-question\.md|shakespeare\.txt|wiki\.txt"
    r"|films\.txt|labels\.txt|de-en\.md|tokenizer\.json)$"
)


def exists(path: str, page: Path) -> bool:
    if MADE.match(path) or any((ROOT / place / path).exists() for place in PLACES) or (page.parent / path).exists():
        return True
    return "/" not in path and any(ROOT.glob(f"src/jumok/**/{path}"))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in HISTORY])
def test_every_path_in_backticks_exists(name: str) -> None:
    page = ROOT / name
    spans = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", FENCE.sub("", page.read_text(encoding="utf-8")))
    paths = [path for span in spans if not span.startswith("jumok ") for path in PATH.findall(span.partition("::")[0])]
    assert [path for path in paths if not exists(path, page)] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_link_in_a_document_leads_somewhere(name: str) -> None:
    page = ROOT / name
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    links = re.findall(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"", text)
    targets = [target.partition("#")[0] for pair in links for target in pair if target and "://" not in target]
    assert [target for target in targets if target and not (page.parent / target).exists()] == []


def test_no_document_or_source_cites_a_file_that_is_gone() -> None:
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.[ch]"), *PAGES]
    read = {path: path.read_text(encoding="utf-8") for path in sources if path.name not in HISTORY}
    assert [str(path) for path, text in read.items() if RETIRED.search(text)] == []
    cited = {(path, found) for path, text in read.items() for found in re.findall(r"docs/[\w./-]+\.md", text)}
    assert [(str(path), found) for path, found in cited if not (ROOT / found).exists()] == []


# ------------------------------------------------------------------------------------------ figures, decisions, log


def test_pages_with_figures_are_what_the_results_say() -> None:
    benchmarks = load(ROOT / "tools" / "benchmarks.py")
    for path, text in benchmarks.render_all(ROOT).items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: python tools/benchmarks.py writes it"


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "results").glob("*.json")), ids=lambda path: path.stem)
def test_every_result_names_command_machine_date_and_log(path: Path) -> None:
    result = json.loads(path.read_text(encoding="utf-8"))
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", result["date"])
    assert result["machine"]
    assert result["setup"]
    assert (LOGS / result["log"]).is_file()
    program = result["command"].split()[0]
    assert program == "jumok" or (ROOT / program).is_file()


def test_both_readmes_show_the_same_six_figures_and_the_same_links() -> None:
    english, korean = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.ko.md"))
    dates = [re.findall(r"\| `([^`]+)` \| (20\d\d-\d\d-\d\d) \|", text) for text in (english, korean)]
    assert dates[0] == dates[1]
    assert len(dates[0]) == 6
    targets = [set(re.findall(r"\]\(([^)]+)\)", text)) for text in (english, korean)]
    guides = (f"docs/guide/{name}" for name in ("serve", "inside", "studio"))
    translated = ("README", "docs/lab", "docs/notes", "docs/course", *guides)
    assert targets[0] ^ targets[1] == {f"{page}{end}" for page in translated for end in (".md", ".ko.md")}
    assert [text.count("\n## ") for text in (english, korean)] == [5, 5]


@pytest.mark.parametrize("name", ["README.md", "README.ko.md"])
def test_a_readme_has_two_screens_and_says_which_recipe_is_the_papers(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    first = text.partition("\n## ")[0]
    assert text.count("\n") <= 100
    assert all(word in first for word in ("--recipe auto", "tiny", "Muon", "--recipe base"))


@pytest.mark.parametrize("path", sorted(DECISIONS.glob("0*.md")), ids=lambda path: path.stem)
def test_every_decision_has_a_number_a_status_a_date_and_a_row_in_the_index(path: Path) -> None:
    text, index = path.read_text(encoding="utf-8"), (DECISIONS / "README.md").read_text(encoding="utf-8")
    assert re.match(
        rf"# {path.name[:4]}: .+\n\n- Status: (?:accepted|superseded|rejected).*\n- Date: 20\d\d-\d\d-\d\d\n", text
    )
    assert f"]({path.name})" in index
    for later in re.findall(r"superseded[^\n]*?by \[(\d{4})\]", text):
        assert list(DECISIONS.glob(f"{later}-*.md"))


@pytest.mark.parametrize("path", sorted(LOGS.glob("2*.md")), ids=lambda path: path.stem)
def test_every_page_of_the_log_asks_a_question_and_says_what_was_tried_and_kept(path: Path) -> None:
    text, index = path.read_text(encoding="utf-8"), (LOGS / "README.md").read_text(encoding="utf-8")
    assert re.match(r"# .+\?\n\n\*\*Tried\.\*\* ", text)
    assert "\n**Kept.** " in text
    assert "\n## Figures\n\n### " in text
    assert f"]({path.name})" in index
    headings = re.findall(r"^### (.+)$", text, re.M)
    assert len(headings) == len(set(headings))


COUNTS = re.compile(r"\b([\d,]{2,}|two|three|\w+teen|twenty) (tests|models|recipes|tasks|decisions|claims|verbs)\b")


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith(("docs/log/", "docs/decisions/"))])
def test_documents_do_not_count_what_grows(name: str) -> None:
    """Numbers of tests, models and recipes are wrong a week later; figures of one measurement are in the results."""
    if name in ("docs/lab.md", "docs/lab.ko.md", "docs/RELIABILITY.md"):
        return  # written by the lab and by the tests
    text = FENCE.sub("", (ROOT / name).read_text(encoding="utf-8"))
    assert [found[0] for found in COUNTS.finditer(text)] == []


def test_the_index_of_documents_links_every_guide() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for path in (ROOT / "docs" / "guide").glob("*.md"):
        assert f"(guide/{path.name})" in index, path.name


def test_the_guides_list_every_model_recipe_and_claim_file() -> None:
    models = (ROOT / "docs" / "guide" / "models.md").read_text(encoding="utf-8")
    recipes = (ROOT / "docs" / "guide" / "recipes.md").read_text(encoding="utf-8")
    assert [kind for kind in KINDS if f"`{kind}`" not in models] == []
    assert [name for name in presets.NAMED if f"`{name}`" not in recipes] == []
    claims = (ROOT / "docs" / "lab.md").read_text(encoding="utf-8")
    assert [name for name in (*lab.NAMES, *lab.PAPER) if f"jumok lab {name}" not in claims] == []


def test_the_versions_of_the_package_the_citation_and_the_project_are_the_same() -> None:
    citation = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.M)
    assert citation is not None
    assert citation[1] == package.__version__


def test_the_changelog_has_its_sections_and_tells_the_format_on_disk() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.findall(r"^### (.+)$", text, re.M)
    assert set(sections) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert re.match(r"# Changelog\n", text)
    assert f"now {FORMAT})" in text


def outline(name: str) -> dict[str, list[object]]:
    """What both READMEs must have alike: levels of headings, commands with their options, numbers, tables, pictures."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("100 million", "1억")
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, flags=re.M | re.S)
    lines = [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]
    commands = [(line.split()[:2], sorted(set(re.findall(r"--\w[\w-]*", line)) - {"--lang"})) for line in lines if line]
    figures = text.split("<!-- figures")[1].split("<!-- end")[0]
    rows = [line for line in figures.splitlines() if line.startswith("|")]
    return {
        "headings": re.findall(r"^(#+) ", text, flags=re.M),
        "commands": [command for command in commands if command[0][0] in ("jumok", "./demo", "./test", ".")],
        "numbers": [sorted(re.findall(r"\d+(?:[.,]\d+)*", row)) for row in rows[2:]],
        "options": sorted(set(re.findall(r"`(--[\w-]+)", text))),
        "tables": [line.count("|") for line in text.splitlines() if line.startswith("|")],
        "pictures": [Path(source).stem.split(".")[0] for source in re.findall(r"<img src=\"([^\"]+)\"", text)],
    }


@pytest.mark.parametrize("part", ["headings", "commands", "numbers", "options", "tables", "pictures"])
def test_the_korean_readme_has_the_same_content_as_the_english_one(part):
    english, korean = outline("README.md")[part], outline("README.ko.md")[part]
    assert english
    assert korean == english
