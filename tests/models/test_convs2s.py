"""ConvS2S: the paper's formulas word by word, windows against conv1d, what a state carries, and that it learns."""

import copy
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from jumok.config import presets
from jumok.data.batches import Batch, teacher_force
from jumok.decoding.search import greedy
from jumok.kernels.modules import accelerate
from jumok.models import build, convs2s
from jumok.models.base import END, PAD, START
from jumok.models.convs2s import ConvS2S, ConvS2SConfig, GatedConvolution, Normed, Windows
from jumok.training.objectives import next_token
from tests.support.helpers import OTHERS, SYMBOLS, ShapeChecker, made, small, two_sentences

ours = [name for name in OTHERS if name.startswith("convs2s")]
every = pytest.mark.parametrize("variant", ours)


def logits(model: ConvS2S, source: Tensor, target: Tensor) -> Tensor:
    with torch.no_grad():
        return model.project(model.hidden(source, target))


def shaken(variant: str, **changes: object) -> ConvS2S:
    """A small model none of whose biases is zero and none of whose rows is as long as it points."""
    model = made(variant, **changes)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


# ------------------------------------------------------------------------- the paper, one position after the other


def numbers(tensor: Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def affine(layer: Normed, x: np.ndarray) -> np.ndarray:
    """W x + b, every row of W a direction stretched to its length."""
    rows = [g * v / sqrt(v @ v) for v, g in zip(numbers(layer.weight), numbers(layer.length), strict=True)]
    return np.array([row @ x for row in rows]) + numbers(layer.bias)


def gated(layer: GatedConvolution, words: list[np.ndarray]) -> np.ndarray:
    """v([A B]) = A ⊗ σ(B), where [A B] = W [x₁ … x_k] + b."""
    both = affine(layer.gated, np.concatenate(words))
    a, b = np.split(both, 2)
    return a / (1.0 + np.exp(-b))


def embedded(side: convs2s.Embedding, tokens: list[int]) -> list[np.ndarray]:
    table, positions = numbers(side.weight), numbers(side.positions.weight)
    return [table[token] + positions[min(place, len(positions) - 1)] for place, token in enumerate(tokens)]


def encoded(model: ConvS2S, source: list[int]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The embeddings e and the outputs z of the encoder for a sentence without padding."""
    encoder, kernel = model.encoder, model.config.kernel
    e = embedded(encoder.embedding, source)
    x = [affine(encoder.first, one) for one in e]
    for layer in encoder.layers:
        nothing = [np.zeros(model.config.convolved)] * (kernel // 2)
        line = nothing + x + nothing
        x = [(gated(layer, line[i : i + kernel]) + x[i]) * sqrt(0.5) for i in range(len(x))]
    return e, [affine(encoder.last, one) for one in x]


def by_hand(model: ConvS2S, source: list[int], target: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Logits (T, V) and attention (L, T, S) by the formulas of sections 3.1 to 3.4, in loops."""
    e, z = encoded(model, source)
    decoder, kernel, m = model.decoder, model.config.kernel, len(source)
    g = embedded(decoder.embedding, target)
    x = [affine(decoder.first, one) for one in g]
    maps = []
    for layer in decoder.layers:
        line = [np.zeros(model.config.convolved)] * (kernel - 1) + x
        following, looks = [], []
        for i, before in enumerate(x):
            h = gated(layer.convolution, line[i : i + kernel])
            d = (affine(layer.query, h) + g[i]) * sqrt(0.5)
            scores = np.exp([d @ key for key in z])
            a = scores / scores.sum()
            c = sum(a[j] * (z[j] + e[j]) * sqrt(0.5) for j in range(m)) * m * sqrt(1 / m)
            h = (h + affine(layer.context, c)) * sqrt(0.5)
            following.append((h + before) * sqrt(0.5))
            looks.append(a)
        x = following
        maps.append(looks)
    matrix, bias = model.output()
    return np.array([numbers(matrix) @ affine(decoder.last, one) + numbers(bias) for one in x]), np.array(maps)


@every
@pytest.mark.parametrize("tied", ["all", "target", "none"])
def test_logits_and_attention_are_those_of_the_papers_formulas_position_by_position(variant, tied):
    model = shaken(variant, tied=tied, longest=8)
    source, target = [[9, 10, 11, 12, 9, 14, 15, 16, 17, END], [13, END]], [[START, 15, 16, 17], [START, *range(8, 19)]]
    grids = [
        torch.tensor([row + [PAD] * (max(map(len, side)) - len(row)) for row in side]) for side in (source, target)
    ]
    together, maps = logits(model, *grids), model.attention(*grids).cross
    for b, (read, said) in enumerate(zip(source, target, strict=True)):
        expected, looks = by_hand(model, read, said)
        assert np.abs(numbers(together[b, : len(said)]) - expected).max() < 1e-9
        assert np.abs(numbers(maps[b, :, 0, : len(said), : len(read)]) - looks).max() < 1e-9


def test_the_untied_output_is_normed_as_every_other_layer():
    model = shaken("convs2s-untied")
    matrix, _ = model.output()
    torch.testing.assert_close(matrix.norm(dim=1), model.last.length.abs())
    torch.testing.assert_close(F.cosine_similarity(matrix, model.last.weight).abs(), torch.ones(SYMBOLS).double())


# ----------------------------------------------------------------------------------------- windows and matrices


@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("length", [1, 2, 3, 9])
@pytest.mark.parametrize("causal", [False, True], ids=["centred", "causal"])
def test_a_convolution_is_conv1d_and_glu_forwards_and_backwards(kernel, length, causal):
    layer = GatedConvolution(ConvS2SConfig(d_model=6, kernel=kernel, dropout=0.0)).double()
    before = kernel - 1 if causal else kernel // 2
    x = torch.randn(3, length, 6, dtype=torch.float64, requires_grad=True)
    mine = layer(x, layer.gated.matrix(), before=before)
    weight = layer.gated.matrix().unflatten(1, (kernel, 6)).transpose(1, 2)
    line = F.pad(x.transpose(1, 2), (before, kernel - 1 - before))
    theirs = F.glu(F.conv1d(line, weight, layer.gated.bias), dim=1).transpose(1, 2)
    torch.testing.assert_close(mine, theirs)
    wanted = torch.randn_like(mine)
    inputs = [x, *layer.parameters()]
    for one, two in zip(
        torch.autograd.grad(mine, inputs, wanted), torch.autograd.grad(theirs, inputs, wanted), strict=True
    ):
        torch.testing.assert_close(one, two)


def test_the_gradient_of_a_window_is_that_of_small_differences():
    x = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: Windows.apply(x, 3, 2), (x,))


def test_a_matrix_and_its_gradients_are_those_of_torchs_own_weight_norm():
    layer = Normed(5, 7, variance=1.0)
    theirs = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(5, 7)).parametrizations.weight
    with torch.no_grad():
        layer.length.mul_(3.0)
        theirs.original0.copy_(layer.length[:, None])
        theirs.original1.copy_(layer.weight)
    mine, wanted = layer.matrix(), torch.randn(7, 5)
    torch.testing.assert_close(mine, theirs())
    length, direction = torch.autograd.grad(theirs(), [theirs.original0, theirs.original1], wanted)
    for one, two in zip(
        torch.autograd.grad(mine, [layer.length, layer.weight], wanted), (length[:, 0], direction), strict=True
    ):
        torch.testing.assert_close(one, two)


