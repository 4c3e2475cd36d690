"""Edits: what is switched off is off, the rest stays; searches and scores of edited models."""

import shutil
from random import Random

import pytest
import torch

from jumok.data.corpora import Pair
from jumok.errors import UnknownName, UsageError
from jumok.evaluation.metrics import bleu
from jumok.inside import scoring, subject
from jumok.inside.edits import Edits, Row, divide, limit_length, shuffle
from jumok.inside.passes import Edited, decode, encode, find_sizes, read
from jumok.inside.reading import Reader
from jumok.inside.surgery import change, unmask
from jumok.translator import Translator
from tests.support import golden
from tests.support.helpers import VARIANTS, made, two_sentences


@pytest.fixture(scope="module")
def translator(micro):
    return Translator.load(micro, engine="torch")


@pytest.mark.parametrize("variant", ["paper", "pre-norm", "rotary", "narrow-keys", "gpt"])
@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_a_head_that_is_off_equals_zeros_in_its_columns_of_the_output_matrix(variant, kind):
    model, (source, target) = made(variant), two_sentences()
    if kind not in find_sizes(model).heads:
        return
    edits = Edits(heads={(kind, 1, 0)})
    with torch.no_grad():
        before = model.hidden(source, target)
        reading = read(model, source, target, edits)
        with change(model, edits):
            assert torch.equal(reading.hidden, model.hidden(source, target))
        assert torch.equal(model.hidden(source, target), before)
        assert not torch.equal(reading.hidden, before)


@pytest.mark.parametrize("variant", ["paper", "pre-norm", "rotary", "swiglu"])
@pytest.mark.parametrize(
    "edits",
    [
        Edits(heads={("cross", 0, 1)}),
        Edits(layers={("decoder", 0), ("encoder", 1)}),
        Edits(off={"positions"}),
        Edits(off={"scale"}),
        Edits(off={"residual"}),
        Edits(off={"norm"}),
        Edits(rows=(Row("cross", 1, 0, 2, (0.0, 1.0)), Row("decoder", 0, 1, 3, (0.5, 0.5)))),
    ],
    ids=lambda edits: str(edits.to_json()),
)
def test_steps_of_an_edited_model_are_its_teacher_forcing(variant, edits):
    model, (source, target) = made(variant), two_sentences()
    with torch.no_grad():
        edited = Edited(model, edits)
        expected, state = edited.project(edited.hidden(source, target)), edited.start(source)
        assert not torch.equal(edited.hidden(source, target), model.hidden(source, target))
        for t in range(target.shape[1]):
            logits, state = edited.step(target[:, t], state)
            torch.testing.assert_close(logits, expected[:, t])


def test_without_the_mask_every_step_reads_again_what_it_has_said():
    model, (source, target) = made("paper"), two_sentences()
    with torch.no_grad():
        edited = Edited(model, Edits(off={"mask"}))
        state = edited.start(source)
        for t in range(target.shape[1]):
            logits, state = edited.step(target[:, t], state)
            torch.testing.assert_close(logits, edited.project(edited.hidden(source, target[:, : t + 1]))[:, -1])
            state = state.select(torch.tensor([0, 1]))
        weights = read(model, source, target, Edits(off={"mask"})).weights("decoder")
        assert bool((weights > 0).all())


def test_a_model_that_is_unmasked_for_training_is_the_reading_without_the_mask():
    model, (source, target) = made("paper"), two_sentences()
    with torch.no_grad():
        expected = read(model, source, target, Edits(off={"mask"})).hidden
        unmask(model)
        assert torch.equal(model.hidden(source, target), expected)


def test_positions_that_are_off_make_the_encoder_a_bag_of_words():
    for variant in ("paper", "learned", "rotary", "concatenated"):
        model, ids = made(variant), torch.tensor([[9, 10, 11, 12]])
        order = torch.tensor([2, 0, 3, 1])
        with torch.no_grad():
            reader = Reader(Edits(off={"positions"}), recording=False)
            plain, mixed = encode(reader, model, ids)[0][0], encode(reader, model, ids[:, order])[0][0]
            torch.testing.assert_close(mixed, plain[order])
            assert not torch.allclose(model.encode(ids[:, order])[0][0], model.encode(ids)[0][0][order])


def test_a_model_without_scores_scale_or_norm_is_the_variant_that_never_had_it():
    (source, target), switches = two_sentences(), {"scale": "plain-dot", "residual": "no-residual", "norm": "no-norm"}
    for switch, variant in switches.items():
        model, other = made("paper"), made(variant)
        kept = {name: value for name, value in model.state_dict().items() if name in other.state_dict()}
        other.load_state_dict(kept)
        with torch.no_grad():
            expected = other.hidden(source, target)
            assert torch.equal(read(model, source, target, Edits(off={switch})).hidden, expected), switch


