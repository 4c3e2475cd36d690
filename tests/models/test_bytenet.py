"""ByteNet against its formulas in plain loops, against torch's convolution, and against itself on long sentences."""

import copy
import math
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.nn import functional as F

import jumok as package
from jumok.config import presets
from jumok.data.batches import Batch
from jumok.decoding.search import greedy
from jumok.kernels.modules import accelerate
from jumok.models import build
from jumok.models.base import END, PAD, START
from jumok.models.bytenet import ByteNetConfig, DilatedBlock, DilatedConvolution, Shifted, around, back
from jumok.nn.dropout import Dropouts
from jumok.training.objectives import next_token
from tests.support.helpers import SYMBOLS, ShapeChecker, made, small, two_sentences

VARIANTS = ["bytenet", "bytenet-wide", "bytenet-stretched", "bytenet-untied"]
every = pytest.mark.parametrize("variant", VARIANTS)


def tokens(rows: int, length: int, *, seed: int = 0) -> Tensor:
    """Real tokens without END."""
    return torch.randint(8, SYMBOLS, (rows, length), generator=torch.Generator().manual_seed(seed))


def sources(*lengths: int) -> Tensor:
    """Sources so long, END included, padded to the longest."""
    grid = tokens(len(lengths), max(lengths), seed=1)
    for row, length in zip(grid, lengths, strict=True):
        row[length - 1], row[length:] = END, PAD
    return grid


# ----------------------------------------------------------------------- the formulas, one position at a time

Vector = list[float]


def normal(x: Vector, weights: dict[str, Tensor], name: str) -> Vector:
    mean = math.fsum(x) / len(x)
    variance = math.fsum((one - mean) ** 2 for one in x) / len(x)
    gain, shift = weights[f"{name}.weight"].tolist(), weights[f"{name}.bias"].tolist()
    return [(one - mean) / math.sqrt(variance + 1e-5) * g + s for one, g, s in zip(x, gain, shift, strict=True)]


def affine(x: Vector, weights: dict[str, Tensor], name: str) -> Vector:
    rows, bias = weights[f"{name}.weight"].tolist(), weights[f"{name}.bias"].tolist()
    return [math.fsum(w * one for w, one in zip(row, x, strict=True)) + b for row, b in zip(rows, bias, strict=True)]


def relu(x: Vector) -> Vector:
    return [max(0.0, one) for one in x]


def block_by_hand(xs: list[Vector], weights: dict[str, Tensor], name: str, shifts: list[int]) -> list[Vector]:
    """Figure 3, left, over the positions of one sentence; before it and behind it there are zeros."""
    seen = [
        relu(normal(affine(relu(normal(x, weights, f"{name}.narrow_norm")), weights, f"{name}.narrow"), weights,
                    f"{name}.mix_norm"))
        for x in xs
    ]  # fmt: skip
    out = []
    for t, x in enumerate(xs):
        around_t: Vector = []
        for shift in shifts:
            around_t += seen[t - shift] if 0 <= t - shift < len(xs) else [0.0] * len(seen[0])
        mixed = relu(normal(affine(around_t, weights, f"{name}.mix"), weights, f"{name}.widen_norm"))
        out.append([a + b for a, b in zip(x, affine(mixed, weights, f"{name}.widen"), strict=True)])
    return out


def hidden_by_hand(model: Any, source: list[int], target: list[int]) -> list[Vector]:
    """Hidden states of one pair of sentences, without padding."""
    config, weights = model.config, model.state_dict()
    width, half = config.d_model, config.kernel // 2
    dilations = [2**power for power in range(20) if 2**power <= config.largest_dilation]
    columns = math.ceil(Fraction(str(config.stretch)) * len(source)) + config.extra
    ids = source + [PAD] * (columns - len(source))
    xs = [(model.source[one] * math.sqrt(width)).tolist() for one in ids]
    for number, dilation in enumerate(dilations * config.encoder_sets):
        shifts = sorted((i * dilation for i in range(-half, half + 1)), key=lambda shift: (abs(shift), -shift))
        xs = block_by_hand(xs, weights, f"encoder.{number}", shifts)
    xs = [affine(normal(x, weights, "column_norm"), weights, "column") for x in xs]
    xs += [[0.0] * width] * len(target)
    ys = [(model.target[one] * math.sqrt(width)).tolist() for one in target]
    ys = [[a + b for a, b in zip(y, x, strict=True)] for y, x in zip(ys, xs, strict=False)]
    for number, dilation in enumerate(dilations * config.decoder_sets):
        ys = block_by_hand(ys, weights, f"decoder.{number}", [i * dilation for i in range(config.kernel)])
    return [normal(y, weights, "decoder_norm") for y in ys]


