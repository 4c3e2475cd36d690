"""What a page gets: overview, blocks, steps, the map; and the walk of the command line."""

import base64
import json
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch

import jumok as package
from jumok.errors import UnknownName, UsageError
from jumok.inside import breaking, figure, steps, views
from jumok.inside.edits import Edits
from jumok.inside.passes import find_sizes, read, to_tensors
from jumok.inside.subject import translate
from jumok.inside.telling import to_json, to_lines, walk_page
from jumok.inside.tokens import describe_tokens, join_bytes, list_words
from jumok.inside.torch_inspector import outline
from jumok.inside.walk import Spot, take_walk
from jumok.models.base import END, START
from jumok.reports.terms import find_term, list_terms, read_terms
from jumok.reports.wording import Words
from jumok.translator import Translator
from tests.support import golden
from tests.support.helpers import OTHERS, VARIANTS, made

ROOT = Path(package.__file__).parent
TEXT = "f h b j c"
KINDS = {folder.name: folder for folder in golden.folders()}


@pytest.fixture(scope="module")
def tiny():
    return Translator.load(KINDS["tiny"], engine="torch")


def unpack(array: dict) -> np.ndarray:
    kind = "u1" if array.get("type") == "u1" else "<f4"
    return np.frombuffer(base64.b64decode(array["data"]), kind).reshape(array["shape"])


def question(folder: Path) -> str:
    first = golden.read_expected(folder)["questions"][0]
    texts = first.get("texts") or first.get("text") or "a b c"
    return texts if isinstance(texts, str) else texts[0]


# ------------------------------------------------------------------------------------------------- overview


def test_an_overview_holds_the_tokens_and_every_weight_of_the_model(tiny):
    view = views.overview(tiny, TEXT)
    source, target = tiny.vocabularies.source.encode(TEXT), tiny.vocabularies.target.encode(view["translation"])
    assert view["translation"] == tiny.translate(TEXT, beam=1).text
    assert [token["id"] for token in view["tokens"]["source"]] == [*source, END]
    assert [token["id"] for token in view["tokens"]["target"]] == [START, *target]
    assert [token["id"] for token in view["output"]] == [*target, END]
    assert view["words"] == {"source": TEXT.split(), "target": view["translation"].split()}
    with torch.no_grad():
        shown = tiny.model.attention(*to_tensors(source, target))
        chances = tiny.model.project(tiny.model.hidden(*to_tensors(source, target)))[0].softmax(dim=-1)
    for kind, one in view["maps"].items():
        np.testing.assert_array_equal(unpack(one["weights"]), getattr(shown, kind)[0].numpy())
        assert one["layers"] == list(range(one["of"]))
    for place, token in enumerate(view["output"]):
        assert token["probability"] == pytest.approx(float(chances[place, token["id"]]))
    json.dumps(view, allow_nan=False)


def test_a_long_sentence_gets_one_layer_at_a_time(tiny):
    long = " ".join("abcdefghij"[n % 10] for n in range(40))
    view = views.overview(tiny, long, long, drawing=False)
    assert all(one["layers"] == [0] for one in view["maps"].values())
    assert unpack(view["maps"]["encoder"]["weights"]).shape == (1, 2, 41, 41)
    alone = views.overview(tiny, long, long, drawing=False, layer=0, kind="cross")
    assert alone["maps"] == {"cross": view["maps"]["cross"]}
    with pytest.raises(UnknownName):
        views.overview(tiny, long, long, kind="crossed")
    with pytest.raises(UsageError, match="no layer"):
        views.overview(tiny, long, long, layer=7)


