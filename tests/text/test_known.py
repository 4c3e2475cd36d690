"""Known words: those of the training text and no others, whatever their case."""

from hypothesis import given
from hypothesis import strategies as st

from jumok.text.known import KnownWords, hash_word, pack_words


def known(*words: str) -> KnownWords:
    return KnownWords(pack_words(map(hash_word, words)))


def test_words_are_found_without_case_and_others_are_not():
    some = known("Mann", "fährt", "robin's", "half-door")
    assert "MANN" in some
    assert "mann" in some
    assert "Frau" not in some
    assert len(some) == 4


def test_unknown_words_are_found_where_they_are_and_numbers_are_no_words():
    some = known("a", "man", "robin's")
    assert some.find_unknown("A mann, 12 robin's 3rd zorbel.") == [(2, 6), (20, 22), (23, 29)]


def test_composed_and_decomposed_letters_are_the_same():
    assert "caf\u0065\u0301" in known("café")


@given(st.lists(st.text(st.characters(categories=["L"]), min_size=1), max_size=30))
def test_every_word_of_a_list_is_known(words):
    some = known(*words)
    assert all(word in some for word in words)
    assert known().find_unknown("abc") == [(0, 3)]
