"""From text to batches: nothing lost, nothing twice, nothing random but by key, and no more memory than a chunk."""

import gzip
import io
import itertools
import json
import random
import sys
from pathlib import Path

import pytest

from jumok.config.sections import DataConfig
from jumok.data import corpora, generated, resolve, stdin, store
from jumok.data.corpora import Pair
from jumok.data.store import Filters, Store
from jumok.errors import DataError, DiskError, JumokError, ModelFileError, UsageError
from jumok.stopping import NEVER
from jumok.text.vocabulary import Vocabularies, Vocabulary

DRAW = random.Random(7)
SYLLABLES = ["ba", "ker", "lo", "min", "sta", "ver", "ton"]
WORDS = ["".join(DRAW.choices(SYLLABLES, k=DRAW.randint(1, 3))) for _ in range(200)]
PAIRS = [
    Pair(
        " ".join(DRAW.choices(WORDS, k=DRAW.randint(1, 12))), " ".join(DRAW.choices(WORDS, k=DRAW.randint(1, 12))), line
    )
    for line in range(1, 501)
]
FILTERS = Filters(longest=100, ratio=99.0)


@pytest.fixture(scope="module")
def vocabularies():
    joint = Vocabulary.train([pair.source for pair in PAIRS], size=330, kind="bpe")
    return Vocabularies(joint, joint)


@pytest.fixture
def built(vocabularies, tmp_path):
    return store.build(PAIRS, vocabularies, FILTERS, tmp_path, identity="pairs")


def written(folder: Path, name: str, lines: list[str]) -> str:
    (folder / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return str(folder / name)


# ------------------------------------------------------------------------------------------ corpora


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_two_files_a_tsv_and_a_jsonl_with_the_same_pairs_read_alike(tmp_path, suffix):
    rows = {
        "a.en": "".join(f"{pair.source}\n" for pair in PAIRS),
        "a.de": "".join(f"{pair.target}\n" for pair in PAIRS),
        "a.tsv": "".join(f"{pair.source}\t{pair.target}\n" for pair in PAIRS),
        "a.jsonl": "".join(json.dumps({"source": pair.source, "target": pair.target}) + "\n" for pair in PAIRS),
    }
    for name, text in rows.items():
        (tmp_path / f"{name}{suffix}").write_bytes(gzip.compress(text.encode()) if suffix else text.encode())
    for paths in (["a.en", "a.de"], ["a.tsv"], ["a.jsonl"]):
        corpus = corpora.from_paths([str(tmp_path / f"{path}{suffix}") for path in paths])
        assert list(corpus) == PAIRS
        assert list(corpus) == PAIRS, "a corpus can be read again"


def test_the_digest_of_a_corpus_changes_when_its_text_or_its_making_does(tmp_path):
    source, target = written(tmp_path, "a", ["one", "two"]), written(tmp_path, "b", ["eins", "zwei"])
    before = corpora.from_files(source, target).digest
    assert corpora.from_files(source, target).digest == before
    assert corpora.from_files(target, source).digest != before
    written(tmp_path, "b", ["eins", "Zwei"])
    assert corpora.from_files(source, target).digest != before
    made = [
        generated.task("copy", 10, 1),
        generated.task("copy", 11, 1),
        generated.task("copy", 10, 2),
        generated.task("sort", 10, 1),
    ]
    assert len({corpus.digest for corpus in made}) == 4


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        ({}, UsageError, "name exactly one training text"),
        ({"corpus": "copy", "table": "a.tsv"}, UsageError, "name exactly one training text"),
        ({"source": "a", "table": "a.tsv"}, UsageError, "name exactly one training text"),
        ({"corpus": "phrasebok"}, UsageError, "did you mean 'phrasebook'"),
        ({"source": "a.en"}, UsageError, "--target is missing"),
        ({"target": "a.de"}, UsageError, "--source is missing"),
        ({"corpus": "copy", "valid_source": "a.en"}, UsageError, "--valid-target is missing"),
        ({"corpus": "copy", "valid_source": "a", "valid_target": "b", "valid_table": "c"}, UsageError, "validation"),
        ({"source": "no.en", "target": "no.de"}, DataError, "there is no file no.en"),
        ({"table": "no.tsv"}, DataError, "there is no file no.tsv"),
        ({"table": "no.csv"}, JumokError, "no.csv"),
    ],
)
def test_a_corpus_that_cannot_be_named_is_told_with_what_is_missing(data, kind, words):
    with pytest.raises(kind, match=words):
        list(resolve.resolve_one(DataConfig(**data), seed=1)[0])


