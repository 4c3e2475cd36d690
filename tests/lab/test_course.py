"""The class: every number of a key is computed again, every answer of the quiz follows, every worksheet is one page."""

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from urllib.parse import parse_qsl
from xml.etree import ElementTree

import pytest

from jumok import lab
from jumok.errors import UsageError
from jumok.inside.edits import Edits
from jumok.lab.course import quiz, slides, worksheets
from jumok.lab.course.rules import evaluate
from jumok.lab.course.sheet import LANGUAGES, fill, find_value, pick, read_texts
from jumok.lab.examples import tree
from jumok.lab.notes.page import read_page
from tests.house.test_documents import Written, load, parse

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SHEETS = worksheets.read_sheets(DOCS)
QUESTIONS = quiz.read_questions(DOCS)
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def test_the_files_are_what_the_findings_say():
    tool = load(ROOT / "tools" / "course.py")
    written = tool.render_all(ROOT)
    for path, text in written.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: python tools/course.py writes it"
    there = {path for folder in LANGUAGES for path in (DOCS / "class" / folder).iterdir()}
    assert there == {path for path in written if path.parent.name in LANGUAGES}


# ------------------------------------------------------------------------------------------ worksheets


def test_there_are_six_worksheets_each_of_a_lesson():
    assert [sheet.id for sheet in SHEETS] == list("abcdef")
    assert {sheet.written["lesson"] for sheet in SHEETS} <= set(range(1, 6))


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda sheet: sheet.id)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_worksheet_asks_for_a_prediction_and_its_key_answers_everything(sheet, language):
    assert len(sheet.texts("predicted", language)) == len(sheet.texts("predict", language)) > 0
    assert len(sheet.texts("thought", language)) == len(sheet.texts("think", language)) > 0
    assert len(sheet.wrong(language)) >= 3
    page, key = worksheets.render(sheet, language), worksheets.render_key(sheet, language)
    assert "{" not in re.sub(r"<style>.*?</style>|<code>.*?</code>", "", page + key, flags=re.S)
    for blank in re.findall(r"class=blank[^>]*>([^<]*)<", page):
        assert blank == "&nbsp;"
    assert any(blank != "&nbsp;" for blank in re.findall(r"class=blank>([^<]*)<", key))
    assert "href" not in page + key


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda sheet: sheet.id)
def test_both_languages_of_a_worksheet_use_the_same_numbers_and_none_is_typed(sheet):
    korean, english = (json.dumps(sheet.written[language], ensure_ascii=False) for language in LANGUAGES)
    assert Counter(re.findall(r"{(\w+)", korean)) == Counter(re.findall(r"{(\w+)", english))
    cells = [cell for one in sheet.written["table"] for row in one.get("cells", []) for cell in row]
    for text in (korean, english, *cells):
        plain = re.sub(r"\d{3}:\d+(?:–\d+)?|\{[^}]*\}", "", text)  # lines of notes, and placeholders
        assert set(re.findall(r"\d+\.\d+|\d+ ?%", plain)) <= {"0.6", "1.5"}, (
            sheet.id
        )  # values of alpha that are asked about


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda sheet: sheet.id)
def test_commands_of_a_worksheet_exist(sheet):
    texts = [sheet.written["command"], *sheet.texts("predicted", "ko"), *sheet.texts("do", "ko")]
    for command in [texts[0], *(found for text in texts[1:] for found in re.findall(r"`(jumok [^`]+)`", text))]:
        assert parse(Written("worksheet", command, True)) is None


