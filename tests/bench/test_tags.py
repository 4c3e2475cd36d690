"""bench/tags: sentences are tagged as it says, and what it counts as exact is exact."""

from itertools import pairwise
from random import Random

import pytest

from bench.tags import Phrasebook, draw, find_gold, find_words, tag
from jumok.data.made.phrasebook import phrases


def test_tags_leave_punctuation_outside_and_may_be_nested():
    assert tag("Hey, let's go home.", [(0, 1)]) == "<b>Hey</b>, let's go home."
    assert tag("Hey, let's go home.", [(1, 4), (3, 4)]) == "Hey, <b>let's go <i>home</i></b>."
    assert tag("Hey, let's go home.", [(1, 4), (1, 2)]) == "Hey, <b><i>let's</i> go home</b>."
    assert tag("Hey, let's go home.", [(1, 2), (2, 3)]) == "Hey, <b>let's</b> <i>go</i> home."


def test_words_inside_of_tags_are_counted_from_0():
    assert find_words("우리 <b>같이 <i>집에</i></b> 가요.") == {"b": {1, 2}, "i": {2}}
    assert find_words("우리<b></b> 가요.") == {"b": set()}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_stretches_that_are_drawn_are_apart(count):
    for seed in range(50):
        spans = sorted(draw(count, 9, Random(seed)))
        assert 1 <= len(spans) <= count
        assert all(first[1] <= second[0] for first, second in pairwise(spans))


def test_gold_links_are_exact_wherever_a_translation_is_in_one_piece_and_shifted_ones_are_not():
    some = phrases("validation", 40)
    rows = dict(Phrasebook(some, 1).measure([phrase.alignment for phrase in some]))
    for row in ("  2 words, translation in one piece", "each of 2 tags", "each of 3 tags", "outer tag", "tag in a tag"):
        assert rows[row].startswith(" 100.0%")
    assert rows["words without a gold link, not counted"] == "0"
    shifted = [tuple((source, target + 1) for source, target in phrase.alignment) for phrase in some]
    assert float(dict(Phrasebook(some, 1).measure(shifted))["one word"].split("%")[0]) < 20.0


def test_a_word_without_a_gold_link_is_not_counted():
    [phrase] = phrases("validation", 1)
    without = type(phrase)(
        phrase.english, phrase.korean, tuple(p for p in phrase.alignment if p[0] != 1), phrase.unseen
    )
    rows = dict(Phrasebook([without], 1).measure([phrase.alignment]))
    assert rows["words without a gold link, not counted"] == "1"
    assert rows["one word"].endswith(f"of {len(phrase.english.split()) - 1}")
    assert find_gold(without, (1, 2)) == set()
