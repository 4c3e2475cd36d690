"""Inside, Break it and Search: a student's numbers are those of torch."""

import json
from math import exp

import pytest

from jumok.translator import Translator
from tests.studio.conftest import opened

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
SLOW = 120_000  # milliseconds until the engine with torch has started on a busy machine


@pytest.fixture(scope="module")
def model(micro):
    return Translator.load(micro, engine="torch")


def number(page, name):
    return float(page.locator(f"[data-number={name}]").inner_text().replace("−", "-"))


def test_a_student_walks_from_the_dot_product_to_the_weight(browser, warmed, model):
    with opened(browser, warmed, "#/inside?text=a+b+c+d&model=en-de&kind=cross&layer=0&head=0&row=1&column=0") as page:
        page.locator(".cell").wait_for(timeout=SLOW)
        translation = page.locator("[data-said=translation]").inner_text()
        weights = model.attention("a b c d", translation).cross[0][0]
        scores = {}
        for column in (0, 2):
            page.evaluate(f"location.hash = location.hash.replace(/column=\\d/, 'column={column}')")
            expect(page.locator("[data-number=weight]")).to_have_text(f"{weights[1][column]:.3f}")
            scores[column] = number(page, "score")
            width = (number(page, "product") / scores[column]) ** 2 if abs(scores[column]) > 0.05 else None
            assert width is None or width == pytest.approx(round(width), rel=0.05)
        ratio = weights[1][0] / weights[1][2]
        assert exp(scores[0] - scores[2]) == pytest.approx(ratio, rel=0.01)
        assert "1.000" in page.locator("[data-number=sum]").inner_text()
        rows = page.locator("table.numbers tbody tr")
        read = [[float(cell) for cell in rows.nth(t).locator("td").all_inner_texts()] for t in range(rows.count())]
        assert read == [pytest.approx(row, abs=6e-4) for row in weights[: len(read)].tolist()]


def test_the_mask_hides_what_comes_later(browser, warmed):
    with opened(
        browser, warmed, "#/inside?text=a+b+c+d&model=en-de&kind=decoder&layer=0&head=0&row=0&column=2"
    ) as page:
        page.locator(".cell").wait_for(timeout=SLOW)
        expect(page.locator(".cell")).to_contain_text("masked: −∞")
        assert number(page, "weight") == 0
        page.get_by_role("tab", name="Encoder self-attention").click()
        expect(page.locator(".cell")).not_to_contain_text("masked")


def test_a_cell_is_chosen_with_the_arrow_keys_and_the_address_keeps_it(browser, warmed):
    with opened(browser, warmed, "#/inside?text=a+b+c+d&model=en-de&kind=cross&row=0&column=0") as page:
        page.locator(".cell").wait_for(timeout=SLOW)
        page.get_by_role("slider").focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        expect(page.locator(".cell h3")).to_be_visible()
        assert "row=1" in page.url
        assert "column=1" in page.url


def test_decoding_goes_step_by_step(browser, warmed):
    with opened(browser, warmed, "#/inside?text=a+b+c&model=en-de") as page:
        page.locator(".step-numbers").wait_for(timeout=SLOW)
        tokens = page.locator(".tokens .token").all_inner_texts()
        expect(page.locator(".step-numbers b").nth(1)).to_have_text(tokens[0])
        page.get_by_role("button", name="Next step").click()
        expect(page.locator(".step-numbers b").nth(0)).to_have_text(tokens[0])
        expect(page.locator(".step-numbers b").nth(1)).to_have_text(tokens[1])
        assert 1 <= page.locator(".guess").count() <= 5


def test_every_block_of_the_map_opens_with_its_formula_and_its_line_of_code(browser, warmed):
    with opened(browser, warmed, "#/inside?text=a+b&model=en-de") as page:
        page.locator(".figure .block").first.wait_for(timeout=SLOW)
        page.locator(".figure details").evaluate_all("all => all.forEach((one) => (one.open = true))")
        blocks = page.locator(".figure .block:not([disabled])")
        seen = set()
        for row in range(blocks.count()):
            kind = next(name for name in blocks.nth(row).get_attribute("class").split() if name.startswith("type-"))
            if kind in seen:
                continue
            seen.add(kind)
            blocks.nth(row).click()
            expect(page.locator(".explanation math").first).to_be_visible()
            expect(page.locator(".explanation code")).not_to_be_empty()
            expect(page.locator(".right .card").first).to_be_visible()
        assert {"type-embedding", "type-cross", "type-masked", "type-norm", "type-feed_forward", "type-softmax"} <= seen


def test_switching_a_head_off_shows_what_the_server_says(browser, warmed):
    edits = {"heads": [["cross", 0, 0]]}
    with opened(browser, warmed, "#/break?text=a+b+c&model=en-de") as page:
        page.locator(".switches").wait_for(timeout=SLOW)
        page.get_by_role("switch", name="Cross, layer 1, head 1").click()
        status, answer, _ = warmed.request("/v1/break", {"model": "en-de", "text": "a b c", "edits": edits})
        assert status == 200
        expect(page.locator("[data-said=after]")).to_have_text(answer["after"]["text"])
        assert json.dumps(edits, separators=(",", ":")) in page.evaluate("decodeURIComponent(location.hash)")
        page.locator("[data-number=bleu-after]").wait_for(timeout=SLOW)
        _, cost, _ = warmed.request("/v1/break/score", {"model": "en-de", "edits": edits, "pairs": 500}, timeout=60)
        assert number(page, "bleu-after") == pytest.approx(cost["after"]["bleu"], abs=0.006)
        page.get_by_role("button", name="Switch everything on").click()
        expect(page.get_by_text("Nothing is switched off.")).to_be_visible()


def test_a_row_of_attention_is_edited(browser, warmed):
    with opened(browser, warmed, "#/break?text=a+b+c&model=en-de&kind=cross&layer=0&head=0&row=1") as page:
        page.locator(".row-editor").wait_for(timeout=SLOW)
        page.locator(".row-editor input").first.fill("1")
        expect(page.get_by_text("A row belongs to one sentence")).to_be_visible()
        assert '"rows"' in page.evaluate("decodeURIComponent(location.hash)")


def is_dead(node):
    """Whether the beam gave a hypothesis up at its second token, and it can be read."""
    return node["reason"] == "crowded_out" and node["step"] == 1 and "\ufffd" not in node["text"]


def test_the_tree_of_the_search_is_the_graph_of_the_server(browser, warmed):
    with opened(browser, warmed, "#/search?text=a+b+c&model=en-de&beam=3&alpha=0.6") as page:
        page.locator(".tree .node").first.wait_for(timeout=SLOW)
        _, answer, _ = warmed.request(
            "/v1/graph", {"model": "en-de", "text": "a b c", "beam": 3, "length_penalty": 0.6}, timeout=60
        )
        nodes = answer["nodes"]
        assert page.locator(".tree .node").count() == len(nodes)
        best = max((node for node in nodes if node["score"] is not None), key=lambda node: node["score"])
        expect(page.locator(".answer")).to_contain_text(best["text"])
        dead = next(row for row, node in enumerate(nodes) if is_dead(node))
        page.locator(".tree .node").nth(dead).click()
        expect(page.locator(".details")).to_contain_text("likelier ones filled the beam")
        expect(page.locator(".details")).to_contain_text(f"missed the beam by {abs(nodes[dead]['margin']):.3f}")
        page.get_by_role("button", name="Go on from here").click()
        expect(page.locator(".begun")).to_contain_text(nodes[dead]["text"])
        expect(page.locator(".answer")).to_contain_text(nodes[dead]["text"].strip())
