"""An exported model gives the probabilities of the model it was, in another engine; the rest is refused by name."""

import ctranslate2
import numpy as np
import pytest
import torch

from jumok.data.made import phrasebook
from jumok.engines.torch_engine import TorchEngine
from jumok.errors import UsageError
from jumok.interop.ctranslate2 import export
from jumok.interop.ctranslate2_library import find_obstacle
from jumok.models import build
from jumok.storage import checkpoint
from jumok.text.vocabulary import Vocabularies, Vocabulary
from tests.support.helpers import VARIANTS, small

EXPORTED = [
    "paper", "pre-norm", "learned", "rotary", "nowhere", "plain-dot", "gelu", "deep-encoder", "no-bias", "untied",
    "target-tied",
]  # fmt: skip
SENTENCES = ["I drank two cups of coffee.", "The cat sleeps.", "No", "My friend reads a book in the library today."]


@pytest.fixture(scope="module")
def vocabularies():
    pairs = phrasebook.phrases("train", 400)
    texts = [text for pair in pairs for text in (pair.english, pair.korean)]
    joint = Vocabulary.train(texts, size=700)
    return Vocabularies(joint, joint)


def model_of(variant, vocabularies, **changes):
    torch.manual_seed(0)
    symbols = len(vocabularies.target)
    return build(small(variant, **({"d_k": None, "d_v": None} | changes)), symbols, symbols).float().eval()


def exported(model, vocabularies, folder, **options):
    arrays = {name: tensor.numpy() for name, tensor in checkpoint.weights(model).items()}
    export(arrays, model.config, vocabularies, folder, **options)
    return ctranslate2.Translator(str(folder), compute_type=options.get("precision", "float32"), intra_threads=1)


@pytest.mark.parametrize("changes", [{}, {"norm_place": "pre", "positions": "rotary"}], ids=str)
@pytest.mark.parametrize("variant", EXPORTED)
def test_an_exported_model_gives_every_token_the_same_probability(variant, changes, vocabularies, tmp_path):
    model = model_of(variant, vocabularies, **changes)
    theirs = exported(model, vocabularies, tmp_path / "ct2")
    sources = [vocabularies.source.encode(text) for text in SENTENCES]
    targets = [vocabularies.target.encode(text) for text in reversed(SENTENCES)]
    pieces = vocabularies.target.pieces
    found = theirs.score_batch([pieces(ids) for ids in sources], [pieces(ids) for ids in targets])
    for ours, other in zip(TorchEngine(model).score(list(zip(sources, targets, strict=True))), found, strict=True):
        assert other.tokens == pieces(ours.ids)
        np.testing.assert_allclose(ours.token_scores, other.log_probs, atol=2e-4)


def test_integers_of_eight_bits_are_close(vocabularies, tmp_path):
    model = model_of("rotary", vocabularies, norm_place="pre", d_model=32)
    theirs = exported(model, vocabularies, tmp_path / "ct2", precision="int8")
    source, target = (vocabularies.source.encode(text) for text in SENTENCES[:2])
    pieces = vocabularies.target.pieces
    (found,) = theirs.score_batch([pieces(source)], [pieces(target)])
    (ours,) = TorchEngine(model).score([(source, target)])
    assert (
        np.abs(np.subtract(ours.token_scores, found.log_probs)).mean() < 0.4
    )  # a narrow random model is the worst case
    assert (tmp_path / "ct2" / "model.bin").stat().st_size < 2 * sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("variant", sorted(set(VARIANTS) - set(EXPORTED)))
def test_what_has_no_counterpart_is_refused_by_name(variant, vocabularies, tmp_path):
    config = small(variant)
    assert find_obstacle(config) is not None
    with pytest.raises(UsageError, match="CTranslate2"):
        export({}, config, vocabularies, tmp_path)


def test_every_variant_that_is_exported_has_no_find_obstacle():
    assert [variant for variant in EXPORTED if find_obstacle(small(variant))] == []


def test_exporting_leaves_the_model_as_it_was(vocabularies, tmp_path):
    model = model_of("paper", vocabularies)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    exported(model, vocabularies, tmp_path / "ct2", precision="int8")
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_a_run_is_exported_by_a_verb(jumok, micro, tmp_path):
    answer = jumok("export", "ctranslate2", micro, "--out", tmp_path / "ct2", "--precision", "int8")
    assert (answer.code, answer.out) == (0, f"{tmp_path / 'ct2'}\n")
    assert (tmp_path / "ct2" / "model.bin").exists()
    assert jumok("export", "ctranslate2", micro, "--out", tmp_path / "x", "--precision", "int3").code == 2
