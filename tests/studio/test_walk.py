"""The guided walk: twelve steps, in both languages, over all screens, resumed by a link."""

import re

import pytest

from tests.studio.conftest import opened

STEPS = 12
PLACES = ["translate"] * 3 + ["inside"] * 4 + ["break"] * 2 + ["search", "training", "translate"]


@pytest.mark.parametrize(("language", "begin", "following", "last"), [
    ("ko", "3분 안내 시작", "다음", "마치기"),
    ("en", "Three-minute walk", "Next", "Finish"),
])  # fmt: skip
def test_the_walk_goes_through_its_steps_and_back(browser, served, language, begin, following, last):
    with opened(browser, served, f"#/translate?lang={language}") as page:
        page.get_by_role("button", name=begin).click()
        walk, titles = page.locator(".walk"), []
        for number in range(1, STEPS + 1):
            page.locator(".walk-count", has_text=re.compile(rf"^{number}\b")).wait_for()
            assert page.evaluate("location.hash").startswith(f"#/{PLACES[number - 1]}?")
            assert f"walk={number}" in page.evaluate("location.hash")
            titles.append(walk.locator("h2").inner_text())
            if number < STEPS:
                walk.get_by_role("button", name=following).click()
        assert len(set(titles)) == STEPS
        assert bool(re.search("[가-힣]", "".join(titles))) == (language == "ko")
        page.go_back()
        page.locator(".walk-count", has_text=re.compile(r"^11\b")).wait_for()
        page.go_forward()
        walk.get_by_role("button", name=last).click()
        page.get_by_role("button", name=begin).wait_for()


def test_a_link_resumes_the_walk_and_what_it_is_about_is_outlined(browser, served):
    with opened(browser, served, "#/translate?walk=1&lang=en") as page:
        page.locator(".walk h2", has_text="Choose a sentence").wait_for()
        page.locator("main .examples.pointed").wait_for()
        page.get_by_role("button", name="Leave the walk").click()
        page.wait_for_timeout(500)
        assert page.locator(".pointed").count() == 0
        assert "walk" not in page.url