def test_a_fresh_matrix_is_as_it_was_drawn_and_neither_swells_nor_shrinks_what_dropout_leaves_of_its_input():
    torch.manual_seed(0)
    config = ConvS2SConfig(d_model=256, dropout=0.5)
    layer = GatedConvolution(config)
    torch.testing.assert_close(layer.gated.matrix(), layer.gated.weight)
    assert float(layer.gated.weight.detach().std()) == pytest.approx(sqrt(4 * 0.5 / (3 * 256)), rel=0.01)
    x = torch.randn(64, 20, 256) * 0.1
    inner = layer(x, layer.gated.matrix().detach(), before=2)[:, 2:].detach()
    assert float(inner.var() / x.var()) == pytest.approx(1.0, rel=0.1)


def test_matrices_are_normed_once_a_search_and_not_once_a_step(monkeypatch):
    model, calls = made("convs2s-untied"), []
    plain = convs2s.normed
    monkeypatch.setattr(convs2s, "normed", lambda *parts: calls.append(1) or plain(*parts))
    source, target = two_sentences()
    state = model.start(source)
    normed = sum(hasattr(module, "length") for module in model.modules())
    assert len(calls) == normed
    for token in target.unbind(dim=1):
        _, state = model.step(token, state)
    assert len(calls) == normed


