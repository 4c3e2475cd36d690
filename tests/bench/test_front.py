"""What quality costs: which choices nothing beats, and a picture that says so."""

import xml.etree.ElementTree as ET

import pytest

from jumok.bench import front
from jumok.bench.front import Choice, Scale, name_models, picture, slowness
from jumok.errors import UsageError

NAMES = ("model", "engine", "beam", "bleu", "sentences_per_second", "size")
ROWS = [
    ("big", "torch", 5, 41.0, 200.0, 8_000_000),
    ("big", "native", 1, 40.0, 900.0, 8_000_000),
    ("<b>", "native", 1, 41.2, 1_500.0, 9_000_000),
    ("<b>", "ctranslate2-int8-shortlist", 5, 39.0, 2_000.0, 3_000_000),
]
FIGURES = {
    "systems": [
        dict(zip(NAMES, row, strict=True)) | {"disturbed": 0, "milliseconds_clean": True, "system": "x"} for row in ROWS
    ],
    "sentences": 1_000,
    "rounds": 3,
    "source": "val.en",
    "skipped": {},
    "machine": {"processor": "A & B", "cores": 2},
}


def test_a_choice_is_on_the_front_when_nothing_is_as_good_and_cheaper():
    found = front.choices(FIGURES)
    assert [one.speed for one in front.front(found, slowness)] == [2_000.0, 1_500.0]
    assert [one.bleu for one in front.front(found, front.size)] == [39.0, 41.0, 41.2]
    equal = [Choice("a", "torch", 1, 40.0, 10.0, 5), Choice("b", "torch", 1, 40.0, 9.0, 5)]
    assert front.front(equal, slowness) == equal[:1]


def test_the_picture_has_every_choice_twice_and_is_whole_xml():
    drawn = ET.fromstring(picture(FIGURES))
    titles = [one.text for one in drawn.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == 2 * len(FIGURES["systems"])
    assert titles[2].startswith("<b>, native, beam 1: BLEU 41.20")


def test_the_table_is_sorted_by_speed_and_marks_the_fronts():
    lines = front.table(FIGURES)
    assert [line[:2] for line in lines[1:5]] == ["*+", "*+", "  ", " +"]


@pytest.mark.parametrize("values", [(40.0, 41.0), (0.5, 99.0), (39.95, 40.05)])
def test_an_axis_has_some_round_numbers(values):
    assert 2 <= len(Scale(*values, 0, 100, False).ticks()) <= 9
    assert Scale(*values, 0, 100, True)(values[1]) == pytest.approx(100)


def test_models_are_told_apart_by_their_folders(tmp_path):
    one, other = tmp_path / "a" / "run", tmp_path / "b" / "run"
    assert list(name_models([str(one), str(other / "model")])) == ["run", "b/run"]
    with pytest.raises(UsageError, match="named twice"):
        name_models([str(one), str(one), str(one)])


def test_models_are_compared_from_files_to_a_picture(jumok, micro, tmp_path, monkeypatch):
    monkeypatch.setattr(front.decode, "STARTS", 1)
    for name in ("s", "t"):
        (tmp_path / name).write_text("a b c\nd e\n")
    files = ["--source", tmp_path / "s", "--target", tmp_path / "t"]
    chosen = ["--engines", "native,native-shortlist,torch", "--beams", "1,2", "--rounds", 1]
    answer = jumok("model", "compare", micro, *files, *chosen, "--out", tmp_path / "front.svg")
    assert answer.code == 0, answer.err
    assert answer.out.count("micro, native") == 4
    ET.parse(tmp_path / "front.svg")