def test_a_layer_that_is_off_passes_its_input_on():
    model, (source, target) = made("paper"), two_sentences()
    with torch.no_grad():
        reading = read(model, source, target, Edits(layers={("encoder", 0), ("encoder", 1)}))
        memory, mask = model.source(source), model.encode(source)[1]
        assert torch.equal(reading.hidden, model.decode(target, memory, mask))
        assert not [name for name in reading.blocks if name.startswith("encoder.")]


def test_an_edited_row_has_the_weights_it_is_given_divided_by_their_sum():
    model, (source, target) = made("paper"), two_sentences()
    edits = Edits.of({"rows": [{"kind": "cross", "layer": 0, "head": 1, "query": 2, "weights": [1, 0, 3]}]})
    with torch.no_grad():
        weights, plain = (read(model, source, target, some).weights("cross") for some in (edits, Edits()))
    assert weights[0, 0, 1, 2].tolist() == [0.25, 0.0, 0.75, 0.0, 0.0]
    weights[:, 0, 1, 2] = plain[:, 0, 1, 2]
    assert torch.equal(weights[:, 0], plain[:, 0])


def test_what_a_model_does_not_have_cannot_be_switched_off():
    source, target = two_sentences()
    wrong = [
        Edits(heads={("cross", 2, 0)}), Edits(heads={("encoder", 0, 2)}), Edits(layers={("decoder", 2)}),
        Edits(rows=(Row("decoder", 0, 5, 0, (1.0,)),)),
    ]  # fmt: skip
    for edits in wrong:
        with pytest.raises(UsageError):
            read(made("paper"), source, target, edits)
    for variant, switch in {"nowhere": "positions", "plain-dot": "scale", "no-residual": "residual",
                            "no-norm": "norm", "rnn-gru-additive": "mask"}.items():  # fmt: skip
        with pytest.raises(UsageError, match=switch):
            read(made(variant), source, target, Edits(off={switch}))


@pytest.mark.parametrize(
    "values",
    [
        {"of": ["mask"]}, {"off": ["masks"]}, {"heads": [["cross", 0]]}, {"heads": [["memory", 0, 0]]},
        {"heads": [["cross", "x", 0]]}, {"layers": [["cross", 0]]}, {"rows": [{"kind": "cross"}]}, {"heads": 3},
        {"rows": [{"kind": "cross", "layer": 0, "head": 0, "query": 0, "weights": []}]}, {"shuffle": "often"},
        {"rows": [{"kind": "cross", "layer": 0, "head": 0, "query": 0, "weights": [0, 0]}]},
        {"rows": [{"kind": "cross", "layer": 0, "head": 0, "query": 0, "weights": [float("nan")]}]},
        {"rows": [{"kind": "cross", "layer": 0, "head": 0, "query": 0, "weights": [-1, 2]}]},
    ],
)  # fmt: skip
def test_edits_that_make_no_sense_are_refused(values):
    with pytest.raises(UsageError):
        Edits.of(values)


def test_edits_are_the_same_value_after_json():
    row = {"kind": "cross", "layer": 0, "head": 1, "query": 2, "weights": [1.0, 3.0]}
    given = {
        "heads": [["cross", 0, 1]],
        "layers": [["decoder", 0]],
        "off": ["mask", "norm"],
        "rows": [row],
        "shuffle": 4,
    }
    assert Edits.of(given).to_json() == given
    assert Edits.of(Edits.of(given).to_json()) == Edits.of(given)
    assert not Edits.of({})
    assert not Edits().is_weights
    assert Edits(heads={("cross", 0, 1)}, shuffle=1).is_weights
    assert not Edits(heads={("cross", 0, 1)}, off={"mask"}).is_weights
    with pytest.raises(UnknownName, match="did you mean 'mask'"):
        Edits(off={"maks"})


def test_shuffled_words_stay_whole_and_change_their_order():
    begins = [False] * 10 + [True] * 10
    groups = divide([10, 1, 2, 11, 12, 3, 13], begins)
    assert groups == [[10, 1, 2], [11], [12, 3], [13]]
    mixed = shuffle(groups, 5)
    assert sorted(divide(mixed, begins)) == sorted(groups)
    assert mixed != [10, 1, 2, 11, 12, 3, 13]
    assert shuffle([[10], [10]], 5) == [10, 10]


