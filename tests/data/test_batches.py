"""Batches: every pair once an epoch, in an order that is a function of (seed, epoch), within a budget of tokens."""

import itertools
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jumok.data import corpora, store
from jumok.data.batches import Batch, Batches, Noise, Position, pad, plan
from jumok.data.corpora import Pair
from jumok.data.store import Filters
from jumok.text.vocabulary import END, PAD, START, UNKNOWN, Vocabularies, Vocabulary

SHARED = Path(__file__).parents[3] / "shared" / "data"
DRAW = random.Random(7)
SYLLABLES = ["ba", "ker", "lo", "min", "sta", "ver", "ton"]
WORDS = ["".join(DRAW.choices(SYLLABLES, k=DRAW.randint(1, 3))) for _ in range(200)]
TEXTS = [" ".join(DRAW.choices(WORDS, k=DRAW.randint(1, 12))) for _ in range(1_000)]
PAIRS = [Pair(*sides, line) for line, sides in enumerate(zip(TEXTS[::2], TEXTS[1::2], strict=True), start=1)]


@pytest.fixture(scope="module")
def vocabularies():
    joint = Vocabulary.train(TEXTS, size=330, kind="bpe")
    return Vocabularies(joint, joint)


@pytest.fixture(scope="module")
def built(vocabularies, tmp_path_factory):
    return store.build(PAIRS, vocabularies, Filters(100, 50.0), tmp_path_factory.mktemp("store"), identity="pairs")


def content(batch: Batch) -> tuple[list[list[int]], ...]:
    return tuple(tensor.tolist() for tensor in (batch.source, batch.target, batch.labels, batch.rows))


@pytest.mark.parametrize("window", [7, 100, 500, 1 << 20])
def test_every_pair_comes_exactly_once_an_epoch_whatever_the_window(built, window):
    batches = Batches(built, tokens=256, seed=1, window=window)
    for epoch in range(2):
        seen = list(batches.epoch(epoch))
        assert sorted(row for batch in seen for row in batch.rows.tolist()) == list(range(len(PAIRS)))
        assert len(seen) == batches.count(epoch)


@pytest.mark.parametrize("window", [64, 1 << 20])
def test_a_batch_is_a_function_of_seed_epoch_and_index(built, window):
    def order(seed: int, epoch: int) -> list[object]:
        return [content(batch) for batch in Batches(built, tokens=256, seed=seed, window=window).epoch(epoch)]

    first = order(1, 0)
    assert order(1, 0) == first
    assert order(1, 1) != first
    assert order(2, 0) != first
    for index in (0, 1, len(first) // 2, len(first) - 1, len(first)):
        rest = Batches(built, tokens=256, seed=1, window=window).epoch(0, index)
        assert [content(batch) for batch in rest] == first[index:]


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=80), st.integers(16, 300))
def test_no_batch_is_over_the_budget_unless_it_is_a_single_pair(lengths, tokens):
    source, target = np.array(lengths).T
    batches = plan(source, target, tokens=tokens, rng=np.random.default_rng(0))
    assert sorted(itertools.chain(*batches)) == list(range(len(lengths)))
    for rows in batches:
        longest = max(source[rows].max(), target[rows].max()) + 1  # with END or START
        assert len(rows) * longest <= tokens or len(rows) == 1


def test_the_tensors_of_a_batch_keep_to_the_same_budget(built):
    for batch in Batches(built, tokens=256, seed=1).epoch(0):
        assert max(batch.source.numel(), batch.target.numel()) <= 256 or len(batch.rows) == 1


@pytest.mark.parametrize("window", [100, 1 << 20])
def test_a_walk_from_any_place_continues_as_if_it_had_never_stopped(built, window):
    batches = Batches(built, tokens=512, seed=3, window=window)
    steps = 2 * batches.count(0) + 5  # into the third epoch
    walked = list(itertools.islice(batches.walk(Position(0, 0)), steps))
    for stop in range(0, steps, 4):
        place = walked[stop][0]
        again = list(itertools.islice(Batches(built, tokens=512, seed=3, window=window).walk(place), steps - stop - 1))
        assert [(p, content(b)) for p, b in again] == [(p, content(b)) for p, b in walked[stop + 1 :]]


def test_a_walk_is_one_epoch_after_the_other(built):
    batches = Batches(built, tokens=512, seed=3)
    walked = itertools.islice(batches.walk(Position(0, 0)), batches.count(0) + batches.count(1))
    assert [content(batch) for _, batch in walked] == [content(b) for epoch in (0, 1) for b in batches.epoch(epoch)]


