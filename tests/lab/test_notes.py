"""The page about the notes: every statement has a verdict, a number and a command, and no number is typed."""

import json
import re
import shlex
from collections import Counter
from pathlib import Path

import pytest

from jumok import lab
from jumok.errors import UsageError
from jumok.lab import examples
from jumok.lab.notes import numbers
from jumok.lab.notes.page import CROSS, HEAD, VERDICTS, read_page, read_texts, to_html, to_markdown
from tests.house.test_documents import Written, load, parse

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
STATEMENTS = {"000": 16, "001": 38, "002": 38, "003": 5, "004": 8}
PAGE = read_page()
COMMANDS = sorted({command for statement in PAGE.statements for command in PAGE.commands(statement)})
DIGITS = re.compile(r"\d")


def test_every_statement_of_the_five_notes_is_there_once():
    assert Counter(one.note for one in PAGE.statements) == STATEMENTS
    assert len({one.at for one in PAGE.statements}) == len(PAGE.statements) == 105
    assert len({one.anchor for one in PAGE.statements}) == 105
    assert [note["id"] for note in PAGE.notes] == list(STATEMENTS)


@pytest.mark.parametrize("statement", PAGE.statements, ids=lambda one: one.at)
def test_every_statement_has_a_verdict_a_number_or_is_a_definition_and_a_command(statement):
    assert statement.verdict in VERDICTS
    for language in ("en", "ko"):
        assert statement.says[language]
        assert statement.right[language] or statement.verdict == "right"
        number = PAGE.number(statement, language)
        word = {"en": "definition", "ko": "정의"}[language]
        assert number.startswith(word) if statement.definition else DIGITS.search(number)
    assert bool(statement.right["en"]) == bool(statement.right["ko"])
    assert PAGE.commands(statement)


@pytest.mark.parametrize("name", PAGE.figures)
def test_every_figure_is_used_and_worded_alike_in_both_languages(name):
    figure = PAGE.figures[name]
    assert name == HEAD or any(one.figure == name for one in PAGE.statements)
    if "values" in figure:
        for language in ("en", "ko"):
            assert set(re.findall(r"{(\w+)", figure[language])) == set(figure["values"])


SAYINGS = [
    (one.at, text) for one in PAGE.statements for text in (*one.right.values(), PAGE.figures[one.figure].get("en", ""))
]
WRITTEN = {"1", "2", "3", "6", "8", "10", "32", "1,024", "1,000", "256", "31", "10000", "0", "004", "49", "9", "4"}


def test_no_figure_has_a_decimal_fraction_that_is_written_by_hand():
    """Small whole numbers name a size (6 features, position 10); what is measured has a placeholder."""
    for at, text in SAYINGS:
        typed = re.findall(r"\d[\d.,]*%?", re.sub(r"{[^}]*}", "", text))
        assert {one.rstrip(".,") for one in typed} <= WRITTEN, at


def test_every_number_equals_the_one_in_its_finding():
    for path, value in PAGE.numbers.items():
        kind, _, rest = path.partition(":")
        name, *keys = rest.split("/")
        finding = json.loads(
            (DOCS / {"example": "notes", "lab": "lab", "result": "results"}[kind] / f"{name}.json").read_text()
        )
        for key in keys if kind == "result" else ["numbers", *keys]:
            finding = finding[int(key)] if isinstance(finding, list) else finding[key]
        assert finding == value, path
    used = {path for figure in PAGE.figures.values() for path in figure.get("values", {}).values()}
    assert used == set(PAGE.numbers)


def test_the_pages_are_what_the_findings_say():
    tool = load(ROOT / "tools" / "notes.py")
    for path, text in tool.render_all(ROOT).items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: python tools/notes.py writes it"


def test_a_finding_or_a_number_that_is_missing_is_named_with_the_command_that_brings_it(tmp_path):
    with pytest.raises(UsageError, match=r"lab:gone/loss.*no such file") as error:
        numbers.read_number("lab:gone/loss", tmp_path)
    assert "jumok lab gone" in str(error.value)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "norms.json").write_text('{"numbers": {"means": [1.5]}}')
    assert numbers.read_number("example:norms/means/0", tmp_path) == 1.5
    for path in ("example:norms/means/7", "example:norms/medians", "example:norms/means"):
        with pytest.raises(UsageError, match=r"nothing is at") as error:
            numbers.read_number(path, tmp_path)
        assert "jumok example norms" in str(error.value)


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_three_notes_on_cross_attention_stand_together_at_the_head_with_one_example(language):
    text = to_markdown(PAGE, language)
    head = text.partition("\n## 000")[0]
    assert [head.count(f"[{at}](#") >= 1 for at in CROSS] == [True] * 3
    assert PAGE.word(HEAD, language) in head
    assert {PAGE.find(at).verdict for at in CROSS} == {"right", "wrong"}
    assert {source for at in CROSS for source in PAGE.sources(PAGE.find(at))} == {"notes/cross.json"}
    anchors = set(re.findall(r'<a id="([^"]+)"', text))
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= anchors
    rows = [line for line in text.split("\n") if line.startswith("| <a id=")]
    assert len(rows) == 105
    assert {row.replace("\\|", "").count("|") for row in rows} == {7}


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_page_of_the_studio_has_all_statements_and_nothing_that_is_fetched(language):
    page = to_html(PAGE, language)
    assert f"lang='{language}'" in page
    for one in PAGE.statements:
        assert one.says[language].replace("<", "&lt;")[:20] in page
    assert "href" not in page
    assert "<script" not in page
    assert "src=" not in page


