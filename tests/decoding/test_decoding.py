"""Every feature of search equals a plain search without cache and batches, or a search through everything."""

import itertools
import re
from collections import Counter

import numpy as np
import pytest
import torch
from sacrebleu.metrics.chrf import CHRF

from jumok.config.search import SearchOptions, TokenConstraints
from jumok.decoding.constraints import PhraseProgress, search_with_phrases
from jumok.decoding.graph import ROOT, Graph
from jumok.decoding.rules import Moment, Words, begin_with, forbid_repeats
from jumok.decoding.search import beam
from jumok.engines.torch_engine import TorchEngine
from jumok.errors import UsageError
from jumok.evaluation.ngrams import chrf_matrix
from jumok.models.base import END
from jumok.text.boundaries import contains_word
from tests.decoding.test_search import GARDEN, A, B, C, Prefixes, table
from tests.support.helpers import made
from tests.support.reference import Reference, beam_search, begins_with, greedy_search, repeats, too_short

SOURCES = [[8 + (5 * i + 3 * j) % 14 for j in range(1 + i % 6)] for i in range(12)]
EXTRA = 6
MODEL = made(seed=31)
ENGINE = TorchEngine(MODEL)


def limit(source):
    return len(source) + EXTRA


def same(hypotheses, expected):
    """The same sentences with the same scores."""
    assert [h.ids for h in hypotheses] == [ids for ids, _ in expected]
    assert [h.score for h in hypotheses] == pytest.approx([score for _, score in expected], abs=1e-9)


FEATURES = {
    "nothing": ({}, []),
    "min_length": ({"min_length": 5}, [too_short(5)]),
    "no pair twice": ({"no_repeat": 2}, [repeats(2)]),
    "no token twice": ({"no_repeat": 1}, [repeats(1)]),
    "both": ({"no_repeat": 3, "min_length": 4}, [repeats(3), too_short(4)]),
}


@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize("width", [1, 2, 5])
def test_search_in_batches_with_a_cache_is_search_without(name, width):
    changes, forbids = FEATURES[name]
    options = SearchOptions(beam=width, n_best=min(2, width), extra_length=EXTRA, **changes)
    for source, found in zip(SOURCES, ENGINE.decode(SOURCES, options), strict=True):
        ask = Reference(MODEL, source, forbids)
        if width == 1:
            assert found[0].ids == greedy_search(ask, limit(source))
        else:
            same(found, beam_search(ask, limit(source), width=width, alpha=0.6, best=2))


@pytest.mark.parametrize("width", [1, 4])
def test_a_prefix_is_where_every_translation_begins(width):
    prefixes = [tuple(8 + (i * 7 + j) % 14 for j in range(i % 4)) for i in range(len(SOURCES))]
    wishes = [TokenConstraints(prefix=prefix) for prefix in prefixes]
    found = ENGINE.decode(SOURCES, SearchOptions(beam=width, extra_length=EXTRA), constraints=wishes)
    for source, prefix, hypotheses in zip(SOURCES, prefixes, found, strict=True):
        ask = Reference(MODEL, source, [begins_with(prefix)])
        assert hypotheses[0].ids[: len(prefix)] == prefix
        most = limit(source) + len(prefix)
        if width == 1:
            assert hypotheses[0].ids == greedy_search(ask, most)
        else:
            same(hypotheses, beam_search(ask, most, width=width, alpha=0.6))
        free = Reference(MODEL, source)
        assert hypotheses[0].log_probability == pytest.approx(free.total(hypotheses[0].ids), abs=1e-9)


