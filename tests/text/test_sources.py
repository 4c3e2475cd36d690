"""What a user types for a corpus becomes the same list of files everywhere, or an error that says what is missing."""

import glob
import os
import random
from pathlib import Path

import pytest

from jumok.errors import DataError, UsageError
from jumok.text import sources
from jumok.text.sources import expand, match, natural


def fill(folder: Path, names: list[str]) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("text\n")
    return folder


def shuffle(names: list[str]) -> list[str]:
    return random.Random(3).sample(names, len(names))


def names(folder: Path, spec: str) -> list[str]:
    return [str(Path(path).relative_to(folder)) for path in expand(str(folder / spec))]


def test_numbers_in_names_sort_as_numbers_whatever_order_the_file_system_has(tmp_path, monkeypatch):
    ordered = ["a-1.en", "a-2.en", "a-09.en", "a-10.en", "a-10b.en", "a-100.en", "b.en"]
    fill(tmp_path, ordered)
    listing, globbing = os.listdir, glob.iglob
    monkeypatch.setattr(os, "listdir", lambda path: shuffle(listing(path)))
    monkeypatch.setattr(glob, "iglob", lambda *args, **options: shuffle(list(globbing(*args, **options))))
    assert names(tmp_path, "") == ordered
    assert names(tmp_path, "*.en") == ordered
    assert sorted(shuffle(ordered), key=natural) == ordered != shuffle(ordered)


def test_a_glob_reaches_into_folders_with_two_stars_and_takes_files_only(tmp_path):
    fill(tmp_path, ["1.en", "x/2.en", "x/y/3.en", "x/y/3.de", ".hidden.en", "x/.git/4.en"])
    (tmp_path / "folder.en").mkdir()
    assert names(tmp_path, "*.en") == ["1.en"]
    assert names(tmp_path, "x/*.en") == ["x/2.en"]
    assert names(tmp_path, "**/*.en") == ["1.en", "x/2.en", "x/y/3.en"]
    assert names(tmp_path, "x/y/3.[de]?") == ["x/y/3.de", "x/y/3.en"]


def test_a_name_that_exists_is_that_file_even_if_it_looks_like_a_glob(tmp_path):
    fill(tmp_path, ["a[1].en", "a1.en"])
    assert names(tmp_path, "a[1].en") == ["a[1].en"]


def test_a_folder_stands_for_its_texts_and_tables_only(tmp_path):
    texts = ["a.en", "a.pt", "b.txt.gz", "c.tsv", "d.jsonl.zst", "e.parquet", "f.arrow", "train"]
    others = ["README.md", "LICENSE", ".hidden", "x.json", "x.png", "x.zip", "x.json.gz", "a.en~", "sub/z.en"]
    fill(tmp_path, texts + others + ["cache-0123abc.arrow", "b.parquet.fetching", "b.parquet.fetching.json"])
    os.mkfifo(tmp_path / "pipe")
    assert names(tmp_path, "") == texts


def test_a_dataset_saved_by_hugging_face_is_its_shards(tmp_path):
    shards = [f"data-{n:05}-of-00012.arrow" for n in range(12)]
    fill(tmp_path, [*shards, "dataset_info.json", "state.json", "cache-8f3.arrow"])
    assert names(tmp_path, "") == shards


def test_no_file_is_opened(tmp_path, monkeypatch):
    fill(tmp_path, ["a.en", "a.de", "b.en", "b.de"])
    for path in tmp_path.iterdir():
        path.chmod(0)
    monkeypatch.setattr("builtins.open", lambda *args, **options: pytest.fail(f"opened {args}"))
    assert len(match(str(tmp_path / "*.en"), str(tmp_path / "*.de"))) == 2


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("news/train.em", "news/train.en"),
        ("new/*.en", "news"),
        ("news/trian*.en", "news/train.en"),
        ("empty", "ls -la"),
    ],
)
def test_what_matches_nothing_is_refused_with_the_nearest_name(tmp_path, monkeypatch, spec, hint):
    monkeypatch.chdir(fill(tmp_path, ["news/train.en", "news/valid.de"]))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError) as raised:
        expand(spec)
    assert hint in raised.value.hint


def test_a_folder_with_texts_only_further_down_says_how_to_reach_them(tmp_path, monkeypatch):
    monkeypatch.chdir(fill(tmp_path, ["corpus/data/train.parquet", "corpus/README.md"]))
    with pytest.raises(DataError, match="no text in the folder") as raised:
        expand("corpus")
    assert expand(raised.value.hint.removeprefix("try: ")) == ["corpus/data/train.parquet"]


def test_standard_input_stays_standard_input():
    assert expand("-") == ["-"]


# ------------------------------------------------------------------------------------------ two sides


def test_the_files_of_two_sides_are_matched_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(fill(tmp_path, [f"{n}.{language}" for n in (1, 2, 10) for language in ("en", "de")]))
    assert match("*.en", "*.de") == [("1.en", "1.de"), ("2.en", "2.de"), ("10.en", "10.de")]


def test_folders_of_two_languages_are_matched(tmp_path, monkeypatch):
    monkeypatch.chdir(fill(tmp_path, ["en/a.txt", "en/b.txt", "de/a.txt", "de/b.txt"]))
    assert match("en", "de") == [("en/a.txt", "de/a.txt"), ("en/b.txt", "de/b.txt")]


def test_a_missing_partner_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(fill(tmp_path, ["n1.en", "n2.en", "n3.en", "n1.de", "n3.de"]))
    with pytest.raises(DataError, match=r"3 files match .* but 2 files match") as raised:
        match("*.en", "*.de")
    assert raised.value.where == "number 2 is n2.en on the source side and n3.de on the target side"


def test_a_side_that_ends_early_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(fill(tmp_path, ["n1.en", "n2.en", "n3.en", "n1.de", "n2.de"]))
    with pytest.raises(DataError) as raised:
        match("*.en", "*.de")
    assert raised.value.where == "number 3 is n3.en on the source side and nothing on the target side"
    with pytest.raises(DataError, match="1 file match") as raised:
        match("n1.en", "*.de")
    assert raised.value.where == "number 2 is nothing on the source side and n2.de on the target side"


def test_the_same_names_in_another_order_are_never_joined(tmp_path, monkeypatch):
    monkeypatch.chdir(fill(tmp_path, ["a/1/x.en", "b/0/y.en", "c/0/y.de", "d/1/x.de"]))
    monkeypatch.setattr(sources, "_keys", lambda paths: [tuple(Path(path).parts[1:2]) for path in paths])
    with pytest.raises(DataError, match="different orders") as raised:
        match("*/*/*.en", "*/*/*.de")
    assert "a/1/x.en on the source side and c/0/y.de" in raised.value.where


def test_files_whose_names_have_nothing_in_common_are_matched_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(fill(tmp_path, ["en/first", "en/second", "de/eins", "de/zwei"]))
    assert match("en", "de") == [("en/first", "de/eins"), ("en/second", "de/zwei")]


def test_addresses_stay_addresses_and_are_checked():
    assert expand("https://example.org/a.en.gz") == ["https://example.org/a.en.gz"]
    with pytest.raises(UsageError, match="protocol"):
        expand("ftp://example.org/a.en")
