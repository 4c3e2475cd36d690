"""Positions, scale and linearity in the lab: what holds of them, and that each verdict comes out "no" when spoilt."""

from xml.etree import ElementTree

import pytest
import torch

from jumok.errors import UnknownName
from jumok.lab.claim import Claim, Finding, lines
from jumok.lab.claims import linearity, positions, relative, scale
from jumok.lab.laboratory import Lab
from jumok.lab.toys import lookup, table
from jumok.lab.toys.fitting import fit
from jumok.lab.wording import LANGUAGES
from jumok.nn.attention import CrossAttention, SelfAttention
from jumok.nn.positions import sinusoid
from tests.lab.test_lab import MICRO


@pytest.fixture(scope="module")
def little(tmp_path_factory) -> Lab:
    """A lab in which everything takes a moment and nothing is learnt; its runs are shared."""
    return Lab(tmp_path_factory.mktemp("little"), factor=0.02, common=MICRO)


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


def test_a_look_up_is_learned_with_sinusoids_and_not_with_the_bare_number():
    def learn(kind: str) -> dict:
        return lookup.describe(
            fit(
                lambda: lookup.LookUp(kind, norm=False),
                lambda generator: lookup.strings(generator, lookup.BATCH, lookup.LENGTH),
                steps=400, seed=3,
            ), 4,
        )  # fmt: skip

    assert learn("sinusoidal")["within"] > 0.95
    assert learn("number")["within"] < 0.5
    rotary = learn("rotary")
    assert rotary["beyond"] > 0.95


@pytest.mark.parametrize("length", [20, 40, 300])
def test_the_head_that_is_written_down_points_back_at_any_length(length):
    assert lookup.point_back(length, 1) == 1.0


def test_the_symbol_two_to_the_left_is_the_label_and_alibi_sees_nothing_to_the_right():
    (symbols,), labels = lookup.strings(torch.Generator().manual_seed(1), 3, 7)
    assert labels[:, :2].eq(-1).all()
    assert torch.equal(labels[:, 2:], symbols[:, :-2])
    for kind in lookup.KINDS:
        module = lookup.LookUp(kind, norm=False)
        changed = symbols.clone()
        changed[:, -1] = (changed[:, -1] + 1) % lookup.SYMBOLS
        same = torch.equal(module(symbols)[:, :-1], module(changed)[:, :-1])
        assert same is (kind == "alibi")


def test_each_part_of_the_claim_about_positions_fails_where_its_knob_is_turned():
    right = {"within": [1.0] * 3, "beyond": [1.0] * 3}
    poor = {"within": [0.3] * 3, "beyond": [0.3] * 3}

    def judge(norm: str = "bare", written: float = 1.0, **changes: dict) -> dict:
        lanes = {
            lane: {kind: poor if kind in ("none", "number") else right for kind in lookup.KINDS}
            for lane in positions.NORMS
        }
        lanes[norm] |= changes
        numbers = {"lanes": lanes, "written": {"within": [1.0], "beyond": [written]}, "length": 20, "long": 40}
        checks = positions.check(numbers)
        return {check.part: all(one.holds for one in checks if one.part == check.part) for check in checks}

    assert all(judge().values())
    for part, changed in (
        ("needed", judge(none=right)), ("alike", judge(learned=poor)), ("number", judge(number=right)),
        ("number", judge("norm", number=right)), ("can", judge(written=0.5)),
        ("does", judge(sinusoidal={"within": [1.0] * 3, "beyond": [0.6] * 3})),
    ):  # fmt: skip
        assert [name for name, holds in changed.items() if not holds] == [part]


def test_the_claim_about_positions_fails_where_the_layer_without_them_has_them(little):
    numbers = positions.measure(little, without="sinusoidal")
    bare = numbers["lanes"]["bare"]
    assert {**bare["none"], "kind": ""} == {**bare["sinusoidal"], "kind": ""}
    assert told(positions.CLAIM, numbers)[0] is False


# ------------------------------------------------------------------------------------------ relative


def test_sinusoids_have_one_matrix_for_every_offset(little):
    numbers = relative.measure(little)
    assert told(relative.CLAIM, numbers)[:5] == [True] * 5
    assert numbers["rounding"] < 1e-6  # the table of nn/positions.py is this one


def test_a_random_table_has_none(little):
    assert told(relative.CLAIM, relative.measure(little, table="random"))[:5] == [False, False, True, False, False]
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
    assert numbers["bent"]["linear"]["free"] > 0.01  # the softmax itself is not


def test_a_lane_that_bends_is_not_linear_and_the_same_layers_are_not_better_than_themselves(little):
    numbers = linearity.measure(little, activation="relu")
    assert told(linearity.CLAIM, numbers) == [True, False, True, False, False]
    assert numbers["cells"]["frozen_linear"] == numbers["cells"]["frozen_relu"]


def test_an_arbitrary_table_is_learned_with_relu_and_not_by_a_sum():
    a, b, values = table.draw_table(5)
    right = {
        net: table.measure_right(
            fit(lambda net=net: table.Reader("frozen", net), lambda generator: ((a, b), values), steps=500, seed=5), 5
        )
        for net in ("linear", "relu")
    }
    assert right["relu"] > 0.95
    assert right["linear"] < 0.8


def test_two_matrices_of_four_times_the_width_hold_eight_times_the_parameters_of_one(little):
    model = little.recipe().model
    assert linearity.count_saved(little) == pytest.approx(1 - model.d_model**2 / (2 * model.d_model * model.d_ff))
    assert linearity.count_saved(Lab()) == 7 / 8
