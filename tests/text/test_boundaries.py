"""What can be aligned: words between spaces, characters where there are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumok.text.boundaries import split_units, units_of, words_of
from jumok.text.vocabulary import Vocabulary

TEXTS = [
    "彼は水泳が得意ではなかった。",
    "他不喜欢游泳 , 真的。",
    "เขาไม่ชอบว่ายน้ำ",
    "he does not swim.",
    "the 水 of life",
    "저는 커피를 마셨어요.",
]


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary.train(TEXTS * 5, size=330)


def test_units_are_words_between_spaces_and_characters_without():
    assert split_units("the big dog.") == [("", "the"), (" ", "big"), (" ", "dog.")]
    assert split_units("彼は OK です") == [("", "彼"), ("", "は"), (" ", "OK"), (" ", "で"), ("", "す")]
    assert split_units("the 水 of life") == [("", "the"), (" ", "水"), (" ", "of"), (" ", "life")]
    assert split_units("  ") == []


@given(st.lists(st.sampled_from([*TEXTS, "鯨", "𠮟る", "x y"]), min_size=1, max_size=3))
def test_subwords_cover_the_units_of_their_text_in_order(vocabulary, texts):
    """Characters that the vocabulary does not have are several bytes, each of which is a subword."""
    ids = vocabulary.encode(" ".join(texts))
    units = split_units(vocabulary.decode(ids))
    ranges = [pair for pair in units_of([*vocabulary.pieces(ids), "</s>"]) if pair[0] < pair[1]]
    assert {unit for start, stop in ranges for unit in range(start, stop)} == set(range(len(units)))
    assert ranges == sorted(ranges)


@pytest.mark.parametrize("text", ["he does not swim.", "저는 커피를 마셨어요.", "the 水 of life"])
def test_units_of_a_text_with_spaces_are_its_words(vocabulary, text):
    pieces = [*vocabulary.pieces(vocabulary.encode(text)), "</s>"]
    assert [start if start < stop else -1 for start, stop in units_of(pieces)] == words_of(pieces)


def test_each_byte_belongs_to_its_character():
    assert units_of(["▁水", "<0xE6>", "<0xB3>", "<0xB3>", "に", "</s>"]) == [
        (0, 1),
        (1, 2),
        (1, 2),
        (1, 2),
        (2, 3),
        (0, 0),
    ]
    assert units_of(["▁水", "<0xE6>", "泳"]) == [(0, 1), (1, 2), (2, 3)]
    assert units_of(["▁水", "<0xE6>", "<0xE6>", "泳"]) == [(0, 1), (1, 2), (2, 3), (3, 4)]
