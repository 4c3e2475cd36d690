"""Texts that are learnt themselves, answers and labels: from files to batches, scorers and verbs."""

import gzip
from pathlib import Path

import pytest
import torch

from jumok.config import presets
from jumok.config.recipe import find_section
from jumok.config.sections import DataConfig
from jumok.data import generated, passages, resolve
from jumok.data.batches import teacher_force
from jumok.data.corpora import Pair
from jumok.data.made import stories
from jumok.engines.torch_engine import TorchEngine
from jumok.errors import DataError, UsageError
from jumok.models import build
from jumok.models.base import END, PAD, START
from jumok.runs.choose import choose
from jumok.runs.experiment import train
from jumok.text.vocabulary import SEPARATOR, Vocabularies, Vocabulary
from jumok.training.validation import AnswerScorer, Scorer, TextScorer, scorer_of
from jumok.translator import Translator

VERSE = [
    "Full fathom five thy father lies;",
    "",
    "Of his bones are coral made;",
    "Those are pearls that were his eyes:",
]


# ------------------------------------------------------------------ text to stretches


@pytest.mark.parametrize("size", [8, 13, 40, 1_000])
def test_stretches_together_are_the_text(size):
    made = list(passages.split(VERSE, size))
    assert "".join(made) == "\n".join([*VERSE, ""])
    assert all(len(stretch) <= size for stretch in made)


def test_stretches_are_cut_between_words():
    made = list(passages.split(VERSE, 13))
    words = " ".join(VERSE).split()
    assert [word for stretch in made for word in stretch.split()] == words


def test_an_endless_word_is_cut_all_the_same():
    assert list(passages.split(["x" * 25], 10)) == ["x" * 10, "x" * 10, "x" * 5 + "\n"]


def test_halves_together_are_the_segment():
    for segment in passages.split(VERSE, 40):
        first, second = passages.halve(segment)
        assert first + second == segment
        assert second


def test_the_tail_of_a_text_is_held_out_and_everything_is_in_one_part(tmp_path):
    lines = [f"line {number}" for number in range(200)]
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress("\n".join([*lines, ""]).encode()))
    train, valid = resolve.resolve_one(DataConfig(text=str(path), stretch=64), seed=1)
    parts = ["".join(pair.target for pair in corpus) for corpus in (train, valid)]
    assert "".join(parts) == "\n".join([*lines, ""])
    assert 0.09 < len(parts[1]) / len("".join(parts)) < 0.12
    assert train.digest != valid.digest
    assert train.is_text
    assert all(pair.source == "" for pair in train)


def test_an_own_validation_text_leaves_the_whole_text_to_training(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"text of {name}\n" * 20)
    data = DataConfig(text=str(tmp_path / "a"), valid_text=str(tmp_path / "b"), halves=True, stretch=30)
    train, valid = resolve.resolve_one(data, seed=1)
    assert "".join(pair.source + pair.target for pair in train) == "text of a\n" * 20
    assert "".join(pair.source + pair.target for pair in valid) == "text of b\n" * 20


def test_a_text_beside_two_files_is_named_twice():
    with pytest.raises(UsageError, match="name exactly one training text"):
        resolve.resolve_one(DataConfig(text="a", source="b", target="c"), seed=1)


def test_stretches_do_not_end_and_sentences_do():
    source, target, labels = teacher_force([[], []], [[9, 10, 11], [12]], ends=False)
    assert source.tolist() == [[END], [END]]
    assert target.tolist() == [[START, 9, 10], [START, PAD, PAD]]
    assert labels.tolist() == [[9, 10, 11], [12, PAD, PAD]]
    _, target, labels = teacher_force([[8]], [[9, 10]])
    assert (target.tolist(), labels.tolist()) == ([[START, 9, 10]], [[9, 10, END]])


# ------------------------------------------------------------------ vocabularies


@pytest.mark.parametrize("text", ["", "two  spaces\n\tand\r\n", "가나다 \u2028 😀", "▁under", "\x00\x7f"])
def test_bytes_keep_a_text_just_as_it_is(text):
    vocabulary = Vocabulary.train([], size=300, kind="byte", breaks=True)
    assert vocabulary.decode(vocabulary.encode(text)) == text
    assert vocabulary.encode(text) == [8 + byte for byte in text.encode()]
    assert len(vocabulary) == 264


