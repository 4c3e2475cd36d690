"""Recurrent models: every cell is torch's, every attention is its paper's, nothing leaks past the bottleneck."""

import copy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from jumok.config import presets
from jumok.config.search import SearchOptions
from jumok.data.batches import Batch, pad
from jumok.engines.torch_engine import TorchEngine
from jumok.kernels.modules import accelerate
from jumok.models import build, rnn
from jumok.models.base import END, PAD, START
from jumok.nn.attention import Mask
from jumok.nn.cache import Memory
from jumok.nn.dropout import Dropout, Dropouts
from jumok.training.objectives import next_token
from tests.support.helpers import OTHERS, SYMBOLS, ShapeChecker, made, small, two_sentences

VARIANTS = [name for name in OTHERS if name.startswith("rnn-")]
every = pytest.mark.parametrize("variant", VARIANTS)
cells = pytest.mark.parametrize("cell", ["gru", "lstm"])


def logits(model: rnn.RNN, source: Tensor, target: Tensor) -> Tensor:
    return model.project(model.hidden(source, target))


# ------------------------------------------------------------------------------------------------------ cells


@cells
def test_a_cell_moved_by_hand_is_torchs_own(cell):
    layer = rnn.CELLS[cell](6, 4, batch_first=True).double()
    x, state = torch.randn(3, 5, 6).double(), torch.randn(layer.parts, 3, 4).double()
    together, last = layer.whole(x, state)
    now = state.unbind()
    for t in range(5):
        inputs = x[:, t] @ layer.weight_ih_l0.T + layer.bias_ih_l0
        now = layer.move(inputs, now[0] @ layer.weight_hh_l0.T + layer.bias_hh_l0, now)
        torch.testing.assert_close(now[0], together[:, t])
    torch.testing.assert_close(torch.stack(now), last)


def test_an_lstm_forgets_nothing_before_it_has_learnt_to():
    torch.manual_seed(0)
    layer = rnn.LSTM(6, 4)
    assert torch.equal(layer.bias_ih_l0[4:8], torch.ones(4))
    torch.manual_seed(0)
    plain = nn.LSTM(6, 4)
    for start, end in ((0, 4), (8, 16)):
        assert torch.equal(layer.bias_ih_l0[start:end], plain.bias_ih_l0[start:end])
    looped = made("rnn-lstm-additive").decoder.input.bias.view(4, 16)
    assert torch.equal(looped.mean(dim=1), torch.tensor([0.0, 1.0, 0.0, 0.0]).double())


# ---------------------------------------------------------------------------------------------------- encoder


@cells
@pytest.mark.parametrize("layers", [1, 2])
def test_each_sentence_is_read_in_both_directions_as_if_it_were_alone(cell, layers):
    model = made("rnn-gru-additive", cell=cell, encoder_layers=layers)
    source = torch.tensor([[9, 3, 0, 0, 0], [10, 11, 12, 13, 3], [14, 15, 3, 0, 0]])  # not sorted by length
    words, summary = model.encoder(source, model.source)
    own = {"gru": nn.GRU, "lstm": nn.LSTM}[cell](16, 8, layers, bidirectional=True, batch_first=True).double()
    own.load_state_dict(
        {
            name.replace("_l0", f"_l{number}"): weight
            for number, layer in enumerate(model.encoder.layers)
            for name, weight in layer.state_dict().items()
        }
    )
    for row, length in enumerate((2, 5, 3)):
        alone, _ = own(model.source.weight[source[row : row + 1, :length]] * 4.0)
        torch.testing.assert_close(words[row, :length], alone[0])
        torch.testing.assert_close(summary[row], torch.cat([alone[0, -1, :8], alone[0, 0, 8:]]))
        assert not words[row, length:].any()


def test_a_source_of_padding_alone_gives_numbers():
    for variant in VARIANTS:
        model = made(variant)
        source, target = two_sentences()
        source[1] = PAD
        assert logits(model, source, target).isfinite().all()


