"""Sentences of any length go through the kernels: long ones keep no attention weights and give the same numbers."""

import copy
import ctypes

import pytest
import torch

from jumok.kernels import library, ops
from jumok.kernels.ops import AttentionTask
from jumok.models.base import PAD
from jumok.nn.attention import EVERYTHING, CrossAttention, Mask, SelfAttention
from jumok.nn.variants import SCORES, Rotary
from tests.kernels.test_fused import attend
from tests.kernels.test_whole import BOTH, answer, chain, layered, model_of, tokens

compiled = pytest.mark.skipif(library.load() is None, reason="no C compiler on this machine")
LENGTHS = [255, 256, 257, 300, 513, 1_024]
CLOSE = {"atol": 2e-5, "rtol": 2e-4}


def against_double(module, *inputs, run):
    """Output and gradients with the kernels beside those of plain torch in double precision."""
    answers = []
    for one, dtype in ((module, torch.float32), (copy.deepcopy(module).double(), torch.float64)):
        own = [x.detach().to(dtype).requires_grad_() for x in inputs]
        one.zero_grad()
        out = run(one, *own)
        torch.manual_seed(3)
        (out * torch.randn(out.shape, dtype=torch.float32)).sum().backward()
        gradients = [x.grad for x in own] + [parameter.grad for parameter in one.parameters()]
        answers.append([out.detach(), *gradients])
    assert "Attention" in str(chain(run(module, *inputs).grad_fn))  # the kernel did the work
    return zip(*answers, strict=True)


def assert_near(ours, exact):
    """Equal up to float32's rounding of sums over a thousand keys, measured by the largest element."""
    scale = float(exact.abs().max()) or 1.0
    assert float((ours.double() - exact).abs().max()) < 2e-5 * scale


