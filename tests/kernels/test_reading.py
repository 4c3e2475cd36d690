"""The second reading in C: its numbers are those of the reading in torch, for every kind of edit, within its bounds."""

import ctypes
import re
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from jumok.config.search import SearchOptions
from jumok.inside.arrays import log_softmax
from jumok.inside.edits import Edits, Row
from jumok.inside.native_inspector import NativeInspector, to_kernel_edits
from jumok.inside.passes import read
from jumok.inside.torch_inspector import TorchInspector, outline, to_trace
from jumok.kernels import editing, library, reading
from jumok.kernels.editing import Edit, EditList, EditTable
from jumok.kernels.pack import Packed
from jumok.kernels.reading import ReadTask
from jumok.kernels.searching import Course
from jumok.models.base import END, SPECIALS, START
from jumok.storage.tensors import Tensors
from tests.support.helpers import SYMBOLS, made

pytestmark = pytest.mark.skipif(library.load() is None, reason="no C compiler on this machine")
HEADER = Path(library.__file__).parent / "c" / "kernels.h"
KINDS = {
    "paper": {},
    "pre": {"norm_place": "pre"},
    "rotary": {"norm_place": "pre", "positions": "rotary"},
    "learned": {"positions": "learned", "longest": 8},
    "nowhere": {"positions": "none"},
    "no bias": {"bias": False},
    "untied": {"tied": "none"},
    "target tied": {"tied": "target", "norm_place": "pre"},
    "plain dot": {"score": "dot"},
    "wide values": {"d_k": 8, "d_v": 16},
    "deep encoder": {"encoder_layers": 3, "decoder_layers": 1},
}
EDITS = {
    "nothing": Edits(),
    "heads": Edits(heads={("encoder", 1, 0), ("decoder", 0, 1), ("cross", 0, 0)}),
    "encoder layer": Edits(layers={("encoder", 0)}),
    "decoder layer": Edits(layers={("decoder", 0)}),
    "mask": Edits(off={"mask"}),
    "positions": Edits(off={"positions"}),
    "scale": Edits(off={"scale"}),
    "residual": Edits(off={"residual"}),
    "norm": Edits(off={"norm"}),
    "rows": Edits(
        rows=(
            Row("encoder", 0, 1, 1, (0.0, 2.0)), Row("decoder", 0, 0, 2, (1.0, 3.0)), Row("cross", 0, 1, 0, (1.0,)),
            Row("cross", 0, 1, 0, (0.0, 1.0)), Row("cross", 0, 0, 99, (1.0,)), Row("decoder", 0, 1, 1, (1.0,) * 40),
        )
    ),
    "several": Edits(off={"mask", "positions"}, heads={("cross", 0, 1)}, rows=(Row("decoder", 0, 0, 1, (1.0, 1.0)),)),
}  # fmt: skip


def models(kind: str) -> tuple[NativeInspector, TorchInspector]:
    """The same model for the kernels and for torch."""
    model = made(**({"d_model": 16, "heads": 2, "d_ff": 24} | KINDS[kind])).float()
    weights = Tensors.of({name: value.numpy() for name, value in model.state_dict().items()})
    packed = Packed(library.load(), model.config, (SYMBOLS, SYMBOLS), weights)
    decoding = SimpleNamespace(extra_length=6)
    engine = SimpleNamespace(model=model)  # decodes nothing here
    subject = SimpleNamespace(engines=SimpleNamespace(torch=engine), recipe=SimpleNamespace(decoding=decoding))
    return NativeInspector(SimpleNamespace(packed=packed), decoding), TorchInspector(subject)


def sentence(random: Random, *, longest: int = 11) -> list[int]:
    return [random.randrange(SPECIALS, SYMBOLS) for _ in range(random.randint(1, longest))]


def has(inspector: NativeInspector, edits: Edits) -> bool:
    return edits.off <= inspector.outline.sizes.switches


