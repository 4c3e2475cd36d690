"""bench/probe: words and tags out of trees, shares and their intervals; what is not there is told."""

import numpy as np
import pytest

from bench import probe


def test_words_and_tags_come_out_of_a_tree_without_its_traces():
    tree = "((S (NP-SBJ-1 (DT The) (NN cat)) (VP (VBZ is) (ADJP (CD 1\\/2) (-NONE- *T*-1)) (. .))))"
    words, tags = probe.read_tags(tree)
    assert words == "The cat is 1/2 ."
    assert tags == "DT NN VBZ CD ."


def test_a_share_counts_words_not_sentences():
    assert probe.share(np.array([[1, 1], [0, 9]])) == pytest.approx(10.0)


def test_the_interval_of_a_difference_holds_it_and_shrinks_with_the_number_of_sentences():
    rng = np.random.default_rng(0)

    def counts(rate: float, sentences: int) -> np.ndarray:
        return np.stack([rng.binomial(20, rate, sentences), np.full(sentences, 20)], axis=1)

    few, many = (probe.interval(counts(0.8, n), counts(0.7, n)) for n in (30, 600))
    assert few[0] < 10.0 < few[1]
    assert many[0] < 10.0 < many[1]
    assert many[1] - many[0] < few[1] - few[0]
    same = counts(0.5, 50)
    assert probe.interval(same, same) == (0.0, 0.0)


def test_text_that_is_not_there_is_told(tmp_path, capsys):
    assert probe.main(["--data", str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    assert "try:" in capsys.readouterr().err
