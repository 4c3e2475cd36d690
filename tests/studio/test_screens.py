"""Every screen, in both themes and languages: no violation that axe finds, nothing wider than the window."""

import pytest

from tests.studio.conftest import opened

SCREENS = {  # place -> what is there when the screen is ready
    "translate?text=a+b+zorbel": ".target .word",
    "translate?text=a+b+c&other=twin&require=%5B%22d%22%5D&forbid=%5B%22e%22%5D": ".target .word",
    "translate?view=text&text=a.+b.": "textarea",
    "inside?text=a+b+c": ".cell",
    "inside?text=a+b+c&block=softmax": ".vectors table",
    "break?text=a+b+c&edits=%7B%22off%22:%5B%22mask%22%5D%7D": ".forced",
    "search?text=a+b+c&beam=3": ".tree .node",
    "training?smooth=10": ".chart canvas",
    "lab?claim=mask": ".claims li",
    "errors?order=long": ".controls",
}

SLOW = 120_000  # milliseconds until the engine with torch has started on a busy machine


def find_violations(page, node_modules):
    """What axe finds, as text."""
    page.evaluate((node_modules / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [f"{one['id']}: {node['html'][:200]} {node['failureSummary']}" for one in found for node in one["nodes"]]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("place", SCREENS)
def test_axe_finds_no_violation(browser, warmed, node_modules, place, language, theme):
    with opened(browser, warmed, f"#/{place}&lang={language}&theme={theme}") as page:
        page.locator(SCREENS[place]).first.wait_for(timeout=SLOW)
        page.wait_for_timeout(300)
        assert find_violations(page, node_modules) == []


@pytest.mark.parametrize("width", [1400, 900, 400])
@pytest.mark.parametrize("place", SCREENS)
def test_nothing_is_wider_than_the_window(browser, warmed, place, width):
    with opened(browser, warmed, f"#/{place}", width=width) as page:
        page.locator(SCREENS[place]).first.wait_for(timeout=SLOW)
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
