"""Every kernel equals what it replaces: the plain torch path, values and gradients; masks follow their keys."""

from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F

from jumok.config.sections import TrainingConfig
from jumok.data.batches import Batch
from jumok.kernels import library, ops
from jumok.kernels import output as loss
from jumok.kernels.modules import accelerate
from jumok.kernels.parts import mix
from jumok.models.base import END, PAD, START
from jumok.nn.attention import CrossAttention, Mask, SelfAttention
from jumok.nn.dropout import Dropout, Dropouts, Stream
from jumok.nn.layers import Linear
from jumok.nn.variants import SCORES, Rotary
from jumok.training.objectives import next_token
from jumok.training.optim import Move, Muon, Optimizer
from jumok.training.update import Gradients, Team, replicate
from tests.support.helpers import made

compiled = pytest.mark.skipif(library.load() is None, reason="no C compiler on this machine")
CLOSE = {"atol": 2e-5, "rtol": 2e-4}


def single(**changes):
    """A small model in the precision that the kernels take; without dropout unless asked for."""
    return made(**({"dropout": 0.0} | changes)).float()


def attend(module, x, mask, memory=None):
    """Attention by its kernel, or, where kernels are switched off, as the module computes it."""
    if library.load() is None:
        return module(x, mask) if memory is None else module(x, memory, mask)
    first, second = (module.qkv(x), None) if memory is None else (module.query(x), module.memory(memory))
    return module.output(mix(module, first, second, mask))


def both(function, *inputs):
    """Outputs and gradients of a function with the kernels and without them."""
    answers = []
    for plain in (False, True):
        own = [one.detach().clone().requires_grad_(one.is_floating_point()) for one in inputs]
        switch = library.without() if plain else torch.enable_grad()
        with switch:
            out = function(*own)
            torch.manual_seed(3)
            (out * torch.randn_like(out)).sum().backward()
        answers.append([out.detach(), *(one.grad for one in own if one.is_floating_point())])
    return zip(*answers, strict=True)


@compiled
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("around", ["nothing", "norm", "relu", "norm and relu", "residual", "no bias"])
@pytest.mark.parametrize(
    ("rows", "before", "after"), [(1, 8, 16), (5, 12, 7), (97, 33, 50), (211, 300, 20), (700, 24, 40), (40, 16, 230)]
)
def test_the_linear_kernel_is_the_product_with_what_stands_around_it(rows, before, after, around, threads):
    torch.manual_seed(0)
    x, weight, bias, gain, shift, residual = (
        torch.randn(shape) for shape in [(rows, before), (after, before), (after,), (before,), (before,), (rows, after)]
    )

    def run(x, weight, bias, gain, shift, residual):
        norm = SimpleNamespace(weight=gain, bias=shift, eps=1e-5) if "norm" in around else None
        beside = residual if around == "residual" else None
        return ops.linear(
            x, weight, None if around == "no bias" else bias, norm=norm, relu="relu" in around, residual=beside,
            stream=Stream(),
        )  # fmt: skip

    before_threads = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        answers = list(both(run, x, weight, bias, gain, shift, residual))
    finally:
        torch.set_num_threads(before_threads)
    for ours, plain in answers:
        assert (ours is None) == (plain is None)
        if ours is not None:
            torch.testing.assert_close(ours, plain, atol=2e-3 * before**0.5 / 10, rtol=1e-3)


@compiled
def test_the_gradient_that_comes_in_is_not_changed():
    x = torch.randn(4, 6, requires_grad=True)
    y = ops.linear(x, torch.randn(5, 6, requires_grad=True), torch.randn(5, requires_grad=True), relu=True)
    gradient = torch.randn(4, 5)
    before = gradient.clone()
    y.backward(gradient)
    assert torch.equal(gradient, before)


@compiled
def test_embeddings_that_occur_twice_get_both_gradients():
    torch.manual_seed(0)
    ids = torch.tensor([[1, 2, 2], [0, 2, 1]])
    table, positions = torch.randn(4, 16), torch.randn(3, 16)
    for ours, plain in both(lambda t: ops.embed(t, ids, positions, scale=4.0), table):
        torch.testing.assert_close(ours, plain, **CLOSE)