@every
def test_a_source_word_is_felt_as_far_as_the_windows_reach_and_no_farther(variant):
    model = made(variant)
    source = torch.arange(8, 23)[None].repeat(2, 1)
    source[1, 7] = 9
    with torch.no_grad():
        keys = model.encoder(source).keys
    felt = ((keys[0] - keys[1]).abs() > 1e-12).any(dim=-1).nonzero().flatten().tolist()
    reach = model.config.encoder_layers * (model.config.kernel // 2)
    assert felt == list(range(7 - reach, 7 + reach + 1))


# ------------------------------------------------------------------------------------------------ stepping


@every
def test_a_selected_row_goes_on_as_the_row_it_was_taken_from_whatever_is_beside_it(variant):
    model = made(variant)
    source, target = two_sentences()
    state = model.start(source)
    rows, said = torch.arange(2), target[:, :0]
    moves = [[0, 0, 0, 1, 1, 1], [2, 1, 1, 5, 3, 4], [0, 2, 4], [2, 0, 1], [1, 2], [1, 0, 0, 0]]
    for t, move in enumerate(moves):
        picked = torch.tensor(move)
        state, rows, said = state.select(picked), rows[picked], said[picked]
        token = torch.arange(len(move)) + 8 + t
        said = torch.cat([said, token[:, None]], dim=1)
        with torch.no_grad():
            one, state = model.step(token, state)
        torch.testing.assert_close(one, logits(model, source[rows], said)[:, -1])


def test_the_memory_is_copied_only_when_a_sentence_leaves_or_loses_rows():
    state = made("convs2s").start(two_sentences()[0])
    wide = state.select(torch.tensor([0, 0, 0, 1, 1, 1]))
    assert wide.memory is state.memory
    assert wide.select(torch.tensor([2, 0, 0, 5, 4, 3])).memory is state.memory
    assert len(wide.select(torch.tensor([3, 4, 5])).memory.keys) == 1
    assert len(wide.select(torch.tensor([0, 3, 4])).memory.keys) == 3


@every
def test_in_float32_the_kernels_and_plain_torch_agree(variant):
    model, pair = made(variant).float(), two_sentences()
    torch.testing.assert_close(logits(accelerate(model), *pair), logits(model, *pair), rtol=1e-4, atol=1e-5)


@every
def test_only_the_decoder_looks_and_only_at_real_words(variant):
    model = made(variant)
    source, target = two_sentences()
    maps = model.attention(source, target)
    assert maps.encoder.shape == (2, 0, 1, 5, 5)
    assert maps.decoder.shape == (2, 0, 1, 4, 4)
    assert maps.cross.shape == (2, model.config.decoder_layers, 1, 4, 5)
    torch.testing.assert_close(maps.cross.sum(dim=-1), torch.ones_like(maps.cross[..., 0]))
    assert (maps.cross[1, ..., 3:] == 0).all()


# ------------------------------------------------------------------------------------------ sizes and comments


@every
@pytest.mark.parametrize("tied", ["all", "target", "none"])
def test_the_section_counts_no_fewer_weights_than_the_model_has_and_not_many_more(variant, tied):
    config = small(variant, tied=tied)
    weights = sum(weight.numel() for weight in build(config, 40, 40, device="meta").parameters())
    assert weights <= config.parameters(40, 40) <= weights + 40


def test_the_default_model_has_about_two_million_weights_and_says_so():
    config = ConvS2SConfig()
    model = build(config, 8_000, 8_000, device="meta")
    assert sum(weight.numel() for weight in model.parameters()) == pytest.approx(2.2e6, rel=0.1)
    assert config.shape == "4 + 4 layers, d_model 128, d_conv 128, kernel 3"


def test_a_window_without_a_middle_is_refused_with_a_cure():
    with pytest.raises(ValueError, match=r"kernel=4 .* such as 5"):
        ConvS2SConfig(kernel=4)


def test_a_recipe_that_names_it_brings_its_section_and_what_it_is_trained_with():
    recipe = presets.tiny().change({"model.kind": "convs2s", "model.kernel": 5})
    assert isinstance(recipe.model, ConvS2SConfig)
    assert recipe.model.kernel == 5
    assert recipe.training.peak == ConvS2SConfig.usual["training.peak"]


def test_shape_comments_are_true():
    checker = ShapeChecker(Path(convs2s.__file__))
    model = copy.deepcopy(made("convs2s-narrow"))
    source, target = torch.tensor([[9, 10, 11, 12, END], [13, 14, END, PAD, PAD]]), torch.full((2, 7), 9)
    sizes = {"B": 2, "S": 5, "T": 7, "D": 16, "C": 10, "K": 3, "N": 6}
    checker.run(lambda: model.hidden(source, target), r"Convolutional(Encoder|Layer|Decoder)\.", **sizes)
    state = model.start(source).select(torch.tensor([0, 0, 0, 1, 1, 1]))
    step = lambda: model.step(torch.full((6,), 9), state)  # noqa: E731
    checker.run(step, r"(ConvS2S|ConvolutionalLayer|GatedConvolution)\.step", **sizes)
    x = torch.randn(2, 7, 10, requires_grad=True)
    shape = Windows.apply(x, 3, 1).shape
    checker.run(lambda: Windows.forward(Held(), x.detach(), 3, 1), r"Windows\.", **sizes)
    checker.run(lambda: Windows.backward(Held(rest=(3, 1)), torch.randn(shape)), r"Windows\.", **sizes)
    assert len(checker.wanted) > 15
    assert checker.complaints() == []


class Held:
    """What autograd hands from the way there to the way back."""

    saved_tensors: tuple[Tensor, ...] = ()

    def __init__(self, **rest: object) -> None:
        self.__dict__.update(rest)


# ---------------------------------------------------------------------------------------------------- learning


def strings(count: int, generator: torch.Generator) -> list[list[int]]:
    lengths = torch.randint(3, 9, (count,), generator=generator).tolist()
    return [torch.randint(8, SYMBOLS, (length,), generator=generator).tolist() for length in lengths]


def test_it_learns_to_turn_strings_round():
    torch.manual_seed(0)
    model = build(ConvS2SConfig(encoder_layers=2, decoder_layers=2, d_model=48, dropout=0.0), SYMBOLS, SYMBOLS)
    objective, optimizer = next_token(model, smoothing=0.0), torch.optim.Adam(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(1)
    for _ in range(250):
        read = strings(64, generator)
        source, target, labels = teacher_force(read, [ids[::-1] for ids in read])
        loss, tokens = objective(Batch(source, target, labels, torch.arange(64), int((labels != PAD).sum())))
        optimizer.zero_grad()
        (loss / tokens).backward()
        optimizer.step()
    unseen = strings(100, generator)
    with torch.inference_mode():
        state = model.eval().start(teacher_force(unseen, unseen)[0])
    found = greedy(model.step, state, [12] * 100)
    right = [hypothesis.ids == (*ids[::-1], END) for ids, hypothesis in zip(unseen, found, strict=True)]
    assert sum(right) >= 90