def compare(one, other, tolerance: float) -> None:
    """Compare two traces: the same blocks and values, and numbers that differ by rounding alone."""
    assert one.names == other.names
    assert (one.tokens, one.maps) == (other.tokens, other.maps)
    for name in one.names:
        assert one.blocks[name].keys() == other.blocks[name].keys(), name
        for key, value in one.blocks[name].items():
            expected = other.blocks[name][key]
            assert value.dtype == expected.dtype, (name, key)
            scale = max(1.0, float(np.abs(expected).max()))
            np.testing.assert_allclose(value / scale, expected / scale, atol=tolerance, rtol=0, err_msg=f"{name} {key}")
    for key in ("hidden", "memory", "logits"):
        values = getattr(one, key), getattr(other, key)
        np.testing.assert_allclose(*values, atol=2 * tolerance, rtol=tolerance, err_msg=key)


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_is_that_of_the_reading_in_torch_whatever_is_edited(kind):
    native, torch_one = models(kind)
    random = Random(kind)
    for edits in EDITS.values():
        if has(native, edits):
            source, target = [*sentence(random), END], [START, *sentence(random)]
            one, other = native.read(source, target, edits), torch_one.read(source, target, edits)
            unscaled = kind == "plain dot" or edits.off & {"scale", "norm"}  # a softmax of scores such as 50
            compare(one, other, 1e-4 if unscaled else 1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_with_edits_finds_what_torch_finds(kind):
    native, torch_one = models(kind)
    random = Random(kind)
    sources = [sentence(random) for _ in range(12)]
    plain = [one.token_scores for one in native.translate(sources)]
    for name, edits in EDITS.items():
        if not has(native, edits) or not edits or edits.is_weights:  # torch searches those with its engine
            continue
        found, expected = native.translate(sources, edits), torch_one.translate(sources, edits)
        assert [one.ids for one in found] == [one.ids for one in expected], name
        for one, other in zip(found, expected, strict=True):
            assert one.token_scores == pytest.approx(other.token_scores, abs=1e-4)
        assert [one.token_scores for one in found] != plain, name


def test_a_search_with_silent_heads_is_that_of_a_model_with_zeros_in_their_columns():
    native, torch_one = models("pre")
    sources = [sentence(Random(3)) for _ in range(60)]  # more than a group
    edits = EDITS["heads"]
    model = torch_one.model
    with torch.no_grad():
        model.encoder[1].attention.output.weight[:, :8] = 0.0
        model.decoder[0].attention.output.weight[:, 8:] = 0.0
        model.decoder[0].cross.output.weight[:, :8] = 0.0
    weights = Tensors.of({name: value.numpy() for name, value in model.state_dict().items()})
    zeros = Packed(library.load(), model.config, (SYMBOLS, SYMBOLS), weights)
    limits, ends = [len(source) + 6 for source in sources], [[*source, END] for source in sources]
    for beam in (1, 3):
        options = SearchOptions(beam=beam, n_best=beam)
        found = native.packed.search(ends, limits, options, course=Course(edits=to_kernel_edits(edits)))
        expected = zeros.search(ends, limits, options)
        for several, others in zip(found, expected, strict=True):
            assert {ids for ids, _, _ in several} == {ids for ids, _, _ in others}


@pytest.mark.parametrize("kind", ["paper", "rotary"])
@pytest.mark.parametrize("name", ["nothing", "mask", "norm", "rows"])
def test_steps_give_the_logits_of_the_reading_and_branches_do_not_disturb_them(kind, name):
    native, torch_one = models(kind)
    random, edits = Random(name), EDITS[name]
    source, target = [*sentence(random), END], [START, *sentence(random)]
    with (
        native.open_steps(source, edits, rows=3, room=40) as steps,
        torch_one.open_steps(source, edits, rows=3, room=40) as others,
    ):
        for token in target:
            np.testing.assert_allclose(steps.step([token]), others.step([token]), atol=2e-5, rtol=1e-5)
            branches = steps.select([0, 0, 0]), others.select([0, 0, 0])
            for tokens in ([9, 10, 11], [12, 13, 14]):
                one, other = (branch.step(tokens) for branch in branches)
                np.testing.assert_allclose(one, other, atol=2e-5, rtol=1e-5)
            one, other = (branch.select([2, 0]).step([15, 16]) for branch in branches)
            np.testing.assert_allclose(one, other, atol=2e-5, rtol=1e-5)


def test_without_edits_a_reading_has_the_probabilities_of_plain_forcing():
    native, _ = models("rotary")
    random = Random(1)
    for _ in range(5):
        source, target = [*sentence(random), END], [*sentence(random), END]
        chances = log_softmax(native.read(source, [START, *target[:-1]]).logits)
        [gains] = native.packed.score([(source, target)], START)
        assert [float(chances[row, token]) for row, token in enumerate(target)] == pytest.approx(gains, abs=1e-5)


def test_only_what_is_asked_for_is_written_down():
    native, _ = models("paper")
    source, target = [9, 10, END], [START, 11]
    whole, some = native.read(source, target), native.read(source, target, only={"encoder.0.feed_forward"})
    assert some.names == whole.names
    assert set(some.blocks) == {
        "encoder.0.attention", "encoder.1.attention", "encoder.0.feed_forward", "output", "softmax",
        *(f"decoder.{layer}.{part}" for layer in (0, 1) for part in ("attention", "cross")),
    }  # fmt: skip
    assert set(some.blocks["encoder.0.attention"]) == {"weights"}
    for kind in ("encoder", "decoder", "cross"):
        np.testing.assert_array_equal(some.weights(kind), whole.weights(kind))
    off = native.read(source, target, Edits(layers={("encoder", 0), ("encoder", 1)}), only=())
    assert off.weights("encoder").shape == (0, 1, 3, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_the_outline_of_a_model_is_the_one_that_torch_draws(kind):
    native, torch_one = models(kind)
    one, other = native.outline, outline(torch_one.model)
    assert one._replace(parameters={}) == other._replace(parameters={})
    assert {name: one.parameters.get(name, 0) for name, _ in one.blocks} == {
        name: other.parameters.get(name, 0) for name, _ in other.blocks
    }
    names = [("encoder.0.attention", "qkv"), ("decoder.0.cross", "memory"), ("decoder.0.feed_forward", "outer")]
    for block, matrix in [*names, ("decoder.0.cross", "query"), ("encoder.0.attention", "output"), ("output", "")]:
        factor, expected = native.find_factor(block, matrix), torch_one.find_factor(block, matrix)
        np.testing.assert_array_equal(factor.weight, expected.weight)
        np.testing.assert_array_equal(factor.bias, expected.bias)
        assert list(factor.blocks) == list(expected.blocks)
    assert native.find_factor("encoder.0.attention", "memory") is None


# ----------------------------------------------------------------------------------------------------- bounds

WRONG = [
    Edit("silence", "cross", 2, 0), Edit("silence", "encoder", 0, 2), Edit("silence", "encoder", -2, 0),
    Edit("silence", None, 0), Edit("silence", None, -1, 0), Edit("weights", "cross", 0, 0, -2, (1.0,)),
    Edit("loudness"), Edit("skip", "memory", 0), Edit("no_norm", "decoder", 7),
]  # fmt: skip


@pytest.mark.parametrize("edit", WRONG, ids=str)
def test_an_edit_of_what_is_not_there_is_refused_before_anything_is_computed(edit):
    native, _ = models("paper")
    with pytest.raises(IndexError, match="could change"):
        native.packed.read([9, END], [START, 9], (), [edit])
    with pytest.raises(IndexError):
        native.packed.search([[9, END]], [5], SearchOptions(beam=1), course=Course(edits=[edit]))
    with pytest.raises(IndexError), native.packed.walk([9, END], [edit], rows=1, room=4):
        pass


def test_the_kernels_check_every_edit_themselves_and_then_compute_nothing():
    native, _ = models("paper")
    kernels, good = native.packed.library, EditTable(3, -1, -1, -1, -1, 0, None)
    with native.packed._bind_model([[9, END]], 2) as model:
        stacks = ctypes.byref(model.encoder), ctypes.byref(model.decoder)
        for wrong in (
            (8, -1, -1, -1, -1, 0), (-1, -1, -1, -1, -1, 0), (0, 3, 0, 0, -1, 0), (0, -2, 0, 0, -1, 0),
            (0, 0, 2, 0, -1, 0), (0, 0, -2, 0, -1, 0), (0, 2, 0, 2, -1, 0), (0, 2, 0, -2, -1, 0), (0, -1, 0, -1, -1, 0),
            (0, -1, -1, 1, -1, 0), (1, 2, 0, 0, -2, 0), (1, 2, 0, 0, 0, -1), (1, 2, 0, 0, 0, 5),
        ):  # fmt: skip
            each = (EditTable * 2)(good, EditTable(*wrong, None))
            edits = EditList(2, each)
            assert kernels.jk_find_bad_edit(*stacks, ctypes.byref(edits)) == 1, wrong
            logits = np.full((2, SYMBOLS), 7.0, np.float32)
            ids = np.array([9, END], np.int64)
            task = ReadTask(2, 2, ids.ctypes.data, ids.ctypes.data, None, None, ctypes.addressof(edits), None, None)
            task.logits = logits.ctypes.data
            assert kernels.jk_read(*stacks, ctypes.byref(task)) == 1, wrong
            assert (logits == 7.0).all()
        assert kernels.jk_find_bad_edit(*stacks, None) == -1
        empty = ReadTask(0, 0)
        assert kernels.jk_read(*stacks, ctypes.byref(empty)) == 1


def test_ids_and_hypotheses_that_do_not_fit_are_refused():
    native, _ = models("paper")
    for source, target in (([SYMBOLS, END], [START]), ([9, END], [START, SYMBOLS]), ([-1, END], [START])):
        with pytest.raises(IndexError):
            native.packed.read(source, target)
    with native.packed.walk([9, END], [], rows=2, room=3) as walk:
        origin = np.zeros((1, 3), np.int64)
        for tokens, places in (
            (np.array([[SYMBOLS]]), origin), (np.array([[2, 9, 9, 9]]), origin),
            (np.full((3, 1), 9), np.zeros((3, 3), np.int64)), (np.array([[2]]), np.zeros((1, 2), np.int64)),
        ):  # fmt: skip
            with pytest.raises(IndexError):
                walk.step(tokens, places)


def test_the_names_of_parts_edits_and_notes_are_those_of_the_header():
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(encoding="utf-8"), flags=re.DOTALL)
    tables = {"part": editing.PARTS, "edit_kind": editing.KINDS, "note": reading.NOTES}
    for name, names in tables.items():
        found = re.search(rf"^enum {name} \{{([^}}]*)\}}", text, re.MULTILINE)
        assert found is not None
        constants = [constant.strip().split("_", 1) for constant in found[1].split(",")]
        assert [parts[-1].lower() for parts in constants[:-1]] == list(names)


def test_a_torch_reading_becomes_a_trace_of_one_sentence():
    model = made("paper")
    with torch.no_grad():
        both = read(model, torch.tensor([[9, 10, END]]), torch.tensor([[START, 11]]))
    trace = to_trace(both)
    assert trace.blocks["source.positions"]["position"].shape == (3, 16)
    np.testing.assert_array_equal(trace.weights("cross"), both.weights("cross")[0].numpy())
    np.testing.assert_array_equal(trace.memory, both.blocks["encoder.1.feed_forward.norm"]["output"][0].numpy())
