"""bench/lengths: batches of one length, ratios within rounds, each measurement in a process of its own."""

from argparse import Namespace
from itertools import islice

import pytest

from bench import lengths
from jumok.text.vocabulary import SPECIALS


@pytest.mark.parametrize(("length", "sentences"), [(1, 32), (15, 4), (31, 2), (32, 1), (300, 1)])
def test_batches_hold_as_many_sentences_of_the_length_as_fit(length, sentences):
    for batch in islice(lengths.make_batches(length, 50, tokens=64), 3):
        assert batch.source.shape == batch.target.shape == batch.labels.shape == (sentences, length + 1)
        assert batch.tokens == batch.labels.numel()
        assert SPECIALS <= int(batch.source[:, :-1].min()) <= int(batch.source.max()) < 50


def figures(length, rate, core, memory):
    return {
        "length": length,
        "tokens_per_second": rate,
        "tokens_per_core_second": core,
        "seconds_per_update": 1_000 / rate,
        "peak_memory": memory,
        "updates": 4,
        "disturbed": 1,
    }


def test_a_ratio_is_the_median_of_the_ratios_within_rounds():
    pairs = [((1_000, 600), (500, 330)), ((100, 500), (90, 300)), ((2_000, 400), (800, 180))]  # halves, but for 10 %
    rounds = [[figures(32, *a, 1e9), figures(1_024, *b, 2e9)] for a, b in pairs]
    first, second = lengths.table(rounds)[2:]
    assert first.split(" | ")[:5] == ["| 32", "1,000", "100%", "500", "100%"]
    assert second.split(" | ")[1:5] == ["500", "50%", "300", "55%"]
    assert "2.00 GB | 25%" in second


def test_a_measurement_is_a_process_of_its_own():
    given = Namespace(recipe="demo", symbols=60, tokens=64, warmup=0, seconds=0.0, threads=1)
    found = lengths.measure_apart(20, given)
    assert found["length"] == 20
    assert found["updates"] == 2
    assert found["tokens_per_second"] > 0
    assert found["peak_memory"] > 1e8
    assert 0 < found["loss"] < 10
