"""Law 12: decode(encode(text)) is normalize(text), for every text there is; and nothing is ever unknown."""

import contextlib
import random
import re
import threading
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
import sentencepiece
from hypothesis import example, given
from hypothesis import strategies as st

from jumok.errors import DataError, DiskError, JumokError, ModelFileError, UsageError
from jumok.stopping import NEVER
from jumok.text import trainer
from jumok.text.vocabulary import END, PAD, SPECIALS, START, UNKNOWN, Vocabularies, Vocabulary, normalize

KINDS = ("unigram", "bpe")
SYLLABLES = ["ba", "ker", "lo", "min", "sta", "ver", "ton", "gri", "pol", "ness", "ing", "ed", "der", "wo", "ch"]
DRAW = random.Random(1)
WORDS = ["".join(DRAW.choices(SYLLABLES, k=DRAW.randint(1, 3))) for _ in range(300)]
ENGLISH = [" ".join(DRAW.choices(WORDS, k=7)).capitalize() + "." for _ in range(400)]
PLACES = ["집", "학교", "시장", "강", "공원", "도서관", "은행", "병원"]
ENDS = ["걸어갔습니다", "왔어요", "뛰었다", "가겠습니까"]
KOREAN = [f"{a}에서 {b}까지 {end}." for a in PLACES for b in PLACES for end in ENDS]

any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)  # all 17 planes
ODD = ["<s>", "</s>", "<unk>", "<pad>", "<sep>", "<0x41>", "<0x", ">", "▁", " ", "\t", "a", "⁇", "\ufffd", "é"]
looks_special = st.lists(st.sampled_from(ODD), max_size=12).map("".join)


@pytest.fixture(scope="module", params=KINDS)
def vocabulary(request):
    return Vocabulary.train(ENGLISH + KOREAN, size=400, kind=request.param)


@pytest.fixture(scope="module", params=KINDS)
def separate(request):
    sides = (Vocabulary.train(text, size=310, kind=request.param) for text in (ENGLISH, KOREAN))
    return Vocabularies(*sides)


@given(text=any_text | looks_special)
@example(text="\0")
@example(text="\u2581 \u2581a")
@example(text="<0x41></s>")
@example(text="e\u0301 \u1100\u1161\u11a8")
@example(text="\U0010ffff\U000e0001")
def test_decoding_what_was_encoded_gives_the_normalised_text_and_nothing_is_unknown(vocabulary, text):
    ids = vocabulary.encode(text)
    assert vocabulary.decode(ids) == normalize(text)
    assert all(SPECIALS <= i < len(vocabulary) for i in ids)


@given(text=any_text)
def test_each_side_of_a_separate_pair_of_vocabularies_writes_either_language(separate, text):
    assert not separate.joint
    for side in (separate.source, separate.target):
        for sentence in (text, ENGLISH[0], KOREAN[0]):
            assert side.decode(side.encode(sentence)) == normalize(sentence)


@given(texts=st.lists(any_text | looks_special, max_size=5))
def test_encoding_many_sentences_at_once_gives_what_each_gives_alone(vocabulary, texts):
    assert vocabulary.encode_all(texts) == [vocabulary.encode(text) for text in texts]


class Watched:
    """A SentencePiece processor that remembers which of its calls had a list of texts, or of lists of ids."""

    def __init__(self, processor):
        self.processor, self.lists = processor, []

    def encode(self, given, **options):
        self.lists.append(isinstance(given, list))
        return self.processor.encode(given, **options)

    def decode(self, given, **options):
        self.lists.append(bool(given) and isinstance(given[0], list))
        return self.processor.decode(given, **options)


@pytest.mark.parametrize("times", [1, 3, 200])
def test_many_texts_are_one_call_on_all_cores_and_few_a_call_each_with_the_same_result(vocabulary, monkeypatch, times):
    texts = ["", *ENGLISH[:3], KOREAN[0], "한 \U0001f6b2"] * times
    plain = sentencepiece.SentencePieceProcessor(model_proto=vocabulary.model)
    watched = Watched(vocabulary._processor)
    monkeypatch.setattr(vocabulary, "_processor", watched)
    ids = vocabulary.encode_all(texts)
    assert ids == [plain.encode(normalize(text)) for text in texts]
    assert vocabulary.decode_all(ids) == [normalize(text) for text in texts]
    many = times == 200  # a call with a list starts threads: 200 µs where a sentence takes 4
    assert watched.lists == ([True, True] if many else [False] * 2 * len(texts))


@pytest.mark.parametrize("times", [1, 200])
def test_half_a_surrogate_pair_is_bad_data_among_few_texts_and_among_many(vocabulary, times):
    with pytest.raises(DataError, match="unpaired surrogate"):
        vocabulary.encode_all([*ENGLISH[:50], "a \ud800 b"] * times)


