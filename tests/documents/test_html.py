"""HTML as browsers, content systems and Mastodon send it."""

import time
from pathlib import Path

import pytest

from jumok.documents import read_html
from tests.documents.support import backwards, same, scramble, shout, translate


def texts(page: str) -> list[str]:
    return [segment.text for segment in read_html(page, "en").segments]


def loud(page: str) -> str:
    return translate(read_html(page, "en"), shout).replace(" \u0416", "").replace("&#32;\u0416", "")


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<p>One <b>two</b> three.</p>", ["One two three."]),
        ("<p>One</p><div>two</div>three<ul><li>four<li>five</ul>", ["One", "two", "three", "four", "five"]),
        ("<td>a cell</td>  <td>another\n   cell</td>", ["a cell", "another cell"]),
        ("un<b>believ</b>able", ["unbelievable"]),
        ("<title>A page</title><h1>Heading</h1>", ["A page", "Heading"]),
        ("caf&eacute; &amp; bar &lt;3&#8230;", ["café & bar <3…"]),
        ("one<br>two", ["one two"]),
        ("Street 5<br>City", ["Street 5", "City"]),
        ("One<br><br>two", ["One", "two"]),
        ("<!-- hidden --><p>shown</p>", ["shown"]),
        ("<script>var x = 'no';</script><style>p { color: red }</style><p>yes</p>", ["yes"]),
        ("<pre>no</pre><textarea>no</textarea><p translate='no'>no</p><p class='a notranslate'>no</p>yes", ["yes"]),
        ("Run <code>rm -rf</code> now", ["Run now"]),
        ("<p translate=no>no <p>yes", ["yes"]),
        ('<div translate="no"><div>no</div> no</div> yes', ["yes"]),
        ("<p>123 &ndash; 456</p>", []),
        ('<img alt="A cat" src=x><a title=Home href=/>Go</a>', ["A cat", "Home", "Go"]),
        ('<input placeholder="Your name">', ["Your name"]),
        ('<meta name="description" content="About us"><meta name="robots" content="all words">', ["About us"]),
        ('<input type=submit value="Send it"><input type=text value="not this">', ["Send it"]),
        ("a < b and b > c", ["a < b and b > c"]),
    ],
)  # fmt: skip
def test_what_the_model_reads(page, expected):
    assert texts(page) == expected
    assert translate(read_html(page, "en"), same) == page


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<p>One <b>two</b>, three.</p>", "<p>ONE <b>TWO</b>, THREE.</p>"),
        ("<p><b>One, two.</b> Three.</p>", "<p><b>ONE, TWO.</b> THREE.</p>"),
        ("A <i>“word”</i> here", "A <i>“WORD”</i> HERE"),
        ("A “<i>word</i>” here", "A “<i>WORD</i>” HERE"),
        ("one<br>two <img src=a> three", "ONE<br>TWO <img src=a> THREE"),
        ("<b><i>all of it</i></b>", "<b><i>ALL OF IT</i></b>"),
        ("x <a href='?a=1&amp;b=2'>link</a> y", "X <a href='?a=1&amp;b=2'>LINK</a> Y"),
        ("a <i class=icon></i> b", "A <i class=icon></i> B"),
        ("&lt;b&gt; means bold", "&lt;b&gt; MEANS BOLD"),
        ('<a title="say &quot;hi&quot;">x y</a>', '<a title="SAY &quot;HI&quot;">X Y</a>'),
        ("<img alt=cat>", "<img alt=CAT>"),
    ],
)  # fmt: skip
def test_tags_stay_around_their_words(page, expected):
    assert loud(page) == expected


def test_words_move_with_their_tags():
    out = translate(read_html("<p>Press <b>the red</b> <i>button</i> now!</p>", "en"), backwards)
    assert out == "<p>now! <i>button</i> <b>red the</b> Press</p>"


def test_elements_are_nested_again_after_words_moved():
    out = translate(read_html("one <a>two <b>three</b></a> four", "en"), backwards)
    assert out == "four <a><b>three</b> two</a> one"


def test_an_attribute_without_quotation_marks_stays_one_attribute():
    out = translate(read_html("<img alt=cat src=a>", "en"), lambda text: ("une chatte 'noire'", None))
    assert out == "<img alt=une&#32;chatte&#32;&#39;noire&#39; src=a>"


def test_a_link_of_mastodon_is_left_alone():
    page = (
        '<p>Read <a href="https://a.org/b"><span class="invisible">https://</span><span class="ellipsis">a.org/b'
        '</span></a> by <span class="h-card"><a href="https://m.social/@kim">@<span>kim</span></a></span>!</p>'
    )
    assert texts(page) == ["Read by!"]
    assert '<span class="invisible">https://</span><span class="ellipsis">a.org/b</span></a> BY' in loud(page)


def test_a_tag_may_span_sentences():
    assert loud("<p>One <b>two. Three</b> four.</p>") == "<p>ONE <b>TWO. THREE</b> FOUR.</p>"


# ------------------------------------------------------------------------------------------ hostile

BAD = {
    "angles": "<" * 1_000_000,
    "openers": "<a" * 300_000,
    "quotes": "<a x=\"" * 150_000,
    "mixed quotes": '<a x="><b"' * 100_000 + "'",
    "nested": "<b>" * 100_000 + "word" + "</b>" * 100_000,
    "nested words": "<b>word " * 20_000,
    "nested blocks": "<div>" * 100_000 + "word",
    "closers": "word</b>" * 20_000,
    "empties": "word" + "<b></b>" * 50_000 + "word",
    "breaks": "a<br>" * 20_000,
    "ampersands": "&" * 500_000,
    "references": "&#x" * 200_000,
    "comments": "<!--" * 200_000,
    "scripts": "<script>" * 100_000,
    "excluded": "<p translate=no>" * 50_000,
    "spaces": "<a " + " " * 500_000 + ">b",
    "attributes": "<a " + "title='x y' " * 20_000 + ">b</a>",
    "percent": "%" * 200_000 + "{" * 200_000,
    "ats": "a@" * 200_000,
    "dots": "a." * 200_000,
    "words": "word " * 100_000,
    "one word": "x" * 500_000,
    "objects": "\ufffc" * 100_000 + "a",
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_hostile_pages_come_back_in_bounded_time(name):
    page = BAD[name]
    before = time.process_time()
    document = read_html(page, "en")
    assert translate(document, same) == page
    translate(document, scramble(1))
    assert time.process_time() - before < 10


# ------------------------------------------------------------------------------------------ real pages

PAGES = sorted(
    path
    for folder in ("/usr/share/doc", "/usr/share/javascript", "/usr/lib/python3", "/usr/local/share/doc")
    for path in Path(folder).glob("**/*.html")
    if path.is_file()
)[::7][:40]
OWN = [path for path in Path(__file__).parents[2].glob("**/*.html") if "node_modules" not in path.parts][:30]


@pytest.mark.skipif(not PAGES and not OWN, reason="no package with HTML pages is installed, such as python3-doc")
def test_real_pages_come_back_byte_for_byte():
    for path in [*PAGES, *OWN]:
        page = path.read_bytes().decode("utf-8", "surrogateescape")[:100_000]
        document = read_html(page, "en")
        assert translate(document, same) == page, path
        moved = translate(document, scramble(3))
        assert moved.count("<script") == page.count("<script"), path
