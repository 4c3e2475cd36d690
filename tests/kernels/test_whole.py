"""A pass in one call is the layers one after the other: the same bits without padding, the same numbers with it."""

import copy
import sys
from pathlib import Path

import pytest
import torch

from jumok.kernels import library
from jumok.kernels.modules import FastTransformer, accelerate
from jumok.kernels.training import Memory
from jumok.models.base import PAD
from jumok.models.transformer import Transformer
from jumok.nn.dropout import Dropouts
from jumok.training.objectives import next_token
from jumok.training.update import Gradients
from tests.kernels.test_fused import batch_of
from tests.support.helpers import SYMBOLS, made

compiled = pytest.mark.skipif(library.load() is None, reason="no C compiler on this machine")
FITTING = ["paper", "pre-norm", "rotary", "nowhere", "plain-dot", "deep-encoder", "no-bias", "untied", "target-tied"]
LAYERED = [
    "rms",
    "batch",
    "no-norm",
    "learned",
    "appended",
    "concatenated",
    "additive",
    "gelu",
    "swiglu",
    "narrow-keys",
]
BOTH = {"norm_place": "pre", "positions": "rotary"}


def model_of(variant="paper", **changes):
    return accelerate(made(variant, **({"dropout": 0.3, "d_ff": 40} | changes)).float(), own=True).train()


def layered(model):
    """The same model, layer by layer."""
    twin = copy.deepcopy(model)
    twin.__dict__.pop("_whole", None)
    twin.__class__ = Transformer
    return twin


def tokens(rows, source, target):
    torch.manual_seed(1)
    return torch.randint(5, SYMBOLS, (rows, source)), torch.randint(5, SYMBOLS, (rows, target))


def answer(model, source, target, *, key=7):
    """Hidden states and all gradients."""
    Dropouts(model).start(key)
    model.zero_grad()
    states = model.hidden(source, target)
    torch.manual_seed(5)
    weight = torch.randn(states.shape, dtype=torch.float32) * (target != PAD)[..., None]
    (states * weight).sum().backward()
    return states.detach(), {name: one.grad for name, one in model.named_parameters() if one.grad is not None}


@compiled
@pytest.mark.parametrize("changes", [{}, BOTH, {"dropout": 0.0}, {"d_k": 16, "d_v": 8}], ids=str)
@pytest.mark.parametrize("variant", FITTING)
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 7, 9), (5, 24, 17)], ids=str)
def test_without_padding_a_pass_in_one_call_has_the_numbers_of_the_layers(variant, changes, shape):
    model = model_of(variant, **changes)
    assert model.whole() is not None
    ours, theirs = (answer(one, *tokens(*shape)) for one in (model, layered(model)))
    torch.testing.assert_close(ours[0], theirs[0], atol=1e-5, rtol=1e-4)  # torch's norm rounds differently
    assert ours[1].keys() == theirs[1].keys()
    torch.testing.assert_close(ours[1], theirs[1], atol=1e-4, rtol=1e-3)


@compiled
@pytest.mark.parametrize("changes", [{}, BOTH], ids=str)
@pytest.mark.parametrize("threads", [1, 2])
def test_with_padding_a_pass_in_one_call_has_the_numbers_of_plain_torch(changes, threads):
    model = model_of(dropout=0.0, **changes)
    source, target = tokens(4, 11, 9)
    source[0, 4:], source[1, 10:], target[2, 1:], target[3, 5:] = PAD, PAD, PAD, PAD
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        ours = answer(model, source, target)
    finally:
        torch.set_num_threads(before)
    exact = answer(layered(model).double(), source, target)
    real = target != PAD
    torch.testing.assert_close(ours[0][real].double(), exact[0][real], atol=1e-5, rtol=1e-4)
    assert not ours[0][~real].any()
    for name, gradient in exact[1].items():
        torch.testing.assert_close(ours[1][name].double(), gradient, atol=2e-4, rtol=1e-3, msg=name)


@compiled
def test_a_source_of_padding_alone_is_looked_at_by_nobody():
    model = model_of(dropout=0.0)
    source, target = tokens(2, 5, 4)
    source[1] = PAD
    ours, theirs = (answer(one, source, target) for one in (model, layered(model)))
    torch.testing.assert_close(ours[0], theirs[0], atol=1e-5, rtol=1e-4)
    assert all(torch.isfinite(gradient).all() for gradient in ours[1].values())


@compiled
@pytest.mark.parametrize("variant", LAYERED)
def test_what_no_kernel_knows_goes_layer_by_layer(variant):
    model = model_of(variant)
    assert not isinstance(model, FastTransformer) or model.whole() is None
    (states, gradients), plain = answer(model, *tokens(2, 5, 4)), answer(layered(model), *tokens(2, 5, 4))
    assert torch.equal(states, plain[0])
    assert all(torch.equal(gradients[name], one) for name, one in plain[1].items())


@compiled
def test_an_id_without_a_row_is_an_error():
    source, target = tokens(2, 5, 4)
    source[1, 2] = SYMBOLS
    with pytest.raises(IndexError):
        model_of().hidden(source, target)


@compiled
def test_the_kernels_do_the_work_and_gradients_go_where_they_belong():
    model, batch = model_of(dropout=0.0), batch_of(1)[0]
    twin = accelerate(model, own=True).train()
    assert twin.whole().parameters[0] is twin.source.weight  # a twin knows its own weights
    assert twin.source.weight.data_ptr() == model.source.weight.data_ptr()
    expected, found = [], []
    for one, into in ((model, expected), (twin, found)):
        gradients = Gradients(list(one.parameters()))
        gradients.begin()
        loss, _ = next_token(one, smoothing=0.1)(batch)
        assert "Pass" in str(chain(loss.grad_fn))
        loss.backward()
        assert all(parameter.grad is None for parameter in one.parameters())
        into += [gradient.clone() for gradient in gradients.end()]
    assert all(map(torch.equal, expected, found))
    assert all(gradient.abs().sum() > 0 for gradient in found)


def chain(node):
    """The names of all steps of the way back."""
    return [node.name(), *(name for before, _ in node.next_functions if before is not None for name in chain(before))]


@compiled
def test_weights_that_do_not_lie_in_rows_go_layer_by_layer():
    model = model_of(dropout=0.0)
    inner = model.encoder[0].feed_forward.inner
    expected = answer(model, *tokens(2, 5, 4))
    inner.weight.data = inner.weight.data.t().contiguous().t()
    assert not inner.weight.is_contiguous()
    torch.testing.assert_close(answer(model, *tokens(2, 5, 4))[0], expected[0], atol=1e-5, rtol=1e-4)


def resident():
    lines = Path("/proc/self/status").read_text().split("\n")
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_memory_of_passes_is_resident_at_once_and_goes_back_when_a_larger_piece_replaces_it():
    memory, before, size = Memory(), resident(), 20_000_000  # numbers: 80 MB
    memory.give(memory.take(size))
    assert resident() - before > 80_000_000
    memory.give(memory.take(2 * size))
    assert 160_000_000 < resident() - before < 200_000_000  # one piece, not two
    assert memory.take(size).numel() >= 2 * size  # reused
    del memory
    assert resident() - before < 10_000_000


def test_packed_weights_are_freed_when_asked_and_packed_again_when_needed():
    model = model_of("pre-norm").eval()
    first = model.packed()
    assert model.packed() is first
    model.release()
    assert "_packed" not in model.__dict__
    assert model.packed() is not first