def test_bytes_of_translations_are_one_line():
    vocabulary = Vocabulary.train([], size=300, kind="byte")
    assert vocabulary.decode(vocabulary.encode("two  lines\nof text")) == "two lines of text"


def test_lines_are_kept_apart_by_a_separator():
    vocabulary = Vocabulary.train(["a man rides\na bike"] * 9, size=275, breaks=True)
    ids = vocabulary.encode("a bike\n\na man")
    assert ids.count(SEPARATOR) == 2
    assert vocabulary.decode(ids) == "a bike\n\na man"
    plain = Vocabulary(vocabulary.model)
    assert SEPARATOR not in plain.encode("a bike\n\na man")
    assert plain.decode(plain.encode("a bike\n\na man")) == "a bike a man"


def test_labels_are_whole_words():
    vocabulary = Vocabulary.train(["B-PER O O I-LOC", "O"] * 5, size=8_000, kind="word")
    assert vocabulary.pieces(vocabulary.encode("I-LOC O B-PER")) == ["▁I-LOC", "▁O", "▁B-PER"]
    assert Vocabulary(vocabulary.model).encode("O") == vocabulary.encode("O")


def test_a_vocabulary_of_at_most_so_many_takes_what_there_is():
    lines = ["Mary went to the kitchen.", "Where is Mary?"] * 9
    with pytest.raises(UsageError, match="too large for"):
        Vocabulary.train(lines, size=8_000, kind="bpe")
    vocabulary = Vocabulary.train(lines, size=8_000, kind="bpe", at_most=True)
    assert vocabulary.pieces(vocabulary.encode("Where is Mary?")) == ["▁Where", "▁is", "▁Mary", "?"]


def test_what_stands_beside_a_hole_is_cut_as_in_the_sentence():
    vocabulary = Vocabulary.train(["a man rides a bike.", "a bike. a man."] * 20, size=300, kind="bpe", at_most=True)
    whole = vocabulary.encode("a man rides a bike.")
    assert vocabulary.encode_parts(["a man ", " a bike."], 6) == [*whole[:2], 6, *whole[3:]]
    assert vocabulary.encode_parts(["a man rides a ", "."], 6)[-2:] == [6, whole[-1]]


# ------------------------------------------------------------------ scorers


def small_model(kind: str = "transformer") -> tuple[TorchEngine, Vocabularies]:
    vocabulary = Vocabulary.train(["x"], size=300, kind="byte", breaks=True)
    torch.manual_seed(1)
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "d_ff": 16, "heads": 2}
    model = build(find_section(kind).model_validate(sizes), len(vocabulary), len(vocabulary)).eval()
    return TorchEngine(model), Vocabularies(vocabulary, vocabulary)


def test_the_scorer_follows_from_what_there_is_to_score():
    engine, vocabularies = small_model()
    sentences, answers = [Pair("a b", "c d", 1)], [Pair("a b", "c", 1), Pair("a", "yes", 2)]
    assert type(scorer_of(engine, vocabularies, sentences, ratio=1.0)) is Scorer
    assert type(scorer_of(engine, vocabularies, answers, ratio=1.0)) is AnswerScorer
    assert type(scorer_of(engine, vocabularies, sentences, ratio=1.0, labels=True)) is AnswerScorer
    assert type(scorer_of(engine, vocabularies, [Pair("", "text", 1)], ratio=1.0, is_text=True)) is TextScorer


def test_a_validation_leaves_no_packed_weights_behind():
    engine, vocabularies = small_model()
    scorer_of(engine, vocabularies, [Pair("a b", "c d", 1)], ratio=1.0)(1)
    assert "_packed" not in engine.fast.__dict__


def test_an_answer_is_right_word_by_word_in_its_place():
    engine, vocabularies = small_model()
    scorer = scorer_of(engine, vocabularies, [Pair("a", "O O B", 1), Pair("b", "O", 2)], ratio=1.0, labels=True)
    assert scorer.compare(["O X B", "O O"], ["O O B", "O"]) == {"accuracy": 75.0}
    assert scorer.compare(["", ""], ["O O B", "O"]) == {"accuracy": 0.0}


