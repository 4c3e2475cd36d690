"""The words of a token store are the words of its text."""

import pytest

from jumok.data.known import find_known_words
from jumok.data.store import Store
from jumok.storage import bundle
from jumok.text.known import KnownWords, hash_words
from jumok.text.vocabulary import Vocabulary


class Side:
    """One side of a store, in memory."""

    def __init__(self, sentences):
        import numpy as np

        self.ids = np.array([token for one in sentences for token in one], np.uint16)
        self.begins = np.cumsum([0, *map(len, sentences)]).astype(np.uint64)


TEXTS = [
    f"The {word} of number{chr(97 + row % 26)} isn't well-known, {word}!"
    for row, word in enumerate(["dog", "cats", "Äpfel", "a"] * 20)
]


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary.train(TEXTS, size=330, kind="unigram")


def test_the_words_are_those_of_the_text(vocabulary):
    words = KnownWords(find_known_words(Side([vocabulary.encode(text) for text in TEXTS]), len(TEXTS), vocabulary))
    expected = hash_words(TEXTS)
    assert set(words.hashes) == expected
    assert "number" not in words


def test_blocks_of_sentences_make_no_difference(vocabulary, monkeypatch):
    side = Side([vocabulary.encode(text) for text in TEXTS])
    whole = find_known_words(side, len(TEXTS), vocabulary)
    monkeypatch.setattr("jumok.data.known.ROWS", 7)
    assert find_known_words(side, len(TEXTS), vocabulary) == whole


def test_a_text_without_spaces_has_no_list(vocabulary):
    long = ["x" * 20 + chr(97 + row % 26) * (row // 26 + 5) for row in range(150)]
    assert find_known_words(Side([vocabulary.encode(text) for text in long]), len(long), vocabulary) is None


def test_a_run_stores_its_words_sentences_to_try_and_what_is_doubtful(micro):
    model = bundle.read(micro)
    words = KnownWords((model.folder / "known.bin").read_bytes())
    store = Store(micro / "data" / "prepared")
    text = model.vocabularies.source.decode(store.source[0].tolist())
    assert words.find_unknown(text) == []
    assert 1 <= len(model.card["examples"]) <= 8
    assert model.card["valid"][model.card["weights"]]["doubt"] <= 0
