"""What heads do, attention as alignment, teacher forcing, search, figures 3 to 5: each claim can come out "no"."""

import json
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from jumok.data.corpora import Pair
from jumok.evaluation.alignment import alignment_errors
from jumok.inside.edits import Edits
from jumok.inside.scoring import score
from jumok.inside.surgery import change
from jumok.lab.claim import Finding, lines
from jumok.lab.claims import alignment, figures, forcing, heads, search
from jumok.lab.conduct import write
from jumok.lab.laboratory import Lab
from jumok.lab.looking import by_words, encoder_by_words
from jumok.lab.toys import fetch
from jumok.lab.toys.fitting import fit
from jumok.models.base import PAD
from jumok.reports.attention import AttentionView
from jumok.reports.charts import field_svg, links_svg, row_svg
from jumok.stopping import NEVER
from tests.house.test_house import ROOT as PACKAGE
from tests.lab.test_lab import MICRO

ROOT = PACKAGE.parent.parent


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Lab:
    """A lab in which nothing is learnt; its runs are shared by the tests of this file."""
    return Lab(tmp_path_factory.mktemp("lab"), factor=0.02, common=MICRO)


def holds(claim, numbers) -> list[bool]:
    return [check.holds for check in claim.check(numbers)]


def told(claim, numbers, folder) -> None:
    """The claim can be judged, drawn and told of these numbers."""
    finding = Finding(claim, numbers, "quick", 1.0)
    for language in ("en", "ko"):
        assert lines(finding, language)
        for path in write(finding, folder / language, language=language):
            if path.suffix == ".svg":
                ElementTree.fromstring(path.read_text())


def planted(given, map_of) -> SimpleNamespace:
    """A lab whose base model has exactly this attention; `map_of` gives (encoder, cross) over the words of each."""
    known = {one.english: one for one in given}

    def attention(text: str, translation: str | None = None) -> AttentionView:
        one = known[text]
        source = (*(f"▁{word}" for word in one.english.split()), "</s>")
        target = (*(f"▁{word}" for word in one.korean.split()), "</s>")
        encoder, cross = map_of(one, len(source), len(target))
        return AttentionView(source, target, encoder, np.zeros((0, 1, len(target), len(target))), cross)

    return SimpleNamespace(
        base=lambda: SimpleNamespace(model=SimpleNamespace(attention=attention), seconds=60.0),
        grade=lambda model: {"bleu": 50.0, "interval": [45.0, 55.0], "exact": 0.5},
        phrases=lambda count, split="test": given,
        stop=NEVER,
        seed=1,
        scale=SimpleNamespace(factor=0.02),
    )


def even(rows: int, columns: int) -> np.ndarray:
    return np.full((rows, columns), 1 / columns)


# ------------------------------------------------------------------------------------------ looking


def test_words_look_with_the_mean_of_their_pieces_at_the_sum_of_pieces():
    pieces = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    assert by_words(pieces, [0, 0, 1], [0, 1, 1]) == pytest.approx(np.array([[0.3, 0.7], [0.0, 1.0]]))
    assert by_words(pieces, [0, 1, -1], [0, 1, -1]) == pytest.approx(np.array([[0.1, 0.2], [0.5, 0.5]]))


def test_marks_are_no_words():
    encoder = np.arange(25.0).reshape(1, 1, 5, 5)
    cross = np.zeros((0, 1, 1, 5))
    view = AttentionView(("▁Jisu", ",", "▁you", "?", "</s>"), ("</s>",), encoder / 100, np.zeros((0, 1, 1, 1)), cross)
    assert encoder_by_words(view)[0, 0] * 100 == pytest.approx(np.array([[0.0, 2.0], [10.0, 12.0]]), rel=1e-5)


def test_pictures_side_by_side_are_one_picture_with_all_of_them():
    one, two = field_svg(np.eye(3)), links_svg(["a", "<b>"], ["c"], np.array([[0.5], [np.nan]]), title="t", groups=[0])
    both = ElementTree.fromstring(row_svg([one, two]))
    widths = [float(ElementTree.fromstring(svg).get("width")) for svg in (one, two)]
    assert float(both.get("width")) == pytest.approx(sum(widths) + 12, abs=1)
    assert len(list(both)) == 3  # a title and two groups
    assert "nan" not in row_svg([one, two])


# ------------------------------------------------------------------------------------------ heads


