"""Table 3, small: rows keep the paper's factors, directions are judged by noise, a grid goes on after a stop."""

import gzip
import math
from pathlib import Path
from xml.etree import ElementTree

import pytest

from jumok.config import presets
from jumok.data.made import phrasebook
from jumok.errors import Resumable, UnknownName, UsageError
from jumok.lab import conduct
from jumok.lab.claim import Finding, lines
from jumok.lab.claims import table_3
from jumok.lab.claims.table_3 import MOST, ORDER, PAPER, SEEDS
from jumok.lab.laboratory import Lab
from jumok.lab.wording import LANGUAGES
from jumok.training.schedule import noam
from tests.lab.test_lab import MICRO

FEW = {"sentences": 8, "updates": 4}
TINY = {key: value for key, value in MICRO.items() if not key.startswith("model.")} | {"training.steps": 4}


def small_lab(folder: Path, **more) -> Lab:
    return Lab(folder, factor=0.02, common=TINY, **more)


def world(moved, *, seeds=(0.0, 0.002, -0.002)):
    """Numbers of a grid in which row r is away from base by `moved(r, measure)`, and base by its seeds."""
    base = {"ppl": math.log(8.0), "bleu": 30.0}
    away = {row: {measure: moved(row, measure) for measure in base} for row in PAPER if row != "base"}
    away |= {name: dict.fromkeys(base, shift) for name, shift in zip(SEEDS, seeds, strict=False)}
    more = {"parameters": 2e6, "minutes": 4.0}
    rows = {
        row: more | {"ppl": math.exp(base["ppl"] + one["ppl"]), "bleu": base["bleu"] + one["bleu"]}
        for row, one in away.items()
    }
    return {"corpus": "multi30k", "updates": 1_500, "asked": list(ORDER), "complete": True, "rows": rows}


def holds(numbers) -> bool:
    return Finding(table_3.CLAIM, numbers, "minutes", 1.0).holds


# ------------------------------------------------------------------------------------------ rows


@pytest.mark.parametrize("row", PAPER)
def test_a_row_changes_what_the_paper_changes_by_the_same_factor(row):
    lab = Lab("nowhere")
    here, base = (lab.recipe(table_3.changes_of(lab, name, 100, changed=True)) for name in (row, "base"))
    paper, paper_base = table_3.paper_recipe(row), presets.base()
    for name in type(base.model).model_fields.keys() - {"longest"}:
        ours, theirs = ([getattr(one.model, name) for one in two] for two in ((here, base), (paper, paper_base)))
        if name in ("d_k", "d_v"):
            side = ("d_k", "d_v").index(name)
            ours, theirs = ([one.model.head_widths[side] for one in two] for two in ((here, base), (paper, paper_base)))
        if name in table_3.SMALLER:
            assert ours[0] * theirs[1] == theirs[0] * ours[1], name
        else:
            assert ours == theirs, name
    assert here.training.label_smoothing == paper.training.label_smoothing
    alike = ("steps", "tokens_per_update", "optimizer", "schedule", "warmup", "beta2", "average", "validations")
    assert all(getattr(here.training, name) == getattr(base.training, name) for name in alike)
    assert (here.data, here.vocabulary, here.seed) == (base.data, base.vocabulary, base.seed)


@pytest.mark.parametrize("row", PAPER)
def test_the_learning_rate_changes_with_the_width_as_equation_3_says(row):
    ours = [table_3.scale_down(name) for name in (row, "base")]
    wanted = [noam(400, d_model=one["model.d_model"], warmup=400) for one in ours]
    assert ours[0]["training.peak"] / ours[1]["training.peak"] == pytest.approx(wanted[0] / wanted[1])


def test_every_row_of_the_table_is_there_and_is_tried_once():
    assert set(PAPER) == {"base", "big", *presets.TABLE_3}
    assert sorted(ORDER) == sorted([*PAPER, "base-2", "base-3"])
    assert ORDER[0] == "base"


def test_a_seed_of_base_is_base_but_for_the_seed():
    lab = Lab("nowhere")
    first, other = (table_3.changes_of(lab, name, 100, changed=True) for name in ("base", "base-3"))
    assert {key for key in first if first[key] != other[key]} == {"seed"}


def test_rows_can_be_chosen_and_an_unknown_one_is_told():
    assert table_3.choose_rows("D-p0, C-n2", "minutes") == ["base", "C-n2", "D-p0"]
    assert table_3.choose_rows("", "minutes") == list(ORDER)
    assert {"base", *MOST} == set(table_3.choose_rows("", "quick"))
    with pytest.raises(UnknownName, match="did you mean 'A-h32'"):
        table_3.choose_rows("A-h33", "minutes")
    with pytest.raises(UsageError):
        table_3.measure(Lab("nowhere"), updates=-1)


# ------------------------------------------------------------------------------------------ verdicts


def test_a_world_like_the_papers_holds_and_its_mirror_does_not():
    assert holds(world(table_3.paper_difference))
    mirror = world(lambda row, measure: -table_3.paper_difference(row, measure))
    assert not holds(mirror)
    for measure in ("ppl", "bleu"):
        assert "agrees" not in table_3.directions(mirror, measure).values()