# ------------------------------------------------------------------------------------------ with a trained model


def test_an_edited_search_that_changes_nothing_finds_what_the_kernels_find(translator):
    pairs = subject.read_validation(translator)[:40]
    sources = translator.vocabularies.source.encode_all([pair.source for pair in pairs])
    plain = [hypothesis.ids for hypothesis in subject.translate(translator, sources)]
    useless = Edits(rows=(Row("cross", 0, 0, 10_000, (1.0,)),))  # a query that never comes
    assert [hypothesis.ids for hypothesis in subject.translate(translator, sources, useless)] == plain
    expected = [answer.text for answer in translator.translate([pair.source for pair in pairs], beam=1)]
    assert translator.vocabularies.target.decode_all([ids[:-1] if ids[-1] == 3 else ids for ids in plain]) == expected


def test_heads_that_are_off_are_searched_alike_by_kernels_and_by_readings(translator):
    pairs = subject.read_validation(translator)[:40]
    sources = translator.vocabularies.source.encode_all([pair.source for pair in pairs])
    edits = Edits(heads={("cross", 0, 0)})
    kernels = [hypothesis.ids for hypothesis in subject.translate(translator, sources, edits)]
    both = Edits(heads=edits.heads, rows=(Row("cross", 0, 0, 10_000, (1.0,)),))
    read_again = [hypothesis.ids for hypothesis in subject.translate(translator, sources, both)]
    assert kernels != [hypothesis.ids for hypothesis in subject.translate(translator, sources)]
    longest = [limit_length(len(source)) for source in sources]
    assert [ids[:most] for ids, most in zip(kernels, longest, strict=True)] == read_again


def test_a_score_names_no_difference_where_nothing_changes_and_a_loss_where_the_model_breaks():
    translator, random = Translator.load(golden.FOLDER / "0.1" / "tiny", engine="torch"), Random(1)
    texts = [" ".join(random.choices("abcdefghij", k=random.randint(4, 9))) for _ in range(60)]
    pairs = [Pair(text, " ".join(reversed(text.split())), row) for row, text in enumerate(texts, start=1)]
    same = scoring.score(translator, pairs, Edits())
    assert same.before == same.after
    assert same.interval == (0.0, 0.0)
    assert (same.verdict, same.changed) == ("no difference", 0)
    broken = scoring.score(translator, pairs, Edits(off={"residual"}))
    assert broken.before == same.before
    assert broken.interval[0] <= broken.difference <= broken.interval[1] < 0.0
    assert broken.after_interval[1] < broken.before_interval[0]
    assert (broken.verdict, broken.pairs) == ("lower", 60)
    assert broken.changed > 40
    answers = [answer.text for answer in translator.translate(texts, beam=1)]
    assert same.before == bleu(answers, [pair.target for pair in pairs], tokenize="auto").value
    shuffled = scoring.score(translator, pairs, Edits(shuffle=1))
    assert shuffled.after < shuffled.before


def test_rows_are_of_one_sentence_and_a_model_alone_has_no_validation_text(translator, micro, tmp_path):
    with pytest.raises(UsageError, match="one sentence"):
        scoring.score(translator, [], Edits(rows=(Row("cross", 0, 0, 0, (1.0,)),)))
    shutil.copytree(micro / "model", tmp_path / "alone" / "deep" / "model")
    with pytest.raises(UsageError, match="validation text"):
        subject.read_validation(Translator.load(tmp_path / "alone" / "deep" / "model", engine="torch"))


def test_a_stopped_search_stops(translator):
    class Enough(Exception):
        pass

    def check():
        raise Enough

    for edits in (Edits(), Edits(off={"norm"})):
        with pytest.raises(Enough):
            subject.translate(translator, [[10, 11]], edits, check)


def test_variants_can_all_be_edited():
    source, target = two_sentences()
    for variant in VARIANTS:
        model = made(variant)
        sizes = find_sizes(model)
        with torch.no_grad():
            for switch in sizes.switches:
                assert torch.isfinite(read(model, source, target, Edits(off={switch})).hidden).all(), (variant, switch)


def test_the_gradient_through_a_reading_is_the_models():
    model, (source, target) = made("paper"), two_sentences()
    memory, mask = model.encode(source)
    expected = model.decode(target, memory, mask)
    expected.sum().backward()
    gradient = model.decoder[0].attention.qkv.weight.grad.clone()
    model.zero_grad()
    states = decode(Reader(), model, target, *encode(Reader(), model, source))
    states.sum().backward()
    assert torch.equal(model.decoder[0].attention.qkv.weight.grad, gradient)
