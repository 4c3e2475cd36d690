"""S5: the same text gets the same translation, whatever else is in the batch; and odd texts get one at all.

Counted as bench/same.py counts on real text: sentences in random order, in calls of 1 to 300, against all in one call.
"""

import math
import os
import subprocess
import sys
import time
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import torch

import jumok
from bench.same import SEARCHES, VARIANTS, differences, digest, mixes
from jumok.config import presets
from jumok.config.search import SearchOptions
from jumok.data.made import phrasebook
from jumok.decoding.constraints import search_with_phrases
from jumok.engines.native_engine import NativeEngine
from jumok.errors import DataError
from jumok.kernels import library, ops
from jumok.runs.experiment import train
from jumok.translator import Translator
from tests.engines.test_engine import NATIVE, bundle_of
from tests.support.helpers import made, two_sentences

EXACT = ["native", "native with shortlist", "torch"]  # whatever the mode
OTHERS = [name for name in VARIANTS if name not in EXACT]


@pytest.fixture(scope="module")
def talker(tmp_path_factory):
    """A model that has learned a little, with sums that are longer than a block of the kernels and end unevenly."""
    changes = {
        "data.pairs": 3_000, "vocabulary.size": 900, "model.encoder_layers": 2, "model.decoder_layers": 2,
        "model.d_model": 96, "model.d_ff": 300, "training.steps": 150, "training.minutes": None,
        "training.validations": 1, "training.average": 1, "training.valid_pairs": 20, "training.warmup": 30,
        "decoding.extra_length": 10,
    }  # fmt: skip
    return train(recipe=presets.demo().change(changes), out=tmp_path_factory.mktemp("runs") / "talker").folder


@pytest.fixture(scope="module")
def texts():
    return [phrase.english for phrase in phrasebook.phrases("test", 1_000)]


def kernels(name):
    return nullcontext() if VARIANTS[name].kernels else library.without()