def test_alternatives_are_the_best_ways_on_from_each_of_the_likeliest_tokens():
    for source in SOURCES[:5]:
        prefix, ask = (9, 10), Reference(MODEL, source)
        logs = ask.logs(prefix)
        tokens = [t for t in sorted(range(len(logs)), key=lambda t: -logs[t])[:4] if t != END]
        found = ENGINE.alternatives(source, prefix, 4, SearchOptions(beam=3, extra_length=EXTRA))
        assert {h.ids[2] for h in found} == set(tokens)
        expected = []
        for token in tokens:
            forced = Reference(MODEL, source, [begins_with((*prefix, token))])
            expected += beam_search(forced, limit(source) + 3, width=3, alpha=0.6)
        same(found, sorted(expected, key=lambda one: -one[1]))


# ------------------------------------------------------------------------------------------------ constraints


def holds(ids, phrase):
    return any(ids[i : i + len(phrase)] == phrase for i in range(len(ids)))


@pytest.mark.parametrize("wanted", [[(9,)], [(9, 10)], [(9,), (10, 11)], [(12, 12), (9,), (9, 13)]], ids=str)
def test_required_phrases_are_always_there_with_the_models_own_scores(wanted):
    wishes = [TokenConstraints(require=tuple(wanted))] * len(SOURCES)
    for source, found in zip(
        SOURCES,
        ENGINE.decode(SOURCES, SearchOptions(beam=3, n_best=2, extra_length=EXTRA), constraints=wishes),
        strict=True,
    ):
        assert found
        for one in found:
            assert all(holds(one.ids, phrase) for phrase in wanted)
            assert one.log_probability == pytest.approx(Reference(MODEL, source).total(one.ids), abs=1e-9)
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)


def test_a_wide_constrained_beam_finds_the_best_sentence_that_holds_the_phrases():
    """Against every sentence of up to four tokens over a table of three words."""
    rng = np.random.default_rng(4)
    words, longest = (A, B, C), 4  # after so many words, END is certain
    chances = {}
    for length in range(longest):
        for prefix in itertools.product(words, repeat=length):
            share = rng.dirichlet(np.ones(4) * 0.7)
            chances[prefix] = dict(zip((*words, END), share.tolist(), strict=True))
    for phrases in ([(A,)], [(B, C)], [(A,), (C,)], [(C, A), (B,)]):
        best = max(
            (score, (*body, END))
            for length in range(longest + 1)
            for body in itertools.product(words, repeat=length)
            if all(holds(body, phrase) for phrase in phrases)
            for score in [sum(np.log(chances[body[:t]][token]) for t, token in enumerate((*body, END)[:longest]))]
        )
        found = search_with_phrases(
            table(chances), Prefixes([()]), [longest], [phrases], SearchOptions(beam=200, length_penalty=0.0)
        )[0][0]
        assert found.ids == best[1]
        assert found.log_probability == pytest.approx(best[0], abs=1e-5)


def test_without_phrases_a_constrained_search_is_as_good_as_a_beam():
    state = Prefixes([()])
    found = search_with_phrases(table(GARDEN), state, [5], [[]], SearchOptions(beam=3, length_penalty=0.0))[0][0]
    assert found.ids == beam(table(GARDEN), state, [5], SearchOptions(beam=3, length_penalty=0.0))[0][0].ids


def test_a_phrase_that_breaks_off_is_missing_again():
    begun = PhraseProgress(((9, 10, 11), (9, 12))).after(9).after(10)
    assert begun.bank == 2
    broken = begun.after(13)
    assert (broken.bank, broken.complete, len(broken.missing)) == (0, False, 2)
    restarted = begun.after(9)
    assert restarted.bank == 1
    done = begun.after(11)
    assert (done.bank, done.missing, done.closed) == (3, ((9, 12),), True)
    assert done.after(9).after(12).complete


def test_no_word_goes_on_behind_a_required_one():
    surfaces = [*[""] * 8, " cat", "s", " sat", ".", *[" x"] * 11]
    engine = TorchEngine(MODEL, surfaces=lambda: surfaces)
    wishes = [TokenConstraints(require=((8,),))] * len(SOURCES)
    for found in engine.decode(SOURCES, SearchOptions(beam=3, extra_length=EXTRA), constraints=wishes):
        ids = found[0].ids
        assert any(one == 8 and following != 9 for one, following in itertools.pairwise((*ids, END)))