@compiled
@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", [(2, 8, 24), (3, 16, 8), (1, 64, 64)])
@pytest.mark.parametrize("length", LENGTHS)
def test_self_attention_of_any_length_is_attention(length, sizes, causal, rotary):
    torch.manual_seed(0)
    heads, d_k, d_v = sizes
    positions = Rotary(d_k) if rotary else None
    module = SelfAttention(16, heads, d_k, d_v, score=SCORES["scaled-dot"], bias=True, rotary=positions)
    real = torch.arange(length)[None] < torch.tensor([length, length - 3, length // 2, 1])[:, None]

    mask = Mask(causal=True) if causal else Mask.padding(real)

    def run(one, x):
        return attend(one, x, mask) if x.dtype == torch.float32 else one(x, mask)

    for ours, exact in against_double(module, torch.randn(4, length, 16), run=run):
        assert_near(ours, exact)


@compiled
@pytest.mark.parametrize(("queries", "keys"), [(300, 20), (20, 300), (257, 1_024), (1_024, 256), (513, 300)])
def test_attention_over_a_memory_of_another_length_is_attention(queries, keys):
    torch.manual_seed(0)
    module = CrossAttention(16, 2, 8, 16, score=SCORES["scaled-dot"], bias=True)
    real = torch.arange(keys)[None] < torch.tensor([keys, keys - 2, 1])[:, None]
    inputs, mask = (torch.randn(3, queries, 16), torch.randn(3, keys, 16)), Mask.padding(real)

    def run(one, x, memory):
        return attend(one, x, mask, memory) if x.dtype == torch.float32 else one(x, memory, mask)

    for ours, exact in against_double(module, *inputs, run=run):
        assert_near(ours, exact)


@compiled
def test_a_long_query_that_may_look_nowhere_gets_zeros_and_gives_no_gradient():
    lib = library.load()
    qkv = torch.randn(2, 300, 24, requires_grad=True)
    out = ops.Attention.apply(qkv, None, torch.tensor([0, 300]), None, (1, 8, 8), 1.0, False, lib)
    out.sum().backward()
    assert torch.equal(out[0], torch.zeros(300, 8))
    assert out[1].abs().min() > 0
    assert torch.equal(qkv.grad[0], torch.zeros(300, 24))
    assert qkv.grad[1].abs().sum() > 0


@compiled
def test_a_long_target_whose_source_is_padding_alone_has_the_numbers_of_the_layers():
    model = model_of(dropout=0.0, **BOTH)
    source, target = tokens(2, 5, 300)
    source[1] = PAD
    ours, theirs = (answer(one, source, target) for one in (model, layered(model)))
    torch.testing.assert_close(ours[0], theirs[0], **CLOSE)
    for name, gradient in theirs[1].items():
        torch.testing.assert_close(ours[1][name], gradient, atol=2e-3, rtol=2e-3, msg=name)


@compiled
def test_scores_far_apart_neither_overflow_nor_vanish_in_long_sentences():
    torch.manual_seed(0)
    module = SelfAttention(16, 2, 8, 8, score=SCORES["dot"], bias=False)

    def run(one, x):
        return attend(one, x, EVERYTHING) if x.dtype == torch.float32 else one(x, EVERYTHING)

    for ours, exact in against_double(module, 30 * torch.randn(1, 400, 16), run=run):
        assert torch.isfinite(ours).all()
        assert float((ours.double() - exact).abs().max()) < 1e-3 * float(exact.abs().max())


@compiled
@pytest.mark.parametrize("changes", [{}, BOTH], ids=str)
@pytest.mark.parametrize("length", LENGTHS)
def test_all_layers_with_a_sentence_of_any_length_have_the_numbers_of_plain_torch(length, changes):
    model = model_of(dropout=0.0, encoder_layers=1, decoder_layers=2, **changes)
    source, target = tokens(3, length, max(8, length - 40))
    source[0, length // 2 :], target[1, 5:], source[2, length - 1 :] = PAD, PAD, PAD
    ours, exact = answer(model, source, target), answer(layered(model).double(), source, target)
    real = target != PAD
    torch.testing.assert_close(ours[0][real].double(), exact[0][real], atol=2e-5, rtol=1e-4)
    assert ours[1].keys() == exact[1].keys()
    for name, gradient in exact[1].items():
        torch.testing.assert_close(ours[1][name].double(), gradient, atol=1e-3, rtol=2e-3, msg=name)


@compiled
@pytest.mark.parametrize("shape", [(2, 300, 270), (1, 20, 600), (1, 1_024, 3)], ids=str)
def test_with_dropout_long_sentences_have_the_numbers_of_the_layers_and_of_plain_attention(shape, monkeypatch):
    model = model_of(encoder_layers=1, decoder_layers=1, **BOTH)
    ours, theirs = (answer(one, *tokens(*shape)) for one in (model, layered(model)))
    monkeypatch.setattr(ops, "takes_attention", lambda *_: None)  # the same masks, attention by torch
    plain = answer(layered(model), *tokens(*shape))
    torch.testing.assert_close(ours[0], theirs[0], **CLOSE)
    torch.testing.assert_close(ours[0], plain[0], **CLOSE)
    for name, gradient in theirs[1].items():
        torch.testing.assert_close(ours[1][name], gradient, atol=2e-3, rtol=2e-3, msg=name)
        torch.testing.assert_close(gradient, plain[1][name], atol=2e-3, rtol=2e-3, msg=name)


@compiled
@pytest.mark.parametrize("length", [8, 33, 255, 256])
def test_up_to_256_tokens_nothing_depends_on_the_path_for_long_sentences(length, monkeypatch):
    model = model_of(**BOTH)
    usual = answer(model, *tokens(2, length, length))
    monkeypatch.setattr(ops, "LONGEST", 4_096)  # weights kept at any length, as before there was another path
    kept = answer(model, *tokens(2, length, length))
    assert torch.equal(usual[0], kept[0])
    assert all(torch.equal(usual[1][name], gradient) for name, gradient in kept[1].items())


@compiled
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (30, 256), (256, 250), (257, 9), (9, 257), (1_024, 1_024)])
def test_weights_are_kept_where_queries_and_keys_are_at_most_256_and_elsewhere_one_number_per_query(queries, keys):
    begins = [torch.arange(3) * count for count in (queries, keys)]
    how = AttentionTask(2, 5, 8, 8, *ops.at(*begins, None, None), 40, 80, 80, False, ops.LONGEST, 1.0)
    each = -(-keys // 8) * 8 if max(queries, keys) <= 256 else 1
    assert library.load().jk_attention_saved_size(ctypes.byref(how)) == 2 * 5 * queries * each


@compiled
@pytest.mark.parametrize("length", [1, 7, 40, 257, 300])
def test_weights_kept_and_weights_computed_again_give_the_same_numbers(length, monkeypatch):
    model = model_of(**BOTH)
    found = []
    for longest in (0, 4_096):
        monkeypatch.setattr(ops, "LONGEST", longest)
        found.append(answer(model, *tokens(2, length, length + 3)))
    torch.testing.assert_close(found[0][0], found[1][0], **CLOSE)
    for name, gradient in found[1][1].items():
        torch.testing.assert_close(found[0][1][name], gradient, atol=2e-3, rtol=2e-3, msg=name)


@compiled
def test_one_long_sentence_changes_no_bit_of_the_short_ones_beside_it():
    model = model_of(dropout=0.0)
    source, target = tokens(6, 400, 350)
    source[1:, 12:], target[1:, 9:] = PAD, PAD
    together, _ = answer(model, source, target)
    alone, _ = answer(model, source[1:, :12], target[1:, :9])
    assert torch.equal(together[1:, :9], alone)
    assert not together[1:, 9:].any()


@compiled
def test_what_a_pass_keeps_grows_with_the_length_of_a_long_sentence_and_not_with_its_square():
    model = model_of()
    parameters = ops.at(*model.whole().parameters)

    def kept(length):
        job = model.whole().describe(*tokens(1, length, length))
        job.task.weights = job.array(ctypes.c_void_p, parameters)
        return library.load().jk_pass_size(ctypes.byref(job.task))

    assert kept(1_024) == pytest.approx(2 * kept(512), rel=0.01)
    assert kept(4_096) == pytest.approx(8 * kept(512), rel=0.01)
