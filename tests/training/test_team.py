"""Workers of an update: what they share, what they reuse, and who takes long sentences."""

import pytest
import torch

from jumok.config.sections import TrainingConfig
from jumok.data.batches import Batch, teacher_force
from jumok.kernels import library
from jumok.kernels import output as loss
from jumok.kernels.ops import LONGEST
from jumok.training.objectives import next_token
from jumok.training.optim import Optimizer
from jumok.training.update import Gradients, Team, replicate
from tests.kernels.test_fused import batch_of, single, trained
from tests.support.helpers import SYMBOLS

compiled = pytest.mark.skipif(library.load() is None, reason="no C compiler on this machine")


def batch_with(*lengths, seed=0):
    """A batch of random sentences with these numbers of subwords on both sides."""
    torch.manual_seed(seed)
    sentences = [torch.randint(5, SYMBOLS, (length,)).numpy() for length in lengths]
    source, target, labels = teacher_force(sentences, sentences)
    return Batch(source, target, labels, torch.arange(len(lengths)), sum(lengths) + len(lengths))


class Observed(Team):
    """A team that notes which worker computes how many sentences, and with how many threads."""

    def __init__(self, workers, **changes):
        self.seen = []
        model = single(**changes)
        replicas = replicate(model, workers)
        super().__init__(model, replicas, [*map(self.objective, replicas)], Optimizer(model, TrainingConfig()))

    def objective(self, model):
        plain = next_token(model, smoothing=0.1)

        def noted(batch):
            self.seen.append((self.models.index(model), len(batch.rows), torch.get_num_threads()))
            return plain(batch)

        return noted

    def run(self, *batches):
        return self.update(batches, range(len(batches)), rate=1e-3, largest_gradient=1.0)


def weights(team):
    return [parameter.detach().clone() for parameter in team.model.parameters()]


# -------------------------------------------------------------------------------------------- output matrix


@compiled
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_output_matrix_is_packed_once_per_update_whatever_the_workers_and_batches(workers, monkeypatch):
    lib, calls = library.load(), []
    pack = lib.jk_output_pack
    monkeypatch.setattr(lib, "jk_output_pack", lambda *arguments: (calls.append(arguments), pack(*arguments)))
    team = Observed(workers)
    for update in range(1, 4):
        team.run(*batch_of(4))
        assert len(calls) == update


@compiled
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_sharing_the_packed_matrix_and_scratch_memory_changes_no_bit(workers, monkeypatch):
    shared = trained(4, workers, dropout=0.2, micro=4)
    begin = Gradients.begin

    def apart(self):
        self.buffers = []
        begin(self)

    monkeypatch.setattr(Gradients, "begin", apart)
    fresh = trained(4, workers, dropout=0.2, micro=4)
    assert shared[0] == fresh[0]
    assert all(map(torch.equal, shared[1], fresh[1]))


@compiled
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 200, 400])
def test_what_scratch_memory_held_before_does_not_matter(rows, threads):
    torch.manual_seed(0)
    x, weight, bias = torch.randn(rows, 24), torch.randn(301, 24), torch.randn(301)
    labels, lib = torch.randint(301, (rows,)), library.load()
    before, found = torch.get_num_threads(), []
    torch.set_num_threads(threads)
    try:
        for content in (0.0, float("nan")):
            own = [one.clone().requires_grad_() for one in (x, weight, bias)]
            buffers = loss.OutputBuffers()
            buffers.scratch(weight, lib).fill_(content)
            own[1].buffers = buffers
            total = loss.smoothed_cross_entropy(*own, labels, smoothing=0.1)
            total.backward()
            found.append([total.detach(), *(one.grad for one in own)])
    finally:
        torch.set_num_threads(before)
    assert all(map(torch.equal, *found))


@compiled
def test_weights_that_change_between_updates_or_after_them_are_packed_again():
    team = Observed(2)
    team.run(*batch_of(2))
    with torch.no_grad():
        for parameter in team.model.parameters():
            parameter.mul_(1.5)
    batch = batch_of(1)[0]
    with torch.no_grad():
        states = team.model.hidden(batch.source, batch.target)
        logits = team.model.project(states).flatten(0, 1)
        expected = torch.nn.functional.cross_entropy(
            logits, batch.labels.flatten(), ignore_index=0, reduction="sum", label_smoothing=0.1
        ).item()
    assert next_token(team.model, smoothing=0.1)(batch)[0].item() == pytest.approx(expected, rel=1e-5)
    assert team.run(batch)[0] * batch.tokens == pytest.approx(expected, rel=1e-5)


# -------------------------------------------------------------------------------------------- long sentences


@compiled
@pytest.mark.parametrize("workers", [2, 3])
def test_long_sentences_that_are_alone_in_their_batches_go_to_all_workers_in_turn(workers):
    team = Observed(workers)
    team.run(*(batch_with(LONGEST + 40, seed=seed) for seed in range(2 * workers)))
    assert sorted(worker for worker, *_ in team.seen) == sorted([*range(workers)] * 2)
    assert {threads for *_, threads in team.seen} == {1}


@compiled
def test_an_update_of_one_long_sentence_uses_all_cores_and_an_update_of_short_ones_does_not():
    team = Observed(3)
    before = torch.get_num_threads()
    team.run(batch_with(LONGEST + 40))
    assert [(sentences, threads) for _, sentences, threads in team.seen] == [(1, 3)]
    team.seen.clear()
    team.run(batch_with(LONGEST - 1))
    team.run(batch_with(LONGEST + 40, 30, 20))
    assert {threads for *_, threads in team.seen} == {1}
    assert torch.get_num_threads() == before


@compiled
def test_three_long_sentences_are_divided_between_two_workers_over_the_batches_or_the_cores():
    team, three = Observed(2), batch_with(300, 290, 280)
    team.run(three, three)
    assert sorted((worker, sentences) for worker, sentences, _ in team.seen) == [(0, 1), (0, 2), (1, 1), (1, 2)]
    team.seen.clear()
    team.run(three)
    assert team.seen == [(0, 3, 2)]


@compiled
@pytest.mark.parametrize("lengths", [[300], [300, 7], [300, 280, 270, 3, 4]], ids=str)
def test_long_sentences_give_the_same_bytes_every_time_and_the_numbers_of_one_worker(lengths):
    def run(workers, **changes):
        team = Observed(workers, bias=False, **changes)
        losses = [team.run(*(batch_with(*lengths, seed=seed) for seed in (2 * n, 2 * n + 1)))[0] for n in range(2)]
        losses.append(team.run(batch_with(*lengths, seed=9))[0])
        return losses, weights(team)

    (first, ours), (second, again) = run(2, dropout=0.2), run(2, dropout=0.2)
    assert first == second
    assert all(map(torch.equal, ours, again))
    (losses, together), (alone, apart) = run(2), run(1)
    assert losses == pytest.approx(alone, rel=1e-5)
    for one, other in zip(together, apart, strict=True):
        torch.testing.assert_close(one, other, atol=2e-3, rtol=1e-3)


@compiled
def test_a_short_sentence_alone_in_its_batch_stays_with_its_worker():
    team = Observed(2)
    team.run(*(batch_with(20, seed=seed) for seed in range(4)))
    assert {worker for worker, *_ in team.seen} == {1}
