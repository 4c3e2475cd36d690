"""Laws of jumok.reports.attention: exact numbers, exact widths, and text that never becomes markup."""

import base64
import doctest
import hashlib
import html.parser
import json
import re
import unicodedata
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jumok.errors import UnknownName, UsageError
from jumok.reports import attention
from jumok.reports.attention import AttentionView, attention_page, heatmap_svg, terminal
from jumok.reports.curves import curves_svg, sparkline

EVIL = "</script><img src=x onerror=alert(1)>\"'&<!--{{data}}\x1b[31m\x00\ud800\u2028"
ENGLISH = ("▁A", "▁man", "▁rid", "es", "▁a", "▁bike", ".", "</s>")
KOREAN = ("▁남자가", "▁자전", "거를", "▁타고", "▁있다", ".", "</s>")
ANSI = re.compile(r"\x1b\[[0-9;]*m")
pieces = st.lists(st.one_of(st.sampled_from(ENGLISH + KOREAN + ("▁", "", "👩‍🚀", "e\u0301")), st.text(max_size=12)))


def softmax_maps(layers, heads, rows, columns, *, causal=False, seed=0):
    scores = np.random.default_rng(seed).normal(0, 2, (layers, heads, rows, columns))
    if causal:
        scores = np.where(np.tri(rows, columns, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def make_view(source=ENGLISH, target=KOREAN, *, layers=2, heads=3, **more):
    S, T = len(source), len(target)
    return AttentionView(
        source=tuple(source),
        target=tuple(target),
        encoder=softmax_maps(layers, heads, S, S),
        decoder=softmax_maps(layers, heads, T, T, causal=True),
        cross=softmax_maps(layers, heads, T, S, seed=1),
        **more,
    )


def columns_of(line):
    """The width of a line on the screen, computed independently of viz."""
    widths = {"W": 2, "F": 2}
    visible = [c for c in ANSI.sub("", line) if unicodedata.category(c) not in ("Mn", "Me")]
    assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in visible)
    return sum(widths.get(unicodedata.east_asian_width(c), 1) for c in visible)


class Page(html.parser.HTMLParser):
    """The elements of a page and the text of its data element, as a browser reads them."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.data, self.title = [], "", ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        self.elements.append(("/" + tag, {}))

    def handle_data(self, data):
        if self.elements and self.elements[-1] == ("script", {"type": "application/json", "id": "data"}):
            self.data += data
        if self.elements and self.elements[-1][0] == "title":
            self.title += data

    @property
    def content(self):
        return json.loads(self.data)


# ---- the view


def test_the_decoder_is_fed_the_start_and_then_what_it_produced():
    assert make_view().fed == ("<s>", *KOREAN[:-1])
    assert make_view(fed=KOREAN).fed == KOREAN


def test_a_map_without_layer_or_head_is_the_mean_over_them():
    view = make_view()
    np.testing.assert_allclose(view.map("cross", layer=1), view.cross[1].mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(view.map("cross", head=2), view.cross[:, 2].mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(view.map("encoder"), view.encoder.mean(axis=(0, 1)), rtol=1e-6)
    np.testing.assert_array_equal(view.map("decoder", layer=-1, head=0), view.decoder[-1, 0])


def test_rows_of_a_mean_still_sum_to_one():
    for kind in attention.KINDS:
        np.testing.assert_allclose(make_view().map(kind).sum(axis=-1), 1, rtol=1e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -0.5, 1.5])
def test_a_number_that_is_not_a_weight_is_refused(bad):
    cross = make_view().cross.copy()
    cross[0, 0, 0, 0] = bad
    with pytest.raises(UsageError, match="cross"):
        replace(make_view(), cross=cross)
    with pytest.raises(UsageError):
        heatmap_svg(cross[0, 0], KOREAN, ENGLISH)


def test_a_map_that_does_not_fit_its_pieces_is_refused():
    with pytest.raises(UsageError, match="encoder"):
        replace(make_view(), encoder=make_view().decoder)
    with pytest.raises(UsageError, match="2 columns"):
        heatmap_svg(np.eye(2), ["a"], ["b", "c"])


def test_a_layer_head_kind_or_language_that_does_not_exist_is_refused():
    with pytest.raises(UsageError, match="layer"):
        terminal(make_view(), layer=2)
    with pytest.raises(UsageError, match="head"):
        terminal(make_view(), head=-4)
    with pytest.raises(UnknownName, match="decoder"):
        terminal(make_view(), "decoderr")
    with pytest.raises(UnknownName, match="en"):
        attention_page([make_view()], language="english")


def test_a_model_without_self_attention_shows_only_its_cross_attention():
    view = replace(make_view(), encoder=np.zeros((0, 1, 0, 0)), decoder=np.zeros((0, 1, 0, 0)))
    assert view.kinds == ("cross",)
    assert list(Page(attention_page([view])).content["views"][0]["maps"]) == ["cross"]
    with pytest.raises(UnknownName):
        terminal(view, "encoder")


def test_the_examples_in_the_docstrings_are_true():
    assert doctest.testmod(attention) == (0, 1)


# ---- the terminal


@pytest.mark.parametrize("color", [True, False])
@pytest.mark.parametrize("kind", attention.KINDS)
@pytest.mark.parametrize("width", [20, 33, 60, 100, 200])
def test_no_line_is_wider_than_asked(width, kind, color):
    view = make_view(ENGLISH * 4, KOREAN * 4)
    lines = terminal(view, kind, width=width, color=color).split("\n")
    assert max(map(columns_of, lines)) <= width


@settings(max_examples=150, deadline=None)
@given(source=pieces, target=pieces, width=st.integers(20, 120), color=st.booleans())
def test_no_line_is_wider_than_asked_whatever_the_pieces_are(source, target, width, color):
    view = make_view(source or ["▁A"], target or ["</s>"], layers=1, heads=2)
    lines = terminal(view, width=width, color=color).splitlines()
    assert max(map(columns_of, lines)) <= width


def test_every_row_of_cells_ends_in_the_same_column_also_beside_korean():
    lines = terminal(make_view(), width=100).split("\n")
    assert len({columns_of(line) for line in lines[3:]}) == 1


def test_every_column_is_drawn_once_however_narrow_the_terminal():
    source = [f"▁w{index}" for index in range(40)]
    drawn = terminal(make_view(source, ["</s>"]), width=30, color=False)
    assert re.findall(r"\bw\d+\b", drawn) == [piece[1:] for piece in source]


def test_the_darkest_block_is_where_the_weight_is_greatest():
    view = make_view(["▁a", "▁b", "▁c"], ["▁x", "▁y", "▁z"], layers=1, heads=1)
    one = np.zeros((1, 1, 3, 3)) + 0.1
    one[0, 0, 0, 2] = one[0, 0, 1, 0] = one[0, 0, 2, 1] = 0.8
    rows = terminal(replace(view, cross=one), color=False).split("\n")[3:]
    places = [re.search("█+", row).start() for row in rows]
    assert places[1] < places[2] < places[0]


def test_without_colour_there_is_no_escape_sequence_and_no_piece_can_bring_one():
    view = make_view([EVIL, "\x1b[2J"], ["\x9b31m", EVIL])
    assert "\x1b" in terminal(view)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", terminal(view, color=False))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", ANSI.sub("", terminal(view)))


def test_the_caption_counts_layers_and_heads_from_one():
    assert "layer 2, head 1" in terminal(make_view(), layer=1, head=0)
    assert "layer 2, head 3" in terminal(make_view(), layer=-1, head=-1)
    assert "mean of 2 layers, mean of 3 heads" in terminal(make_view())


# ---- the page


@pytest.fixture(params=["built", "plain"])
def form(request, monkeypatch):
    """The page as it is made of the studio's parts, and the one that needs no build."""
    if request.param == "plain":
        monkeypatch.setattr(attention, "find_parts", lambda: None)
    elif attention.find_parts() is None:
        pytest.skip("the studio was not built: python tools/studio.py --force")
    return request.param


def test_the_page_contains_the_exact_numbers_to_three_decimals(form):
    views = [make_view(), make_view(KOREAN, ENGLISH, layers=1, heads=2)]
    for view, data in zip(views, Page(attention_page(views)).content["views"], strict=True):
        for kind in attention.KINDS:
            weights, found = getattr(view, kind), data["maps"][kind]
            assert (found["layers"], found["heads"]) == weights.shape[:2]
            embedded = np.reshape(found["weights"], weights.shape) / 1000
            np.testing.assert_allclose(embedded, weights, atol=0.0005 + 1e-7)


def test_the_page_shows_pieces_as_people_read_them(form):
    data = Page(attention_page([make_view()])).content["views"][0]
    assert data["source"] == [" A", " man", " rid", "es", " a", " bike", ".", "⟨end⟩"]
    assert data["fed"][:2] == ["⟨start⟩", " 남자가"]
    assert (data["text"], data["translation"]) == ("A man rides a bike.", "남자가 자전거를 타고 있다.")


def test_the_page_needs_nothing_but_itself(form):
    text = attention_page([make_view()]).replace("http://www.w3.org/", "")  # names of SVG and MathML
    assert not re.search(r"https?:|//cdn|@import|url\(|fetch\(|XMLHttpRequest|WebSocket|import\(", text)
    assert all(not {"src", "href", "srcset"} & attributes.keys() for _, attributes in Page(text).elements)
    assert "default-src 'none'" in text


def test_no_text_can_break_out_of_the_page(form):
    calm = Page(attention_page([make_view(["a", "b"], ["c"], text="t", translation="u")], title="v"))
    evil = Page(attention_page([make_view([EVIL, "{{title}}"], [EVIL], text=EVIL, translation=EVIL)], title=EVIL))
    assert evil.elements == calm.elements
    assert not re.search("[<>&]", evil.data)
    shown = EVIL.replace("\x1b", "�").replace("\x00", "�").replace("\ud800", "�").replace("\u2028", " ")
    assert evil.title == evil.content["title"] == evil.content["views"][0]["text"] == shown
    assert evil.content["views"][0]["source"] == [shown, "{{title}}"]


def test_only_its_own_script_and_sheet_run_in_the_page():
    if (parts := attention.find_parts()) is None:
        pytest.skip("the studio was not built: python tools/studio.py --force")
    text = attention_page([make_view()])
    policy = next(dict(a)["content"] for tag, a in Page(text).elements if dict(a).get("http-equiv"))
    assert "unsafe" not in policy
    for part, kind, tag in zip(parts, ("script-src", "style-src"), ("script", "style"), strict=True):
        digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
        assert f">{part}</" in text, "a browser hashes exactly what is between the tags"
        assert f"</{tag}" not in part.lower()


def test_the_page_never_turns_text_into_markup(monkeypatch):
    monkeypatch.setattr(attention, "find_parts", lambda: None)
    text = attention_page([make_view()])
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)


