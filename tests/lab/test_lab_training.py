"""The lab's claims about training: each comes out "no" where what it is about is taken away."""

import pytest

from jumok.lab.claim import Finding, lines
from jumok.lab.claims import averaging, norm, residual, smoothing, warmup
from jumok.lab.laboratory import Lab, Trained
from jumok.lab.wording import LANGUAGES
from jumok.storage.checkpoint import set_weights, weights
from tests.lab.test_lab import MICRO


@pytest.fixture
def micro_lab(tmp_path) -> Lab:
    """A lab in which every run takes a second and little is learnt."""
    return Lab(tmp_path / "lab", factor=0.02, common=MICRO)


@pytest.fixture
def little_lab(tmp_path) -> Lab:
    """A lab in which every run takes a few seconds and something is learnt."""
    return Lab(tmp_path / "lab", factor=0.1, common=MICRO | {"training.steps": 60, "training.peak": 1e-2})


def held(claim, numbers) -> list[bool]:
    """What holds; the finding is also told and drawn in both languages."""
    finding = Finding(claim, numbers, "quick", 1.0)
    for language in LANGUAGES:
        assert lines(finding, language)
        assert all(picture.svg.startswith("<") for picture in claim.draw(numbers, language))
    assert finding.holds is all(check.holds for check in finding.checks)
    return [check.holds for check in finding.checks]


def test_neighbours_disturb_batch_norm_and_do_not_disturb_layer_norm(micro_lab):
    assert held(norm.CLAIM, norm.measure(micro_lab))[0]


def test_the_norm_claim_does_not_hold_between_two_layer_norms_in_the_same_place(micro_lab):
    assert held(norm.CLAIM, norm.measure(micro_lab, norms=("layer", "layer"), places=("pre", "pre"))) == [False] * 4


def test_without_residual_connections_neither_gradients_nor_words_come_through(micro_lab):
    assert held(residual.CLAIM, residual.measure(micro_lab))[:2] == [True, True]


def test_the_residual_claim_does_not_hold_where_both_have_them(micro_lab):
    assert held(residual.CLAIM, residual.measure(micro_lab, without=True)) == [False] * 3


def test_the_rate_peaks_where_the_warm_up_ends(micro_lab):
    assert held(warmup.CLAIM, warmup.measure(micro_lab, warmups=(50, 0)))[0]


def test_the_warm_up_claim_does_not_hold_where_neither_has_one(micro_lab):
    assert held(warmup.CLAIM, warmup.measure(micro_lab, warmups=(0, 0))) == [True, False, False, False]


def test_smoothing_makes_a_model_less_sure(little_lab):
    assert held(smoothing.CLAIM, smoothing.measure(little_lab, smoothings=(0.0, 0.6), seeds=1))[0]


def test_the_smoothing_claim_does_not_hold_where_neither_is_smoothed(micro_lab):
    assert held(smoothing.CLAIM, smoothing.measure(micro_lab, smoothings=(0.0, 0.0))) == [False] * 3


def test_a_model_of_the_lab_translates_with_the_weights_that_were_put_into_it(micro):
    trained, other = Trained(micro).model, Trained(micro).model
    set_weights(other.model, {name: -tensor for name, tensor in weights(other.model).items()})
    first, second = (model.translate("a b c d", beam=1).log_probability for model in (trained, other))
    assert first != second


def test_the_mean_of_checkpoints_is_another_model_than_the_last(micro_lab):
    micro_lab.common["training.validations"] = 6
    numbers = averaging.measure(micro_lab)
    held(averaging.CLAIM, numbers)
    assert [one["count"] for one in numbers["means"]] == [1, 2, 3, 5]
    assert numbers["means"][0]["loss"] == numbers["singles"][-1]["loss"] == pytest.approx(numbers["valley"][0][1])
    assert numbers["means"][3]["loss"] != numbers["means"][0]["loss"]


def test_the_averaging_claim_does_not_hold_of_the_last_checkpoint_taken_several_times(micro_lab):
    micro_lab.common["training.validations"] = 6
    numbers = averaging.measure(micro_lab, combine="last")
    assert held(averaging.CLAIM, numbers) == [False, False]
    assert len({one["loss"] for one in numbers["means"]}) == 1
