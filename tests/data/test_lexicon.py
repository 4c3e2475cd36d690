"""The translation table: IBM model 1 as it is written, and as a plain loop over words would have it."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load, save

from jumok.data import lexicon
from jumok.data.corpora import Pair
from jumok.data.lexicon import Flat, model_1
from jumok.data.markov import Jumps, train
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
    table = NEVER.finish(model_1(*sides, (SIZE, SIZE), rounds=rounds))
    for kept, after in ((table.probability, rounds), (table.early, min(rounds, lexicon.EARLY))):
        found = {(int(link) // SIZE, int(link) % SIZE): value for link, value in zip(table.pairs, kept, strict=True)}
        wanted = plainly(PAIRS, after)
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


def test_the_probabilities_of_both_directions_are_those_of_hidden_markov_models_and_survive_the_file(learnt):
    table, vocabulary, store = learnt
    size = len(vocabulary)
    again = lexicon.Lexicon.from_bytes(table.to_bytes(), (size, size))
    assert again.tables is not None
    assert again.jumps is not None
    sides = [lexicon.flatten(side, np.arange(len(store))) for side in (store.source, store.target)]
    for kept, jumps, (given, other) in zip(again.tables, again.jumps, (sides, sides[::-1]), strict=True):
        start = NEVER.finish(model_1(given, other, (size, size))).start
        probability, wanted_jumps = NEVER.finish(train(other, given, start, (size, size)))
        wanted = np.zeros((size, size))
        wanted[start[0] % size, start[0] // size] = probability
        found = kept.find(range(size), range(size))
        listed = found > 0.0
        assert listed.sum() > 20
        assert found[listed] == pytest.approx(wanted[listed], rel=1e-3, abs=1e-6)
        for field in ("before", "here", "first"):
            assert getattr(jumps, field) == pytest.approx(getattr(wanted_jumps, field), rel=1e-3, abs=1e-5)


def test_a_hidden_markov_model_knows_the_translation_of_a_word_that_always_has_the_same_neighbour(learnt):
    """Every sentence has "the": model 1 cannot tell its translation from that of the others, places can."""
    table, vocabulary, _ = learnt
    [source], [target] = vocabulary.encode("the")[:1], vocabulary.encode("der")[:1]
    assert table.tables[1].find([target], [source])[0, 0] > 0.9


def test_a_file_of_an_earlier_version_has_no_probabilities(learnt):
    table, vocabulary, _ = learnt
    older = lexicon.Lexicon(table.begins, table.targets, table.common)
    again = lexicon.Lexicon.from_bytes(older.to_bytes(), (len(vocabulary), len(vocabulary)))
    assert again.tables is None
    assert again.of(20) == table.of(20)


def test_a_file_without_jumps_is_that_of_an_earlier_version(learnt):
    table, vocabulary, _ = learnt
    older = replace(table, jumps=None)
    again = lexicon.Lexicon.from_bytes(older.to_bytes(), (len(vocabulary), len(vocabulary)))
    assert again.jumps is None
    assert again.tables is not None


@pytest.mark.parametrize("change", ["missing", "negative", "infinite", "short", "unordered", "beyond"])
@pytest.mark.parametrize("wrong", ["own", "before", "here", "first"])
@pytest.mark.parametrize("direction", lexicon.DIRECTIONS)
def test_jumps_that_do_not_fit_are_refused(learnt, direction, wrong, change):
    table, vocabulary, _ = learnt
    jumps = Jumps(np.array([7, 9]), np.ones((3, 25)), np.ones((3, 25)), np.ones((3, 13)))
    table = replace(table, jumps=(jumps.shrink(), jumps.shrink()))
    arrays = load(table.to_bytes())
    name = f"{direction}.{wrong}"
    if change == "missing" and name == "jumps.forward.own":
        return  # a file of an earlier version
    if change == "missing":
        del arrays[name]
    elif change == "negative":
        arrays[name] = arrays[name].astype(np.float32) - 1_000.0
    elif change == "short":
        arrays[name] = arrays[name][:-1].copy()
    elif change == "infinite" and wrong != "own":
        arrays[name] = np.full_like(arrays[name], np.inf)
    elif change == "unordered" and wrong == "own":
        arrays[name] = arrays[name][::-1].copy()
    elif change == "beyond" and wrong == "own":
        arrays[name] = np.array([7, len(vocabulary)], dtype=np.uint16)
    else:
        return
    with pytest.raises(ModelFileError):
        lexicon.Lexicon.from_bytes(save(arrays), (len(vocabulary), len(vocabulary)))


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