@compiled
@pytest.mark.parametrize("wrong", [-1, 4])
def test_an_id_without_a_row_is_an_error_and_not_a_read_beyond_the_end(wrong):
    with pytest.raises(IndexError):
        ops.embed(torch.randn(4, 8), torch.tensor([[0, wrong]]), None, scale=1.0)
    with pytest.raises(IndexError):
        loss.smoothed_cross_entropy(
            torch.randn(2, 8, requires_grad=True), torch.randn(4, 8), None, torch.tensor([0, wrong]), smoothing=0.1
        )


@compiled
@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", [(2, 8, 8), (3, 16, 8), (1, 8, 24)])
@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 16, 33])
def test_the_attention_kernel_is_attention(length, sizes, causal, rotary):
    torch.manual_seed(0)
    heads, d_k, d_v = sizes
    positions = Rotary(d_k) if rotary else None
    module = SelfAttention(16, heads, d_k, d_v, score=SCORES["scaled-dot"], bias=True, rotary=positions)
    real = torch.arange(length)[None] < torch.tensor([length, max(1, length - 3), 1])[:, None]
    mask = Mask(causal=True) if causal else Mask.padding(real)
    for ours, plain in both(lambda x: attend(module, x, mask), torch.randn(3, length, 16)):
        torch.testing.assert_close(ours, plain, **CLOSE)


@compiled
@pytest.mark.parametrize(("queries", "keys"), [(1, 9), (5, 3), (17, 40)])
def test_the_attention_kernel_is_attention_over_a_memory(queries, keys):
    torch.manual_seed(0)
    module = CrossAttention(16, 2, 8, 16, score=SCORES["scaled-dot"], bias=True)
    real = torch.arange(keys)[None] < torch.tensor([keys, keys - 2])[:, None]
    inputs = torch.randn(2, queries, 16), torch.randn(2, keys, 16)
    for ours, plain in both(lambda x, m: attend(module, x, Mask.padding(real), m), *inputs):
        torch.testing.assert_close(ours, plain, **CLOSE)


@compiled
def test_a_query_that_may_look_nowhere_gets_zeros():
    lib = library.load()
    qkv, nothing = torch.randn(2, 3, 24), torch.tensor([0, 3])
    out = ops.Attention.apply(qkv, None, nothing, None, (1, 8, 8), 1.0, False, lib)
    assert torch.equal(out[0], torch.zeros(3, 8))
    assert out[1].abs().min() > 0


@compiled
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("rows", "width", "symbols"), [(9, 8, 37), (1, 16, 16), (193, 24, 300), (400, 20, 513)])
def test_the_output_kernel_gives_loss_and_gradients(rows, width, symbols, biased, smoothing, threads):
    torch.manual_seed(0)
    x, weight, labels = torch.randn(rows, width), torch.randn(symbols, width), torch.randint(symbols, (rows,))
    bias = torch.randn(symbols)

    def run(x, weight, bias):
        return loss.smoothed_cross_entropy(x, weight, bias if biased else None, labels, smoothing=smoothing, rows=4)

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        answers = list(both(run, x, weight, bias))
    finally:
        torch.set_num_threads(before)
    for ours, plain in answers:
        assert (ours is None) == (plain is None)
        if ours is not None:
            torch.testing.assert_close(ours, plain, atol=1e-4, rtol=1e-3)
    logits = F.linear(x.double(), weight.double(), bias.double() if biased else None)
    expected = F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(answers[0][0].double(), expected, atol=1e-4, rtol=1e-6)


@compiled
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_seen_in_the_loss(wrong):
    x = torch.randn(3, 8)
    x[1, 2] = wrong
    total = loss.smoothed_cross_entropy(
        x.requires_grad_(), torch.randn(11, 8), None, torch.tensor([1, 2, 3]), smoothing=0.1
    )
    assert not torch.isfinite(total)


@compiled
def test_extreme_logits_neither_overflow_nor_vanish():
    wanted = torch.tensor([[-1e30, 0.0, 200.0, 199.0], [-300.0, -301.0, -400.0, -300.5]])
    x, labels = torch.eye(2).requires_grad_(), torch.tensor([2, 0])
    weight = wanted.t().contiguous().requires_grad_()  # so that the logits are the ones wanted
    total = loss.smoothed_cross_entropy(x, weight, None, labels, smoothing=0.0)
    total.backward()
    expected = F.cross_entropy(wanted.double(), labels, reduction="sum")
    gradient = wanted.double().softmax(-1) - F.one_hot(labels, 4)
    assert total.item() == pytest.approx(expected.item(), rel=1e-6)
    torch.testing.assert_close(weight.grad.t().double(), gradient, atol=1e-6, rtol=1e-5)


