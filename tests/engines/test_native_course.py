"""How the native engine runs: stop flags, live prefixes, threads; and given translations, scored and aligned."""

import ctypes
import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from jumok.blocks import list_beginnings
from jumok.config.search import SearchOptions, TokenConstraints
from jumok.engines.native_engine import NativeEngine
from jumok.engines.torch_engine import TorchEngine
from jumok.kernels import library, searching
from jumok.storage import bundle, checkpoint
from tests.engines.test_engine import bundle_of

pytestmark = pytest.mark.skipif(library.load() is None, reason="no C compiler on this machine")
OPTIONS = SearchOptions(beam=4, n_best=2, extra_length=20)
DRAW = np.random.default_rng(3)
SOURCES = [DRAW.integers(8, 280, size=int(DRAW.integers(1, 20))).tolist() for _ in range(60)]
REQUIRED = [TokenConstraints(require=((270 + row % 9,),) if row % 3 == 0 else ()) for row in range(60)]


@pytest.fixture(scope="module")
def engines(micro, tmp_path_factory):
    found, reference = bundle_of("pre-norm", tmp_path_factory.mktemp("course") / "model", micro)
    return NativeEngine(found), reference


@pytest.fixture(scope="module")
def native(engines):
    return engines[0]


@pytest.mark.parametrize("constraints", [None, REQUIRED], ids=["plain", "required"])
@pytest.mark.parametrize("spread", [False, True])
def test_a_stopped_sentence_has_no_hypotheses_and_its_neighbours_stay_the_same(native, constraints, spread):
    whole = native.decode(SOURCES, OPTIONS, constraints=constraints)
    flags = (ctypes.c_uint8 * len(SOURCES))(*(row % 4 == 1 for row in range(len(SOURCES))))
    stops = [ctypes.addressof(flags) + row for row in range(len(SOURCES))] if spread else ctypes.addressof(flags)
    found = native.decode(SOURCES, OPTIONS, constraints=constraints, stops=stops)
    assert found == [[] if flags[row] else several for row, several in enumerate(whole)]
    flags[:] = [1] * len(SOURCES)
    assert native.decode(SOURCES, OPTIONS, constraints=constraints, stops=stops) == [[] for _ in SOURCES]


def test_several_calls_of_the_kernels_find_what_one_call_finds(native, monkeypatch):
    flags = (ctypes.c_uint8 * len(SOURCES))(*(row % 4 == 1 for row in range(len(SOURCES))))
    results = []
    for tokens in (searching.AT_ONCE, 500):
        monkeypatch.setattr(searching, "AT_ONCE", tokens)
        live = np.zeros((len(SOURCES), 60), np.int64)
        hypotheses = native.decode(SOURCES, OPTIONS, constraints=REQUIRED, stops=ctypes.addressof(flags), live=live)
        results.append((hypotheses, live.tolist()))
    assert results[0] == results[1]


def test_a_sentence_is_given_up_in_the_middle_and_its_neighbours_stay_the_same(native):
    """Sentences that never end by themselves are stopped one after the other, while others go on."""
    options = SearchOptions(beam=2, extra_length=1_500, min_length=1_400)
    sources = [SOURCES[0]] * 3
    whole = native.decode(sources, options, threads=1)
    flags = (ctypes.c_uint8 * 3)()
    live = np.zeros((3, 4_000), np.int64)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            native.decode, sources, options, threads=1, stops=ctypes.addressof(flags), live=live,
            constraints=[TokenConstraints(prefix=(9,) * 300)] * 3,
        )  # fmt: skip
        while live[1, 0] < 20 and not running.done():
            time.sleep(0.001)
        flags[1] = 1
        found = running.result()
    assert found[1] == []
    assert 20 <= live[1, 0] < 1_400
    again = native.decode(sources, options, threads=1, constraints=[TokenConstraints(prefix=(9,) * 300)] * 3)
    assert found[0] == again[0]
    assert found[2] == again[2]
    assert whole[0] != again[0]


@pytest.mark.parametrize("beam", [1, 4])
def test_what_is_certain_begins_the_best_translation_and_only_grows(native, beam):
    options = SearchOptions(beam=beam, extra_length=400, min_length=300, length_penalty=1.0)
    for source in SOURCES[:3]:
        live, seen = np.zeros((1, 600), np.int64), [()]
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(
                native.decode, [source], options, live=live, constraints=[TokenConstraints(prefix=(9, 10) * 20)]
            )
            while not running.done():
                count = int(live[0, 0])
                seen.append(tuple(live[0, 1 : 1 + count].tolist()))
            best = running.result()[0][0]
        for before, after in itertools.pairwise(seen):
            assert after[: len(before)] == before
        last = tuple(live[0, 1 : 1 + int(live[0, 0])].tolist())
        assert best.ids[: len(last)] == last
        assert len(last) >= (40 if beam > 1 else 300)


