"""Surveys of corpora and of what is prepared: languages, lengths in subwords, disk space."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from jumok.data import corpora
from jumok.data.inventory import list_data
from jumok.data.prepare import folder
from jumok.data.quality import lengths, survey
from jumok.data.quality.sides import LanguageCheck
from tests.data.test_prepare import run, small

ENGLISH = "The weather was so bad that we had to stay at home for the whole of the week, number {}."
GERMAN = "Das Wetter war so schlecht, dass wir die ganze Woche über zu Hause bleiben mussten, Nummer {}."
KOREAN = "날씨가 너무 나빠서 우리는 일주일 내내 집에 있어야 했습니다, 번호 {}."


def written(place: Path, first: str, second: str, names: tuple[str, str] = ("a.en", "a.de")) -> list[str]:
    for name, line in zip(names, (first, second), strict=True):
        (place / name).write_text("".join(f"{line.format(n)}\n" for n in range(60)), encoding="utf-8")
    return [str(place / name) for name in names]


# ---------------------------------------------------------------------- languages


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        (ENGLISH, GERMAN, None),
        (GERMAN, ENGLISH, "swapped"),
        (ENGLISH, ENGLISH + " It is so.", "same"),
        ("{} + 1", "= {}", None),
    ],
)
def test_swapped_files_and_files_of_one_language_are_noticed(tmp_path, first, second, problem):
    pytest.importorskip("py3langid", reason="py3langid is not installed: pip install jumok[serve]")
    files = written(tmp_path, first, second)
    assert survey.stats(corpora.from_paths(files)).languages == problem
    found = [finding.kind for finding in survey.check(files) if finding.kind.endswith("languages")]
    assert found == ([] if problem is None else [f"{problem} languages"])
    assert all(finding.severity == "warning" for finding in survey.check(files) if finding.kind in found)


def test_languages_of_different_scripts_need_no_statistics_and_unknown_names_say_nothing(tmp_path):
    files = written(tmp_path, KOREAN, ENGLISH, ("a.en", "a.ko"))
    assert survey.stats(corpora.from_paths(files)).languages == "swapped"
    assert survey.stats(corpora.from_paths(written(tmp_path, KOREAN, ENGLISH, ("a.one", "a.two")))).languages is None


def test_a_judge_sees_pairs_of_a_whole_block_and_then_no_more():
    languages = LanguageCheck(("en", "ko"))
    pairs = [(ENGLISH, KOREAN)] * 5_000 + [(KOREAN, ENGLISH)] * 20_000
    for start in range(0, len(pairs), survey.PAIRS):
        survey.ask(languages, pairs[start : start + survey.PAIRS])
    assert languages.problem == "swapped"
    asked = languages.asked
    for _ in range(20):
        survey.ask(languages, pairs[: survey.PAIRS])
    assert asked < languages.asked <= 500


# ---------------------------------------------------------------------- lengths


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("lengths")
    files = written(place, ENGLISH, GERMAN)
    for path in files:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
        lines = [line + " so" * (n % 40) for n, line in enumerate(lines)]
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
    recipe = small(*files, **{"vocabulary.at_most": True, "data.hold_out": 5, "data.clean.near_duplicates": False})
    run(recipe, place / "p")
    return place / "p"


def test_lengths_in_subwords_are_those_of_the_store(prepared, monkeypatch):
    monkeypatch.setattr(lengths, "TOGETHER", 7)
    found, store = lengths.measure(prepared), folder.load(prepared).store
    for number, side in enumerate((store.source, store.target)):
        plain = [len(side[row]) for row in range(len(store))]
        assert found.counts[number].tolist() == np.bincount(plain).tolist()
        for share in (0.05, 0.5, 0.95):
            assert found.percentile(number, share) == sorted(plain)[max(0, int(np.ceil(share * len(plain))) - 1)]
    bars = found.bars()
    assert sum(ours for _, ours, _ in bars) == sum(theirs for _, _, theirs in bars) == len(store)
    assert found.lines()[0].endswith("pairs train")


def test_stats_of_a_prepared_folder_print_a_histogram(prepared, jumok):
    out = jumok("data", "stats", prepared).out
    assert "subwords a sentence" in out
    assert "#" in out
    assert json.loads(jumok("data", "stats", prepared, "--json").out)["histogram"]


@pytest.mark.parametrize(("longest", "said"), [(40, True), (200, False)])
def test_many_pairs_that_are_too_long_are_noted(tmp_path, longest, said):
    files = written(tmp_path, ENGLISH, GERMAN)
    text = Path(files[0]).read_text(encoding="utf-8").split("\n")
    text[:5] = [line + " so" * 60 for line in text[:5]]
    Path(files[0]).write_text("\n".join(text), encoding="utf-8")
    recipe = small(*files, **{"vocabulary.at_most": True, "data.hold_out": 5, "data.clean.near_duplicates": False})
    notes: list[str] = []
    run(
        recipe.change({"data.longest": longest, "data.ratio": 1_000.0}), tmp_path / "p",
        report=lambda event, **values: notes.append(values["text"]) if event == "note" else None,
    )  # fmt: skip
    assert [f"longer than {longest} subwords" in note for note in notes] == [True] * said


# ---------------------------------------------------------------------- disk space


def test_prepared_fetched_and_unfinished_data_are_listed_with_their_sizes(prepared, tmp_path, jumok):
    shutil.copytree(prepared, tmp_path / "runs" / "a" / "data" / "prepared")
    for name, size in (("runs/a/data/fetched/x.gz", 700), ("p.fetched/y.gz", 900), ("p.work/parts/0.json", 11)):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(bytes(size))
    found = {entry.path.removeprefix(f"{tmp_path}/"): entry for entry in list_data([tmp_path])}
    kinds = {path: (entry.kind, entry.size) for path, entry in found.items()}
    whole = sum(path.stat().st_size for path in prepared.iterdir())
    assert kinds == {
        "p.fetched": ("fetched", 900), "p.work": ("unfinished", 11), "runs/a/data/fetched": ("fetched", 700),
        "runs/a/data/prepared": ("prepared", whole),
    }  # fmt: skip
    assert found["runs/a/data/prepared"].pairs == len(folder.load(prepared).store)
    out = jumok("data", "ls", tmp_path).out
    assert "fetched" in out
    assert out.strip().endswith("in all")
    rows = jumok("data", "ls", tmp_path, "--json").out.split("\n")[:-1]
    assert sum(json.loads(row)["size"] for row in rows) == whole + 1_611