# -------------------------------------------------------------------------------------------- forbidden words

PIECES = [
    *[""] * 8,
    " dog",
    " do",
    "g",
    "s",
    ".",
    " hot",
    " a",
    "\ufffd",
    " dogma",
    " hotdog.",
    "(",
    "dog",
    " dog.",
    " ",
    "d",
]


def test_a_forbidden_word_is_found_however_it_is_put_together():
    words, known = Words(PIECES), [i for i, piece in enumerate(PIECES) if piece not in ("", "\ufffd")]
    rng, seen = np.random.default_rng(0), Counter()
    for _ in range(4_000):
        ids = rng.choice(known, rng.integers(1, 6)).tolist()
        if contains_word(" " + words.text(ids[:-1]), "dog"):
            continue  # it has been said already
        said = re.search(r"(?<![^\W_])dog(?![^\W_])", " " + words.text(ids)) is not None
        assert (ids[-1] in words.list_forbidden(ids[:-1], "dog")) == said, words.text(ids)
        seen[said] += 1
    assert min(seen.values()) > 300


def test_a_longer_word_is_another():
    words = Words(PIECES)
    assert 8 in words.list_forbidden([], "dog")
    assert 10 in words.list_forbidden([9], "dog")  # "do" + "g"
    assert 16 not in words.list_forbidden([], "dog")  # "dogma"
    assert 17 not in words.list_forbidden([], "dog")  # "hotdog."
    assert 20 in words.list_forbidden([], "dog")  # "dog."
    assert 8 in words.list_forbidden([13], "hot dog")
    assert 8 not in words.list_forbidden([14], "hot dog")


@pytest.mark.parametrize("width", [1, 4])
def test_forbidden_words_are_never_said(width):
    surfaces = [*[""] * 8, *(f" {letter}" for letter in "abcdefghijklmno")]
    engine = TorchEngine(MODEL, surfaces=lambda: surfaces)
    options = SearchOptions(beam=width, extra_length=EXTRA)
    free = engine.decode(SOURCES, options)
    wishes = [TokenConstraints(forbid=tuple({surfaces[i].strip() for i in found[0].body[:2]})) for found in free]
    for wish, found in zip(wishes, engine.decode(SOURCES, options, constraints=wishes), strict=True):
        assert not any(contains_word(engine.words.text(found[0].body), word) for word in wish.forbid)
    assert any(wish.forbid for wish in wishes)


def test_says_looks_for_whole_words():
    assert contains_word("A hot dog, please.", "dog")
    assert contains_word("A hot dog, please.", "hot dog")
    assert not contains_word("Dogs and hotdogs", "dog")
    assert contains_word("개가 뛴다", "개가")
    assert not contains_word("개가 뛴다", "개")


# --------------------------------------------------------------------------------- diversity, coverage, graph


def test_groups_keep_away_from_each_other():
    plain, diverse = (
        ENGINE.decode(SOURCES, SearchOptions(beam=4, n_best=4, extra_length=EXTRA, groups=groups, diversity=5.0))
        for groups in (1, 4)
    )
    firsts = [len({h.ids[0] for h in found}) for found in diverse]
    assert min(firsts) == 4  # four groups of one, each with a first token of its own
    assert sum(firsts) > sum(len({h.ids[0] for h in found}) for found in plain)
    for source, found in zip(SOURCES, diverse, strict=True):
        for one in found:
            assert one.log_probability == pytest.approx(Reference(MODEL, source).total(one.ids), abs=1e-9)