def test_nats_a_character_are_those_of_the_model_over_the_characters():
    """Each stretch by itself, one token at a time; a character of three bytes counts once."""
    engine, vocabularies = small_model()
    pairs = [Pair("", "ab가", 1), Pair("", "xyz uvw\n", 2)]
    scores, _ = scorer_of(engine, vocabularies, pairs, ratio=1.0, is_text=True)(10)
    total = 0.0
    for pair in pairs:
        ids = vocabularies.target.encode(pair.target)
        with torch.inference_mode():
            state = engine.model.start(torch.tensor([[END]]))
            for token, wanted in zip([START, *ids], ids, strict=False):
                logits, state = engine.model.step(torch.tensor([token]), state)
                total -= float(logits.log_softmax(-1)[0, wanted])
    assert scores["nats"] == pytest.approx(total / 11, rel=1e-5)
    assert scores["loss"] == pytest.approx(total / 13, rel=1e-5)
    assert "bleu" not in scores


# ------------------------------------------------------------------ recipes


def test_another_model_brings_its_own_section_and_keeps_the_rest():
    recipe = choose("a.en", "a.de", recipe="tiny", model="rnn", minutes=3)
    assert recipe.model.kind == "rnn"
    assert recipe.name == "tiny-rnn"
    assert recipe.training.minutes == 3
    assert recipe.decoding == presets.get("tiny").decoding
    assert choose("a.en", "a.de", recipe="tiny", model="transformer") == choose("a.en", "a.de", recipe="tiny")


def test_a_model_that_is_not_there_is_told_with_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'electra'"):
        choose("a.en", "a.de", model="elektra")


def test_what_was_chosen_goes_before_what_is_usual():
    recipe = choose(text="a.txt", model="gpt", changes={"vocabulary.breaks": False, "training.label_smoothing": 0.2})
    assert (recipe.vocabulary.breaks, recipe.training.label_smoothing) == (False, 0.2)
    assert recipe.data.ratio == 1_000.0


# ------------------------------------------------------------------ from a text to a text


@pytest.fixture(scope="module")
def verse(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("texts") / "verse.txt"
    path.write_text("\n".join(f"{line} {number % 7}" for number in range(40) for line in VERSE) + "\n")
    return str(path)


SMALL = {
    "vocabulary.kind": "byte",
    "model.d_model": 16,
    "model.layers": 1,
    "model.heads": 2,
    "data.stretch": 48,
    "training.tokens_per_update": 256,
}


@pytest.fixture(scope="module")
def poet(verse, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("poet") / "run"
    return train(text=verse, model="gpt", steps=6, changes=SMALL, out=out).folder


def test_a_model_of_a_text_goes_on_with_it(poet, jumok):
    same = [jumok("generate", poet, "Full ", "--length", "30", "--seed", "3").out for _ in range(2)]
    assert same[0] == same[1]
    assert same[0].startswith("Full ")
    assert jumok("generate", poet, "Full ", "--length", "30", "--seed", "4").out != same[0]


def test_what_is_generated_greedily_is_the_likeliest_byte_each_time(poet):
    model = Translator.load(poet)
    text = "Of" + "".join(model.generate("Of", length=12, temperature=0.0))
    ids = model.vocabularies.target.encode("Of")
    with torch.inference_mode():
        for _ in range(12):
            hidden = model.model.hidden(torch.tensor([[END]]), torch.tensor([[START, *ids]]))
            logits = model.model.project(hidden)[0, -1]
            logits[[0, 1, 2, 3, 5, 6, 7]] = -torch.inf
            ids.append(int(logits.argmax()))
    assert text == model.vocabularies.target.decode(ids)


def test_a_model_of_a_text_does_not_translate_and_says_what_it_does(poet, jumok):
    answer = jumok("translate", poet, "Full")
    assert answer.code == 2
    assert "jumok generate" in answer.err


def test_a_translator_does_not_go_on_with_a_text(micro, jumok):
    answer = jumok("generate", micro, "Full")
    assert answer.code == 2
    assert "jumok translate" in answer.err


def test_a_text_that_is_empty_is_told(tmp_path, jumok):
    (tmp_path / "empty").write_text("")
    answer = jumok("train", "--text", tmp_path / "empty", "--model", "gpt", "--out", tmp_path / "run")
    assert answer.code == DataError.code


def test_every_task_of_stories_is_a_corpus():
    assert set(generated.BABI) == set(stories.TASKS)
    train, valid = resolve.resolve_one(DataConfig(corpus="babi-1", pairs=100), seed=1)
    assert valid is not None
    assert not {pair.source for pair in train} & {pair.source for pair in valid}
    assert all(pair.source.count("\n") >= 1 and len(pair.target.split()) == 1 for pair in train)
