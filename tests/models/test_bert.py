"""BERT: the same as Hugging Face's given the same weights, and the laws of hiding words."""

import copy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jumok.config import presets
from jumok.kernels.modules import accelerate
from jumok.models import bert, build, encoder
from jumok.models.base import CLASS, END, MASK, PAD, SEPARATOR, SPECIALS, UNKNOWN, Learner
from jumok.models.bert import BERT, BERTConfig, disguise
from jumok.models.encoder import choose, join
from jumok.nn.dropout import Dropouts
from jumok.storage import checkpoint
from jumok.training.update import Gradients
from tests.support.helpers import SYMBOLS, ShapeChecker

SIZES: dict[str, Any] = {"layers": 2, "d_model": 16, "d_ff": 24, "heads": 2, "longest": 32}
VARIANTS: dict[str, dict[str, Any]] = {
    "words": {}, "next-sentence": {"next_sentence": True}, "rotary": {"positions": "rotary"},
}  # fmt: skip
every = pytest.mark.parametrize("variant", VARIANTS)


def made(variant: str = "words", *, seed: int = 0, **changes: Any) -> BERT:
    """A small model in double, ready to evaluate, in which nothing is just 0 or 1."""
    torch.manual_seed(seed)
    model: BERT = build(BERTConfig(**SIZES | VARIANTS[variant] | changes), SYMBOLS, SYMBOLS)
    return randomize(model).double().eval()


def randomize(model: Any) -> Any:
    """Fill what starts at zero or one, so that a forgotten bias or norm shows."""
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data.add_(torch.randn_like(parameter) * 0.1)
    return model


def pairs() -> tuple[Tensor, Tensor]:
    """Sources and texts; the third has no source, the last one word in each."""
    source = torch.tensor([[9, 10, 11, END], [12, 13, END, PAD], [END, PAD, PAD, PAD], [14, END, PAD, PAD]])
    text = torch.tensor(
        [[15, 16, 17, 18, 19], [20, 21, 22, PAD, PAD], [9, UNKNOWN, 11, 12, PAD], [13, PAD, PAD, PAD, PAD]]
    )
    return source, text


def chained(rows: int, length: int, *, symbols: int = 20, seed: int = 0) -> Tensor:
    """Sentences (B, T) in which nine words of ten follow from the word before, the others being drawn."""
    generator = torch.Generator().manual_seed(seed)
    after = torch.randperm(symbols, generator=torch.Generator().manual_seed(42))
    words = torch.randint(symbols, (rows, length), generator=generator)
    follows = torch.rand(rows, length, generator=generator) < 0.9
    for t in range(1, length):
        words[:, t] = torch.where(follows[:, t], after[words[:, t - 1]], words[:, t])
    return words + SPECIALS


def teach(model: Any, steps: int, batch: Any, *, rate: float = 3e-3) -> Any:
    """The model after some updates of Adam on batches made from the number of the step."""
    optimizer = torch.optim.Adam(model.train().parameters(), lr=rate)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 50) * (1 - step / steps)
        loss, count = batch(step)
        optimizer.zero_grad()
        (loss / count).backward()
        optimizer.step()
    return model.eval()


# ------------------------------------------------------------------------------------------------ Hugging Face


def sizes_of(model: Any) -> dict[str, Any]:
    c = model.config
    return {
        "vocab_size": SYMBOLS, "hidden_size": c.d_model, "num_hidden_layers": c.layers, "num_attention_heads": c.heads,
        "intermediate_size": c.d_ff, "max_position_embeddings": c.longest, "hidden_act": "gelu",
        "layer_norm_eps": 1e-12, "pad_token_id": PAD, "attn_implementation": "eager",
    }  # fmt: skip


def copy_embedding(theirs: Any, mine: encoder.TextEmbedding) -> None:
    theirs.word_embeddings.weight.data.copy_(mine.weight)
    theirs.position_embeddings.weight.data.copy_(mine.positions.weight)
    theirs.token_type_embeddings.weight.data.copy_(mine.segments)
    theirs.LayerNorm.load_state_dict(mine.norm.state_dict())


