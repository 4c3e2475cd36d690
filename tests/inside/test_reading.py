"""The second reading: every value is the model's own, for every kind of model and every variant of its parts."""

from random import Random

import numpy as np
import pytest
import torch

from jumok.inside.edits import Edits
from jumok.inside.passes import Edited, read, to_tensors
from jumok.models.base import END
from jumok.models.encoder import MaskedModel, join
from jumok.models.gpt import Line
from jumok.translator import Translator
from tests.house.test_house import ROOT
from tests.support import golden
from tests.support.helpers import OTHERS, VARIANTS, made, two_sentences

GOLDEN = [folder for folder in golden.folders() if folder.name != "bytenet"]


@pytest.mark.parametrize("variant", [*VARIANTS, *OTHERS])
@pytest.mark.parametrize("precision", ["double", "float"])
def test_the_last_value_of_a_reading_is_the_models_bit_for_bit(variant, precision):
    model = getattr(made(variant), precision)()
    source, target = two_sentences()
    with torch.no_grad():
        reading = read(model, source, target)
        hidden = model.hidden(source, target)
        assert torch.equal(reading.hidden, hidden)
        assert torch.equal(reading.logits, model.project(hidden))
        assert torch.equal(reading.blocks["softmax"]["output"], model.project(hidden).softmax(dim=-1))


@pytest.mark.parametrize("variant", [*VARIANTS, *(name for name in OTHERS if not name.startswith("gpt"))])
def test_the_weights_of_a_reading_are_those_that_the_model_shows(variant):
    model, (source, target) = made(variant), two_sentences()
    with torch.no_grad():
        reading, shown = read(model, source, target), model.attention(source, target)
    for kind in ("encoder", "decoder", "cross"):
        if getattr(shown, kind).shape[1]:
            assert torch.equal(reading.weights(kind), getattr(shown, kind)), kind
        else:
            assert kind not in reading.maps


@pytest.mark.parametrize("variant", [name for name in OTHERS if name.startswith("gpt")])
def test_the_line_of_a_decoder_alone_holds_the_maps_that_the_model_shows(variant):
    model, (source, target) = made(variant), two_sentences()
    with torch.no_grad():
        reading, shown = read(model, source, target), model.attention(source, target)
    line, maps = Line.of(source, target), reading.weights("decoder")
    for sentence in range(len(source)):
        places = line.places[sentence]
        assert torch.equal(maps[sentence][:, :, places][:, :, :, places], shown.decoder[sentence])
        length = int((source[sentence] != 0).sum())
        assert torch.equal(maps[sentence][:, :, places, :length], shown.cross[sentence][..., :length])


@pytest.mark.parametrize("variant", [*VARIANTS, "gpt", "gpt-rotary"])
def test_steps_of_an_edited_model_without_edits_are_teacher_forcing(variant):
    model, (source, target) = made(variant), two_sentences()
    with torch.no_grad():
        edited = Edited(model, Edits())
        expected, state = model.project(model.hidden(source, target)), edited.start(source)
        for t in range(target.shape[1]):
            logits, state = edited.step(target[:, t], state)
            torch.testing.assert_close(logits, expected[:, t])


def plain_weights(model, source, target, kind, layer):
    """The weights of one attention by torch's own softmax over the model's own projections, without a reading."""
    seen = {}
    attention = {"encoder": model.encoder, "decoder": model.decoder, "cross": model.decoder}[kind][layer]
    attention = attention.cross if kind == "cross" else attention.attention
    hook = attention.register_forward_hook(lambda module, given, result: seen.update(given=given))
    try:
        model.hidden(source, target)
    finally:
        hook.remove()
    x = seen["given"][0]
    if kind == "cross":
        memory = seen["given"][1]
        q, (k, _) = attention.query(x), attention.memory(memory).split(attention.memory.blocks, dim=-1)
    else:
        q, k, _ = attention.qkv(x).split(attention.qkv.blocks, dim=-1)
    q, k = (side[0].unflatten(-1, (attention.heads, -1)).transpose(0, 1) for side in (q, k))
    if getattr(attention, "rotary", None) is not None:
        q, k = attention.rotary(q[None], 0)[0], attention.rotary(k[None], 0)[0]
    scores = torch.einsum("hqd,hkd->hqk", q, k) / q.shape[-1] ** 0.5
    if kind == "decoder":
        scores = scores + torch.full(scores.shape[-2:], -torch.inf).triu(1)
    return torch.softmax(scores, dim=-1)


