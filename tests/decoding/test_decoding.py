"""Every feature of search equals a plain search without cache and batches, or a search through everything."""

import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from sacrebleu.metrics.chrf import CHRF

from jumok.config.search import SearchOptions, TokenConstraints
from jumok.decoding import rules
from jumok.decoding.constraints import PhraseProgress, search_with_phrases
from jumok.decoding.graph import ROOT, Graph
from jumok.decoding.rules import Moment, forbid_repeats
from jumok.decoding.search import beam
from jumok.engines.torch_engine import TorchEngine
from jumok.errors import UsageError
from jumok.evaluation.ngrams import chrf_matrix
from jumok.models.base import END
from jumok.text.automata import Forbidder, Spelling, open_with
from jumok.text.boundaries import contains_phrase, contains_word
from tests.decoding.test_search import GARDEN, A, B, C, Prefixes, table
from tests.support.helpers import made
from tests.support.reference import Reference, beam_search, begins_with, greedy_search, repeats, too_short

SOURCES = [[8 + (5 * i + 3 * j) % 14 for j in range(1 + i % 6)] for i in range(12)]
EXTRA = 6
MODEL = made(seed=31)
ENGINE = TorchEngine(MODEL)
SPELT = TorchEngine(MODEL, surfaces=lambda: [*[""] * 8, *(f" {letter}" for letter in "abcdefghijklmno")])


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
        begun = [TokenConstraints(prefix=prefix)]
        found = SPELT.alternatives(source, begun, 4, SearchOptions(beam=3, extra_length=EXTRA))
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
    assert (done.bank, done.missing, done.closed) == (3, ((9, 12),), (9, 10, 11))
    assert done.after(9).after(12).complete


def test_a_required_word_may_take_an_ending_and_then_ends():
    surfaces = [*[""] * 8, " Haus", "s", "tür", ".", "es", " 사과", "를", "나무", *[" x"] * 7]
    engine = TorchEngine(MODEL, surfaces=lambda: surfaces)
    for word, endings, other in ((8, {9, 12}, 10), (13, {14}, 15)):
        excluded = engine.texts.ending.exclude(engine.texts.begin_ending((word,)), END)
        assert not any(excluded[token] for token in (*endings, 11, END))
        assert excluded[other]
        wishes, followed = [TokenConstraints(require=((word,),))] * len(SOURCES), Counter()
        options = SearchOptions(beam=3, n_best=3, extra_length=EXTRA)
        for found in engine.decode(SOURCES, options, constraints=wishes):
            for one in found:
                assert contains_phrase(engine.texts.spelling.text(one.body), surfaces[word].strip())
                followed.update(b for a, b in itertools.pairwise(one.ids) if a == word)
        assert followed[10] == followed[15] == 0


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
    "\udcff",
    " dogma",
    " hotdog.",
    "(",
    "dog",
    " dog.",
    " ",
    "d",
    " 사과",
    "를",
    "나무",
    "사",
    "과",
]


def forbidden(automaton, ids):
    """The tokens that may not follow these, or None where these are not allowed themselves."""
    state = automaton.start
    for token in ids:
        state = automaton.read(state, token)
        if not automaton.is_allowed(state):
            return None
    return set(np.flatnonzero(automaton.exclude(state, END)).tolist())


@pytest.mark.parametrize("words", [["dog"], ["hot dog", "dog"], ["사과"], [".", "사과나무", "과"]], ids=str)
def test_a_forbidden_word_is_found_however_it_is_put_together(words):
    spelling, known = Spelling(PIECES), [i for i, piece in enumerate(PIECES) if piece]
    automaton, rng, seen = Forbidder(spelling).forbid(words), np.random.default_rng(0), Counter()
    for _ in range(4_000):
        ids = rng.choice(known, rng.integers(1, 6)).tolist()
        if (banned := forbidden(automaton, ids[:-1])) is None:
            continue  # it has been said already
        said = any(contains_word(" " + spelling.text(ids), word) for word in words)
        assert (ids[-1] in banned) == said, spelling.text(ids)
        seen[said] += 1
    assert min(seen.values()) > 100