# --------------------------------------------------------------------------------------------------- decoders


def looked(attention: str, cell: str) -> tuple[rnn.RNN, Tensor, list[Tensor], Memory, Tensor, Tensor]:
    """A model, embedded words, first states, what it knows, where it looked, and what it made of it."""
    model = made("rnn-gru-additive", attention=attention, cell=cell)
    source, target = two_sentences()
    states, memory = model.read(source)
    x = model.target(target)
    out, _, weights = model.decoder(x, states, memory)
    return model, x, states, memory, weights[:, 0], out


def run_by_torch(cell: str, weights: list[Tensor], x: Tensor, state: Tensor) -> Tensor:
    own = {"gru": nn.GRU, "lstm": nn.LSTM}[cell](x.shape[-1], 16, batch_first=True).double()
    own.load_state_dict(dict(zip(own.state_dict(), weights, strict=True)))
    out, _ = own(x, state if cell == "gru" else (state[:1], state[1:]))
    return out


@cells
def test_additive_attention_is_that_of_bahdanau_and_its_loop_is_torchs_recurrence(cell):
    model, x, states, memory, maps, out = looked("additive", cell)
    decoder, words = model.decoder, memory.values[:, 0]
    context = maps @ words
    inner = torch.cat([decoder.input.weight, decoder.context.weight], dim=1)
    query, recurrent = decoder.asking.weight.tensor_split([16])
    shift, bias = decoder.asking.bias.tensor_split([16])
    weights = [inner, recurrent, decoder.input.bias, bias]
    after = run_by_torch(cell, weights, torch.cat([x, context], dim=-1), states[0])
    before = torch.cat([states[0][0][:, None], after[:, :-1]], dim=1)
    for b, length in enumerate((5, 3)):
        for t in range(4):
            scores = [
                decoder.score.weight[0] @ torch.tanh(query @ before[b, t] + shift + decoder.keys.weight @ words[b, j])
                for j in range(length)
            ]
            torch.testing.assert_close(maps[b, t, :length], torch.stack(scores).softmax(dim=0))
    read = torch.tanh(torch.cat([context, after], dim=-1) @ decoder.readout.weight.T + decoder.readout.bias)
    torch.testing.assert_close(out, read)


@cells
def test_multiplicative_attention_is_that_of_luong(cell):
    model, x, states, memory, maps, out = looked("multiplicative", cell)
    decoder, words = model.decoder, memory.values[:, 0]
    after = run_by_torch(cell, list(decoder.layers[0].state_dict().values()), x, states[0])
    for b, length in enumerate((5, 3)):
        for t in range(4):
            scores = [after[b, t] @ decoder.keys.weight @ words[b, j] for j in range(length)]
            torch.testing.assert_close(maps[b, t, :length], torch.stack(scores).softmax(dim=0))
    read = torch.tanh(torch.cat([maps @ words, after], dim=-1) @ decoder.readout.weight.T + decoder.readout.bias)
    torch.testing.assert_close(out, read)
    torch.testing.assert_close(model.hidden(*two_sentences()), out)


@every
def test_without_attention_one_vector_is_all_that_the_decoder_knows_of_the_source(variant):
    model = made(variant)
    source, target = two_sentences()
    words, summary = model.encoder(source, model.source)
    seen = [
        model.decoder(model.target(target), model.decoder.begin(summary), model.decoder.remember(w, summary, Mask()))[0]
        for w in (words, torch.randn_like(words))
    ]
    assert torch.equal(*seen) == variant.endswith("none")


@every
def test_maps_are_shares_of_the_real_words_and_only_the_decoder_looks(variant):
    source, target = two_sentences()
    maps = made(variant).attention(source, target)
    assert maps.encoder.shape == (2, 0, 1, 5, 5)
    assert maps.decoder.shape == (2, 0, 1, 4, 4)
    assert maps.cross.shape == (2, 0 if variant.endswith("none") else 1, 1, 4, 5)
    torch.testing.assert_close(maps.cross.sum(dim=-1), torch.ones(maps.cross.shape[:-1]).double())
    assert not maps.cross[1, ..., 3:].any()


