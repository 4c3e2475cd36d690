"""The native search with prefixes, required and forbidden text, and other rules: the torch engine's, step by step."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

import jumok
from jumok.config.search import SearchOptions, TokenConstraints
from jumok.engines.native_engine import NativeEngine
from jumok.engines.torch_engine import TorchEngine
from jumok.errors import UsageError
from jumok.kernels import library
from jumok.kernels.searching import Shortlist
from jumok.models import build
from jumok.storage import bundle, checkpoint
from jumok.text.automata import TextRules
from jumok.text.boundaries import contains_phrase, contains_word
from jumok.text.symbols import NEVER
from tests.support.helpers import small

pytestmark = pytest.mark.skipif(library.load() is None, reason="no C compiler on this machine")
FIRST = 8  # the first token that is not a special
# Pieces of a vocabulary in three languages, and two bytes, as which the tokens of a small model are read
PIECES = [
    " dog", " do", "g", "s", ".", " hot", " a", " dogma", "(", " 사과", "를", "나무", "에", "서", "는",
    " Haus", "es", "tür", " Her", "r", "ren", " He", " ", "d", "o", "H", "e", "사", "과", "\udcc3", "\udcb6",
]  # fmt: skip
OPENINGS = ["", " ", " He", " Her", " 사", " d", " ö", " dogs 사과를"]
WORDS = ["dog", "hot dog", "사과", "Haus", "a", "."]
RULES = {
    "prefix": lambda r: TokenConstraints(prefix=tuple(r.choices(TOKENS, k=r.randint(0, 4)))),
    "opening": lambda r: TokenConstraints(
        prefix=tuple(r.choices(TOKENS, k=r.randint(0, 2))), opening=r.choice(OPENINGS)
    ),
    "forbid": lambda r: TokenConstraints(forbid=tuple(r.sample(WORDS, k=r.randint(0, 3)))),
    "require": lambda r: TokenConstraints(require=tuple(phrase(r) for _ in range(r.randint(0, 3)))),
    "all": lambda r: TokenConstraints(
        prefix=tuple(r.choices(TOKENS, k=r.randint(0, 2))),
        opening=r.choice(["", " Her", " 사"]),
        forbid=tuple(r.sample(["dog", "사과", "Haus"], k=r.randint(0, 2))),
        require=tuple(phrase(r) for _ in range(r.randint(0, 2))),
    ),
}  # fmt: skip
TOKENS = range(FIRST, 285)


def piece(token):
    return PIECES[token % len(PIECES)]


def phrase(r):
    """Tokens of whole words."""
    begins = [token for token in TOKENS if piece(token).strip() != piece(token)]
    return (r.choice(begins), *r.choices(TOKENS, k=r.randint(0, 2)))


@pytest.fixture(scope="module")
def engines(micro, tmp_path_factory):
    """The native engine and the torch engine of a small model with random weights."""
    loaded = checkpoint.load(micro)
    config = small("rotary", d_k=None, d_v=None, d_model=32, heads=2)
    torch.manual_seed(7)
    model = build(config, *loaded.sizes).float().eval()
    with torch.no_grad():
        model.matrix.mul_(4.0)
    folder = tmp_path_factory.mktemp("rules") / "model"
    recipe = loaded.recipe.model_copy(update={"model": config})
    checkpoint.export(folder, checkpoint.weights(model), recipe, loaded.vocabularies, loaded.card)
    surfaces = loaded.vocabularies.target.surfaces()
    assert len(surfaces) >= TOKENS.stop
    surfaces[FIRST : TOKENS.stop] = map(piece, TOKENS)
    native, stepwise = NativeEngine(bundle.read(folder)), TorchEngine(model, surfaces=lambda: surfaces)
    native.texts = TextRules(lambda: surfaces)
    stepwise._search_at_once = lambda *_: None
    return native, stepwise


@pytest.fixture(scope="module")
def sources():
    r = random.Random(5)
    return [[r.choice(TOKENS) for _ in range(r.randint(1, 9))] for _ in range(40)]


def same(ours, theirs):
    """The same hypotheses with the same scores."""
    assert [[one.ids for one in several] for several in ours] == [[one.ids for one in several] for several in theirs]
    for a, b in ((a, b) for several in zip(ours, theirs, strict=True) for a, b in zip(*several, strict=True)):
        assert a.score == pytest.approx(b.score, abs=1e-4)
        assert a.token_scores == pytest.approx(b.token_scores, abs=1e-4)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(
    "options",
    [
        SearchOptions(beam=1, extra_length=7),
        SearchOptions(beam=4, n_best=3, extra_length=7, min_length=4, no_repeat=2),
        SearchOptions(beam=3, extra_length=9, length_penalty=1.5, exact=True),
    ],
    ids=["greedy", "beam", "exact"],
)
def test_rules_find_what_the_torch_engine_finds_step_by_step(engines, sources, name, options):
    r = random.Random(name)
    asked = [RULES[name](r) for _ in sources]
    native, stepwise = engines
    ours = native.decode(sources, options, constraints=asked)
    same(ours, stepwise.decode(sources, options, constraints=asked))
    assert sum(len(several) == options.n_best for several in ours) > 30


def test_what_is_asked_for_is_kept_and_changes_what_is_found(engines, sources):
    r, (native, _) = random.Random(1), engines
    options = SearchOptions(beam=4, extra_length=7)
    free = native.decode(sources, options)
    spelling = native.texts.spelling
    for name in ("opening", "forbid", "require"):
        asked = [RULES[name](r) for _ in sources]
        if name == "forbid":
            asked = [TokenConstraints(forbid=tuple(spelling.text(found[0].body).split()[:1])) for found in free]
        found = native.decode(sources, options, constraints=asked)
        assert sum(a[0].ids != b[0].ids for a, b in zip(found, free, strict=True)) > 10
        for bound, (best, *_) in zip(asked, found, strict=True):
            text = spelling.text(best.body)
            assert best.ids[: len(bound.prefix)] == bound.prefix
            begun = spelling.text(best.body[len(bound.prefix) :]).encode("utf-8", "surrogateescape")
            assert begun.startswith(bound.opening.encode())
            assert not any(contains_word(text, word) for word in bound.forbid)
            for phrase in bound.require:
                starts = [i for i in range(len(best.ids)) if best.ids[i : i + len(phrase)] == phrase]
                assert any(contains_phrase(f" {spelling.text(best.body[i:])}", spelling.text(phrase)) for i in starts)


def test_a_shortlist_contains_what_is_asked_for(engines, sources):
    native, _ = engines
    tokens = np.array(TOKENS[:5])
    empty = np.zeros(native.packed.symbols[0] + 1, np.int64)
    short = Shortlist(native.packed.matrix.ctypes.data, False, empty, np.empty(0, np.int64), tokens)
    r, options = random.Random(3), SearchOptions(beam=3, extra_length=7)
    try:
        native.shortlist = short
        for name in ("prefix", "opening", "require", "all"):
            asked = [replace(RULES[name](r), forbid=()) for _ in sources]
            for bound, found in zip(asked, native.decode(sources, options, constraints=asked), strict=True):
                assert found, bound
                assert found[0].ids[: len(bound.prefix)] == bound.prefix
                assert all(
                    any(found[0].ids[i : i + len(phrase)] == phrase for i in range(len(found[0].ids)))
                    for phrase in bound.require
                )
    finally:
        native.shortlist = None


def test_a_shortlist_keeps_the_output_bias(engines, sources):
    native, _ = engines
    symbols, decoder = native.packed.symbols, native.packed.decoder
    bias = np.random.default_rng(2).normal(scale=3.0, size=symbols[1]).astype(np.float32)
    tokens = np.setdiff1d(np.arange(symbols[1]), NEVER)
    everything = Shortlist(
        native.packed.matrix.ctypes.data, False, np.zeros(symbols[0] + 1, np.int64), np.empty(0, np.int64), tokens
    )
    options, plain = (
        SearchOptions(beam=1, extra_length=7),
        native.decode(sources, SearchOptions(beam=1, extra_length=7)),
    )
    try:
        decoder.output.bias = bias.ctypes.data
        whole = native.decode(sources, options)
        native.shortlist = everything
        short = native.decode(sources, options)
    finally:
        native.shortlist, decoder.output.bias = None, None
    assert [one[0].ids for one in short] == [one[0].ids for one in whole]
    assert sum(a[0].ids != b[0].ids for a, b in zip(whole, plain, strict=True)) > 10


def test_constraints_that_contradict_each_other_are_an_error_of_their_own(micro):
    model = jumok.load(micro)
    with pytest.raises(UsageError, match="no translation was found that begins with the prefix") as raised:
        model.translate(["a b", "c d"], require=[[], ["k"]], forbid=[[], ["k"]])
    assert raised.value.where == "in text 2"


def test_a_prefix_in_the_middle_of_a_word_is_continued_by_both_engines(micro):
    models = [jumok.load(micro, engine=engine) for engine in ("native", "torch")]
    for prefix in ("a b", "a b ", "ab", "😀", "a 😀b"):
        ours, theirs = (model.translate(["a b c", "e"], prefix=prefix, beam=3) for model in models)
        assert [one.tokens for one in ours] == [one.tokens for one in theirs]
        assert all(f"{one.text} ".startswith(prefix) for one in ours)