def test_batches_like_others_are_the_same_batches(built, vocabularies):
    settings = {"seed": 3, "vocabularies": vocabularies, "noise": lambda epoch: Noise(0.5, 0.3), "window": 50}
    first = Batches(built, tokens=512, **settings)
    assert [content(batch) for batch in Batches.like(first).epoch(1)] == [content(batch) for batch in first.epoch(1)]
    small, again = Batches(built, tokens=128, **settings), Batches.like(first, tokens=128)
    assert [content(batch) for batch in again.epoch(1)] == [content(batch) for batch in small.epoch(1)]


def test_sentences_like_those_of_a_real_corpus_are_padded_by_less_than_5_percent():
    draw = np.random.default_rng(0)
    source = np.clip(draw.gamma(6.0, 2.2, 30_000), 1, 60).round().astype(int)  # 13 subwords on average, as in Multi30k
    target = np.clip(source + draw.normal(0.5, 2.5, 30_000), 1, 60).round().astype(int)
    grid = 0
    for rows in plan(source, target, tokens=2_048, rng=draw):
        grid += len(rows) * (source[rows].max() + target[rows].max() + 2)
    assert 1 - (source.sum() + target.sum() + 2 * len(source)) / grid < 0.05


def test_sources_end_with_end_targets_begin_with_start_and_labels_are_targets_one_step_ahead(built):
    for batch in Batches(built, tokens=256, seed=1).epoch(0):
        for row, source, target, labels in zip(batch.rows.tolist(), *content(batch)[:3], strict=True):
            s, t = built.source[row].tolist(), built.target[row].tolist()
            assert source == [*s, END] + [PAD] * (batch.source.shape[1] - len(s) - 1)
            assert target == [START, *t] + [PAD] * (batch.target.shape[1] - len(t) - 1)
            assert labels == [*t, END] + [PAD] * (batch.target.shape[1] - len(t) - 1)
        assert batch.tokens == int((batch.labels != PAD).sum())
        assert batch.source.dtype == batch.target.dtype == batch.labels.dtype == torch.int64
        real = int((batch.source != PAD).sum()) + batch.tokens
        assert batch.padding == pytest.approx(1 - real / (batch.source.numel() + batch.labels.numel()))


def test_moving_a_batch_moves_all_of_it(built):
    batch = next(Batches(built, tokens=256, seed=1).epoch(0))
    moved = batch.to(torch.device("meta"))
    assert {tensor.device.type for tensor in (moved.source, moved.target, moved.labels, moved.rows)} == {"meta"}
    assert moved.tokens == batch.tokens


@pytest.mark.parametrize("parts", [2, 3, 8])
def test_shares_hold_every_sentence_once_pad_less_and_are_equal_work(built, parts):
    def sentences(batch: Batch) -> list[tuple[int, list[list[int]]]]:
        sides = (batch.source, batch.target, batch.labels)
        words = [[[i for i in line if i != PAD] for line in side.tolist()] for side in sides]
        return [(row, [side[at] for side in words]) for at, row in enumerate(batch.rows.tolist())]

    grid = {"whole": 0, "shares": 0}
    for batch in Batches(built, tokens=512, seed=1).epoch(0):
        shares = [batch.share(part, parts) for part in range(parts)]
        assert sorted(pair for share in shares for pair in sentences(share)) == sorted(sentences(batch))
        assert sum(share.tokens for share in shares) == batch.tokens
        work = [share.tokens + int((share.source != PAD).sum()) for share in shares]
        assert max(work) - min(work) <= 2 * (batch.source.shape[1] + batch.labels.shape[1])
        for share in shares:
            assert share.target.shape == share.labels.shape
            for side in (share.source, share.labels):
                assert not len(side) or (side[:, -1] != PAD).any(), "trimmed to its longest"
        grid["whole"] += batch.source.numel() + batch.labels.numel()
        grid["shares"] += sum(share.source.numel() + share.labels.numel() for share in shares)
    assert grid["shares"] < grid["whole"]


def test_pad_puts_ids_before_and_after_and_fills_the_rest():
    assert pad([[5, 6], [7]], before=START, after=END).tolist() == [[2, 5, 6, 3], [2, 7, 3, 0]]
    assert pad([[], [7]]).tolist() == [[0], [7]]


def test_sampled_batches_hold_the_same_texts_and_depend_on_the_epoch_and_the_index_only(built, vocabularies):
    def sampled(epoch: int, start: int = 0) -> list[object]:
        batches = Batches(built, tokens=512, seed=1, vocabularies=vocabularies, noise=lambda epoch: Noise(sampling=0.5))
        return [content(batch) for batch in batches.epoch(epoch, start)]

    first = sampled(0)
    assert sampled(0, 3) == first[3:]
    plain = [content(batch) for batch in Batches(built, tokens=512, seed=1).epoch(0)]
    assert first != plain
    for drawn, best in zip(first, plain, strict=True):
        assert drawn[3] == best[3]
        for side, vocabulary in ((0, vocabularies.source), (2, vocabularies.target)):
            assert [vocabulary.decode(ids) for ids in drawn[side]] == [vocabulary.decode(ids) for ids in best[side]]