@every
@pytest.mark.parametrize(
    "rows", [[0, 0, 0, 1, 1, 1], [0, 0, 1], [0], [1], [1, 1], [1, 0], [1, 1, 0, 0], [0, 1, 0, 1], [1, 0, 0, 0]]
)
def test_a_row_goes_on_from_the_row_that_was_selected(variant, rows):
    model = made(variant)
    source, target = two_sentences()
    together = logits(model, source, target)
    state = model.start(source)
    _, state = model.step(target[:, 0], state)
    state = state.select(torch.tensor(rows))
    one, state = model.step(target[rows, 1], state)
    torch.testing.assert_close(one, together[rows, 1])
    back = list(range(0, len(rows), 2))  # and once more, from there
    one, _ = model.step(target[rows, 2][back], state.select(torch.tensor(back)))
    torch.testing.assert_close(one, together[rows, 2][back])


@every
def test_hypotheses_of_a_sentence_share_its_memory(variant):
    state = made(variant).start(two_sentences()[0])
    wide = state.select(torch.tensor([0, 0, 0, 1, 1, 1]))
    assert wide.memory is state.memory
    assert wide.select(torch.tensor([2, 1, 1, 4, 3, 5])).memory is state.memory
    assert len(wide.select(torch.tensor([3, 4, 5])).memory.values) == 1


# ---------------------------------------------------------------------------------------------------- dropout


@cells
@pytest.mark.parametrize("attention", ["additive", "multiplicative", "none"])
def test_dropout_never_touches_what_a_layer_hands_on_to_its_next_moment(cell, attention):
    model = made("rnn-gru-additive", attention=attention, cell=cell, dropout=0.5)
    source, target = two_sentences()
    states, memory = model.read(source)
    x = model.target(target)
    calm, (before,), _ = model.decoder(x, states, memory)
    shaken, (after,), _ = model.decoder.train()(x, states, memory)
    assert torch.equal(after, before)
    assert not torch.allclose(shaken, calm)


@every
def test_all_chance_comes_from_the_stream_of_keys(variant):
    model = made(variant, dropout=0.4).float().train()
    assert all(module.dropout == 0.0 for module in model.modules() if isinstance(module, nn.RNNBase))
    chance, runs = Dropouts(model), []
    for key in (1, 1, 2):
        chance.start(key)
        runs.append(model.hidden(*two_sentences()))
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])


# ---------------------------------------------------------------------------------- kernels, threads, precision


def gradients(model: rnn.RNN, key: int = 7) -> list[Tensor]:
    model.zero_grad()
    Dropouts(model).start(key)
    logits(model, *two_sentences()).square().sum().backward()
    return [weight.grad for weight in model.parameters()]


@every
def test_kernels_and_plain_torch_give_the_same_gradients(variant):
    model = made(variant, dropout=0.0).float().train()
    fast = gradients(accelerate(model, own=True))
    torch.testing.assert_close(fast, gradients(model), rtol=1e-4, atol=1e-5)


@every
def test_replicas_in_threads_give_what_one_gives_alone(variant):
    model = made(variant, dropout=0.3).float().train()
    twins = [copy.deepcopy(model) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(gradients, twins, range(4)))
    for key, one in enumerate(found):
        assert all(map(torch.equal, one, gradients(model, key)))


@every
def test_half_precision_runs_where_a_device_has_it(variant):
    model = made(variant, dropout=0.0).float().train()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = model.hidden(*two_sentences())
    rough.float().sum().backward()
    torch.testing.assert_close(rough.float(), made(variant).float().hidden(*two_sentences()), rtol=0.1, atol=0.1)


