"""The twelve laws every architecture obeys (law 9 and 12 are in test_training.py and test_vocabulary.py)."""

import math
from itertools import product

import pytest
import torch
from torch import Tensor

from jumok.config.search import SearchOptions
from jumok.decoding.ensemble import Ensemble
from jumok.decoding.hypothesis import penalize
from jumok.decoding.search import beam, greedy, sample_by
from jumok.engines.torch_engine import TorchEngine
from jumok.models.base import END, PAD, START
from jumok.storage import checkpoint
from jumok.text.symbols import NEVER
from tests.support.helpers import OTHERS, SYMBOLS, VARIANTS, made, small, two_sentences

every = pytest.mark.parametrize("variant", [*VARIANTS, *OTHERS])


def logits(model, source: Tensor, target: Tensor) -> Tensor:
    with torch.set_grad_enabled(model.training):
        return model.project(model.hidden(source, target))


@every
def test_1_stepping_gives_the_same_logits_as_teacher_forcing(variant):
    model = made(variant)
    source, target = two_sentences()
    together = logits(model, source, target)
    state = model.start(source)
    for t, token in enumerate(target.unbind(dim=1)):
        one, state = model.step(token, state)
        torch.testing.assert_close(one, together[:, t])


@every
@pytest.mark.parametrize("rows", [[1, 0], [0, 0, 1], [1], [1, 1, 0, 0], [0, 1, 1, 0]], ids=str)
def test_1_selected_rows_go_on_as_the_rows_they_were(variant, rows):
    model = made(variant)
    source, target = two_sentences()
    chosen = torch.tensor(rows)
    together = logits(model, source[chosen], target[chosen])
    with torch.inference_mode():
        state = model.start(source)
        for token in target[:, :2].unbind(dim=1):
            _, state = model.step(token, state)
        state = state.select(chosen)
        for t in (2, 3):
            one, state = model.step(target[chosen, t], state)
            torch.testing.assert_close(one, together[:, t])


@every
def test_2_padding_a_source_changes_nothing(variant):
    model = made(variant)
    source, target = two_sentences()
    alone = logits(model, source[1:, :3], target[1:])
    torch.testing.assert_close(logits(model, source, target)[1:], alone)


@every
def test_2_padding_a_target_changes_nothing(variant):
    model = made(variant)
    source, target = two_sentences()
    longer = torch.cat([target, torch.full((2, 3), PAD)], dim=1)
    torch.testing.assert_close(logits(model, source, longer)[:, :4], logits(model, source, target))


@every
def test_3_the_future_changes_nothing(variant):
    model = made(variant)
    source, target = two_sentences()
    for t in range(1, target.shape[1]):
        changed = target.clone()
        changed[:, t] = 21
        torch.testing.assert_close(logits(model, source, changed)[:, :t], logits(model, source, target)[:, :t])
        assert not torch.equal(logits(model, source, changed)[:, t:], logits(model, source, target)[:, t:])


@every
def test_4_the_order_of_sentences_in_a_batch_changes_nothing(variant):
    model = made(variant)
    source, target = two_sentences()
    torch.testing.assert_close(logits(model, source.flip(0), target.flip(0)), logits(model, source, target).flip(0))


@every
@pytest.mark.parametrize("width", [1, 3])
def test_5_every_score_that_search_reports_is_the_score_the_model_gives(variant, width):
    model = made(variant, seed=3)
    engine = TorchEngine(model)
    sources = [[9, 10, 11, 12], [13, 14], [15]]
    options = SearchOptions(beam=width, n_best=width, extra_length=4)
    for source, found in zip(sources, engine.decode(sources, options), strict=True):
        for hypothesis in found:
            source_ids, target = torch.tensor([[*source, END]]), torch.tensor([[START, *hypothesis.ids[:-1]]])
            gains = logits(model, source_ids, target).log_softmax(-1)[0]
            expected = [float(gains[t, token]) for t, token in enumerate(hypothesis.ids)]
            assert hypothesis.token_scores == pytest.approx(expected)
            assert hypothesis.log_probability == pytest.approx(sum(expected))
            penalty = ((5 + len(hypothesis.ids)) / 6) ** 0.6
            assert hypothesis.score == pytest.approx(sum(expected) / penalty)