def test_hidden_words_are_unknown_to_the_model_and_still_to_be_said(built):
    def hidden(epoch: int, start: int = 0) -> list[Batch]:
        return list(
            Batches(built, tokens=512, seed=1, noise=lambda epoch: Noise(unknown=0.25 * epoch)).epoch(epoch, start)
        )

    for epoch, share in ((0, 0.0), (1, 0.25), (2, 0.5)):
        given, plain = hidden(epoch), list(Batches(built, tokens=512, seed=1).epoch(epoch))
        seen, words, unknown = [content(batch) for batch in given], 0, 0
        assert [content(batch) for batch in hidden(epoch, 3)] == seen[3:]
        for noisy, clean in zip(given, plain, strict=True):
            assert torch.equal(noisy.labels, clean.labels)
            assert noisy.tokens == clean.tokens
            for drawn, whole in ((noisy.source, clean.source), (noisy.target, clean.target)):
                changed = drawn != whole
                assert (drawn[changed] == UNKNOWN).all()
                assert (whole[changed] > END).all()
                words, unknown = words + int((whole > END).sum()), unknown + int(changed.sum())
        assert unknown / words == pytest.approx(share, abs=4 * (share * (1 - share) / words) ** 0.5)
    first, second = hidden(1), hidden(2)
    assert not torch.equal(first[0].source == UNKNOWN, first[0].target == UNKNOWN)
    assert [content(batch) for batch in first] != [content(batch) for batch in second]


@pytest.mark.shared
def test_padding_is_under_5_percent_on_multi30k(tmp_path):
    files = [SHARED / "multi30k" / f"train.{language}.gz" for language in ("en", "de")]
    if not all(file.exists() for file in files):
        pytest.skip(f"Multi30k is not in {SHARED}")
    corpus = corpora.from_files(*files)
    sample = [text for pair in itertools.islice(corpus, 0, None, 5) for text in pair[:2]]
    joint = Vocabulary.train(sample, size=8_000, kind="bpe")
    made = store.build(corpus, Vocabularies(joint, joint), Filters(200, 9.0), tmp_path, identity=corpus.digest)
    grid = real = 0
    for batch in Batches(made, tokens=2_048, seed=1).epoch(0):
        grid += batch.source.numel() + batch.labels.numel()
        real += int((batch.source != PAD).sum()) + batch.tokens
    assert len(made) > 28_000
    assert 1 - real / grid < 0.05


LIMITED = """
import os, resource, sys
from pathlib import Path

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one thread of SentencePiece, whatever the machine
import torch
from jumok.data import corpora, store
from jumok.data.batches import Batches
from jumok.text.vocabulary import Vocabularies

folder, spare = Path(sys.argv[1]), int(sys.argv[2])
vocabularies = Vocabularies.load(folder)
vocabularies.source.encode_all(["a b c"] * 99), torch.zeros(9) + 1  # what is started once is started now
corpus = corpora.from_files(folder / "a", folder / "b")
status = Path("/proc/self/status").read_text().split("\\n")
now = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData"))
resource.setrlimit(resource.RLIMIT_DATA, (now + spare, now + spare))

made = store.build(corpus, vocabularies, store.Filters(200, 9.0), folder / "store", identity="x")
print(sum(len(batch.rows) for batch in Batches(made, tokens=4096, seed=1, window=20_000).epoch(0)))
print(sum(path.stat().st_size for path in made.folder.iterdir()))
try:
    print(len(list(corpus)))
except MemoryError:
    print("MemoryError")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit counts what it should on Linux only")
def test_a_corpus_larger_than_memory_becomes_batches(vocabularies, tmp_path):
    spare, repeats = 26_000_000, 330  # bytes that may be allocated beyond what the imports took
    for name in ("a", "b"):
        with open(tmp_path / name, "w") as file:
            for number in range(repeats):
                file.writelines(f"{number} {text}\n" for text in TEXTS[:500])
    vocabularies.save(tmp_path)
    (tmp_path / "limited.py").write_text(LIMITED)
    small_stacks = ["sh", "-c", 'ulimit -s 512; exec "$@"', "sh"]  # the stacks of threads count, too
    command = [*small_stacks, sys.executable, str(tmp_path / "limited.py"), str(tmp_path), str(spare)]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "1",
    }  # nor do threads have heaps of their own
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    walked, stored, naive = done.stdout.split()
    assert int(walked) == repeats * 500
    assert sum((tmp_path / name).stat().st_size for name in ("a", "b")) + int(stored) > spare
    assert naive == "MemoryError", "the limit did not bind, so the test says nothing"