def test_an_overview_of_20_by_20_tokens_is_at_most_150_kilobytes():
    """As large as `tiny`: 4 + 4 layers of 4 heads; the rest of the answer is that of the golden model, in Korean."""
    view = views.overview(Translator.load(KINDS["tiny"], engine="torch"), "a b c d e f g h i j " * 2, language="ko")
    for one in view["maps"].values():
        one["weights"] = {"shape": [4, 4, 20, 20], "data": base64.b64encode(np.zeros(6400, "<f4").tobytes()).decode()}
    blocks = view["map"]["blocks"]
    view["map"]["blocks"] = [block for block in blocks for _ in range(4 if block["layer"] is not None else 1)]
    assert len(json.dumps(view, ensure_ascii=False, separators=(",", ":")).encode()) <= 150_000


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_model_shows_what_it_has_and_says_what_it_lacks(name):
    translator, text = Translator.load(KINDS[name], engine="torch"), question(KINDS[name])
    view = views.overview(translator, text, language="ko")
    kind = translator.recipe.model.kind
    assert (view["lacks"] is None) == (kind == "transformer")
    assert bool(view["maps"]) == (kind != "bytenet")
    for one in view["maps"].values():
        rows, columns = (len(view["tokens"][one[side]]) for side in ("rows", "columns"))
        assert one["weights"]["shape"][2:] == [rows, columns]
    for block in view["map"]["blocks"]:
        if not block.get("absent"):
            shown = views.block(translator, text, block["id"], view["translation"] or None)
            assert shown["values"] or shown["top"]
    json.dumps(view, allow_nan=False)


def test_an_answer_of_a_broken_model_can_be_written_as_json(tiny):
    edits = Edits(off={"residual", "norm", "scale", "positions", "mask"})
    for made_of in (views.overview(tiny, TEXT, edits=edits), views.steps(tiny, TEXT, edits=edits),
                    breaking.compare(tiny, TEXT, edits)):  # fmt: skip
        json.dumps(made_of, allow_nan=False)


# --------------------------------------------------------------------------------------------------- blocks


def test_a_block_holds_the_vectors_of_a_head_and_of_a_position(tiny):
    translation = tiny.translate(TEXT, beam=1).text
    pair = to_tensors(tiny.vocabularies.source.encode(TEXT), tiny.vocabularies.target.encode(translation))
    with torch.no_grad():
        blocks = read(tiny.model, *pair).blocks
    shown = views.block(tiny, TEXT, "decoder.0.cross", translation, head=1, at=2)
    assert (shown["rows"], shown["columns"], shown["heads"]) == ("target", "source", 2)
    for name in ("q", "k", "v", "products", "scores", "weights", "mixed"):
        np.testing.assert_array_equal(unpack(shown["values"][name]), blocks["decoder.0.cross"][name][0, 1].numpy())
    for name in ("input", "joined", "output"):
        np.testing.assert_array_equal(unpack(shown["values"][name]), blocks["decoder.0.cross"][name][0, 2].numpy())
    masked = views.block(tiny, TEXT, "decoder.0.attention", translation)
    mask = unpack(masked["values"]["mask"])
    assert np.array_equal(mask, np.tril(np.ones_like(mask)))
    weights = unpack(masked["values"]["weights"])
    assert (weights[mask == 0] == 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-5)


@pytest.mark.parametrize(
    ("block", "cell", "value"),
    [
        ("encoder.0.attention", ("q", 3, None), "q"), ("encoder.0.attention", ("k", 1, 2), "k"),
        ("decoder.0.cross", ("v", 2, 4), "v"), ("decoder.0.cross", ("q", 0, 1), "q"),
        ("decoder.0.cross", ("output", 5, 1), "output"), ("encoder.0.feed_forward", ("inner", 7, None), "inner"),
        ("decoder.0.feed_forward", ("output", 2, None), "output"),
    ],
)  # fmt: skip
def test_any_cell_opens_the_dot_product_that_made_it(tiny, block, cell, value):
    translation, (name, index, position) = tiny.translate(TEXT, beam=1).text, cell
    at = 1 if position is None or name in ("q", "output") else position
    shown = views.block(tiny, TEXT, block, translation, head=1, at=1, cell=cell)
    array, opened = unpack(shown["values"][value]), shown["cell"]
    number = array[at, index] if array.ndim == 2 else array[index]
    total = float(unpack(opened["input"]) @ unpack(opened["weights"])) + opened["bias"]
    assert opened["sum"] == pytest.approx(float(number), rel=1e-4, abs=1e-5)
    assert total == pytest.approx(opened["sum"], rel=1e-4, abs=1e-5)


