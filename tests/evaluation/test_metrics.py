"""Scores are sacreBLEU's, with its signatures; significance, perplexity and alignment error by their definitions."""

import json
import math
import os
import random
import subprocess
import sys
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.significance import PairedTest

from jumok.errors import DataError, UnknownName, UsageError
from jumok.evaluation import metrics
from jumok.evaluation.alignment import alignment_error_rate, word_links
from jumok.evaluation.metrics import (
    Score,
    bleu,
    chrf,
    perplexity,
    scores,
    script,
    tallies,
    ter,
)
from jumok.evaluation.significance import significance

WORDS = ["the", "a", "man", "woman", "rides", "old", "red", "bike,", "down", "hill", "and", "sings", "softly", "."]
KOREAN = ["한 남자가 자전거를 탄다.", "그녀는 노래를 부른다."]
JAPANESE = ["男の人が自転車に乗っています。", "彼女は歌を歌います。"]
CHINESE = ["一个男人骑着自行车。", "她在唱歌。"]


def corpus(sentences: int = 120, seed: int = 1) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(4, 14))) for _ in range(sentences)]


def spoilt(sentences: list[str], share: float, seed: int = 2) -> list[str]:
    """The sentences with that share of words replaced."""
    draw = random.Random(seed)
    return [
        " ".join(draw.choice(WORDS) if draw.random() < share else word for word in sentence.split())
        for sentence in sentences
    ]


@pytest.fixture(scope="module")
def reference() -> list[str]:
    return corpus()


@pytest.fixture(scope="module")
def hypothesis(reference: list[str]) -> list[str]:
    return spoilt(reference, 0.2)


# ------------------------------------------------------------------------------------------ scores


def test_scores_and_signatures_equal_those_of_the_sacrebleu_command(
    tmp_path: Path, reference: list[str], hypothesis: list[str]
) -> None:
    for name, sentences in (("ref", reference), ("hyp", hypothesis)):
        (tmp_path / name).write_text("\n".join(sentences) + "\n")
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", "hyp", "-m", "bleu", "chrf", "ter", "-w", "12"]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout
    wanted = [(row["name"], row["score"], row["signature"]) for row in json.loads(printed)]
    ours = scores(hypothesis, reference)
    assert list(ours) == ["bleu", "chrf", "ter"]
    assert [(score.name, round(score.value, 12), score.signature) for score in ours.values()] == wanted
    assert [bleu(hypothesis, reference), chrf(hypothesis, reference), ter(hypothesis, reference)] == list(ours.values())
    assert ours["bleu"].signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


def test_options_reach_sacrebleu_and_its_signature(reference: list[str], hypothesis: list[str]) -> None:
    louder = [sentence.upper() for sentence in hypothesis]
    lower = bleu(louder, reference, lowercase=True)
    assert lower.value == sacrebleu.BLEU(lowercase=True).corpus_score(louder, [reference]).score
    assert lower.value > bleu(louder, reference).value
    assert "case:lc" in lower.signature
    assert "tok:intl" in bleu(hypothesis, reference, tokenize="intl").signature
    plus = chrf(hypothesis, reference, word_order=2)
    assert plus.name == "chrF2++"
    assert plus.value == sacrebleu.CHRF(word_order=2).corpus_score(hypothesis, [reference]).score
    assert plus == scores(hypothesis, reference, metrics=["chrf++"])["chrf++"]


def test_several_reference_sets_are_one_list_for_each_set(reference: list[str], hypothesis: list[str]) -> None:
    sets = [reference, spoilt(reference, 0.3, seed=5)]
    both = bleu(hypothesis, sets)
    assert both.value == sacrebleu.BLEU().corpus_score(hypothesis, sets).score
    assert both.value > bleu(hypothesis, reference).value
    assert "nrefs:2" in both.signature
    assert bleu(hypothesis, [reference]) == bleu(hypothesis, reference)


def test_a_perfect_translation_scores_best(reference: list[str]) -> None:
    best = scores(reference, reference)
    assert best["bleu"].value == pytest.approx(100)
    assert best["chrf"].value == pytest.approx(100)
    assert best["ter"].value == 0


def test_empty_sentences_are_scored(reference: list[str]) -> None:
    nothing = scores([""] * len(reference), reference)
    assert (nothing["bleu"].value, nothing["chrf"].value) == (0, 0)
    assert nothing["ter"].value == pytest.approx(100)


texts = st.text(st.sampled_from("ab cde.,\u00e9\uac00\u3042\U0001f6b2\n"), max_size=25)