def test_the_numbers_of_200_random_sentences_layers_and_heads_are_torchs():
    random, checked = Random(24), 0
    trained = [folder for folder in golden.folders() if folder.name in ("paper", "tiny")]
    models = [Translator.load(folder, engine="torch").model for folder in trained]
    models += [made(name).float() for name in ("paper", "pre-norm", "rotary", "learned", "gelu")]
    with torch.no_grad():
        while checked < 200:
            model = random.choice(models).eval()
            symbols = len(model.matrix)
            source, target = (
                [random.randrange(8, min(symbols, 260)) for _ in range(random.randint(1, 12))] for _ in range(2)
            )
            pair = to_tensors([token % symbols for token in source], [token % symbols for token in target])
            kind = random.choice(["encoder", "decoder", "cross"])
            layers = model.encoder if kind == "encoder" else model.decoder
            layer = random.randrange(len(layers))
            head = random.randrange(layers[layer].attention.heads)
            reading = read(model, *pair)
            expected = plain_weights(model, *pair, kind, layer)
            torch.testing.assert_close(reading.weights(kind)[0, layer, head], expected[head], rtol=1e-5, atol=1e-6)
            name = f"decoder.{layer}.cross" if kind == "cross" else f"{kind}.{layer}.attention"
            values = reading.blocks[name]
            mixed = expected[head] @ values["v"][0, head]
            torch.testing.assert_close(values["mixed"][0, head], mixed, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(values["weights"].sum(dim=-1), torch.ones(values["weights"].shape[:-1]))
            checked += 1


@pytest.mark.parametrize("folder", GOLDEN, ids=lambda folder: folder.name)
def test_golden_models_of_every_kind_with_attention_are_read_as_they_are(folder):
    model, random = Translator.load(folder, engine="torch").model.eval(), Random(folder.name)
    symbols = min(parameter.shape[0] for name, parameter in model.named_parameters() if parameter.dim() == 2 and
                  parameter.shape[0] >= 20) if folder.name in ("classifier", "tagger") else 30  # fmt: skip
    for _ in range(10):
        source, target = ([random.randrange(8, symbols) for _ in range(random.randint(2, 9))] for _ in range(2))
        with torch.no_grad():
            if isinstance(model, MaskedModel):
                pair = torch.tensor([[END]]), torch.tensor([source])
                reading = read(model, *pair)
                assert torch.equal(reading.hidden, model.encode(*join(*pair)))
                continue
            if folder.name in ("classifier", "tagger"):
                target = [8]
            pair = to_tensors(source, target)
            reading, shown = read(model, *pair), model.attention(*pair)
            assert torch.equal(reading.hidden, model.hidden(*pair))
            assert reading.maps
            if set(reading.tokens) == {"source", "target"}:
                for kind in reading.maps:
                    assert torch.equal(reading.weights(kind), getattr(shown, kind))


def test_one_block_is_computed_again_by_hand_in_numpy():
    model, (source, target) = made("paper"), two_sentences()
    with torch.no_grad():
        blocks = read(model, source[:1], target[:1]).blocks
    layer = model.decoder[0]
    x = blocks["target.positions"]["output"][0].numpy()
    weight, bias = layer.attention.qkv.weight.detach().numpy(), layer.attention.qkv.bias.detach().numpy()
    packed = x @ weight.T + bias
    width, heads = 16, 2
    mixed = []
    for head in range(heads):
        q, k, v = (packed[:, part * width + head * 8 : part * width + head * 8 + 8] for part in range(3))
        scores = q @ k.T / np.sqrt(8)
        scores[np.triu_indices(len(x), 1)] = -np.inf
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(blocks["decoder.0.attention"]["weights"][0, head].numpy(), weights, atol=1e-12)
        mixed.append(weights @ v)
    out = layer.attention.output
    attended = np.concatenate(mixed, axis=1) @ out.weight.detach().numpy().T + out.bias.detach().numpy()
    np.testing.assert_allclose(blocks["decoder.0.attention"]["output"][0].numpy(), attended, atol=1e-12)
    total = x + attended
    np.testing.assert_allclose(blocks["decoder.0.attention.add"]["output"][0].numpy(), total, atol=1e-12)
    norm = layer.attention_path.norm
    mean, deviation = total.mean(axis=1, keepdims=True), np.sqrt(total.var(axis=1, keepdims=True) + norm.eps)
    normed = (total - mean) / deviation * norm.weight.detach().numpy() + norm.bias.detach().numpy()
    values = blocks["decoder.0.attention.norm"]
    np.testing.assert_allclose(values["output"][0].numpy(), normed, atol=1e-12)
    np.testing.assert_allclose(values["mean"][0].numpy(), mean, atol=1e-12)
    np.testing.assert_allclose(values["deviation"][0].numpy(), deviation, atol=1e-12)
    fed, network = blocks["decoder.0.feed_forward"], layer.feed_forward
    inner = fed["input"][0].numpy() @ network.inner.weight.detach().numpy().T + network.inner.bias.detach().numpy()
    np.testing.assert_allclose(fed["inner"][0].numpy(), inner, atol=1e-12)
    np.testing.assert_allclose(fed["active"][0].numpy(), np.maximum(inner, 0.0), atol=1e-12)


def test_embeddings_are_rows_of_the_table_times_the_root_of_the_width():
    model, (source, target) = made("paper"), two_sentences()
    with torch.no_grad():
        blocks = read(model, source, target).blocks
    row = model.source.weight[source[0, 1]]
    assert torch.equal(blocks["source.embedding"]["row"][0, 1], row)
    assert torch.equal(blocks["source.embedding"]["scaled"][0, 1], row * 4.0)
    position = blocks["source.positions"]["position"]
    assert position[1, 0] == pytest.approx(np.sin(1.0))
    assert position[1, 1] == pytest.approx(np.cos(1.0))


def test_neither_parts_nor_models_know_of_readings():
    for path in [*(ROOT / "nn").glob("*.py"), *(ROOT / "models").glob("*.py")]:
        assert "jumok.inside" not in path.read_text(encoding="utf-8"), path
