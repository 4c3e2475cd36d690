"""ELECTRA: the same as Hugging Face's given the same weights, and the laws of telling replaced words."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from jumok.config import presets
from jumok.kernels.modules import accelerate
from jumok.models import build, electra
from jumok.models.base import CLASS, END, MASK, PAD, SEPARATOR, SPECIALS, UNKNOWN, Learner
from jumok.models.bert import BERTConfig
from jumok.models.electra import ELECTRA, ELECTRAConfig, draw
from jumok.models.encoder import choose, join
from jumok.nn.dropout import Chance, Dropouts
from jumok.storage import checkpoint
from jumok.training.update import Gradients
from tests.models.test_bert import SIZES, asked, chained, copy_embedding, copy_layers, pairs, randomize, sizes_of, teach
from tests.support.helpers import SYMBOLS, ShapeChecker

SHARES = {"small": 0.5, "tiny": 0.1, "whole": 1.0}
VARIANTS: dict[str, dict[str, Any]] = {
    "small": {"generator": 0.5},
    "tiny": {"generator": 0.1},
    "whole": {"generator": 1.0},
    "rotary": {"generator": 0.3, "positions": "rotary"},
}
every = pytest.mark.parametrize("variant", VARIANTS)


def made(variant: str = "small", *, seed: int = 0, **changes: Any) -> ELECTRA:
    """A small model in double, ready to evaluate, in which nothing is just 0 or 1."""
    torch.manual_seed(seed)
    model: ELECTRA = build(ELECTRAConfig(**SIZES | VARIANTS[variant] | changes), SYMBOLS, SYMBOLS)
    return randomize(model).double().eval()


@pytest.mark.filterwarnings("ignore")
def test_the_detector_equals_a_hugging_face_electra_given_the_same_weights():
    transformers = pytest.importorskip("transformers")
    ours = made().float()
    sizes = {**sizes_of(ours), "embedding_size": ours.config.d_model}
    theirs = transformers.ElectraForPreTraining(transformers.ElectraConfig(**sizes)).eval()
    copy_embedding(theirs.electra.embeddings, ours.encoder.embedding)
    copy_layers(theirs.electra.encoder, ours.encoder.layers)
    theirs.discriminator_predictions.dense.load_state_dict(ours.detector.dense.state_dict())
    theirs.discriminator_predictions.dense_prediction.load_state_dict(ours.detector.output.state_dict())
    ids, segments = join(*pairs())
    real = ids != PAD
    expected = theirs(**asked(ids, segments)).logits[real]
    torch.testing.assert_close(ours.detect(ids, segments)[real], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("variant", ["small", "tiny", "whole"])
def test_the_generator_equals_a_hugging_face_electra_given_the_same_weights(variant):
    transformers = pytest.importorskip("transformers")
    ours = made(variant).float()
    narrow = ours.config.narrow
    sizes = sizes_of(ours) | {
        "embedding_size": ours.config.d_model, "hidden_size": narrow["width"], "intermediate_size": narrow["d_ff"],
        "num_attention_heads": narrow["heads"],
    }  # fmt: skip
    theirs = transformers.ElectraForMaskedLM(transformers.ElectraConfig(**sizes)).eval()
    copy_embedding(theirs.electra.embeddings, ours.encoder.embedding)
    copy_layers(theirs.electra.encoder, ours.generator.layers)
    if variant == "whole":  # theirs has no projection then; ours becomes none
        ours.generator.projection.weight.data.copy_(torch.eye(16))
        ours.generator.projection.bias.data.zero_()
    else:
        theirs.electra.embeddings_project.load_state_dict(ours.generator.projection.state_dict())
    theirs.generator_predictions.dense.load_state_dict(ours.generator.head.dense.state_dict())
    theirs.generator_predictions.LayerNorm.load_state_dict(ours.generator.head.norm.state_dict())
    theirs.generator_lm_head.weight.data.copy_(ours.encoder.embedding.weight)
    theirs.generator_lm_head.bias.data.copy_(ours.generator.head.bias)
    ids, segments = join(*pairs())
    real = (ids != PAD).flatten().nonzero().squeeze(1)
    expected = theirs(**asked(ids, segments)).logits.flatten(0, 1)[real]
    torch.testing.assert_close(ours.guess(ids, segments, real), expected, atol=1e-5, rtol=1e-5)


# ------------------------------------------------------------------------------------------------ what is asked


def test_words_are_drawn_as_often_as_they_are_likely_and_marks_never():
    torch.manual_seed(0)
    logits = torch.randn(1, SYMBOLS)
    logits[0, 12] = -torch.inf
    drawn = draw(logits.expand(20_000, -1), torch.Generator().manual_seed(1))
    likely = logits[0].clone()
    likely[[PAD, *range(UNKNOWN + 1, SPECIALS)]] = -torch.inf
    share = drawn.bincount(minlength=SYMBOLS) / len(drawn)
    torch.testing.assert_close(share, likely.softmax(dim=0), atol=0.01, rtol=0.0)
    assert share[likely == -torch.inf].sum() == 0


@every
def test_only_chosen_words_are_replaced_and_a_right_guess_is_no_replacement(variant):
    model, text = made(variant), chained(16, 20, symbols=12)
    source = torch.full((16, 1), END)
    ids, _ = join(source, text)
    asked = model.ask(source, text)
    chosen = choose(ids, 0.15, Chance().eval().generator())
    assert torch.equal(asked.words, ids[chosen])
    assert not (asked.replaced & ~chosen).any()
    assert torch.equal(asked.replaced, asked.shown != ids)
    model.generator.head.bias.data[9] = 1e6  # it says this word everywhere
    again = model.ask(source, text)
    assert torch.equal(again.shown, torch.where(chosen, 9, ids))
    assert torch.equal(again.replaced, chosen & (ids != 9))
    assert (chosen & (ids == 9)).any()


def test_the_generator_sees_masks_and_what_it_draws_has_no_gradient():
    model, (source, text) = made(), pairs()
    ids, segments = join(source, text)
    asked = model.ask(source, text)
    places = choose(ids, 0.15, Chance().eval().generator()).flatten().nonzero().squeeze(1)
    shown = ids.flatten().index_fill(0, places, MASK).view_as(ids)
    torch.testing.assert_close(asked.hidden, model.generate(shown, segments, places))
    assert not asked.shown.requires_grad


# ---------------------------------------------------------------------------------------------------- laws


def test_an_electra_says_itself_what_it_learns():
    assert isinstance(made(), Learner)


def test_its_encoder_has_the_names_and_shapes_of_that_of_a_bert():
    ours, theirs = made().encoder.state_dict(), build(BERTConfig(**SIZES), SYMBOLS, SYMBOLS).encoder.state_dict()
    assert {name: value.shape for name, value in ours.items()} == {name: value.shape for name, value in theirs.items()}


def test_padding_and_the_order_of_sentences_change_nothing():
    model = made()
    ids, segments = join(*pairs())
    together = model.detect(ids, segments)
    torch.testing.assert_close(model.detect(F.pad(ids, (0, 3)), F.pad(segments, (0, 3)))[:, :-3], together)
    torch.testing.assert_close(model.detect(ids.flip(0), segments.flip(0)).flip(0), together)


@every
def test_padding_does_not_even_change_which_words_are_chosen_and_drawn(variant):
    model, (source, text) = made(variant), pairs()
    wider = F.pad(source, (0, 2)), F.pad(text, (0, 4))
    loss, count = model.loss(source, text, text, smoothing=0.1)
    other, same = model.loss(wider[0], wider[1], wider[1], smoothing=0.1)
    assert same == count
    torch.testing.assert_close(other, loss)


@every
def test_every_parameter_gets_a_gradient(variant):
    model, (source, text) = made(variant).train(), pairs()
    model.loss(source, text, text, smoothing=0.0)[0].backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_the_output_of_the_generator_is_the_table_of_words():
    model, (source, text) = made(), pairs()
    model.loss(source, text, text, smoothing=0.0)[0].backward()
    unseen = model.encoder.embedding.weight.grad[7]  # no text has it, but every guess considers it
    assert unseen.abs().sum() > 0


def test_what_is_hidden_and_drawn_is_a_function_of_the_key_and_in_use_always_the_same():
    model, text = made(dropout=0.0), chained(8, 20, symbols=12)
    source = torch.full((8, 1), END)
    used = [model.ask(source, text) for _ in range(2)]
    assert all(torch.equal(one, two) for one, two in zip(*used, strict=True))
    dropouts = Dropouts(model.train())

    def trained(key: int) -> tuple[Tensor, float]:
        dropouts.start(key)
        said = model.ask(source, text).shown
        return said, model.loss(source, text, text, smoothing=0.0)[0].item()

    (first, loss), (again, same), (other, different) = trained(5), trained(5), trained(6)
    assert torch.equal(first, again)
    assert loss == same
    assert not torch.equal(first, other)
    assert loss != different


@every
def test_the_loss_is_the_generators_mean_and_fifty_times_the_detectors(variant):
    model, (source, text) = made(variant), pairs()
    total, count = model.loss(source, text, text, smoothing=0.1)
    asked = model.ask(source, text)
    guessed = F.cross_entropy(model.logits(asked.hidden), asked.words, label_smoothing=0.1)
    real = asked.shown != PAD
    sure = model.detect(asked.shown, asked.segments)[real].sigmoid()
    detected = -torch.where(asked.replaced[real], sure, 1 - sure).log().mean()
    assert count == len(asked.words) > 3
    torch.testing.assert_close(total / count, guessed + 50 * detected, check_dtype=False, atol=1e-4, rtol=1e-5)


def test_accuracy_is_a_half_for_a_detector_that_knows_nothing_and_whole_for_one_that_knows_all():
    model, text = made(), chained(16, 20, symbols=12)
    source = torch.full((16, 1), END)
    asked = model.ask(source, text)
    replaced, words = int(asked.replaced.sum()), 16 * 20

    def accuracy(judged: Tensor) -> tuple[int, int]:
        model.detect = lambda ids, segments: judged
        return model.accuracy(source, text, text)

    of = replaced * (words - replaced)
    assert accuracy(torch.zeros(asked.shown.shape)) == (of // 2, of)
    assert accuracy(asked.replaced.float()) == (of, of)
    assert accuracy(-asked.replaced.float()) == (0, of)
    judged = torch.randn(asked.shown.shape)
    judged[:, [0, -1]] = 1e6  # marks are nobody's business
    suspects, others = judged[asked.replaced], judged[:, 1:-1][~asked.replaced[:, 1:-1]]
    assert accuracy(judged) == (sum(float(one) > float(other) for one in suspects for other in others), of)


def test_masks_are_filled_row_by_row():
    model = made()
    text = torch.tensor([[9, MASK, 11, MASK], [MASK, 12, PAD, PAD]])
    ids = torch.tensor([[CLASS, 9, MASK, 11, MASK, SEPARATOR], [CLASS, MASK, 12, SEPARATOR, PAD, PAD]])
    expected = model.guess(ids, torch.zeros_like(ids), torch.tensor([2, 4, 7]))
    torch.testing.assert_close(model.fill(text), expected)


def test_a_batch_without_words_is_no_question():
    model = made().float().train()
    nothing = torch.tensor([[PAD]])
    loss, count = model.loss(torch.tensor([[END]]), nothing, nothing, smoothing=0.0)
    loss.backward()
    assert (loss.item(), count) == (0.0, 0)
    assert model.accuracy(torch.tensor([[END]]), nothing, nothing) == (0, 0)


def test_gradients_added_by_the_kernels_are_those_of_autograd():
    model, (source, text) = accelerate(made().float(), own=True), pairs()
    model.loss(source, text, text, smoothing=0.0)[0].backward()
    expected = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    gradients = Gradients(list(model.parameters()))
    gradients.begin()
    model.loss(source, text, text, smoothing=0.0)[0].backward()
    for found, wanted in zip(gradients.end(), expected, strict=True):
        torch.testing.assert_close(found, wanted)


def test_save_and_load_and_a_copy_give_bit_identical_answers(tmp_path):
    model, other = made().float(), made(seed=9).float()
    checkpoint.write_whole(tmp_path / "saved", {"model.safetensors": checkpoint.weights(model)}, {})
    path = tmp_path / "saved" / "model.safetensors"
    checkpoint.set_weights(other, checkpoint.read_tensors(path, checkpoint.weights(other)))
    source, text = pairs()
    expected = model.loss(source, text, text, smoothing=0.0)[0]
    assert torch.equal(other.loss(source, text, text, smoothing=0.0)[0], expected)
    assert torch.equal(copy.deepcopy(model).loss(source, text, text, smoothing=0.0)[0], expected)


# ------------------------------------------------------------------------------------------------- the section


@every
@pytest.mark.parametrize("symbols", [23, 8_000])
def test_the_section_knows_how_many_weights_there_are(variant, symbols):
    for config in (ELECTRAConfig(**SIZES | VARIANTS[variant]), ELECTRAConfig(**VARIANTS[variant])):
        model = build(config, symbols, symbols, device="meta")
        assert all(parameter.is_meta for parameter in model.parameters())
        assert sum(parameter.numel() for parameter in model.parameters()) == config.parameters(symbols, symbols)


@pytest.mark.parametrize("generator", [0.001, 0.1, 0.25, 1 / 3, 0.77, 1.0])
@pytest.mark.parametrize("heads", [1, 3, 4, 12])
@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_a_generator_can_always_be_split_into_its_heads(generator, heads, positions):
    narrow = ELECTRAConfig(d_model=12 * heads, heads=heads, generator=generator, positions=positions).narrow
    assert narrow["width"] % narrow["heads"] == 0
    assert positions == "learned" or narrow["width"] // narrow["heads"] % 2 == 0
    assert 1 <= narrow["width"] <= 12 * heads


def test_the_generator_is_a_quarter_as_wide_unless_chosen():
    assert ELECTRAConfig().narrow == {"width": 32, "d_ff": 128, "heads": 1}


def test_a_recipe_may_name_it():
    recipe = presets.tiny().change({"model.kind": "electra"})
    assert isinstance(recipe.model, ELECTRAConfig)
    assert recipe.training.word_dropout == 0.0


def test_shape_comments_are_true():
    checker = ShapeChecker(Path(electra.__file__))
    model, (source, text) = made(), pairs()
    asked = model.ask(source, text)
    sizes = {"B": 4, "P": asked.shown.shape[1], "D": 16, "G": 8, "M": len(asked.words), "V": SYMBOLS}
    checker.run(lambda: model.loss(source, text, text, smoothing=0.0), r"(\w+\.)?\w+$", **sizes)
    assert len(checker.wanted) > 4
    assert checker.complaints() == []


@pytest.mark.slow
def test_it_learns_which_words_are_out_of_place():
    torch.manual_seed(1)
    config = ELECTRAConfig(layers=1, d_model=64, d_ff=64, heads=2, longest=32, dropout=0.0)
    model = build(config, 28, 28)
    nothing = torch.full((64, 1), END)

    def batch(step: int) -> tuple[Tensor, int]:
        text = chained(64, 16, seed=step)
        return model.loss(nothing, text, text, smoothing=0.0)

    teach(model, 200, batch, rate=5e-3)
    text = chained(64, 16, seed=10**6)
    right, of = model.accuracy(nothing, text, text)
    assert right / of > 0.75  # a half by chance; one word in ten is out of place in any case