def test_a_head_is_named_after_what_it_does():
    view = AttentionView(
        ("▁a", "▁b", "c", "▁d", "</s>"), ("▁x", "▁y", "</s>"), np.stack([np.eye(5), np.eye(5, k=-1), even(5, 5)])[None],
        np.tril(np.ones((1, 1, 3, 3))), even(3, 5)[None, None],
    )  # fmt: skip
    view.encoder[0, 1, 0, 0] = 1.0
    phrase = heads.Parsed("a bc d", "x y", ((0, 0), (1, 1)), (4, 0, 8))
    done = heads.measure_jobs([view], [phrase], "encoder")
    assert [heads.name_job(given, done["even"], "encoder") for given in done["given"][0]] == [
        "itself",
        "previous",
        "broad",
    ]
    assert done["entropy"][0] == pytest.approx([0.0, 0.0, 1.0], abs=1e-6)
    assert np.sum(done["given"], axis=-1) == pytest.approx(1.0, abs=1e-3)
    links = np.zeros((1, 1, 3, 5))
    links[0, 0, 0, 0] = links[0, 0, 1, 2] = links[0, 0, 2, 4] = 1.0
    done = heads.measure_jobs(
        [AttentionView(view.source, view.target, view.encoder, view.decoder, links)], [phrase], "cross"
    )
    assert heads.name_job(done["given"][0][0], done["even"], "cross") == "saying"


def test_a_head_that_is_switched_off_changes_what_is_said_and_comes_back(lab):
    model = lab.base().model
    phrases = lab.phrases(10)
    before = heads.quality(model, phrases)
    for kind in heads.KINDS:
        with change(model.model, Edits(heads={(kind, 0, 1)})):
            assert heads.quality(model, phrases)["loss"] != before["loss"]
        assert heads.quality(model, phrases) == before


def test_a_head_that_is_off_has_the_same_bleu_in_the_lab_in_a_score_and_with_zeros_written_by_hand(lab):
    model, phrases = lab.base().model, heads.parse_sentences(lab)
    pairs = [Pair(phrase.english, phrase.korean, row) for row, phrase in enumerate(phrases, start=1)]
    for kind in heads.KINDS:
        found = heads.ablate(lab, model, phrases, kind)
        for layer, head in {(0, 0), (len(found) - 1, len(found[0]) - 1)}:
            scored = score(model, pairs, Edits(heads={(kind, layer, head)}))
            assert scored.after == found[layer][head]["bleu"]
            module = model.model.encoder[layer] if kind == "encoder" else model.model.decoder[layer]
            matrix = (module.cross if kind == "cross" else module.attention).output.weight
            width = matrix.shape[1] // module.attention.heads
            with torch.no_grad():
                kept = matrix.clone()
                matrix[:, head * width : (head + 1) * width] = 0.0
                by_hand = heads.quality(model, phrases)
                matrix.copy_(kept)
            assert by_hand == found[layer][head]


def test_heads_come_out_no_where_all_layers_have_one_head_and_all_heads_are_copies(lab, tmp_path):
    numbers = heads.measure(lab, heads=(1, 1), alike=True)
    assert holds(heads, numbers)[1:] == [False, False, False]
    assert heads.fetched(numbers, 4)[0]["right"] == heads.fetched(numbers, 4)[1]["right"]
    assert [numbers["done"][kind]["apart"] for kind in heads.KINDS] == pytest.approx([0, 0, 0], abs=1e-5)
    told(heads.CLAIM, numbers, tmp_path)
    intact = heads.measure(lab, heads=(1, 2))
    assert min(intact["done"][kind]["apart"] for kind in heads.KINDS) > 0


def test_marked_symbols_are_the_labels_in_the_order_of_their_marks():
    (symbols, marked), labels = fetch.strings(torch.Generator().manual_seed(1), 5, 3)
    for row in range(5):
        for mark in range(3):
            [place] = (marked[row] == mark + 1).nonzero()
            assert symbols[row, place] == labels[row, mark]
    assert (marked > 0).sum() == 15


def test_two_heads_fetch_what_each_looks_for_and_copies_of_one_do_not_differ():
    module = fit(lambda: fetch.Fetch(2, 2), lambda generator: fetch.strings(generator, 64, 2), steps=500, seed=1)
    assert fetch.measure_right(module, 2, 9) > 0.9
    roles = fetch.measure_roles(module, 2, 9)
    assert fetch.difference(roles) > 0.5
    assert fetch.chance_of_roles(module, 2, 9, 50) <= 1 / 51 + 1e-9
    fetch.make_alike(module)
    assert fetch.difference(fetch.measure_roles(module, 2, 9)) == pytest.approx(0.0, abs=1e-6)
    assert fetch.chance_of_roles(module, 2, 9, 50) == 1.0


