"""Text to text: the facade, evaluation, the demo's report; on a micro model that has learnt next to nothing."""

from math import exp
from types import SimpleNamespace

import numpy as np
import pytest

import jumok
from jumok.data.corpora import Pair
from jumok.data.made import phrasebook
from jumok.errors import DataError, UsageError
from jumok.evaluation import metrics, ngrams
from jumok.evaluation.alignment import alignment_errors
from jumok.evaluation.evaluate import evaluate
from jumok.storage.info import describe
from jumok.text.boundaries import words_of
from jumok.training.validation import typical
from tests.training.test_training import MICRO

SENTENCES = ["a b c d", "e f g h a", "b", ""]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    from jumok.config.recipe import validate

    folder = tmp_path_factory.mktemp("translator") / "run"
    return jumok.train(recipe=validate(MICRO), out=folder)


@pytest.fixture(scope="module", params=["auto", "torch"])
def model(run, request):
    return jumok.load(run.folder, engine=request.param)


def test_one_sentence_gives_one_translation_and_a_list_gives_a_list(model):
    one = model.translate("a b c")
    many = model.translate(["a b c", "c b a"])
    assert many[0].text == one.text
    assert len(many) == 2
    assert str(one) == one.text


def test_a_blank_line_stays_blank_and_keeps_its_place(model):
    texts = ["a b", "", "   ", "c"]
    done = model.translate(texts)
    assert [one.source for one in done] == texts
    assert (done[1].text, done[2].text) == ("", "")


def test_the_run_and_its_model_folder_are_the_same_model(run):
    by_run, by_folder = jumok.load(run.folder), jumok.load(run.folder / "model")
    assert by_run.translate("a b c").score == by_folder.translate("a b c").score


def test_scores_of_translations_are_those_of_scoring(model):
    for one in model.translate(SENTENCES[:3], beam=1):
        if one.tokens[-1] == "</s>":
            (scored,) = model.score([one.source], [one.text])
            if scored.tokens == one.tokens:  # the text may be spelt with other subwords
                assert scored.log_probability == pytest.approx(one.log_probability, rel=1e-4)


def test_n_best_comes_best_first_and_widens_the_beam(model):
    best = model.translate("a b c d", n_best=4)
    scores = [best.score, *(other.score for other in best.alternatives)]
    assert len(scores) == 4
    assert scores == sorted(scores, reverse=True)


def test_attention_is_given_for_every_layer_and_head_where_asked(model):
    one = model.translate("a b c", attention=True)
    layers, heads, rows, columns = one.attention.cross.shape
    assert (layers, heads) == (1, 2)
    assert (rows, columns) == (len(one.attention.target), len(one.attention.source))
    assert one.attention.target[-1] == "</s>"
    assert one.attention.fed[0] == "<s>"
    np.testing.assert_allclose(one.attention.cross.sum(-1), 1.0, rtol=1e-5)
    assert model.translate("a b c").attention is None


def test_attention_of_a_given_translation(model):
    view = model.attention("a b c", "c b a")
    assert view.translation == "c b a"
    assert view.text == "a b c"


def test_streaming_says_the_greedy_translation(model):
    for text in SENTENCES:
        assert "".join(model.stream(text)) == model.translate(text, beam=1).text


def test_lines_are_translated_in_order_whatever_the_chunk(model):
    texts = [f"{'abcdefgh'[i % 8]} {'abcdefgh'[i // 8 % 8]}" for i in range(30)]
    whole = [one.text for one in model.lines(texts)]
    assert [one.text for one in model.lines(texts, chunk=7)] == whole


def test_sampling_is_by_seed_and_by_place_not_by_chunk(model):
    texts = ["a b c d"] * 6
    first = [one.text for one in model.lines(texts, sample=True, seed=1)]
    assert [one.text for one in model.lines(texts, sample=True, seed=1, chunk=2)] == first
    assert len(set(first)) > 1
    assert [one.text for one in model.lines(texts, sample=True, seed=2)] != first


def test_an_unknown_option_is_a_usage_error(model):
    with pytest.raises(UsageError, match="no option is called 'baem'; did you mean 'beam'"):
        model.translate("a", baem=3)


def test_json_holds_everything_but_attention(model):
    told = model.translate("a b", n_best=2, attention=True).to_json()
    assert set(told) == {
        "source",
        "text",
        "score",
        "log_probability",
        "tokens",
        "token_scores",
        "words",
        "alternatives",
        "alignment",
    }
    assert len(told["alternatives"]) == 1


def test_evaluation_is_sacrebleu_on_the_models_own_output(model, tmp_path):
    source, target = tmp_path / "test.a", tmp_path / "test.b"
    source.write_text("a b c d\nd c b a\n")
    target.write_text("a b c d\nd c b a\n")
    result = model.evaluate(source, target)
    ours = [one.text for one in model.translate(["a b c d", "d c b a"])]
    assert result.bleu == metrics.bleu(ours, ["a b c d", "d c b a"]).value
    assert list(result.hypotheses) == ours
    assert "version:" in result.scores["bleu"].signature
    assert any("BLEU" in line for line in result.lines())


