"""The parts of figure 1 against torch's own, closed forms, and hand-made cases."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from jumok.kernels.modules import accelerate
from jumok.kernels.output import smoothed_cross_entropy
from jumok.kernels.parts import sdpa
from jumok.nn.attention import EVERYTHING, CrossAttention, Mask, SelfAttention, attend, watch
from jumok.nn.cache import Cache
from jumok.nn.dropout import Dropout
from jumok.nn.positions import Sinusoidal, sinusoid
from jumok.nn.variants import (
    NORMS,
    RESIDUALS,
    SCORES,
    BatchNorm,
    Concatenate,
    Learned,
    Rotary,
    StepNumber,
    feed_forward,
)


def heads(*, seed=0, b=2, h=3, t=5, s=7, k=4):
    torch.manual_seed(seed)
    return torch.randn(b, h, t, k), torch.randn(b, h, s, k), torch.randn(b, h, s, k + 1)


def test_equation_1_by_hand():
    q, k, v = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[10.0], [20.0]])
    weight = math.exp(1 / math.sqrt(2)) / (math.exp(1 / math.sqrt(2)) + 1)
    mixed, weights = attend(q[None, None], k[None, None], v[None, None])
    assert weights.flatten().tolist() == pytest.approx([weight, 1 - weight])
    assert mixed.item() == pytest.approx(10 * weight + 20 * (1 - weight))


@pytest.mark.parametrize("score", ["scaled-dot", "dot"])
@pytest.mark.parametrize("masked", ["nothing", "padding", "the future"])
def test_torchs_attention_takes_the_place_of_equation_1_to_1e_6(score, masked):
    q, k, v = heads(s=5)
    real = torch.tensor([[True, True, False, False, False], [True] * 5])
    mask = {"nothing": EVERYTHING, "padding": Mask.padding(real), "the future": Mask(real, causal=True)}[masked]
    module = SelfAttention(12, 3, 4, 5, score=SCORES[score], bias=True)
    explicit, weights = module.attend(q, k, v, mask)
    fast, nothing = accelerate(module).attend(q, k, v, mask)
    scale = 4**-0.5 if score == "scaled-dot" else 1.0
    torch.testing.assert_close(fast, explicit, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(sdpa(q, k, v, mask, scale), explicit, atol=1e-6, rtol=1e-6)
    assert weights.shape == (2, 3, 5, 5)
    assert nothing is None


@pytest.mark.parametrize("score", SCORES)
def test_a_query_that_may_look_nowhere_gives_zeros_in_value_and_gradient(score):
    q, k, v = (x.requires_grad_() for x in heads())
    mask = torch.ones(2, 1, 5, 7, dtype=torch.bool)
    mask[1, 0, 3] = False
    out, _ = attend(q, k, v, mask, score=SCORES[score](3, 4))
    assert torch.equal(out[1, :, 3], torch.zeros(3, 5))
    out.sum().backward()
    assert q.grad.isfinite().all()
    assert torch.equal(q.grad[1, :, 3], torch.zeros(3, 4))


@pytest.mark.parametrize("score", SCORES)
def test_looking_ahead_is_impossible(score):
    q, k, v = heads(s=5)
    changed_k, changed_v = k.clone(), v.clone()
    changed_k[:, :, 3:], changed_v[:, :, 3:] = 9.0, 9.0
    module, mask = SCORES[score](3, 4), Mask(causal=True).allowed(q)
    before, after = (attend(q, *both, mask, score=module)[0] for both in ((k, v), (changed_k, changed_v)))
    torch.testing.assert_close(before[:, :, :3], after[:, :, :3])
    assert mask.sum() == 5 * 6 / 2


def test_weights_are_a_mean_each_row_sums_to_one():
    q, k, v = heads()
    for score in SCORES:
        _, weights = attend(q, k, v, score=SCORES[score](3, 4))
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 5))


def test_self_attention_equals_torch_multihead_attention():
    torch.manual_seed(0)
    ours, theirs = (
        SelfAttention(12, 3, 4, 4, score=SCORES["scaled-dot"], bias=True),
        nn.MultiheadAttention(12, 3, batch_first=True),
    )
    theirs.in_proj_weight.data.copy_(ours.qkv.weight)
    theirs.in_proj_bias.data.copy_(ours.qkv.bias.data.normal_())
    theirs.out_proj.weight.data.copy_(ours.output.weight)
    theirs.out_proj.bias.data.copy_(ours.output.bias.data.normal_())
    x = torch.randn(2, 6, 12)
    keep = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    expected, weights = theirs(x, x, x, key_padding_mask=~keep, average_attn_weights=False)
    with watch(ours) as seen:
        torch.testing.assert_close(ours(x, Mask.padding(keep)), expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(seen[ours], weights, atol=1e-6, rtol=1e-5)


def test_cross_attention_equals_torch_multihead_attention():
    torch.manual_seed(0)
    ours = CrossAttention(12, 3, 4, 4, score=SCORES["scaled-dot"], bias=True)
    theirs = nn.MultiheadAttention(12, 3, batch_first=True)
    theirs.in_proj_weight.data.copy_(torch.cat([ours.query.weight, ours.memory.weight]))
    theirs.in_proj_bias.data.zero_()
    theirs.out_proj.weight.data.copy_(ours.output.weight)
    x, memory = torch.randn(2, 5, 12), torch.randn(2, 7, 12)
    torch.testing.assert_close(ours(x, memory, EVERYTHING), theirs(x, memory, memory)[0], atol=1e-6, rtol=1e-5)


def test_rows_of_one_sentence_share_its_memory_without_a_copy():
    torch.manual_seed(0)
    cross = CrossAttention(12, 3, 4, 4, score=SCORES["scaled-dot"], bias=True)
    memory, x = torch.randn(2, 7, 12), torch.randn(6, 1, 12)
    shared = cross.step(x, *cross.read(memory), EVERYTHING)
    torch.testing.assert_close(shared, cross(x, memory.repeat_interleave(3, dim=0), EVERYTHING))


def test_the_cache_keeps_every_step_and_follows_its_rows():
    cache = Cache.empty(3, 1, 2, 2, torch.zeros(1), room=2)
    for t in range(5):
        k = torch.arange(3.0).view(3, 1, 1, 1).expand(3, 1, 1, 2) + 10 * t
        keys, values = cache.append(k, -k)
    assert keys[:, 0, :, 0].tolist() == [[10.0 * t + row for t in range(5)] for row in range(3)]
    chosen = cache.select(torch.tensor([2, 2, 0]))
    keys, values = chosen.append(torch.zeros(3, 1, 1, 2), torch.zeros(3, 1, 1, 2))
    assert keys[:, 0, 4, 0].tolist() == [42.0, 42.0, 40.0]
    assert values[:, 0, 4, 0].tolist() == [-42.0, -42.0, -40.0]


# ---------------------------------------------------------------------- positions


def test_the_sinusoid_is_the_papers_closed_form():
    table = sinusoid(0, 60, 16)
    for position in (0, 1, 7, 59):
        for i in range(8):
            angle = position / 10_000 ** (2 * i / 16)
            assert table[position, 2 * i] == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 2 * i + 1] == pytest.approx(math.cos(angle), abs=1e-6)


def test_a_fixed_offset_is_a_linear_map_of_the_sinusoid():
    table, offset = sinusoid(0, 100, 8).double(), 5
    for i in range(4):
        angle = offset / 10_000 ** (2 * i / 8)
        turn = torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]).double()
        pair = table[:, 2 * i : 2 * i + 2]
        torch.testing.assert_close(pair[:-offset] @ turn.T, pair[offset:], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", [Sinusoidal, StepNumber, Learned])
def test_positions_from_the_middle_are_rows_of_the_whole(kind):
    torch.manual_seed(0)
    positions = kind(8, 2_000)
    torch.testing.assert_close(positions(0, 700)[600:], positions(600, 100))


def test_step_numbers_are_the_steps():
    assert StepNumber(8, 0)(3, 4).flatten().tolist() == [3.0, 4.0, 5.0, 6.0]


def test_learned_positions_repeat_the_last_beyond_their_table():
    learned = Learned(8, 10)
    torch.testing.assert_close(learned(9, 3), learned.weight[9].expand(3, 8))


def test_rotary_scores_depend_on_the_distance_alone():
    torch.manual_seed(0)
    rotary, q, k = Rotary(8), torch.randn(1, 1, 1, 8), torch.randn(1, 1, 1, 8)
    near = (rotary(q, 3) * rotary(k, 1)).sum()
    far = (rotary(q, 603) * rotary(k, 601)).sum()
    torch.testing.assert_close(near, far, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(rotary(q, 5).norm(), q.norm())


def test_rotary_positions_multiply_complex_numbers():
    torch.manual_seed(0)
    x, start = torch.randn(2, 3, 5, 8), 600
    angles = torch.arange(start, start + 5)[:, None] / 10_000.0 ** (torch.arange(0, 8, 2) / 8)
    turned = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.polar(torch.ones(5, 4), angles)
    torch.testing.assert_close(Rotary(8)(x, start), torch.view_as_real(turned).flatten(-2), atol=1e-4, rtol=1e-4)


def test_a_table_that_grows_keeps_its_precision():
    rotary = Rotary(8).to(torch.bfloat16)
    assert rotary(torch.randn(1, 1, 1, 8, dtype=torch.bfloat16), 5_000).dtype is torch.bfloat16


def test_concatenation_starts_as_the_embedding_beside_which_positions_matter():
    join = Concatenate(4, 1)
    x = torch.randn(2, 3, 4)
    torch.testing.assert_close(join(x, torch.zeros(3, 1)), x)
    assert not torch.allclose(join(x, torch.ones(3, 1)), x)


# ---------------------------------------------------------------------- layers


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_dropout_drops_its_share_and_keeps_the_mean(rate):
    torch.manual_seed(0)
    x = torch.ones(1_000, 1_003, requires_grad=True)
    dropped = Dropout(rate).train()(x)
    share = (dropped == 0).float().mean().item()
    assert share == pytest.approx(rate, abs=4 * math.sqrt(rate * (1 - rate) / x.numel()) + 2**-17)
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.01)
    dropped.sum().backward()
    torch.testing.assert_close(x.grad, dropped.detach())


def test_dropout_is_a_function_of_the_seed_and_absent_in_evaluation():
    x = torch.randn(50, 7)
    masks = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        masks.append(Dropout(0.3)(x))
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])
    assert torch.equal(Dropout(0.3).eval()(x), x)


def test_batch_norm_sees_real_tokens_only_and_equals_torch_on_them():
    torch.manual_seed(0)
    x, keep = torch.randn(3, 4, 6), torch.tensor([[True] * 4, [True, True, False, False], [True, False, False, False]])
    ours, theirs = BatchNorm(6).train(), nn.BatchNorm1d(6).train()
    torch.testing.assert_close(ours(x, Mask(keep))[keep], theirs(x[keep]))
    x[~keep] = 1e6
    again = BatchNorm(6).train()
    torch.testing.assert_close(again(x, Mask(keep))[keep], nn.BatchNorm1d(6).train()(x[keep]))
    torch.testing.assert_close(again.mean, theirs.running_mean)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("residual", [True, False])
def test_post_and_pre_norm_are_the_formulas(norm, residual):
    torch.manual_seed(0)
    x, sublayer = torch.randn(2, 3, 6), feed_forward("relu", 6, 8)
    post, pre = (RESIDUALS[place, residual](NORMS[norm](6), Dropout(0.0)).eval() for place in ("post", "pre"))
    torch.testing.assert_close(post(x, sublayer), post.norm(residual * x + sublayer(x)))
    torch.testing.assert_close(pre(x, sublayer), residual * x + sublayer(pre.norm(x)))


def test_equation_2_feed_forward():
    net, x = feed_forward("relu", 6, 9), torch.randn(2, 3, 6)
    hidden = (x @ net.inner.weight.T + net.inner.bias).clamp(min=0)
    torch.testing.assert_close(net(x), hidden @ net.outer.weight.T + net.outer.bias)


def test_swiglu_is_gated_and_has_about_as_many_parameters():
    gated, plain = feed_forward("swiglu", 64, 256), feed_forward("relu", 64, 256)
    x = torch.randn(2, 3, 64)
    gate, value = gated.inner.weight.chunk(2)
    torch.testing.assert_close(gated(x), (F.silu(x @ gate.T) * (x @ value.T)) @ gated.outer.weight.T)
    counts = [sum(p.numel() for p in net.parameters()) for net in (gated, plain)]
    assert counts[0] == pytest.approx(counts[1], rel=0.02)


# ---------------------------------------------------------------------- loss


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("rows", [3, 512])
def test_the_fused_loss_and_its_gradients_equal_torch_cross_entropy(smoothing, biased, rows):
    torch.manual_seed(0)
    x, weight = torch.randn(10, 6), torch.randn(17, 6)
    bias, labels = torch.randn(17) if biased else None, torch.randint(0, 17, (10,))
    results = []
    for fused in (True, False):
        leaves = [t.clone().requires_grad_() for t in (x, weight, *([bias] if biased else []))]
        b = leaves[2] if biased else None
        if fused:
            loss = smoothed_cross_entropy(leaves[0], leaves[1], b, labels, smoothing=smoothing, rows=rows)
        else:
            logits = F.linear(leaves[0], leaves[1], b)
            loss = F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")
        (loss * 0.25).backward()
        results.append([loss.detach(), *(leaf.grad for leaf in leaves)])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_the_loss_without_gradients_is_the_same_number():
    torch.manual_seed(0)
    x, weight, labels = torch.randn(10, 6), torch.randn(17, 6), torch.randint(0, 17, (10,))
    with torch.no_grad():
        plain = smoothed_cross_entropy(x, weight, None, labels, smoothing=0.1)
    torch.testing.assert_close(smoothed_cross_entropy(x, weight, None, labels, smoothing=0.1), plain)


def test_the_loss_under_autocast_has_gradients_close_to_those_of_float32():
    x, labels = torch.randn(7, 8), torch.tensor([0, 4, 2, 1, 3, 3, 0])
    weight = torch.randn(5, 8, requires_grad=True)
    exact = torch.autograd.grad(smoothed_cross_entropy(x, weight, None, labels, smoothing=0.1), weight)[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = smoothed_cross_entropy(x, weight, None, labels, smoothing=0.1)
    torch.testing.assert_close(torch.autograd.grad(loss, weight)[0], exact, atol=0.05, rtol=0.05)


def test_the_loss_stays_finite_for_extreme_logits():
    x, weight = torch.tensor([[1e4]], requires_grad=True), torch.tensor([[1.0], [-1.0]])
    loss = smoothed_cross_entropy(x, weight, None, torch.tensor([0]), smoothing=0.0)
    loss.backward()
    assert loss.item() == 0.0
    assert x.grad.isfinite().all()
