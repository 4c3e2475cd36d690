"""Races: the same for everybody, one after the other; stopped and gone on with; a page that needs nothing else."""

import json
import re
from itertools import pairwise

import pytest

from jumok.config import presets
from jumok.config.kinds import KINDS
from jumok.config.recipe import find_section
from jumok.errors import Resumable, UsageError
from jumok.events import read_events
from jumok.models import build
from jumok.race import measure, report
from jumok.race.contenders import FAR, contenders, scale_widths
from jumok.race.lanes import curve, lanes, race
from jumok.race.run import run, speed
from jumok.reports.curves import curves_svg
from jumok.runs.choose import choose
from jumok.storage.checkpoint import weights

TRANSLATORS = ["transformer", "rnn", "convs2s", "bytenet", "gpt"]
SMALL = {
    "data.pairs": 300,
    "vocabulary.size": 300,
    "model.d_model": 16,
    "training.tokens_per_update": 256,
    "training.validate_every": 2,
    "training.valid_pairs": 20,
    "decoding.extra_length": 5,
}
COMMON = {"corpus": "copy", "steps": 4, "changes": SMALL}


# ------------------------------------------------------------------ who runs


def test_all_contenders_have_the_same_text_vocabulary_budget_and_seed():
    field = contenders("tiny", TRANSLATORS, source="a.en", target="a.de", minutes=7)
    assert [one.name for one in field] == TRANSLATORS
    assert [one.recipe.model.kind for one in field] == TRANSLATORS
    for part in ("data", "vocabulary", "seed"):
        assert len({repr(getattr(one.recipe, part)) for one in field}) == 1
    assert {one.recipe.training.minutes for one in field} == {7}
    assert field[0].recipe.vocabulary == presets.get("tiny").vocabulary


def test_every_model_runs_with_every_seed():
    field = contenders("tiny", ["rnn", "gpt"], seeds=[1, 5], corpus="copy", steps=3)
    assert [one.name for one in field] == ["rnn-1", "gpt-1", "rnn-5", "gpt-5"]
    assert [one.recipe.seed for one in field] == [1, 1, 5, 5]


@pytest.mark.parametrize("kind", TRANSLATORS)
@pytest.mark.parametrize("wanted", [1_500_000, 4_000_000])
def test_a_model_can_be_as_wide_as_makes_so_many_weights(kind, wanted):
    model = scale_widths(choose(model=kind, corpus="copy").model, wanted, 8_000)
    made = build(model, 8_000, 8_000, device="meta")
    real = sum(tensor.numel() for tensor in weights(made).values())
    assert real == pytest.approx(wanted, rel=2 * FAR)


def test_more_weights_than_widths_can_make_are_told():
    with pytest.raises(UsageError, match="no width gives"):
        scale_widths(find_section("rnn")(), 10**12, 8_000)


@pytest.mark.parametrize(("models", "words"), [([], "at least one model"), (["rnn", "rnn"], "named twice")])
def test_a_race_needs_runners_and_each_once(models, words):
    with pytest.raises(UsageError, match=words):
        contenders("tiny", models, corpus="copy")


# ------------------------------------------------------------------ what it costs


@pytest.mark.parametrize("kind", ["transformer", "rnn"])
def test_growth_is_measured_for_every_length(kind):
    recipe = presets.get("tiny").change({"model.kind": kind, "model.d_model": 32})
    found = measure.growth(recipe, lengths=(4, 9))
    assert [point["length"] for point in found] == [4, 9]
    assert all(point["training_us"] > 0 < point["translating_ms"] for point in found)


def test_sentences_of_a_length_have_just_that_length():
    batch = measure.random_batch(7, 3)
    assert batch.source.shape == batch.target.shape == batch.labels.shape == (3, 7)
    assert batch.tokens == 21
    assert (batch.source[:, -1] == 3).all()
    assert (batch.target[:, 0] == 2).all()
    assert (batch.target[:, 1:] == batch.labels[:, :-1]).all()


def test_speed_is_that_of_a_usual_update_whatever_validations_take():
    times = enumerate((1.0, 2.0, 3.0, 60.0, 61.0))
    steps = [{"event": "step", "step": step, "tokens": 100, "seconds": seconds} for step, seconds in times]
    assert speed(steps) == pytest.approx(100.0)
    assert speed(steps[:1]) == 0.0


# ------------------------------------------------------------------ a race


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    out = tmp_path_factory.mktemp("race") / "race"
    return run(models=["transformer", "rnn"], out=out, lengths=(4, 8), **COMMON)