@given(text=any_text | looks_special)
def test_normalising_is_nfc_with_single_spaces_and_changes_nothing_the_second_time(text):
    normal = normalize(text)
    assert normalize(normal) == normal
    assert unicodedata.is_normalized("NFC", normal)
    assert normal.split() == normal.split(" ") or normal == ""
    assert normal.replace(" ", "") == "".join(unicodedata.normalize("NFC", text.replace("\u2581", " ")).split())


def test_the_special_ids_are_fixed_for_ever(vocabulary):
    assert (PAD, UNKNOWN, START, END, SPECIALS) == (0, 1, 2, 3, 8)
    assert vocabulary.pieces(range(8)) == ["<pad>", "<unk>", "<s>", "</s>", "<sep>", "<cls>", "<mask>", "<extra>"]


def test_the_256_bytes_are_there_so_that_any_character_can_be_written(vocabulary):
    pieces = vocabulary.pieces(range(len(vocabulary)))
    assert pieces[8:264] == [f"<0x{byte:02X}>" for byte in range(256)]


@given(ids=st.lists(st.integers(0, 399), max_size=30))
def test_whatever_ids_a_model_makes_they_decode_to_one_line(vocabulary, ids):
    text = vocabulary.decode(ids)
    assert vocabulary.decode([i for i in ids if i >= SPECIALS]) == text
    assert text == " ".join(text.split())


def test_training_twice_gives_the_same_bytes(vocabulary):
    again = Vocabulary.train(ENGLISH + KOREAN, size=400, kind=vocabulary.kind)
    assert again.model == vocabulary.model
    assert again.digest == vocabulary.digest


def test_a_vocabulary_knows_its_kind_and_size(vocabulary, request):
    assert vocabulary.kind == request.node.callspec.params["vocabulary"]
    assert len(vocabulary) == 400


def test_every_line_teaches_however_long_it_is():
    one_line = " ".join(ENGLISH)
    assert len(one_line.encode()) > 16_384
    vocabulary = Vocabulary.train([one_line], size=400, kind="bpe")
    assert len(vocabulary.encode(ENGLISH[0])) < len(ENGLISH[0]) / 2


# ------------------------------------------------------------------------------------------ sampling


def test_a_sampled_segmentation_depends_on_its_key_and_on_nothing_else(vocabulary):
    sentences = vocabulary.encode_all(ENGLISH[:10])
    first = {key: vocabulary.sample(sentences, strength=0.7, key=key) for key in range(12)}
    vocabulary.sample(vocabulary.encode_all(KOREAN), strength=0.2, key=99)
    again = {key: vocabulary.sample(sentences, strength=0.7, key=key) for key in reversed(range(12))}
    assert again == first
    assert len({str(drawn) for drawn in first.values()}) > 1


@pytest.mark.parametrize("key", [0, 2**32 - 1, 2**63 - 1])
def test_no_key_means_chance(vocabulary, key):
    sentences = vocabulary.encode_all(ENGLISH[:20])
    drawn = [vocabulary.sample(sentences, strength=0.9, key=key) for _ in range(4)]
    assert drawn[0] == drawn[1] == drawn[2] == drawn[3]


def test_threads_that_sample_at_once_draw_what_they_would_draw_alone(vocabulary):
    sentences = vocabulary.encode_all(ENGLISH[:10])
    alone = [vocabulary.sample(sentences, strength=0.1 + key / 40, key=key) for key in range(24)]
    together = threading.Barrier(8)

    def draw(key: int) -> list[list[int]]:
        if key < 8:
            together.wait()
        return vocabulary.sample(sentences, strength=0.1 + key / 40, key=key)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(draw, range(24))) == alone


@given(text=any_text, key=st.integers(0, 2**63 - 1), strength=st.floats(0.001, 1.0))
def test_a_sampled_segmentation_is_the_same_text(vocabulary, text, key, strength):
    [drawn] = vocabulary.sample([vocabulary.encode(text)], strength=strength, key=key)
    assert vocabulary.decode(drawn) == normalize(text)
    assert UNKNOWN not in drawn


def test_the_stronger_the_sampling_the_more_segmentations_and_next_to_none_is_the_best_one(vocabulary):
    sentences = vocabulary.encode_all(ENGLISH[:12])

    def diversity(strength: float) -> int:
        drawn = [vocabulary.sample(sentences, strength=strength, key=key) for key in range(25)]
        return sum(len({tuple(draw[row]) for draw in drawn}) for row in range(12))

    found = [diversity(strength) for strength in (1e-6, 0.05, 0.2, 1.0)]
    assert found[0] == 12
    assert all(a <= b for a, b in pairwise(found))
    assert found[-1] > 2 * found[0]


