"""Claims about what layers cost: table 1, additive attention, the bottleneck of one vector."""

import pytest
import torch

from jumok.lab import layers
from jumok.lab.claim import Finding, lines
from jumok.lab.claims import additive, bottleneck, table_1
from jumok.lab.laboratory import Lab
from jumok.lab.wording import LANGUAGES
from jumok.nn.attention import attend, merge_heads
from tests.lab.test_lab import MICRO


@pytest.fixture
def lab(tmp_path) -> Lab:
    """A lab in which everything takes a moment and nothing is learnt."""
    return Lab(tmp_path / "lab", factor=0.02, common=MICRO)


def shown(claim, numbers) -> None:
    """All of it can be told and drawn."""
    for language in LANGUAGES:
        assert lines(Finding(claim, numbers, "quick", 1.0), language)
        assert claim.draw(numbers, language)


# ------------------------------------------------------------------------------------------ table 1


@pytest.mark.parametrize("name", table_1.LANES)
def test_operations_are_what_one_counts_by_hand(name):
    n, d, (kind, window) = 24, 16, layers.KINDS[name]
    between, whole = table_1.operations(kind(d, window), torch.randn(1, n, d))
    wanted = {
        "attention": (2 * n * n * d, 2 * n * n * d + 4 * n * d * d),
        "recurrent": (6 * n * d * d, 6 * n * d * d),
        "convolution": (2 * window * n * d * d, 2 * window * n * d * d),  # and as much again for its gate
        "dilated": (window * n * d * d, window * n * d * d),
        "restricted": (2 * window * n * d, 2 * window * n * d + 4 * n * d * d),
    }
    assert (between, whole) == wanted[name]


def test_restricted_attention_is_attention_under_a_mask():
    x, layer = torch.randn(2, 20, 16), layers.Restricted(16, 5)
    at = torch.arange(20)
    near = ((at[:, None] - at).abs() <= 2)[None, None]
    inner = layer.inner
    masked, _ = attend(*inner.split(x), near)
    torch.testing.assert_close(layer(x), inner.output(merge_heads(masked)))


def test_a_recurrence_is_done_after_as_many_rounds_as_there_are_words():
    x, layer = torch.randn(1, 7, 8), layers.Recurrent(8, 0)
    y = layer.begin(x)
    for _ in range(6):
        y = layer.round(x, y)
    assert not torch.allclose(y, layer(x), atol=1e-6)
    torch.testing.assert_close(layer.round(x, y), layer(x))


def test_a_chain_counts_products_that_wait_and_none_that_do_not():
    x, weight = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3)
    assert table_1.chain(((x @ weight).tanh() @ weight) + x @ weight + x) == 2


def test_a_crossing_lies_between_the_lengths_where_the_order_changes():
    flat, steep = [(8, 64.0), (16, 64.0), (32, 64.0)], [(8, 8.0), (16, 32.0), (32, 128.0)]
    assert table_1.crossing(steep, flat) == pytest.approx(16 * 2**0.5)
    assert table_1.crossing(flat, [(n, 100.0) for n, _ in flat]) is None
    assert table_1.crossing([(n, 100.0) for n, _ in flat], flat) == 8


def test_table_1_holds_of_counts_and_not_of_an_attention_with_a_window(lab):
    numbers = table_1.measure(lab, longest=64, width=32)
    assert [check.holds for check in table_1.check(numbers)[:4]] == [True] * 4
    shown(table_1.CLAIM, numbers)
    windowed = table_1.measure(lab, longest=64, width=32, window=9)
    assert [check.holds for check in table_1.check(windowed)[:4]] == [False, True, False, False]
    shown(table_1.CLAIM, windowed)


# ------------------------------------------------------------------------------------------ additive


def test_additive_attention_costs_more_and_a_dot_product_in_its_place_does_not(lab):
    numbers = additive.measure(lab, longest=64)
    assert [check.holds for check in additive.check(numbers)[:3]] == [True, True, True]
    shown(additive.CLAIM, numbers)
    same = additive.measure(lab, longest=64, additive="scaled-dot")
    assert [check.holds for check in additive.check(same)[:3]] == [True, False, False]


# ------------------------------------------------------------------------------------------ bottleneck


def test_letters_are_counted_where_they_stand_by_length():
    found = bottleneck.letters(["a b c d", "a b", "a b c d e f", ""], ["a b d c", "a b c d", "a b c d", "a b c d e"])
    assert found == {4: pytest.approx((2 / 4 + 2 / 4 + 4 / 6) / 3), 5: 0.0}


def test_the_bottleneck_is_gone_where_both_networks_have_attention(lab):
    numbers = bottleneck.measure(lab)
    assert bottleneck.check(numbers)[0].holds
    shown(bottleneck.CLAIM, numbers)
    vectors, _, _, apart = bottleneck.check(bottleneck.measure(lab, without="additive"))
    assert not vectors.holds
    assert not apart.holds
