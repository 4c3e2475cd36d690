"""Word alignment from one head's attention and a lexicon: both directions, punctuation, every word linked."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumok.data.lexicon import Lexicon, Table
from jumok.data.markov import Jumps
from jumok.evaluation.linking import UNLISTED, UNSURE, Evidence, Reading, find_evidence, link, score_heads
from jumok.text.endings import find_forms


def plainly(weights, source, target, chances):
    """The same links, word by word, for pieces that are whole words."""
    forward, backward = chances
    rows = [
        [(a + UNSURE) * (p + UNLISTED) for a, p in zip(*pair, strict=True)]
        for pair in zip(weights, forward, strict=True)
    ]
    columns = [
        [(a + UNSURE) * (p + UNLISTED) for a, p in zip(*pair, strict=True)]
        for pair in zip(weights, backward, strict=True)
    ]
    chosen, returned = {}, {}
    for t, row in enumerate(rows):
        s = max(range(len(source)), key=lambda s: row[s])
        chosen[s, t] = row[s] / sum(row)
    for s in range(len(source)):
        column = [row[s] for row in columns]
        t = max(range(len(target)), key=lambda t: column[t])
        returned[s, t] = column[t] / sum(column)
    links = set(chosen) & set(returned)
    rest = sorted(
        ((-max(chosen.get(one, 0), returned.get(one, 0)), one) for one in {*chosen, *returned} - links),
    )
    for _, (s, t) in rest:
        if all(s != a for a, _ in links) or all(t != b for _, b in links):
            links.add((s, t))
    return links


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 10**6))
def test_links_of_whole_words_are_those_of_a_loop_over_words_and_every_word_has_one(sources, targets, seed):
    generator = np.random.default_rng(seed)
    weights, *chances = generator.random((3, targets, sources))
    source, target = [f"▁s{i}" for i in range(sources)], [f"▁t{i}" for i in range(targets)]
    links = link(weights, source, target, Evidence(*chances))
    assert links == plainly(weights.tolist(), source, target, (chances[0].tolist(), chances[1].tolist()))
    assert {s for s, _ in links} == set(range(sources))
    assert {t for _, t in links} == set(range(targets))


def test_a_lexicon_decides_where_attention_does_not_and_attention_between_equal_words():
    source, target = ["▁the", "▁dog", "▁dog"], ["▁der", "▁Hund", "▁Hund"]
    forward = np.array([[0.9, 0.0, 0.0], [0.0, 0.9, 0.9], [0.0, 0.9, 0.9]])
    blurred = np.full((3, 3), 1 / 3)
    blurred[1, 2] += 0.1
    assert link(blurred, source, target, Evidence(forward, forward)) >= {(0, 0), (2, 1)}
    assert (0, 0) in link(np.eye(3)[[0, 1, 2]], source, target)


def test_pieces_of_a_word_are_added_up_on_the_source_side_and_averaged_on_the_target_side():
    weights = np.array([[0.3, 0.35, 0.35], [0.9, 0.05, 0.05]])
    assert link(weights, ["▁a", "▁b", "c"], ["▁x", "▁y"]) == {(1, 0), (0, 1)}
    halves = np.array([[0.8, 0.2], [0.3, 0.7], [0.3, 0.7]])
    assert (1, 0) in link(halves, ["▁a", "▁b"], ["▁x", "y", "z"])


def test_punctuation_inside_a_word_and_lone_spaces_do_not_link_it():
    source, target = ["▁go", "▁home", "."], ["▁", "집에", "▁가", "."]
    weights = np.array([[1.0, 0.0, 0.0], [0.4, 0.6, 0.0], [0.55, 0.45, 0.0], [0.0, 0.0, 1.0]])
    assert link(weights, source, target) == {(1, 0), (0, 1)}


def test_a_word_of_punctuation_alone_is_a_word():
    assert link(np.eye(2), ["▁a", "▁–"], ["▁b", "▁–"]) == {(0, 0), (1, 1)}


def test_symbols_and_empty_sentences_have_no_links():
    assert link(np.ones((1, 1)), ["</s>"], ["</s>"]) == set()
    assert link(np.ones((1, 2)), ["▁a", "</s>"], ["</s>"]) == set()
    assert link(np.zeros((0, 0)), [], []) == set()
    assert link(np.zeros((2, 2)), ["▁a", "</s>"], ["▁b", "</s>"]) == {(0, 0)}


def test_weights_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="weights are"):
        link(np.eye(2), ["▁a"], ["▁b", "▁c"])


def test_the_head_that_attends_to_translations_scores_best():
    forward = np.array([[0.9, 0.0], [0.0, 0.9]])
    cross = np.stack(
        [[[[0.5, 0.5], [0.5, 0.5]], [[0.0, 1.0], [1.0, 0.0]]], [[[1.0, 0.0], [0.2, 0.8]], [[0.4, 0.6], [0.6, 0.4]]]]
    )
    scores = score_heads(cross, Evidence(forward, forward))
    assert scores.shape == (2, 2)
    assert np.unravel_index(scores.argmax(), scores.shape) == (1, 0)
    assert np.unravel_index(scores.argmin(), scores.shape) == (0, 1)


def test_jumps_link_a_word_without_a_translation_of_its_own_to_that_of_the_next_word():
    """An article has no probabilities: after it the state stays the same, before it anything may happen."""
    jumps = Jumps(np.array([7]), np.full((2, 25), 0.04), np.ones((2, 25)), np.ones((2, 13)))
    jumps.before[1] = 0.001
    jumps.before[1, 12] = 0.976
    others = Jumps(np.array([], int), np.full((1, 25), 0.04), np.ones((1, 25)), np.ones((1, 13)))
    source, target = [5, 7, 6], [4, 5]  # lost the umbrella
    evidence = Evidence(
        np.array([[0.0, 0.0, 0.9], [0.9, 0.0, 0.0]]),
        np.array([[0.0, 0.0, 0.9], [0.9, 0.0, 0.0]]),
        Reading(source, target, (others, jumps)),
    )
    flat = np.full((2, 3), 1 / 3)
    pieces = ["▁lost", "▁the", "▁umbrella"], ["▁우산을", "▁잃었다"]
    assert link(flat, *pieces, evidence) == {(0, 1), (1, 0), (2, 0)}
    jumps.before[1], jumps.before[1, 13] = 0.001, 0.976  # after the article, one further: with the verb
    assert link(flat, *pieces, evidence) == {(0, 1), (1, 1), (2, 0)}


def test_very_long_sentences_are_linked_without_jumps():
    flat = Jumps(np.array([], int), np.full((1, 25), 0.04), np.ones((1, 25)), np.ones((1, 13)))
    table = Table(np.array([0, 0, 1]), np.array([1]), np.array([0.5]))
    lexicon = Lexicon(table.begins, table.others, np.array([1]), table.chances, table, (flat, flat))
    short, long = find_evidence(lexicon, [1] * 9, [1] * 9), find_evidence(lexicon, [1] * 500, [1] * 500)
    assert short.reading is not None
    assert long.reading is None
    assert find_evidence(lexicon, [], []).reading is None


def test_chances_of_two_sentences_are_looked_up_by_their_subwords():
    forward = Table(np.array([0, 0, 2, 3]), np.array([2, 1, 0]), np.array([0.75, 0.25, 0.5], dtype=np.float16))
    backward = Table(np.array([0, 1, 1, 2]), np.array([2, 1]), np.array([1.0, 0.5], dtype=np.float16))
    lexicon = Lexicon(forward.begins, forward.others, np.array([1]), forward.chances, backward)
    found = find_evidence(lexicon, [1, 2], [2, 0, 1])
    assert found is not None
    assert found.forward.tolist() == [[0.75, 0.0], [0.0, 0.5], [0.25, 0.0]]
    assert found.backward.tolist() == [[0.5, 0.0], [0.0, 1.0], [0.0, 0.0]]
    assert find_evidence(None, [1], [1]) is None
    assert find_evidence(Lexicon(forward.begins, forward.others, np.array([1])), [1], [1]) is None


def test_characters_of_a_text_without_spaces_are_linked_with_their_subword_and_punctuation_is_not():
    source, target = ["▁he", "▁swim", "s", "."], ["▁彼は", "泳", "ぐ", "。"]
    weights = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 0.5, 0.5, 0.0], [0.0, 0.4, 0.6, 0.0], [0.0, 0.0, 0.1, 0.9]])
    assert link(weights, source, target) == {(0, 0), (0, 1), (1, 2), (1, 3)}
    assert link(weights.T, target, source) == {(0, 0), (1, 0), (2, 1), (3, 1)}


def test_the_bytes_of_one_character_are_linked_together():
    target = ["▁水", "<0xE6>", "<0xB3>", "<0xB3>", "に"]
    weights = np.array([[1.0, 0.0], [0.3, 0.7], [0.3, 0.7], [0.3, 0.7], [1.0, 0.0]])
    assert link(weights, ["▁in", "▁swimming"], target) == {(0, 0), (1, 1), (0, 2)}


def test_a_word_apart_from_the_rest_of_its_translation_goes_to_its_neighbour():
    """A Korean counter depends on what is counted, and belongs to the number before it."""
    even = Jumps(np.array([], int), np.full((1, 25), 0.04), np.ones((1, 25)), np.ones((1, 13)))
    source, target = ["▁two", "▁hats", "▁bought"], ["▁모자", "▁두", "▁개를", "▁샀다"]
    chances = np.array([[0.0, 0.5, 0.0], [0.9, 0.0, 0.0], [0.1, 0.4, 0.0], [0.0, 0.0, 0.9]])  # (T, S)
    reading = Reading([4, 5, 6], [4, 5, 6, 7], (even, even))
    flat = np.full((4, 3), 1 / 3)
    whole = {(0, 1), (0, 2), (1, 0), (2, 3)}
    assert link(flat, source, target, Evidence(chances, chances, reading)) == whole
    assert (1, 2) in link(flat, source, target, Evidence(chances, chances))
    chances[3] = [0.0, 0.9, 0.0]  # of a word that is not next to "two" or "hats" nothing is taken
    chances[2] = [0.0, 0.0, 0.9]
    assert (2, 2) in link(flat, source, target, Evidence(chances, chances, reading))


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10**6))
def test_with_jumps_every_word_has_a_link(sources, targets, seed):
    generator = np.random.default_rng(seed)
    weights, *chances = generator.random((3, targets, sources))
    even = Jumps(np.array([], int), np.full((1, 25), 0.04), np.ones((1, 25)), np.ones((1, 13)))
    reading = Reading(list(range(4, 4 + sources)), list(range(4, 4 + targets)), (even, even))
    pieces = [f"▁s{i}" for i in range(sources)], [f"▁t{i}" for i in range(targets)]
    links = link(weights, *pieces, Evidence(*chances, reading))
    assert {s for s, _ in links} == set(range(sources))
    assert {t for _, t in links} == set(range(targets))


def test_a_word_whose_other_forms_translate_the_noun_belongs_to_noun_and_preposition():
    even = Jumps(np.array([], int), np.full((1, 25), 0.04), np.ones((1, 25)), np.ones((1, 13)))
    source, target = ["▁gave", "▁to", "▁Hayun"], ["▁하윤", "▁씨에게", "▁줬다"]
    chances = np.array([[0.0, 0.0, 0.9], [0.0, 0.9, 0.0], [0.9, 0.0, 0.0]])  # (T, S)
    evidence = Evidence(chances, chances, Reading([4, 5, 6], [4, 5, 6], (even, even)))
    flat = np.full((3, 3), 1 / 3)
    assert link(flat, source, target, evidence) == {(2, 0), (1, 1), (0, 2)}
    forms = np.zeros((3, 3))
    forms[1, 2] = 0.2  # 씨는 and 씨를 translate "Hayun"
    assert link(flat, source, target, evidence._replace(forms=forms)) == {(2, 0), (2, 1), (1, 0), (1, 1), (0, 2)}
    forms[1, 2] = 0.01
    assert link(flat, source, target, evidence._replace(forms=forms)) == {(2, 0), (1, 1), (0, 2)}


def test_the_forms_of_a_word_are_looked_up_in_the_vocabulary_and_in_the_lexicon():
    pieces = ["<pad>", "▁씨", "▁씨는", "▁씨에게", "씨를", "▁Hund", "▁Hunde", "▁사과를", "▁사과"]
    forms = find_forms(pieces)
    assert forms == {2: [1, 3], 3: [1, 2], 7: [8]}
    table = Table(np.array([0, 0, 2, 3]), np.array([1, 2, 3]), np.array([0.25, 0.5, 0.75]))
    jumps = Jumps(np.array([], int), np.full((1, 25), 0.04), np.ones((1, 25)), np.ones((1, 13)))
    lexicon = Lexicon(table.begins, table.others, np.array([1]), table.chances, table, (jumps, jumps))
    found = find_evidence(lexicon, [1, 2], [3, 4], forms)
    assert found.forms.tolist() == [[0.75, 0.0], [0.0, 0.0]]
    assert find_evidence(lexicon, [1, 2], [4, 5], forms).forms is None
