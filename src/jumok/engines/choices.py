"""The likeliest words at every place of a translation: subwords completed to words, with any engine; no torch.

A search chooses among subwords, people among words.  At each word of a translation the likeliest next subwords are each
continued, greedily, to the end of their word; words that are spelled alike are one, with the sum of their
probabilities.  A word is what stands between two spaces, without the punctuation that follows it: in Korean an eojeol.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp
from typing import NamedTuple

from jumok.config.search import Ids, SearchOptions, TokenConstraints
from jumok.decoding.hypothesis import Hypothesis
from jumok.engines.alternatives import Decode
from jumok.text.boundaries import words_of
from jumok.text.vocabulary import END, Vocabulary
from jumok.translation import Word

SPARE = 3  # subwords more than words are asked for, since some complete to the same word
LONGEST = 8  # most subwords by which a word is completed
PUNCTUATION = ".,;:!?…\"'”’»)]}。、，！？」』"
GREEDY = SearchOptions(beam=1, length_penalty=0.0)


class Place(NamedTuple):
    """A word of a translation: where it begins and ends among the tokens."""

    start: int
    stop: int


def list_places(vocabulary: Vocabulary, ids: Ids) -> list[Place]:
    """Return the words of a translation (ids without END), as `translation.split_words` divides it."""
    numbers, places, start = words_of(vocabulary.pieces(ids)), list[Place](), 0
    for stop in range(1, len(ids) + 1):
        if stop < len(ids) and numbers[stop] == numbers[stop - 1]:
            continue
        if vocabulary.decode(ids[start:stop]):
            places.append(Place(start, stop))
            start = stop
    return places


def find_choices(decode: Decode, vocabulary: Vocabulary, source: Ids, ids: Ids, count: int) -> list[list[Word]]:
    """Return the `count` likeliest words at every word of a translation, best first; "" is the end of the sentence."""
    places = list_places(vocabulary, ids)
    if not places or not source:
        return []
    width = count + SPARE
    wide = SearchOptions(beam=width, n_best=width, length_penalty=0.0)
    before = [TokenConstraints(prefix=tuple(ids[: place.start])) for place in places]
    sources = [source] * len(places)
    several = decode(sources, wide, constraints=before, limits=[place.start + 1 for place in places])
    begins, begun = vocabulary.begins(), list[tuple[int, Hypothesis]]()
    for number, hypotheses in enumerate(several):
        begun += ((number, one) for one in hypotheses if _begins_word(one, places[number].start, begins))
    completed = _complete(decode, source, [one for _, one in begun if not one.ended])
    words: list[dict[str, float]] = [{} for _ in places]
    for number, one in begun:
        start = places[number].start
        text, log_probability = "", one.token_scores[start]
        if not one.ended:
            whole = next(completed)
            stop = _find_end(whole, start + 1, begins)
            text = vocabulary.decode(whole.ids[start:stop]).rstrip(PUNCTUATION) or vocabulary.decode(
                whole.ids[start:stop]
            )
            log_probability = sum(whole.token_scores[start:stop])
        words[number][text] = words[number].get(text, 0.0) + exp(log_probability)
    return [_rank(some, count) for some in words]


def _begins_word(hypothesis: Hypothesis, start: int, begins: Sequence[bool]) -> bool:
    """Whether the token at `start` begins a word, or ends the sentence; others belong to the word before."""
    token = hypothesis.ids[start] if len(hypothesis.ids) > start else END
    return len(hypothesis.ids) > start and (token == END or start == 0 or begins[token])


def _complete(decode: Decode, source: Ids, begun: Sequence[Hypothesis]) -> Iterator[Hypothesis]:
    """Yield each beginning continued to the end of its last word, or further."""
    if not begun:
        return iter(())
    constraints = [TokenConstraints(prefix=one.ids) for one in begun]
    limits = [len(one.ids) + LONGEST for one in begun]
    return (several[0] for several in decode([source] * len(begun), GREEDY, constraints=constraints, limits=limits))


def _find_end(hypothesis: Hypothesis, after: int, begins: Sequence[bool]) -> int:
    """Return where the word ends that a token before `after` belongs to."""
    for position in range(after, len(hypothesis.ids)):
        if hypothesis.ids[position] == END or begins[hypothesis.ids[position]]:
            return position
    return len(hypothesis.ids)


def _rank(words: dict[str, float], count: int) -> list[Word]:
    return [Word(text, chance) for text, chance in sorted(words.items(), key=lambda pair: -pair[1])[:count]]