def test_a_live_buffer_that_does_not_fit_is_refused_and_a_short_one_is_filled(native):
    with pytest.raises(ValueError, match="a live buffer is"):
        native.decode(SOURCES, OPTIONS, live=np.zeros((3, 50), np.int64))
    live = np.full((len(SOURCES) + 1, 4), -1, np.int64)
    greedy = SearchOptions(beam=1, extra_length=20)
    assert native.decode(SOURCES, greedy, live=live) == native.decode(SOURCES, greedy)
    assert live[:-1, 0].max() == 3
    assert live[-1].tolist() == [-1] * 4


def test_calls_from_several_threads_at_once_find_what_one_finds(native):
    whole = native.decode(SOURCES, OPTIONS, constraints=REQUIRED)
    fresh = NativeEngine.__new__(NativeEngine)
    fresh.__dict__.update(native.__dict__)
    fresh.packed._tables.clear()  # so that tables of positions are made while others use them
    start = threading.Barrier(4)

    def work(_):
        start.wait()
        found = []
        for row in range(len(SOURCES)):
            found += fresh.decode([SOURCES[row]], OPTIONS, constraints=[REQUIRED[row]], threads=1)
        return found

    with ThreadPoolExecutor(4) as pool:
        assert all(found == whole for found in pool.map(work, range(4)))


# ------------------------------------------------------------------------------------------- given translations


def pairs_of(count):
    draw = np.random.default_rng(8)
    return [(SOURCES[row], draw.integers(8, 280, size=int(draw.integers(0, 25))).tolist()) for row in range(count)]


def test_scores_are_those_of_the_torch_engine_and_of_the_search_itself(engines):
    native, reference = engines
    pairs = pairs_of(60)
    for a, b in zip(native.score(pairs), reference.score(pairs), strict=True):
        assert a.ids == b.ids
        assert a.token_scores == pytest.approx(b.token_scores, abs=1e-4)
        assert a.score == pytest.approx(b.score, abs=1e-4)
    assert native.score(pairs, threads=1) == native.score(pairs)
    assert native.score([]) == []
    found = [several[0] for several in native.decode(SOURCES, OPTIONS)]
    ended = [(source, one) for source, one in zip(SOURCES, found, strict=True) if one.ended]
    forced = native.score([(source, one.body) for source, one in ended])
    assert [one.token_scores for one in forced] == [one.token_scores for _, one in ended]  # bit for bit


@pytest.mark.parametrize(("layer", "head"), [(None, None), (0, None), (1, 0), (0, 1)])
def test_attention_is_that_of_the_torch_engine(engines, layer, head):
    native, reference = engines
    pairs = pairs_of(60)
    for (source, target), a, b in zip(
        pairs, native.align(pairs, layer, head), reference.align(pairs, layer, head), strict=True
    ):
        assert a.shape == (len(target) + 1, len(source) + 1)
        np.testing.assert_allclose(a, b, atol=1e-5)
    every = native.attend(pairs, layer)
    assert every[0].shape == (2, len(pairs[0][1]) + 1, len(pairs[0][0]) + 1)
    np.testing.assert_allclose(every[0].sum(axis=-1), 1.0, atol=1e-5)


def test_a_layer_or_a_head_that_does_not_exist_is_refused(native):
    for layer, head in ((2, None), (-1, None), (0, 2), (0, -1)):
        with pytest.raises(IndexError):
            native.align(pairs_of(1), layer, head)


def test_alternatives_are_those_of_the_torch_engine(micro):
    found = bundle.read(micro)
    native, vocabulary = NativeEngine(found), found.vocabularies.target
    reference = TorchEngine(checkpoint.load(micro).model, surfaces=vocabulary.surfaces)
    for text in ("a b c d", "h g f", "b"):
        for prefix in ("", "a b", "c ", "de f"):
            for options in (SearchOptions(beam=3, extra_length=5), SearchOptions(beam=1, extra_length=5, no_repeat=1)):
                source, beginnings = found.vocabularies.source.encode(text), list_beginnings(vocabulary, prefix)
                ours, theirs = (engine.alternatives(source, beginnings, 4, options) for engine in (native, reference))
                assert [one.ids for one in ours] == [one.ids for one in theirs]
                assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-4)
                texts = [vocabulary.decode(one.body) for one in ours]
                assert len(set(texts)) == len(texts) > 1
                assert all(f"{one} ".startswith(prefix) for one in texts)
