"""GPT: one line of text for both sides, a cache that sentences share, and Hugging Face's GPT-2 as a witness."""

import math
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from jumok.config import presets
from jumok.data.batches import Batch, pad
from jumok.decoding.search import greedy
from jumok.errors import UsageError
from jumok.kernels.modules import accelerate
from jumok.models import build, gpt
from jumok.models.base import END, PAD, SEPARATOR, START
from jumok.models.gpt import GPT, GPTConfig, Line
from jumok.nn.attention import attend
from jumok.nn.variants import Rotary, feed_forward
from jumok.training.objectives import next_token
from tests.support.helpers import OTHERS, SYMBOLS, ShapeChecker, made, small, two_sentences

VARIANTS = [name for name in OTHERS if name.startswith("gpt")]
every = pytest.mark.parametrize("variant", VARIANTS)


def logits(model: GPT, source: Tensor, target: Tensor) -> Tensor:
    with torch.no_grad():
        return model.project(model.hidden(source, target))


def uneven() -> tuple[Tensor, Tensor]:
    """Sources of 0 to 30 words, targets of 1 to 7, with START and END and padding."""
    sources = [[8 + (3 * row + i) % 15 for i in range(length)] for row, length in enumerate((30, 0, 1, 17))]
    targets = [[8 + (5 * row + i) % 15 for i in range(length)] for row, length in enumerate((2, 7, 1, 4))]
    return pad(sources, after=END), pad(targets, before=START)


# ------------------------------------------------------------------------------------------------ lining up


def test_a_pair_is_one_text_with_a_separator_in_the_place_of_its_end():
    source, target = torch.tensor([[9, 10, END], [11, END, PAD], [END, PAD, PAD]]), torch.tensor([[START, 12]] * 3)
    line = Line.of(source, target)
    assert line.tokens.tolist() == [
        [9, 10, SEPARATOR, START, 12],
        [11, SEPARATOR, START, 12, PAD],
        [SEPARATOR, START, 12, PAD, PAD],
    ]
    assert line.places.tolist() == [[3, 4], [2, 3], [1, 2]]


@every
def test_sources_of_very_different_length_in_one_batch_do_not_disturb_each_other(variant):
    model = made(variant)
    source, target = uneven()
    together = logits(model, source, target)
    for row in range(len(source)):
        read, written = int((source[row] != PAD).sum()), int((target[row] != PAD).sum())
        alone = logits(model, source[row : row + 1, :read], target[row : row + 1, :written])
        torch.testing.assert_close(together[row : row + 1, :written], alone)


@every
def test_with_an_empty_source_it_is_a_language_model(variant):
    model = made(variant)
    text = torch.tensor([[START, 9, 10, 11, 12, 13]])
    empty = torch.tensor([[END]])
    line = torch.cat([torch.tensor([[SEPARATOR]]), text], dim=1)
    with torch.no_grad():
        torch.testing.assert_close(model.hidden(empty, text), model.norm(model.read(line))[:, 1:])
    for t in range(1, text.shape[1]):
        later = text.clone()
        later[:, t:] = 14
        assert torch.equal(logits(model, empty, later)[:, :t], logits(model, empty, text)[:, :t])
        assert not torch.equal(logits(model, empty, later)[:, t:], logits(model, empty, text)[:, t:])


@every
@pytest.mark.parametrize("length", [40, 300])  # 300: attention weights are computed again, not kept
def test_kernels_in_training_give_the_states_and_gradients_of_plain_double(variant, length):
    source = pad([[8 + i % 15 for i in range(length)], [9, 10]], after=END)
    target = pad([[11, 12], [8 + i % 13 for i in range(20)]], before=START)
    found = []
    for dtype in (torch.float32, torch.float64):
        model = accelerate(made(variant, dropout=0.0).to(dtype), own=True).train()
        states = model.hidden(source, target)[target != PAD]
        model.project(states).square().mean().backward()
        found.append([states, *(parameter.grad for parameter in model.parameters())])
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one.double(), two, atol=1e-5, rtol=1e-4)


