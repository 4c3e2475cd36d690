"""What a page gets through the kernels is what it gets through torch, and torch is never loaded for it."""

import base64
import json
import subprocess
import sys
from dataclasses import fields
from random import Random

import numpy as np
import pytest

from jumok.data.corpora import Pair
from jumok.errors import UsageError
from jumok.inside import breaking, scoring, subject, views
from jumok.inside.edits import SWITCHES, Edits, Row
from jumok.inside.inspector import find_inspector
from jumok.inside.native_inspector import KERNEL_EDITS, NativeInspector
from jumok.inside.torch_inspector import TorchInspector
from jumok.inside.walk import Spot, take_walk
from jumok.kernels import library
from jumok.translator import Translator
from tests.support import golden

pytestmark = pytest.mark.skipif(library.load() is None, reason="no C compiler on this machine")
TEXT = "f h b j c"
GOLDEN = golden.FOLDER / "0.1" / "tiny"
ROUNDING = 2e-5  # of float32: scores of this model are up to 160, and torch itself differs by as much from float64
EDITS = [
    Edits(), Edits(heads={("cross", 0, 1)}), Edits(layers={("decoder", 0)}), Edits(shuffle=3), Edits(off={"mask"}),
    Edits(off={"positions", "scale"}), Edits(off={"residual"}), Edits(rows=(Row("cross", 0, 0, 1, (0.0, 1.0)),)),
]  # fmt: skip


@pytest.fixture(scope="module")
def both() -> tuple[Translator, Translator]:
    return Translator.load(GOLDEN), Translator.load(GOLDEN, engine="torch")


def compare(one: object, other: object, path: str = "") -> None:
    """Compare two answers: the same everywhere, numbers up to rounding."""
    if isinstance(other, dict) and "data" in other:
        assert isinstance(one, dict)
        kind = "u1" if other.get("type") == "u1" else "<f4"
        arrays = [np.frombuffer(base64.b64decode(side["data"]), kind).reshape(side["shape"]) for side in (one, other)]
        scale = float(np.abs(arrays[1].astype(float)).max(initial=1.0))
        np.testing.assert_allclose(arrays[0] / scale, arrays[1] / scale, atol=ROUNDING, rtol=0, err_msg=path)
    elif isinstance(other, dict):
        assert isinstance(one, dict)
        assert one.keys() == other.keys(), path
        for key, value in other.items():
            compare(one[key], value, f"{path}.{key}")
    elif isinstance(other, list | tuple):
        assert isinstance(one, list | tuple)
        assert len(one) == len(other), path
        for place, value in enumerate(other):
            compare(one[place], value, f"{path}.{place}")
    elif isinstance(other, float):
        assert one == pytest.approx(other, abs=10 * ROUNDING), path  # logits are up to 10
    else:
        assert one == other, path


def test_the_kernels_look_at_a_model_where_they_translate_with_it(both):
    assert isinstance(find_inspector(both[0]), NativeInspector)
    assert isinstance(find_inspector(both[1]), TorchInspector)
    assert isinstance(find_inspector(Translator.load(golden.FOLDER / "0.1" / "rnn")), TorchInspector)


def test_the_table_names_every_edit_there_is():
    known = {one.name for one in fields(Edits)} - {"off", "shuffle"}  # words are shuffled before a model reads them
    assert set(KERNEL_EDITS) == known | set(SWITCHES)


@pytest.mark.parametrize("edits", EDITS, ids=lambda edits: str(edits.to_json()))
def test_a_page_gets_the_same_answers(both, edits):
    told, expected = (views.overview(one, TEXT, edits=edits, language="ko") for one in both)
    compare(told, expected)
    json.dumps(told, allow_nan=False)
    compare(*(views.steps(one, TEXT, edits=edits) for one in both))
    compare(*(breaking.compare(one, TEXT, edits) for one in both))
    random = Random(str(edits))
    for name in views.read_sentence(both[1], TEXT, "c j b h", edits).trace.names:
        at, head = random.randrange(1, 3), random.randrange(2)
        compare(*(views.block(one, TEXT, name, "c j b h", edits, head=head, at=at) for one in both), name)


def test_any_cell_opens_the_same_dot_product(both):
    for block, value in (
        ("encoder.0.attention", "q"), ("encoder.0.attention", "v"), ("decoder.0.cross", "k"), ("output", "output"),
        ("decoder.0.cross", "output"), ("decoder.0.feed_forward", "inner"), ("encoder.0.feed_forward", "output"),
    ):  # fmt: skip
        compare(*(views.block(one, TEXT, block, "c j b", head=1, at=2, cell=(value, 3, 1)) for one in both), block)


def test_a_walk_is_the_same(both):
    for kind in ("encoder", "decoder", "cross"):
        one, other = (take_walk(model, TEXT, spot=Spot(kind=kind, head=1, at=2)) for model in both)
        compare(one.numbers, other.numbers)
        assert [(part.heading, part.type, part.titles) for part in one.parts] == [
            (part.heading, part.type, part.titles) for part in other.parts
        ]


def test_edits_cost_the_same_bleu(both):
    random = Random(1)
    texts = [" ".join(random.choices("abcdefghij", k=random.randint(4, 9))) for _ in range(120)]
    pairs = [Pair(text, " ".join(reversed(text.split())), row) for row, text in enumerate(texts, start=1)]
    for edits in EDITS[:-1]:
        one, other = (scoring.score(model, pairs, edits).to_json() | {"seconds": 0.0} for model in both)
        compare(one, other, str(edits))


def test_what_a_model_does_not_have_is_refused_with_the_same_words(both):
    wrong = [Edits(heads={("cross", 9, 0)}), Edits(layers={("decoder", 9)}), Edits(heads={("encoder", 0, 9)})]
    for edits in wrong:
        for ask in (views.overview, views.steps, breaking.compare):
            told = []
            for model in both:
                with pytest.raises(UsageError) as error:
                    ask(model, TEXT, edits=edits)
                told.append(str(error.value))
            assert told[0] == told[1]


def test_a_search_is_stopped_between_two_groups(both):
    calls = []

    class Enough(Exception):
        pass

    def check():
        calls.append(1)
        if len(calls) == 3:
            raise Enough

    for edits in (Edits(), Edits(off={"norm"})):
        calls.clear()
        with pytest.raises(Enough):
            subject.translate(both[0], [[10, 11]] * 1_000, edits, check)


def test_looking_inside_and_breaking_never_load_torch():
    code = f"""
import sys
sys.modules["torch"] = None  # importing it fails
import jumok
from jumok.data.corpora import Pair
from jumok.inside import breaking, scoring, views
from jumok.inside.edits import Edits
from jumok.inside.telling import to_lines, walk_page
from jumok.inside.walk import take_walk
model = jumok.load({str(GOLDEN)!r})
edits = Edits(off={{"mask"}}, heads={{("cross", 0, 0)}})
view = views.overview(model, "a b c", edits=edits, language="ko")
views.block(model, "a b c", "decoder.0.cross", view["translation"], cell=("k", 0, 0))
views.steps(model, "a b c", edits=edits)
breaking.compare(model, "a b c", edits)
scoring.score(model, [Pair("a b c", "c b a", 1), Pair("d e", "e d", 2)], edits)
walk_page(take_walk(model, "a b c"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