def test_edit_rate_and_perplexity_are_told_only_where_they_were_asked_for(model, tmp_path):
    source, target = tmp_path / "test.a", tmp_path / "test.b"
    source.write_text("a b c d\nd c b a\n")
    target.write_text("a b d\nc b a e\n")
    plain, rich = model.evaluate(source, target), model.evaluate(source, target, ter=True, perplexity=True)
    assert rich.hypotheses == plain.hypotheses
    assert {name: rich.scores[name] for name in plain.scores} == plain.scores
    assert set(rich.to_json()) - set(plain.to_json()) == {"ter", "perplexity"}
    assert len(rich.lines()) == len(plain.lines()) + 2
    assert rich.scores["ter"] == metrics.ter(rich.hypotheses, ["a b d", "c b a e"])
    scored = model.score(["a b c d", "d c b a"], ["a b d", "c b a e"])
    gains = [gain for one in scored for gain in one.token_scores]
    assert rich.perplexity == pytest.approx(exp(-sum(gains) / len(gains)))


def test_scores_and_perplexity_do_not_depend_on_the_blocks_they_are_counted_in(model, monkeypatch):
    pairs = [Pair(f"a b {c} d", f"d {c} b a", 1) for c in "abcdefgh" * 3]
    whole = evaluate(model, pairs, perplexity=True)
    monkeypatch.setattr("jumok.evaluation.evaluate.SCORED", 5)
    monkeypatch.setattr(metrics, "BLOCK", 7)
    parts = evaluate(model, pairs, perplexity=True)
    assert (parts.scores, parts.hypotheses) == (whole.scores, whole.hypotheses)
    assert parts.perplexity == pytest.approx(whole.perplexity)
    with pytest.raises(DataError, match="nothing to evaluate"):
        evaluate(model, [])


def test_a_file_to_compare_with_that_does_not_fit_is_told_before_anything_is_translated(model, tmp_path, monkeypatch):
    (tmp_path / "other").write_text("a\n")
    monkeypatch.setattr(type(model), "lines", None)
    with pytest.raises(DataError, match="1 in the output to compare with, 2 in"):
        evaluate(model, [Pair("a", "b", 1)] * 2, compare=str(tmp_path / "other"))


def test_evaluation_against_another_output_says_whether_they_differ(model, tmp_path):
    for name in ("source", "target", "other"):
        (tmp_path / name).write_text("a b c d e f g h\n" * 12)
    paths = [str(tmp_path / name) for name in ("source", "target", "other")]
    result = model.evaluate(paths[0], paths[1], compare=paths[2])
    assert result.significance.b.value == pytest.approx(100.0)
    assert result.significance.difference < 0
    (tmp_path / "short").write_text("a\n")
    with pytest.raises(DataError, match="1 in the output to compare with, 12 in"):
        model.evaluate(paths[0], paths[1], compare=str(tmp_path / "short"))


def test_an_empty_test_set_is_an_error(model, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text("")
    with pytest.raises(DataError):
        model.evaluate(tmp_path / "a", tmp_path / "b")


def test_subwords_belong_to_the_word_that_a_mark_began():
    assert words_of(["▁I", "▁a", "te", "</s>"]) == [0, 1, 1, -1]
    assert words_of(["<s>", "no", "▁mark"]) == [-1, 0, 1]


def test_alignment_error_is_zero_where_attention_is_the_gold_and_one_where_it_never_is():
    phrase = phrasebook.Phrase("a b", "y x", ((0, 1), (1, 0)), False)
    right, wrong = (
        np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0, 0, 1.0]]),
        np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1]]),
    )
    view = SimpleNamespace(
        source=("▁a", "▁b", "</s>"), target=("▁y", "▁x", "</s>"), cross=np.stack([right, wrong])[None]
    )
    rates = alignment_errors(SimpleNamespace(attention=lambda text, translation: view), [phrase])
    assert rates.tolist() == [[0.0, 1.0]]


def test_the_description_names_sizes_and_scores(run):
    told = describe(run.folder)
    assert "1 + 1 layers, d_model 16" in told["model"]
    assert told["steps"] == 12


def test_the_sample_sentence_is_of_middling_length():
    assert typical([[1], [1, 2, 3], [1, 2], [1, 2], [1, 2, 3, 4]]) == 2