def test_what_the_words_say_about_a_number_is_true_of_it():
    """Where a text compares, a finding that is measured again may not contradict it."""
    numbers = PAGE.numbers
    assert numbers["lab:additive/additive/bleu"] < numbers["lab:additive/dot/bleu"]
    assert numbers["lab:additive/additive/update"] > numbers["lab:additive/dot/update"]
    assert numbers["lab:residual/without/loss"] > 1.5 * numbers["lab:residual/with/loss"]
    assert numbers["lab:table-1/crossings/whole"] >= numbers["lab:table-1/d"] / 2
    assert numbers["lab:table-1/lanes/convolution/chain/-1/1"] == 1
    assert numbers["lab:order/with/same"] < 0.5 < numbers["lab:order/without/same"]
    assert numbers["lab:norm/batch/small/perplexity"] > numbers["lab:norm/layer/small/perplexity"]
    assert numbers["lab:forcing/free"] < numbers["lab:forcing/forced"]
    assert numbers["lab:alignment/said/1/2"] < numbers["lab:alignment/diagonal"]
    assert 1 < numbers["example:memory/ratios/8"] < numbers["example:memory/ratios/1024"]
    assert numbers["example:wavelengths/fastest"] < numbers["example:wavelengths/slowest"]
    assert numbers["example:parameters/feed_forward_share"] == pytest.approx(2 / 3, abs=1e-5)
    assert numbers["example:decoding/m"] != numbers["example:decoding/n"]


# ------------------------------------------------------------------------------------------ commands


def test_statements_and_findings_agree_on_where_they_come_from():
    _, _, figures = read_texts()
    for name, figure in figures.items():
        for path in figure.get("values", {}).values():
            kind, _, rest = path.partition(":")
            program = {"example": "jumok example ", "lab": "jumok lab "}.get(kind)
            assert program is None or figure["command"] == program + rest.split("/")[0], name


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_on_the_page_is_understood(command):
    assert parse(Written("docs/notes.md", command, True)) is None


@pytest.mark.parametrize("command", [one for one in COMMANDS if one.startswith("jumok lab ")])
def test_a_claim_on_the_page_has_a_finding_on_disk(command):
    name = command.split()[-1]
    assert name in (*lab.NAMES, *lab.PAPER)
    assert (DOCS / "lab" / f"{name}.json").is_file()


@pytest.mark.parametrize("command", [one for one in COMMANDS if one.startswith(("jumok inside", "jumok look"))])
def test_commands_about_a_model_of_yours_run_on_a_small_model(command, jumok, micro):
    words = [str(micro) if word == "runs/demo" else word for word in shlex.split(command)[1:]]
    answer = jumok(*[word.replace("He hit me with a pie.", "a b c") for word in words])
    assert (answer.code, answer.err) == (0, "")
    assert "a b c →" in answer.out


CHEAP = [name for name in examples.NAMES if name not in ("flow", "cross", "padding", "decoding", "distance")]


@pytest.mark.parametrize("name", CHEAP)
def test_an_example_computes_what_its_finding_says(name, jumok):
    answer = jumok("example", name, "--json")
    assert answer.code == 0
    stored = json.loads((DOCS / "notes" / f"{name}.json").read_text())
    assert_close(json.loads(answer.out)["numbers"], stored["numbers"], name)
    for language in ("en", "ko"):
        shown = jumok("example", name, "--lang", language).out
        assert len(shown.split("\n")) > 4


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(examples.NAMES) - set(CHEAP)))
def test_an_example_that_trains_computes_numbers_like_those_of_its_finding(name, jumok):
    """The last digits of a training depend on the processor, so shapes are compared, and shares loosely."""
    answer = jumok("example", name, "--json")
    assert answer.code == 0
    stored = json.loads((DOCS / "notes" / f"{name}.json").read_text())
    assert_close(json.loads(answer.out)["numbers"], stored["numbers"], name, trained=True)


def assert_close(new, stored, place, *, trained=False):
    """Equal structure; equal whole numbers and texts; floats that agree, or for trainings are as large."""
    if isinstance(stored, dict):
        assert list(new) == list(stored), place
        for key in stored:
            assert_close(new[key], stored[key], f"{place}/{key}", trained=trained)
    elif isinstance(stored, list):
        assert len(new) == len(stored), place
        for number, (one, other) in enumerate(zip(new, stored, strict=True)):
            assert_close(one, other, f"{place}/{number}", trained=trained)
    elif isinstance(stored, float):
        assert isinstance(new, float | int), place
        assert trained or new == pytest.approx(stored, rel=1e-3, abs=1e-5), place
    elif not trained:
        assert new == stored, place