def copy_layers(theirs: Any, mine: nn.ModuleList) -> None:
    for other, own in zip(theirs.layer, mine, strict=True):
        attention = other.attention
        weights, biases = own.attention.qkv.weight.chunk(3), own.attention.qkv.bias.chunk(3)
        inner = attention.self
        for dense, weight, bias in zip((inner.query, inner.key, inner.value), weights, biases, strict=True):
            dense.load_state_dict({"weight": weight, "bias": bias})
        attention.output.dense.load_state_dict(own.attention.output.state_dict())
        attention.output.LayerNorm.load_state_dict(own.attention_path.norm.state_dict())
        other.intermediate.dense.load_state_dict(own.feed_forward.inner.state_dict())
        other.output.dense.load_state_dict(own.feed_forward.outer.state_dict())
        other.output.LayerNorm.load_state_dict(own.feed_forward_path.norm.state_dict())


def asked(ids: Tensor, segments: Tensor) -> dict[str, Tensor]:
    return {"input_ids": ids, "token_type_ids": segments, "attention_mask": (ids != PAD).long()}


@pytest.mark.filterwarnings("ignore")
def test_guesses_equal_those_of_a_hugging_face_bert_given_the_same_weights():
    transformers = pytest.importorskip("transformers")
    ours = made().float()
    theirs = transformers.BertForMaskedLM(transformers.BertConfig(**sizes_of(ours))).eval()
    copy_embedding(theirs.bert.embeddings, ours.encoder.embedding)
    copy_layers(theirs.bert.encoder, ours.encoder.layers)
    head = theirs.cls.predictions
    head.transform.dense.load_state_dict(ours.head.dense.state_dict())
    head.transform.LayerNorm.load_state_dict(ours.head.norm.state_dict())
    head.decoder.weight.data.copy_(ours.encoder.embedding.weight)
    head.decoder.bias.data.copy_(ours.head.bias)
    ids, segments = join(*pairs())
    real = (ids != PAD).flatten().nonzero().squeeze(1)
    expected = theirs(**asked(ids, segments)).logits.flatten(0, 1)[real]
    torch.testing.assert_close(ours.guess(ids, segments, real), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_next_sentences_are_judged_as_by_a_hugging_face_bert_given_the_same_weights():
    transformers = pytest.importorskip("transformers")
    ours = made("next-sentence").float()
    theirs = transformers.BertForNextSentencePrediction(transformers.BertConfig(**sizes_of(ours))).eval()
    copy_embedding(theirs.bert.embeddings, ours.encoder.embedding)
    copy_layers(theirs.bert.encoder, ours.encoder.layers)
    theirs.bert.pooler.dense.load_state_dict(ours.next_sentence.pooler.dense.state_dict())
    theirs.cls.seq_relationship.load_state_dict(ours.next_sentence.output.state_dict())
    ids, segments = join(*pairs())
    judged = ours.next_sentence.logits(ours.encode(ids, segments))
    torch.testing.assert_close(judged, theirs(**asked(ids, segments)).logits, atol=1e-5, rtol=1e-5)


# -------------------------------------------------------------------------------------------- what is asked


def test_a_pair_is_joined_with_marks_around_it_and_a_text_alone_has_none_between():
    ids, segments = join(*pairs())
    rows, marks = [], []
    for source, text in zip(*(side.tolist() for side in pairs()), strict=True):
        first, second = ([token for token in side if token not in (PAD, END)] for side in (source, text))
        before = [CLASS, *first, SEPARATOR] if first else [CLASS]
        rows.append([*before, *second, SEPARATOR])
        marks.append([0] * len(before) + [int(bool(first))] * (len(second) + 1))
    longest = max(map(len, rows))
    assert ids.tolist() == [row + [PAD] * (longest - len(row)) for row in rows]
    assert segments.tolist() == [row + [0] * (longest - len(row)) for row in marks]


def test_a_share_of_the_words_of_each_row_is_chosen_and_never_a_mark():
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(SPECIALS, 100, (50, 40), generator=generator)
    ids[torch.rand(50, 40, generator=generator) < 0.2] = SEPARATOR
    ids[:, 0], ids[:, 1], ids[:25, 30:] = CLASS, UNKNOWN, PAD
    chosen = choose(ids, 0.15, generator)
    words = (ids >= SPECIALS) | (ids == UNKNOWN)
    assert not (chosen & ~words).any()
    assert chosen.sum(dim=1).tolist() == [max(1, round(0.15 * count)) for count in words.sum(dim=1).tolist()]
    often = torch.stack([choose(ids, 0.15, generator) for _ in range(400)]).double().mean(dim=0)
    expected = chosen.sum(dim=1, keepdim=True) / words.sum(dim=1, keepdim=True)
    assert (often - expected)[words].abs().max() < 0.1  # no place is chosen more often than others
    assert often[:, 1].mean() > 0.1  # unknown words are words


def test_of_ten_chosen_words_eight_are_hidden_one_is_replaced_and_one_is_shown():
    words = torch.full((20_000,), 9)
    shown = disguise(words, 1_000, torch.Generator().manual_seed(1))
    counts = Counter(shown.tolist())
    assert counts.pop(MASK) / 20_000 == pytest.approx(0.8, abs=0.01)
    assert counts.pop(9) / 20_000 == pytest.approx(0.1, abs=0.01)
    assert min(counts) >= SPECIALS
    assert max(counts) < 1_000
    assert len(counts) > 800


def test_only_chosen_words_are_disguised_and_the_question_knows_what_stood_there():
    model, (source, text) = made(), pairs()
    ids, segments = join(source, text)
    asked = model.ask(source, text)
    assert torch.equal(asked.shown.flatten().index_copy(0, asked.places, asked.words).view_as(ids), ids)
    assert torch.equal(asked.segments, segments)


def test_texts_are_exchanged_among_themselves_and_known_for_what_they_are():
    model = made("next-sentence").next_sentence
    source = torch.tensor([[9, END]] * 40 + [[END, PAD]] * 10)
    text = torch.arange(100).view(50, 2) + SPECIALS
    generator = torch.Generator().manual_seed(2)
    shares = []
    for _ in range(50):
        other, truth = model.exchange(source, text, generator)
        moved = (other != text).any(dim=1)
        assert (
            truth.tolist() == [bert.OTHER if one else bert.FOLLOWS for one in moved[:40].tolist()] + [bert.ALONE] * 10
        )
        assert sorted(other.tolist()) == text.tolist()
        shares.append(float(moved[:40].double().mean()))
    assert sum(shares) / 50 == pytest.approx(0.5, abs=0.05)
    for _ in range(20):  # one alone has nobody to change with
        alone, truth = model.exchange(source[:1], text[:1], generator)
        assert torch.equal(alone, text[:1])
        assert truth.tolist() == [bert.FOLLOWS]


# ---------------------------------------------------------------------------------------------------- laws


@every
def test_a_bert_says_itself_what_it_learns(variant):
    assert isinstance(made(variant), Learner)


def test_padding_changes_nothing():
    model = made()
    ids, segments = join(*pairs())
    more = F.pad(ids, (0, 3)), F.pad(segments, (0, 3))
    torch.testing.assert_close(model.encode(*more)[:, :-3], model.encode(ids, segments))
    short = (ids[3] != PAD).sum()
    alone = model.encode(ids[3:, :short], segments[3:, :short])
    torch.testing.assert_close(model.encode(ids, segments)[3:, :short], alone)


@every
def test_padding_does_not_even_change_which_words_are_chosen(variant):
    model, (source, text) = made(variant), pairs()
    wider = F.pad(source, (0, 2)), F.pad(text, (0, 4))
    loss, count = model.loss(source, text, text, smoothing=0.1)
    other, same = model.loss(wider[0], wider[1], wider[1], smoothing=0.1)
    assert same == count
    torch.testing.assert_close(other, loss)


def test_the_order_of_sentences_changes_nothing():
    model = made()
    ids, segments = join(*pairs())
    torch.testing.assert_close(model.encode(ids.flip(0), segments.flip(0)), model.encode(ids, segments).flip(0))


@every
def test_every_parameter_gets_a_gradient(variant):
    model, (source, text) = made(variant).train(), pairs()
    model.loss(source, text, text, smoothing=0.0)[0].backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_the_output_is_the_table_of_words():
    model, (source, text) = made(), pairs()
    model.loss(source, text, text, smoothing=0.0)[0].backward()
    unseen = model.encoder.embedding.weight.grad[7]  # no text has it, but every guess considers it
    assert unseen.abs().sum() > 0


@every
def test_what_is_hidden_is_a_function_of_the_key_and_in_use_always_the_same(variant):
    model, text = made(variant), chained(8, 20, symbols=12)
    source = torch.cat([text[:, :5], torch.full((8, 1), END)], dim=1)
    used = [model.ask(source, text) for _ in range(2)]
    assert all(torch.equal(one, two) for one, two in zip(*used, strict=True))
    dropouts = Dropouts(model.train())

    def trained(key: int) -> tuple[Tensor, float]:
        dropouts.start(key)
        shown = model.ask(source, text).shown
        return shown, model.loss(source, text, text, smoothing=0.0)[0].item()

    (first, loss), (again, same), (other, different) = trained(5), trained(5), trained(6)
    assert torch.equal(first, again)
    assert loss == same
    assert not torch.equal(first, other)
    assert loss != different


@every
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_mean_over_chosen_words_and_that_over_pairs(variant, smoothing):
    model, (source, text) = made(variant), pairs()
    total, count = model.loss(source, text, text, smoothing=smoothing)
    asked = model.ask(source, text)
    everywhere = model.guess(asked.shown, asked.segments, torch.arange(asked.shown.numel()))  # all places × vocabulary
    wanted = torch.full((asked.shown.numel(),), -100).index_copy(0, asked.places, asked.words)
    expected = F.cross_entropy(everywhere, wanted, label_smoothing=smoothing)
    if variant == "next-sentence":
        judged = model.next_sentence.logits(model.encode(asked.shown, asked.segments))
        expected = expected + F.cross_entropy(judged[[0, 1, 3]], asked.truth[[0, 1, 3]])
    assert count == len(asked.places) > 3
    torch.testing.assert_close(total / count, expected, check_dtype=False, atol=1e-5, rtol=1e-5)


def test_accuracy_counts_chosen_words_that_are_the_likeliest():
    model, (source, text) = made(), pairs()
    asked = model.ask(source, text)
    model.head.bias.data[int(asked.words[0])] = 1e6  # it guesses this word everywhere
    right = int((asked.words == asked.words[0]).sum())
    assert model.accuracy(source, text, text) == (right, len(asked.words))


def test_masks_are_filled_row_by_row_whatever_is_beside_them():
    model = made()
    text = torch.tensor([[9, MASK, 11, MASK], [MASK, 12, PAD, PAD], [9, 10, PAD, PAD]])
    ids = [[CLASS, 9, MASK, 11, MASK, SEPARATOR], [CLASS, MASK, 12, SEPARATOR]]
    alone = []
    for row in map(torch.tensor, ids):
        states = model.encode(row[None], torch.zeros_like(row)[None])[0]
        logits = model.head(states) @ model.encoder.embedding.weight.T + model.head.bias
        alone.append(logits[row == MASK])
    torch.testing.assert_close(model.fill(text), torch.cat(alone))


@every
def test_a_batch_without_words_is_no_question(variant):
    model = made(variant).float().train()
    loss, count = model.loss(torch.tensor([[END]]), torch.tensor([[PAD]]), torch.tensor([[PAD]]), smoothing=0.0)
    loss.backward()
    assert (loss.item(), count) == (0.0, 0)


@every
def test_gradients_added_by_the_kernels_are_those_of_autograd(variant):
    model, (source, text) = accelerate(made(variant).float(), own=True), pairs()
    model.loss(source, text, text, smoothing=0.0)[0].backward()
    expected = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    gradients = Gradients(list(model.parameters()))
    gradients.begin()
    model.loss(source, text, text, smoothing=0.0)[0].backward()
    for found, wanted in zip(gradients.end(), expected, strict=True):
        torch.testing.assert_close(found, wanted)


@every
def test_save_and_load_and_a_copy_give_bit_identical_states(variant, tmp_path):
    model, other = made(variant).float(), made(variant, seed=9).float()
    checkpoint.write_whole(tmp_path / "saved", {"model.safetensors": checkpoint.weights(model)}, {})
    path = tmp_path / "saved" / "model.safetensors"
    checkpoint.set_weights(other, checkpoint.read_tensors(path, checkpoint.weights(other)))
    ids, segments = join(*pairs())
    assert torch.equal(other.encode(ids, segments), model.encode(ids, segments))
    assert torch.equal(copy.deepcopy(model).encode(ids, segments), model.encode(ids, segments))


# ------------------------------------------------------------------------------------------------- the section


@every
@pytest.mark.parametrize("symbols", [23, 8_000])
def test_the_section_knows_how_many_weights_there_are(variant, symbols):
    for config in (BERTConfig(**SIZES | VARIANTS[variant]), BERTConfig(**VARIANTS[variant])):
        model = build(config, symbols, symbols, device="meta")
        assert all(parameter.is_meta for parameter in model.parameters())
        assert sum(parameter.numel() for parameter in model.parameters()) == config.parameters(symbols, symbols)


def test_a_recipe_may_name_it():
    recipe = presets.tiny().change({"model.kind": "bert", "model.layers": 4})
    assert isinstance(recipe.model, BERTConfig)
    assert recipe.training.word_dropout == 0.0
    assert recipe.model.shape == "4 layers, d_model 128, d_ff 512, 4 heads of 32"
    assert recipe.model.positions == "rotary"  # what it is usually trained with; a section alone is the paper's
    assert BERTConfig().positions == "learned"
    with pytest.raises(ValueError, match="choose a multiple of 3, such as 129"):
        BERTConfig(heads=3)
    with pytest.raises(ValueError, match="a head is 3 wide; choose d_model=16"):
        BERTConfig(d_model=12, heads=4, positions="rotary")


@pytest.mark.parametrize(("module", "comments"), [(bert, 8), (encoder, 8)])
def test_shape_comments_are_true(module, comments):
    checker = ShapeChecker(Path(module.__file__))
    model, (source, text) = made("next-sentence"), pairs()
    asked = model.ask(source, text)
    size = {"B": 4, "S": 4, "T": 5, "P": asked.shown.shape[1], "D": 16, "M": len(asked.words), "V": SYMBOLS}
    checker.run(lambda: model.loss(source, text, text, smoothing=0.0), r"(\w+\.)?\w+$", **size)
    checker.run(lambda: model.accuracy(source, text, text), r"(\w+\.)?\w+$", **size)
    assert len(checker.wanted) > comments
    assert checker.complaints() == []


@pytest.mark.slow
def test_it_learns_which_word_follows_which():
    torch.manual_seed(1)
    config = BERTConfig(layers=1, d_model=64, d_ff=64, heads=2, longest=32, dropout=0.0)
    model = build(config, 28, 28)
    nothing = torch.full((64, 1), END)

    def batch(step: int) -> tuple[Tensor, int]:
        text = chained(64, 16, seed=step)
        return model.loss(nothing, text, text, smoothing=0.0)

    teach(model, 200, batch, rate=5e-3)
    text = chained(64, 16, seed=10**6)
    right, of = model.accuracy(nothing, text, text)
    assert right / of > 0.7  # one in twenty by chance; one in ten follows from nothing
