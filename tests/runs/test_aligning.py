"""The head that aligns words is chosen when a run ends, without gold, and used from then on."""

import json
import shutil
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import jumok as package
from jumok.config import presets
from jumok.data import lexicon
from jumok.data.corpora import Pair
from jumok.data.made import phrasebook
from jumok.data.store import Filters, build
from jumok.errors import ModelFileError
from jumok.evaluation.alignment import alignment_error_rate
from jumok.evaluation.linking import find_evidence, link
from jumok.models.base import Attention
from jumok.runs.aligning import choose_head
from jumok.runs.averaging import average_run
from jumok.runs.choose import choose
from jumok.runs.experiment import train
from jumok.runs.preparation import add_shortlist
from jumok.stopping import NEVER
from jumok.storage import bundle
from jumok.storage.labels import set_languages
from jumok.text.vocabulary import Vocabularies, Vocabulary
from tests.conftest import MICRO
from tests.storage.test_checkpoint import relist


@pytest.fixture(scope="module")
def phrases(tmp_path_factory):
    """5,000 phrases with their lexicon."""
    some = phrasebook.phrases("train", 5_000, seed=1)
    pairs = [Pair(phrase.english, phrase.korean, line) for line, phrase in enumerate(some)]
    joint = Vocabulary.train([text for pair in pairs for text in pair[:2]], size=2_000)
    vocabularies = Vocabularies(joint, joint)
    store = build(pairs, vocabularies, Filters(100, 9.0), tmp_path_factory.mktemp("store"), identity="phrases")
    return vocabularies, store, NEVER.finish(lexicon.learn(store, (len(joint), len(joint))))


class Planted:
    """A model of 3 layers and 4 heads whose attention follows the lexicon in one head and is random in the others."""

    def __init__(self, table: lexicon.Lexicon, planted: tuple[int, int]) -> None:
        self.table, self.planted = table, planted

    def attention(self, source: torch.Tensor, target: torch.Tensor) -> Attention:
        generator = torch.Generator().manual_seed(int(source.sum()))
        rows, columns = target.shape[1], source.shape[1]
        cross = torch.rand(1, 3, 4, rows, columns, generator=generator).softmax(dim=-1)
        given = find_evidence(self.table, source[0, :-1].tolist(), target[0, 1:].tolist())
        assert given is not None
        weights = torch.from_numpy(given[0] * given[1] + 1e-6)
        cross[0, *self.planted, : rows - 1, : columns - 1] = (weights / weights.sum(dim=-1, keepdim=True)).float()
        return Attention(cross[:, :, :, :0], cross[:, :, :, :0], cross)


@pytest.mark.parametrize("planted", [(0, 3), (2, 1)])
def test_the_head_that_follows_the_lexicon_is_chosen(phrases, planted):
    _, store, table = phrases
    model = Planted(table, planted)

    def attend(source: list[int], target: list[int]) -> SimpleNamespace:
        read, fed = torch.tensor([[*source, 3]]), torch.tensor([[2, *target]])
        return SimpleNamespace(cross=model.attention(read, fed).cross[0])

    engine: Any = SimpleNamespace(attention=attend)
    assert choose_head(engine, store, table) == dict(zip(("layer", "head"), planted, strict=True))


def test_without_probabilities_or_attention_no_head_is_chosen(phrases):
    _, store, table = phrases
    empty = SimpleNamespace(cross=torch.zeros(0, 0, 1, 1))
    engine: Any = SimpleNamespace(attention=lambda *ids: empty)
    assert choose_head(engine, store, table) is None
    older = lexicon.Lexicon(table.begins, table.targets, table.common)
    assert choose_head(engine, store, older) is None


def test_a_lexicon_alone_aligns_most_words_of_the_phrasebook(phrases):
    vocabularies, _, table = phrases
    links, gold = [], []
    for phrase in phrasebook.phrases("test", 200):
        sides = vocabularies.source.encode(phrase.english), vocabularies.target.encode(phrase.korean)
        pieces = [vocabularies.source.pieces(ids) for ids in sides]
        blind = np.full((len(sides[1]), len(sides[0])), 1.0 / len(sides[0]))
        links.append(link(blind, *pieces, find_evidence(table, *sides)))
        gold.append(set(phrase.alignment))
    assert alignment_error_rate(links, gold) < 0.26


# ------------------------------------------------------------------------------------------ runs