@compiled
@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_dropout_drops_its_share_anywhere_and_differently_for_every_key(rate):
    ones = torch.ones(400, 250)
    kept = []
    for key in (1, 2, 2**40 + 1):
        drop = accelerate(Dropout(rate))
        Dropouts(drop).start(key)
        kept.append(drop(ones) > 0)
        assert kept[-1].float().mean().item() == pytest.approx(1 - rate, abs=0.01)
        assert (kept[-1].float().mean(dim=0) - (1 - rate)).abs().max() < 0.12
        assert (kept[-1].float().mean(dim=1) - (1 - rate)).abs().max() < 0.15
    for a, b in [(0, 1), (0, 2), (1, 2)]:  # independent: both kept as often as two coins
        assert (kept[a] & kept[b]).float().mean().item() == pytest.approx((1 - rate) ** 2, abs=0.01)
    neighbours = (kept[0][:, 1:] & kept[0][:, :-1]).float().mean().item()
    assert neighbours == pytest.approx((1 - rate) ** 2, abs=0.01)


def test_dropout_can_begin_with_a_share_of_its_rate():
    drop = Dropout(0.4)
    Dropouts(drop).start(1, 0.25)
    assert (drop(torch.ones(400, 250)) == 0).float().mean().item() == pytest.approx(0.1, abs=0.01)
    Dropouts(drop).start(1, 0.0)
    assert torch.equal(drop(torch.ones(4, 5)), torch.ones(4, 5))


@compiled
def test_dropout_before_the_residual_sum_is_drawn_again_on_the_way_back():
    stream = Stream()
    stream.start(7)
    x, bias = torch.eye(40, requires_grad=True), torch.zeros(30, requires_grad=True)
    weight, residual = torch.ones(30, 40, requires_grad=True), torch.zeros(40, 30, requires_grad=True)
    out = ops.linear(x, weight, bias, residual=residual, rate=0.4, stream=stream)
    out.sum().backward()
    assert (out == 0).float().mean().item() == pytest.approx(0.4, abs=0.05)
    torch.testing.assert_close(out.detach().t(), weight.grad)  # row n of x is the unit vector n
    torch.testing.assert_close(out.detach().sum(dim=0), bias.grad)
    torch.testing.assert_close(out.detach().sum(dim=1, keepdim=True).expand(40, 40), x.grad)
    assert torch.equal(residual.grad, torch.ones(40, 30))
    apart = Stream()
    apart.start(7)
    assert torch.equal(ops.dropout(torch.ones(40, 30), 0.4, apart), out.detach())


@compiled
def test_embedding_dropout_and_its_gradient_share_a_mask():
    stream = Stream()
    stream.start(3)
    table = torch.ones(50, 16, requires_grad=True)
    out = ops.embed(table, torch.arange(50)[None], None, scale=2.0, rate=0.5, stream=stream)
    out.sum().backward()
    torch.testing.assert_close(out.detach()[0], table.grad)
    assert 0.4 < (table.grad == 0).float().mean() < 0.6


def test_the_same_key_gives_the_same_masks_whatever_was_drawn_before():
    model = accelerate(single(dropout=0.3)).train()
    batch = batch_of(1)[0]
    outputs = []
    for noise in (0, 5):
        torch.rand(noise)
        Dropouts(model).start(11)
        outputs.append(model.hidden(batch.source, batch.target))
    assert torch.equal(outputs[0], outputs[1])
    Dropouts(model).start(12)
    assert not torch.equal(outputs[0], model.hidden(batch.source, batch.target))


# ------------------------------------------------------------------------------------------- whole updates


def batch_of(count: int, *, rows: int = 4, length: int = 7) -> list[Batch]:
    """Batches whose target repeats the source, padding included."""
    batches = []
    for number in range(count):
        torch.manual_seed(number)
        words = torch.randint(5, 23, (rows, length))
        words[0, -2:] = PAD
        ends = torch.full((rows, 1), END)
        labels = torch.cat([words, ends], dim=1)
        labels[0, -3:] = torch.tensor([END, PAD, PAD])
        target = torch.cat([torch.full((rows, 1), START), words], dim=1)
        target[0, -2:] = PAD
        batches.append(Batch(words, target, labels, torch.arange(rows), int((labels != PAD).sum())))
    return batches


