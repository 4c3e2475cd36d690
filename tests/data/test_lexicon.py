"""The translation table: IBM model 1 as it is written, and as a plain loop over words would have it."""

from collections import defaultdict

import numpy as np
import pytest
from safetensors.numpy import load, save

from jumok.data import lexicon
from jumok.data.corpora import Pair
from jumok.data.lexicon import Flat, model_1
from jumok.data.store import Filters, build
from jumok.errors import ModelFileError
from jumok.stopping import NEVER
from jumok.text.vocabulary import Vocabularies, Vocabulary

PAIRS = [([10, 11], [20, 21]), ([10, 12], [20, 22]), ([12, 13, 13], [22, 23]), ([11], [21, 21, 24])]
SIZE = 30


def flat(sentences):
    return Flat(np.concatenate([np.array(ids) for ids in sentences]), np.array([len(ids) for ids in sentences]))


def plainly(pairs, rounds):
    """Expectation-maximisation word by word; 0 is the source word that is not there."""
    probability = defaultdict(lambda: 1.0)
    for _ in range(rounds):
        expected, total = defaultdict(float), defaultdict(float)
        for source, target in pairs:
            choices = [0, *source]
            for word in target:
                whole = sum(probability[choice, word] for choice in choices)
                for choice in choices:
                    expected[choice, word] += probability[choice, word] / whole
                    total[choice] += probability[choice, word] / whole
        probability = defaultdict(float, {link: expected[link] / total[link[0]] for link in expected})
    return dict(probability)


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_the_table_is_that_of_a_loop_over_words(rounds):
    sides = [flat([pair[side] for pair in PAIRS]) for side in (0, 1)]
    links, probability = NEVER.finish(model_1(*sides, (SIZE, SIZE), rounds=rounds))
    found = {(int(link) // SIZE, int(link) % SIZE): value for link, value in zip(links, probability, strict=True)}
    wanted = plainly(PAIRS, rounds)
    assert found.keys() == wanted.keys()
    for link, value in wanted.items():
        assert found[link] == pytest.approx(value, rel=1e-9)


@pytest.fixture
def learnt(tmp_path):
    words = {"dog": "Hund", "cat": "Katze", "sleeps": "schläft", "runs": "rennt", "big": "große", "the": "der"}
    texts = [f"the big {a} {b}" for a in ("dog", "cat") for b in ("sleeps", "runs")] + [
        "the dog runs",
        "the cat sleeps",
    ]
    pairs = [Pair(text, " ".join(words[word] for word in text.split()), line) for line, text in enumerate(texts * 9)]
    joint = Vocabulary.train([text for pair in pairs for text in pair[:2]], size=299)
    vocabularies = Vocabularies(joint, joint)
    store = build(pairs, vocabularies, Filters(50, 9.0), tmp_path, identity="x")
    learnt = NEVER.finish(lexicon.learn(store, (len(joint), len(joint)), each=4, common=3))
    return learnt, joint, store


def test_a_word_turns_into_its_translation(learnt):
    table, vocabulary, _ = learnt
    for word, translation in (("dog", "Hund"), ("sleeps", "schläft")):
        possible = {token for i in vocabulary.encode(word) for token in table.of(i)} | set(table.common.tolist())
        assert set(vocabulary.encode(translation)) <= possible
    assert all(len(table.of(i)) <= 4 for i in range(len(vocabulary)))


def test_what_is_written_is_read(learnt):
    table, vocabulary, _ = learnt
    again = lexicon.Lexicon.from_bytes(table.to_bytes(), (len(vocabulary), len(vocabulary)))
    assert all(again.of(i) == table.of(i) for i in range(len(vocabulary)))
    assert again.common.tolist() == table.common.tolist()


def test_the_probabilities_of_both_directions_are_those_of_the_model_and_survive_the_file(learnt):
    table, vocabulary, store = learnt
    size = len(vocabulary)
    again = lexicon.Lexicon.from_bytes(table.to_bytes(), (size, size))
    assert again.tables is not None
    rows = range(len(store))
    pairs = [(store.source[row].tolist(), store.target[row].tolist()) for row in rows]
    for kept, direction in zip(again.tables, (pairs, [pair[::-1] for pair in pairs]), strict=True):
        wanted = plainly(direction, lexicon.ROUNDS)
        given = sorted({word for side, _ in direction for word in side})
        found = kept.find(given, range(size))
        assert found.shape == (size, len(given))
        assert (found > 0.0).any()
        for other, column in np.argwhere(found > 0.0).tolist():
            assert found[other, column] == pytest.approx(wanted[given[column], other], rel=1e-3)
        best = {word: max((value, other) for (of, other), value in wanted.items() if of == word)[0] for word in given}
        assert found.max(axis=0) == pytest.approx([best[word] for word in given], rel=1e-3)


def test_a_file_of_an_earlier_version_has_no_probabilities(learnt):
    table, vocabulary, _ = learnt
    older = lexicon.Lexicon(table.begins, table.targets, table.common)
    again = lexicon.Lexicon.from_bytes(older.to_bytes(), (len(vocabulary), len(vocabulary)))
    assert again.tables is None
    assert again.of(20) == table.of(20)


@pytest.mark.parametrize("wrong", ["chances", "backward.begins", "backward.sources", "backward.chances"])
@pytest.mark.parametrize("change", ["missing", "negative", "short"])
def test_probabilities_that_do_not_fit_are_refused(learnt, wrong, change):
    table, vocabulary, _ = learnt
    arrays = load(table.to_bytes())
    if change == "missing" and wrong == "chances":
        return  # a file of an earlier version
    if change == "missing":
        del arrays[wrong]
    elif change == "negative":
        arrays[wrong] = arrays[wrong].astype(np.float32) - 1_000.0
    else:
        arrays[wrong] = arrays[wrong][:-1].copy()
    with pytest.raises(ModelFileError):
        lexicon.Lexicon.from_bytes(save(arrays), (len(vocabulary), len(vocabulary)))


def test_of_a_large_text_a_part_is_enough(learnt, monkeypatch):
    _, _, store = learnt
    monkeypatch.setattr(lexicon, "LINKS", 500)
    rows = lexicon.sample(store)
    assert len(rows) < len(store)
    links = sum((len(store.source[row]) + 1) * len(store.target[row]) for row in rows)
    assert 250 < links <= 1_000