def test_the_last_blocks_show_logits_and_probabilities_that_sum_to_one(tiny):
    shown = views.block(tiny, TEXT, "softmax", "c j b h f", at=1)
    assert shown["top"][0]["text"] == "j"
    assert sum(one["probability"] for one in shown["top"]) + shown["rest"] == pytest.approx(1.0)
    opened = views.block(tiny, TEXT, "output", "c j b h f", at=1, cell=("output", shown["top"][0]["id"], 1))["cell"]
    assert opened["sum"] == pytest.approx(shown["top"][0]["logit"], rel=1e-4)


def test_a_translation_can_be_given_as_ids_that_no_text_would_be_divided_into(tiny):
    vocabulary = tiny.vocabularies.target
    ids = [vocabulary.encode("c")[0], *[8 + 0x61]]  # a letter, and another one as a byte
    assert vocabulary.encode(vocabulary.decode(ids)) != ids
    view = views.overview(tiny, TEXT, ids)
    assert [token["id"] for token in view["tokens"]["target"]] == [START, *ids]
    assert view["given"]
    assert [step["in"]["id"] for step in views.steps(tiny, TEXT, ids)["steps"]] == [START, *ids]
    own = views.overview(tiny, TEXT)
    again = [token["id"] for token in own["tokens"]["target"][1:]]
    assert views.overview(tiny, TEXT, again)["maps"] == own["maps"]
    for wrong in ([3], [10**6], [-1]):
        with pytest.raises(UsageError, match="ids"):
            views.overview(tiny, TEXT, wrong)


def test_what_is_not_there_is_refused_with_what_is(tiny):
    for wrong in (
        {"name": "encoder.9.attention"}, {"name": "encoder.0.attention", "head": 2},
        {"name": "encoder.0.attention", "at": 99}, {"name": "encoder.0.attention", "cell": ("weights", 0, None)},
        {"name": "encoder.0.attention", "cell": ("q", 999, None)}, {"name": "output", "cell": ("output", 10**6, None)},
        {"name": "encoder.0.attention", "cell": ("q", 0, 999)},
    ):  # fmt: skip
        with pytest.raises(UsageError):
            views.block(tiny, TEXT, **wrong)
    with pytest.raises(UnknownName):
        views.overview(tiny, TEXT, language="de")
    with pytest.raises(UsageError, match="tokens"):
        views.overview(tiny, "a " * 600, "b")
    with pytest.raises(UsageError, match="no step"):
        views.steps(tiny, TEXT, "c j", at=9)


# ---------------------------------------------------------------------------------------------------- steps


def test_a_step_says_what_went_in_what_came_out_and_the_likeliest_words(tiny):
    told = views.steps(tiny, TEXT)
    target = tiny.vocabularies.target.encode(told["translation"])
    assert [step["in"]["id"] for step in told["steps"]] == [START, *target]
    assert [step["out"]["id"] for step in told["steps"]] == [*target, END]
    assert told["of"] == len(target) + 1
    for step in told["steps"]:
        chances = [word["probability"] for word in step["words"]]
        assert chances == sorted(chances, reverse=True)
        assert sum(chances) <= 1.0 + 1e-6
        assert len({word["text"] for word in step["words"]}) == len(step["words"]) <= 5
    assert views.steps(tiny, TEXT, told["translation"], at=2)["steps"] == [told["steps"][2]]


