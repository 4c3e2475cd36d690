"""Positions, scale and linearity in the lab: what holds of them, and that each verdict comes out "no" when spoilt."""

from xml.etree import ElementTree

import pytest
import torch

from jumok.errors import UnknownName
from jumok.lab.claim import Claim, Finding, lines
from jumok.lab.claims import linearity, positions, relative, scale
from jumok.lab.laboratory import Lab
from jumok.lab.wording import LANGUAGES
from jumok.nn.attention import CrossAttention, SelfAttention
from jumok.nn.positions import sinusoid
from tests.lab.test_lab import MICRO


@pytest.fixture(scope="module")
def little(tmp_path_factory) -> Lab:
    """A lab in which everything takes a moment and nothing is learnt; its runs are shared."""
    return Lab(tmp_path_factory.mktemp("little"), factor=0.02, common=MICRO)


@pytest.fixture(scope="module")
def learning(tmp_path_factory) -> Lab:
    """A lab in which letters are reversed, now and then without a mistake, after three seconds."""
    changes = {"data.pairs": 4_000, "model.encoder_layers": 1, "model.decoder_layers": 1, "training.steps": 400}
    small = {"model.d_model": 32, "model.d_ff": 64, "model.heads": 2, "training.peak": 1e-2, "training.warmup": 50}
    return Lab(tmp_path_factory.mktemp("learning"), common=MICRO | changes | small)


def told(claim: Claim, numbers: dict) -> list[bool]:
    """What holds; everything is drawn and told on the way."""
    finding = Finding(claim, numbers, "quick", 1.0)
    for language in LANGUAGES:
        assert lines(finding, language)
        for picture in claim.draw(numbers, language):
            ElementTree.fromstring(picture.svg)
            assert picture.name.startswith(claim.name)
            assert picture.caption.of(language)
    return [check.holds for check in finding.checks]


# ------------------------------------------------------------------------------------------ positions


def test_letters_are_reversed_with_positions_and_not_without_them(learning):
    told_where, not_told = (positions.train_kind(learning, kind) for kind in ("sinusoidal", "none"))
    assert told_where["right_within"] > 0.1
    assert told_where["letters_within"] > not_told["letters_within"] + 0.1
    assert not_told["right_within"] <= 0.05
    numbers = {"lanes": dict.fromkeys(positions.KINDS, told_where), "longest": positions.LONGEST}
    assert not positions.check(numbers)[0].holds
    assert not positions.check({**numbers, "lanes": {**numbers["lanes"], "none": not_told}})[2].holds


def test_the_claim_about_positions_fails_where_the_model_without_them_has_them(little):
    numbers = positions.measure(little, without="sinusoidal")
    assert numbers["lanes"]["none"]["right"] == numbers["lanes"]["sinusoidal"]["right"]
    assert numbers["lanes"]["none"]["loss"] == numbers["lanes"]["sinusoidal"]["loss"]
    assert told(positions.CLAIM, numbers)[0] is False


def test_sentences_to_reverse_are_as_long_as_they_say_and_letters_are_counted_in_their_place():
    [pair, *others] = positions.sentences(13, 1)
    assert pair.source.split() == pair.target.split()[::-1]
    assert {len(one.source.split()) for one in others} == {13}
    assert positions.share_in_place("a b c", "a x c d") == 0.5
    assert positions.mean(range(13), beyond=True) == 9.5


# ------------------------------------------------------------------------------------------ relative


def test_sinusoids_have_one_matrix_for_every_offset(little):
    numbers = relative.measure(little)
    assert told(relative.CLAIM, numbers) == [True] * 5
    assert numbers["rounding"] < 1e-6  # the table of nn/positions.py is this one


def test_a_random_table_has_none(little):
    assert told(relative.CLAIM, relative.measure(little, table="random")) == [False, False, True, False, False]
    with pytest.raises(UnknownName, match="did you mean 'random'"):
        relative.measure(little, table="randon")


def test_the_rotation_moves_the_paper_s_formula_on():
    table = sinusoid(0, 40, relative.WIDTH).double()
    torch.testing.assert_close(table[:30] @ relative.rotation(7).T, table[7:37], atol=1e-6, rtol=0)


# ------------------------------------------------------------------------------------------ scale


def test_scores_grow_with_the_width_and_the_scale_takes_it_back(little):
    assert told(scale.CLAIM, scale.measure(little))[:3] == [True, True, True]


def test_no_scale_does_not(little):
    found = told(scale.CLAIM, scale.measure(little, power=0.0))
    assert found[0] is False
    assert not all(found)


def test_a_power_that_no_recipe_has_is_put_into_every_attention(little):
    run = scale.train_power(little, 1.0, 3e-3)
    found = [one for one in run.model.model.modules() if isinstance(one, SelfAttention | CrossAttention)]
    assert len(found) == 3
    assert {one.score.scale for one in found} == {1 / 256}
    other = scale.train_power(little, 0.5, 3e-3)
    assert other.folder != run.folder
    assert other.losses != run.losses


# ------------------------------------------------------------------------------------------ linearity


def test_attention_with_fixed_weights_is_linear_and_two_matrices_are_one(little):
    numbers = linearity.measure(little)
    assert told(linearity.CLAIM, numbers)[:3] == [True, True, True]
    assert numbers["linear"]["bent"]["free"] > 0.01  # the softmax itself is not
    assert numbers["linear"]["phrasebook"]["parameters"] == numbers["relu"]["phrasebook"]["parameters"]


def test_a_lane_that_bends_is_not_linear(little):
    found = told(linearity.CLAIM, linearity.measure(little, activation="relu"))
    assert found[:3] == [True, False, True]
    assert found[3:] == [False, False]  # the same runs are not better than themselves
