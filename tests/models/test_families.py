"""Every kind of model by the same way: trained, stopped, gone on with, loaded, asked; nothing special for any."""

from pathlib import Path

import pytest

import jumok
from jumok.config import presets
from jumok.config.kinds import KINDS
from jumok.config.recipe import Recipe
from jumok.errors import Resumable, UsageError
from jumok.runs.choose import choose
from jumok.storage import checkpoint
from jumok.translator import Translator

ALL = {"training.validations": 2, "training.valid_pairs": 12, "training.tokens_per_update": 256, "model.d_model": 16}
HEADS = {"model.layers": 1, "model.heads": 2}
TRANSLATORS: dict[str, dict[str, object]] = {
    "rnn": {},
    "convs2s": {"model.encoder_layers": 1, "model.decoder_layers": 1},
    "bytenet": {"model.encoder_sets": 1, "model.decoder_sets": 1},
    "gpt": HEADS,
    "memory": {},
}
TEXTS: dict[str, dict[str, object]] = {
    "gpt": HEADS,
    "bert": HEADS,
    "electra": HEADS,
    "memory": {"model.memory": "words"},
}
LINES = [f"{who} {does} {what}." for who in ("a man", "a dog") for does in ("sees", "has") for what in ("tea", "a hat")]


def recipe(kind: str, text: Path | None = None) -> Recipe:
    """A recipe of a few updates."""
    if text is not None:
        changes = {"vocabulary.size": 300, "vocabulary.at_most": True, "data.stretch": 40, **ALL, **TEXTS[kind]}
        return choose(model=kind, text=str(text), steps=4, changes=changes)
    corpus = {"data.pairs": 300, "decoding.extra_length": 5, "data.hold_out": 20}
    return choose(model=kind, corpus="copy", steps=4, changes={**corpus, **ALL, **TRANSLATORS[kind]})


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(LINES * 12) + "\n")
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory, text) -> dict[str, Path]:
    """A finished run of every kind: NAME translates, NAME-text was trained on a text."""
    folder = tmp_path_factory.mktemp("families")
    made = {kind: jumok.train(recipe=recipe(kind), out=folder / kind).folder for kind in TRANSLATORS}
    return made | {
        f"{kind}-text": jumok.train(recipe=recipe(kind, text), out=folder / f"{kind}-text").folder for kind in TEXTS
    }


def bytes_of(folder: Path) -> dict[str, bytes]:
    """What a run leaves that depends on every update."""
    files = [folder / "losses.tsv", folder / "model" / "model.safetensors"]
    files += sorted((folder / "checkpoints" / "step-00000004").glob("*.safetensors"))
    return {path.name: path.read_bytes() for path in files}


@pytest.mark.parametrize("name", [*TRANSLATORS, *(f"{kind}-text" for kind in TEXTS)])
def test_9_stop_and_resume_end_with_the_same_bytes_whatever_the_model(name, runs, text, tmp_path):
    kind, _, of_text = name.partition("-")
    chosen, seen = recipe(kind, text if of_text else None), []

    def watch(event) -> None:
        seen.extend([event["step"]] if event["event"] == "step" else [])

    with pytest.raises(Resumable):
        jumok.train(recipe=chosen, out=tmp_path / "run", sinks=[watch], stop=lambda: 3 in seen)
    jumok.train(recipe=chosen, out=tmp_path / "run")
    assert bytes_of(tmp_path / "run") == bytes_of(runs[name])


@pytest.mark.parametrize("kind", TRANSLATORS)
def test_every_translator_searches_streams_scores_and_shows_what_it_looks_at(kind, runs):
    model = Translator.load(runs[kind], engine="auto")
    texts = ["a b c d", "e f", "g"]
    greedy = model.translate(texts, beam=1)
    assert [one.text for one in model.translate(texts, beam=1, details=False)] == [one.text for one in greedy]
    for one in model.translate(texts, beam=3, n_best=3):
        scores = [one.score, *(other.score for other in one.alternatives)]
        assert scores == sorted(scores, reverse=True)
        (forced,) = model.engine.score(
            [(model.vocabularies.source.encode(one.source), model.vocabularies.target.encode(one.text))],
            length_penalty=model.recipe.decoding.length_penalty,
        )
        if one.tokens[-1] == "</s>" and "".join(model.stream(one.source)) == one.text:
            assert forced.log_probability == pytest.approx(one.log_probability, abs=1e-3)
    assert "".join(model.stream(texts[0])) == greedy[0].text
    if kind == "bytenet":  # it has none
        return
    view = model.attention(texts[0], "a b")
    assert all(abs(getattr(view, part).sum(-1) - 1.0).max() < 1.01 for part in view.kinds)


