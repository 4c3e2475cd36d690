"""Words to choose from: their probabilities are the model's own, and they are words, not subwords."""

from math import exp

import pytest

from jumok.engines.choices import LONGEST, SPARE, find_choices, list_places
from jumok.errors import DataError
from jumok.text.symbols import NEVER
from jumok.text.vocabulary import END, Vocabulary
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


def score_next(model, source, before):
    """The log-probability of every token after a beginning, by teacher forcing alone."""
    allowed = [token for token in range(len(model.vocabularies.target)) if token not in NEVER and token != END]
    scored = model.engines.forcing.score([(source, [*before, token]) for token in allowed])
    chances = {token: one.token_scores[len(before)] for token, one in zip(allowed, scored, strict=True)}
    [ended] = model.engines.forcing.score([(source, before)])
    return chances | {END: ended.token_scores[len(before)]}


def reference(model, source, count):
    """The likeliest first words, found without any search."""
    target, words = model.vocabularies.target, dict[str, float]()
    begins = target.begins()
    first = score_next(model, source, [])
    for token in sorted(first, key=lambda one: -first[one])[: count + SPARE]:
        ids, total = [token], first[token]
        while ids[-1] != END and len(ids) <= LONGEST:
            chances = score_next(model, source, ids)
            best = max(chances, key=chances.__getitem__)
            if best == END or begins[best]:
                break
            ids, total = [*ids, best], total + chances[best]
        text = target.decode([one for one in ids if one != END])
        words[text] = words.get(text, 0.0) + exp(total)
    return sorted(words.items(), key=lambda pair: -pair[1])[:count]


def test_words_and_probabilities_are_those_of_scoring_every_token(model):
    _, choices = choose(model, "a b c")
    expected = reference(model, model.vocabularies.source.encode("a b c"), 5)
    assert [word.text for word in choices[0]] == [text for text, _ in expected]
    assert [word.probability for word in choices[0]] == pytest.approx([chance for _, chance in expected], rel=1e-4)


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
    vocabulary = Vocabulary.train(
        [" ".join(words)] * 30 + ["잔 을 커피를 마셔요 저 는"] * 30, size=300, kind="unigram", at_most=True
    )
    ids = vocabulary.encode(" ".join(words))
    assert [vocabulary.decode(ids[start:stop]) for start, stop in list_places(vocabulary, ids)] == words


def test_a_token_that_the_vocabulary_does_not_have_is_refused(model):
    with pytest.raises(DataError, match="no subword"):
        model.vocabularies.target.find_ids(["▁a", "▁never-seen"])
    assert model.vocabularies.target.find_ids(["</s>"]) == []
