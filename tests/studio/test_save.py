"""Save view: pictures as SVG and PNG, and one HTML file that is read again from disk, without server and requests."""

import re
import struct
import xml.etree.ElementTree as ElementTree
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from tests.studio.conftest import opened
from tests.studio.test_screens import find_violations

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
SLOW = 120_000  # milliseconds until the engine with torch has started on a busy machine
SVG = "{http://www.w3.org/2000/svg}"
PLACES = {  # place -> what is there when the screen is ready, titles of its pictures
    "translate?text=a+b+c+d": (".target .word", ["Translation with its source words and confidence"]),
    "inside?text=a+b+c+d&kind=cross&layer=0&head=0": (".cell", [
        "Figure 1, as this model has it", "Cross-attention, layer 1: all heads",
        "Cross-attention, layer 1, head 1: weights"]),
    "break?text=a+b+c&edits=%7B%22off%22:%5B%22mask%22%5D%7D": (".forced", []),
    "search?text=a+b+c&beam=3&alpha=0.6": (".tree .node", [
        "Search tree of “a b c”, beam width 3, length penalty 0.6"]),
}  # fmt: skip


def save(page, folder, name):
    """Save something from the menu; return the file."""
    if not page.locator("#save-menu").is_visible():
        page.get_by_role("button", name="Save view").click()
    with page.expect_download() as download:
        page.locator("#save-menu").get_by_role("button", name=name, exact=True).click()
    file = folder / download.value.suggested_filename
    download.value.save_as(file)
    return file


