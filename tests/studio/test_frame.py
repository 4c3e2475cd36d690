"""The frame of the studio: bar, languages, themes, links, keyboard, policy."""

import re

import pytest

from tests.studio.conftest import opened

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect


def test_the_page_is_the_studio_under_a_strict_policy(served, bundle):
    status, page, headers = served.request("/")
    assert status == 200
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"\son\w+=|<script>|style=", page.decode())
    script = re.search(r'src="(/assets/studio\.js\?v=\w+)"', page.decode())[1]
    status, plain, headers = served.request(script)
    assert (status, plain) == (200, (bundle / "studio.js").read_bytes())
    _, _, headers = served.request(script, accept_encoding="gzip")
    assert headers["content-encoding"] == "gzip"
    assert "immutable" in headers["cache-control"]


def test_a_sentence_in_the_address_is_translated_and_the_server_never_sees_it_in_an_address(browser, served):
    with opened(browser, served, "#/translate?text=a+b+c&model=en-de") as page:
        expect(page.locator(".said")).to_have_text(re.compile(r"\w"))
    assert "a+b+c" not in served.log.read_text()


def test_languages_switch_in_the_bar_and_are_remembered(browser, served):
    with opened(browser, served) as page:
        page.get_by_role("link", name="Translate").wait_for()
        page.get_by_role("button", name="한국어").click()
        page.get_by_role("link", name="번역", exact=True).wait_for()
        assert page.locator("html").get_attribute("lang") == "ko"
        page.goto(f"{served.address}/#/translate")
        page.reload()
        page.get_by_role("link", name="번역", exact=True).wait_for()


def test_a_korean_browser_gets_korean(browser, served):
    context = browser.new_context(locale="ko-KR")
    page = context.new_page()
    page.goto(served.address)
    page.get_by_role("link", name="번역", exact=True).wait_for()
    context.close()


def test_the_theme_is_the_browsers_until_it_is_chosen(browser, served):
    with opened(browser, served, color_scheme="dark") as page:
        page.get_by_role("button", name="Light").click()
        assert page.locator("html").get_attribute("data-theme") == "light"
        assert "theme=light" in page.url