def test_the_page_opens_in_the_language_asked_for_and_holds_both(form):
    for language in attention.LANGUAGES:
        text = attention_page([make_view()], language=language)
        assert f'<html lang="{language}">' in text
        assert Page(text).content["language"] == language
        assert "Cross-attention" in text
        assert "크로스 어텐션" in text


def test_english_and_korean_have_the_same_interface_texts(monkeypatch):
    monkeypatch.setattr(attention, "find_parts", lambda: None)
    text = attention_page([make_view()])
    english, korean = (
        re.search(rf"\n  {language}: {{\n(.*?)\n  }},", text, re.S)[1] for language in attention.LANGUAGES
    )
    keys = [re.findall(r"(?:^ {4}|, |\{ )(\w+): ", block, re.M) for block in (english, korean)]
    assert len(keys[0]) > 20
    assert keys[0] == keys[1]


def test_a_page_about_nothing_is_refused():
    with pytest.raises(UsageError, match="no sentence"):
        attention_page([])


@pytest.mark.parametrize("tokens", [1, 200])
def test_one_token_and_two_hundred_tokens_can_be_drawn_everywhere(tokens):
    view = make_view(["▁말"] * tokens, ["▁word"] * tokens, layers=1, heads=1)
    assert len(Page(attention_page(iter([view]))).content["views"][0]["maps"]["cross"]["weights"]) == tokens**2
    assert columns_of(terminal(view, width=40).split("\n")[-1]) <= 40
    ElementTree.fromstring(heatmap_svg(view.map(), *view.labels("cross")))


