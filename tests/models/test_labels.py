"""Labels of texts and of words: generators whose every output is certain to be as long as it should be."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from jumok.config import presets
from jumok.config.recipe import find_section
from jumok.config.search import SearchOptions
from jumok.data.batches import Batch
from jumok.decoding.ensemble import Ensemble
from jumok.engines.torch_engine import TorchEngine
from jumok.kernels.modules import accelerate
from jumok.models import build, labels
from jumok.models.base import CLASS, END, PAD, SEPARATOR, SPECIALS, START, UNKNOWN
from jumok.models.bert import BERTConfig
from jumok.models.electra import ELECTRAConfig
from jumok.models.encoder import join
from jumok.models.labels import LabelsConfig, TaggerConfig
from jumok.nn.attention import watch
from jumok.nn.dropout import Dropouts
from jumok.storage import checkpoint
from jumok.training.objectives import next_token
from jumok.training.update import Gradients
from tests.models.test_bert import SIZES, asked, chained, copy_embedding, copy_layers, randomize, sizes_of, teach
from tests.support.helpers import SYMBOLS, ShapeChecker

LABELS = 13  # ids of the target vocabulary: five labels
KINDS = ("classifier", "tagger")
every = pytest.mark.parametrize("kind", KINDS)


def made(kind: str = "classifier", *, seed: int = 0, starts: tuple[int, ...] = (), **changes: Any) -> Any:
    """A small model in double, ready to evaluate, in which nothing is just 0 or 1."""
    torch.manual_seed(seed)
    model = randomize(build(find_section(kind)(**SIZES | changes), SYMBOLS, LABELS)).double().eval()
    if kind == "tagger":
        model.starts[list(starts)] = True
    return model


def sentences() -> tuple[Tensor, Tensor]:
    """Sources, the second a pair, the third short; targets as long as the tags of the longest, and its END."""
    source = torch.tensor([[9, 10, 11, 12, 13, END], [14, 9, SEPARATOR, 16, END, PAD], [UNKNOWN, 18, END, 0, 0, 0]])
    target = torch.tensor([[START, 8, 9, 10, 11, 12], [START, 8, 8, 8, PAD, PAD], [START, 9, 9, PAD, PAD, PAD]])
    return source, target


def logits(model: Any, source: Tensor, target: Tensor) -> Tensor:
    with torch.set_grad_enabled(model.training):
        return model.project(model.hidden(source, target))


def words(kind: str) -> list[int]:
    """How many labels each of the sentences gets."""
    return [1, 1, 1] if kind == "classifier" else [5, 3, 2]


def batch_of(source: Tensor, said: list[list[int]]) -> Batch:
    longest = max(map(len, said)) + 1
    answers = torch.tensor([[*row, END] + [PAD] * (longest - len(row) - 1) for row in said])
    target = torch.tensor([[START, *row] + [PAD] * (longest - len(row) - 1) for row in said])
    return Batch(source, target, answers, torch.arange(len(said)), int((answers != PAD).sum()))


# ------------------------------------------------------------------------------------------------ Hugging Face


@pytest.mark.filterwarnings("ignore")
@every
def test_labels_equal_those_of_a_hugging_face_bert_given_the_same_weights(kind):
    transformers = pytest.importorskip("transformers")
    ours = made(kind).float()
    config = transformers.BertConfig(**sizes_of(ours), num_labels=LABELS)
    sort = {"classifier": "BertForSequenceClassification", "tagger": "BertForTokenClassification"}[kind]
    theirs = getattr(transformers, sort)(config).eval()
    copy_embedding(theirs.bert.embeddings, ours.encoder.embedding)
    copy_layers(theirs.bert.encoder, ours.encoder.layers)
    theirs.classifier.load_state_dict(ours.label.state_dict())
    if kind == "classifier":
        theirs.bert.pooler.dense.load_state_dict(ours.pooler.dense.state_dict())
    source, target = sentences()
    ids, segments = labels.frame(source)
    expected = theirs(**asked(ids, segments)).logits
    found = logits(ours, source, target)
    found[..., END] = expected[..., END] = 0.0  # END is decided otherwise
    if kind == "classifier":
        torch.testing.assert_close(found[:, 0], expected, atol=1e-5, rtol=1e-5)
    else:
        torch.testing.assert_close(found[0, :5], expected[0, 1:6], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(found[1, :3], expected[1, [1, 2, 4]], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(found[2, :2], expected[2, 1:3], atol=1e-5, rtol=1e-5)


# ---------------------------------------------------------------------------------------------- what is read


def test_a_source_is_framed_as_a_text_is_joined_for_a_bert():
    source, _ = sentences()
    ids, segments = labels.frame(source)
    alone, first = join(torch.tensor([[END]]), source[:1])
    assert torch.equal(ids[:1], alone)
    assert torch.equal(segments[:1], first)
    pair, both = join(torch.tensor([[14, 9, END]]), torch.tensor([[16]]))
    assert torch.equal(ids[1:2, :-1], pair)
    assert torch.equal(segments[1:2, :-1], both)
    assert ids[1, -1] == PAD
    assert ids[:, 0].tolist() == [CLASS] * 3


def test_a_tagger_reads_the_first_subword_of_each_word():
    model = made("tagger", starts=(9, 11, 12))
    source, target = torch.tensor([[9, 10, 11, 12, 13, 13, END]]), torch.full((1, 4), START)
    states = model.encoder(*labels.frame(source))[0]
    torch.testing.assert_close(model.hidden(source, target)[0, :3, :-1], states[[1, 3, 4]])


def test_every_token_is_a_word_where_nobody_said_which_begin_one():
    source, target = sentences()
    plain, told = made("tagger"), made("tagger", starts=(UNKNOWN, *range(SPECIALS, SYMBOLS)))
    assert torch.equal(logits(plain, source, target), logits(told, source, target))


# ---------------------------------------------------------------------------------------------------- laws


@every
def test_the_end_is_certain_behind_the_last_label_and_impossible_before(kind):
    model, (source, target) = made(kind), sentences()
    model.label.weight.data.mul_(10.0)  # labels that are very sure of themselves
    gains = logits(model, source, F.pad(target, (0, 2))).log_softmax(dim=-1)
    for row, count in zip(gains, words(kind), strict=True):
        assert row[:count, END].max() < -50
        assert row[count:, END].abs().max() < 1e-12


@every
def test_stepping_gives_the_same_logits_as_teacher_forcing_also_beyond_the_end(kind):
    model, (source, target) = made(kind), sentences()
    together = logits(model, source, target)
    rows = torch.tensor([0, 0, 1, 2, 2, 2])
    state = model.start(source).select(rows)
    for t, token in enumerate(target.unbind(dim=1)):
        one, state = model.step(token[rows], state)
        torch.testing.assert_close(one, together[rows, t])


@every
def test_what_was_said_changes_nothing(kind):
    model, (source, target) = made(kind), sentences()
    assert torch.equal(logits(model, source, target), logits(model, source, torch.full_like(target, START)))
    longer = logits(model, source, F.pad(target, (0, 3)))
    torch.testing.assert_close(longer[:, :-3], logits(model, source, target))


@every
def test_padding_and_the_order_of_sentences_change_nothing(kind):
    model, (source, target) = made(kind), sentences()
    together = logits(model, source, target)
    torch.testing.assert_close(logits(model, F.pad(source, (0, 3)), target), together)
    torch.testing.assert_close(logits(model, source[2:, :3], target[2:]), together[2:])
    torch.testing.assert_close(logits(model, source.flip(0), target.flip(0)), together.flip(0))


@every
def test_every_parameter_gets_a_gradient(kind):
    model, (source, target) = made(kind).train(), sentences()
    logits(model, source, target).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@every
def test_the_loss_of_the_next_token_is_that_of_the_labels(kind):
    model, (source, target) = made(kind), sentences()
    said = [[8 + (row + place) % 5 for place in range(count)] for row, count in enumerate(words(kind))]
    total, _ = next_token(model, smoothing=0.0)(batch_of(source, said))
    gains = logits(model, source, target).log_softmax(dim=-1)
    expected = -sum(gains[row, place, label] for row, several in enumerate(said) for place, label in enumerate(several))
    torch.testing.assert_close(total, expected, check_dtype=False, atol=1e-5, rtol=1e-5)


@every
@pytest.mark.parametrize("width", [1, 3])
def test_search_finds_the_likeliest_labels_and_the_score_that_the_model_gives_them(kind, width):
    model = made(kind, seed=3, starts=(9, 11, 13, 14))
    sources = [[9, 10, 11, 12], [13, 10], [14, 9, 11]]
    found = TorchEngine(model).decode(sources, SearchOptions(beam=width, n_best=width))
    for source, several in zip(sources, found, strict=True):
        count = 1 if kind == "classifier" else sum(token in (9, 11, 13, 14) for token in source)
        gains = logits(model, torch.tensor([[*source, END]]), torch.full((1, count + 1), START)).log_softmax(-1)[0]
        best = gains[:count, SPECIALS:].argmax(dim=-1) + SPECIALS
        assert several[0].ids == (*best.tolist(), END)
        for one in several:
            assert one.token_scores == pytest.approx([float(gain[i]) for gain, i in zip(gains, one.ids, strict=True)])
    first = [several[0] for several in found]
    forced = TorchEngine(model).score([(source, one.body) for source, one in zip(sources, first, strict=True)])
    assert [one.score for one in forced] == pytest.approx([one.score for one in first])


def test_an_ensemble_of_a_model_with_itself_is_the_model():
    model, sources = made("tagger", seed=5), [[9, 10, 11], [12, 13]]
    alone = TorchEngine(model).decode(sources, SearchOptions(beam=3))
    together = TorchEngine(Ensemble([model, model])).decode(sources, SearchOptions(beam=3))
    assert [one[0].ids for one in together] == [one[0].ids for one in alone]


@every
def test_masks_of_dropout_are_a_function_of_the_key(kind):
    model, (source, target) = made(kind).train(), sentences()
    dropouts = Dropouts(model)

    def trained(key: int) -> Tensor:
        dropouts.start(key)
        return model.hidden(source, target)

    assert torch.equal(trained(1), trained(1))
    assert not torch.equal(trained(1), trained(2))


@every
def test_attention_is_that_of_the_encoder_and_labels_look_where_their_places_do(kind):
    model, (source, target) = made(kind, starts=(9, 11)), sentences()
    with watch(model) as weights:
        model.encoder(*labels.frame(source))
    found = model.attention(source, target)
    assert found.encoder.shape == (3, 2, 2, 6, 6)
    assert found.decoder.shape == (3, 0, 1, 6, 6)
    assert found.cross.shape == (3, 2, 2, 6, 6)
    for layer, one in enumerate(weights.values()):
        torch.testing.assert_close(found.encoder[:, layer], one[:, :, 1:, 1:])
        places = [0] if kind == "classifier" else [1, 3]  # 9 and 11 of the first sentence
        torch.testing.assert_close(found.cross[0, layer, :, : len(places)], one[0][:, places, 1:])
        assert found.cross[0, layer, :, len(places) :].abs().sum() == 0


@every
def test_gradients_added_by_the_kernels_are_those_of_autograd(kind):
    model, (source, _) = accelerate(made(kind).float(), own=True), sentences()
    batch = batch_of(source, [[8 + place % 5 for place in range(count)] for count in words(kind)])
    objective = next_token(model, smoothing=0.0)
    objective(batch)[0].backward()
    expected = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    gradients = Gradients(list(model.parameters()))
    gradients.begin()
    objective(batch)[0].backward()
    for found, wanted in zip(gradients.end(), expected, strict=True):
        torch.testing.assert_close(found, wanted)


@every
def test_weights_and_the_beginnings_of_words_are_saved_and_copied(kind, tmp_path):
    model, other = made(kind, starts=(9, 11)).float(), made(kind, seed=9).float()
    checkpoint.write_whole(tmp_path / "saved", {"model.safetensors": checkpoint.weights(model)}, {})
    path = tmp_path / "saved" / "model.safetensors"
    checkpoint.set_weights(other, checkpoint.read_tensors(path, checkpoint.weights(other)))
    assert ("starts" in checkpoint.weights(model)) == (kind == "tagger")
    assert torch.equal(logits(other, *sentences()), logits(model, *sentences()))
    assert torch.equal(logits(copy.deepcopy(model), *sentences()), logits(model, *sentences()))


@every
@pytest.mark.parametrize("teacher", [BERTConfig, ELECTRAConfig])
def test_the_encoder_of_a_bert_or_an_electra_fits_by_name(kind, teacher):
    weights = build(teacher(**SIZES), SYMBOLS, SYMBOLS).state_dict()
    learned = {name: value for name, value in weights.items() if name.startswith("encoder.")}
    model = build(find_section(kind)(**SIZES), SYMBOLS, LABELS)
    missing = model.load_state_dict(learned, strict=False)
    assert missing.unexpected_keys == []
    assert not [name for name in missing.missing_keys if name.startswith("encoder.")]


# ------------------------------------------------------------------------------------------------- the section


@every
@pytest.mark.parametrize("symbols", [(23, 13), (8_000, 20), (8_000, 8_000)])
def test_the_section_knows_how_many_weights_there_are(kind, symbols):
    for config in (find_section(kind)(**SIZES), find_section(kind)()):
        model = build(config, *symbols, device="meta")
        assert all(parameter.is_meta for parameter in model.parameters())
        assert sum(parameter.numel() for parameter in model.parameters()) == config.parameters(*symbols)


@every
def test_a_recipe_may_name_it_and_labels_then_have_a_vocabulary_of_their_own(kind):
    recipe = presets.tiny().change({"model.kind": kind})
    assert isinstance(recipe.model, LabelsConfig | TaggerConfig)
    assert not recipe.vocabulary.joint


def test_shape_comments_are_true():
    checker = ShapeChecker(Path(labels.__file__))
    source, target = sentences()
    target = target[:, :5]
    size = {"B": 3, "S": 6, "P": 7, "T": 5, "D": 16, "E": 17, "V": LABELS, "L": 2, "H": 2}
    for kind in KINDS:
        model = made(kind)
        checker.run(lambda model=model: logits(model, source, target), r"(\w+\.)?\w+$", **size)
        checker.run(lambda model=model: model.attention(source, target), r"(\w+\.)?\w+$", **size)
    assert len(checker.wanted) > 7
    assert checker.complaints() == []


# ------------------------------------------------------------------------------------------------- it learns


def pretrained() -> dict[str, Tensor]:
    """The encoder of a BERT that has read a little of the chained language."""
    torch.manual_seed(1)
    model = build(BERTConfig(layers=2, d_model=64, d_ff=64, heads=2, longest=32, dropout=0.0), 28, 28)
    nothing = torch.full((64, 1), END)

    def batch(step: int) -> tuple[Tensor, int]:
        text = chained(64, 16, seed=step)
        return model.loss(nothing, text, text, smoothing=0.0)

    weights = teach(model, 200, batch, rate=5e-3).state_dict()
    return {name: value for name, value in weights.items() if name.startswith("encoder.")}


def backwards(seed: int) -> tuple[Tensor, list[list[int]]]:
    """Chained sentences, half of them read from behind, and which of them are."""
    text = chained(32, 12, seed=seed)
    turned = torch.rand(32, generator=torch.Generator().manual_seed(seed)) < 0.5
    source = torch.where(turned[:, None], text.flip(1), text)
    return F.pad(source, (0, 1), value=END), [[8 + int(one)] for one in turned]


@pytest.mark.slow
def test_a_classifier_learns_from_few_examples_on_an_encoder_that_knows_the_language():
    right = {}
    for learned in ({}, pretrained()):
        torch.manual_seed(2)
        model = build(LabelsConfig(layers=2, d_model=64, d_ff=64, heads=2, longest=32, dropout=0.0), 28, LABELS)
        model.load_state_dict(learned, strict=False)
        objective = next_token(model, smoothing=0.0)
        teach(model, 80, lambda step, go=objective: go(batch_of(*backwards(step))), rate=3e-3)
        source, said = backwards(10**6)
        found = TorchEngine(model).decode([row[:-1].tolist() for row in source], SearchOptions(beam=1))
        assert all(len(several[0].ids) == 2 for several in found)
        right[bool(learned)] = sum(list(several[0].body) == one for several, one in zip(found, said, strict=True)) / 32
    assert right[True] > 0.9
    assert right[True] > right[False]


@pytest.mark.slow
def test_a_tagger_learns_the_label_of_a_word_from_its_neighbour():
    torch.manual_seed(2)
    model = build(TaggerConfig(layers=1, d_model=64, d_ff=64, heads=2, longest=32, dropout=0.0), 28, LABELS)
    model.starts[8:18] = True  # the other ten go on with a word

    def batch(seed: int) -> Batch:
        generator = torch.Generator().manual_seed(seed)
        source, said = torch.randint(8, 28, (32, 10), generator=generator), []
        source[:, 0] = 8
        for row in source.tolist():
            firsts = [place for place, token in enumerate(row) if token < 18]
            said.append([8 + row[place] % 2 + 2 * (row[place + 1 : place + 2] > [17]) for place in firsts])
        return batch_of(F.pad(source, (0, 1), value=END), said)

    objective = next_token(model, smoothing=0.0)
    teach(model, 200, lambda step: objective(batch(step)), rate=5e-3)
    unseen = batch(10**6)
    found = TorchEngine(model).decode([row[:-1].tolist() for row in unseen.source], SearchOptions(beam=1))
    wanted = [[token for token in row if token not in (PAD, END)] for row in unseen.labels.tolist()]
    assert [len(several[0].body) for several in found] == [len(one) for one in wanted]
    pairs = [
        pair for several, one in zip(found, wanted, strict=True) for pair in zip(several[0].body, one, strict=True)
    ]
    assert sum(one == two for one, two in pairs) / len(pairs) > 0.9