def test_words_are_whole_and_their_probability_is_that_of_all_their_subwords():
    """A made-up language model: ▁ab = ▁a b or ▁ab, ▁ac, END; all by hand."""

    class Vocabulary:
        names = ("<pad>", "<unk>", "<s>", "</s>", "4", "5", "6", "7", "▁a", "b", "c", "▁ab", "▁d")

        def pieces(self, ids):
            return [self.names[number] for number in ids]

        def decode(self, ids):
            return "".join(self.pieces(ids)).replace("▁", " ").strip()

    class Steps:
        def select(self, rows):
            return self

        def step(self, tokens):
            rows = np.full((len(tokens), 13), -30.0)
            for row, last in enumerate(tokens):
                if last == 8:  # after ▁a: b 0.6, c 0.3, a new word 0.1
                    rows[row, 9], rows[row, 10], rows[row, 12] = np.log(0.6), np.log(0.3), np.log(0.1)
                else:  # the word ends: half by END, half by ▁d
                    rows[row, 3], rows[row, 12] = np.log(0.5), np.log(0.5)
            return rows

    first = np.zeros(13)
    first[8], first[11], first[12], first[3] = 0.5, 0.2, 0.2, 0.1
    begins = np.array([name.startswith("▁") or name == "</s>" for name in Vocabulary.names])
    words = steps.complete(Steps(), first, Vocabulary(), begins, [], 5)
    found = {word.text: word.probability for word in words}
    assert found["ab"] == pytest.approx(0.5 * 0.6 + 0.2, abs=1e-4)  # two ways to write it, merged
    assert found["d"] == pytest.approx(0.2, abs=1e-4)
    assert found["⟨end⟩"] == pytest.approx(0.1, abs=1e-6)
    inside = np.zeros(13)
    inside[9], inside[12] = 0.7, 0.3
    words = steps.complete(Steps(), inside, Vocabulary(), begins, [12, 8], 5)
    assert {word.text: round(word.probability, 3) for word in words} == {"ab": 0.7, "d": 0.3}


def test_bytes_are_joined_to_characters_and_words_are_counted_by_spaces():
    assert join_bytes(["▁a", "<0xEB>", "<0x8B>", "<0xA4>", "<0xFF>", "▁", "</s>"]) == [
        "a",
        "다",
        "",
        "",
        "\ufffd",
        "␣",
        "⟨end⟩",
    ]
    vocabulary = Translator.load(KINDS["tiny"], engine="torch").vocabularies.source
    ids = vocabulary.encode("a 다나 b")
    told = describe_tokens(vocabulary, [START, *ids, END])
    assert (told[0]["word"], told[-1]["word"]) == (-1, -1)
    assert list_words(vocabulary, [START, *ids, END]) == ["a", "다나", "b"]
    assert "".join(token["text"] for token in told[1:-1]).replace("␣", "") == "a다나b"


# ------------------------------------------------------------------------------------------------- breaking


def test_before_and_after_are_the_translations_of_both_models(tiny):
    edits = Edits(off={"positions"})
    told = breaking.compare(tiny, TEXT, edits)
    source = tiny.vocabularies.source.encode(TEXT)
    after = translate(tiny, [source], edits)[0]
    assert told["before"]["text"] == tiny.translate(TEXT, beam=1).text
    assert told["after"]["text"] == tiny.vocabularies.target.decode(after.body)
    assert told["after"]["log_probability"] == pytest.approx(after.log_probability)
    assert bool(told["changed"]) == (told["before"]["text"] != told["after"]["text"])
    assert breaking.find_changes(["a", "b", "c"], ["a", "x", "c", "d"]) == [1, 3]
    assert breaking.find_changes(["a", "b"], ["a", "b"]) == []
    plain = breaking.compare(tiny, TEXT, Edits())
    assert plain["before"] == plain["after"]
    assert all(word["before"] == word["after"] for word in plain["forced"])
    product = np.prod([word["before"] for word in plain["forced"]])
    ends = views.overview(tiny, TEXT)["output"][-1]["probability"]
    assert np.log(product * ends) == pytest.approx(plain["before"]["log_probability"], abs=1e-3)
    mixed = breaking.compare(tiny, TEXT, Edits(shuffle=3))
    assert sorted(mixed["source"].split()) == sorted(TEXT.split())
    assert mixed["source"] != TEXT


# --------------------------------------------------------------------------------------------------- figure


