"""The translation table: IBM model 1 as it is written, and as a plain loop over words would have it."""

from collections import defaultdict

import numpy as np
import pytest

from jumok.data import lexicon
from jumok.data.corpora import Pair
from jumok.data.lexicon import Flat, model_1
from jumok.data.store import Filters, build
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


def test_of_a_large_text_a_part_is_enough(learnt, monkeypatch):
    _, _, store = learnt
    monkeypatch.setattr(lexicon, "LINKS", 500)
    rows = lexicon.sample(store)
    assert len(rows) < len(store)
    links = sum((len(store.source[row]) + 1) * len(store.target[row]) for row in rows)
    assert 250 < links <= 1_000
