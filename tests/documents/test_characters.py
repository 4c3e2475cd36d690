"""Tags in texts without spaces between words: links count characters."""

import re

import pytest

from jumok import documents
from jumok.translation import Translation


def render(page, target, links, language="en"):
    document = documents.read_html(page, language)
    [segment] = document.segments
    assert segment.align
    return document.render([Translation(segment.text, target, 0.0, 0.0, alignment=links)])


def test_a_tag_encloses_the_characters_that_its_word_is_linked_to():
    links = ((0, 0), (0, 1), (1, 2), (1, 3), (2, 4), (2, 5), (2, 6))  # 彼は 水泳 が好き
    assert render("He <b>swims</b> gladly.", "彼は水泳が好き。", links) == "彼は<b>水泳</b>が好き。"
    assert render("<i>He</i> swims <b>gladly</b>.", "彼は水泳が好き。", links) == "<i>彼は</i>水泳<b>が好き</b>。"


def test_the_order_of_characters_may_be_another():
    links = ((0, 4), (0, 5), (1, 0), (1, 1), (1, 2), (2, 3))
    assert render("<b>drink</b> coffee daily", "咖啡豆天喝着", links) == "咖啡豆天<b>喝着</b>"


def test_characters_of_a_source_without_spaces_are_linked_too():
    links = ((0, 0), (1, 0), (2, 1), (3, 1), (4, 2))
    assert render("彼は<b>水泳</b>だ。", "He swims indeed.", links, "ja") == "He <b>swims</b> indeed."


@pytest.mark.parametrize("links", [None, ()])
def test_without_links_tags_keep_their_share(links):
    out = render("He <b>swims</b> gladly.", "彼は水泳が好き。", links)
    assert re.sub("</?b>", "", out) == "彼は水泳が好き。"
    assert re.search("<b>[^<]+</b>", out)
