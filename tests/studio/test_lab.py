"""What Training and Lab share: curves as files, and a race that is started from listed texts."""

import pytest

from tests.studio.conftest import opened
from tests.studio.test_save import reopened, save, titles
from tests.studio.test_training import choose, server, workspace  # noqa: F401

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
SAID = 'event: output\ndata: {"text": "transformer: step 10"}\n\n'


def test_curves_are_saved_with_their_numbers(browser, server, tmp_path):  # noqa: F811
    with opened(browser, server, "#/training") as page:
        choose(page, "runs/other")
        page.get_by_role("slider", name="Training loss").wait_for()
        found, root = titles(save(page, tmp_path, "Training loss as SVG"))
        assert found == ["Training loss · step"]
        assert "runs/other 0.03333" in "".join(root.itertext())
        file = save(page, tmp_path, "The whole view, with its numbers as HTML")
    with reopened(browser, file) as page:
        loss = page.locator(".drawing", has=page.locator("svg[aria-label^='Training loss']"))
        rows = loss.locator("tbody tr").evaluate_all(
            "all => all.map((row) => [...row.cells].map((c) => c.textContent))"
        )
        assert (rows[0], rows[-1]) == (["1", "10"], ["300", "0.0333333"])
        assert len(rows) == 300
        expect(page.locator("body")).to_contain_text("a dog → ein Hund")


def test_a_race_is_started_from_texts_that_the_server_lists(browser, server):  # noqa: F811
    asked = []

    def begin(route):
        if route.request.method == "GET":
            return route.continue_()
        asked.append(route.request.post_data_json)
        return route.fulfill(json={"id": "task", "kind": "race", "name": "runs/fast", "running": True})

    with opened(browser, server) as page:
        page.route("**/v1/races", begin)
        page.route("**/v1/tasks/task/events", lambda route: route.fulfill(body=SAID, content_type="text/event-stream"))
        page.evaluate("location.hash = '#/lab?lang=en'")
        page.get_by_text("Start a race").click()
        page.locator("select[name=source] option").nth(1).wait_for(state="attached")
        page.get_by_label("bytenet").check()
        page.get_by_label("Source text").select_option("train.en")
        page.get_by_label("Target text").select_option("train.de")
        page.get_by_label("Minutes for each model").fill("2")
        page.get_by_label("Name").fill("fast")
        page.get_by_role("button", name="Start", exact=True).click()
        expect(page.get_by_role("log")).to_contain_text("transformer: step 10")
    expected = {"models": ["transformer", "rnn", "bytenet"], "source": "train.en", "target": "train.de", "minutes": 2}
    assert asked == [expected | {"recipe": "auto", "name": "fast"}]


@pytest.mark.parametrize(("language", "title"), [("en", "The notes, checked"), ("ko", "노트를 확인해 보았습니다")])
def test_the_page_about_the_notes_opens_in_a_frame(browser, server, language, title):  # noqa: F811
    with opened(browser, server, f"#/lab?lang={language}") as page:
        page.get_by_role("button", name=title).click()
        frame = page.frame_locator(f"iframe[title='{title}']")
        expect(frame.locator("h1")).to_have_text(title)
        expect(frame.locator("tr", has_text="001:105").first).to_contain_text("jumok example cross")
