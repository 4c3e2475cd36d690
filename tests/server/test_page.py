"""The page at `/` in a real browser: it translates, swaps and copies, at the width of a desk and of a telephone."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.running import Running

playwright = pytest.importorskip("playwright.sync_api", reason="needs a browser: pip install playwright, and chromium")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 60_000.0  # milliseconds for anything, on a busy machine
WIDTHS = (1400, 400)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=3 * PATIENCE)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def small(micro, tmp_path_factory) -> Iterator[Running]:
    """A server with the small page instead of the studio."""
    server = Running(tmp_path_factory.mktemp("page"), {"en-de": micro, "de-en": micro, "en-ko": micro}, studio=False)
    yield server
    assert server.stop() == 0


@pytest.fixture
def open_page(small, browser):
    """Open the page in a window of some width; whatever the browser complains about fails the test."""
    contexts, complaints = [], []

    def open_(width: int, query: str = "", script: str = "") -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, locale="en-GB")
        context.set_default_timeout(PATIENCE)
        context.grant_permissions(["clipboard-read", "clipboard-write"], origin=small.address)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if is_complaint(message) else None)
        if script:
            page.add_init_script(script)
        page.goto(f"{small.address}/{query}")
        page.wait_for_function("() => document.querySelectorAll('#target option').length > 0")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert complaints == []


def is_complaint(message: Any) -> bool:
    """Whether the browser complains about more than a refusal, which it always writes."""
    return message.type == "error" and "429" not in message.text


def wait_for(page: Any, where: str, text: str) -> None:
    page.wait_for_function("([where, text]) => document.querySelector(where).textContent === text", arg=[where, text])


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_translates_swaps_and_copies(small, open_page, width, tmp_path):
    page = open_page(width)
    page.select_option("#source", "en")
    page.select_option("#target", "de")
    page.fill("#text", "a b c")
    said = small.translate("a b c")
    wait_for(page, "#result", said)
    assert '\'{"q":"a b c"' in page.text_content("#curl")
    page.screenshot(path=tmp_path / f"page-{width}.png")
    page.click("#copy")
    wait_for(page, "#status", "Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == said
    page.click("#swap")
    wait_for(page, "#result", small.translate(said, source="de", target="en"))
    assert [page.input_value(f"#{name}") for name in ("source", "target", "text")] == ["de", "en", said]
    boxes = [page.locator(one).bounding_box() for one in ("#text", "#result", "#copy", "#swap", "#curl")]
    assert all(box is not None and box["x"] >= 0 and box["width"] > 0 for box in boxes)
    assert page.evaluate("document.documentElement.scrollWidth") <= width  # nothing is cut off at the side


def test_copying_works_where_the_browser_has_no_clipboard_for_pages_without_tls(small, open_page):
    script = "Object.defineProperty(navigator, 'clipboard', { value: undefined })"
    page = open_page(WIDTHS[0], "?q=d+e&source=en&target=de", script)
    said = small.translate("d e")
    wait_for(page, "#result", said)
    page.click("#copy")
    wait_for(page, "#status", "Copied.")
    page.fill("#text", "")
    page.focus("#text")
    page.keyboard.press("Control+V")
    assert page.input_value("#text") == said


def test_a_refusal_is_shown_and_text_is_never_markup(small, open_page):
    page = open_page(WIDTHS[0], "?q=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E&source=en&target=de")
    wait_for(page, "#result", small.translate("<img src=x onerror=alert(1)>"))
    assert page.locator("#result img").count() == 0
    page.route("**/translate", lambda route: route.fulfill(status=429, json={"error": "too many"}))
    page.fill("#text", "a")
    wait_for(page, "#status", "Not translated: too many")
