"""The fast engines: the same hypotheses as the torch engine, without torch; what they cannot do is told and done."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from math import isnan

import numpy as np
import pytest
import torch

import jumok
from jumok.config.search import SearchOptions, TokenConstraints
from jumok.data.lexicon import FILE, Lexicon, load_shortlist
from jumok.decoding.hypothesis import penalize
from jumok.disk import user_cache
from jumok.engines import ctranslate2_engine, native_engine
from jumok.engines.ctranslate2_engine import CTranslate2Engine, export_to_cache, list_layouts
from jumok.engines.native_engine import NativeEngine
from jumok.engines.torch_engine import TorchEngine
from jumok.errors import DataError, ModelFileError, UnknownName, UsageError
from jumok.kernels import library
from jumok.kernels.layout import find_obstacle
from jumok.kernels.pack import Packed
from jumok.kernels.searching import Course
from jumok.models import build
from jumok.storage import bundle, checkpoint
from jumok.storage import tensors as stored
from jumok.text.symbols import NEVER
from jumok.text.vocabulary import END
from tests.support.helpers import VARIANTS, small

NATIVE = [
    "paper",
    "pre-norm",
    "learned",
    "rotary",
    "nowhere",
    "plain-dot",
    "deep-encoder",
    "no-bias",
    "untied",
    "target-tied",
]
TEXTS = ["a b c d", "e f g h a b c", "b", "d d d e f", "h g f e d c b a"]


@pytest.fixture(scope="module")
def found(micro):
    return bundle.read(micro)


@pytest.fixture(scope="module")
def fast(found):
    return CTranslate2Engine(found, precision="float32")


@pytest.fixture(scope="module")
def reference(micro):
    return TorchEngine(checkpoint.load(micro).model)


@pytest.fixture(scope="module")
def sources(found):
    return [found.vocabularies.source.encode(text) for text in TEXTS]


@pytest.mark.parametrize(
    "options",
    [
        SearchOptions(beam=1, extra_length=5),
        SearchOptions(beam=1, extra_length=20, min_length=9),
        SearchOptions(beam=1, extra_length=12, no_repeat=2),
    ],
    ids=["greedy", "min-length", "no-repeat"],
)
def test_greedy_search_finds_what_the_torch_engine_finds(fast, reference, sources, options):
    ours, theirs = fast.decode(sources, options), reference.decode(sources, options)
    assert [one[0].ids for one in ours] == [one[0].ids for one in theirs]
    for (a,), (b,) in zip(ours, theirs, strict=True):
        assert a.log_probability == pytest.approx(b.log_probability, abs=1e-3)
        assert a.score == pytest.approx(b.score, abs=1e-3)
        assert a.token_scores == pytest.approx(b.token_scores, abs=1e-3)


def test_text_alone_is_the_same_text_without_scores(fast, sources):
    options = SearchOptions(beam=1, extra_length=5)
    scored, bare = fast.decode(sources, options), fast.decode(sources, options, details=False)
    assert [one[0].ids for one in bare] == [one[0].ids for one in scored]
    assert all(isnan(one[0].score) != one[0].scored for one in bare)
    assert not all(one[0].scored for one in bare)
    assert all(one[0].scored for one in fast.decode(sources, SearchOptions(beam=2), details=False))


def test_text_alone_holds_no_special_where_the_model_would_say_one(fast, sources, monkeypatch):
    """A token that greedy search does say is made one that must never be said."""
    options = SearchOptions(beam=1, extra_length=5)
    said = fast.target[fast.decode(sources, options)[0][0].ids[0]]
    monkeypatch.setattr(fast, "never", [*fast.never, [said]])
    monkeypatch.setattr(fast, "special", fast.special | {said})
    scored, bare = fast.decode(sources, options), fast.decode(sources, options, details=False)
    assert [one[0].ids for one in bare] == [one[0].ids for one in scored]
    assert all(fast.number[said] not in one[0].ids for one in bare)


def test_a_prefix_is_where_a_translation_begins(fast, reference, sources, found):
    wishes = [TokenConstraints(prefix=tuple(found.vocabularies.target.encode("h e")))] * len(sources)
    options = SearchOptions(beam=1, extra_length=5)
    ours, theirs = (engine.decode(sources, options, constraints=wishes) for engine in (fast, reference))
    assert [one[0].ids for one in ours] == [one[0].ids for one in theirs]
    assert all(one[0].ids[: len(wishes[0].prefix)] == wishes[0].prefix for one in ours)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
@pytest.mark.parametrize("details", [False, True])
def test_what_a_beam_finds_is_ranked_by_the_score_of_the_paper(fast, reference, sources, alpha, details):
    options = SearchOptions(beam=4, n_best=4, length_penalty=alpha, extra_length=5)
    for source, several in zip(sources, fast.decode(sources, options, details=details), strict=True):
        scores = [one.score for one in several]
        assert len({one.ids for one in several}) == 4
        assert scores == sorted(scores, reverse=True)
        for one in several:
            assert one.score == pytest.approx(penalize(one.log_probability, len(one.ids), alpha), abs=1e-4)
            if one.ended:
                (forced,) = reference.score([(source, one.body)], length_penalty=alpha)
                assert one.log_probability == pytest.approx(forced.log_probability, abs=2e-3)


def test_no_output_holds_a_special_or_is_longer_than_its_own_limit(fast, sources):
    options = SearchOptions(beam=3, n_best=3, extra_length=2)
    for source, several in zip(sources, fast.decode(sources, options), strict=True):
        for one in several:
            assert not set(one.ids) & set(NEVER)
            assert len(one.ids) <= len(source) + 2


def test_scoring_is_that_of_the_torch_engine(fast, reference, sources):
    pairs = list(zip(sources, reversed(sources), strict=True))
    for a, b in zip(*(engine.score(pairs, length_penalty=0.6) for engine in (fast, reference)), strict=True):
        assert a.ids == b.ids
        assert a.token_scores == pytest.approx(b.token_scores, abs=1e-3)
    assert fast.score([]) == []


def test_a_long_text_comes_back_in_order_whatever_the_blocks(micro):
    model = jumok.load(micro, engine="ctranslate2", precision="float32")
    texts = [TEXTS[row % 5] if row % 7 else "" for row in range(61)]
    whole = [one.text for one in model.translate(texts, beam=2)]
    assert [one.text for one in model.lines(texts, chunk=8, beam=2, details=False)] == whole
    assert [row for row, text in enumerate(whole) if not text and texts[row]] == []
    assert all(not text for row, text in enumerate(whole) if not texts[row])


# ------------------------------------------------------------------ our own


def bundle_of(variant, folder, micro):
    """A bundle of a small model with random weights."""
    loaded = checkpoint.load(micro)
    config = small(variant, d_k=None, d_v=None, d_model=32, heads=2)
    torch.manual_seed(3)
    model = build(config, *loaded.sizes).float().eval()
    with torch.no_grad():
        model.matrix.mul_(4.0)  # so that something is likelier than the rest
    recipe = loaded.recipe.model_copy(update={"model": config})
    card = {name: value for name, value in loaded.card.items() if name != "aligning"}  # it may not have that head
    checkpoint.export(folder, checkpoint.weights(model), recipe, loaded.vocabularies, card)
    return bundle.read(folder), TorchEngine(model)


@pytest.mark.parametrize("variant", NATIVE)
@pytest.mark.parametrize("width", [1, 2, 5])
def test_our_own_engine_finds_what_search_step_by_step_finds(variant, width, micro, sources, tmp_path, monkeypatch):
    found, stepwise = bundle_of(variant, tmp_path / "model", micro)
    monkeypatch.setattr(stepwise, "_search_at_once", lambda *_: None)
    for options in (
        SearchOptions(beam=width, n_best=min(3, width), extra_length=6),
        SearchOptions(beam=width, length_penalty=1.5, extra_length=3, exact=True),
        SearchOptions(beam=width, n_best=width, length_penalty=0.0, extra_length=9),
    ):
        for ours, theirs in zip(
            NativeEngine(found).decode(sources, options), stepwise.decode(sources, options), strict=True
        ):
            assert [one.ids for one in ours] == [one.ids for one in theirs]
            for a, b in zip(ours, theirs, strict=True):
                assert a.score == pytest.approx(b.score, abs=1e-4)
                assert a.token_scores == pytest.approx(b.token_scores, abs=1e-4)


@pytest.mark.parametrize("variant", NATIVE[:3])
def test_the_torch_engine_searches_at_once_where_it_can_and_finds_the_same(
    variant, micro, sources, tmp_path, monkeypatch
):
    _, engine = bundle_of(variant, tmp_path / "model", micro)
    options, limits = SearchOptions(beam=4, n_best=2, extra_length=6), [3 + len(ids) for ids in sources]
    at_once = engine.decode(sources, options, limits=limits)
    asked = []
    monkeypatch.setattr(engine, "_search_at_once", lambda *_: asked.append(1))
    stepwise = engine.decode(sources, options, limits=limits)
    assert asked == [1]
    assert [[one.ids for one in several] for several in at_once] == [
        [one.ids for one in several] for several in stepwise
    ]
    assert engine.decode(sources, options, constraints=[TokenConstraints(prefix=(9,))] * len(sources))
    assert asked == [1]  # with wishes nobody asks for it


def test_every_other_variant_is_refused_by_our_own_engine_by_name():
    refused = {variant for variant in VARIANTS if find_obstacle(small(variant, d_model=32, heads=2)) is not None}
    assert refused == set(VARIANTS) - set(NATIVE)


@pytest.mark.parametrize("shortlist", [False, True])
def test_what_is_beside_a_sentence_does_not_change_its_translation(micro, sources, shortlist):
    engine, options = (
        NativeEngine(bundle.read(micro), shortlist=shortlist),
        SearchOptions(beam=3, n_best=3, extra_length=5),
    )
    if shortlist:
        engine.shortlist = engine.shortlist._replace(
            common=engine.shortlist.common[:2]
        )  # so that sentences have lists of their own
    alone = [engine.decode([source], options)[0] for source in sources]
    assert engine.decode(sources * 40, options) == alone * 40  # to the last bit, whatever group it is in


def test_a_source_that_is_too_long_is_refused_and_one_that_just_fits_is_not(micro, found, reference, fast):
    options = SearchOptions(beam=2, extra_length=1)
    for engine in (NativeEngine(found), reference, fast):
        with pytest.raises(DataError, match="a text of 5,000 subwords cannot be translated at once: at most 2,048 are"):
            engine.decode([[9], [270] * 5_000], options)
        with pytest.raises(DataError, match="5,000 subwords"):
            engine.score([([270] * 5_000, [9])])
        assert 0 < len(engine.decode([[270] * 2_048], replace(options, beam=1))[0][0].ids) <= 2_049


@pytest.mark.parametrize("engine", ["native", "torch", "ctranslate2"])
@pytest.mark.parametrize("chunk", [1, 2, 9])
def test_a_text_that_is_too_long_is_named_by_its_number_among_all_texts(micro, engine, chunk):
    with pytest.raises(DataError, match="in text 4"):
        list(jumok.load(micro, engine=engine).lines(["a", "", "b", "a b " * 3_000, "c"], chunk=chunk))


def test_weights_that_do_not_fit_are_refused_by_our_own_engine(own_micro):
    loaded = checkpoint.load(own_micro)
    weights = checkpoint.weights(loaded.model) | {"encoder_norm.weight": torch.ones(3)}
    checkpoint.export(own_micro / "model", weights, loaded.recipe, loaded.vocabularies, loaded.card)
    for engine in ("native", "ctranslate2"):
        with pytest.raises(ModelFileError, match=r"encoder_norm\.weight is \(3,\) instead of \(16,\)"):
            jumok.load(own_micro, engine=engine).translate("a")


def test_nothing_beyond_the_recipe_is_read(own_micro, monkeypatch):
    loaded = checkpoint.load(own_micro)
    weights = checkpoint.weights(loaded.model) | {"giant": torch.zeros(50_000)}
    checkpoint.export(own_micro / "model", weights, loaded.recipe, loaded.vocabularies, loaded.card)
    found = stored.read(bundle.read(own_micro))
    real, taken = found.read, []
    found.read = lambda name: taken.append(name) or real(name)
    monkeypatch.setattr(stored, "read", lambda _: found)
    NativeEngine(bundle.read(own_micro))
    assert set(taken) == set(checkpoint.weights(loaded.model))


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_weights_of_another_type_are_refused(own_micro, kind):
    loaded = checkpoint.load(own_micro)
    weights = {name: tensor.to(kind) for name, tensor in checkpoint.weights(loaded.model).items()}
    checkpoint.export(own_micro / "model", weights, loaded.recipe, loaded.vocabularies, loaded.card)
    with pytest.raises(ModelFileError, match="is not float32"):
        jumok.load(own_micro, engine="native").translate("a")


# ------------------------------------------------------------------ which engine


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"sample": True}, "sample"),
        ({"beam": 4, "groups": 2}, "groups"),
        ({"exact": True}, "exact"),
        ({"coverage": 0.1}, "coverage"),
        ({"require": ["a"]}, "require"),
        ({"forbid": ["a"]}, "forbid"),
    ],
)
def test_what_the_fast_engine_cannot_do_is_done_by_torch_and_told_once(micro, request_, words):
    said = []
    named, torch = jumok.load(micro, engine="ctranslate2", say=said.append), jumok.load(micro, engine="torch")
    for _ in range(2):
        assert named.translate("a b c", **request_) == torch.translate("a b c", **request_)
    assert said == [f"with the torch engine: the CTranslate2 engine does not support {words}"]


def test_a_recipe_without_counterpart_falls_back_in_one_line(own_micro):
    from jumok.config import presets
    from jumok.models import build
    from tests.conftest import MICRO

    recipe = presets.tiny().change(MICRO | {"model.activation": "swiglu"})
    loaded = checkpoint.load(own_micro)
    weights = checkpoint.weights(build(recipe.model, *loaded.sizes))
    checkpoint.export(own_micro / "model", weights, recipe, loaded.vocabularies, loaded.card)
    for engine, whose in (
        ("ctranslate2", "CTranslate2 does"),
        ("native", "the kernels do"),
        ("auto", "the kernels do"),
    ):
        said = []
        model = jumok.load(own_micro, engine=engine, say=said.append)
        assert model.translate("a b").text == jumok.load(own_micro).translate("a b").text
        assert (model.engine_name, said) == (
            "torch",
            [f"with the torch engine: {whose} not support activation='swiglu'"],
        )


def test_a_model_is_loaded_with_the_fast_engine_and_finds_what_torch_finds(micro):
    ours, torch = jumok.load(micro), jumok.load(micro, engine="torch")
    assert (ours.engine_name, torch.engine_name) == ("native", "torch")
    for one, other in zip(ours.translate(TEXTS), torch.translate(TEXTS), strict=True):
        assert (one.text, one.tokens) == (other.text, other.tokens)
        assert one.token_scores == pytest.approx(other.token_scores, abs=1e-4)
        assert [word.text for word in one.words] == [word.text for word in other.words]
    assert ours.translate("a b", sample=True, seed=3).text == torch.translate("a b", sample=True, seed=3).text


def test_where_there_is_no_compiler_a_model_is_loaded_with_torch(micro):
    said = []
    with library.without():
        model = jumok.load(micro, say=said.append)
        assert model.translate(TEXTS[0]).text == jumok.load(micro, engine="torch").translate(TEXTS[0]).text
        assert model.engine_name == "torch"
    assert said == ["with the torch engine: the kernels are switched off"]


@pytest.mark.parametrize(
    "code",
    [
        "jumok.load(sys.argv[1]).translate('a b c').words[0]",
        "jumok.Translator.load(sys.argv[1]).evaluate(*sys.argv[2:]).bleu",
    ],
    ids=["translating", "evaluating"],
)
def test_translating_and_evaluating_in_python_load_no_torch(micro, tmp_path, code):
    files = [tmp_path / "source", tmp_path / "target"]
    for file in files:
        file.write_text("a b c\nb c\n")
    code = f"import sys, jumok; {code}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code, micro, *files], check=False).returncode == 0


def test_loading_a_model_imports_nothing_that_only_scoring_and_preparing_need(micro):
    code = "import sys, jumok; jumok.load(sys.argv[1]).translate('a b c'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code, micro], capture_output=True, text=True, check=True).stdout
    assert not {"jumok.data.corpora", "jumok.evaluation.metrics", "jumok.reports.attention", "sacrebleu", "rich"} & set(
        loaded.split()
    )


def test_several_models_and_other_engines(micro):
    said = []
    model = jumok.load(micro, others=[micro], engine="auto", say=said.append)
    assert (model.engine_name, len(said)) == ("torch", 1)
    with pytest.raises(UnknownName, match="did you mean 'torch'"):
        jumok.load(micro, engine="torhc")
    with pytest.raises(UsageError, match="precision"):
        jumok.load(micro, engine="ctranslate2", precision="int3").translate("a")


@pytest.mark.parametrize(("engine", "unwanted"), [("auto", {"torch"}), ("ctranslate2", {"torch", "numpy"})])
def test_translating_at_the_command_line_loads_little(micro, engine, unwanted):
    code = (
        "import sys; sys.argv = ['jumok', 'translate', sys.argv[1], 'a b c', '--beam', '2', '--engine', sys.argv[2]]\n"
        f"from jumok.cli.main import run\n"
        f"code = run(); print(*{unwanted} & set(sys.modules), file=sys.stderr); sys.exit(code)"
    )
    for _ in range(2):  # whatever a process makes once is there for the second
        command = [sys.executable, "-c", code, str(micro), engine]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "\n")
    assert len(done.stdout.split("\n")) == 2


def test_the_fast_engine_leaves_torch_its_threads(found):
    code = (
        "import sys, torch; torch.set_num_threads(3)\n"
        "from jumok.translator import Translator\n"
        "Translator.load(sys.argv[1], engine='ctranslate2').translate('a b')\n"
        "sys.exit(torch.get_num_threads() != 3)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(found.folder)], check=False).returncode == 0


# ------------------------------------------------------------------ the exported model


def test_an_export_is_kept_and_made_anew_when_it_is_spoilt_or_the_weights_change(own_micro):
    first = export_to_cache(bundle.read(own_micro), "int8")
    made = (first / "model.bin").stat().st_mtime_ns
    assert export_to_cache(bundle.read(own_micro), "int8") == first
    assert (first / "model.bin").stat().st_mtime_ns == made
    (first / "model.bin").write_bytes(b"junk")
    assert export_to_cache(bundle.read(own_micro), "int8") == first
    bundle.verify(first)
    assert export_to_cache(bundle.read(own_micro), "float32") != first
    loaded = checkpoint.load(own_micro)
    changed = {name: tensor + 1.0 for name, tensor in checkpoint.weights(loaded.model).items()}
    checkpoint.export(own_micro / "model", changed, loaded.recipe, loaded.vocabularies, loaded.card)
    assert export_to_cache(bundle.read(own_micro), "int8") != first


def test_the_cache_keeps_what_was_used_last(tmp_path):
    for number in range(5):
        (tmp_path / str(number)).mkdir()
        os.utime(tmp_path / str(number), (number, number))
    os.utime(tmp_path / "0")
    user_cache.prune(tmp_path, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "4"]


def test_cores_are_divided_by_a_probe_that_is_made_once(found, monkeypatch):
    monkeypatch.setattr(ctranslate2_engine.machine, "cores", lambda: 4)
    tried = []
    monkeypatch.setattr(ctranslate2_engine, "probe", lambda shape: tried.append(shape) or abs(shape[0] - 2))
    folder = export_to_cache(found, "int16")
    for _ in range(2):
        assert ctranslate2_engine.choose_layout(folder, lambda *shape: shape) == (2, 2)
    assert tried == list_layouts(4) == [(4, 1), (2, 2), (1, 4)]
    assert json.loads((folder / "layout-4.json").read_text()) == {"workers": 2, "threads": 2}


# ------------------------------------------------------------------ the shortlist


def test_our_own_engine_keeps_to_the_shortlist(sources, found):
    lexicon = load_shortlist(found)
    short, options = NativeEngine(found, shortlist=True), SearchOptions(beam=3, n_best=3, extra_length=5)
    for source in sources:
        allowed = {token for i in (*source, END) for token in (i, *lexicon.of(i))} | set(lexicon.common.tolist())
        for one in short.decode([source], options)[0]:
            assert set(one.ids) <= allowed - set(NEVER)


def test_a_hypothesis_far_behind_is_given_up_only_where_it_may_be(found, sources, monkeypatch):
    asked = []
    monkeypatch.setattr(Packed, "search", lambda *_, course, **__: asked.append(course.margin) or [[]])
    for shortlist in (False, True):
        engine = NativeEngine(found, shortlist=shortlist)
        for options in (SearchOptions(beam=3), SearchOptions(beam=3, exact=True), SearchOptions(beam=3, n_best=2)):
            engine.decode(sources[:1], options)
    assert asked == [np.inf] * 3 + [native_engine.MARGIN] + [np.inf] * 2


def test_a_margin_of_nothing_leaves_the_likeliest_alone(found, sources):
    engine = NativeEngine(found)
    read, limits = [[*source, END] for source in sources], [len(source) + 5 for source in sources]
    search = partial(engine.packed.search, read, limits)
    plain = SearchOptions(beam=4, length_penalty=0.0)
    narrow, greedy = search(plain, course=Course(margin=0.0)), search(replace(plain, beam=1))
    for one, other in zip(narrow, greedy, strict=True):
        assert one[0][1] >= other[0][1] - 1e-5  # it follows the likeliest, and may end at any step on the way
    assert search(SearchOptions(beam=4), course=Course(margin=1e9)) == search(SearchOptions(beam=4))


def test_a_shortlist_of_everything_changes_no_choice(found, sources):
    options = SearchOptions(beam=1, extra_length=5)
    whole, short = NativeEngine(found), NativeEngine(found, shortlist=True)
    short.shortlist = short.shortlist._replace(common=np.arange(found.sizes[1]))
    for a, b in zip(whole.decode(sources, options), short.decode(sources, options), strict=True):
        assert [one.ids for one in a] == [one.ids for one in b]
        assert b[0].log_probability >= a[0].log_probability - 1e-4  # what is never chosen has no share any more


def test_a_run_learns_a_shortlist_and_translations_keep_to_it(micro, sources, found):
    lexicon = load_shortlist(found)
    assert lexicon is not None
    short = CTranslate2Engine(found, precision="float32", shortlist=True)
    for source, several in zip(
        sources, short.decode(sources, SearchOptions(beam=3, n_best=3, extra_length=5)), strict=True
    ):
        everybody = {token for one in sources for i in one for token in (i, *lexicon.of(i))}  # they share a batch
        allowed = everybody | set(lexicon.common.tolist()) | {END}
        assert all(set(one.ids) <= allowed for one in several), source


def test_a_shortlist_that_is_not_there_is_missed_only_where_it_is_wanted(own_micro):
    loaded = checkpoint.load(own_micro)
    weights = checkpoint.weights(loaded.model)
    checkpoint.export(own_micro / "model", weights, loaded.recipe, loaded.vocabularies, loaded.card)
    assert not (own_micro / "model" / FILE).exists()
    assert jumok.load(own_micro, engine="ctranslate2").engine_name == "ctranslate2 int8"
    with pytest.raises(UsageError, match="no shortlist"):
        jumok.load(own_micro, engine="ctranslate2", shortlist=True).translate("a")
    with pytest.raises(UsageError, match="no shortlist"):
        jumok.load(own_micro, engine="native", shortlist=True).translate("a")


def test_the_shortlist_of_another_vocabulary_is_refused(found):
    content = load_shortlist(found).to_bytes()
    source, target = found.sizes
    assert Lexicon.from_bytes(content, found.sizes).of(found.vocabularies.source.encode("a")[0])
    for sizes in ((source + 1, target), (source, 9)):
        with pytest.raises(ModelFileError, match="shortlist"):
            Lexicon.from_bytes(content, sizes)
    with pytest.raises(ModelFileError, match="shortlist"):
        Lexicon.from_bytes(b"junk", found.sizes)


def test_a_model_that_has_no_shortlist_can_be_given_one(own_micro, jumok):
    before = (own_micro / "model" / FILE).read_bytes()
    loaded = checkpoint.load(own_micro)
    checkpoint.export(
        own_micro / "model", checkpoint.weights(loaded.model), loaded.recipe, loaded.vocabularies, loaded.card
    )
    answer = jumok("model", "shortlist", own_micro)
    assert (answer.code, answer.out) == (0, f"{own_micro / 'model'}\n")
    again = load_shortlist(bundle.read(own_micro))
    assert set(again.common.tolist()) == set(Lexicon.from_bytes(before, loaded.sizes).common.tolist())
    bundle.verify(own_micro / "model", ("model.safetensors", FILE))
