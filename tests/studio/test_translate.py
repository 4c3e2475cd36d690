"""Translate: a translator at work reads, chooses words, corrects and downloads."""

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from tests.studio.conftest import opened

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
WORDS = ".target .word"


def ask(served, path, **body):
    status, answer, _ = served.request(path, {"model": "en-de", **body})
    assert status == 200, answer
    return answer


def said(page):
    """The translation on the screen, once it is complete."""
    expect(page.locator(WORDS).first).to_be_visible()
    expect(page.locator(".target[aria-busy=false]").first).to_be_visible()
    return page.locator(".target").first.locator(".word").all_inner_texts()


def test_the_first_screen_says_what_the_model_learned_from_and_how_good_it_is(browser, served):
    card = served.request("/v1/models/en-de/card")[1]
    with opened(browser, served) as page:
        lead = page.locator(".lead")
        expect(lead).to_contain_text(f"{card['pairs']:,} sentence pairs")
        expect(lead).to_contain_text(f"BLEU {card['scores']['bleu']:.1f}")
        examples = page.locator(".examples button")
        expect(examples).to_have_count(len(card["examples"]))
        examples.first.click()
        expect(page.locator("textarea").first).to_have_value(card["examples"][0])
        [sentence] = ask(served, "/v1/translate", text=card["examples"][0])["translations"][0]["sentences"]
        assert " ".join(said(page)) == sentence["text"]


def test_words_that_the_training_text_never_had_are_underlined(browser, served):
    with opened(browser, served, "#/translate?text=a+b+zorbel&model=en-de") as page:
        expect(page.locator(".unknown")).to_have_text(["zorbel"])


def test_confidence_is_the_models_probability_of_the_word(browser, served):
    with opened(browser, served, "#/translate?text=a+b+c&model=en-de") as page:
        texts = said(page)
        [sentence] = ask(served, "/v1/translate", text="a b c", details=True)["translations"][0]["sentences"]
        shown = [float(one.get_attribute("data-probability")) for one in page.locator(WORDS).all()]
        assert texts == [word["text"] for word in sentence["words"]]
        assert shown == pytest.approx([word["probability"] for word in sentence["words"]])


def test_hovering_a_word_lights_up_its_sources_both_ways_and_asks_nothing(browser, served):
    with opened(browser, served, "#/translate?text=a+b+c+d&model=en-de") as page:
        said(page)
        page.wait_for_timeout(800)
        [sentence] = ask(served, "/v1/translate", text="a b c d", align=True)["translations"][0]["sentences"]
        asked = []
        page.on("request", lambda one: asked.append(one.url))
        source, target = sentence["alignment"][0]
        page.locator(WORDS).nth(target).hover()
        lit = sorted(int(one.get_attribute("data-word")) for one in page.locator(".copy .lit").all())
        assert lit == sorted(s for s, t in sentence["alignment"] if t == target)
        box = page.locator(f".copy [data-word='{source}']").first.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        expect(page.locator(f"{WORDS}.lit")).to_have_count(len({t for s, t in sentence["alignment"] if s == source}))
        assert asked == []


def test_a_click_on_a_word_offers_the_likeliest_words_and_the_rest_is_translated_again(browser, served):
    with opened(browser, served, "#/translate?text=a+b+c+d&model=en-de") as page:
        before = said(page)
        [sentence] = ask(served, "/v1/translate", text="a b c d", details=True)["translations"][0]["sentences"]
        choices = ask(served, "/v1/choices", text="a b c d", tokens=sentence["tokens"])["choices"]
        page.locator(WORDS).nth(1).click()
        menu = page.get_by_role("dialog")
        expect(menu.locator(".choice").first).to_be_visible()
        assert menu.locator(".choice").all_inner_texts() == [one["text"] or "end of the sentence" for one in choices[1]]
        other = next(one["text"] for one in choices[1] if one["text"] and one["text"] != before[1])
        menu.get_by_role("button", name=re.compile(rf"^{re.escape(other)}\s")).click()
        expect(page.locator(WORDS).nth(1)).to_have_text(re.compile(rf"^{re.escape(other)}\W*$"))
        assert said(page)[0] == before[0]
        expect(page).to_have_url(re.compile("begin="))
        page.get_by_role("button", name="Undo my choices").click()
        expect(page.locator(WORDS).nth(1)).to_have_text(before[1])


