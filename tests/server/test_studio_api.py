"""What the studio asks of a server besides translations."""

import pytest

from jumok.server.studio import split_text


def test_a_card_says_what_the_model_learned_from_and_offers_sentences(running):
    status, card, _ = running.request("/v1/models/en-de/card")
    assert status == 200
    assert card["texts"] == ["copy"]
    assert card["pairs"] > 0
    assert isinstance(card["scores"]["bleu"], float)
    assert card["scores"]["doubt"] <= 0
    assert 1 <= len(card["examples"]) <= 8
    assert card["names"]["ko"] == ["영어", "독일어"]
    assert "/" not in " ".join(card["texts"])
    assert running.request("/v1/models/nobody/card")[0] == 404


def test_unknown_words_are_those_that_the_training_text_did_not_have(running):
    _, card, _ = running.request("/v1/models/en-de/card")
    seen = card["examples"][0]
    status, answer, _ = running.request("/v1/unknown", {"model": "en-de", "texts": [seen, f"{seen} zorbel"]})
    assert status == 200
    assert answer["unknown"] == [[], [[len(seen) + 1, len(seen) + 7]]]


def test_words_to_choose_from_come_without_torch(running):
    _, answer, _ = running.request("/v1/translate", {"model": "en-de", "text": "a b c", "details": True})
    [sentence] = answer["translations"][0]["sentences"]
    status, answer, _ = running.request(
        "/v1/choices", {"model": "en-de", "text": "a b c", "tokens": sentence["tokens"]}
    )
    assert status == 200
    assert len(answer["choices"]) == len(sentence["words"])
    for word, some in zip(sentence["words"], answer["choices"], strict=True):
        assert word["text"] in [one["text"] for one in some]
    assert running.metric("jumok_engine_up") == 1


@pytest.mark.parametrize("tokens", [["▁no such piece"], ["a" * 300], ["▁a"] * 3_000])
def test_tokens_that_no_model_made_are_refused(running, tokens):
    status, answer, _ = running.request("/v1/choices", {"model": "en-de", "text": "a", "tokens": tokens})
    assert status == 400
    assert "error" in answer


@pytest.mark.parametrize(
    "text",
    ["", " \n ", "One. Two!\n\nThree?  Four", "Dr. Smith came. He left 🙂. Bye", "- a\n- b\r\n\r\nc. "],
)
def test_sentences_and_what_is_between_them_are_the_text(text):
    split = split_text(text, "en")
    pieces = [split["between"][0]]
    for sentence, after in zip(split["sentences"], split["between"][1:], strict=True):
        pieces += [sentence, after]
    assert "".join(pieces) == text
    assert all(one.strip() == one and one for one in split["sentences"])


def test_segments_are_sentences(running):
    status, answer, _ = running.request("/v1/segments", {"model": "en-de", "texts": ["A dog runs. It is fast.", "Hi"]})
    assert status == 200
    assert [one["sentences"] for one in answer["segments"]] == [["A dog runs.", "It is fast."], ["Hi"]]