@pytest.mark.parametrize("name", generated.NAMES)
def test_every_corpus_made_here_has_the_pairs_it_was_asked_for(name):
    train, _ = resolve.resolve_one(DataConfig(corpus=name, pairs=100), seed=1)
    assert len(list(train)) == 100


def test_validation_keeps_duplicates_together_and_takes_about_the_share_it_was_asked_for():
    texts = [f"sentence number {number}" for number in range(20_000)]
    for share in (0.0, 0.01, 0.1, 1.0):
        held = [corpora.is_held_out(text, share) for text in texts]
        spread = 4 * (len(texts) * share * (1 - share)) ** 0.5  # four standard deviations of a fair draw
        assert abs(sum(held) - share * len(texts)) <= spread
        assert held == [corpora.is_held_out(f"  {text.upper()}\t", share) for text in texts]


def test_what_is_held_out_of_a_share_is_held_out_of_every_larger_one():
    for text, (small, large) in itertools.product([pair.source for pair in PAIRS[:99]], [(0.1, 0.2), (0.2, 0.7)]):
        assert corpora.is_held_out(text, small) <= corpora.is_held_out(text, large)


class Stdin:
    """Standard input with these bytes."""

    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


def test_standard_input_is_kept_as_a_file_that_can_be_read_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", Stdin(b"one\teins\ntwo\tzwei\n"))
    given = DataConfig(table="-")
    data = stdin.replace_stdin(given, tmp_path / "data")
    NEVER.finish(stdin.copy_stdin(given, data))
    corpus, _ = resolve.resolve_one(data, seed=1)
    assert list(corpus) == list(corpus) == [Pair("one", "eins", 1), Pair("two", "zwei", 2)]
    plain = DataConfig(corpus="copy")
    assert stdin.replace_stdin(plain, tmp_path / "other") == plain
    NEVER.finish(stdin.copy_stdin(plain, plain))
    assert not (tmp_path / "other").exists()


def test_standard_input_is_one_file_only_and_not_touched_when_named_twice(tmp_path, monkeypatch):
    stream = Stdin(b"one\n")
    monkeypatch.setattr(sys, "stdin", stream)
    with pytest.raises(UsageError, match="source and target"):
        stdin.replace_stdin(DataConfig(source="-", target="-"), tmp_path)
    assert stream.buffer.read() == b"one\n"


def test_a_test_set_is_read_once_and_must_not_be_empty(tmp_path):
    source, empty = written(tmp_path, "a", ["one"]), written(tmp_path, "none", [])
    assert corpora.read_test_set(source, written(tmp_path, "b", ["eins"]), None) == [Pair("one", "eins", 1)]
    with pytest.raises(DataError, match="empty"):
        corpora.read_test_set(empty, written(tmp_path, "none2", []), None)
    with pytest.raises(UsageError, match="one test set only"):
        corpora.read_test_set(source, None, "a.tsv")


# ------------------------------------------------------------------------------------------ store


def test_a_store_gives_back_every_pair_as_the_vocabulary_encodes_it(built, vocabularies):
    assert len(built) == len(PAIRS)
    for row, pair in enumerate(PAIRS):
        assert built.source[row].tolist() == vocabularies.source.encode(pair.source)
        assert built.target[row].tolist() == vocabularies.target.encode(pair.target)
    assert built.lines.tolist() == [pair.line for pair in PAIRS]
    assert built.source.lengths(0, len(PAIRS)).tolist() == [len(built.source[row]) for row in range(len(PAIRS))]
    assert sum(built.tokens()) == sum(len(side[row]) for side in (built.source, built.target) for row in range(500))


def test_a_store_is_the_same_whatever_the_chunks_it_was_written_in(built, vocabularies, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "CHUNK", 64)
    again = store.build(PAIRS, vocabularies, FILTERS, tmp_path / "again", identity="pairs")
    for name in ("source.ids", "source.begins", "target.ids", "target.begins", "lines", "meta.json"):
        assert (again.folder / name).read_bytes() == (built.folder / name).read_bytes()