@given(pairs=st.lists(st.tuples(texts, texts), min_size=1, max_size=12), cut=st.integers(0, 12))
def test_counting_in_blocks_gives_sacrebleus_score_of_the_whole(pairs: list[tuple[str, str]], cut: int) -> None:
    ours, theirs = [list(side) for side in zip(*pairs, strict=True)]
    for name, whole in {"bleu": sacrebleu.BLEU(), "chrf": sacrebleu.CHRF(), "ter": sacrebleu.TER()}.items():
        tally = tallies([name], theirs, tokenize="13a")[name]
        for some in (slice(None, cut), slice(cut, None)):
            tally.add(ours[some], [theirs[some]])
        assert tally.score() == Score(
            whole.corpus_score(ours, [theirs]).name,
            whole.corpus_score(ours, [theirs]).score,
            str(whole.get_signature()),
        )


@pytest.mark.parametrize(("limit", "value"), [("BLOCK", 7), ("CHARACTERS", 300)])
def test_scores_of_more_than_a_block_are_sacrebleus(limit: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, limit, value)
    reference = corpus(100, seed=8)
    hypothesis = spoilt(reference, 0.3)
    sets = [reference, spoilt(reference, 0.1, seed=3)]
    for references in ([reference], sets):
        assert bleu(hypothesis, references).value == sacrebleu.BLEU().corpus_score(hypothesis, references).score
        assert chrf(hypothesis, references).value == sacrebleu.CHRF().corpus_score(hypothesis, references).score
        assert ter(hypothesis, references).value == sacrebleu.TER().corpus_score(hypothesis, references).score


@pytest.mark.parametrize("score", [bleu, chrf, partial(significance, corpus(8_000, seed=3), samples=1)])
def test_scoring_holds_no_n_grams_of_sentences_that_are_counted(score: Any) -> None:
    """sacreBLEU's corpus_score would hold 10 to 40 kB for each of the 8,000."""
    reference = corpus(8_000)
    hypothesis = spoilt(reference, 0.2)
    score(hypothesis[:8_000], reference)  # what is remembered for good, such as tokens of sentences, is there now
    tracemalloc.start()
    score(hypothesis, reference)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


@pytest.mark.parametrize("references", [["a"], [["a", "b"], ["a"]], []])
def test_an_unequal_number_of_sentences_is_an_error(references: list[str] | list[list[str]]) -> None:
    for function in (bleu, chrf, ter, scores):
        with pytest.raises(DataError, match="2 hypotheses"):
            function(["a", "b"], references)
    with pytest.raises(DataError, match="2 hypotheses"):
        significance(["a", "b"], ["a", "b"], references)


def test_each_of_two_systems_must_be_as_long_as_the_references() -> None:
    with pytest.raises(DataError, match="1 hypotheses"):
        significance(["a", "b"], ["a"], ["a", "b"])


def test_nothing_to_score_is_an_error() -> None:
    with pytest.raises(DataError, match="nothing"):
        bleu([], [])


def test_unknown_names_are_met_with_a_proposal() -> None:
    with pytest.raises(UnknownName, match="did you mean 'bleu'"):
        scores(["a"], ["a"], metrics=["blue"])
    with pytest.raises(UnknownName, match="did you mean 'ko-mecab'"):
        bleu(["a"], ["a"], tokenize="ko_mecab")


def test_a_score_prints_with_its_signature() -> None:
    assert str(Score("BLEU", 27.345, "nrefs:1")) == "BLEU 27.34 (nrefs:1)"


# ------------------------------------------------------------------------------------------ tokenizers


@pytest.mark.parametrize(
    ("texts", "language"),
    [
        (KOREAN, "ko"),
        (JAPANESE, "ja"),
        (CHINESE, "zh"),
        (["A man rides a bike.", "Ein Mann fährt Rad.", "Мужчина едет"], ""),
        (["In Seoul (서울) they say 주목 when they mean attention, and nothing else."], ""),
        (["NVIDIA의 GeForce RTX 4090 그래픽 카드를 사용했다."], "ko"),
        (["大韓民國의 主權은 國民에게 있고, 모든 權力은 國民으로부터 나온다."], "ko"),
        (["\u1112\u1161\u11ab\u1100\u1173\u11af"], "ko"),
        (["", "123 !?"], ""),
        ([], ""),
    ],
)
def test_the_script_of_a_text_is_the_one_it_is_mostly_in(texts: list[str], language: str) -> None:
    assert script(texts) == language


def works(tokenizer: str) -> bool:
    try:
        sacrebleu.BLEU(tokenize=tokenizer)
    except RuntimeError:
        return False
    return True


