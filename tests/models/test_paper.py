"""The paper is a test: table 3's parameter counts, equation 3, the recipes' numbers."""

import pytest

from jumok.config import presets
from jumok.models import build
from jumok.training.schedule import Course, Schedule, noam

# Millions of parameters, table 3; all base-derived rows fit a shared vocabulary of about 41,100, the big one 36,000.
TABLE_3 = {
    "base": 65, "table3-B-dk16": 58, "table3-B-dk32": 60, "table3-C-n2": 36, "table3-C-n4": 50, "table3-C-n8": 80,
    "table3-C-d256": 28, "table3-C-d1024": 168, "table3-C-ff1024": 53, "table3-C-ff4096": 90,
}  # fmt: skip


def millions(recipe: str, vocabulary: int) -> float:
    model = build(presets.get(recipe).model, vocabulary, vocabulary, device="meta")
    return sum(parameter.numel() for parameter in model.parameters()) / 1e6


@pytest.mark.parametrize(("recipe", "count"), TABLE_3.items())
def test_table_3_parameter_count(recipe, count):
    assert millions(recipe, 41_100) == pytest.approx(count, rel=0.01)


def test_table_3_parameter_count_of_the_big_model():
    assert millions("big", 36_000) == pytest.approx(213, rel=0.01)


@pytest.mark.parametrize("row", ["A-h1", "A-h4", "A-h16", "A-h32", "D-p0", "D-p0.2", "D-ls0", "D-ls0.2"])
def test_rows_a_and_d_have_as_many_parameters_as_base(row):
    assert millions(f"table3-{row}", 41_100) == millions("base", 41_100)


def test_row_e_adds_only_the_learned_positions_of_both_sides():
    longest = presets.base().model.longest
    assert millions("table3-E-learned", 41_100) - millions("base", 41_100) == pytest.approx(2 * longest * 512 / 1e6)


def test_equation_3_rate_peaks_exactly_at_the_end_of_warmup():
    rates = [noam(step, d_model=512, warmup=4_000) for step in range(1, 20_000)]
    assert rates.index(max(rates)) + 1 == 4_000


@pytest.mark.parametrize("step", [1, 10, 3_999, 4_000, 4_001, 100_000])
def test_equation_3_closed_form(step):
    expected = 512**-0.5 * min(step**-0.5, step * 4_000**-1.5)
    schedule = Schedule("noam", 512, 4_000, None)
    assert schedule.rate(step, schedule.course(100_000)) == pytest.approx(expected, rel=1e-12)


def test_a_chosen_peak_scales_equation_3_to_it():
    schedule = Schedule("noam", 512, 400, 3e-3)
    assert max(schedule.rate(step, Course()) for step in range(1, 2_000)) == pytest.approx(3e-3)
    assert schedule.rate(1_600, Course()) == pytest.approx(3e-3 / 2)


@pytest.mark.parametrize("kind", ["linear", "cosine"])
def test_decaying_schedules_end_low_exactly_at_the_horizon(kind):
    schedule = Schedule(kind, 512, 100, 1e-3)
    rates = [schedule.rate(step, schedule.course(1_000)) for step in range(1, 1_001)]
    assert max(rates) == pytest.approx(1e-3)
    assert rates.index(max(rates)) == 99
    assert rates[99:] == sorted(rates[99:], reverse=True)
    assert rates[-1] == pytest.approx(1e-5)
    assert rates[549] == pytest.approx(0.5e-3, rel=0.02)


def test_constant_stays():
    schedule = Schedule("constant", 512, 10, 1e-3)
    assert [schedule.rate(step, schedule.course(100)) for step in (5, 10, 50, 100)] == pytest.approx(
        [5e-4, 1e-3, 1e-3, 1e-3]
    )


def test_base_is_the_papers_base():
    base = presets.base()
    model, training, decoding = base.model, base.training, base.decoding
    assert (model.encoder_layers, model.decoder_layers, model.d_model, model.d_ff, model.heads) == (6, 6, 512, 2048, 8)
    assert (*model.head_widths, model.dropout, model.norm_place) == (64, 64, 0.1, "post")
    assert (training.beta1, training.beta2, training.epsilon) == (0.9, 0.98, 1e-9)
    assert (training.schedule, training.warmup, training.peak, training.steps) == ("noam", 4_000, None, 100_000)
    assert (training.label_smoothing, training.tokens_per_update, training.average) == (0.1, 25_000, 5)
    assert (decoding.beam, decoding.length_penalty, decoding.extra_length) == (4, 0.6, 50)
    assert (base.vocabulary.size, base.vocabulary.joint, model.tied) == (37_000, True, "all")


def test_big_is_the_papers_big():
    big = presets.big()
    assert (big.model.d_model, big.model.d_ff, big.model.heads, big.model.dropout) == (1_024, 4_096, 16, 0.3)
    assert (big.model.head_widths[0], big.training.steps, big.training.average) == (64, 300_000, 20)