def trained(updates: int, workers: int, *, micro: int = 2, rate: float = 1e-3, **changes):
    """Losses and weights of a small model after some updates."""
    model = single(**changes)
    optimizer = Optimizer(model, TrainingConfig(beta2=0.98))
    replicas = replicate(model, workers)
    team = Team(model, replicas, [next_token(one, smoothing=0.1) for one in replicas], optimizer)
    losses = []
    for step in range(updates):
        keys = [step * micro + each for each in range(micro)]
        batches = [batch_of(8)[key % 8] for key in keys]
        losses.append(team.update(batches, keys, rate=rate, largest_gradient=1.0)[0])
    return losses, [parameter.detach().clone() for parameter in model.parameters()]


@compiled
@pytest.mark.parametrize(("place", "positions"), [("post", "sinusoidal"), ("pre", "rotary")])
def test_200_updates_with_kernels_and_workers_end_at_the_loss_of_the_plain_path(place, positions):
    calm = {"norm_place": place, "positions": positions, "rate": 2e-4}  # faster, float32 and float64 part ways as well
    with library.without():
        plain, _ = trained(200, 1, **calm)
    assert plain[-1] < plain[0] - 0.5
    alone, together = (trained(200, workers, **calm)[0] for workers in (1, 2))
    assert alone != plain  # other sums, other last digits: the kernels did the work
    assert alone[-1] == pytest.approx(plain[-1], abs=1e-4)
    assert together[-1] == pytest.approx(plain[-1], abs=1e-4)


@compiled
def test_gradients_that_kernels_add_up_are_those_of_autograd():
    model, batch = accelerate(single(), own=True).train(), batch_of(1)[0]
    objective = next_token(model, smoothing=0.1)
    objective(batch)[0].backward()
    expected = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    gradients = Gradients(list(model.parameters()))
    for _ in range(2):  # what was added before does not stay
        gradients.begin()
        objective(batch)[0].backward()
        assert all(parameter.grad is None for parameter in model.parameters())
        found = gradients.end()
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, **CLOSE)
    gradients.begin()
    with pytest.raises(RuntimeError, match="cannot be scaled"):
        (objective(batch)[0] / 2).backward()
    gradients.end()
    objective(batch)[0].backward()  # the usual way again
    torch.testing.assert_close(model.source.weight.grad, expected[0], **CLOSE)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_team_gives_the_same_bytes_every_time(workers):
    first, second = trained(4, workers, dropout=0.2, micro=4), trained(4, workers, dropout=0.2, micro=4)
    assert first[0] == second[0]
    assert all(map(torch.equal, first[1], second[1]))


