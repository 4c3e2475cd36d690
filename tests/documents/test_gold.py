"""Tags by gold alignment: the phrasebook knows which words belong together."""

import re
from collections.abc import Iterator

import pytest

from jumok import documents
from jumok.data.made.phrasebook import Phrase, phrases
from jumok.translation import Translation

PHRASES = phrases("test", 300)


def tag_words(phrase: Phrase, first: int, count: int) -> str:
    """The English sentence with some of its words in a tag, their punctuation outside."""
    words = phrase.english.split(" ")
    inner = " ".join(words[first : first + count])
    core = re.fullmatch(r"(\W*)(.*?)(\W*)", inner)
    assert core is not None
    lead, body, trail = core.groups()
    return " ".join([*words[:first], f"{lead}<b>{body}</b>{trail}", *words[first + count :]])


def place_tag(phrase: Phrase, first: int, count: int, links: tuple[tuple[int, int], ...]) -> set[int]:
    """The Korean words that the tag encloses."""
    document = documents.read_html(tag_words(phrase, first, count), "en")
    [segment] = document.segments
    assert segment.text == phrase.english
    out = document.render([Translation(segment.text, phrase.korean, 0.0, 0.0, alignment=links)])
    assert out.replace("<b>", "").replace("</b>", "") == phrase.korean
    before, inside, _ = re.split("</?b>", out)
    start = before.count(" ")
    return set(range(start, start + inside.count(" ") + 1))


def cases(count: int) -> Iterator[tuple[Phrase, int, set[int]]]:
    for phrase in PHRASES:
        for first in range(len(phrase.english.split(" ")) - count + 1):
            gold = {target for source, target in phrase.alignment if first <= source < first + count}
            if gold:
                yield phrase, first, gold


def is_one_piece(words: set[int]) -> bool:
    return max(words) - min(words) + 1 == len(words)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_tagged_words_enclose_exactly_their_translation_wherever_it_is_in_one_piece(count):
    for phrase, first, gold in cases(count):
        if is_one_piece(gold):
            assert place_tag(phrase, first, count, phrase.alignment) == gold, phrase


def test_a_tagged_word_encloses_exactly_its_translation():
    """0.3 % are not in one piece: "won't" is 안 before the verb and 거예요 after it."""
    exact = [place_tag(phrase, first, 1, phrase.alignment) == gold for phrase, first, gold in cases(1)]
    assert len(exact) > 2_000
    assert sum(exact) / len(exact) > 0.99