# ------------------------------------------------------------------------------------------ sizes and files


def proposed(error: JumokError) -> int:
    found = re.search(r"--set vocabulary\.size=(\d+)", error.hint)
    assert found is not None, error
    return int(found[1])


CHARACTERS = [chr(0x4E00 + i) + chr(0x4E01 + i) for i in range(0, 1_500, 2)]  # 1,500 characters, each once
TEXTS = {
    "English": ENGLISH[:60],
    "Korean": KOREAN,
    "one letter": ["a"],
    "characters": CHARACTERS,
    "rare characters": CHARACTERS + ["the same words again and again"] * 3_000,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [265, 300, 30_000])
@pytest.mark.parametrize("text", TEXTS)
def test_a_size_that_does_not_fit_the_text_is_refused_with_one_that_works(text, size, kind):
    try:
        made, error = Vocabulary.train(TEXTS[text], size=size, kind=kind), None
    except UsageError as refusal:
        made, error = None, refusal
    if made is not None:
        assert len(made) == size < 30_000
        return
    assert f"a vocabulary of {size:,}" in error.what
    assert len(str(error).split("\n")) <= 3
    assert len(Vocabulary.train(TEXTS[text], size=proposed(error), kind=kind)) == proposed(error)


def test_no_text_gives_no_vocabulary():
    with pytest.raises(DataError, match="no text"):
        Vocabulary.train(["", "  ", "\u2581"], size=300)


def test_learning_works_in_the_given_folder_and_removes_what_a_killed_attempt_left_there(tmp_path):
    """A process that is killed cannot remove its files; in the temporary folder of the system they would stay."""
    left = tmp_path / f"{trainer.PREFIX}killed"
    left.mkdir()
    (left / trainer.WORDS).write_bytes(b"words of an earlier attempt")
    steps = Vocabulary.learn(trainer.count_words(ENGLISH), size=400, folder=tmp_path)
    next(steps)
    assert [path.name for path in tmp_path.iterdir() if trainer.PREFIX in path.name] != []
    assert not left.exists()
    assert NEVER.finish(steps).model == Vocabulary.train(ENGLISH, size=400).model
    assert list(tmp_path.iterdir()) == []


def test_a_vocabulary_is_the_same_after_saving_and_loading(vocabulary, separate, tmp_path):
    for number, saved in enumerate([Vocabularies(vocabulary, vocabulary), separate]):
        folder = tmp_path / str(number)
        folder.mkdir()
        saved.save(folder)
        loaded = Vocabularies.load(folder)
        assert (loaded.digest, loaded.joint) == (saved.digest, saved.joint)
        assert loaded.target.encode(KOREAN[0]) == saved.target.encode(KOREAN[0])
        assert sorted(path.name for path in folder.iterdir()) == sorted(saved.files())


@pytest.mark.parametrize("damage", ["empty", "garbage", "half", "no specials"])
def test_a_file_that_is_no_vocabulary_of_ours_is_refused_by_name(vocabulary, tmp_path, damage):
    model = vocabulary.model
    content = {
        "empty": b"",
        "garbage": b"not a model" * 99,
        "half": model[: len(model) // 2],
        "no specials": model.replace(b"<mask>", b"<tusk>"),
    }
    path = tmp_path / "vocabulary.model"
    path.write_bytes(content[damage])
    with pytest.raises(ModelFileError, match=r"vocabulary\.model"):
        Vocabulary.load(path)


@given(st.data())
def test_a_vocabulary_with_flipped_bits_is_refused_or_another_one_but_never_a_crash(vocabulary, data):
    model = bytearray(vocabulary.model)
    for place in data.draw(st.lists(st.integers(0, len(model) - 1), min_size=1, max_size=4, unique=True)):
        model[place] ^= 1 << data.draw(st.integers(0, 7))
    with contextlib.suppress(ModelFileError):
        assert Vocabulary(bytes(model)).digest != vocabulary.digest


def test_a_missing_vocabulary_and_a_folder_that_cannot_be_written_are_told(vocabulary, tmp_path):
    with pytest.raises(ModelFileError, match=r"vocabulary\.source\.model"):
        Vocabularies.load(tmp_path)
    with pytest.raises(DiskError, match="cannot write the vocabulary"):
        Vocabularies(vocabulary, vocabulary).save(tmp_path / "not there")


def test_many_sentences_are_decoded_as_one_by_one(vocabulary):
    sentences = [
        vocabulary.encode("a b"),
        [],
        [0, 2, 3, 5],
        vocabulary.encode("one two  three"),
        [2, *vocabulary.encode("x"), 3],
    ]
    assert vocabulary.decode_all(sentences) == [vocabulary.decode(ids) for ids in sentences]
    assert vocabulary.decode_all([]) == []
