"""Hidden Markov models of alignment: equal to a sum over all alignments of short sentences."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumok.data import markov
from jumok.data.lexicon import model_1
from jumok.data.markov import FAR, Flat, Jumps, Trainer, find_posteriors, forward_backward, train
from jumok.stopping import NEVER


def flat(sentences):
    return Flat(np.concatenate([np.array(ids) for ids in sentences]), np.array([len(ids) for ids in sentences]))


def enumerate_alignments(emission, first, weights):
    """Posterior of every state and expected jumps, from all alignments of one pair."""
    length, states = emission.shape
    posterior, jumped, total = np.zeros((length, states)), np.zeros((max(0, length - 1), 2 * states - 1)), 0.0
    for path in product(range(states), repeat=length):
        chance = first[path[0]] * np.prod([emission[j, i] for j, i in enumerate(path)])
        for j, (here, there) in enumerate(pairwise(path)):
            possible = sum(weights[j, other - here + states - 1] for other in range(states))
            chance *= weights[j, there - here + states - 1] / possible
        total += chance
        for j, i in enumerate(path):
            posterior[j, i] += chance
        for j, (here, there) in enumerate(pairwise(path)):
            jumped[j, there - here + states - 1] += chance
    return posterior / total, jumped / total


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 10**6))
def test_posteriors_and_jumps_are_those_of_a_sum_over_all_alignments(length, states, seed):
    generator = np.random.default_rng(seed)
    emission, first = generator.random((1, length, states)) + 1e-3, generator.random((1, states)) + 1e-3
    weights = generator.random((1, length - 1, 2 * states - 1)) + 1e-3
    posterior, jumped = forward_backward(emission, first, weights, count=True)
    wanted, jumps = enumerate_alignments(emission[0], first[0], weights[0])
    assert posterior[0] == pytest.approx(wanted, rel=1e-6, abs=1e-9)
    assert jumped[0] == pytest.approx(jumps, rel=1e-6, abs=1e-9)


def test_a_round_of_training_counts_every_pair_alone_and_padding_nothing(monkeypatch):
    """The expectation is the sum over pairs of different lengths, each by enumeration."""
    monkeypatch.setattr(markov, "OFTEN", 2)
    pairs = [([5, 6, 7], [9, 8]), ([5, 7], [8]), ([6, 6, 5, 7, 5], [9, 8, 9]), ([7], [8, 9, 8])]
    observed, states, size = flat([pair[0] for pair in pairs]), flat([pair[1] for pair in pairs]), 12
    table = NEVER.finish(model_1(states, observed, (size, size))).start
    trainer = Trainer(observed, states, table, (size, size))
    assert {chunk.links.shape[1] for chunk in trainer.chunks} == {4, 8}
    for _ in range(2):
        chances = np.zeros((size, size))
        chances[table[0] // size, table[0] % size] = trainer.probability
        expected = markov.PRIOR * np.bincount(table[0], table[1], minlength=size * size)
        before = np.zeros((len(trainer.jumps.own) + 1, 2 * FAR + 1))
        for seen, hidden in pairs:
            classes = trainer.jumps.find_classes(np.array([seen]))
            emission = np.array([[chances[state, word] + markov.FLOOR for state in hidden] for word in seen])
            first, weights = trainer.jumps.begin(classes[:, 0], len(hidden)), trainer.jumps.move(classes, len(hidden))
            posterior, jumped = enumerate_alignments(emission, first[0], weights[0])
            for (j, word), (i, state) in product(enumerate(seen), enumerate(hidden)):
                expected[state * size + word] += posterior[j, i]
            for j, row in enumerate(jumped):
                for place, value in enumerate(row):
                    before[classes[0, j], place - len(hidden) + 1 + FAR] += value
        wanted = expected.reshape(size, size)
        wanted = wanted / np.maximum(wanted.sum(axis=1, keepdims=True), 1e-30)
        trainer.run_round()
        found = np.zeros((size, size))
        found[table[0] // size, table[0] % size] = trainer.probability
        assert found[1:] == pytest.approx(wanted[1:], rel=1e-4, abs=1e-6)
        usual = (before.sum(axis=0) + 0.1) / (before.sum() + 0.1 * len(before[0]))
        counted = before + markov.USUAL * usual
        assert trainer.jumps.before == pytest.approx(counted / counted.sum(axis=1, keepdims=True), rel=1e-4, abs=1e-6)


def test_a_word_without_a_translation_goes_where_it_has_always_gone():
    """Sentences of a noun and a verb in the opposite order, an article before every noun: it stays with the noun."""
    draw = np.random.default_rng(1)
    nouns, verbs, article = np.arange(20, 30), np.arange(30, 40), 7
    english, other = [], []
    for _ in range(400):
        noun, verb = draw.choice(nouns), draw.choice(verbs)
        english.append([verb, article, noun])
        other.append([noun + 40, verb + 40])
    observed, states = flat(english), flat(other)
    table = NEVER.finish(model_1(states, observed, (90, 90))).start
    probability, jumps = NEVER.finish(train(observed, states, table, (90, 90)))
    chances = np.zeros((90, 90))
    chances[table[0] // 90, table[0] % 90] = probability
    for seen, hidden in zip(english[:20], other[:20], strict=True):
        emission = np.array([[chances[state, word] + 1e-7 for state in hidden] for word in seen])
        assert find_posteriors(emission, seen, jumps).argmax(axis=1).tolist() == [1, 0, 0]


def test_probabilities_of_any_size_give_numbers():
    jumps = Jumps(np.array([], int), np.full((1, 25), 1e-6), np.full((1, 25), 1e-6), np.full((1, 13), 1e-6))
    for emission in (np.zeros((6, 5)), np.full((6, 5), 1e-300), np.full((300, 40), 1e308)):
        posterior = find_posteriors(emission, [3] * len(emission), jumps)
        assert np.isfinite(posterior).all()
        assert posterior.sum(axis=1) == pytest.approx(1.0, abs=1e-6)


def test_only_the_ratio_of_probabilities_matters():
    jumps = Jumps(np.array([], int), np.full((1, 25), 0.04), np.ones((1, 25)), np.ones((1, 13)))
    emission = np.array([[0.1, 0.4], [0.9, 0.3]])
    tiny = find_posteriors(emission * 1e-15, [3, 4], jumps)
    assert tiny == pytest.approx(find_posteriors(emission, [3, 4], jumps), abs=1e-6)


def test_long_jumps_are_counted_with_those_of_the_greatest_length():
    jumped = np.arange(2 * 30 - 1, dtype=np.float32)
    clipped = markov._clip(jumped, 30)
    assert clipped.sum() == pytest.approx(jumped.sum())
    assert clipped[0] == pytest.approx(jumped[: 30 - FAR].sum())
    assert clipped[FAR] == pytest.approx(jumped[29])


def test_a_jump_depends_on_the_subword_before_and_on_the_one_it_leads_to():
    before, here = np.full((3, 25), 0.04), np.ones((3, 25))
    before[1, FAR], here[2, FAR + 1] = 0.5, 8.0
    jumps = Jumps(np.array([5, 6]), before, here, np.ones((3, 13)))
    weights = jumps.move(jumps.find_classes(np.array([[5, 6, 7, 5]])), 3)
    assert weights[0].tolist() == pytest.approx(np.array([[0.04, 0.04, 0.5, 0.32, 0.04], [0.04] * 5, [0.04] * 5]))