@pytest.mark.parametrize(
    ("texts", "best", "fallback"),
    [(KOREAN, "ko-mecab", "char"), (JAPANESE, "ja-mecab", "char"), (CHINESE, "zh", "zh"), (["Eins zwei."], "13a", "")],
    ids=["ko", "ja", "zh", "de"],
)
def test_auto_takes_the_tokenizer_of_the_script_or_characters(texts: list[str], best: str, fallback: str) -> None:
    wanted = best if works(best) else fallback
    automatic = bleu(texts, texts, tokenize="auto")
    assert f"tok:{wanted}" in automatic.signature
    assert automatic == bleu(texts, texts, tokenize=wanted)


def test_auto_looks_at_the_references_and_not_at_the_hypotheses() -> None:
    assert "tok:13a" in bleu(KOREAN, ["A man rides a bike.", "She sings."], tokenize="auto").signature


@pytest.mark.parametrize("error", [RuntimeError, AssertionError])
def test_a_tokenizer_that_is_not_installed_is_replaced_if_automatic_and_an_error_if_asked_for(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def missing(self: object) -> None:
        raise error

    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ko_mecab.TokenizerKoMecab.__init__", missing)
    assert "tok:char" in bleu(KOREAN, KOREAN, tokenize="auto").signature
    with pytest.raises(UsageError, match="ko-mecab is not installed"):
        bleu(KOREAN, KOREAN, tokenize="ko-mecab")


def test_an_installed_tokenizer_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    class Installed:
        def __call__(self, line: str) -> str:
            return " ".join(line)

        def signature(self) -> str:
            return "ko-mecab-pretended"

    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ko_mecab.TokenizerKoMecab", Installed)
    assert "tok:ko-mecab-pretended" in scores(KOREAN, KOREAN)["bleu"].signature


def test_importing_metrics_loads_nothing_heavy() -> None:
    code = "import sys, jumok.evaluation.metrics; print(sorted({'torch', 'numpy', 'sacrebleu'} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(Path(metrics.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"


# ------------------------------------------------------------------------------------------ perplexity


@given(tokens=st.integers(1, 10**9), vocabulary=st.integers(1, 100_000))
def test_guessing_evenly_among_v_words_has_perplexity_v(tokens: int, vocabulary: int) -> None:
    assert perplexity(tokens * math.log(vocabulary), tokens) == pytest.approx(vocabulary)


def test_perplexity_beyond_a_float_is_infinite_and_of_nothing_is_an_error() -> None:
    assert perplexity(1e6, 1) == math.inf
    assert math.isnan(perplexity(math.nan, 1))
    with pytest.raises(ValueError):
        perplexity(1.0, 0)


# ------------------------------------------------------------------------------------------ significance


def test_a_system_does_not_differ_from_itself(reference: list[str], hypothesis: list[str]) -> None:
    result = significance(hypothesis, hypothesis, reference, samples=100)
    assert (result.difference, result.p_value, result.interval) == (0, 1, (0, 0))


def test_a_clearly_better_system_differs(reference: list[str], hypothesis: list[str]) -> None:
    result = significance(hypothesis, spoilt(reference, 0.5), reference, samples=200)
    low, high = result.interval
    assert result.p_value < 0.01
    assert 0 < low < result.difference < high
    assert result.a.value - result.b.value == result.difference
    assert "|bs:200|seed:12345|" in result.a.signature


def test_two_equally_bad_systems_do_not_differ(reference: list[str]) -> None:
    result = significance(spoilt(reference, 0.3, seed=11), spoilt(reference, 0.3, seed=12), reference, samples=200)
    assert result.p_value > 0.05
    assert result.interval[0] < 0 < result.interval[1]


def test_swapping_the_systems_turns_the_difference_round(reference: list[str], hypothesis: list[str]) -> None:
    other = spoilt(reference, 0.25, seed=9)
    there = significance(hypothesis, other, reference, samples=100)
    back = significance(other, hypothesis, reference, samples=100)
    assert (there.difference, there.p_value) == (-back.difference, back.p_value)
    assert there.interval == pytest.approx((-back.interval[1], -back.interval[0]))


def test_the_seed_decides_the_samples(reference: list[str], hypothesis: list[str]) -> None:
    other = spoilt(reference, 0.22, seed=9)
    first, again, third = (significance(hypothesis, other, reference, samples=50, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.interval != third.interval
    with pytest.raises(UsageError):
        significance(hypothesis, other, reference, samples=0)


@pytest.mark.parametrize("metric", ["bleu", "chrf", "ter"])
def test_scores_and_p_values_equal_those_of_sacrebleu(
    reference: list[str], hypothesis: list[str], metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = {"bleu": sacrebleu.BLEU, "chrf": sacrebleu.CHRF, "ter": sacrebleu.TER}[metric]()
    other = spoilt(reference, 0.23, seed=4)
    monkeypatch.setenv("SACREBLEU_SEED", "77")
    systems: Any = [("a", hypothesis), ("b", other)]
    test: Any = PairedTest(systems, {"m": theirs}, [reference], test_type="bs", n_samples=100)
    signatures, table = test()
    name = next(key for key in table if key != "System")
    result = significance(hypothesis, other, reference, metric=metric, samples=100, seed=77)
    assert [result.a.value, result.b.value] == pytest.approx([row.score for row in table[name]])
    assert result.p_value == table[name][1].p_value
    assert 0.01 < result.p_value < 0.99
    assert result.a.signature == str(signatures[name])
    assert result.a.name == name


# ------------------------------------------------------------------------------------------ alignment


def test_alignment_error_rate_of_a_hand_computed_example() -> None:
    # Sentence 1: A 3 links, S 2, both sure ones found, 3 possible.  Sentence 2: A 2 links, S 2, 1 sure, 1 possible.
    links = [{(0, 0), (1, 1), (2, 1)}, {(0, 0), (1, 0)}]
    sure = [{(0, 0), (1, 1)}, {(0, 0), (1, 1)}]
    possible = [{(2, 1)}, set[tuple[int, int]]()]
    assert alignment_error_rate(links, sure, possible) == pytest.approx(1 - ((2 + 3) + (1 + 1)) / ((3 + 2) + (2 + 2)))
    assert alignment_error_rate(links, sure) == pytest.approx(1 - (2 + 2 + 1 + 1) / 9)


pairs = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)))


@given(st.lists(st.tuples(pairs, pairs, pairs), max_size=4))
def test_alignment_error_is_between_0_and_1_and_0_for_all_sure_and_only_possible_links(
    sentences: list[tuple[set[tuple[int, int]], ...]],
) -> None:
    links, sure, possible = ([sentence[i] for sentence in sentences] for i in range(3))
    assert 0 <= alignment_error_rate(links, sure, possible) <= 1
    assert alignment_error_rate(sure, sure, possible) == 0
    assert alignment_error_rate([s | p for s, p in zip(sure, possible, strict=True)], sure, possible) == 0


def test_alignments_of_different_numbers_of_sentences_are_an_error() -> None:
    with pytest.raises(DataError):
        alignment_error_rate([set()], [set(), set()])
    with pytest.raises(DataError):
        alignment_error_rate([set()], [set()], [])


def test_word_links_sum_over_source_pieces_and_average_over_target_pieces() -> None:
    # Source: word 0 is one piece, word 1 two pieces, then </s>.  Target: word 0, word 1 of two pieces, word 2, </s>.
    weights = np.array(
        [
            [0.40, 0.25, 0.25, 0.10],  # no piece of word 1 is above 0.40, but both together are
            [0.35, 0.30, 0.30, 0.05],  # the two pieces of word 1: mean (0.35, 0.30), though the greatest is 0.60
            [0.35, 0.00, 0.00, 0.65],
            [0.10, 0.00, 0.10, 0.80],  # mostly </s>, which is no word; a tie goes to the first
            [0.50, 0.50, 0.00, 0.00],  # </s> is no word of the target either
        ]
    )
    assert word_links(weights, [0, 1, 1, -1], [0, 1, 1, 2, -1]) == {(1, 0), (0, 1), (0, 2)}


def test_a_target_word_that_looks_at_no_source_word_has_no_link() -> None:
    assert word_links(np.array([[0.0, 1.0], [0.3, 0.7]]), [0, -1], [0, 1]) == {(0, 1)}
    assert word_links(np.array([[1.0]]), [-1], [0]) == set()
    assert word_links(np.zeros((0, 0)), [], []) == set()


def test_word_numbers_may_have_gaps() -> None:
    assert word_links(np.eye(2), [3, 7], [9, 2]) == {(3, 9), (7, 2)}


def test_weights_of_another_shape_are_an_error() -> None:
    with pytest.raises(ValueError, match="words are"):
        word_links(np.eye(2), [0], [0, 1])


def test_a_score_leaves_no_sentences_in_the_caches_of_sacrebleu():
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
    from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp

    metrics.bleu(["A cat sat here."], ["The cat sat there."])
    assert Tokenizer13a.__call__.cache_info().currsize == 0
    assert TokenizerRegexp.__call__.cache_info().currsize == 0