def test_the_demo_reports_on_unseen_sentences_and_writes_its_page(tmp_path):
    from jumok import demo
    from jumok.config import presets
    from jumok.runs.experiment import train

    small = presets.demo().change({
        "data.pairs": 400, "vocabulary.size": 900, "model.d_model": 16, "model.d_ff": 16, "model.heads": 2,
        "model.encoder_layers": 1, "model.decoder_layers": 1, "training.steps": 3, "training.minutes": None,
        "training.valid_pairs": 5,
    })  # fmt: skip
    train(recipe=small, out=tmp_path / "demo")
    report = demo.report(tmp_path / "demo", sentences=12)
    assert 0.0 <= report.bleu.value <= 100.0
    assert 0.0 <= report.particles <= 1.0
    assert 0.0 <= report.roles <= 1.0
    assert report.reversible == 3
    assert 0.0 <= report.aer <= 1.0
    assert report.page.read_text().startswith("<!doctype html>")
    assert len(report.examples) == 10
    assert "cross-attention head" in "\n".join(report.lines())
    assert "layer" in report.drawing(width=80, color=False)


# ------------------------------------------------------------------------------------------ wishes, words, links


def test_required_words_are_in_the_text_and_forbidden_ones_are_not(model):
    for beam in (1, 4):
        bound = model.translate("a b c d e f g h", beam=beam, require=["q", "h g"])
        assert "q" in bound.text.split()
        assert " h g " in f" {bound.text} "
    draw = {"sample": True, "n_best": 20, "temperature": 5.0, "seed": 7}
    free = model.translate("a b c d e f g h", **draw)
    words = {word for one in (free, *free.alternatives) for word in one.text.split() if word.isascii()}
    assert words
    bound = model.translate("a b c d e f g h", **draw, forbid=sorted(words))
    assert not words & {word for one in (bound, *bound.alternatives) for word in one.text.split()}


def test_wishes_are_the_same_for_all_or_one_for_each(model):
    texts = ["a b c", "d e f"]
    same = model.translate(texts, prefix="z")
    assert [one.text.split()[0] for one in same] == ["z", "z"]
    each = model.translate(texts, prefix=["y", ""], require=[["k"], []])
    assert each[0].text.startswith("y")
    assert "k" in each[0].text.split()
    assert each[1].text == model.translate(texts[1]).text
    with pytest.raises(UsageError, match="prefix"):
        model.translate(texts, prefix=["y"])


def test_alternatives_begin_with_the_prefix_and_then_differ(model):
    for prefix in ("b", "b a", "b ", ""):
        found = model.alternatives("a b c d", prefix, count=3)
        assert len({one.text for one in found}) == len(found) > 1
        assert all(f"{one.text} ".startswith(prefix) for one in found)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_the_words_of_a_translation_multiply_to_its_probability(model):
    for one in model.translate(SENTENCES[:3], beam=4, require=["k", "a"]):
        assert " ".join(word.text for word in one.words) == one.text
        ended = one.tokens[-1] == "</s>"
        rest = one.token_scores[-1] if ended else 0.0
        total = sum(np.log(word.probability) for word in one.words) + rest
        assert total == pytest.approx(one.log_probability, abs=1e-4)


def test_alignments_link_words_that_are_there(model):
    one = model.translate("a b c d", align=True)
    assert one.alignment is not None
    assert {target for _, target in one.alignment} == set(range(len(one.words)))
    assert all(0 <= source < 4 for source, _ in one.alignment)
    assert one.pharaoh == " ".join(f"{s}-{t}" for s, t in one.alignment)
    assert model.translate("a b c d").alignment is None


def test_the_risk_of_a_sample_is_least_where_it_is_most_like_the_others(model):
    drawn = model.translate("a b c d", sample=True, n_best=8, seed=3, temperature=0.5)
    texts = [drawn.text, *(other.text for other in drawn.alternatives)]
    likeness = ngrams.chrf_matrix(texts).mean(axis=1)
    chosen = model.translate("a b c d", mbr=8, seed=3)
    assert chosen.text == texts[int(likeness.argmax())]
    assert chosen.score == pytest.approx(float(likeness.max()), abs=1e-3)


def test_the_search_is_told_as_data(model):
    nodes = model.graph("a b c", beam=3)
    best = model.translate("a b c", beam=3)
    ended = [node for node in nodes if node["fate"] == "ended"]
    assert max(node["log_probability"] for node in ended) >= best.log_probability - 1e-5
    assert {node["piece"] for node in nodes if node["step"] == 0} >= {best.tokens[0]}


def test_an_ensemble_of_a_model_with_itself_is_the_model_also_when_it_scores(run, model):
    twice = jumok.load(run.folder, others=[run.folder])
    ours, theirs = twice.translate("a b c d", beam=3, align=True), model.translate("a b c d", beam=3, align=True)
    assert (ours.text, ours.alignment) == (theirs.text, theirs.alignment)
    assert ours.score == pytest.approx(theirs.score, abs=1e-5)
    one, other = twice.score(["a b"], ["b a"])[0], model.score(["a b"], ["b a"])[0]
    assert one.token_scores == pytest.approx(other.token_scores, abs=1e-5)