def counted(name, search, model_folder, texts, times, **choices):
    """What differs in so many mixes; the torch engine without kernels, which is slow, gets a tenth of the texts."""
    some = texts if VARIANTS[name].kernels else texts[: len(texts) // 10]
    with kernels(name):
        model = jumok.load(model_folder, **VARIANTS[name].choices, **choices)
        return differences(partial(model.translate, **SEARCHES[search]), some, times)[1]


def told(found):
    return f"{found.texts:,} of {found.tried:,} translations differ, {found.scores:,} scores in any bit"


@pytest.mark.parametrize("search", ["greedy", "5 best"])
@pytest.mark.parametrize("name", EXACT)
def test_nothing_beside_a_sentence_changes_a_bit_of_its_translation(name, search, talker, texts, tries, kept):
    found = counted(name, search, talker, texts[: tries(100, 1_000)], tries(5, 20))
    assert (found.texts, found.scores) == (0, 0)
    kept("S5", f"{name}, {search}: random mixes, default mode", figures=told(found))


@pytest.mark.parametrize("search", ["greedy", "5 best"])
@pytest.mark.parametrize("name", OTHERS)
def test_in_the_deterministic_mode_no_engine_changes_a_bit(name, search, talker, texts, tries, kept):
    found = counted(name, search, talker, texts[: tries(100, 1_000)], tries(5, 20), deterministic=True)
    assert (found.texts, found.scores) == (0, 0)
    kept("S5", f"{name}, {search}: random mixes, deterministic mode", figures=told(found))


@pytest.mark.parametrize("name", OTHERS)
def test_how_often_the_default_mode_differs_is_told(name, talker, texts, tries, kept):
    found = counted(name, "beam 5", talker, texts[: tries(100, 1_000)], tries(5, 20))
    assert found.tried > 0
    kept("S5", f"{name}, beam 5: random mixes, default mode (no promise)", figures=told(found))


FEATURES = [name for name in SEARCHES if name not in ("greedy", "beam 5", "5 best")]


@pytest.mark.parametrize("search", FEATURES)
@pytest.mark.parametrize("deterministic", [False, True])
def test_what_is_done_step_by_step_keeps_to_it_too(search, deterministic, talker, texts, tries, kept):
    if not deterministic and search in ("coverage", "drawing", "least risk"):
        pytest.skip("promised in the deterministic mode only")
    wishes = {"forbid": ["저는"], "require": ["요"]}
    how = {key: wishes.get(key, value) for key, value in SEARCHES[search].items()}
    model = jumok.load(talker, engine="torch", deterministic=deterministic)
    _, found = differences(partial(model.translate, **how), texts[: tries(30, 200)], tries(2, 5))
    assert (found.texts, found.scores) == (0, 0)
    mode = "deterministic" if deterministic else "default"
    kept("S5", f"torch, {search}: random mixes, {mode} mode", figures=told(found))


@pytest.mark.parametrize("engine", ["torch", "auto", "ctranslate2"])
def test_the_wishes_of_a_neighbour_are_its_own(engine, talker, texts):
    model = jumok.load(talker, engine=engine, deterministic=True)
    kinds = [{}, {"prefix": "저는"}, {"require": ["요"]}, {"forbid": ["저는"]}, {"prefix": "저는", "forbid": ["요"]}]
    some = [kinds[row % len(kinds)] for row in range(40)]
    nothing = {"prefix": "", "require": [], "forbid": []}
    wishes = {name: [one.get(name, value) for one in some] for name, value in nothing.items()}
    together = model.translate(texts[:40], beam=3, length_penalty=2.0, **wishes)
    for text, wish, one in zip(texts, some, together, strict=False):
        assert one == model.translate(text, beam=3, length_penalty=2.0, **wish), wish


def test_a_long_phrase_of_one_sentence_gives_its_neighbour_no_more_candidates():
    model = made(seed=5)
    source, _ = two_sentences()
    asked = []

    def search(sources, phrases):
        def step(token, state):
            logits, state = model.step(token, state)
            asked.append(logits.shape[0])
            return logits, state

        with torch.inference_mode():
            state = model.start(sources)
        return search_with_phrases(step, state, [6] * len(sources), phrases, SearchOptions(beam=1, n_best=1))

    long, short = [(9, 10, 11, 12, 13)], [(14,)]
    for seed in range(20):
        model = made(seed=seed)
        together = search(source.flip(0), [short, long])[0][0]
        alone = search(source[1:, :3], [short])[0][0]
        assert together.ids == alone.ids, seed
    assert asked


def test_what_is_drawn_depends_on_the_line_and_not_on_blank_lines_in_its_chunk(micro):
    model, lines = jumok.load(micro), ["", "a b c", "", "d e f", "a b c"]
    draw = {"sample": True, "temperature": 3.0, "seed": 4}
    whole = [one.text for one in model.lines(lines, **draw)]
    for chunk in (1, 2, 3):
        assert [one.text for one in model.lines(lines, chunk=chunk, **draw)] == whole
    assert whole[1] != whole[4]
    same = [one.text for one in jumok.load(micro, deterministic=True).lines(lines, **draw)]
    assert same[1] == same[4] != same[3]


@pytest.mark.parametrize("variant", NATIVE)
def test_the_kernels_are_exact_for_every_variant_they_take(variant, micro, tmp_path):
    found, stepwise = bundle_of(variant, tmp_path / "model", micro)
    engine, draw = NativeEngine(found), np.random.default_rng(3)
    sources = [draw.integers(5, 280, size=int(draw.integers(1, 40))).tolist() for _ in range(60)]
    for options in (SearchOptions(beam=1, extra_length=4), SearchOptions(beam=3, n_best=3, extra_length=4)):
        whole = engine.decode(sources, options)
        assert stepwise.decode(sources, options) == whole  # the torch engine makes the same call
        for rows in next(mixes(len(sources), 1)):
            assert engine.decode([sources[row] for row in rows], options) == [whole[row] for row in rows]


@pytest.mark.parametrize("symbols", [5, 37, 64, 901])
def test_the_normalizer_of_a_row_knows_nothing_of_other_rows(symbols):
    logits = torch.randn(13, symbols) * 6.0
    together = ops.normalizer(logits)
    torch.testing.assert_close(together, logits.logsumexp(dim=-1, keepdim=True))
    for row in range(13):
        assert torch.equal(ops.normalizer(logits[row : row + 1]), together[row : row + 1])


def test_threads_change_nothing_in_what_is_promised(talker, texts, kept):
    code = (
        "import sys, torch; from tests.engines.test_same import told_by; torch.set_num_threads(int(sys.argv[3]))\n"
        "print(*told_by(sys.argv[1], sys.argv[2].split('\\n')))"
    )
    said = {}
    for threads in ("1", "3"):
        command = [sys.executable, "-c", code, str(talker), "\n".join(texts[:20]), threads]
        done = subprocess.run(
            command, env=os.environ | {"OMP_NUM_THREADS": threads}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        said[threads] = done.stdout
    assert len(said["1"].split()) == 6
    assert said["1"] == said["3"]
    kept("S5", "1 and 3 threads, native and torch, deterministic mode", count=20, figures="0 bits differ")


def told_by(folder, texts):
    """What the engines say, as digests; CTranslate2's deterministic mode has one thread a worker anyway."""
    for name in (*EXACT, "torch without kernels"):
        with kernels(name):
            model = Translator.load(folder, deterministic=True, **VARIANTS[name].choices)
            yield digest(model.translate(texts, beam=2))
    model = Translator.load(folder, deterministic=True)
    yield digest(model.translate(texts, no_repeat=2))
    yield digest(model.score(texts, [one.text for one in model.translate(texts)]))


def test_torch_has_its_threads_back(micro):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        model = jumok.load(micro, engine="torch", deterministic=True)
        with library.without():
            model.translate(["a b", "c"])
            model.score(["a b", "c"], ["a b", "c"])
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_the_deterministic_mode_scores_a_pair_as_if_it_were_alone(micro, monkeypatch):
    model, sides = jumok.load(micro, engine="torch", deterministic=True), (["a b", "c d e", "f"], ["b a", "e", "f g"])
    real, sizes = model.engine._force_pairs, []
    monkeypatch.setattr(model.engine, "_force_pairs", lambda pairs: sizes.append(len(pairs)) or real(pairs))
    together = model.score(*sides)
    assert sizes == [1, 1, 1]
    assert together == [model.score([source], [target])[0] for source, target in zip(*sides, strict=True)]


# ------------------------------------------------------------------ odd texts

ODD = {
    "nothing": "",
    "white space": " \t \u3000 ",
    "one character": "x",
    "characters of no training text": "ꙮ𒀀🜁ↈ" * 20,
    "emoji": "😀👍🏽🇩🇪👨‍👩‍👧",
    "control characters": "\x01\x02\x7f\x1b[0m\u200b\u2028",
    "NUL": "a\x00b",
    "half a character": "a \ud800 b",
    "2,000 words": "a b " * 1_000,
    "a word of 2,000 letters": "a" * 2_000,
}
TOO_LONG = {"10,000 words": "a b " * 5_000, "a word of 30,000 letters": "a" * 30_000}


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("name", VARIANTS)
def test_an_odd_text_gets_a_translation_in_bounded_time(name, deterministic, micro, kept):
    began = time.perf_counter()
    with kernels(name):
        model = jumok.load(micro, deterministic=deterministic, **VARIANTS[name].choices)
        alone = {kind: model.translate(text, beam=1) for kind, text in ODD.items()}
        together = model.translate([*ODD.values()], beam=2 if VARIANTS[name].kernels else 1)
    for one in (*alone.values(), *together):
        assert all(map(math.isfinite, (one.score, one.log_probability, *one.token_scores)))
        assert len(one.tokens) <= 2_048 + 5
        one.text.encode()
    assert [alone[kind].text for kind in ("nothing", "white space")] == ["", ""]
    assert time.perf_counter() - began < 120.0
    for text in TOO_LONG.values():
        with pytest.raises(DataError, match="cannot be translated at once"):
            model.translate(["a", text], beam=1)
    kept("S5", "odd texts: empty, unknown, 2,000 words, half a character …", count=len(ODD), figures="0 NaN, 0 errors")
    kept("S0", "texts that are too long are refused", count=len(TOO_LONG))


# ------------------------------------------------------------------ at the command line


def test_deterministic_at_the_command_line(micro, jumok, tmp_path):
    (tmp_path / "in").write_text("a b c\n\nd e\n", encoding="utf-8")
    plain, steady = (
        jumok("translate", micro, "--input", tmp_path / "in", *more) for more in ((), ("--deterministic",))
    )
    assert (steady.code, steady.out, steady.err) == (0, plain.out, "")
    for engine in ("torch", "ctranslate2"):
        assert jumok("translate", micro, "a b", "--engine", engine, "--deterministic").code == 0
    files = ("--source", tmp_path / "in", "--target", tmp_path / "in")
    assert jumok("evaluate", micro, *files, "--deterministic").code in (0, 64)
