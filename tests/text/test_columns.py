"""--columns: which columns of a tsv or jsonl are source and target."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumok.errors import DataError, UsageError
from jumok.text.lines import read_table
from jumok.text.tables import BadRow, has_header, parse_columns, row_parser

CELL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\0"), max_size=5)


def table(folder: Path, text: str, name: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


@given(st.lists(st.lists(CELL, min_size=4, max_size=4), max_size=5), st.permutations(range(4)))
def test_columns_by_name_are_columns_by_number_of_the_rows_below_the_header(tmp_path_factory, rows, order):
    folder = tmp_path_factory.mktemp("tsv")
    names = ["id", "en", "de", "score"]
    source, target = order[:2]
    body = "".join("\t".join(row) + "\n" for row in rows)
    named = read_table(table(folder, "\t".join(names) + "\n" + body, "a.tsv"), columns=(names[source], names[target]))
    numbered = read_table(table(folder, body, "b.tsv"), columns=(str(source + 1), str(target + 1)))
    assert list(named) == list(numbered) == [(row[source], row[target]) for row in rows]


def test_a_tsv_without_columns_is_read_as_its_first_two_columns(tmp_path):
    path = table(tmp_path, "a\tb\tc\nd\te\n", "a.tsv")
    assert list(read_table(path)) == list(read_table(path, columns=("1", "2"))) == [("a", "b"), ("d", "e")]


def test_a_header_with_windows_line_ends_names_its_last_column_too(tmp_path):
    path = table(tmp_path, "en\tde\r\none\teins\r\n", "a.tsv")
    assert list(read_table(path, columns=("de", "en"))) == [("eins", "one")]


def test_a_row_with_too_few_columns_is_named_by_line_and_byte(tmp_path):
    path = table(tmp_path, "id\ten\tde\n1\tone\teins\n2\ttwo\n", "a.tsv")
    rows = read_table(path, columns=("en", "de"))
    assert next(rows) == ("one", "eins")
    with pytest.raises(DataError, match="2 of at least 3 columns") as raised:
        next(rows)
    assert raised.value.where == f"{path}, line 3, byte {9 + 11 + 5}"


def test_a_name_that_the_header_lacks_is_refused_with_the_names_it_has(tmp_path):
    path = table(tmp_path, "english\tgerman\none\teins\n", "a.tsv")
    with pytest.raises(UsageError, match="no column 'en'") as raised:
        list(read_table(path, columns=("en", "de")))
    assert "english, german" in raised.value.where
    assert "--columns 1,2" in raised.value.hint


def test_a_name_that_the_header_has_twice_is_refused(tmp_path):
    path = table(tmp_path, "en\ten\tde\n", "a.tsv")
    with pytest.raises(UsageError, match="more than one column 'en'"):
        list(read_table(path, columns=("en", "de")))


ROWS = {
    "keys": ({"en": "one", "de": "eins", "id": 1}, ("en", "de")),
    "the other way": ({"de": "eins", "en": "one"}, ("en", "de")),
    "inside translation": ({"translation": {"de": "eins", "en": "one", "fr": "un"}}, ("en", "de")),
    "dotted": ({"text": {"en": {"plain": "one"}, "de": "eins"}}, ("text.en.plain", "text.de")),
    "a key with a dot in it": ({"text.en": "one", "text": {"en": "no", "de": "eins"}}, ("text.en", "text.de")),
    "a key before translation": ({"en": "one", "translation": {"en": "no", "de": "eins"}}, ("en", "de")),
    "numbers as names": ({"1": "one", "2": "eins"}, ("1", "2")),
}


@pytest.mark.parametrize("case", ROWS)
def test_columns_of_jsonl_are_keys_wherever_they_are(tmp_path, case):
    row, columns = ROWS[case]
    path = table(tmp_path, json.dumps(row) + "\n", "a.jsonl")
    assert list(read_table(path, columns=columns)) == [("one", "eins")]
    assert list(read_table(path, columns=columns[::-1])) == [("eins", "one")]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ('{"en": "one"}', "a row has en, but not de"),
        ('{"en": "one", "translation": {"fr": "un"}}', "but not de; its translation has fr"),
        ('{"en": "one", "de": null}', "de is null"),
        ('{"en": "one", "de": ["eins"]}', "de is of type list"),
        ('{"en": "one", "de": "a\\u0000"}', "de contains NUL"),
        ('{"en": "one", "de": "a\\ud800"}', "unpaired surrogate"),
        ("[]", "not a JSON object"),
    ],
)
def test_a_jsonl_row_without_the_named_texts_is_bad(row, problem):
    with pytest.raises(BadRow, match=problem):
        row_parser("a.jsonl", columns=("en", "de"))(row)


def test_only_a_tsv_read_by_names_has_a_header():
    assert has_header("a.tsv.gz", ("en", "de"))
    assert not has_header("a.tsv", ("1", "2"))
    assert not has_header("a.tsv", None)
    assert not has_header("a.jsonl", ("en", "de"))


@pytest.mark.parametrize("text", ["en", "en,", "en,de,fr", "en,en", ""])
def test_columns_are_two_different_names(text):
    with pytest.raises(UsageError):
        parse_columns(text)
    assert parse_columns(" en, de ") == ("en", "de")


@pytest.mark.parametrize("columns", [("0", "1"), ("2", "02")])
def test_column_numbers_count_from_1_and_differ(tmp_path, columns):
    with pytest.raises(UsageError):
        read_table(table(tmp_path, "a\tb\n", "a.tsv"), columns=columns)