@every
@pytest.mark.parametrize("length", [3, 12])
def test_hidden_states_are_those_of_the_formulas_in_plain_loops(variant, length):
    model = made(variant, d_model=8)
    shaken = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in model.parameters():  # so that gains, shifts and biases are not all 1 and 0
            parameter += 0.3 * torch.randn(parameter.shape, generator=shaken, dtype=parameter.dtype)
    source, target = sources(7, 4), torch.cat([torch.full((2, 1), START), tokens(2, length - 1)], dim=1)
    found = model.hidden(source, target)
    for row, real in enumerate([7, 4]):
        expected = hidden_by_hand(model, source[row, :real].tolist(), target[row].tolist())
        torch.testing.assert_close(found[row], torch.tensor(expected, dtype=found.dtype), rtol=0.0, atol=1e-9)


# ------------------------------------------------------------------------------------------------ convolution


@pytest.mark.parametrize(("kernel", "dilation", "length"), [*product([3, 5], [1, 2, 8], [1, 2, 5, 40])])
def test_a_convolution_is_that_of_torch_and_so_are_its_gradients(kernel, dilation, length):
    torch.manual_seed(0)
    reach = (kernel - 1) * dilation
    for shifts, padding in ((back(kernel, dilation), (reach, 0)), (around(kernel, dilation), (reach // 2, reach // 2))):
        convolution = DilatedConvolution(6, shifts).double()
        x = torch.randn(2, length, 6, dtype=torch.float64, requires_grad=True)
        out = convolution(x)
        order = [sorted(shifts, reverse=True).index(shift) for shift in shifts]  # torch begins with the oldest
        weight = convolution.weight.unflatten(1, (kernel, 6)).permute(0, 2, 1)
        theirs = torch.empty_like(weight)
        theirs[:, :, order] = weight
        expected = F.conv1d(F.pad(x.mT, padding), theirs, convolution.bias, dilation=dilation).mT
        torch.testing.assert_close(out, expected)
        towards = torch.randn_like(out)
        wanted = torch.autograd.grad(expected, [x, convolution.weight], towards)
        given = torch.autograd.grad(out, [x, convolution.weight], towards)
        torch.testing.assert_close(given, wanted)


def test_the_kernels_give_the_gradients_of_plain_torch():
    torch.manual_seed(0)
    model = build(small("bytenet-stretched"), SYMBOLS, SYMBOLS)
    source, target = two_sentences()

    def gradients(model: torch.nn.Module) -> list[Tensor]:
        model.hidden(source, target).sin().sum().backward()
        return [parameter.grad.clone() for parameter in model.parameters()]

    plain, fast = gradients(model.eval()), gradients(accelerate(model, own=True))
    torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-4)


# ------------------------------------------------------------------------------------------- who sees whom


def reached(blocks: torch.nn.Module, length: int, t: int) -> list[int]:
    """The positions whose input position t of the output of some blocks depends on."""
    x = torch.randn(1, length, 16, dtype=torch.float64, requires_grad=True)
    y = x
    for block in blocks:
        y = block(y)
    (gradient,) = torch.autograd.grad(y[0, t].square().sum(), x)
    return gradient[0].abs().sum(dim=1).nonzero().flatten().tolist()


@every
def test_a_position_sees_exactly_as_far_as_the_dilations_say(variant):
    model = made(variant)
    config = model.config
    once = (config.kernel - 1) * (2 * config.largest_dilation - 1)  # 1 + 2 + 4 + … times two steps of a kernel of 3
    behind, beside = config.decoder_sets * once, config.encoder_sets * once // 2
    t = behind + 3
    assert reached(model.decoder, t + 4, t) == list(range(3, t + 1))
    t = beside + 3
    assert reached(model.encoder, 2 * t + 1, t) == list(range(3, 2 * t - 2))


def test_a_translation_sees_the_source_through_the_columns_up_to_its_own():
    sizes = {"d_model": 16, "encoder_sets": 1, "decoder_sets": 1, "largest_dilation": 4, "tied": "none"}
    torch.manual_seed(0)
    model = build(ByteNetConfig.model_validate(sizes), 60, 60).double().eval()
    sentence, t = torch.arange(1, 60)[None], 30  # every token but PAD once: the rows of the table are the positions
    model.hidden(sentence, sentence)[0, t].square().sum().backward()
    source, target = (table.grad.abs().sum(dim=1).nonzero().flatten() - 1 for table in (model.source, model.target))
    assert source.tolist() == list(range(t - 14 - 7, t + 7 + 1))  # 14 columns back, and 7 to either side of a column
    assert target.tolist() == list(range(t - 14, t + 1))


# -------------------------------------------------------------------------------------------------- unfolding


@pytest.mark.parametrize(("stretch", "extra"), [(1.0, 0), (1.1, 0), (1.2, 0), (1.5, 2), (1.001, 7), (9.999, 1)])
def test_a_source_is_unfolded_to_a_times_its_length_plus_b_rounded_up(stretch, extra):
    config = ByteNetConfig(stretch=stretch, extra=extra)
    lengths = list(range(1, 400))
    expected = [math.ceil(Fraction(str(stretch)) * n) + extra for n in lengths]
    assert [config.unfolded(n) for n in lengths] == expected
    assert config.unfolded(torch.tensor(lengths)).tolist() == expected


def test_behind_the_unfolded_source_there_are_zeros_and_before_its_end_there_are_none():
    model = made("bytenet-stretched")  # 1.5 n + 2
    columns = model.encode(sources(7, 4, 1))
    assert columns.shape[1] == 13
    assert [int(row.abs().sum(dim=1).gt(0).sum()) for row in columns] == [13, 8, 4]
    assert all(bool((row[n:] == 0).all()) for row, n in zip(columns, [13, 8, 4], strict=True))


@every
def test_a_source_is_encoded_alike_alone_and_beside_a_longer_one(variant):
    model = made(variant)
    source = sources(40, 23, 2)
    columns = model.encode(source)
    for row, length in enumerate([40, 23, 2]):
        alone = model.encode(source[row : row + 1, :length])
        torch.testing.assert_close(columns[row : row + 1, : alone.shape[1]], alone)


# --------------------------------------------------------------------------------------------------- stepping


@every
def test_stepping_through_a_hundred_tokens_gives_the_same_as_reading_them_at_once(variant):
    model = made(variant)
    source, target = sources(50, 9), tokens(2, 100)
    together = model.project(model.hidden(source, target))
    reach = (model.config.kernel - 1) * model.config.largest_dilation  # of the widest convolution
    state = model.start(source)
    for t, token in enumerate(target.unbind(dim=1)):
        logits, state = model.step(token, state)
        torch.testing.assert_close(logits, together[:, t])
        assert len(state.moments) == len(state.rows) == min(t + 1, reach)


def test_rows_that_multiply_change_places_and_leave_continue_what_they_read():
    model = made("bytenet-wide")
    source, random = sources(9, 5, 7), torch.Generator().manual_seed(3)
    state, read, sentence = model.start(source), torch.empty(3, 0, dtype=torch.long), torch.arange(3)
    for t in range(40):
        count = int(torch.randint(1, 5, (1,), generator=random))
        rows = torch.randint(len(sentence), (count * 2,), generator=random)
        rows = rows[sentence[rows].argsort(stable=True)]  # rows of one sentence are neighbours
        state, read, sentence = state.select(rows), read[rows], sentence[rows]
        token = torch.randint(8, SYMBOLS, (len(rows),), generator=random)
        read = torch.cat([read, token[:, None]], dim=1)
        logits, state = model.step(token, state)
        torch.testing.assert_close(logits, model.project(model.hidden(source[sentence], read))[:, t])


def test_a_step_leaves_the_state_that_it_came_from_as_it_was():
    model = made("bytenet")
    source, target = two_sentences()
    state = model.start(source)
    for token in target.unbind(dim=1):
        first, after = model.step(token, state)
        model.step(token + 1, state)
        again, _ = model.step(token, state)
        assert torch.equal(first, again)
        state = after


def test_it_has_no_attention():
    maps = made("bytenet").attention(*two_sentences())
    assert maps.encoder.shape == (2, 0, 1, 5, 5)
    assert maps.decoder.shape == (2, 0, 1, 4, 4)
    assert maps.cross.shape == (2, 0, 1, 4, 5)


# ----------------------------------------------------------------------------------------- sections and house


@every
@pytest.mark.parametrize("tied", ["all", "target", "none"])
def test_the_section_knows_how_many_weights_there_are(variant, tied):
    config = small(variant, tied=tied)
    model = build(config, 300, 300, device="meta")
    assert config.parameters(300, 300) == sum(parameter.numel() for parameter in model.parameters())


def test_by_default_it_has_about_two_million_weights_over_8_000_symbols():
    assert 1.5e6 < ByteNetConfig().parameters(8_000, 8_000) < 2.6e6
    assert presets.tiny().change({"model.kind": "bytenet"}).model == ByteNetConfig()


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"d_model": 15}, "choose 16"),
        ({"kernel": 4}, "choose 3 or 5"),
        ({"largest_dilation": 12}, "choose 8 or 16"),
        ({"stretch": 0.9}, "greater than or equal to 1"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_with_a_cure(sizes, words):
    with pytest.raises(ValidationError, match=words):
        ByteNetConfig.model_validate(sizes)


def test_masks_of_dropout_follow_from_the_key_alone_and_a_copy_is_a_model_of_its_own():
    model = made("bytenet", dropout=0.4).train()
    twin = copy.deepcopy(model)
    source, target = two_sentences()
    found = []
    for one in (model, twin):
        dropouts = Dropouts(one)
        for key in (7, 7, 8):
            dropouts.start(key)
            found.append(one.hidden(source, target))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    assert all(torch.equal(one, other) for one, other in zip(found[:3], found[3:], strict=True))
    with torch.no_grad():
        twin.source.zero_()
    assert float(model.source.detach().abs().sum()) > 0


def test_shape_comments_are_true():
    checker = ShapeChecker(Path(package.__file__).parent / "models" / "bytenet.py")
    model = made("bytenet-stretched")
    source, target = sources(5, 3), tokens(2, 7)
    size = {"B": 2, "S": 5, "U": 10, "D": 16, "E": 8}
    checker.run(lambda: model.hidden(source, target), r"ByteNet\.", T=7, **size)
    x = torch.randn(2, 7, 16, dtype=torch.float64)
    checker.run(lambda: model.decoder[0](x, torch.ones(2, 7, 1)), r"DilatedBlock\.", T=7, **size)
    state = model.start(source).select(torch.tensor([0, 0, 1]))
    checker.run(lambda: model.step(torch.full((3,), 9), state), r"(ByteNet|DilatedBlock)\.", N=3, **size)
    inner = torch.randn(2, 7, 8, requires_grad=True)
    checker.run(lambda: Shifted.apply(inner, [0, 1, 2]).sum(), r"Shifted\.", B=2, T=7, K=3, E=8)
    gradient = torch.randn(2, 7, 24)
    context = type("Context", (), {"shifts": [0, 1, 2]})()
    checker.run(lambda: Shifted.backward(context, gradient), r".*", B=2, T=7, K=3, E=8)
    assert len(checker.wanted) > 10
    assert checker.complaints() == []


# --------------------------------------------------------------------------------------------------- learning


def strings(count: int, random: torch.Generator) -> list[list[int]]:
    """Random strings of 2 to 5 of eight symbols."""
    lengths = torch.randint(2, 6, (count,), generator=random).tolist()
    return [torch.randint(8, 16, (length,), generator=random).tolist() for length in lengths]


def grid(rows: list[list[int]]) -> Tensor:
    return torch.tensor([row + [PAD] * (max(map(len, rows)) - len(row)) for row in rows])


def test_it_learns_to_reverse_strings():
    torch.manual_seed(0)
    random = torch.Generator().manual_seed(0)
    config = ByteNetConfig(d_model=128, encoder_sets=1, decoder_sets=1, largest_dilation=4, dropout=0.0)
    model = build(config, SYMBOLS, SYMBOLS).train()
    steps = 240
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, steps)
    objective = next_token(model, smoothing=0.0)
    for _ in range(steps):
        rows = strings(96, random)
        labels = [[*reversed(row), END] for row in rows]
        source, target = grid([[*row, END] for row in rows]), grid([[START, *label[:-1]] for label in labels])
        total, count = objective(Batch(source, target, grid(labels), torch.arange(96), sum(map(len, labels))))
        optimizer.zero_grad()
        (total / count).backward()
        optimizer.step()
        schedule.step()
    unseen = strings(100, random)
    model.eval()
    with torch.inference_mode():
        state = model.start(grid([[*row, END] for row in unseen]))
    found = greedy(model.step, state, [8] * 100)
    right = sum(one.ids == (*reversed(row), END) for one, row in zip(found, unseen, strict=True))
    assert right >= 90


def test_a_block_is_made_of_matrices_that_muon_takes():
    block = DilatedBlock(ByteNetConfig(d_model=8), [0, 1, 2])
    assert [tuple(layer.weight.shape) for layer in (block.narrow, block.mix, block.widen)] == [(4, 8), (4, 12), (8, 4)]
    assert {name for name, one in block.named_parameters() if one.dim() > 1} == {
        "narrow.weight",
        "mix.weight",
        "widen.weight",
    }