# ---- standalone SVG


def test_svg_is_xml_and_holds_the_text_unchanged():
    nasty = "<b>&\"'</text></svg> ]]>"
    for svg in (
        heatmap_svg(np.eye(2), [nasty, "b"], ["c", "d"], title=nasty),
        curves_svg({nasty: [(0, 1), (1, 2)]}, x=nasty, y=nasty, title=nasty),
    ):
        root = ElementTree.fromstring(svg)
        assert nasty in {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
        assert not re.search("<(script|foreignObject|image|b)[ >]", svg)


@settings(max_examples=60, deadline=None)
@given(st.text(), st.lists(st.tuples(st.floats(), st.floats()), max_size=8))
@example("", [(0.0, 5e-324)])
def test_svg_is_xml_without_nan_whatever_it_is_given(text, points):
    for svg in (heatmap_svg(np.eye(1), [text], [text], title=text), curves_svg({text: points, "b": []}, title=text)):
        root = ElementTree.fromstring(svg.encode())
        numbers = [value for e in root.iter() for key, value in e.attrib.items() if key not in ("aria-label", "fill")]
        assert not re.search(r"\b(nan|inf)\b", " ".join(numbers))


def test_a_heat_map_has_one_square_per_cell_and_the_greatest_weight_is_darkest():
    matrix = np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])
    root = ElementTree.fromstring(heatmap_svg(matrix, ["a", "b"], ["c", "d", "e"]))
    paths = {e.get("fill"): e.get("d") for e in root.iter("{http://www.w3.org/2000/svg}path")}
    assert sum(path.count("M") for path in paths.values()) == matrix.size
    darkest = min(paths, key=lambda ink: sum(bytes.fromhex(ink[1:])))
    left, top = (min(float(m[i]) for p in paths.values() for m in re.findall(r"M([\d.]+) ([\d.]+)", p)) for i in (0, 1))
    place = re.fullmatch(r"M([\d.]+) ([\d.]+)h([\d.]+).*", paths[darkest])
    assert (float(place[1]) - left) / float(place[3]) == pytest.approx(2)
    assert float(place[2]) == top


