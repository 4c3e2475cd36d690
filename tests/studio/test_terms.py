"""Every symbol and label is explained on hover and on focus, from the one list of terms, without a request."""

import pytest

from jumok.reports.terms import read_terms
from tests.studio.conftest import opened

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
SLOW = 120_000  # milliseconds until the engine with torch has started on a busy machine
PLACES = {  # place -> what is there when the screen is ready, terms that are explained on it
    "inside?text=a+b+c&kind=cross": (".cell", {
        "dot-product", "scale", "softmax", "weighted-sum", "attention-weight", "query", "key", "value", "d-k", "w-o",
        "concat", "cross-attention", "layer-norm"}),
    "inside?text=a+b+c&block=softmax": (".vectors table", {"logit", "probability", "token", "exponential", "sum"}),
    "break?text=a+b+c&edits=%7B%22off%22:%5B%22mask%22%5D%7D": (".forced", {
        "mask", "positional-encoding", "scale", "residual", "layer-norm", "head", "layer", "bag-of-words", "score"}),
    "search?text=a+b+c&beam=3": (".tree .node", {
        "beam-search", "length-penalty", "rank", "hypothesis", "log-probability", "margin"}),
}  # fmt: skip
DESCRIBED = """all => all.map((one) => [
    one.dataset?.term ?? one.getAttribute("data-term"),
    document.getElementById(one.getAttribute("aria-describedby"))?.textContent ?? ""])"""


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("place", PLACES)
def test_labels_are_described_in_the_words_of_the_list(browser, warmed, place, language):
    ready, wanted = PLACES[place]
    terms = read_terms()
    with opened(browser, warmed, f"#/{place}&model=en-de&lang={language}") as page:
        page.locator(ready).first.wait_for(timeout=SLOW)
        page.wait_for_timeout(1_000)  # the numbers of the step come last
        described = dict(page.locator("main [aria-describedby^=says-]").evaluate_all(DESCRIBED))
        assert wanted <= described.keys()
        for key, text in described.items():
            assert text == f"{getattr(terms[key], language)}: {terms[key].explain(language)}"
        marked = set(
            page.locator("main [data-term]").evaluate_all("all => all.map((one) => one.getAttribute('data-term'))")
        )
        assert marked <= terms.keys()
        assert marked == described.keys(), "what is shown on hover is reached by the keyboard, too"


def test_every_symbol_of_a_formula_is_explained_and_asks_no_server(browser, warmed):
    terms = read_terms()
    with opened(browser, warmed, "#/inside?text=a+b+c&kind=cross&model=en-de&lang=ko") as page:
        page.locator(".cell").wait_for(timeout=SLOW)
        page.wait_for_timeout(800)
        bare = "all => all.filter((one) => !one.closest('[data-term]')).map((one) => one.textContent)"
        assert page.locator(".explanation mi").evaluate_all(bare) == []
        asked = []
        page.on("request", lambda one: asked.append(one.url))
        for key in ("d-k", "query", "transpose", "w-o"):
            page.mouse.move(5, 5)  # an explanation may cover the next symbol
            expect(page.locator(".tip")).to_have_count(0)
            page.locator(f".explanation math [data-term={key}]").first.hover()
            expect(page.locator(".tip")).to_contain_text(terms[key].says_ko)
            expect(page.locator(".tip")).to_contain_text(f"논문 {terms[key].section}절")
        page.keyboard.press("Escape")
        expect(page.locator(".tip")).to_have_count(0)
        assert asked == []


def test_terms_are_reached_and_read_with_the_keyboard(browser, warmed):
    terms = read_terms()
    with opened(browser, warmed, "#/inside?text=a+b+c&kind=cross&model=en-de&lang=en") as page:
        page.locator(".cell").wait_for(timeout=SLOW)
        page.locator(".formula").first.focus()
        seen = []
        for _ in range(3):
            page.keyboard.press("Tab")
            key = page.evaluate("document.activeElement.getAttribute('data-term')")
            expect(page.locator(".tip")).to_contain_text(terms[key].says_en)
            box = page.locator(".tip").bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 1400
            seen.append(key)
        assert len(set(seen)) == 3
        page.keyboard.press("Escape")
        expect(page.locator(".tip")).to_have_count(0)
