"""Words to choose from: their probabilities are the model's own, and they are words, not subwords."""

from math import exp

import pytest

from jumok.engines.choices import find_choices, list_places
from jumok.errors import DataError
from jumok.text.vocabulary import Vocabulary
from jumok.translator import Translator


@pytest.fixture(scope="module")
def model(micro):
    return Translator.load(micro)


def choose(model, text, count=5):
    answer = model.translate(text)
    ids = model.vocabularies.target.find_ids(answer.tokens)
    engine = model.engines.forcing
    return answer, find_choices(
        engine.decode, model.vocabularies.target, model.vocabularies.source.encode(text), ids, count
    )


@pytest.mark.parametrize("text", ["a b c", "c a", "b"])
def test_there_is_a_list_for_every_word_with_the_word_itself_in_it(model, text):
    answer, choices = choose(model, text)
    assert len(choices) == len(answer.words)
    for word, some in zip(answer.words, choices, strict=True):
        assert word.text in [one.text for one in some]
        assert [one.probability for one in some] == sorted((one.probability for one in some), reverse=True)
        assert sum(one.probability for one in some) <= 1 + 1e-4
        assert len({one.text for one in some}) == len(some)


def test_a_probability_is_the_one_that_scoring_the_words_gives(model):
    """Independent of the search: the whole translation is scored twice, with and without the word."""
    text = "a b c"
    _, choices = choose(model, text)
    for word in choices[0]:
        if word.text:
            [scored] = model.score([text], [word.text])
            ids = model.vocabularies.target.encode(word.text)
            assert word.probability == pytest.approx(exp(sum(scored.token_scores[: len(ids)])), rel=1e-3, abs=1e-7)


def test_both_engines_choose_alike(model):
    _, native = choose(model, "a b c d")
    target = model.vocabularies.target
    ids = target.find_ids(model.translate("a b c d").tokens)
    torch = find_choices(model.engine.decode, target, model.vocabularies.source.encode("a b c d"), ids, 5)
    for one, other in zip(native, torch, strict=True):
        assert [word.text for word in one][:2] == [word.text for word in other][:2]
        assert one[0].probability == pytest.approx(other[0].probability, rel=1e-4)


def test_places_are_the_words_between_spaces():
    words = ["저는", "커피", "두", "잔을", "마셨어요."]
    vocabulary = Vocabulary.train([" ".join(words)] * 30 + ["잔 을 커피를 마셔요 저 는"] * 30, size=300, kind="unigram")
    ids = vocabulary.encode(" ".join(words))
    assert [vocabulary.decode(ids[start:stop]) for start, stop in list_places(vocabulary, ids)] == words


def test_a_token_that_the_vocabulary_does_not_have_is_refused(model):
    with pytest.raises(DataError, match="no subword"):
        model.vocabularies.target.find_ids(["▁a", "▁never-seen"])
    assert model.vocabularies.target.find_ids(["</s>"]) == []