@pytest.mark.parametrize("variant", [*VARIANTS, *(name for name in OTHERS if name.startswith(("gpt", "memory")))])
def test_the_parameters_of_the_blocks_are_those_of_the_model(variant):
    model = made(variant)
    drawn = figure.draw(outline(model))
    assert sum(block["parameters"] for block in drawn["blocks"]) == drawn["parameters"]
    assert drawn["parameters"] == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("variant", [*VARIANTS, *OTHERS])
def test_every_block_has_a_name_a_formula_and_a_line_of_code_that_exists(variant):
    for language in ("en", "ko"):
        drawn = figure.draw(outline(made(variant)), language)
        for name, one in drawn["types"].items():
            assert one["name"], name
            assert one["says"], name
            assert one["formula"].startswith("<math"), name
            assert bool(one["departs"]) == (one["paper"] is not None), name
            code = one["code"]
            lines = (ROOT / code["file"]).read_text(encoding="utf-8").split("\n")
            assert lines[code["line"] - 1].strip() == code["text"], name
            assert not code["text"].startswith('"""'), name


def test_the_papers_model_departs_nowhere_and_every_variant_says_where():
    assert not any(one["departs"] for one in figure.draw(outline(made("paper")))["types"].values())
    same = {"paper", "narrow-keys", "deep-encoder", "no-bias"}
    for variant in VARIANTS:
        departs = {name for name, one in figure.draw(outline(made(variant)))["types"].items() if one["departs"]}
        assert bool(departs) == (variant not in same), (variant, departs)
    types = figure.draw(outline(made("pre-norm")))["types"]
    assert {name for name, one in types.items() if one["departs"]} == {"norm", "add"}


def test_what_figure_1_has_and_a_model_has_not_is_marked_absent():
    blocks = figure.draw(outline(made("rotary")))["blocks"]
    assert [block["id"] for block in blocks if block.get("absent")] == ["source.positions", "target.positions"]
    assert blocks[1]["id"] == "source.positions"
    names = {block["id"] for block in figure.draw(outline(made("no-residual")))["blocks"] if block.get("absent")}
    assert "decoder.1.cross.add" in names


def test_the_order_of_the_blocks_is_that_of_the_computation():
    ids = [block["id"] for block in figure.draw(outline(made("paper")))["blocks"]]
    assert ids[:5] == ["source.embedding", "source.positions", "encoder.0.attention", "encoder.0.attention.add",
                       "encoder.0.attention.norm"]  # fmt: skip
    assert ids[-2:] == ["output", "softmax"]
    before = [block["id"] for block in figure.draw(outline(made("pre-norm")))["blocks"]]
    assert before.index("encoder.0.attention.norm") < before.index("encoder.0.attention")


def test_switches_say_what_the_lab_says_and_are_there_if_the_model_has_them():
    switches = {one["id"]: one for one in figure.list_switches(outline(made("plain-dot")), "ko")}
    assert switches["mask"]["claim"] == Words.read("mask")("claim").ko
    assert switches["mask"]["meaning"] == Words.read("mask")("meaning").ko
    assert switches["mask"]["available"]
    assert not switches["scale"]["available"]
    assert switches["scale"]["why"]
    sizes = find_sizes(made("paper"))
    assert {one["id"] for one in figure.list_switches(outline(made("paper"))) if one["available"]} == {
        "heads", "layers", "rows", "shuffle", *sizes.switches,
    }  # fmt: skip
    assert not any(one["available"] for one in figure.list_switches(outline(made("bytenet"))) if one["id"] != "shuffle")


# --------------------------------------------------------------------------------------------- walk and words