# --------------------------------------------------------------------------------------------------- sections


@every
@pytest.mark.parametrize("tied", ["all", "target", "none"])
def test_the_section_counts_every_weight(variant, tied):
    config = small(variant, tied=tied)
    model = build(config, SYMBOLS, SYMBOLS, device="meta")
    assert config.parameters(SYMBOLS, SYMBOLS) == sum(weight.numel() for weight in model.parameters())


def test_the_usual_model_has_two_million_weights_and_what_is_usual_fits_a_recipe():
    recipe = presets.tiny().change({"model.kind": "rnn"})
    assert recipe.model.parameters(8_000, 8_000) == pytest.approx(2e6, rel=0.2)
    assert recipe.training.optimizer == "adam"
    assert "1 + 1 layers of gru, d_model 192, additive attention" in recipe.model.shape
    assert "no attention" in recipe.change({"model.attention": "none"}).model.shape


def test_an_odd_width_is_refused_with_one_that_fits():
    with pytest.raises(ValidationError, match="choose an even number, such as 18"):
        rnn.RNNConfig(d_model=17)


# --------------------------------------------------------------------------------------------------- learning


def strings(count: int, seed: int) -> list[list[int]]:
    random = Random(seed)
    return [[random.randrange(8, 18) for _ in range(random.randint(3, 8))] for _ in range(count)]


def share_reversed(updates: int, **changes: object) -> float:
    """How many unseen strings are reversed without a mistake after so many updates."""
    torch.manual_seed(0)
    model = build(rnn.RNNConfig(d_model=64, dropout=0.0, **changes), 18, 18).train()
    objective, adam = next_token(model, smoothing=0.0), torch.optim.Adam(model.parameters())
    for update in range(updates):
        for group in adam.param_groups:
            group["lr"] = 6e-3 * min((update + 1) / 20, 1.0 - update / updates)
        some = strings(64, update)
        ends = [string[::-1] for string in some]
        labels = pad(ends, after=END)
        tokens = int((labels != PAD).sum())
        batch = Batch(pad(some, after=END), pad(ends, before=START), labels, torch.arange(64), tokens)
        loss, _ = objective(batch)
        adam.zero_grad()
        (loss / tokens).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
    unseen = strings(200, 10**6)
    found = TorchEngine(model.eval()).decode(unseen, SearchOptions(beam=1))
    return sum(one.ids == (*string[::-1], END) for string, (one,) in zip(unseen, found, strict=True)) / len(unseen)


def test_with_attention_it_learns_to_reverse_and_without_it_one_vector_is_too_little():
    additive = share_reversed(150)
    multiplicative = share_reversed(200, attention="multiplicative", cell="lstm")
    none = share_reversed(150, attention="none")
    assert min(additive, multiplicative) > 0.9
    assert 0.1 < none < 0.75


# --------------------------------------------------------------------------------------------- shape comments


def test_shape_comments_are_true():
    checker = ShapeChecker(Path(rnn.__file__))
    source = torch.arange(10).view(2, 5) + 8
    source[0, -1] = PAD
    target = torch.arange(14).view(2, 7) + 8
    size = {"B": 2, "S": 5, "D": 16, "M": 9}
    for variant in VARIANTS:
        model = made(variant)
        checker.run(lambda model=model: model.hidden(source, target), r".*", **size, N=2, T=7, G=1)
        state = model.start(source).select(torch.tensor([0, 0, 0, 1, 1, 1]))
        checker.run(lambda m=model, s=state: m.step(torch.full((6,), 9), s), r".*", **size, N=6, T=1, G=3)
    assert len(checker.wanted) > 8
    assert checker.complaints() == []


def test_every_dropout_is_the_houses():
    model = made("rnn-deep")
    assert sum(isinstance(module, Dropout) for module in model.modules()) == 4  # two embeddings, encoder, decoder
    assert not any(isinstance(module, nn.Dropout) for module in model.modules())
