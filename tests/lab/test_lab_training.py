"""The lab's claims about training: each comes out "no" where what it is about is taken away."""

import pytest
import torch

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
    assert held(norm.CLAIM, norm.measure(micro_lab, norms=("layer", "layer"))) == [False] * 4


def test_without_residual_connections_neither_gradients_nor_words_come_through(micro_lab):
    assert held(residual.CLAIM, residual.measure(micro_lab))[:2] == [True, True]


def test_the_residual_claim_does_not_hold_where_both_have_them(micro_lab):
    assert held(residual.CLAIM, residual.measure(micro_lab, without=True)) == [False] * 3


def test_the_rate_peaks_where_the_warm_up_ends(micro_lab):
    assert held(warmup.CLAIM, warmup.measure(micro_lab, warmups=(50, 0), peaks=(2e-3,)))[0]


def test_the_warm_up_claim_does_not_hold_where_neither_has_one(micro_lab):
    assert held(warmup.CLAIM, warmup.measure(micro_lab, warmups=(0, 0), peaks=(2e-3,))) == [True, False, False, False]


def test_smoothing_makes_a_model_less_sure(little_lab):
    assert held(smoothing.CLAIM, smoothing.measure(little_lab, smoothings=(0.0, 0.6), seeds=1))[0]


def test_the_smoothing_claim_does_not_hold_where_neither_is_smoothed(micro_lab):
    sure, perplexity, bleu = held(smoothing.CLAIM, smoothing.measure(micro_lab, smoothings=(0.0, 0.0)))
    assert [sure, perplexity] == [False, False]
    assert not bleu


def test_whether_smoothing_helps_is_judged_of_an_overconfident_model_only():
    def lane(bleu: float, sure: float) -> dict:
        run = {"perplexity": 2.0, "bleu": bleu, "seconds": 0.05, "sure": sure, "right": 0.8, "calibration": 0.1}
        return {"smoothing": 0.1, "spread": [0.1] * 10, "runs": [run, run], **run}

    for sure, bleu, verdict in ((0.79, 60.0, None), (0.79, 40.0, None), (0.9, 60.0, True), (0.9, 40.0, False)):
        check = smoothing.check({"with": lane(bleu, 0.7), "without": lane(50.0, sure)})[2]
        assert check.holds is verdict
        assert (check.decide is not None) is (verdict is None)
    assert "Multi30k" in smoothing.check({"with": lane(60.0, 0.7), "without": lane(50.0, 0.79)})[2].decide.en


def test_the_calibration_error_is_the_mean_gap_of_the_bins():
    sure = torch.tensor([0.05, 0.05, 0.95, 0.95, 0.95, 0.95])
    right = torch.tensor([0.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    assert smoothing.calibration_error(sure, right) == pytest.approx((2 * 0.45 + 4 * 0.45) / 6)
    calibrated = torch.tensor([0.5] * 10), torch.tensor([1.0, 0.0] * 5)
    assert smoothing.calibration_error(*calibrated) == pytest.approx(0.0, abs=1e-7)


def test_letters_that_are_missing_or_too_many_are_not_in_their_place():
    assert warmup.share_in_place("a b c", "a x c d") == 0.5
    assert warmup.share_in_place("a b c d e f g h", "a b c d") == 0.5


def test_all_four_pairs_of_runs_are_in_the_table(micro_lab):
    numbers = warmup.measure(micro_lab)
    assert [pair["with"]["peak"] for pair in numbers["pairs"]] == pytest.approx(list(warmup.PEAKS))
    assert len(warmup.tabulate(numbers).rows) == 8
    assert numbers["with"]["peak"] == pytest.approx(warmup.PEAK)


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