def test_a_race_ends_with_figures_of_everybody(raced):
    rows = raced.figures["contenders"]
    assert [row["name"] for row in rows] == ["transformer", "rnn"]
    for row in rows:
        assert row["steps"] == 4
        assert row["curve"][-1]["step"] == 4
        assert row["curve"][-1]["tokens"] > 0
        assert row["memory"] > 10_000_000
        assert row["training_tokens_per_second"] > 0
        assert len(row["samples"]) == 6
        assert len(row["growth"]) == 2
        assert row["parameters"] > 5_000
    assert json.loads((raced.folder / "report.json").read_bytes()) == raced.figures


def test_the_report_is_one_file_that_needs_nothing_else(raced):
    page = raced.report.read_text()
    assert page.count("<html") == page.count("</html>") == 1
    assert not re.findall(r"(?:src|href)=|url\(|@import|<script", page)
    assert page.count("<svg") == page.count("</svg>") >= 6
    assert "prefers-color-scheme" in page


def test_words_of_a_corpus_cannot_break_out_of_the_report(raced):
    figures = json.loads((raced.folder / "report.json").read_bytes())
    for row in figures["contenders"]:
        row["samples"][0]["text"] = row["name"] = "<script>alert(1)</script>'\""
    assert "<script" not in report.page(figures)


def test_the_table_for_a_diary_has_a_line_for_each(raced):
    lines = report.summary(raced.figures)
    assert len(lines) == 4
    assert len({line.count("|") for line in lines}) == 1


def test_a_race_that_is_over_is_not_run_again(raced):
    logs = [raced.folder / name / "events.jsonl" for name in ("transformer", "rnn")]
    before = [log.read_bytes() for log in logs]
    again = run(models=["transformer", "rnn"], out=raced.folder, lengths=(4, 8), **COMMON)
    assert [log.read_bytes() for log in logs] == before
    assert again.figures == raced.figures


def test_a_folder_that_holds_another_race_is_not_touched(raced):
    with pytest.raises(UsageError, match="another race"):
        run(models=["transformer", "gpt"], out=raced.folder, **COMMON)


def test_a_race_that_was_stopped_goes_on_to_the_same_end(raced, tmp_path):
    field = contenders("tiny", ["transformer"], **COMMON)
    tracks = lanes(tmp_path, field)
    heard = []

    def stop() -> bool:
        return any(event["event"] == "step" for event in heard)

    with pytest.raises(Resumable):
        race(tracks, follow=lambda contender, event: heard.append(event), stop=lambda: True)
    assert not tracks[0].finished
    race(tracks, follow=lambda contender, event: heard.append(event), stop=lambda: False)
    assert tracks[0].finished
    assert stop()
    losses = (tmp_path / "transformer" / "losses.tsv").read_bytes()
    assert losses == (raced.folder / "transformer" / "losses.tsv").read_bytes()


def test_a_run_that_fails_is_told_with_its_last_words(tmp_path):
    field = contenders("tiny", ["transformer"], source=str(tmp_path / "no.en"), target=str(tmp_path / "no.de"), steps=3)
    with pytest.raises(Exception, match=r"the run of transformer failed.*no\.en"):
        race(lanes(tmp_path / "race", field), follow=lambda contender, event: None, stop=lambda: False)


def test_a_curve_has_the_tokens_so_far(raced):
    events = list(read_events(raced.folder / "rnn" / "events.jsonl"))
    points = curve(events)
    assert [point["step"] for point in points] == [2, 4]
    assert points[1]["tokens"] == sum(event["tokens"] for event in events if event["event"] == "step")


def test_the_verb_prints_the_table_and_where_the_report_is(raced, jumok):
    changes = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    answer = jumok(
        "race", "--models", "transformer,rnn", "--corpus", "copy", "--steps", "4", "--out", raced.folder, *changes
    )
    assert answer.code == 0, answer.err
    assert answer.out.strip().endswith("report.html")
    assert "| transformer |" in answer.out


def test_every_kind_of_model_can_be_named():
    assert all(find_section(kind)().kind == kind for kind in KINDS)


# ------------------------------------------------------------------ log scales


def test_on_log_scales_a_power_is_a_straight_line():
    svg = curves_svg({"square": [(2.0**n, 3.0 * 4.0**n) for n in range(3, 10)]}, log=True)
    (points,) = re.findall(r'points="([^"]+)"', svg)
    places = [tuple(map(float, pair.split(","))) for pair in points.split()]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(places)]
    assert max(slopes) - min(slopes) < 0.02
    assert ">512<" in svg