def all_sentences(model, source: Tensor, limit: int, alpha: float) -> list[tuple[float, tuple[int, ...]]]:
    """Every output up to `limit` tokens (those that fill it need no END) with its score, by brute force."""
    allowed = [token for token in range(SYMBOLS) if token not in (*NEVER, END)]
    found = []
    for length in range(limit + 1):
        ending = () if length == limit else (END,)
        ids = torch.tensor([(*body, *ending) for body in product(allowed, repeat=length)])
        target = torch.cat([torch.full((len(ids), 1), START), ids[:, :-1]], dim=1)
        gains = logits(model, source.expand(len(ids), -1), target).log_softmax(-1).gather(2, ids[:, :, None])
        scores = penalize(gains.sum(dim=(1, 2)), ids.shape[1], alpha)
        found += zip(scores.tolist(), map(tuple, ids.tolist()), strict=True)
    return sorted(found, reverse=True)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_6_a_beam_as_wide_as_the_space_finds_the_best_of_all_sentences(alpha):
    model = made(seed=7)
    source = torch.tensor([[9, 10, END]])
    best = all_sentences(model, source, 3, alpha)[:5]
    with torch.inference_mode():
        state = model.start(source)
    found = beam(model.step, state, [3], SearchOptions(beam=14**2 * 2, length_penalty=alpha, n_best=5, exact=True))[0]
    assert [hypothesis.ids for hypothesis in found] == [ids for _, ids in best]
    assert [hypothesis.score for hypothesis in found] == pytest.approx([score for score, _ in best])


@every
def test_7_width_1_is_greedy_and_temperature_0_is_greedy(variant):
    model = made(variant, seed=2)
    source = torch.tensor([[9, 10, 11, END]])

    def start():
        with torch.inference_mode():
            return model.start(source)

    by_hand, target = [], [START]
    while len(by_hand) < 6 and END not in by_hand:
        row = logits(model, source, torch.tensor([target]))[0, -1].clone()
        row[list(NEVER)] = -math.inf
        by_hand.append(int(row.argmax()))
        target.append(by_hand[-1])
    assert beam(model.step, start(), [6], SearchOptions(beam=1))[0][0].ids == tuple(by_hand)
    cold = sample_by(torch.rand(1, 6), temperature=0.0)
    assert greedy(model.step, start(), [6], choose=cold)[0].ids == tuple(by_hand)
    nearly = sample_by(torch.rand(1, 6), temperature=1e-4)
    assert greedy(model.step, start(), [6], choose=nearly)[0].ids == tuple(by_hand)
    first = sample_by(torch.rand(1, 6), top_k=1)
    assert greedy(model.step, start(), [6], choose=first)[0].ids == tuple(by_hand)


@every
def test_8_save_and_load_give_bit_identical_logits(variant, tmp_path):
    model = made(variant).float()
    checkpoint.write_whole(tmp_path / "saved", {"model.safetensors": checkpoint.weights(model)}, {})
    other = made(variant, seed=9).float()
    tensors = checkpoint.read_tensors(tmp_path / "saved" / "model.safetensors", checkpoint.weights(other))
    checkpoint.set_weights(other, tensors)
    assert torch.equal(logits(other, *two_sentences()), logits(model, *two_sentences()))


@every
def test_10_every_parameter_gets_a_gradient(variant):
    model = made(variant).train()
    logits(model, *two_sentences()).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@every
def test_11_an_ensemble_of_a_model_with_itself_is_the_model(variant):
    model = made(variant, seed=5)
    sources = [[9, 10, 11], [12, 13]]
    options = SearchOptions(beam=3, extra_length=4)
    alone = TorchEngine(model).decode(sources, options)
    together = TorchEngine(Ensemble([model, model])).decode(sources, options)
    for (one,), (two,) in zip(alone, together, strict=True):
        assert two.ids == one.ids
        assert two.score == pytest.approx(one.score)


def test_an_ensemble_of_two_models_averages_their_probabilities():
    first, second = made(seed=1), made(seed=2)
    source, target = two_sentences()
    both = Ensemble([first, second])
    state = both.start(source)
    for t, token in enumerate(target.unbind(dim=1)):
        log, state = both.step(token, state)
        mean = (logits(first, source, target)[:, t].softmax(-1) + logits(second, source, target)[:, t].softmax(-1)) / 2
        torch.testing.assert_close(log.exp(), mean)


@pytest.mark.parametrize(
    "options",
    [SearchOptions(beam=1), SearchOptions(beam=4), SearchOptions(sample=True, seed=3)],
    ids=["greedy", "beam", "sample"],
)
def test_a_translation_does_not_depend_on_what_else_is_in_the_batch(options):
    model = made(seed=11)
    sources = [[8 + (7 * i + j) % 15 for j in range(1 + i % 6)] for i in range(16)]
    together = TorchEngine(model).decode(sources, options)
    for number, source in enumerate(sources):
        alone = TorchEngine(model).decode([source], options, numbers=[number])[0]
        assert alone[0].ids == together[number][0].ids
        assert alone[0].score == pytest.approx(together[number][0].score)


def test_one_architecture_builds_on_the_meta_device_without_memory():
    from jumok.models import build

    assert all(p.is_meta for p in build(small(), 10**6, 10**6, device="meta").parameters())