# -------------------------------------------------------------------------------------------------- stepping


@every
def test_rows_that_leave_double_and_change_places_go_on_where_they_were(variant):
    model = made(variant)
    source, _ = uneven()
    origin, said = list(range(len(source))), [[START] for _ in range(len(source))]
    choices = [[0, 0, 1, 1, 2, 2, 3, 3], [1, 0, 3, 3, 4, 5, 7, 6], [0, 1, 4, 5, 6, 7], [0, 3, 2, 4, 5], [1, 2, 4, 4, 3]]
    with torch.no_grad():
        state = model.start(source)
        for t, rows in enumerate([None, *choices]):
            if rows is not None:
                state, origin = state.select(torch.tensor(rows)), [origin[row] for row in rows]
                said = [[*said[row], 9 + (t + n) % 13] for n, row in enumerate(rows)]
            found, state = model.step(torch.tensor([ids[-1] for ids in said]), state)
            torch.testing.assert_close(found, logits(model, source[origin], torch.tensor(said))[:, -1])


def test_the_rows_of_a_beam_share_the_prefix_of_their_sentence_without_a_copy():
    model = made("gpt")
    with torch.no_grad():
        state = model.start(two_sentences()[0])
        wide = state.select(torch.tensor([0, 0, 0, 1, 1, 1]))
        _, after = model.step(torch.full((6,), START), wide)
        moved = after.select(torch.tensor([2, 0, 0, 4, 4, 3]))
    for one, two in zip(state.prefixes, moved.prefixes, strict=True):
        assert [part.data_ptr() for part in one] == [part.data_ptr() for part in two]
    assert len(moved.select(torch.tensor([3, 4, 5])).prefixes[0][0]) == 1


def test_attention_after_a_shared_prefix_is_attention_over_prefix_and_own_keys():
    torch.manual_seed(0)
    groups, each, heads, width = 2, 3, 2, 4
    q = torch.randn(groups * each, heads, 1, width)
    own = torch.randn(groups * each, heads, 5, width), torch.randn(groups * each, heads, 5, width + 1)
    shared = torch.randn(groups, heads, 4, width), torch.randn(groups, heads, 4, width + 1)
    real = torch.tensor([[True, True, True, True], [True, True, False, False]])
    found = gpt.attend_after(q, own, shared, real)
    keys, values = (torch.cat([a.repeat_interleave(each, dim=0), b], dim=2) for a, b in zip(shared, own, strict=True))
    mask = torch.cat([real.repeat_interleave(each, dim=0), torch.ones(groups * each, 5) > 0], dim=1)
    torch.testing.assert_close(found, attend(q, keys, values, mask[:, None, None])[0])


def test_rows_at_positions_of_their_own_are_turned_as_if_each_were_alone():
    rotary, x = Rotary(8), torch.randn(3, 2, 1, 8)
    positions = torch.tensor([700, 0, 5])
    alone = [rotary(x[row : row + 1], int(start)) for row, start in enumerate(positions)]
    torch.testing.assert_close(rotary(x, positions), torch.cat(alone))


# ---------------------------------------------------------------------------------------------- what it sees


@every
def test_maps_of_target_and_source_together_sum_to_one_and_see_nothing_that_comes_later(variant):
    model = made(variant)
    source, target = uneven()
    with torch.no_grad():
        maps = model.attention(source, target)
        states = model.hidden(source, target)
    size = (len(source), model.config.layers, model.config.heads)
    lengths = (source.shape[1], target.shape[1])
    assert maps.encoder.shape == (*size, lengths[0], lengths[0])
    assert maps.decoder.shape == (*size, lengths[1], lengths[1])
    assert maps.cross.shape == (*size, lengths[1], lengths[0])
    torch.testing.assert_close(maps.decoder.sum(-1) + maps.cross.sum(-1), torch.ones(*size, lengths[1]).double())
    real = (source != PAD)[:, None, None].expand(*size, -1)
    torch.testing.assert_close(maps.encoder.sum(-1), real.double())
    assert not maps.encoder.triu(1).any()
    assert not maps.decoder.triu(1).any()
    assert not maps.cross.masked_select(~real[:, :, :, None]).any()
    with torch.no_grad():
        alone = model.attention(source[3:, :18], target[3:, :5])
    torch.testing.assert_close(maps.cross[3:, :, :, :5, :18], alone.cross)
    torch.testing.assert_close(maps.decoder[3:, :, :, :5, :5], alone.decoder)
    torch.testing.assert_close(maps.encoder[3:, :, :, :18, :18], alone.encoder)
    assert states.isfinite().all()