def test_a_curve_falls_on_paper_where_it_falls_in_numbers():
    svg = curves_svg({"loss": [(0, 4.0), (1, 3.0), (2, 1.5)]})
    points = [tuple(map(float, pair.split(","))) for pair in re.search('points="([^"]+)"', svg)[1].split()]
    xs, ys = zip(*points, strict=True)
    assert list(xs) == sorted(xs)
    assert list(ys) == sorted(ys)  # SVG counts downwards
    assert (ys[1] - ys[0]) / (ys[2] - ys[0]) == pytest.approx(1.0 / 2.5, abs=0.01)


def test_a_loss_that_diverged_leaves_a_gap():
    whole = curves_svg({"loss": [(x, 1.0 + x) for x in range(6)]})
    broken = curves_svg({"loss": [(x, np.nan if x in (2, 3) else 1.0 + x) for x in range(6)]})
    assert whole.count("<polyline") == 1
    assert broken.count("<polyline") == 2


def test_names_of_curves_never_overlap():
    svg = curves_svg({f"run {index}": [(0, 1.0), (1, 1.0)] for index in range(30)})
    heights = [float(e.get("y")) for e in ElementTree.fromstring(svg).iter() if (e.text or "").startswith("run ")]
    assert len(heights) == 30
    assert min(np.diff(sorted(heights))) >= 12
    assert min(heights) >= 0


def test_no_curves_at_all_are_refused():
    with pytest.raises(UsageError):
        curves_svg({})


# ---- sparkline


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)), st.integers(1, 60))
def test_a_sparkline_of_rising_values_never_falls(values, width):
    bars = sparkline(sorted(values), width=width)
    assert list(bars) == sorted(bars)
    assert len(bars) == min(width, len(values))


def test_a_sparkline_spans_all_bars_and_leaves_what_is_not_finite_blank():
    assert sparkline(range(8)) == "▁▂▃▄▅▆▇█"
    assert sparkline([0, float("nan"), 7, float("inf")]) == "▁ █ "
    assert sparkline([3.0, 3.0]) == "▁▁"
    assert sparkline([]) == ""
    assert sparkline([0] * 50 + [1] * 50, width=2) == "▁█"