@contextmanager
def reopened(browser, file):
    """A saved page, opened from disk; leaving it checks that it asked for nothing and complained about nothing."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page, asked, complaints = context.new_page(), [], []
    page.on("request", lambda one: asked.append(one.url))
    page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
    page.goto(file.as_uri())
    try:
        yield page
        assert [one for one in asked if not one.startswith("data:")] == [file.as_uri()]
        assert complaints == []
    finally:
        context.close()


def titles(file):
    """The titles of the marks of a picture: what is at which place."""
    root = ElementTree.parse(file).getroot()
    return [one.text for one in root.iter(f"{SVG}title")], root


@pytest.mark.parametrize("place", PLACES)
def test_every_picture_of_a_screen_is_saved_as_svg_and_png(browser, warmed, tmp_path, place):
    ready, names = PLACES[place]
    with opened(browser, warmed, f"#/{place}&model=en-de") as page:
        page.locator(ready).first.wait_for(timeout=SLOW)
        page.get_by_role("button", name="Save view").click()
        labels = page.locator("#save-menu .save-row span").all_inner_texts()
        assert labels[:-2] == names
        for name in names:
            picture = save(page, tmp_path, f"{name} as SVG")
            found, root = titles(picture)
            assert found[0].startswith(name)
            assert "en-de" in root.findtext(f"{SVG}desc")
            assert f"{warmed.address}/#/" in root.findtext(f"{SVG}desc")
            raw = save(page, tmp_path, f"{name} as PNG").read_bytes()
            assert raw[:8] == b"\x89PNG\r\n\x1a\n"
            size = struct.unpack(">II", raw[16:24])
            assert size == (2 * int(root.attrib["width"]), 2 * int(root.attrib["height"]))


def test_the_marks_of_a_saved_matrix_are_the_numbers_on_the_screen(browser, warmed, tmp_path):
    """Which are those of torch: test_inside.py."""
    with opened(browser, warmed, "#/inside?text=a+b+c+d&model=en-de&kind=cross&layer=0&head=0") as page:
        page.locator(".cell").wait_for(timeout=SLOW)
        rows = page.locator(".row-names span").all_inner_texts()
        columns = page.locator(".column-names span").all_inner_texts()
        read = "all => all.map((row) => [...row.querySelectorAll('td')].map((one) => one.textContent))"
        weights = page.locator("table.numbers tbody tr").evaluate_all(read)
        marks, _ = titles(save(page, tmp_path, "Cross-attention, layer 1, head 1: weights as SVG"))
    assert marks[1:] == [
        f"{row} → {column}: {weights[y][x]}" for y, row in enumerate(rows) for x, column in enumerate(columns)
    ]
    assert len({one.rpartition(" ")[2] for one in marks[1:]}) > 5


def test_the_tree_is_saved_with_the_fate_of_every_hypothesis(browser, warmed, tmp_path):
    with opened(browser, warmed, "#/search?text=a+b+c&model=en-de&beam=3&alpha=0.6") as page:
        page.locator(".tree .node").first.wait_for(timeout=SLOW)
        marks, _ = titles(save(page, tmp_path, "Search tree of “a b c”, beam width 3, length penalty 0.6 as SVG"))
        file = save(page, tmp_path, "The whole view, with its numbers as HTML")
    asked = {"model": "en-de", "text": "a b c", "beam": 3, "length_penalty": 0.6}
    nodes = warmed.request("/v1/graph", asked, timeout=60)[1]["nodes"]
    assert [float(mark.rpartition(" ")[2]) for mark in marks[1:]] == [
        round(node["log_probability"], 3) for node in nodes
    ]
    assert sum("the translation" in mark for mark in marks) == 1
    with reopened(browser, file) as page:
        rows = page.locator(".drawing table tbody tr").evaluate_all("all => all.map((row) => row.cells[4].textContent)")
        assert [float(one) for one in rows] == [round(node["log_probability"], 3) for node in nodes]


def test_the_saved_page_says_model_date_link_and_all_numbers(browser, warmed, node_modules, tmp_path):
    with opened(browser, warmed, "#/inside?text=a+b+c+d&model=en-de&kind=cross&layer=0&head=0&row=1&column=0") as page:
        page.locator(".cell").wait_for(timeout=SLOW)
        page.wait_for_timeout(400)  # the address follows
        place = page.evaluate("location.href")
        seen = {
            name: page.locator(f"[data-number={name}]").inner_text() for name in ("product", "score", "weight", "sum")
        }
        weights = page.locator("table.numbers tbody tr").evaluate_all("all => all.map((row) => row.textContent)")
        file = save(page, tmp_path, "The whole view, with its numbers as HTML")
    assert file.name == "jumok-inside-en-de.html"
    text = file.read_text(encoding="utf-8")
    assert not re.search(r"<script|\son\w+=|<iframe|<input|<textarea|<button|javascript:", text)
    with reopened(browser, file) as page:
        expect(page.locator("h1").first).to_have_text("Jumok · Inside")
        head = page.locator(".saved-head")
        expect(head).to_contain_text("en-de")
        assert head.get_by_role("link").get_attribute("href") == place
        saved = datetime.fromisoformat(head.locator("time").get_attribute("datetime"))
        assert timedelta() <= datetime.now(UTC) - saved < timedelta(minutes=10)
        for name, value in seen.items():
            expect(page.locator(f"[data-number={name}]")).to_have_text(value)
        numbers = page.locator(".drawing", has=page.locator("svg[aria-label*='head 1: weights']"))
        table = numbers.locator("tbody tr").evaluate_all("all => all.map((row) => row.textContent)")
        assert table == weights
        assert page.locator(".drawing svg").count() == 3
        assert page.locator("math").count() >= 1
        assert find_violations(page, node_modules) == []


def test_a_saved_translation_shows_words_and_confidence(browser, served, tmp_path):
    with opened(browser, served, "#/translate?text=a+b+%3Cb%3E&model=en-de&lang=ko&theme=dark") as page:
        page.locator(".target .word").first.wait_for()
        expect(page.locator(".target[aria-busy=false]").first).to_be_visible()
        words = page.locator(".target .word").all_inner_texts()
        page.get_by_role("button", name="화면 저장").click()
        with page.expect_download() as download:
            page.get_by_role("button", name="숫자까지 담은 화면 전체: HTML 파일로 저장").click()
        file = tmp_path / download.value.suggested_filename
        download.value.save_as(file)
    answer = served.request("/v1/translate", {"model": "en-de", "text": "a b <b>", "details": True})[1]
    shown = [word["probability"] for word in answer["translations"][0]["sentences"][0]["words"]]
    with reopened(browser, file) as page:
        assert page.locator("html").get_attribute("lang") == "ko"
        assert page.locator("html").get_attribute("data-theme") == "dark"
        cells = page.locator(".drawing tbody tr").evaluate_all(
            "all => all.map((row) => [...row.cells].map((one) => one.textContent))"
        )
        assert [cell[1] for cell in cells] == words
        assert [float(cell[2].strip("<% ")) / 100 for cell in cells] == pytest.approx(shown, abs=0.0051)
        expect(page.locator("body")).to_contain_text("a b <b>")


def test_the_menu_closes_with_escape_and_gives_the_focus_back(browser, served):
    with opened(browser, served, "#/translate?text=a&model=en-de") as page:
        button = page.get_by_role("button", name="Save view")
        button.click()
        page.locator("#save-menu").wait_for()
        page.keyboard.press("Tab")
        page.keyboard.press("Escape")
        expect(page.locator("#save-menu")).to_have_count(0)
        expect(button).to_be_focused()