def test_a_longer_word_is_another():
    dog, hot = (Forbidder(Spelling(PIECES)).forbid([word]) for word in ("dog", "hot dog"))
    assert {8, 20} <= forbidden(dog, [])  # "dog" and "dog."
    assert not {16, 17} & forbidden(dog, [])  # "dogma" and "hotdog."
    assert 10 in forbidden(dog, [9])  # "do" + "g"
    assert 8 in forbidden(hot, [13])
    assert 8 not in forbidden(hot, [14])


def test_a_text_to_begin_with_is_continued_in_any_division():
    surfaces = [*[""] * 8, " Her", " Herr", "r", " He", "rr", "e", " Hund", "\udcc3", "\udcb6", "h", " ", "H", "ö"]
    automaton = open_with(Spelling(surfaces), " Herr")
    allowed = [surfaces[i] for i in range(8, len(surfaces)) if i not in forbidden(automaton, [])]
    assert allowed == [" Her", " Herr", " He", " "]
    assert [surfaces[i] for i in range(8, len(surfaces)) if i not in forbidden(automaton, [11])] == ["r", "rr"]
    assert END in forbidden(automaton, [8])
    assert forbidden(automaton, [9]) == set()
    by_bytes = open_with(Spelling(surfaces), "öh")
    assert [surfaces[i] for i in range(8, len(surfaces)) if i not in forbidden(by_bytes, [])] == ["\udcc3", "ö"]
    assert forbidden(by_bytes, [15, 16, 17]) == forbidden(by_bytes, [20, 17]) == set()


@pytest.mark.parametrize("width", [1, 4])
def test_forbidden_words_are_never_said(width):
    surfaces = [*[""] * 8, *(f" {letter}" for letter in "abcdefghijklmno")]
    engine = TorchEngine(MODEL, surfaces=lambda: surfaces)
    options = SearchOptions(beam=width, extra_length=EXTRA)
    free = engine.decode(SOURCES, options)
    wishes = [TokenConstraints(forbid=tuple({surfaces[i].strip() for i in found[0].body[:2]})) for found in free]
    for wish, found in zip(wishes, engine.decode(SOURCES, options, constraints=wishes), strict=True):
        assert not any(contains_word(engine.texts.spelling.text(found[0].body), word) for word in wish.forbid)
    assert any(wish.forbid for wish in wishes)


@pytest.mark.parametrize(
    ("text", "word", "forbidden", "required"),
    [
        ("A hot dog, please.", "dog", True, True),
        ("A hot dog, please.", "hot dog", True, True),
        ("dogs and hotdogs", "dog", False, True),
        ("the party", "art", False, False),
        ("개가 뛴다", "개가", True, True),
        ("개가 뛴다", "개", True, True),
        ("저는 사과를 먹어요.", "사과", True, True),
        ("사과나무가 있다", "사과", False, False),
        ("풋사과를 먹어요", "사과", False, False),
        ("그것은 사과입니다.", "사과", True, True),
        ("친구들에게는 말했다", "친구", True, True),
        ("des Hauses", "Haus", False, True),
        ("die Haustür", "Haus", False, False),
        ("die Häuser", "Haus", False, False),
        ("in Häusern", "Häuser", False, True),
        ("CNN은 말했다", "CNN", True, True),
        ("50% more", "50%", True, True),
    ],
)
def test_a_word_is_contained_as_a_whole_with_particles_and_where_required_with_an_ending(
    text, word, forbidden, required
):
    assert contains_word(text, word) is forbidden
    assert contains_phrase(text, word) is required


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
    rules.Prefixes([(8, 9, 10), (9,)], [None, None], END).guard([])(logits, now)
    assert [(row > -torch.inf).sum().item() for row in logits] == [1, 1, 12]
    assert logits[0, 10] == 0


def test_a_prefix_comes_before_rules_that_would_leave_nothing_of_it():
    options = SearchOptions(beam=2, extra_length=EXTRA, no_repeat=1)
    wishes = [TokenConstraints(prefix=(9, 9, 9))] * len(SOURCES)
    for found in ENGINE.decode(SOURCES, options, constraints=wishes):
        assert found[0].ids[:3] == (9, 9, 9)
        assert 9 not in found[0].ids[3:]


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