# ------------------------------------------------------------------------------------------- against others


def as_gpt_2(model: GPT):
    """Hugging Face's GPT-2 with our weights."""
    transformers = pytest.importorskip("transformers")
    c = model.config
    config = transformers.GPT2Config(
        vocab_size=SYMBOLS, n_positions=c.longest, n_embd=c.d_model, n_layer=c.layers, n_head=c.heads, n_inner=c.d_ff,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=START, eos_token_id=END,
        tie_word_embeddings=c.tied != "none",
    )  # fmt: skip
    theirs = transformers.GPT2LMHeadModel(config).double().eval()
    body = theirs.transformer
    body.wte.weight.data.copy_(model.table)
    body.wpe.weight.data.copy_(model.positions.weight)
    theirs.lm_head.weight.data.copy_(model.matrix)
    body.ln_f.load_state_dict(model.norm.state_dict())
    for mine, other in zip(model.blocks, body.h, strict=True):
        other.ln_1.load_state_dict(mine.attention_path.norm.state_dict())
        other.ln_2.load_state_dict(mine.feed_forward_path.norm.state_dict())
        pairs = (
            (other.attn.c_attn, mine.attention.qkv), (other.attn.c_proj, mine.attention.output),
            (other.mlp.c_fc, mine.feed_forward.inner), (other.mlp.c_proj, mine.feed_forward.outer),
        )  # fmt: skip
        for copy, linear in pairs:
            copy.weight.data.copy_(linear.weight.t())  # they multiply from the other side
            copy.bias.data.copy_(linear.bias)
    return theirs


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("tied", ["all", "none"])
def test_it_equals_a_hugging_face_gpt_2_given_the_same_weights(tied):
    ours = made("gpt", tied=tied, longest=32)
    torch.manual_seed(4)
    for parameter in ours.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.2)
    line = torch.tensor([[9, 10, 11, SEPARATOR, START, 12, 13, 14, 15]])
    with torch.no_grad():
        expected = as_gpt_2(ours)(input_ids=line).logits[:, 4:]
    found = logits(ours, torch.tensor([[9, 10, 11, END]]), torch.tensor([[START, 12, 13, 14, 15]]))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_the_net_of_gpt_2_is_gelu_by_its_tanh_formula():
    net, x = feed_forward("gelu-tanh", 4, 8).double(), torch.randn(3, 4).double()
    inner = net.inner(x)
    gelu = 0.5 * inner * (1 + torch.tanh(math.sqrt(2 / math.pi) * (inner + 0.044715 * inner**3)))
    torch.testing.assert_close(net(x), net.outer(gelu))


# ---------------------------------------------------------------------------------------------- its section


@every
@pytest.mark.parametrize("tied", ["all", "target", "none"])
def test_the_section_knows_the_number_of_weights(variant, tied):
    config = small(variant, tied=tied)
    model = build(config, SYMBOLS, SYMBOLS, device="meta")
    assert sum(parameter.numel() for parameter in model.parameters()) == config.parameters(SYMBOLS, SYMBOLS)


def test_its_usual_size_is_two_million_weights_over_8000_symbols():
    assert GPTConfig().parameters(8_000, 8_000) == pytest.approx(2e6, rel=0.1)
    assert presets.tiny().change({"model.kind": "gpt"}).model == GPTConfig()