def test_the_difference_of_roles_is_0_for_equal_and_1_for_disjoint_heads():
    assert fetch.difference([[0.5, 0.5], [0.1, 0.1]]) == pytest.approx(0.0)
    assert fetch.difference([[0.5, 0.0], [0.0, 0.9]]) == pytest.approx(1.0)


# ------------------------------------------------------------------------------------------ alignment


def test_error_rates_are_those_of_evaluate(lab):
    phrases, model = lab.phrases(10), lab.base().model
    mine = alignment.errors(alignment.views(model, phrases), [set(phrase.alignment) for phrase in phrases])
    assert mine == pytest.approx(alignment_errors(model, phrases))


def test_alignment_holds_of_a_model_that_aligns_and_not_against_shuffled_links(tmp_path):
    def maps(phrase, sources, targets):
        links = even(targets, sources)
        links[:-1] = 0.01
        for source, target in phrase.alignment:
            links[target, source] = 1.0
        cross = np.stack([[links, even(targets, sources)], [links, links[::-1]], [even(targets, sources)] * 2])
        return np.zeros((0, 1, sources, sources)), cross / cross.sum(axis=-1, keepdims=True)

    fake = planted(Lab(factor=1.0).phrases(40), maps)
    numbers = alignment.measure(fake)
    assert holds(alignment, numbers) == [True, True]
    assert numbers["said"][0][0] == pytest.approx(numbers["perfect"], abs=1e-4)
    told(alignment.CLAIM, numbers, tmp_path)
    assert not holds(alignment, alignment.measure(fake, links="shuffled"))[0]


def test_alignment_does_not_hold_of_a_model_that_has_learnt_nothing(lab):
    assert not holds(alignment, alignment.measure(lab))[0]


def test_guesses_by_chance_are_as_bad_as_they_are_told_to_be():
    phrases = Lab(factor=1.0).phrases(200)
    sure = [set(phrase.alignment) for phrase in phrases]
    random = np.random.default_rng(1)
    drawn = []
    for _ in range(20):
        guess = [
            {(int(random.integers(alignment.lengths(phrase)[0])), row) for row in range(alignment.lengths(phrase)[1])}
            for phrase in phrases
        ]
        drawn.append(alignment.alignment_error_rate(guess, sure))
    assert np.mean(drawn) == pytest.approx(alignment.by_chance(phrases, sure), abs=0.01)


# ------------------------------------------------------------------------------------------ forcing


def test_one_pass_and_many_agree_and_fed_with_the_reference_there_is_no_gap(lab, tmp_path):
    numbers = forcing.measure(lab)
    same = forcing.check(numbers)[3]
    assert same.holds
    assert numbers["time"]["together"]["passes"] == 1
    told(forcing.CLAIM, numbers, tmp_path)
    without = forcing.measure(lab, feed="reference")
    assert without["forced"] == without["free"]
    assert holds(forcing, without)[:3] == [False, False, False]


def test_up_to_the_first_mistake_both_ways_of_feeding_say_the_same(lab):
    model = lab.train("plain", {"training.steps": lab.steps(700)}).model
    batch = forcing.Batch.of(model, lab.phrases(10))
    forced = forcing.run_forced(model.model, batch)
    free = forcing.run_free(model.model, batch, "own")
    alive = [((said == batch.labels) | (batch.labels == PAD)).cumprod(dim=1) for said in (forced, free)]
    assert torch.equal(*alive)


def test_forcing_holds_where_every_mistake_breaks_the_rest():
    labels = torch.tensor([[5, 6, 7, 8, 9, 3], [5, 6, 7, 8, 9, 3]])
    forced, free = labels.clone(), labels.clone()
    forced[0, 1], free[0, 1:] = 4, 4
    found = forcing.compare(forcing.Batch(labels, labels, labels), forced, free)
    assert found["behind"] == {"forced": 1.0, "free": 0.0}
    assert found["moved"] == 0.0
    assert found["whole"] == 0.5
    assert found["late"]["forced"] - found["late"]["free"] == 0.5
    assert forcing.in_order([9, 5, 6, 8], [5, 6, 7, 8]) == 3


# ------------------------------------------------------------------------------------------ search