def test_words_are_required_and_forbidden_and_the_link_keeps_it(browser, served):
    with opened(browser, served, "#/translate?text=a+b+c&model=en-de") as page:
        first = said(page)[0]
        page.locator(WORDS).first.click()
        page.get_by_role("button", name=f"Never use “{first}”").click()
        expect(page.locator(".forbid .chip")).to_have_text([f"{first} ×"])
        expect(page.locator(WORDS).first).not_to_have_text(first)
        page.locator(WORDS).first.click()
        wanted = "g" if first != "g" else "h"
        page.get_by_label("Must contain").fill(wanted)
        page.get_by_role("button", name="Add").first.click()
        expect(page.locator(WORDS).filter(has_text=re.compile(f"^{wanted}$"))).not_to_have_count(0)
        rules = {"require": [wanted], "forbid": [first]}
        expected = ask(served, "/v1/translate", text="a b c", **rules)["translations"][0]["text"]
        expect(page).to_have_url(re.compile("require="))
        place = page.url.partition("#")[2]
    with opened(browser, served, f"#{place}") as page:
        expect(page.locator(".require .chip")).to_have_text([f"{wanted} ×"])
        assert " ".join(said(page)) == expected


def test_terms_of_the_glossary_are_used(browser, served):
    with opened(browser, served, "#/translate?text=a+b+c&model=en-de") as page:
        said(page)
        page.get_by_text("Glossary for this text").click()
        page.get_by_label("Term").fill("b")
        page.locator("input[name=translation]").fill("f")
        page.locator(".fold form").get_by_role("button", name="Add").click()
        expect(page.locator(WORDS).filter(has_text=re.compile("^f$"))).not_to_have_count(0)


def test_two_models_beside_each_other(browser, served):
    with opened(browser, served, "#/translate?text=a+b+c&model=en-de&other=twin") as page:
        one = said(page)
        expect(page.locator(".target").nth(1).locator(".word").first).to_be_visible()
        assert page.locator(".target").nth(1).locator(".word").all_inner_texts() == one
        expect(page.get_by_text("Both say the same.")).to_be_visible()
        assert page.locator(".differs").count() == 0


def test_the_request_in_code_runs(browser, served, tmp_path):
    with opened(browser, served, '#/translate?text=a+%27b%27+"c"&model=en-de') as page:
        text = " ".join(said(page))
        page.get_by_text("The same request in code").click()
        code = {}
        for language in ("curl", "Python", "JavaScript"):
            page.get_by_role("button", name=language, exact=True).click()
            code[language] = page.locator("pre code").last.inner_text()
    curl = subprocess.run(["bash", "-c", f"{code['curl']} -s"], capture_output=True, text=True, check=True)
    assert json.loads(curl.stdout)["translations"][0]["text"] == text
    python = subprocess.run([sys.executable, "-c", code["Python"]], capture_output=True, text=True, check=True)
    assert python.stdout.strip() == text
    assert "JSON.stringify" in code["JavaScript"]


def test_a_doubtful_sentence_is_marked_and_a_sure_one_is_not(browser, served):
    least = served.request("/v1/models/en-de/card")[1]["scores"]["doubt"]
    for require, doubtful in ((["zorbel"], True), ([], False)):
        answer = ask(served, "/v1/translate", text="a b c", details=True, require=require)
        [sentence] = answer["translations"][0]["sentences"]
        assert (sentence["log_probability"] / len(sentence["tokens"]) < least) == doubtful
        place = f"#/translate?text=a+b+c&model=en-de&require={json.dumps(require)}"
        with opened(browser, served, place) as page:
            said(page)
            assert page.locator(".doubtful").count() == int(doubtful)


WATCH = """() => {
    const button = document.querySelector("button[type=submit]"), now = () => performance.now();
    button.addEventListener("click", () => (window.began = now()), true);
    const isThere = () => Boolean(document.querySelector(".target-cell")?.value);
    const look = () => (isThere() ? (window.first = now() - window.began) : setTimeout(look, 5));
    look();
}"""
TEXT = "\n\n".join(" ".join(f"{a}ba {b}ed hid." for b in "abcdef") for a in "ABCDEF")