def test_one_table_serves_both_sides_so_target_tied_is_tied():
    one, two = made("gpt", tied="target"), made("gpt", tied="all")
    assert one.matrix is one.table
    assert torch.equal(logits(one, *two_sentences()), logits(two, *two_sentences()))


def test_vocabularies_that_differ_are_refused_with_a_cure():
    with pytest.raises(UsageError, match="one table, but there are 20 source symbols") as caught:
        build(small("gpt"), 20, 23)
    assert "vocabulary.joint=true" in caught.value.hint


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"d_model": 130}, "such as 132"),
        ({"d_model": 12, "heads": 4, "positions": "rotary"}, "choose d_model=16"),
        ({"layers": 0}, "greater than or equal to 1"),
        ({"positions": "nowhere"}, "rotary"),
    ],
)
def test_a_section_that_cannot_be_says_what_would_do(changes, words):
    with pytest.raises(ValidationError, match=words):
        GPTConfig.model_validate(changes)


def test_what_ends_a_sub_layer_starts_smaller_by_the_root_of_their_number():
    model = build(GPTConfig(layers=8, d_model=32, d_ff=96), 50, 50)
    for block in model.blocks:
        for last in (block.attention.output, block.feed_forward.outer):
            glorot = math.sqrt(6 / sum(last.weight.shape))
            assert float(last.weight.detach().abs().max()) == pytest.approx(glorot / 4, rel=0.05)


def test_shape_comments_are_true():
    size = {"B": 2, "S": 5, "T": 4, "P": 9, "D": 16, "N": 6, "L": 2, "H": 2, "K": 8}
    checker = ShapeChecker(Path(gpt.__file__))
    model, (source, target) = made("gpt"), two_sentences()
    parts = r"(Block|GPT|Line)\."
    checker.run(lambda: model.hidden(source, target), parts, **size)
    checker.run(lambda: model.attention(source, target), parts, **size)
    with torch.no_grad():
        checker.run(lambda: model.start(source), r"(GPT\.start|Block\.read)", **size | {"P": 5})
        state = model.start(source).select(torch.tensor([0, 0, 0, 1, 1, 1]))
        checker.run(lambda: model.step(torch.full((6,), 9), state), parts, **size)
    assert len(checker.wanted) > 15
    assert checker.complaints() == []


# -------------------------------------------------------------------------------------------------- learning


def reversals(count: int, generator: torch.Generator) -> Batch:
    """Strings of 1 to 6 of 8 letters and the same from behind."""
    lengths = torch.randint(1, 7, (count,), generator=generator).tolist()
    words = [torch.randint(8, 16, (length,), generator=generator).tolist() for length in lengths]
    behind = [word[::-1] for word in words]
    labels = pad(behind, after=END)
    rows, tokens = torch.arange(count), int((labels != PAD).sum())
    return Batch(pad(words, after=END), pad(behind, before=START), labels, rows, tokens)


@pytest.mark.parametrize("positions", ["learned", "rotary", "sinusoidal"])
def test_it_learns_to_say_strings_backwards(positions):
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(1)
    config = GPTConfig(layers=2, d_model=48, d_ff=96, heads=4, dropout=0.0, longest=16, positions=positions)
    model: nn.Module = build(config, 16, 16)
    optimizer, objective = torch.optim.Adam(model.parameters(), lr=4e-3), next_token(model, smoothing=0.0)
    for step in range(400):
        optimizer.param_groups[0]["lr"] = 4e-3 * min(1.0, (step + 1) / 50, (400 - step) / 100)
        loss, tokens = objective(reversals(64, generator))
        (loss / tokens).backward()
        optimizer.step()
        optimizer.zero_grad()
    unseen = reversals(200, torch.Generator().manual_seed(2))
    model.eval()
    with torch.inference_mode():
        found = greedy(model.step, model.start(unseen.source), [8] * 200)
    right = [
        list(one.ids) == [i for i in ids if i != PAD] for one, ids in zip(found, unseen.labels.tolist(), strict=True)
    ]
    assert sum(right) / len(right) > 0.95