def test_a_walk_shows_the_numbers_of_the_row_it_walks_through(tiny):
    random = Random(3)
    for kind in ("encoder", "decoder", "cross"):
        head, at = random.randrange(2), random.randrange(1, 5)
        walk = take_walk(tiny, TEXT, spot=Spot(kind=kind, head=head, at=at), language="ko")
        name = "decoder.0.cross" if kind == "cross" else f"{kind}.0.attention"
        shown = views.block(tiny, TEXT, name, walk.translation, head=head, at=at)["values"]
        np.testing.assert_allclose(walk.numbers["weights"], unpack(shown["weights"])[at], rtol=1e-6)
        np.testing.assert_allclose(walk.numbers["q"], unpack(shown["q"])[at], rtol=1e-6)
        np.testing.assert_allclose(walk.numbers["mixed"], unpack(shown["mixed"])[at], rtol=1e-6)
        row = next(part for part in walk.parts if part.type == "weights")
        assert [float(cells[-1]) for cells in row.rows] == pytest.approx(walk.numbers["weights"], abs=5e-5)
        assert sum(walk.numbers["weights"]) == pytest.approx(1.0, abs=1e-5)
        text = "\n".join(to_lines(walk))
        assert walk.translation in text
        if kind == "decoder":
            assert "−∞" in text


@pytest.mark.parametrize("name", [name for name in KINDS if name != "bytenet"])
def test_models_of_every_kind_with_attention_can_be_walked_through(name):
    translator = Translator.load(KINDS[name], engine="torch")
    for language in ("en", "ko"):
        walk = take_walk(translator, question(KINDS[name]), language=language)
        page = walk_page(walk)
        assert page.count("<section>") == page.count("</section>") >= len(walk.parts)
        json.dumps(to_json(walk), allow_nan=False)
    if translator.recipe.model.kind == "transformer":
        assert "<math" in page


def test_a_walk_that_cannot_be_taken_is_refused(tiny):
    for wrong in ({"layer": 5}, {"head": 2}, {"head": -1}, {"at": 99}, {"kind": "crossed"}):
        with pytest.raises(UsageError):
            take_walk(tiny, TEXT, spot=Spot(**wrong))
    with pytest.raises(UsageError, match="no attention"):
        take_walk(Translator.load(KINDS["bytenet"], engine="torch"), TEXT)


def test_no_text_of_a_sentence_becomes_markup(tiny):
    page = walk_page(take_walk(tiny, "<script>alert(1)</script> & a"))
    assert "<script" not in page


def test_both_languages_have_the_same_texts():
    words = Words.read("inside", "inside/words")
    assert words.languages["en"].keys() == words.languages["ko"].keys()
    for key, text in words.languages["en"].items():
        other = words.languages["ko"][key]
        assert bool(text) == bool(other), key
        names = [sorted(part.split("}")[0].split(":")[0] for part in side.split("{")[1:]) for side in (text, other)]
        assert names[0] == names[1], key


def test_terms_are_explained_in_both_languages():
    assert find_term("cross-attention").ko == "크로스 어텐션(인코더-디코더 어텐션)"
    assert len(read_terms()) >= 35
    for term in read_terms().values():
        assert term.says_ko.endswith("다.")
        assert term.says_en.endswith(".")
        assert len(term.says_ko) < 90
    assert list_terms("ko")[0]["says"] != list_terms("en")[0]["says"]
    with pytest.raises(UnknownName):
        find_term("atention")


def test_the_command_prints_the_walk_writes_the_page_and_speaks_json(jumok, micro, tmp_path):
    out = jumok(
        "inside", micro, "a b c", "--layer", "1", "--head", "1", "--at", "2", "--html", tmp_path / "walk.html"
    ).out
    assert "q·k" in out
    assert "Softmax" in out
    page = (tmp_path / "walk.html").read_text(encoding="utf-8")
    assert "<math" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    told = json.loads(jumok("inside", micro, "a b c", "--kind", "encoder", "--at", "2", "--json").out)
    assert (told["kind"], told["at"]) == ("encoder", 2)
    assert sum(told["weights"]) == pytest.approx(1.0, abs=1e-5)
    assert "소프트맥스" in jumok("inside", micro, "a b c", "--target", "b c", "--lang", "ko").out
    refused = jumok("inside", micro, "a b c", "--layer", "9")
    assert refused.code == 2
    assert "there is no layer 9" in refused.err