def test_a_store_is_built_once_and_anew_when_text_vocabulary_or_filters_differ(vocabularies, tmp_path):
    def read(*, twice: bool = False) -> list[Pair]:
        assert not twice, "the pairs were read although the store was there"
        return PAIRS[:50]

    def unread():
        yield read(twice=True)

    other = Vocabulary.train([pair.target for pair in PAIRS], size=320, kind="bpe")
    first = store.build(read(), vocabularies, FILTERS, tmp_path, identity="text")
    assert store.build(unread(), vocabularies, FILTERS, tmp_path, identity="text").folder == first.folder
    others = [
        store.build(read(), vocabularies, FILTERS, tmp_path, identity="another text"),
        store.build(read(), Vocabularies(other, other), FILTERS, tmp_path, identity="text"),
        store.build(read(), Vocabularies(vocabularies.source, other), FILTERS, tmp_path, identity="text"),
        store.build(read(), vocabularies, Filters(99, 99.0), tmp_path, identity="text"),
        store.build(read(), vocabularies, Filters(100, 98.0), tmp_path, identity="text"),
    ]
    assert len({first.folder, *(another.folder for another in others)}) == 6


def test_what_is_left_out_is_counted_by_reason_and_never_stored(vocabularies, tmp_path):
    word, long = WORDS[0], " ".join(WORDS[:120])
    pairs = [Pair("", word, 1), Pair(word, " \t ", 2), Pair(long, long, 3), Pair(" ".join(WORDS[:9]), "a", 4), PAIRS[4]]
    made = store.build(pairs, vocabularies, Filters(longest=90, ratio=5.0), tmp_path, identity="odd")
    assert made.left_out == {"empty side": 2, "longer than 90 subwords": 1, "length ratio over 5": 1}
    assert made.lines.tolist() == [PAIRS[4].line]
    assert Store(made.folder).left_out == made.left_out


def test_a_store_without_a_pair_is_refused_the_first_time_and_the_second(vocabularies, tmp_path):
    for _ in range(2):
        with pytest.raises(DataError, match="no sentence pair is left") as caught:
            store.build([Pair("", "", 1)], vocabularies, FILTERS, tmp_path, identity="nothing")
        assert "empty side: 1" in caught.value.where


@pytest.mark.parametrize("name", ["meta.json", "source.ids", "target.begins", "lines"])
@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_a_store_that_is_not_whole_is_refused_with_the_command_that_removes_it(built, name, damage):
    path = built.folder / name
    content = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2 // 8 * 8])
    with pytest.raises(ModelFileError, match="is broken") as caught:
        Store(built.folder)
    assert f"rm -r {built.folder}" in caught.value.hint


def test_a_store_that_could_not_be_finished_leaves_nothing_behind(vocabularies, tmp_path, monkeypatch):
    def broken():
        yield from PAIRS[:20]
        raise DataError("data.empty_corpus", corpus="a corpus")

    with pytest.raises(DataError):
        store.build(broken(), vocabularies, FILTERS, tmp_path, identity="text")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(store.os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(DiskError, match="No space left"):
        store.build(PAIRS, vocabularies, FILTERS, tmp_path, identity="text")
    assert list(tmp_path.iterdir()) == []


def test_chunks_are_bounded_in_pairs_and_in_characters():
    short, long = Pair("a", "b", 1), Pair("x" * 300_000, "y" * 300_000, 1)
    assert [len(chunk) for chunk in store._chunks([short] * (store.CHUNK + 5))] == [store.CHUNK, 5]
    assert [len(chunk) for chunk in store._chunks([long] * 3)] == [1, 1, 1]
    assert list(store._chunks([])) == []


def test_repeated_lines_are_counted_whatever_their_number(monkeypatch):
    from random import Random

    from jumok.data.quality import survey

    monkeypatch.setattr(survey.Distinct, "HELD", 100)
    monkeypatch.setattr(survey, "PAIRS", 64)
    drawn = Random(1).choices([f"sentence {n}" for n in range(300)], k=1_000)
    pairs = [(one, other) for one, other in zip(drawn, Random(2).sample(drawn, 1_000), strict=True)]
    found = survey.stats(corpora.Corpus("drawn", lambda: iter(pairs), "drawn"))
    assert found.source.repeated == found.target.repeated == 1_000 - len(set(drawn))
    assert found.repeated == 1_000 - len(set(pairs))
    assert found.source.to_json()["different_characters"] == len(set("".join(drawn)))
