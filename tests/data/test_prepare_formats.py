"""Corpora as people have them, from their files to the token store: globs, tables, Parquet, addresses."""

import json
from pathlib import Path

import pytest

import jumok
from jumok.config import presets
from jumok.config.recipe import Recipe
from jumok.data import resolve
from jumok.data.prepare import folder, pipeline
from jumok.errors import DataError, UsageError
from jumok.runs.choose import choose
from jumok.runs.preparation import add_shortlist, list_dropped
from tests.conftest import MICRO
from tests.support.web import Site, serving

GREEK = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon"
WORDS = GREEK.split(" ")
PAIRS = [
    (f"{a.title()} sees {b} and {c}.", f"{a.title()} sieht {b} und {c}.")
    for a in WORDS
    for b in WORDS[:9]
    for c in WORDS[9:12]
]
SETTINGS = {"vocabulary.size": 400, "vocabulary.at_most": True, "data.hold_out": 40}


def prepared(out: Path, **data: object) -> folder.Prepared:
    recipe = presets.tiny().change(SETTINGS | {f"data.{name}": value for name, value in data.items()})
    trained, valid = resolve.resolve_all(recipe.data, recipe.seed, fetched=out.with_name("fetched"))
    return pipeline.prepare(recipe, trained, valid, out, report=lambda *_, **__: None, workers=0)


def stored(found: folder.Prepared) -> list[tuple[bytes, bytes]]:
    return [(found.store.source[row].tobytes(), found.store.target[row].tobytes()) for row in range(len(found.store))]


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> folder.Prepared:
    place = tmp_path_factory.mktemp("plain")
    for name, side in (("a.en", 0), ("a.de", 1)):
        (place / name).write_text("".join(f"{pair[side]}\n" for pair in PAIRS))
    return prepared(place / "p", source=str(place / "a.en"), target=str(place / "a.de"))


def test_files_of_a_glob_are_one_corpus_in_natural_order(plain, tmp_path):
    for number, start in enumerate(range(0, len(PAIRS), 50), start=1):
        for name, side in (("en", 0), ("de", 1)):
            text = "".join(f"{pair[side]}\n" for pair in PAIRS[start : start + 50])
            (tmp_path / f"part{number}.{name}").write_text(text)
    found = prepared(tmp_path / "p", source=str(tmp_path / "part*.en"), target=str(tmp_path / "part*.de"))
    assert stored(found) == stored(plain)
    assert found.store.lines.tolist() == plain.store.lines.tolist()
    (tmp_path / "part3.en").write_text((tmp_path / "part3.de").read_text())
    prepared(tmp_path / "p", source=str(tmp_path / "part*.en"), target=str(tmp_path / "part*.de"))
    rows = list(list_dropped(tmp_path / "p", reason="source copied to target"))
    assert len(rows) == 50
    assert rows[0]["where"] == f"{tmp_path / 'part3.en'} + {tmp_path / 'part3.de'}, line 1"
    assert rows[0]["source"] == PAIRS[100][1]


@pytest.mark.parametrize("columns", ["en,de", "2,3"])
def test_columns_of_a_table_are_found_by_name_or_number(plain, tmp_path, columns):
    head = "id\ten\tde\n" if columns == "en,de" else ""
    rows = "".join(f"{number}\t{source}\t{target}\n" for number, (source, target) in enumerate(PAIRS))
    (tmp_path / "a.tsv").write_text(head + rows)
    found = prepared(tmp_path / "p", table=str(tmp_path / "a.tsv"), columns=columns)
    assert stored(found) == stored(plain)
    assert found.summary["pairs"] == len(PAIRS)
    (tmp_path / "a.tsv").write_text(head + rows + rows.split("\n")[7] + "\n")
    prepared(tmp_path / "p", table=str(tmp_path / "a.tsv"), columns=columns)
    [again] = list_dropped(tmp_path / "p")
    assert (again["reason"], again["source"], again["target"]) == ("duplicate", *PAIRS[7])


def test_a_struct_of_languages_needs_a_direction_and_then_gives_the_same_store(plain, tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install jumok[columnar]")
    from pyarrow import parquet

    rows = [{"translation": {"de": target, "en": source}} for source, target in PAIRS]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "a.parquet", row_group_size=70)
    with pytest.raises(UsageError, match="column"):
        prepared(tmp_path / "p", table=str(tmp_path / "a.parquet"))
    found = prepared(tmp_path / "p", table=str(tmp_path / "a.parquet"), columns="en,de")
    assert stored(found) == stored(plain)