@pytest.fixture(scope="module")
def browser():
    """Chromium, which prints; the tests are skipped where there is none."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="needs a browser: pip install playwright, and chromium"
    )
    if BROWSER is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"], timeout=120_000)
        yield started
        started.close()


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("sheet", SHEETS, ids=lambda sheet: sheet.id)
def test_a_worksheet_and_its_key_are_one_printed_page_each(sheet, language, browser):
    for name in (sheet.id, f"{sheet.id}-key"):
        text = (DOCS / "class" / language / f"{name}.html").read_text(encoding="utf-8")
        assert count_pages(text, browser) == 1, name


def test_a_worksheet_that_is_too_long_is_noticed(browser):
    text = (DOCS / "class" / "ko" / "a.html").read_text(encoding="utf-8")
    assert count_pages(text.replace("</body>", "<p>x</p>" * 60 + "</body>"), browser) > 1


def count_pages(text: str, browser) -> int:
    """How many pages of A4 a browser prints."""
    page = browser.new_page()
    page.set_content(text)
    printed = page.pdf(prefer_css_page_size=True, print_background=True)
    page.close()
    boxes = re.findall(rb"/MediaBox\s*\[0 0 ([\d.]+) ([\d.]+)\]", printed)
    assert {tuple(round(float(side)) for side in box) for box in boxes} <= {(595, 842), (596, 842), (595, 841)}
    return len(re.findall(rb"/Type\s*/Page\b", printed))


# ------------------------------------------------------------------------------------------ quiz


def test_there_are_thirty_questions_about_five_lessons():
    assert len(QUESTIONS) == len({question.id for question in QUESTIONS}) == 30
    assert set(Counter(question.lesson for question in QUESTIONS)) == {1, 2, 3, 4, 5}
    assert len(Counter(question.right for question in QUESTIONS)) == 4  # the right one is not always in the same place


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.id)
def test_exactly_one_of_four_choices_is_right_by_computation(question):
    assert len(question.choices) == 4
    assert sum(choice.right for choice in question.choices) == 1
    assert question.choices[question.right].right
    for language in LANGUAGES:
        assert len({choice.says[language] for choice in question.choices}) == 4
        assert all(choice.why[language] for choice in question.choices)
    assert parse(Written("quiz", question.command, True)) is None
    assert question.note in ("", *(one.at for one in read_page().statements))


@pytest.mark.parametrize("written", read_texts("quiz")["question"], ids=lambda one: one["id"])
def test_no_number_of_an_answer_is_typed_and_both_languages_use_the_same(written):
    for choice in (written, *written["choice"]):
        for key in ("", "why_"):
            texts = [choice.get(f"{key}{language}", "") for language in LANGUAGES]
            assert Counter(re.findall(r"{(\w+)", texts[0])) == Counter(re.findall(r"{(\w+)", texts[1])), texts
            for text in texts:
                assert re.findall(r"\d+ ?%|\d\.\d", re.sub(r"\{[^}]*\}|5\.4", "", text)) == [], text


def test_another_finding_makes_another_answer_right(tmp_path):
    """The quiz reads findings: where the mask did not help, the answer is another one."""
    shutil.copytree(DOCS / "lab", tmp_path / "lab")
    written = next(one for one in read_texts("quiz")["question"] if one["id"] == "cheat")
    before = quiz.read_question(written, tmp_path)
    path = tmp_path / "lab" / "mask.json"
    finding = json.loads(path.read_text())
    finding["numbers"]["without"]["bleu"] = 99.0
    path.write_text(json.dumps(finding))
    after = quiz.read_question(written, tmp_path)
    assert [choice.says for choice in before.choices] == [choice.says for choice in after.choices]
    assert before.right != after.right
    assert "99.0" in after.choices[before.right].why["ko"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_answers_are_hidden_until_they_are_asked_for(language):
    page = quiz.to_html(QUESTIONS, language)
    assert page.count("<details>") == 30
    outside = re.sub(r"<details>.*?</details>", "", page, flags=re.S)
    for question in QUESTIONS:
        assert question.choices[question.right].why["en"][:40] not in outside
    assert page.count("class=right") == 30
    markdown = quiz.to_markdown(QUESTIONS, language)
    assert markdown.count("<details>") == markdown.count("</details>") == 30


# ------------------------------------------------------------------------------------------ rules and placeholders


@pytest.mark.parametrize(
    ("rule", "value"),
    [("a < b", True), ("a > b", False), ("a == 1 and b != a", True), ("b / a ** 2 - a", 1.0), ("a * 3 == b + 1", True),
     ("a < a", False), ("c == 1", True)],
)  # fmt: skip
def test_a_rule_is_computed(rule, value):
    assert evaluate(rule, {"a": 1, "b": 2.0, "c": 1.0000001}) == value


@pytest.mark.parametrize("rule", ["a < b < 3", "unknown == 1", "print(a)", "a is b", "a or b"])
def test_what_is_no_rule_is_refused(rule):
    with pytest.raises(UsageError):
        evaluate(rule, {"a": 1, "b": 2})


def test_placeholders_reach_into_tables_and_a_wrong_one_is_named():
    values = {"t": {"A A": {"■": 0.4}, "": [1, 2]}, "n": 3}
    assert fill("{t[A A][■]:.2f} {t[][1]} {n}", values) == "0.40 2 3"
    assert fill('{"off":["mask"]}', values) == '{"off":["mask"]}'
    for text in ("{m}", "{t[B]}", "{t[][2]}"):
        with pytest.raises(UsageError, match="no value"):
            fill(text, values)


def test_the_head_that_costs_most_is_found_in_the_finding():
    head = find_value("lowest:lab:heads/without", DOCS)
    numbers = json.loads((DOCS / "lab" / "heads.json").read_text())["numbers"]["without"]
    assert head["bleu"] == min(one["bleu"] for layers in numbers.values() for row in layers for one in row)
    assert numbers[head["kind"]][head["layer"] - 1][head["head"] - 1]["bleu"] == head["bleu"]
    assert find_value("highest:lab:heads/without/cross", DOCS)["kind"] == "cross"
    assert (pick("가|b", "ko"), pick("가|b", "en"), pick("x", "en")) == ("가", "b", "x")


# ------------------------------------------------------------------------------------------ figures


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_figure_is_valid_has_a_title_and_a_licence(language):
    figures = slides.draw_all(DOCS, language)
    assert set(figures) == {
        "figure-1",
        "three-attentions",
        "attention",
        "norms",
        "positions",
        "mask",
        "beam-tree",
        "distance",
    }
    for name, picture in figures.items():
        root = ElementTree.fromstring(picture)
        space = "{http://www.w3.org/2000/svg}"
        assert root.findtext(f"{space}title") == pick(read_texts("slides")["title"][name], language)
        assert "MIT" in (root.findtext(f"{space}desc") or "")


def test_the_figures_show_the_numbers_of_the_examples():
    english = slides.draw_all(DOCS, "en")
    weights = json.loads((DOCS / "notes" / "attention.json").read_text())["numbers"]["weights"]
    assert all(f">{one:.3f}<" in english["attention"] for row in weights for one in row)
    assert english["figure-1"].count("Add &amp; norm") == 5
    assert english["beam-tree"].count("<circle") == len(tree.draw_tree()) + 1 + 3  # and the root, and the legend


# ------------------------------------------------------------------------------------------ the examples behind it


def test_the_tree_agrees_with_all_sentences_of_the_table():
    """Brute force: what beam 4 finds is the best of all sentences by its score; their probabilities sum to 1."""
    numbers, sentences = tree.compute(), tree.list_sentences()
    assert sum(p for _, p in sentences) == pytest.approx(1)
    for alpha in tree.ALPHAS:
        best = max(sentences, key=lambda one: tree.penalize(tree.math.log(one[1]), len(one[0].split()), alpha))
        assert numbers["found"]["4"][str(alpha)]["words"] == best[0]
    assert numbers["found"]["1"]["0.0"]["p"] < numbers["found"]["2"]["0.0"]["p"]
    for node in numbers["tree"]:
        before = 1.0 if node["parent"] < 0 else numbers["tree"][node["parent"]]["p"]
        assert node["p"] == pytest.approx(before * node["gain"])


# ------------------------------------------------------------------------------------------ the plan of five lessons

PLANS = {"ko": "course.ko.md", "en": "course.md"}


def read_plan(language: str) -> list[str]:
    """The page, divided before each lesson."""
    text = (DOCS / PLANS[language]).read_text(encoding="utf-8")
    return re.split(r"^## (?=\d차시|Lesson \d)", text, flags=re.M)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_lesson_takes_fifty_minutes_without_a_gap(language):
    lessons = read_plan(language)[1:]
    assert len(lessons) == 5
    for lesson in lessons:
        times = [tuple(map(int, found)) for found in re.findall(r"^\| (\d+)–(\d+) \|", lesson, re.M)]
        assert [begin for begin, _ in times] == [0, *(end for _, end in times[:-1])]
        assert times[-1][1] == 50


@pytest.mark.parametrize("language", LANGUAGES)
def test_lessons_use_their_worksheets_the_quiz_and_misconceptions_of_the_notes(language):
    lessons = read_plan(language)[1:]
    page = (DOCS / {"ko": "notes.ko.md", "en": "notes.md"}[language]).read_text(encoding="utf-8")
    for number, lesson in enumerate(lessons, start=1):
        sheets = set(re.findall(rf"class/{language}/([a-f])\.html", lesson))
        assert sheets == {sheet.id for sheet in SHEETS if sheet.written["lesson"] == number}
        anchors = re.findall(r"notes(?:\.ko)?\.md#(n[\w-]+)", lesson)
        assert len(anchors) >= 3
        assert all(f'<a id="{anchor}"></a>' in page for anchor in anchors)
        assert "quiz" in lesson


def test_both_plans_have_the_same_commands_views_minutes_and_figures():
    korean, english = (
        [
            [re.findall(r"`(jumok [^`]+|#/[^`]+)`", part), re.findall(r"class/\w\w/([\w-]+\.\w+)", part),
             re.findall(r"\d+–\d+ \|", part), re.findall(r"#n[\w-]+", part)]
            for part in read_plan(language)[1:]
        ]
        for language in LANGUAGES
    )  # fmt: skip
    assert korean == english


def list_views() -> list[str]:
    texts = [(DOCS / page).read_text(encoding="utf-8") for page in PLANS.values()]
    return sorted({view for text in texts for view in re.findall(r"`(#/[^`]+)`", text)})


@pytest.mark.parametrize("view", [*list_views(), *(sheet.written["view"] for sheet in SHEETS)])
def test_a_view_names_a_screen_and_edits_that_the_studio_understands(view):
    screen, _, query = view.removeprefix("#/").partition("?")
    values = dict(parse_qsl(query))
    assert screen in {path.stem for path in (ROOT / "studio" / "src" / "screens").glob("*.tsx")}
    sources = "".join(path.read_text() for path in (ROOT / "studio" / "src").rglob("*.ts*"))
    for name in values:
        assert f'read("{name}")' in sources or f'readNumber("{name}"' in sources, name
    Edits.of(json.loads(values.get("edits", "{}")))
    assert values.get("claim", "forcing") in lab.NAMES
    assert values.get("kind", "cross") in ("encoder", "decoder", "cross")