def test_a_finished_run_names_its_aligning_head_and_the_translator_uses_it(micro, monkeypatch):
    saved = bundle.read(micro)
    card = json.loads((micro / "model" / "card.json").read_bytes())
    assert saved.aligning == (card["aligning"]["layer"], card["aligning"]["head"])
    model = package.load(micro, engine="torch")
    asked = []
    real = model.engine.align
    monkeypatch.setattr(model.engine, "align", lambda pairs, *chosen: asked.append(chosen) or real(pairs, *chosen))
    translation = model.translate("a b c", align=True)
    assert asked == [saved.aligning]
    assert model.align(["a b c"], [translation.text]) == [translation.alignment]


def test_the_weights_are_those_of_the_chosen_head(micro):
    model = package.load(micro, engine="torch")
    source, target = model.vocabularies.source.encode("a b c"), model.vocabularies.target.encode("c b")
    cross = model.engine.attention(source, target).cross
    for layer, head in np.ndindex(2, 2):
        [weights] = model.engine.align([(source, target)], layer, head)
        torch.testing.assert_close(torch.from_numpy(weights), cross[layer, head])


def test_a_model_of_an_earlier_version_gets_its_head_with_its_shortlist(own_micro):
    model = own_micro / "model"
    card = json.loads((model / "card.json").read_bytes())
    chosen = card.pop("aligning")
    (model / "card.json").write_text(json.dumps(card))
    (model / lexicon.FILE).unlink()
    relist(model)
    assert bundle.read(own_micro).aligning is None
    assert package.load(own_micro).translate("a b c", align=True).alignment is not None
    add_shortlist(own_micro)
    assert bundle.read(own_micro).aligning == (chosen["layer"], chosen["head"])
    assert bundle.read(own_micro).card.keys() == {*card, "aligning"}


def test_a_run_that_learns_no_shortlist_has_no_aligning_head(tmp_path):
    plain = {key: value for key, value in MICRO.items() if not key.startswith("model.")}
    changes = plain | {"model.kind": "rnn", "model.d_model": 16, "training.steps": 2}
    run = train(recipe=presets.tiny().change(changes), out=tmp_path / "run")
    assert bundle.read(run.folder).aligning is None


@pytest.mark.parametrize(
    "given", [1, {}, {"layer": 0}, {"layer": 2, "head": 0}, {"layer": 0, "head": 2}, {"layer": -1, "head": 0},
              {"layer": True, "head": 0}, {"layer": 0, "head": 0, "more": 1}, {"layer": "0", "head": 0}],
)  # fmt: skip
def test_a_card_that_names_no_head_of_the_model_is_refused(own_micro, given):
    model = own_micro / "model"
    card = json.loads((model / "card.json").read_bytes())
    (model / "card.json").write_text(json.dumps(card | {"aligning": given}))
    relist(model)
    with pytest.raises(ModelFileError, match="aligning"):
        bundle.read(own_micro)


def test_the_mean_of_checkpoints_has_the_shortlist_of_its_run_and_a_head_of_its_own(own_micro, tmp_path):
    shortlist = (own_micro / "model" / lexicon.FILE).read_bytes()
    head = json.loads((own_micro / "model" / "card.json").read_text())["aligning"]
    folder = average_run(own_micro, last=2, out=tmp_path / "mean")
    assert (folder / lexicon.FILE).read_bytes() == shortlist
    chosen = bundle.read(folder).aligning
    assert chosen is not None
    assert package.load(folder).translate("a b", align=True).alignment is not None
    shutil.rmtree(own_micro / "data")  # then those of the finished model are taken
    folder = average_run(own_micro, last=2, out=tmp_path / "without text")
    assert (folder / lexicon.FILE).read_bytes() == shortlist
    assert bundle.read(folder).aligning == (head["layer"], head["head"])
    shutil.rmtree(own_micro / "model")
    folder = average_run(own_micro, last=2, out=tmp_path / "without a model")
    assert not (folder / lexicon.FILE).exists()
    assert bundle.read(folder).aligning is None


def test_a_run_that_begins_with_another_has_its_languages_unless_its_own_are_known(own_micro):
    set_languages(own_micro, "en", "de")
    assert choose("a.txt", "b.txt", begin=own_micro).languages.pair == ("en", "de")
    assert choose("a.txt", "b.txt", begin=own_micro, source_language="fr").languages.pair == ("fr", "de")
    assert choose("train.fr", "train.ko", begin=own_micro).languages.pair is None  # the names of the files say more
    assert choose("a.txt", "b.txt").languages.pair is None