def test_without_strength_every_group_is_the_beam_of_its_width():
    alone = ENGINE.decode(SOURCES, SearchOptions(beam=2, n_best=2, extra_length=EXTRA))
    groups = ENGINE.decode(SOURCES, SearchOptions(beam=6, n_best=2, extra_length=EXTRA, groups=3, diversity=0.0))
    assert [[h.ids for h in found] for found in groups] == [[h.ids for h in found] for found in alone]


def test_coverage_ranks_by_what_the_output_looks_at():
    beta, options = 0.7, SearchOptions(beam=4, n_best=4, extra_length=EXTRA)
    plain = ENGINE.decode(SOURCES, options)
    covered = ENGINE.decode(SOURCES, SearchOptions(beam=4, n_best=4, extra_length=EXTRA, coverage=beta))
    for source, before, after in zip(SOURCES, plain, covered, strict=True):
        expected = {}
        for one in before:
            maps = ENGINE.attention(source, one.body).cross[0].mean(dim=0)  # of two layers, the first
            seen = maps.sum(dim=0)[:-1].clamp(max=1.0)
            expected[one.ids] = one.score + beta * float(torch.log(seen).sum())
        assert {h.ids: pytest.approx(h.score, abs=1e-9) for h in after} == expected
        assert [h.score for h in after] == pytest.approx(sorted(expected.values(), reverse=True), abs=1e-9)


def test_the_graph_holds_every_hypothesis_and_its_way():
    graph, options = Graph(), SearchOptions(beam=3, n_best=3, extra_length=EXTRA)
    for source in SOURCES[:4]:
        graph = Graph()
        ENGINE.watch(source, options, graph.grow)
        nodes = graph.sentences[0]
        found = ENGINE.decode([source], options)[0]
        ends = {tuple(graph.path(0, n)): node for n, node in enumerate(nodes) if node.fate == "ended"}
        for one in found:
            assert ends[one.ids].log_probability == pytest.approx(one.log_probability, abs=1e-9)
        for n, node in enumerate(nodes):
            assert node.parent < n
            if node.parent == ROOT:
                assert node.step == 0
            else:
                before = nodes[node.parent]
                assert (before.fate, before.step) == ("living", node.step - 1)
                assert node.log_probability == pytest.approx(before.log_probability + node.gain, abs=1e-6)
        for step in range(max(node.step for node in nodes) + 1):
            assert sum(node.step == step and node.fate == "living" for node in nodes) <= 3


# ----------------------------------------------------------------------------------------------- rules, chrF


def test_rules_know_each_rows_own_past_and_sentence():
    logits = torch.zeros(3, 12)
    now = Moment(2, torch.tensor([[8, 9], [8, 8], [9, 8]]), torch.tensor([0, 0, 1]))
    forbid_repeats(1)(logits, now)
    assert [(row == -torch.inf).nonzero().flatten().tolist() for row in logits] == [[8, 9], [8], [8, 9]]
    logits = torch.zeros(3, 12)
    begin_with([(8, 9, 10), (9,)])(logits, now)
    assert [(row > -torch.inf).sum().item() for row in logits] == [1, 1, 12]
    assert logits[0, 10] == 0


def test_chrf_between_all_pairs_is_sacrebleus():
    texts = ["Ein Mann fährt Rad.", "Ein Mann fährt ein Rad.", "Hunde", "", "ab", "두 남자가 걷는다.", "Ein  Mann"]
    ours, theirs = chrf_matrix(texts), CHRF()
    for i, hypothesis in enumerate(texts):
        for j, reference in enumerate(texts):
            expected = theirs.sentence_score(hypothesis, [reference]).score
            assert ours[i, j] == pytest.approx(expected, abs=1e-3), (hypothesis, reference)


@pytest.mark.parametrize(
    "bad",
    [{"groups": 3, "beam": 4}, {"groups": 5, "beam": 4}, {"min_length": -1}, {"no_repeat": -1}, {"coverage": -0.1}],
)
def test_options_that_make_no_sense_are_usage_errors(bad):
    with pytest.raises(UsageError):
        SearchOptions(**bad)
