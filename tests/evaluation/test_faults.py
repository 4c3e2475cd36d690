"""The worst sentences: every order puts what it is about first."""

from math import log

import pytest

from jumok.data.corpora import Pair
from jumok.evaluation import metrics
from jumok.evaluation.faults import ORDERS, find_faults, share_copied, sort
from jumok.translation import Translation

SAID = {  # source: reference, translation, probability of a token
    "The house is red": ("Das Haus ist rot", "Das Haus ist rot", 0.9),
    "A yellow bicycle": ("Ein gelbes Fahrrad", "Ein yellow bicycle", 0.5),
    "Two dogs": ("Zwei Hunde", "Zwei Hunde und Hunde und Hunde und Hunde", 0.6),
    "It rains today": ("Heute regnet es", "xqzk", 0.95),
}


class Parrot:
    """A model that says what the table has."""

    def lines(self, texts, *, progress, **keywords):
        for text in texts:
            _, said, probability = SAID[text]
            yield Translation(text, said, 0.0, 3 * log(probability), token_scores=(log(probability),) * 3)

    def score(self, sources, targets):
        raise NotImplementedError


@pytest.fixture(scope="module")
def faults():
    pairs = [Pair(source, reference, number) for number, (source, (reference, *_)) in enumerate(SAID.items(), start=1)]
    return find_faults(Parrot(), pairs)


@pytest.mark.parametrize(
    ("order", "worst"),
    [("chrf", "It rains today"), ("long", "Two dogs"), ("sure", "It rains today"), ("copied", "A yellow bicycle")],
)
def test_the_worst_come_first(faults, order, worst):
    assert sort(faults, order)[0].source == worst
    assert len(sort(faults, order)) == len(SAID)
    assert order in ORDERS


def test_measures_are_those_of_sacrebleu_and_of_the_search(faults):
    for fault, (reference, said, probability) in zip(faults, SAID.values(), strict=True):
        assert fault.chrf == pytest.approx(metrics.chrf([said], [reference]).value, abs=0.01)
        assert fault.probability == pytest.approx(probability, abs=1e-3)
    assert faults[0].chrf == 100


def test_words_that_both_languages_have_are_not_copied():
    assert share_copied(Pair("Berlin has museums", "Berlin hat Museen", 1), "Berlin hat museums") == 0.5
    assert share_copied(Pair("a b", "c d", 1), "a b") == 0.0, "short words say nothing"