def test_a_wider_beam_finds_likelier_translations_and_equal_widths_gain_nothing(lab, tmp_path):
    numbers = search.measure(lab, widths=(1, 4, 16), alphas=(0.0, 0.6))
    assert search.check(numbers)[0].holds
    told(search.CLAIM, numbers, tmp_path)
    alike = holds(search, search.measure(lab, widths=(1, 1, 1), alphas=(0.0, 0.0)))
    assert alike == [False, False, False, False]


def test_each_length_penalty_is_judged_by_itself():
    def row(bleu: dict[float, float]) -> list[dict]:
        return [
            {"beam": 1, "alpha": alpha, "bleu": value, "likely": -2.0, "length": 1 + alpha}
            for alpha, value in bleu.items()
        ]

    found = ({0.0: 50.0, 0.6: 50, 1.0: 50}, {0.0: 54, 0.6: 54, 1.0: 50.1}, {0.0: 58, 0.6: 54, 1.0: 50})
    numbers = {"widths": [1, 4, 16], "alphas": [0.0, 0.6, 1.0], "grid": [row(each) for each in found]}
    verdicts = [(check.part, check.holds) for check in search.check(numbers)[2:]]
    assert verdicts == [("other", False), ("paper", True), ("other", False)]


# ------------------------------------------------------------------------------------------ figures


def test_figures_are_found_where_heads_do_it_and_not_with_the_grammar_of_others(tmp_path, monkeypatch):
    given = figures.sentences(SimpleNamespace(scale=SimpleNamespace(factor=0.02), seed=1))

    def maps(one, sources, targets):
        far, you, part = (even(sources, sources) for _ in range(3))
        for _, second in one.bound():
            far[second] = 0.0
        for first, second in one.bound():
            far[second, first] = 1.0
        if 0 < one.call < one.you:
            you[one.you] = 0.0
            you[one.you, : one.call] = 1.0
        for row, of in enumerate(one.parts):
            for column, other in enumerate(one.parts):
                part[row, column] += 5.0 * (of == other)
        encoder = np.stack([far, you, part, even(sources, sources)])[None]
        return encoder / encoder.sum(axis=-1, keepdims=True), np.zeros((0, 1, targets, sources))

    def nothing(one, sources, targets):
        return even(sources, sources)[None, None], np.zeros((0, 1, targets, sources))

    fake = planted(given, maps)
    monkeypatch.setattr(figures, "untrain", lambda model, seed: planted(given, nothing).base().model)
    numbers = figures.measure(fake)
    assert holds(figures, numbers) == [True, True, True]
    assert [numbers[figure]["best"] for figure in figures.FIGURES] == [[0, 0], [0, 1], [0, 2]]
    told(figures.CLAIM, numbers, tmp_path)
    assert holds(figures, figures.measure(fake, grammar="others")) == [False, None, False]
    monkeypatch.setattr(figures, "untrain", lambda model, seed: model)  # what is there before training was not learnt
    assert holds(figures, figures.measure(fake)) == [False, None, False]


def test_figure_4_is_open_where_the_sentences_have_no_pronouns_and_judged_where_they_have(tmp_path):
    numbers = json.loads((ROOT / "docs" / "lab" / "figures.json").read_text(encoding="utf-8"))["numbers"]
    assert [check.holds for check in figures.check(numbers)] == [True, None, False]
    assert [check.holds for check in figures.check(numbers | {"pronouns": 500})] == [True, False, False]


def test_a_pronoun_counts_after_a_name():
    def sentence(text: str) -> figures.Sentence:
        return figures.Sentence(text, "", (), (), 0, -1)

    given = [sentence("Jisu likes his hat."), sentence("He likes Jisu."), sentence("Jisu, where did you go?")]
    assert figures.count_pronouns(given) == 1


def test_figures_are_not_found_in_a_model_that_has_learnt_nothing(lab, tmp_path):
    numbers = figures.measure(lab)
    assert not any(holds(figures, numbers))
    assert holds(figures, numbers)[1] is None
    told(figures.CLAIM, numbers, tmp_path)


def test_far_words_belong_together_and_a_phrase_is_a_run_of_words():
    for one in figures.sentences(SimpleNamespace(scale=SimpleNamespace(factor=0.02), seed=2)):
        assert len(one.parts) == len(one.words)
        assert sorted(one.parts) == list(one.parts)
        for first, second in one.bound():
            assert second - first >= figures.FAR
            assert {k for e, k in one.alignment if e == first} & {k for e, k in one.alignment if e == second}
