"""Worked examples: their laws, and the same texts in both languages."""

import json
import re
import tomllib
from importlib import resources

import numpy as np
import pytest
import torch

from jumok.errors import UnknownName
from jumok.lab import examples
from jumok.lab.examples import (
    attention,
    circle,
    cross,
    decoding,
    distance,
    doubling,
    example,
    learned,
    lookup,
    memory,
    norms,
    padding,
    parameters,
    resolution,
)
from jumok.reports.wording import flatten

WORDS = tomllib.loads(resources.files("jumok").joinpath("lab/examples/words/examples.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", examples.NAMES)
def test_every_example_is_there_with_the_same_texts_in_both_languages(name):
    assert examples.get(name).name == name
    english, korean = flatten(WORDS["en"][name]), flatten(WORDS["ko"][name])
    assert list(english) == list(korean)
    for key in english:
        assert sorted(re.findall(r"{(\w+)", english[key])) == sorted(re.findall(r"{(\w+)", korean[key])), key
    assert {"title", "says"} <= set(english)


def test_no_text_belongs_to_an_example_that_is_gone():
    assert set(WORDS["en"]) == set(WORDS["ko"]) == set(examples.NAMES)


def test_an_unknown_example_is_told_with_one_that_is_near():
    with pytest.raises(UnknownName, match="did you mean 'norms'"):
        examples.get("norm")


def test_the_list_and_a_finding_in_a_folder(jumok, tmp_path):
    listed = jumok("example").out.rstrip().split("\n")
    assert [line.split()[0] for line in listed] == list(examples.NAMES)
    assert jumok("example", "norms", "--out", tmp_path).code == 0
    values = json.loads((tmp_path / "norms.json").read_text())
    assert values["command"] == "jumok example norms"
    assert jumok("example", "--out", tmp_path).code == 2
    assert jumok("example", "norms", "--lang", "fr").code == 2


def test_attention_by_hand_is_equation_1():
    numbers = attention.compute()
    q, k, v = (np.array(numbers[name]) for name in "qkv")
    weights = np.exp(q @ k.T / 2) / np.exp(q @ k.T / 2).sum(axis=1, keepdims=True)
    assert np.allclose(numbers["weights"], weights, atol=1e-6)
    assert np.allclose(numbers["mixed"], weights @ v, atol=1e-5)


def test_the_norms_have_the_means_of_numpy():
    numbers, samples = norms.compute(), np.array(norms.SAMPLES)
    assert np.allclose(numbers["batch"]["means"], samples.mean(axis=0))
    assert np.allclose(numbers["layer"]["deviations"], samples.std(axis=1))
    assert (numbers["batch_means"], numbers["layer_means"]) == (6, 3)
    assert (numbers["text_layer"], numbers["text_batch"]) == (8, 6)
    assert numbers["moved"]["layer"] == 0
    assert numbers["moved"]["batch"] > 0.1


def test_look_up_follows_keys_and_becomes_a_map_when_sharp():
    numbers = lookup.compute()
    assert numbers["after_values"] == numbers["follows_keys"] == 0
    assert numbers["after_keys"] > 0.1
    results = [one["result"] for one in numbers["soft"].values()]
    assert [abs(one - numbers["hard"]) for one in results] == sorted((abs(one - 30) for one in results), reverse=True)


def test_averaging_loses_exactly_the_order_of_its_positions():
    """Multisets: n + s - 1 over n."""
    assert resolution.count_distinct(6, 4, 1) == 126
    assert resolution.count_distinct(6, 4, 4) == 6**4
    assert resolution.count_distinct(10, 2, 1) == 55


def test_a_chain_without_a_circle_and_one_with():
    lower = torch.ones(3, 3, dtype=torch.bool).tril()
    assert circle.count_circular(lower) == 0
    assert circle.count_circular(torch.ones(3, 3, dtype=torch.bool)) == 2


def test_a_layer_has_four_and_eight_squares_of_parameters():
    numbers = parameters.compute()
    assert (numbers["attention_squares"], numbers["feed_forward_squares"]) == (4, 8)
    assert sum(numbers["shares"].values()) == pytest.approx(1)


def test_attention_keeps_at_least_its_weights_and_convolution_its_output():
    numbers = memory.compute()
    for n, counted in numbers["counted"]["maps"].items():
        assert numbers["measured"]["attention"][n] > counted
        assert numbers["measured"]["convolution"][n] == numbers["counted"]["vectors"][n]


def test_learned_positions_end_and_sinusoids_do_not():
    numbers = learned.compute()
    assert numbers["beyond"] == 0 < numbers["beyond_sinusoids"]


def test_the_seed_and_the_threads_of_torch_are_restored():
    threads = torch.get_num_threads()
    before = torch.random.get_rng_state()
    with example.seeded(3):
        torch.rand(2)
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.get_num_threads() == threads


# ------------------------------------------------------------------------------------------ those that train


@pytest.mark.slow
def test_cross_attention_works_as_one_note_says_and_not_as_the_others_do():
    numbers = cross.compute()
    assert numbers["right"]["paper"] > 0.95
    assert numbers["right"]["all_of_002"] < 0.6
    assert numbers["weights"] == {"004": [7, 4], "001": [4, 4]}
    assert not numbers["possible"]


@pytest.mark.slow
def test_reading_cross_attention_as_the_paper_says_is_the_model_itself():
    model = doubling.train()
    source, target, _ = doubling.to_batch(["cab", "hgfe"])
    with torch.no_grad():
        outputs, mask = cross.encode(model, source)
        logits = cross.decode(model, target, [outputs[-1]] * 2, lambda one, x, before, memory: one(x, memory, mask))
        whole = padding.run(model, source, target)[0]
        expected = model.project(model.hidden(source, target))
    torch.testing.assert_close(logits, expected)
    torch.testing.assert_close(whole, expected)


@pytest.mark.slow
def test_padding_gets_no_weight_behind_its_mask_and_some_without():
    for kind, one in padding.compute()["kinds"].items():
        assert one["with"] == 0, kind
        assert one["without"] > 0.005, kind


@pytest.mark.slow
def test_decoding_feeds_each_output_back_and_says_twice_as_many_letters():
    numbers = decoding.compute()
    assert numbers["m"] == 2 * numbers["n"]
    assert (numbers["first"], numbers["last"], numbers["fed"]) == ("<s>", "</s>", numbers["count"] - 1)


@pytest.mark.slow
def test_a_trained_attention_reaches_far_and_a_convolution_ends_where_its_field_ends():
    numbers = distance.compute()
    lanes = numbers["lanes"]
    assert lanes["attention"]["right"] > 0.9
    assert lanes["convolution"]["untrained"][str(numbers["reach"])] > 0
    assert lanes["convolution"]["trained"][str(numbers["reach"] + 1)] == 0
    assert lanes["rnn"]["untrained"]["31"] < lanes["lstm"]["untrained"]["31"] < lanes["attention"]["untrained"]["31"]