@pytest.mark.parametrize("kind", TRANSLATORS)
def test_every_translator_answers_at_the_command_line(kind, runs, jumok, tmp_path):
    answer = jumok("translate", runs[kind], "a b c", "--beam", "2", "--n-best", "2")
    assert answer.code == 0, answer.err
    assert len(answer.out.strip("\n").split("\n")) == 2
    (tmp_path / "a").write_text("a b\nc\n")
    (tmp_path / "b").write_text("a b\nc d\n")
    assert jumok("evaluate", runs[kind], "--source", tmp_path / "a", "--target", tmp_path / "b").code == 0
    assert kind in jumok("model", "info", runs[kind]).out


def test_a_model_without_attention_says_so(runs, jumok):
    for arguments in (["look", runs["bytenet"], "a b"], ["translate", runs["bytenet"], "a b", "--align"]):
        answer = jumok(*arguments)
        assert answer.code == 2
        assert "no attention" in answer.err


def test_what_attention_a_model_has_can_be_looked_at(runs, jumok):
    for kind in ("rnn", "convs2s", "gpt"):
        answer = jumok("look", runs[kind], "a b c")
        assert answer.code == 0, answer.err
        assert "a b c →" in answer.out


@pytest.mark.parametrize("kind", ["bert"])
def test_words_are_filled_in(kind, runs, jumok):
    answer = jumok("fill", runs[f"{kind}-text"], "a man <mask> tea.", "--n-best", "3")
    assert answer.code == 0, answer.err
    assert len(answer.out.split("  ")) == 3
    assert jumok("fill", runs[f"{kind}-text"], "no hole").code == 2
    assert "jumok fill" in jumok("generate", runs[f"{kind}-text"], "a man").err


@pytest.mark.parametrize("kind", ["gpt", "memory"])
def test_a_text_is_gone_on_with(kind, runs, jumok):
    answer = jumok("generate", runs[f"{kind}-text"], "a man", "--length", "5")
    assert answer.code == 0, answer.err
    assert answer.out.startswith("a man")


def labelled(folder: Path, *, tags: bool) -> tuple[str, str]:
    """Sentences, and whether there is tea in them, or which words are verbs."""
    lines = LINES * 6
    marks = {"sees": "VERB", "has": "VERB"}
    labels = [" ".join(marks.get(word, "O") for word in line.split()) for line in lines]
    if not tags:
        labels = ["tea" if "tea" in line else "no-tea" for line in lines]
    for name, content in (("text", lines), ("labels", labels)):
        (folder / name).write_text("\n".join(content) + "\n")
    return str(folder / "text"), str(folder / "labels")


@pytest.mark.parametrize("begin", ["bert", "electra"])
@pytest.mark.parametrize("kind", ["classifier", "tagger"])
def test_a_pretrained_encoder_learns_labels(kind, begin, runs, tmp_path):
    source, target = labelled(tmp_path, tags=kind == "tagger")
    before = checkpoint.weights(Translator.load(runs[f"{begin}-text"]).model)
    changes = {"training.validations": 2, "training.tokens_per_update": 512, "data.hold_out": 10}
    run = jumok.train(
        source=source, target=target, valid_source=source, valid_target=target, model=kind,
        begin=runs[f"{begin}-text"], steps=200, changes=changes, out=tmp_path / "run",
    )  # fmt: skip
    assert run.scores["accuracy"] > 90.0
    model = Translator.load(run.folder)
    (same,) = {len(model.vocabularies.source), len(Translator.load(runs[f"{begin}-text"]).vocabularies.source)}
    assert same > 264
    words = model.translate("a dog sees a hat.").text.split()
    assert words == (["no-tea"] if kind == "classifier" else ["O", "O", "VERB", "O", "O"])
    inherited = [name for name, tensor in checkpoint.weights(model.model).items() if name in before]
    assert len(inherited) > 10


def test_weights_that_fit_nowhere_are_told(runs, tmp_path):
    with pytest.raises(UsageError, match="no weight of a rnn fits"):
        jumok.train(corpus="copy", model="convs2s", begin=runs["rnn"], steps=2, out=tmp_path / "run",
                    changes={"model.d_model": 24})  # fmt: skip


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_recipe_of_every_model_comes_back_from_its_file(kind, tmp_path):
    made = presets.get("tiny").change({"model.kind": kind})
    (tmp_path / "recipe.toml").write_text(made.to_toml())
    assert presets.get(str(tmp_path / "recipe.toml")) == made