def test_workers_divide_the_work_and_change_nothing_else():
    # no biases: that of the keys has no gradient but rounding, which Adam makes as large as any other
    alone, *teams = (trained(3, workers, bias=False) for workers in (1, 2, 3, 7))
    for losses, weights in teams:
        assert losses == pytest.approx(alone[0], abs=1e-5)
        for one, other in zip(weights, alone[1], strict=True):
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam_equals_torch(plain, decay):
    torch.manual_seed(0)
    ours, theirs = (torch.nn.Linear(9, 7) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    config = TrainingConfig(beta1=0.9, beta2=0.98, epsilon=1e-9, weight_decay=decay)
    adam = Optimizer(ours, config)
    reference = torch.optim.AdamW(theirs.parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-9, weight_decay=decay)
    switch = library.without() if plain else torch.enable_grad()
    with switch:
        for _ in range(5):
            for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
                mine.grad = torch.randn_like(mine)
                other.grad = mine.grad.clone()
            norm = torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
            reference.step()
            adam.collect([[mine.grad for mine in ours.parameters()]])
            squares = adam.gather(0, 2) + adam.gather(1, 2)
            assert squares == pytest.approx(norm.item() ** 2, rel=1e-5)
            adam.begin(0.01, 1.0 / (squares**0.5 + 1e-6))
            adam.apply(0, 2)
            adam.apply(1, 2)
    torch.testing.assert_close(ours.weight, theirs.weight, **CLOSE)
    assert adam.tensors()["step.weight"].item() == 5


def test_without_a_compiler_everything_works(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert library.find_compiled() is None


@compiled
def test_the_kernels_are_compiled_once_into_a_folder_of_the_users_own(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = library.find_compiled()
    assert first is not None
    assert first.parent.stat().st_mode & 0o077 == 0
    made_at = first.stat().st_mtime_ns
    assert library.find_compiled() == first
    assert first.stat().st_mtime_ns == made_at
    assert list(first.parent.iterdir()) == [first]


@pytest.mark.parametrize("shape", [(16, 16), (8, 24), (24, 8)])
def test_muon_moves_along_the_nearest_orthogonal_matrix(shape):
    torch.manual_seed(0)
    linear = Linear(shape[1], shape[0])
    muon = Muon([linear], TrainingConfig())
    muon.rounds = 12
    gradient, before = torch.randn(shape), linear.weight.detach().clone()
    with torch.no_grad():
        muon.apply({linear.weight: gradient}, Move(0.01, 1.0, 1), 0, 1)
    u, _, v = torch.linalg.svd(gradient, full_matrices=False)
    moved = (before - linear.weight.detach()) / (0.01 * muon.size * max(shape) ** 0.5)
    assert torch.nn.functional.cosine_similarity(moved.flatten(), (u @ v).flatten(), dim=0) > 0.97
    values = torch.linalg.svdvals(moved)
    assert values.min() > 0.5
    assert values.max() < 1.3


@compiled
@pytest.mark.parametrize("blocks", [(16, 16), (5,), (37, 50, 50), (43,), (128, 256)], ids=str)
@pytest.mark.parametrize("width", [16, 43, 128])
def test_the_muon_kernel_is_the_formula(blocks, width):
    moved = []
    for plain in (False, True):
        torch.manual_seed(0)
        linears = [Linear(width, *blocks), Linear(24, 40)]
        muon = Muon(linears, TrainingConfig(weight_decay=0.1))
        with library.without() if plain else torch.enable_grad(), torch.no_grad():
            for step in (1, 2):
                gradients = {weight: torch.randn_like(weight) for weight in muon.weights}
                for part in range(2):
                    muon.apply(gradients, Move(0.02, 0.5, step), part, 2)
        moved.append([*muon.weights, *muon.means])
    for ours, theirs in zip(*moved, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def test_muon_takes_packed_matrices_apart_and_shares_them_between_threads():
    torch.manual_seed(0)
    packed = Linear(8, 8, 8, 16)
    gradient, config = torch.randn(32, 8), TrainingConfig()
    apart = [Linear(8, height) for height in packed.blocks]
    for one, weight in zip(apart, packed.weight.detach().split(packed.blocks), strict=True):
        one.weight.data.copy_(weight)
    with torch.no_grad():
        together = Muon([packed], config)
        for part in range(2):
            together.apply({packed.weight: gradient}, Move(0.01, 0.5, 1), part, 2)
        for one, share in zip(apart, gradient.split(packed.blocks), strict=True):
            Muon([one], config).apply({one.weight: share}, Move(0.01, 0.5, 1), 0, 1)
    torch.testing.assert_close(packed.weight, torch.cat([one.weight for one in apart]), **CLOSE)


def test_with_muon_tables_norms_and_biases_stay_with_adam():
    model = made()
    adam, muon = Optimizer(model, TrainingConfig(optimizer="muon")).rules
    names = {weight: name for name, weight in model.named_parameters()}
    assert {names[weight].rsplit(".", 2)[-2] for weight in muon.weights} == {
        "qkv", "query", "memory", "output", "inner", "outer",
    }  # fmt: skip
    assert {*adam.weights, *muon.weights} == set(model.parameters())
    assert model.source.weight in set(adam.weights)


@pytest.mark.parametrize("kind", ["adam", "muon"])
def test_what_an_optimizer_remembers_is_saved_and_restored(kind):
    model = made()
    first, second = (Optimizer(model, TrainingConfig(optimizer=kind)) for _ in range(2))
    first.collect([[torch.randn_like(parameter) for parameter in model.parameters()]])
    first.gather()
    first.begin(0.01, 1.0)
    first.apply()
    second.restore({name: value.clone() for name, value in first.tensors().items()})
    assert second.steps == 1
    assert first.tensors().keys() == second.tensors().keys()
    assert all(torch.equal(value, second.tensors()[name]) for name, value in first.tensors().items())
    assert any(value.abs().sum() > 0 for name, value in second.tensors().items() if not name.startswith("step"))