def test_a_corpus_behind_an_address_is_fetched_and_its_signature_is_nowhere(plain, tmp_path, monkeypatch):
    pytest.importorskip("aiohttp", reason="aiohttp is not installed: pip install jumok[remote]")
    monkeypatch.setattr("jumok.text.remote.PAUSE", 0.01)
    text = "".join(f"{source}\t{target}\n" for source, target in PAIRS).encode()
    with serving(Site(text, breaks=[1_000, 9_000])) as site:
        address = site.address.replace("train.en", "train.tsv") + "?X-Amz-Signature=secret123&part=1"
        recipe = presets.tiny().change(MICRO | SETTINGS | {"data.corpus": None, "data.table": address})
        run = jumok.train(recipe=recipe, out=tmp_path / "run").folder
        assert len(site.starts) >= 3, "asked again after each broken connection"
        before = len(site.starts)
        jumok.train(recipe=recipe.change({"training.steps": 8}), out=tmp_path / "run")
        assert len(site.starts) == before, "what is prepared is not fetched again"
    assert stored(folder.load(run / "data" / "prepared")) == stored(plain)
    for path in run.rglob("*"):
        if path.is_file():
            assert b"secret123" not in path.read_bytes(), path
    with pytest.raises(UsageError, match="address"):
        add_shortlist(run)


@pytest.mark.parametrize("spec", ["ftp://host/a.tsv", "https::s3://a/b.tsv", "https://me:word@host/a.tsv"])
def test_addresses_that_are_not_allowed_are_refused_before_anything_is_asked(spec):
    with pytest.raises((UsageError, DataError)) as raised:
        resolve.resolve_all(choose(table=spec, recipe="tiny").data, seed=1)
    assert "word@" not in str(raised.value)


def test_several_corpora_are_scored_each_by_itself(tmp_path):
    from jumok.events import read_events

    for name, pairs in (("one", PAIRS[:270]), ("two", [(source.upper(), target) for source, target in PAIRS[270:]])):
        for suffix, side in (("en", 0), ("de", 1)):
            (tmp_path / f"{name}.{suffix}").write_text("".join(f"{pair[side]}\n" for pair in pairs))
    named = [
        {"name": name, "source": str(tmp_path / f"{name}.en"), "target": str(tmp_path / f"{name}.de"), "share": share}
        for name, share in (("one", 1.0), ("two", 3.0))
    ]
    recipe: Recipe = presets.tiny().change(MICRO | SETTINGS | {"data.corpus": None, "data.corpora": named})
    run = jumok.train(recipe=recipe, out=tmp_path / "run").folder
    last = [event for event in read_events(run / "events.jsonl") if event["event"] == "validation"][-1]
    assert {"bleu", "bleu/one", "bleu/two"} <= last.keys()
    spans = folder.read_summary(run / "data" / "prepared")["corpora"]
    assert [(one["name"], one["share"]) for one in spans] == [("one", 1.0), ("two", 3.0)]
    named_languages = recipe.change({"languages.source": "en", "languages.target": "de"})  # by the names of the files
    assert presets.get(str(run / "recipe.toml")) == named_languages


def test_an_unfinished_last_line_of_a_jsonl_file_is_left_out_and_counted(tmp_path):
    rows = [json.dumps({"source": source, "target": target}) for source, target in PAIRS]
    path = tmp_path / "corrections.jsonl"
    path.write_text("".join(f"{row}\n" for row in rows))
    whole = prepared(tmp_path / "whole", table=str(path))
    for cut in ("{", '{"source": "Hal', '{"source": "a}\\"', rows[0][:-1]):
        path.write_text("".join(f"{row}\n" for row in rows) + cut)
        found = prepared(tmp_path / "cut", table=str(path))
        assert stored(found) == stored(whole)
        assert found.summary["left_out"] == whole.summary["left_out"] | {"unfinished last line": 1}
        assert found.summary["pairs"] == whole.summary["pairs"] + 1
    path.write_text("".join(f"{row}\n" for row in rows) + rows[0])  # whole, though no line feed follows
    assert "unfinished last line" not in prepared(tmp_path / "cut", table=str(path)).summary["left_out"]


@pytest.mark.parametrize("bad", ['{"source": "two", oops}', '{"source": "half\n', "half"])
def test_other_bad_rows_are_still_refused(tmp_path, bad):
    path = tmp_path / "corrections.jsonl"
    path.write_text("".join(f"{json.dumps({'source': s, 'target': t})}\n" for s, t in PAIRS) + bad)
    with pytest.raises(DataError, match=f"line {len(PAIRS) + 1}"):
        prepared(tmp_path / "p", table=str(path))
