"""Subwords drawn by key: as likely as the papers say, and the same in every process."""

import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence

import pytest

from jumok.text.sampling import LONGEST, MOST, Sampler
from jumok.text.vocabulary import SPECIALS, Vocabulary
from tests.text.test_vocabulary import ENGLISH, KINDS, KOREAN

DRAWS = 4_000


@pytest.fixture(scope="module", params=KINDS)
def vocabulary(request):
    return Vocabulary.train(ENGLISH + KOREAN, size=400, kind=request.param)


def all_cuts(vocabulary: Vocabulary, word: Sequence[int]) -> dict[tuple[int, ...], float]:
    """Every way to write a word in pieces of the vocabulary, and the sum of their scores: by trying all."""
    processor = vocabulary._processor
    pieces = {processor.id_to_piece(i): i for i in range(SPECIALS, len(vocabulary)) if not processor.is_byte(i)}

    def cuts(text: str) -> dict[tuple[int, ...], float]:
        found = {} if text else {(): 0.0}
        for end in range(1, len(text) + 1):
            if text[:end] in pieces:
                i = pieces[text[:end]]
                found |= {(i, *cut): processor.get_score(i) + score for cut, score in cuts(text[end:]).items()}
        return found

    return cuts("".join(vocabulary.pieces(word)))


def far(first: Counter, second: Counter) -> float:
    """How far two counts are apart, as a multiple of what chance gives: chi-square of two samples over its freedom."""
    often = [cut for cut in first | second if first[cut] + second[cut] >= 10]
    rest = [sum(n for cut, n in counts.items() if cut not in often) for counts in (first, second)]
    table = [(first[cut], second[cut]) for cut in often] + ([tuple(rest)] if sum(rest) else [])
    share = [sum(column) / sum(map(sum, table)) for column in zip(*table, strict=True)]
    terms = [(n - sum(row) * p) ** 2 / (sum(row) * p) for row in table for n, p in zip(row, share, strict=True)]
    freedom = max(1, len(table) - 1)
    return (sum(terms) - freedom) / math.sqrt(2 * freedom)


def test_the_cuts_of_a_word_are_the_likeliest_of_all_there_are():
    vocabulary = Vocabulary.train(ENGLISH + KOREAN, size=400, kind="unigram")
    for text in ("Stakering.", "verton", "학교까지"):
        word = tuple(vocabulary.encode(text))
        cuts = vocabulary._sampler.segment(word)
        every = all_cuts(vocabulary, word)
        best = sorted(every.values(), reverse=True)[:MOST]
        assert cuts.scores == pytest.approx(best)
        assert [every[cut] for cut in cuts.ids] == pytest.approx(best)
        assert len(set(cuts.ids)) == len(cuts.ids) == len(best)
        assert word in cuts.ids[:2]


@pytest.mark.parametrize("strength", [0.1, 0.3, 1.0])
def test_unigram_cuts_come_as_often_as_their_probability_says(strength):
    vocabulary = Vocabulary.train(ENGLISH + KOREAN, size=400, kind="unigram")
    word = vocabulary.encode("starpoled")
    drawn = Counter(tuple(cut) for cut in vocabulary.sample([word] * DRAWS, strength=strength, key=5))
    every = sorted(all_cuts(vocabulary, word).items(), key=lambda item: -item[1])[:MOST]
    weights = {cut: math.exp(score * 0.1 / strength) for cut, score in every}
    for cut, weight in weights.items():
        share = weight / sum(weights.values())
        assert drawn[cut] / DRAWS == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / DRAWS) + 1e-9)
    assert set(drawn) <= set(weights)


@pytest.mark.parametrize("strength", [0.4, 0.6])
def test_draws_are_as_frequent_as_those_of_sentencepiece(vocabulary, strength):
    text = "Stakering verton polness."
    best = vocabulary.encode(text)
    ours = Counter(tuple(cut) for cut in vocabulary.sample([best] * DRAWS, strength=strength, key=1))
    alpha = strength / 2 if vocabulary.kind == "bpe" else 0.1 / strength
    theirs = Counter(
        tuple(vocabulary._processor.encode(text, enable_sampling=True, alpha=alpha, nbest_size=-1))
        for _ in range(DRAWS)
    )
    assert abs(far(ours, theirs)) < 5.0
    other = Counter(tuple(cut) for cut in vocabulary.sample([best] * DRAWS, strength=strength * 1.5, key=1))
    assert far(other, theirs) > 5.0, "the test would see half as much again"


def test_every_process_draws_the_same(vocabulary, tmp_path):
    (tmp_path / "vocabulary.model").write_bytes(vocabulary.model)
    sentences = vocabulary.encode_all(ENGLISH[:20] + KOREAN[:20])
    code = (
        "import json, sys; from jumok.text.vocabulary import Vocabulary; v = Vocabulary.load(sys.argv[1])\n"
        "print(json.dumps([v.sample(json.loads(sys.argv[2]), strength=0.5, key=key) for key in range(5)]))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "vocabulary.model"), json.dumps(sentences)]
    elsewhere = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert elsewhere == [vocabulary.sample(sentences, strength=0.5, key=key) for key in range(5)]


def test_text_without_spaces_is_drawn_in_stretches_and_bytes_stay_where_they_are():
    pieces = [None] * 8 + ["<0x41>", "一", "二", "一二"]
    sampler = Sampler([*pieces[:8], None, *pieces[9:]], [0.0] * 8 + [0.0, -1.0, -1.0, -2.0], bpe=False)
    sentence = [11] * 40
    drawn = [sampler.sample([sentence], strength=1.0, key=key)[0] for key in range(20)]
    assert len({tuple(cut) for cut in drawn}) == 20
    for cut in drawn:
        assert "".join(pieces[i] for i in cut) == "一二" * 40
    longest = max(map(len, sampler._recent))
    assert longest == LONGEST
    mixed = [9, 10, 8, 9]
    assert sampler.sample([mixed] * 50, strength=1.0, key=1) == [mixed] * 50
    assert sampler.sample([[], [9]], strength=1.0, key=1) == [[], [9]]


def test_cuts_are_forgotten_before_they_fill_the_memory(monkeypatch):
    monkeypatch.setattr("jumok.text.sampling.CACHED", 50)
    vocabulary = Vocabulary.train(ENGLISH + KOREAN, size=400, kind="unigram")
    sentences = vocabulary.encode_all(ENGLISH)
    drawn = vocabulary.sample(sentences, strength=0.5, key=1)
    assert len(vocabulary._sampler._recent) <= 50
    monkeypatch.setattr("jumok.text.sampling.CACHED", 50_000)
    assert vocabulary.sample(sentences, strength=0.5, key=1) == drawn
    assert len(vocabulary._sampler._recent) > 50
