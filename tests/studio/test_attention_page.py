"""The one-file page of `jumok look`, built of the studio's parts: its numbers are the model's, opened from disk."""

import pytest

from jumok.reports.attention import attention_page, display_piece
from jumok.translator import Translator
from tests.studio.test_save import reopened, save, titles
from tests.studio.test_screens import find_violations

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect


@pytest.fixture(scope="module")
def views(micro):
    model = Translator.load(micro, engine="torch")
    return [model.attention("a b c d"), model.attention("e f")]


@pytest.fixture(scope="module")
def file(views, bundle, tmp_path_factory):
    path = tmp_path_factory.mktemp("look") / "attention.html"
    path.write_text(attention_page(views, title="Two sentences", language="en"), encoding="utf-8")
    return path


def read_table(page):
    rows = page.locator("table.numbers tbody tr")
    return [[float(cell) for cell in rows.nth(r).locator("td").all_inner_texts()] for r in range(rows.count())]


def test_the_page_shows_the_weights_of_the_model(browser, views, file):
    with reopened(browser, file) as page:
        expect(page.locator(".pair")).to_have_text(f"{views[0].text} → {views[0].translation}")
        means = views[0].map("cross")
        assert read_table(page) == [pytest.approx(row, abs=0.0011) for row in means.tolist()]
        layers, heads = views[0].decoder.shape[:2]
        page.get_by_role("tab", name="Masked self-attention").click()
        page.get_by_role("button", name=f"layer {layers}, head {heads}").click()
        weights = views[0].map("decoder", layer=layers - 1, head=heads - 1)
        expect(page.locator("table.numbers caption")).to_contain_text(f"layer {layers}, head {heads}")
        assert read_table(page) == [pytest.approx(row, abs=0.0011) for row in weights.tolist()]
        page.get_by_role("slider").focus()
        page.keyboard.press("ArrowDown")
        pieces = [display_piece(one).strip() or "␣" for one in views[0].target]
        best = [display_piece(one).strip() or "␣" for one in views[0].fed][int(weights[1].argmax())]
        expect(page.locator("[data-number=cell]")).to_contain_text(f"Writing “{pieces[1]}”")
        expect(page.locator(".best li").first).to_contain_text(best)
        expect(page.locator(".best li").first).to_contain_text(f"{weights[1].max():.2f}"[:3])


def test_sentences_languages_and_themes_are_switched(browser, views, file):
    with reopened(browser, file) as page:
        page.get_by_role("button", name="Next sentence").click()
        expect(page.locator(".pair")).to_have_text(f"{views[1].text} → {views[1].translation}")
        page.get_by_role("button", name="한국어").click()
        expect(page.get_by_role("tab", name="크로스 어텐션")).to_be_visible()
        page.get_by_role("button", name="어둡게").click()
        assert page.locator("html").get_attribute("data-theme") == "dark"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_violation_and_nothing_is_wider_than_a_telephone(browser, file, node_modules, theme):
    with reopened(browser, file) as page:
        page.locator(".matrix").wait_for()
        page.evaluate(f"location.hash = '#/attention?lang=ko&theme={theme}'")
        page.locator(f"html[data-theme={theme}][lang=ko]").wait_for()
        assert find_violations(page, node_modules) == []
        page.set_viewport_size({"width": 400, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_its_pictures_and_the_page_itself_are_saved(browser, views, file, tmp_path):
    with reopened(browser, file) as page:
        picture = save(page, tmp_path, "Cross-attention, mean of all layers and heads as SVG")
        again = save(page, tmp_path, "The whole view, with its numbers as HTML")
    marks, _ = titles(picture)
    assert [float(one.rpartition(": ")[2]) for one in marks[1:]] == pytest.approx(
        views[0].map("cross").ravel().tolist(), abs=0.0011
    )
    with reopened(browser, again) as page:
        expect(page.locator("body")).to_contain_text(views[0].translation)
        assert page.locator(".drawing svg").count() == 3