def test_where_seeds_differ_as_much_as_rows_nothing_is_said():
    noisy = world(table_3.paper_difference, seeds=(0.0, 3.0, -3.0))
    assert not holds(noisy)
    for measure in ("ppl", "bleu"):
        assert set(table_3.directions(noisy, measure).values()) == {"noise", "alike"}


@pytest.mark.parametrize("row", MOST)
def test_each_row_that_the_paper_moves_most_is_needed(row):
    turned = world(lambda one, measure: (-1 if one == row else 1) * table_3.paper_difference(one, measure))
    assert not holds(turned)
    missing = world(table_3.paper_difference)
    del missing["rows"][row]
    assert not holds(missing)


def test_how_often_coins_agree_by_chance():
    assert table_3.chance(0, 7) == 1.0
    assert table_3.chance(5, 5) == 1 / 32
    assert table_3.chance(0, 0) == 1.0
    assert sum(table_3.chance(k, 9) - table_3.chance(k + 1, 9) for k in range(10)) == pytest.approx(1.0)


def test_where_every_row_is_base_in_truth_no_direction_agrees(tmp_path):
    numbers = table_3.measure(small_lab(tmp_path), rows="all", changed=False, **FEW)
    assert set(numbers["rows"]) == set(ORDER)
    assert len({(one["parameters"], one["ppl"]) for one in numbers["rows"].values()}) == len(SEEDS)
    for measure in ("ppl", "bleu"):
        assert set(table_3.directions(numbers, measure).values()) <= {"noise", "alike"}
    checks = table_3.check(numbers)
    assert [check.holds for check in checks[:1]] == [True]
    assert not any(check.holds for check in checks[1:])
    assert [check.part for check in checks if check.holds is None] == ["dropout"], "too few passes over the data"
    assert not holds(numbers)


# ------------------------------------------------------------------------------------------ the grid


def test_a_grid_that_was_cut_after_two_rows_goes_on_and_tells_what_is_missing(tmp_path):
    heard = []
    cut = small_lab(tmp_path, say=heard.append, stop=lambda: sum("minutes" in text for text in heard) >= 2)
    asked = {"rows": "base,D-p0,A-h1", **FEW}
    with pytest.raises(Resumable):
        conduct.find("table-3", cut, settings=asked)

    state = conduct.find("table-3", small_lab(tmp_path), settings={"rows": "found", **FEW})
    assert list(state.numbers["rows"]) == ["base", "D-p0"]
    assert not state.numbers["complete"]
    assert not state.checks[0].holds
    told = "\n".join(lines(state))
    assert "2 of the 22" in told
    assert told.count("not trained yet") >= 2 * 18

    heard = []
    whole = conduct.find("table-3", small_lab(tmp_path, say=heard.append), settings=asked)
    assert [text for text in heard if text.startswith("training")] == ["training: table 3 A-h1"]
    assert whole.checks[0].holds
    again = conduct.find("table-3", small_lab(tmp_path), settings={"rows": "found", **FEW})
    assert again.numbers["rows"] == whole.numbers["rows"]
    assert whole.numbers["rows"]["base"]["tokens"] == whole.numbers["rows"]["A-h1"]["tokens"]


def test_without_corpora_rows_are_trained_on_the_phrasebook_and_it_is_said(tmp_path):
    home = tmp_path / "data" / "multi30k"
    home.mkdir(parents=True)
    for split, count in (("train", 300), ("val", 10)):
        made = phrasebook.phrases("train" if split == "train" else "validation", count, seed=1)
        for name, texts in (("en", [one.english for one in made]), ("de", [one.korean for one in made])):
            (home / f"{split}.{name}.gz").write_bytes(gzip.compress("\n".join(texts).encode() + b"\n"))
    without, asked = small_lab(tmp_path / "lab"), {"rows": "base", **FEW}
    assert "phrasebook" in conduct.find("table-3", without, settings=asked).checks[0].text.en
    real = small_lab(tmp_path / "lab", data=tmp_path / "data")
    assert "Multi30k" in conduct.find("table-3", real, settings=asked).checks[0].text.en
    assert "phrasebook" in conduct.find("table-3", without, settings=asked).checks[0].text.en
    with pytest.raises(UsageError, match="multi30k"):
        conduct.find("table-3", small_lab(tmp_path / "lab", data=tmp_path), settings=asked)


@pytest.mark.parametrize("rows", [len(PAPER) + 2, 3, 1, 0])
def test_a_grid_of_any_number_of_rows_is_drawn_and_told(rows, tmp_path):
    numbers = world(table_3.paper_difference)
    numbers["rows"] = {row: numbers["rows"][row] for row in ORDER[:rows]}
    finding = Finding(table_3.CLAIM, numbers, "minutes", 1.0)
    assert finding.holds is (rows > 3)
    for language in LANGUAGES:
        for picture in table_3.draw(numbers, language):
            ElementTree.fromstring(picture.svg)
            assert "nan" not in picture.svg
        assert len(table_3.tabulate(numbers).cells(language)) == 1 + len(ORDER)
        assert conduct.write(finding, tmp_path / language, language=language)