def test_a_text_in_segments_is_corrected_and_comes_out_as_tmx_and_tsv(browser, served, jumok, micro, tmp_path):
    with opened(browser, served, "#/translate?view=text&model=en-de") as page:
        page.get_by_label("Paste a text").fill(TEXT)
        page.get_by_role("button", name="Translate the text").click()
        expect(page.get_by_role("status")).to_contain_text("36 of 36 segments")
        sources = [one.input_value() for one in page.locator(".source-cell").all()]
        assert len(sources) == 36
        machine = page.locator(".target-cell").first.input_value()
        for row in range(31):
            cell = page.locator(".target-cell").nth(row)
            cell.fill(f"{cell.input_value()} a")
            cell.press("Control+Enter")
        expect(page.get_by_role("status")).to_contain_text("31 confirmed")
        expect(page.locator(".target-cell").nth(31)).to_be_focused()
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_role("status")).to_contain_text("30 confirmed")
        page.get_by_text("My corrections").click()
        files = {}
        for form in ("TMX", "TSV"):
            with page.expect_download() as download:
                page.get_by_role("button", name=f"Download {form}").click()
            files[form] = tmp_path / download.value.suggested_filename
            download.value.save_as(files[form])
    units = ElementTree.parse(files["TMX"]).getroot().findall("./body/tu")
    assert len(units) == 30
    assert units[0].findtext("prop") == machine
    assert [one.text for one in units[0].iter("seg")] == [sources[0], f"{machine} a"]
    rows = [line.split("\t") for line in files["TSV"].read_text(encoding="utf-8").splitlines()]
    assert rows[0][:3] == [sources[0], f"{machine} a", machine]
    assert len(rows) == 30
    done = jumok(
        "train", "--from", micro, "--table", files["TSV"], "--out", tmp_path / "run", "--set", "training.steps=3"
    )
    assert done.code == 0, done.err
    assert jumok("translate", tmp_path / "run", "a b c").code == 0


def test_an_edit_translates_only_its_own_segment(browser, served):
    with opened(browser, served, "#/translate?view=text&model=en-de") as page:
        page.get_by_label("Paste a text").fill("Abc bad. Bed cab. Fig jade.")
        page.get_by_role("button", name="Translate the text").click()
        expect(page.get_by_role("status")).to_contain_text("3 of 3 segments")
        others = [page.locator(".target-cell").nth(row).input_value() for row in (0, 2)]
        asked = []
        page.on("request", lambda one: asked.append(one.post_data_json) if one.method == "POST" else None)
        page.locator(".source-cell").nth(1).fill("f e d")
        expected = ask(served, "/v1/translate", text="f e d", format="sentence")["translations"][0]["text"]
        expect(page.locator(".target-cell").nth(1)).to_have_value(expected)
        assert [one["texts"] for one in asked] == [["f e d"]]
        assert [page.locator(".target-cell").nth(row).input_value() for row in (0, 2)] == others


LONG = 500  # sentences of ten words


def test_five_thousand_words_are_asked_for_once_in_parts_and_an_edit_alone(browser, served):
    letters = "abcdefghij"
    numbers = [letters[row // 100] + letters[row // 10 % 10] + letters[row % 10] for row in range(LONG)]
    sentences = [f"Jig {number} head {number} bad cab bed fade {number} hid." for number in numbers]
    assert len(set(sentences)) == LONG
    with opened(browser, served, "#/translate?view=text&model=en-de") as page:
        asked, answered, most = [], [], 0

        def begin(one):
            nonlocal most
            if one.url.endswith("/v1/translate"):
                asked.append(one.post_data_json["texts"])
                most = max(most, len(asked) - len(answered))

        page.on("request", begin)
        page.on("requestfinished", lambda one: answered.append(one) if one.url.endswith("/v1/translate") else None)
        page.get_by_label("Paste a text").fill("\n".join(" ".join(sentences[n : n + 5]) for n in range(0, LONG, 5)))
        page.evaluate(WATCH)
        page.get_by_role("button", name="Translate the text").click()
        expect(page.get_by_role("status")).to_contain_text(f"{LONG} of {LONG} segments", timeout=300_000)
        first, whole = page.evaluate("[window.first, performance.now() - window.began]")
        assert len(asked[0]) == 4, "something can be read at once"
        assert max(map(len, asked)) <= 48
        assert len(asked) <= 1 + LONG / 48 + 3
        assert sorted(text for some in asked for text in some) == sorted(sentences), "each of them once"
        assert most <= 2, "requests at a time"
        assert first < whole / 2
        if os.getloadavg()[0] < 0.5:
            assert first <= 300
            assert whole <= 5_000
        del asked[:]
        page.locator(".source-cell").nth(250).fill("a b c")
        expected = ask(served, "/v1/translate", text="a b c", format="sentence")["translations"][0]["text"]
        expect(page.locator(".target-cell").nth(250)).to_have_value(expected)
        page.wait_for_timeout(500)
        assert asked == [["a b c"]]


def test_a_long_text_goes_to_the_segments_and_typing_does_not_fill_the_address(browser, served):
    with opened(browser, served, "#/translate?model=en-de") as page:
        page.get_by_label("Text to translate").fill("Abc bad. " * 200)
        expect(page.get_by_label("Paste a text")).to_have_value("Abc bad. " * 200)
        page.wait_for_timeout(400)
        assert len(page.url) < 200
