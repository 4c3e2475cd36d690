"""Search over step functions made by hand: a table of probabilities is enough, no model is needed."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from jumok.config.search import SearchOptions
from jumok.decoding.hypothesis import penalize
from jumok.decoding.rules import forbid_tokens, require_length
from jumok.decoding.search import beam, generate_tokens, greedy, sample_by
from jumok.engines import torch_forcing
from jumok.engines.torch_engine import TorchEngine
from jumok.errors import DataError, UsageError
from jumok.models.base import END
from jumok.text.symbols import NEVER
from tests.support.helpers import made

A, B, C = 8, 9, 10
SYMBOLS = 11


@dataclass
class Prefixes:
    """A state that is the text so far, a row each."""

    rows: list[tuple[int, ...]]

    def select(self, rows: Tensor) -> "Prefixes":
        return Prefixes([self.rows[row] for row in rows.tolist()])


def table(probabilities: dict[tuple[int, ...], dict[int, float]]):
    """A step function from a table: prefix -> next token -> probability."""

    def step(token: Tensor, state: Prefixes) -> tuple[Tensor, Prefixes]:
        rows = [(*row, one) for row, one in zip(state.rows, token.tolist(), strict=True)]
        logits = torch.full((len(rows), SYMBOLS), -torch.inf)
        for n, row in enumerate(rows):
            for following, p in probabilities.get(row[1:], {END: 1.0}).items():
                logits[n, following] = float(np.log(p))
        return logits, Prefixes(rows)

    return step


GARDEN = {  # greedy walks into A (0.6), whose best sentence has 0.6·0.4; B's has 0.4·0.9
    (): {A: 0.6, B: 0.4},
    (A,): {A: 0.3, C: 0.3, END: 0.4},
    (B,): {C: 0.1, END: 0.9},
}


def test_greedy_takes_the_likeliest_step_and_beam_the_likelier_sentence():
    assert greedy(table(GARDEN), Prefixes([()]), [5])[0].ids == (A, END)
    found = beam(table(GARDEN), Prefixes([()]), [5], SearchOptions(beam=3, length_penalty=0.0, n_best=2))[0]
    assert [h.ids for h in found] == [(B, END), (A, END)]
    assert [h.log_probability for h in found] == pytest.approx(np.log([0.36, 0.24]).tolist())


def test_sentences_of_a_batch_are_searched_independently_and_leave_when_done():
    short = {(): {END: 1.0}}
    long = {(A,) * n: {A: 1.0} for n in range(6)} | {(A,) * 6: {END: 1.0}}
    calls: list[int] = []

    def step(token, state):
        calls.append(len(token))
        rows = [(*row, one) for row, one in zip(state.rows, token.tolist(), strict=True)]
        logits = torch.full((len(rows), SYMBOLS), -torch.inf)
        for n, row in enumerate(rows):
            source = short if row[0] == "short" else long
            for following, p in source.get(tuple(row[2:]), {END: 1.0}).items():
                logits[n, following] = float(np.log(p))
        return logits, Prefixes(rows)

    start = Prefixes([("short",), ("long",), ("short",)])
    found = greedy(step, start, [20, 20, 20])
    assert [h.ids for h in found] == [(END,), (A,) * 6 + (END,), (END,)]
    assert calls == [3, 1, 1, 1, 1, 1, 1]


def test_the_length_penalty_is_the_papers():
    assert penalize(-3.0, 7, 0.6) == pytest.approx(-3.0 / 2**0.6)
    assert penalize(-3.0, 1, 0.6) == -3.0
    assert penalize(-3.0, 50, 0.0) == -3.0


def test_a_higher_alpha_prefers_longer_sentences():
    story = {(): {A: 0.5, END: 0.5}, (A,): {B: 1.0}, (A, B): {C: 0.9, END: 0.1}, (A, B, C): {END: 1.0}}
    lengths = [
        len(beam(table(story), Prefixes([()]), [9], SearchOptions(beam=4, length_penalty=a))[0][0].ids)
        for a in (0.0, 2.0)
    ]
    assert lengths == [1, 4]


def test_a_limit_ends_a_sentence_that_never_ends():
    endless = {(A,) * n: {A: 0.9, B: 0.1} for n in range(50)}
    for width in (1, 3):
        found = beam(table(endless), Prefixes([()]), [4], SearchOptions(beam=width))[0][0]
        assert found.ids == (A, A, A, A)
        assert not found.ended
        assert found.body == found.ids


def test_a_dead_beam_does_not_end():
    """Only one continuation exists, so W - 1 rows are dead: none of them may turn up as a hypothesis."""
    narrow = {(): {A: 1.0}, (A,): {END: 1.0}}
    found = beam(table(narrow), Prefixes([()]), [5], SearchOptions(beam=4, n_best=4))[0]
    assert [h.ids for h in found] == [(A, END)]
    assert found[0].log_probability == pytest.approx(0.0, abs=1e-5)


def test_a_sentence_may_end_only_among_the_first_candidates():
    """END ranks third of a beam of two, so it is not taken, although it would win in the end."""
    close = {(): {A: 0.37, B: 0.35, END: 0.28}, (A,): {A: 0.5, C: 0.5}, (B,): {A: 0.5, C: 0.5}}
    found = beam(table(close), Prefixes([()]), [6], SearchOptions(beam=2, length_penalty=0.0, n_best=2))[0]
    assert (END,) not in [h.ids for h in found]
    assert beam(table(close), Prefixes([()]), [6], SearchOptions(beam=3, length_penalty=0.0))[0][0].ids == (END,)


def test_n_best_is_sorted_and_distinct():
    found = beam(table(GARDEN), Prefixes([()]), [6], SearchOptions(beam=6, n_best=4, length_penalty=0.6))[0]
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
    assert len({h.ids for h in found}) == 4


def test_exact_search_is_never_worse_than_early_stopping():
    model = made(seed=21)
    sources = [[8 + (3 * i + j) % 14 for j in range(1 + i % 5)] for i in range(12)]
    early = TorchEngine(model).decode(sources, SearchOptions(beam=3, extra_length=8))
    exact = TorchEngine(model).decode(sources, SearchOptions(beam=3, extra_length=8, exact=True))
    assert all(b[0].score >= a[0].score - 1e-9 for a, b in zip(early, exact, strict=True))


def test_specials_never_come_out():
    model = made(seed=22)
    model.matrix.data[list(NEVER)] *= 50  # the model would love to say them
    for options in (SearchOptions(beam=1), SearchOptions(beam=4), SearchOptions(sample=True, n_best=3)):
        for found in TorchEngine(model).decode([[9, 10], [11]], options):
            assert not {i for h in found for i in h.ids} & set(NEVER)


def test_rules_forbid_without_changing_the_scores_of_the_rest():
    free = greedy(table(GARDEN), Prefixes([()]), [5])[0]
    forced = greedy(table(GARDEN), Prefixes([()]), [5], rules=[forbid_tokens([A])])[0]
    assert forced.ids == (B, END)
    assert forced.log_probability == pytest.approx(np.log(0.36))
    longer = greedy(table(GARDEN), Prefixes([()]), [5], rules=[require_length(2, END)])[0]
    assert len(longer.ids) == 3 > len(free.ids)


def test_sampling_draws_what_the_model_says():
    uniforms = torch.from_numpy(np.random.default_rng(0).random((4_000, 3), dtype=np.float32))
    found = greedy(table(GARDEN), Prefixes([()] * 4_000), [3] * 4_000, choose=sample_by(uniforms))
    shares = Counter(h.ids for h in found)
    for ids, p in {(A, END): 0.24, (B, END): 0.36, (B, C, END): 0.04}.items():
        assert shares[ids] / 4_000 == pytest.approx(p, abs=4 * (p * (1 - p) / 4_000) ** 0.5)


def test_top_k_and_top_p_keep_the_head_of_the_distribution():
    first = {(): {A: 0.5, B: 0.3, C: 0.2}}
    uniforms = torch.from_numpy(np.random.default_rng(1).random((2_000, 2), dtype=np.float32))

    def seen(**options):
        found = greedy(table(first), Prefixes([()] * 2_000), [2] * 2_000, choose=sample_by(uniforms, **options))
        return Counter(h.ids[0] for h in found)

    assert set(seen()) == {A, B, C}
    assert set(seen(top_k=2)) == {A, B}
    assert set(seen(top_p=0.5)) == {A}
    assert set(seen(top_p=0.6)) == {A, B}
    assert seen(top_k=2)[A] / 2_000 == pytest.approx(0.5 / 0.8, abs=0.05)
    assert seen(temperature=0.5)[A] / 2_000 == pytest.approx(0.25 / 0.38, abs=0.05)


def test_tokens_come_one_by_one_and_add_up_to_the_greedy_sentence():
    steps = list(generate_tokens(table(GARDEN), Prefixes([()]), [5], lambda logits, n, t: logits.argmax(-1)))
    assert [token for ((_, token, _),) in steps] == [A, END]


def test_streaming_equals_greedy_decoding():
    engine = TorchEngine(made(seed=5))
    options = SearchOptions(beam=1, extra_length=6)
    assert tuple(engine.stream([9, 10, 11], options)) == engine.decode([[9, 10, 11]], options)[0][0].body


def test_forced_scores_come_back_in_order():
    engine = TorchEngine(made(seed=6))
    pairs = [([9], [10, 11]), ([12, 13, 14], [15]), ([9, 9], [])]
    together = engine.score(pairs)
    for pair, scored in zip(pairs, together, strict=True):
        assert scored.ids == (*pair[1], END)
        assert scored.log_probability == pytest.approx(engine.score([pair])[0].log_probability)


def test_scoring_holds_the_logits_of_only_some_positions(monkeypatch):
    engine, pairs = TorchEngine(made(seed=6)), [([9], [10, 11]), ([12, 13, 14], [15]), ([9, 9], [])]
    together, rows, project = engine.score(pairs), [], engine.fast.project
    monkeypatch.setattr(torch_forcing, "SCORED", 4)
    monkeypatch.setattr(engine.fast, "project", lambda hidden: rows.append(len(hidden)) or project(hidden))
    for scored, other in zip(engine.score(pairs), together, strict=True):
        assert scored.ids == other.ids
        assert scored.token_scores == pytest.approx(other.token_scores, abs=1e-5)
    assert max(rows) == 4


def test_attention_maps_are_means_over_what_may_be_seen():
    maps = TorchEngine(made(seed=6)).attention([9, 10, 11], [12, 13])
    assert (maps.encoder.shape, maps.decoder.shape, maps.cross.shape) == ((2, 2, 4, 4), (2, 2, 3, 3), (2, 2, 3, 4))
    for each in vars(maps).values():
        torch.testing.assert_close(each.sum(-1), torch.ones(each.shape[:-1]).double())
    assert torch.equal(maps.decoder, maps.decoder.tril())


@pytest.mark.parametrize(
    "bad", [{"beam": 0}, {"n_best": 9}, {"temperature": -1.0}, {"top_p": 0.0}, {"top_k": -1}], ids=str
)
def test_options_out_of_range_are_usage_errors(bad):
    with pytest.raises(UsageError):
        SearchOptions(**bad)


def test_an_absurdly_long_source_is_refused_a_very_long_and_an_empty_one_are_no_crash():
    engine = TorchEngine(made(seed=6))
    with pytest.raises(DataError, match="5,000 subwords"):
        engine.decode([[9] * 5_000, []], SearchOptions(beam=2, extra_length=1))
    found = engine.decode([[9] * 2_000, []], SearchOptions(beam=2, extra_length=1))
    assert len(found) == 2
    assert all(np.isfinite(one[0].score) for one in found)


def test_the_largest_number_still_draws_a_token_that_may_be_said():
    almost = torch.full((1, 4), float(np.nextafter(np.float32(1), np.float32(0))))
    for options in ({}, {"top_k": 2}, {"top_p": 0.9}):
        (found,) = greedy(table(GARDEN), Prefixes([()]), [4], choose=sample_by(almost, **options))
        assert np.isfinite(found.log_probability)
